package gss

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-krb5/krb5/iana/etypeID"
	"github.com/go-krb5/krb5/iana/nametype"
	"github.com/go-krb5/krb5/keytab"
	"github.com/go-krb5/krb5/messages"
	"github.com/go-krb5/krb5/types"
)

const realm = "EXAMPLE.COM"

// A service has a keytab, as its KDC would.
type service struct {
	Acceptor
	keys *keytab.Keytab
	key  int32
}

func newService(t testing.TB, key int32) *service {
	t.Helper()
	s := &service{Acceptor: Acceptor{Service: "ldap"}, keys: keytab.New(), key: key}
	if err := s.keys.AddEntry("ldap/here", realm, "secret", time.Now(), 1, key); err != nil {
		t.Fatal(err)
	}
	return s
}

// ticket returns a request of a client with a ticket from a time to a time.
func (s *service) ticket(t testing.TB, from, to time.Time) Request {
	t.Helper()
	tkt, key, err := messages.NewTicket(types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "ann"), realm,
		types.NewPrincipalName(nametype.KRB_NT_SRV_HST, "ldap/here"), realm, types.NewKrbFlags(), s.keys, s.key, 1, from, from, to, to)
	if err != nil {
		t.Fatal(err)
	}
	return Request{Ticket: tkt, Key: key, Name: "ann", Realm: realm, Flags: Mutual | Replay | Sequence | Confidentiality | Integrity}
}

func (s *service) now(t testing.TB) Request {
	now := time.Now().UTC()
	return s.ticket(t, now, now.Add(time.Hour))
}

func (s *service) accept(token []byte, bindings ...[]byte) (*Accepted, error) {
	return s.Accept(token, s.keys, bindings, time.Now())
}

func initiate(t testing.TB, r Request) (*Initiation, []byte) {
	t.Helper()
	begun, token, err := Initiate(r)
	if err != nil {
		t.Fatal(err)
	}
	return begun, token
}

// both establishes a context, and returns what both sides have.
func both(t testing.TB, s *service, r Request) (*Context, *Accepted) {
	t.Helper()
	begun, token := initiate(t, r)
	far, err := s.accept(token, r.Bindings)
	if err != nil {
		t.Fatal(err)
	}
	if far.Reply == nil {
		near := &Context{key: begun.auth.SubKey, theirs: fromAcceptor, send: uint64(begun.auth.SeqNumber)}
		near.seen.next = near.send
		near.etype, err = cipher(near.key.KeyType)
		if err != nil {
			t.Fatal(err)
		}
		return near, far
	}
	near, err := begun.Finish(far.Reply)
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}

// pair returns both sides of a context.
func pair(t testing.TB) (client, server *Context) {
	a, b := both(t, newService(t, etypeID.AES256_CTS_HMAC_SHA1_96), newService(t, etypeID.AES256_CTS_HMAC_SHA1_96).now(t))
	return a, b.Context
}

// Every kind of key works, with and without an answer of the server, and with an answer that has no key.
func TestContexts(t *testing.T) {
	for _, key := range []int32{etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128} {
		for _, flags := range []uint32{0, Mutual, Mutual | Confidentiality | Integrity} {
			s := newService(t, key)
			r := s.now(t)
			r.Flags = flags
			near, far := both(t, s, r)
			if far.Client != "ann@"+realm || far.Flags != flags || (far.Reply != nil) != (flags&Mutual != 0) {
				t.Errorf("accepted %+v, want the flags %d", far, flags)
			}
			if bytes.Equal(far.key.KeyValue, r.Key.KeyValue) {
				t.Error("the context uses the key of the ticket")
			}
			exchange(t, near, far.Context)
		}
		// An answer without a key: the key of the client is used.
		s := newService(t, key)
		r := s.now(t)
		begun, token := initiate(t, r)
		far, err := s.accept(token)
		if err != nil {
			t.Fatal(err)
		}
		far.Context = &Context{key: begun.auth.SubKey, mine: fromAcceptor}
		far.seen.next = uint64(begun.auth.SeqNumber)
		if far.etype, err = cipher(key); err != nil {
			t.Fatal(err)
		}
		if err := far.answer(r.Key, &begun.auth, types.EncryptionKey{}); err != nil {
			t.Fatal(err)
		}
		near, err := begun.Finish(far.Reply)
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, near, far.Context)
	}
}

