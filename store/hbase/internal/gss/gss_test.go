package gss

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-krb5/krb5/asn1tools"
	"github.com/go-krb5/krb5/crypto"
	"github.com/go-krb5/krb5/iana/asn1apptag"
	"github.com/go-krb5/krb5/iana/etypeID"
	"github.com/go-krb5/krb5/iana/keyusage"
	"github.com/go-krb5/krb5/iana/msgtype"
	"github.com/go-krb5/krb5/iana/nametype"
	"github.com/go-krb5/krb5/keytab"
	"github.com/go-krb5/krb5/messages"
	"github.com/go-krb5/krb5/types"
	"github.com/go-krb5/x/encoding/asn1"
)

const realm = "EXAMPLE.COM"

// A peer speaks the server's side.
type peer struct {
	keys   *keytab.Keytab
	etype  int32
	subkey bool // whether it answers with a key of its own
	offer  byte
	room   uint32
	chosen byte
	sec    *secContext
}

func newPeer(t testing.TB, etype int32, subkey bool) *peer {
	t.Helper()
	p := &peer{keys: keytab.New(), etype: etype, subkey: subkey, offer: 7, room: 1 << 12}
	if err := p.keys.AddEntry("hbase/rs1", realm, "secret", time.Now(), 1, etype); err != nil {
		t.Fatal(err)
	}
	return p
}

// login returns a Login that has a ticket for the peer.
func (p *peer) login(t testing.TB, protection string) *Login {
	t.Helper()
	l, err := New(Options{Principal: "ldapd/me@" + realm, Server: "hbase/_HOST", Protection: protection})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	tkt, key, err := messages.NewTicket(types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "ldapd/me"), realm,
		types.NewPrincipalName(nametype.KRB_NT_SRV_HST, "hbase/rs1"), realm, types.NewKrbFlags(), p.keys, p.etype, 1, now, now, now.Add(time.Hour), now)
	if err != nil {
		t.Fatal(err)
	}
	l.tickets["rs1"] = &ticket{tkt, key, now.Add(time.Hour), now.Add(time.Hour)}
	return l
}

// accept checks the first token and returns the answer.
func (p *peer) accept(token []byte) ([]byte, error) {
	_, message, err := unframe(token)
	if err != nil {
		return nil, err
	}
	var req messages.APReq
	if err := req.Unmarshal(message); err != nil {
		return nil, err
	}
	if ok, err := req.Verify(p.keys, time.Minute, types.HostAddress{}, nil); !ok {
		return nil, err
	}
	part := messages.EncAPRepPart{CTime: req.Authenticator.CTime, Cusec: req.Authenticator.Cusec, SequenceNumber: 4711}
	p.sec = &secContext{key: req.Authenticator.SubKey, mine: fromAcceptor, send: 4711}
	p.sec.seen.next = uint64(req.Authenticator.SeqNumber)
	et, err := crypto.GetEtype(p.etype)
	if err != nil {
		return nil, err
	}
	p.sec.etype = et
	if p.subkey {
		if p.sec.key, err = types.GenerateEncryptionKey(et); err != nil {
			return nil, err
		}
		part.Subkey = p.sec.key
		p.sec.mine |= acceptorSubkey
		p.sec.theirs |= acceptorSubkey
	}
	b, err := asn1.Marshal(part)
	if err != nil {
		return nil, err
	}
	sealed, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(b, asn1apptag.EncAPRepPart), req.Ticket.DecryptedEncPart.Key, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, err
	}
	if b, err = asn1.Marshal(messages.APRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP, EncPart: sealed}); err != nil {
		return nil, err
	}
	return frame(tokenReply, asn1tools.AddASNAppTag(b, asn1apptag.APREP))
}

func success(token []byte) []byte { return appendToken(make([]byte, 4), token) }

func refuse(class, text string) []byte {
	return appendToken(appendToken([]byte{0, 0, 0, 1}, []byte(class)), []byte(text))
}

