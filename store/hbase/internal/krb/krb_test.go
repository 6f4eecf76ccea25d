package krb

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

	"github.com/go-krb5/krb5/iana/etypeID"
	"github.com/go-krb5/krb5/iana/nametype"
	"github.com/go-krb5/krb5/keytab"
	"github.com/go-krb5/krb5/messages"
	"github.com/go-krb5/krb5/types"
	"golang.org/x/crypto/cryptobyte"
	cryptoasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/seed-4dac0d86/ldapd/store/gss"
	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

const realm = "EXAMPLE.COM"

// A peer speaks the server's side.
type peer struct {
	acceptor gss.Acceptor
	keys     *keytab.Keytab
	etype    int32
	offer    byte
	room     uint32
	chosen   byte
	sec      *gss.Context
}

func newPeer(t testing.TB, etype int32) *peer {
	t.Helper()
	p := &peer{acceptor: gss.Acceptor{Service: "hbase"}, keys: keytab.New(), etype: etype, offer: 7, room: 1 << 12}
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
	c, err := p.acceptor.Accept(token, p.keys, nil, time.Now())
	if err != nil {
		return nil, err
	}
	p.sec = c.Context
	return c.Reply, nil
}

func success(token []byte) []byte { return layer.Append(make([]byte, 4), token) }

func refuse(class, text string) []byte {
	return layer.Append(layer.Append([]byte{0, 0, 0, 1}, []byte(class)), []byte(text))
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
	if reply, err = p.sec.Wrap(false, binary.BigEndian.AppendUint32(nil, uint32(p.offer)<<24|p.room)); err != nil {
		return err
	}
	if _, err := c.Write(success(reply)); err != nil {
		return err
	}
	if token, err = readFrame(c); err != nil {
		return err
	}
	choice, err := p.sec.Unwrap(false, token)
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
		b, err := p.sec.Unwrap(seal, token)
		if err != nil {
			return err
		}
		if reply, err = p.sec.Wrap(seal, b); err != nil {
			return err
		}
		if _, err := c.Write(layer.Append(nil, reply)); err != nil {
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
			t.Run(fmt.Sprintf("%d-%s", et, protection), func(t *testing.T) {
				p := newPeer(t, et)
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

// A cut connection ends after some octets.
type cut struct {
	net.Conn
	left int
}

func (c *cut) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// A connection that ends after any octet of what the server sends, tokens and sealed calls, is an error.
func TestCut(t *testing.T) {
	p := newPeer(t, etypeID.AES128_CTS_HMAC_SHA1_96)
	l := p.login(t, "privacy")
	for n := 0; ; n++ {
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- p.serve(far) }()
		c, err := l.Client(t.Context(), &cut{near, n}, "rs1")
		if err == nil {
			got := make([]byte, 4)
			if _, err = c.Write([]byte("call")); err == nil {
				_, err = io.ReadFull(c, got)
			}
			if err == nil && string(got) != "call" {
				t.Fatalf("after %d octets %q arrives", n, got)
			}
		}
		near.Close()
		<-served
		if err == nil {
			if n < 200 {
				t.Errorf("%d octets are enough", n)
			}
			return
		}
		if n == 1000 {
			t.Fatalf("1000 octets are not enough: %v", err)
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
	_, err := newPeer(t, etypeID.AES256_CTS_HMAC_SHA1_96).login(t, "privacy").Client(t.Context(), near, "rs1")
	return err
}

// A client does nothing without Kerberos, and says what a server answered.
func TestRefused(t *testing.T) {
	krbError := messages.NewKRBError(types.NewPrincipalName(nametype.KRB_NT_SRV_HST, "hbase/rs1"), realm, 37, "")
	b, err := krbError.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var skew cryptobyte.Builder
	skew.AddASN1(cryptoasn1.Tag(0).Constructed()|0x40, func(b2 *cryptobyte.Builder) {
		b2.AddASN1ObjectIdentifier([]int{1, 2, 840, 113554, 1, 2, 2})
		b2.AddUint16(0x0300) // an error (RFC 4121, section 4.1)
		b2.AddBytes(b)
	})
	simple := int32(toSimple)
	for _, c := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"simple", binary.BigEndian.AppendUint32(make([]byte, 4), uint32(simple)), "asks for simple authentication"},
		{"error", refuse("javax.security.sasl.SaslException", "GSS initiate failed"), "refuses: javax.security.sasl.SaslException: GSS initiate failed"},
		{"kerberos", success(skew.BytesOrPanic()), "KRB_AP_ERR_SKEW"},
		{"no token", success([]byte("hello")), gss.ErrToken.Error()},
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

// A server that lacks the wanted protection is refused.
func TestDowngrade(t *testing.T) {
	for _, c := range []struct {
		name string
		peer func(*peer)
		want string
	}{
		{"protection", func(p *peer) { p.offer = 1 }, `offers ["authentication"]`},
		{"room", func(p *peer) { p.room = 10 }, "no more than 10 octets"},
	} {
		p := newPeer(t, etypeID.AES256_CTS_HMAC_SHA1_96)
		c.peer(p)
		near, far := net.Pipe()
		go p.serve(far)
		if _, err := p.login(t, "privacy").Client(t.Context(), near, "rs1"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		near.Close()
	}
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