// exchange sends something both ways.
func exchange(t *testing.T, a, b *Context) {
	t.Helper()
	for range 2 {
		for _, seal := range []bool{false, true} {
			token, err := a.Wrap(seal, []byte("payload"))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := b.Unwrap(seal, token); err != nil || string(got) != "payload" {
				t.Fatalf("%q, %v", got, err)
			}
		}
		a, b = b, a
	}
}

// A token is refused with a reason if anything about it is wrong.
func TestAcceptRefuses(t *testing.T) {
	s := newService(t, etypeID.AES256_CTS_HMAC_SHA1_96)
	now := time.Now().UTC()
	good := s.now(t)
	_, token := initiate(t, good)
	other := newService(t, etypeID.AES256_CTS_HMAC_SHA1_96)
	other.keys = keytab.New()
	if err := other.keys.AddEntry("ldap/here", realm, "another", time.Now(), 1, other.key); err != nil {
		t.Fatal(err)
	}
	request := func(r Request) []byte {
		_, token := initiate(t, r)
		return token
	}
	foreign, bound := good, good
	foreign.Name = "bob"
	bound.Bindings = []byte("tls-server-end-point:x")
	http := &service{Acceptor: Acceptor{Service: "HTTP"}, keys: s.keys}
	for _, c := range []struct {
		name  string
		at    *service
		token []byte
		now   time.Time
		want  string
	}{
		{"octets", s, []byte("hello"), now, ErrToken.Error()},
		{"nothing", s, nil, now, ErrToken.Error()},
		{"another service", http, token, now, "the ticket is for ldap/here@EXAMPLE.COM, not for a principal HTTP/HOST"},
		{"no key", &service{Acceptor: Acceptor{Service: "ldap"}, keys: keytab.New()}, token, now, "the keytab has no key of ldap/here@EXAMPLE.COM with version 1"},
		{"another key", other, token, now, "the keytab has another key of ldap/here@EXAMPLE.COM than the KDC"},
		{"ended", s, request(s.ticket(t, now.Add(-2*time.Hour), now.Add(-time.Hour))), now, "the ticket of ann@EXAMPLE.COM has ended"},
		{"too early", s, request(s.ticket(t, now.Add(time.Hour), now.Add(2*time.Hour))), now, "the ticket of ann@EXAMPLE.COM is not valid yet"},
		{"clock", s, request(good), now.Add(10 * time.Minute), "the clocks of ann@EXAMPLE.COM and of this server differ by"},
		{"somebody's ticket", s, request(foreign), now, "the ticket is not of bob@EXAMPLE.COM"},
		{"another channel", s, request(bound), now, "the token is bound to another channel"},
	} {
		if _, err := c.at.Accept(c.token, c.at.keys, [][]byte{[]byte("tls-server-end-point:y")}, c.now); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := s.accept(request(bound), []byte("a"), bound.Bindings); err != nil {
		t.Errorf("bound to this channel: %v", err)
	}
	// The token itself was good, and it is accepted once.
	if _, err := s.accept(token); err != nil {
		t.Error(err)
	}
	if _, err := s.accept(token); err == nil || !strings.Contains(err.Error(), "used before") {
		t.Errorf("twice: %v", err)
	}
	fresh := request(good)
	for i := range fresh {
		forged := bytes.Clone(fresh)
		forged[i] ^= 1
		if c, err := s.accept(forged); err == nil && c.Client != "ann@"+realm {
			t.Errorf("with octet %d changed, the client is %s", i, c.Client)
		}
		if _, err := s.accept(fresh[:i]); err == nil {
			t.Errorf("cut after %d octets, a token is accepted", i)
		}
	}
}

// A token is remembered until its time is over, and not for ever.
func TestReplays(t *testing.T) {
	var r replays
	now := time.Now()
	for i := range 40 {
		at := now.Add(time.Duration(i) * time.Minute)
		if err := r.add(fmt.Append(nil, i), at); err != nil {
			t.Fatal(err)
		}
		for j := max(0, i-9); j <= i; j++ {
			if r.add(fmt.Append(nil, j), at) == nil {
				t.Fatalf("after %d minutes, a token is forgotten", i-j)
			}
		}
		if n := len(r.now) + len(r.old); n > 20 {
			t.Fatalf("%d tokens are kept", n)
		}
	}
}

// A server that does not have the key of its principal is found out.
func TestFinishRefuses(t *testing.T) {
	s := newService(t, etypeID.AES256_CTS_HMAC_SHA1_96)
	begun, token := initiate(t, s.now(t))
	far, err := s.accept(token)
	if err != nil {
		t.Fatal(err)
	}
	near, err := begun.Finish(far.Reply)
	if err != nil {
		t.Fatal(err)
	}
	for i := range far.Reply {
		forged := bytes.Clone(far.Reply)
		forged[i] ^= 1
		if c, err := begun.Finish(forged); err == nil && !bytes.Equal(c.key.KeyValue, near.key.KeyValue) {
			t.Errorf("with octet %d changed, the answer gives another key", i)
		}
	}
	begun, _ = initiate(t, s.now(t))
	if _, err := begun.Finish(far.Reply); err == nil || !strings.Contains(err.Error(), "does not have the key") {
		t.Errorf("the answer to another request: %v", err)
	}
}

// A token with a changed octet, of the wrong kind, from the wrong side, or that arrives twice is refused.
func TestUnwrap(t *testing.T) {
	for _, seal := range []bool{false, true} {
		a, b := pair(t)
		token, err := b.Wrap(seal, []byte("payload"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range token {
			forged := bytes.Clone(token)
			forged[i] ^= 1
			if got, err := a.Unwrap(seal, forged); err == nil {
				t.Errorf("with octet %d changed: %q", i, got)
			}
			if _, err := a.Unwrap(seal, token[:i]); err == nil {
				t.Errorf("cut after %d octets, a token is accepted", i)
			}
		}
		if _, err := a.Unwrap(!seal, token); !errors.Is(err, errWrap) {
			t.Errorf("a token of the other kind: %v", err)
		}
		if _, err := b.Unwrap(seal, token); !errors.Is(err, errWrap) {
			t.Errorf("a token of one's own: %v", err)
		}
		rotated := append(bytes.Clone(token[:headerSize]), token[len(token)-5:]...)
		rotated = append(rotated, token[headerSize:len(token)-5]...)
		rotated[7] = 5
		if got, err := a.Unwrap(seal, rotated); err != nil || string(got) != "payload" {
			t.Errorf("rotated: %q, %v", got, err)
		}
		if _, err := a.Unwrap(seal, token); !errors.Is(err, errReplay) {
			t.Errorf("twice: %v", err)
		}
	}
}

// Tokens may arrive in another order, but none twice, and none may be missing for long.
func TestWindow(t *testing.T) {
	w := window{next: 5}
	for _, c := range []struct {
		n  uint64
		ok bool
	}{{4, false}, {6, true}, {6, false}, {8, true}, {5, true}, {5, false}, {7, true}, {8, false}, {9, true}} {
		if err := w.add(c.n); (err == nil) != c.ok {
			t.Errorf("%d: %v", c.n, err)
		}
	}
	if len(w.early) > 0 || w.next != 10 {
		t.Errorf("%+v", w)
	}
	for n := range uint64(mostEarly) {
		if err := w.add(11 + n); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.add(11 + mostEarly); err == nil {
		t.Error("a token is missing for ever")
	}
}

func FuzzUnwrap(f *testing.F) {
	a, b := pair(f)
	first := b.send
	for _, seal := range []bool{false, true} {
		token, err := b.Wrap(seal, []byte("payload"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(token, seal)
	}
	f.Fuzz(func(t *testing.T, token []byte, seal bool) {
		was := bytes.Clone(token)
		a.seen = window{next: first}
		if got, err := a.Unwrap(seal, token); err == nil && string(got) != "payload" {
			t.Fatalf("%x gives %q", token, got)
		}
		if !bytes.Equal(token, was) {
			t.Fatal("the caller's octets were changed")
		}
	})
}

func FuzzFinish(f *testing.F) {
	s := newService(f, etypeID.AES256_CTS_HMAC_SHA1_96)
	begun, token := initiate(f, s.now(f))
	far, err := s.accept(token)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(far.Reply)
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := begun.Finish(b); err == nil && !bytes.Equal(c.key.KeyValue, far.key.KeyValue) {
			t.Fatalf("%x gives another key", b)
		}
	})
}

func FuzzAccept(f *testing.F) {
	s := newService(f, etypeID.AES256_CTS_HMAC_SHA1_96)
	_, token := initiate(f, s.now(f))
	f.Add(token)
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := s.accept(b); err == nil && c.Client != "ann@"+realm {
			t.Fatalf("%x is of %s", b, c.Client)
		}
	})
}

func BenchmarkWrap(b *testing.B) {
	for _, seal := range []bool{false, true} {
		b.Run(map[bool]string{false: "integrity", true: "privacy"}[seal], func(b *testing.B) {
			sec, peer := pair(b)
			payload := make([]byte, 1000)
			for b.Loop() {
				token, err := sec.Wrap(seal, payload)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := peer.Unwrap(seal, token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