// serve makes the exchange, and then returns each frame that arrives as it is.
func (p *peer) serve(c net.Conn) error {
	hello := make([]byte, len(preamble))
	if _, err := io.ReadFull(c, hello); err != nil || string(hello) != preamble {
		return fmt.Errorf("preamble %q: %w", hello, err)
	}
	token, err := readFrame(c)
	if err != nil {
		return err
	}
	reply, err := p.accept(token)
	if err != nil {
		return err
	}
	if _, err := c.Write(success(reply)); err != nil {
		return err
	}
	if token, err = readFrame(c); err != nil || len(token) > 0 {
		return fmt.Errorf("the second token is %q: %w", token, err)
	}
	if reply, err = p.sec.wrap(false, binary.BigEndian.AppendUint32(nil, uint32(p.offer)<<24|p.room)); err != nil {
		return err
	}
	if _, err := c.Write(success(reply)); err != nil {
		return err
	}
	if token, err = readFrame(c); err != nil {
		return err
	}
	choice, err := p.sec.unwrap(false, token)
	if err != nil || len(choice) != 4 {
		return fmt.Errorf("choice %q: %w", choice, err)
	}
	if p.chosen = choice[0]; p.chosen == protections["authentication"] {
		_, err := io.Copy(c, c)
		return err
	}
	seal := p.chosen == protections["privacy"]
	for {
		token, err := readFrame(c)
		if err != nil {
			return err
		}
		if len(token) > int(p.room) {
			return fmt.Errorf("a token of %d octets", len(token))
		}
		b, err := p.sec.unwrap(seal, token)
		if err != nil {
			return err
		}
		if reply, err = p.sec.wrap(seal, b); err != nil {
			return err
		}
		if _, err := c.Write(appendToken(nil, reply)); err != nil {
			return err
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	n, err := readInt(r)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	return b, err
}

// A dripping connection gives one octet a Read.
type dripping struct{ net.Conn }

func (d dripping) Read(b []byte) (int, error) { return d.Conn.Read(b[:min(1, len(b))]) }

// Every protection works with every kind of key, with frames that are cut at every octet, and large writes are divided.
func TestProtections(t *testing.T) {
	for _, et := range []int32{etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128} {
		for protection := range protections {
			for _, subkey := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d-%s-%v", et, protection, subkey), func(t *testing.T) {
					p := newPeer(t, et, subkey)
					near, far := net.Pipe()
					defer near.Close()
					served := make(chan error, 1)
					go func() { served <- p.serve(far) }()
					c, err := p.login(t, protection).Client(t.Context(), dripping{near}, "RS1")
					if err != nil {
						near.Close()
						t.Fatal(err, <-served)
					}
					for _, n := range []int{1, 15, 16, 17, 1000, 10_000} {
						sent, got := make([]byte, n), make([]byte, n)
						rand.Read(sent)
						go func() {
							if _, err := c.Write(sent); err != nil {
								t.Error(err)
								near.Close()
							}
						}()
						if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
							t.Fatalf("%d octets: %v", n, err)
						}
					}
					if near.Close(); p.chosen != protections[protection] {
						t.Errorf("chosen was %d: %v", p.chosen, <-served)
					}
				})
			}
		}
	}
}

// answer returns the error of a client to whom the server writes b after the first token, and then closes.
func answer(t *testing.T, b []byte) error {
	t.Helper()
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		hello := make([]byte, len(preamble))
		if _, err := io.ReadFull(far, hello); err == nil {
			if _, err = readFrame(far); err == nil {
				_, _ = far.Write(b)
			}
		}
	}()
	_, err := newPeer(t, etypeID.AES256_CTS_HMAC_SHA1_96, false).login(t, "privacy").Client(t.Context(), near, "rs1")
	return err
}

// A client does nothing without Kerberos, and says what a server answered.
func TestRefused(t *testing.T) {
	krbError := messages.NewKRBError(types.NewPrincipalName(nametype.KRB_NT_SRV_HST, "hbase/rs1"), realm, 37, "")
	b, err := krbError.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	skew, err := frame(tokenError, b)
	if err != nil {
		t.Fatal(err)
	}
	simple := int32(toSimple)
	for _, c := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"simple", binary.BigEndian.AppendUint32(make([]byte, 4), uint32(simple)), "asks for simple authentication"},
		{"error", refuse("javax.security.sasl.SaslException", "GSS initiate failed"), "refuses: javax.security.sasl.SaslException: GSS initiate failed"},
		{"kerberos", success(skew), "KRB_AP_ERR_SKEW"},
		{"no token", success([]byte("hello")), errToken.Error()},
		{"large", []byte{0, 0, 0, 0, 0, 1, 0, 1}, "a token of 65537 octets"},
		{"negative", []byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, "a token of -1 octets"},
		{"cut", []byte{0, 0, 0, 0, 0, 0, 1}, "closed the connection"},
		{"cut error", refuse("a", "b")[:12], "closed the connection"},
		{"nothing", nil, "closed the connection"},
	} {
		if err := answer(t, c.bytes); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "hbase/rs1@"+realm) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A server that lacks the wanted protection is refused, and so is one without the key of its principal.
func TestDowngrade(t *testing.T) {
	for _, c := range []struct {
		name string
		peer func(*peer)
		want string
	}{
		{"protection", func(p *peer) { p.offer = 1 }, `offers ["authentication"]`},
		{"room", func(p *peer) { p.room = 10 }, "no more than 10 octets"},
	} {
		p := newPeer(t, etypeID.AES256_CTS_HMAC_SHA1_96, false)
		c.peer(p)
		near, far := net.Pipe()
		go p.serve(far)
		if _, err := p.login(t, "privacy").Client(t.Context(), near, "rs1"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		near.Close()
	}
	p, other := newPeer(t, etypeID.AES256_CTS_HMAC_SHA1_96, false), newPeer(t, etypeID.AES256_CTS_HMAC_SHA1_96, false)
	begun, reply := p.begin(t)
	if _, err := begun.finish(reply); err != nil {
		t.Fatal(err)
	}
	for i := range reply {
		forged := bytes.Clone(reply)
		forged[i] ^= 1
		if sec, err := begun.finish(forged); err == nil && !bytes.Equal(sec.key.KeyValue, begun.auth.SubKey.KeyValue) {
			t.Errorf("with octet %d changed, the answer gives another key", i)
		}
	}
	begun, _ = other.begin(t)
	if _, err := begun.finish(reply); err == nil || !strings.Contains(err.Error(), "does not have the key") {
		t.Errorf("the answer of another server: %v", err)
	}
}

// begin begins a context with the peer, and returns the peer's answer.
func (p *peer) begin(t testing.TB) (*initiation, []byte) {
	t.Helper()
	l := p.login(t, "privacy")
	begun, token, err := initiate(l.tickets["rs1"], l.name, l.realm)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := p.accept(token)
	if err != nil {
		t.Fatal(err)
	}
	return begun, reply
}

// pair returns both sides of a context.
func pair(t testing.TB) (a, b *secContext) {
	t.Helper()
	p := newPeer(t, etypeID.AES256_CTS_HMAC_SHA1_96, true)
	begun, reply := p.begin(t)
	a, err := begun.finish(reply)
	if err != nil {
		t.Fatal(err)
	}
	return a, p.sec
}

// A token with a changed octet, of the wrong kind, from the wrong side, or that arrives twice is refused.
func TestUnwrap(t *testing.T) {
	for _, seal := range []bool{false, true} {
		a, b := pair(t)
		token, err := b.wrap(seal, []byte("payload"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range token {
			forged := bytes.Clone(token)
			forged[i] ^= 1
			if got, err := a.unwrap(seal, forged); err == nil {
				t.Errorf("with octet %d changed: %q", i, got)
			}
			if _, err := a.unwrap(seal, token[:i]); err == nil {
				t.Errorf("cut after %d octets, a token is accepted", i)
			}
		}
		if _, err := a.unwrap(!seal, token); !errors.Is(err, errWrap) {
			t.Errorf("a token of the other kind: %v", err)
		}
		if _, err := b.unwrap(seal, token); !errors.Is(err, errWrap) {
			t.Errorf("a token of one's own: %v", err)
		}
		rotated := append(bytes.Clone(token[:headerSize]), token[len(token)-5:]...)
		rotated = append(rotated, token[headerSize:len(token)-5]...)
		rotated[7] = 5
		if got, err := a.unwrap(seal, rotated); err != nil || string(got) != "payload" {
			t.Errorf("rotated: %q, %v", got, err)
		}
		if _, err := a.unwrap(seal, token); !errors.Is(err, errReplay) {
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
	for _, seal := range []bool{false, true} {
		token, err := b.wrap(seal, []byte("payload"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(token, seal)
	}
	f.Fuzz(func(t *testing.T, token []byte, seal bool) {
		was := bytes.Clone(token)
		a.seen = window{next: 4711}
		if got, err := a.unwrap(seal, token); err == nil && string(got) != "payload" {
			t.Fatalf("%x gives %q", token, got)
		}
		if !bytes.Equal(token, was) {
			t.Fatal("the caller's octets were changed")
		}
	})
}

func FuzzFinish(f *testing.F) {
	p := newPeer(f, etypeID.AES256_CTS_HMAC_SHA1_96, false)
	begun, reply := p.begin(f)
	f.Add(success(reply))
	f.Add(refuse("class", "text"))
	f.Fuzz(func(t *testing.T, b []byte) {
		token, err := readToken(bytes.NewReader(b))
		if err != nil {
			return
		}
		if sec, err := begun.finish(token); err == nil && !bytes.Equal(sec.key.KeyValue, begun.auth.SubKey.KeyValue) {
			t.Fatalf("%x gives another key", b)
		}
	})
}

// kdc answers every request with an error.
func kdc(t *testing.T, code int32) string {
	t.Helper()
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	e := messages.NewKRBError(types.NewPrincipalName(nametype.KRB_NT_SRV_INST, "krbtgt/"+realm), realm, code, "")
	b, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			_, from, err := l.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = l.WriteTo(b, from)
		}
	}()
	return l.LocalAddr().String()
}

// Each error of a KDC says what to look at.
func TestExplain(t *testing.T) {
	dir := t.TempDir()
	keys := keytab.New()
	if err := keys.AddEntry("ldapd/me", realm, "secret", time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	b, err := keys.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Principal: "ldapd/me@" + realm, Server: "hbase/_HOST", Protection: "privacy", Keytab: filepath.Join(dir, "keytab"), Config: filepath.Join(dir, "krb5.conf")}
	write := func(name string, b []byte) {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf := func(realm, kdc string) {
		write(o.Config, fmt.Appendf(nil, "[libdefaults]\n default_realm = %s\n[realms]\n %s = {\n  kdc = %s\n }\n", realm, realm, kdc))
	}
	check := func(what, want string) {
		t.Helper()
		l, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = l.ticket(t.Context(), "rs1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("no keytab", "kerberos: keytab "+o.Keytab)
	write(o.Keytab, []byte("no keytab"))
	check("bad keytab", "kerberos: keytab "+o.Keytab)
	write(o.Keytab, b)
	check("no krb5.conf", "kerberos: "+o.Config)
	for code, want := range map[int32]string{
		6:  "does not know ldapd/me@" + realm,
		14: "for an encryption",
		18: "has locked ldapd/me",
		37: "the clocks of this machine and of the KDC of " + realm,
	} {
		conf(realm, kdc(t, code))
		check(fmt.Sprint("code ", code), want)
	}
	conf("OTHER.COM", "127.0.0.1:1")
	check("other realm", "names no KDC of the realm "+realm)
	conf(realm, "127.0.0.1:1")
	check("KDC away", "no KDC of "+realm+" answers")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.ticket(ctx, "rs1"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	// While the KDC is away, the last ticket is used to its end.
	now := time.Now()
	l.tickets["rs1"] = &ticket{end: now.Add(time.Hour)}
	if _, err := l.ticket(t.Context(), "rs1"); err != nil {
		t.Errorf("a ticket that lasts: %v", err)
	}
	l.tickets["rs1"] = &ticket{end: now}
	if _, err := l.ticket(t.Context(), "rs1"); err == nil {
		t.Error("a ticket that has ended is used")
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Principal: "ldapd", Server: "hbase/_HOST", Protection: "privacy"}, `principal "ldapd"`},
		{Options{Principal: "ldapd@R", Server: "hbase", Protection: "privacy"}, `principal of servers "hbase"`},
		{Options{Principal: "ldapd@R", Server: "hbase/_HOST", Protection: "none"}, `protection "none"`},
	} {
		if _, err := New(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	l, err := New(Options{Principal: "ldapd/_HOST@R", Server: "hbase/_HOST@S", Protection: "privacy"})
	if err != nil {
		t.Fatal(err)
	}
	if host, err := thisHost(); err != nil || l.Principal() != "ldapd/"+host+"@R" || l.server("rs.x") != "hbase/rs.x" || l.serviceRealm != "S" {
		t.Errorf("%v, %+v", err, l)
	}
}

func BenchmarkWrap(b *testing.B) {
	for _, seal := range []bool{false, true} {
		b.Run(map[bool]string{false: "integrity", true: "privacy"}[seal], func(b *testing.B) {
			sec, peer := pair(b)
			payload := make([]byte, 1000)
			for b.Loop() {
				token, err := sec.wrap(seal, payload)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := peer.unwrap(seal, token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
