package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/xdg-go/scram"
)

// vectors are the exchanges in RFC 5802, section 5, and RFC 7677, section 3.
var vectors = []struct {
	mechanism, salt, serverNonce string
	first, challenge             string
	final, verifier              string
}{
	{"SCRAM-SHA-1", "QSXCR+Q6sek8bf92", "3rfcNHYJY1ZVvWVs7j",
		"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
		"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
		"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
		"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="},
	{"SCRAM-SHA-256", "W22ZaJ0SNY7soEsUEjb6gQ==", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
		"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
		"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
		"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
		"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="},
}

func TestScramVectors(t *testing.T) {
	for _, v := range vectors {
		salt, _ := base64.StdEncoding.DecodeString(v.salt)
		k, err := deriveKey(v.mechanism, "pencil", scram.KeyFactors{Salt: string(salt), Iters: 4096})
		if err != nil {
			t.Fatal(err)
		}
		k, ok := ParseScramKey(v.mechanism, formatKey(v.mechanism, k))
		if !ok {
			t.Fatal("a key is not read as it was written")
		}
		server, err := scramHashes[v.mechanism].NewServer(func(name string) (ScramKey, error) { return k, nil })
		if err != nil {
			t.Fatal(err)
		}
		server.WithNonceGenerator(func() string { return v.serverNonce })
		s := &Scram{mechanism: v.mechanism, conv: server.NewConversation()}
		answer, done, err := s.Step([]byte(v.first))
		if string(answer) != v.challenge || done || err != nil {
			t.Errorf("%s: %s, %v, %v", v.mechanism, answer, done, err)
		}
		answer, done, err = s.Step([]byte(v.final))
		if string(answer) != v.verifier || !done || err != nil {
			t.Errorf("%s: %s, %v, %v", v.mechanism, answer, done, err)
		}
	}
}

func TestScramKeys(t *testing.T) {
	p := New(1, nil)
	mechanisms := []string{"PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"}
	keys, err := p.ScramKeys(t.Context(), NoChannel{}, mechanisms, []byte("pencil"))
	if err != nil || len(keys) != 3 {
		t.Fatalf("%q, %v", keys, err)
	}
	for i, m := range mechanisms[1:] {
		for j, stored := range keys {
			if _, ok := ParseScramKey(m, stored); ok != (i == j) {
				t.Errorf("%s from %s: %v", m, stored, ok)
			}
		}
	}
	for _, unfit := range []string{"", "\xff", "a\x00b", "\u0378"} {
		if keys, err := p.ScramKeys(t.Context(), NoChannel{}, mechanisms, []byte(unfit)); keys != nil || err != nil {
			t.Errorf("%q: %q, %v", unfit, keys, err)
		}
	}
}

func TestMalformedScramKeys(t *testing.T) {
	good := string(formatKey("SCRAM-SHA-1", FakeScramKey("SCRAM-SHA-1", []byte("k"), "x")))
	if _, ok := ParseScramKey("SCRAM-SHA-1", []byte(good)); !ok {
		t.Fatal(good)
	}
	parts := strings.Split(good, "$")
	for _, bad := range []string{"", "$$", parts[0], parts[0] + "$" + parts[1], good + "$", strings.Replace(good, ":", "", 1),
		parts[0] + "$0:AAAA$" + parts[2], parts[0] + "$1:$" + parts[2], parts[0] + "$99999999:AAAA$" + parts[2], parts[0] + "$1:****$" + parts[2],
		parts[0] + "$1:AAAA$AAAA:AAAA", "{SSHA}x"} {
		if _, ok := ParseScramKey("SCRAM-SHA-1", []byte(bad)); ok {
			t.Errorf("reads %q", bad)
		}
	}
}

// TestFakeScramKey checks that an unknown name always has the same salt, that the salt
// differs from the salts of other names, and that no password matches.
func TestFakeScramKey(t *testing.T) {
	a := FakeScramKey("SCRAM-SHA-256", []byte("secret"), "ann")
	b := FakeScramKey("SCRAM-SHA-256", []byte("secret"), "ann")
	if a.Salt != b.Salt || a.Iters != ScramIterations || len(a.Salt) != scramSalt {
		t.Errorf("%v, %v", a, b)
	}
	if string(a.StoredKey) == string(b.StoredKey) {
		t.Error("a key that could be found")
	}
	for _, other := range []ScramKey{FakeScramKey("SCRAM-SHA-1", []byte("secret"), "ann"),
		FakeScramKey("SCRAM-SHA-256", []byte("other"), "ann"), FakeScramKey("SCRAM-SHA-256", []byte("secret"), "bob")} {
		if other.Salt == a.Salt {
			t.Error("the same salt")
		}
	}
}

// secured is the channel of one end of a TLS connection.
type secured struct {
	NoChannel
	state *tls.ConnectionState
	cert  *x509.Certificate
}

func (s secured) TLS() *tls.ConnectionState      { return s.state }
func (s secured) Certificate() *x509.Certificate { return s.cert }

// connect makes a TLS connection and returns the server's channel and the client's state.
func connect(t *testing.T, version uint16) (server secured, client *tls.ConnectionState) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"x"},
		Subject: pkix.Name{CommonName: "x"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	s := tls.Server(near, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, SessionTicketsDisabled: true})
	c := tls.Client(far, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
	ended := make(chan error, 1)
	go func() { ended <- s.HandshakeContext(t.Context()) }()
	if err := c.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	state, clientState := s.ConnectionState(), c.ConnectionState()
	return secured{state: &state, cert: cert}, &clientState
}

// clientBinding returns the channel binding that a client computes.
func clientBinding(t *testing.T, kind string, state *tls.ConnectionState) scram.ChannelBinding {
	t.Helper()
	var b scram.ChannelBinding
	var err error
	switch kind {
	case "tls-exporter":
		b, err = scram.NewTLSExporterBinding(state)
	case "tls-unique":
		b = scram.NewTLSUniqueBinding(state.TLSUnique)
	case "tls-server-end-point":
		b, err = scram.NewTLSServerEndpointBinding(state)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// scramRun runs a SCRAM client against the server side.
func scramRun(t *testing.T, mechanism string, c Channel, client *scram.ClientConversation) error {
	t.Helper()
	base, _ := strings.CutSuffix(mechanism, Plus)
	key, err := deriveKey(base, "pencil", scram.KeyFactors{Salt: "salt", Iters: 4096})
	if err != nil {
		t.Fatal(err)
	}
	message, err := client.Step("")
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewScram(mechanism, c, []byte(message), func(string, string) (ScramKey, error) { return key, nil })
	if err != nil {
		return err
	}
	for {
		answer, done, err := s.Step([]byte(message))
		if err != nil {
			return err
		}
		message, err = client.Step(string(answer))
		if err != nil {
			t.Fatal("the client:", err)
		}
		if done {
			return nil
		}
	}
}

func TestChannelBinding(t *testing.T) {
	user, err := scram.SHA256.NewClient("user", "pencil", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		version uint16
		kinds   map[string]bool
	}{
		{tls.VersionTLS12, map[string]bool{"tls-unique": true, "tls-server-end-point": true, "tls-exporter": true}},
		{tls.VersionTLS13, map[string]bool{"tls-unique": false, "tls-server-end-point": true, "tls-exporter": true}},
	} {
		server, state := connect(t, v.version)
		_, elsewhere := connect(t, v.version)
		if !Bindable(server) {
			t.Error("nothing to bind to")
		}
		for kind, works := range v.kinds {
			b := clientBinding(t, kind, state)
			if !works {
				b.Data = []byte("anything")
			}
			if err := scramRun(t, "SCRAM-SHA-256-PLUS", server, user.NewConversationWithChannelBinding(b)); (err == nil) != works {
				t.Errorf("%s, TLS %x: %v", kind, v.version, err)
			}
			if !works {
				continue
			}
			// The client is connected to a man in the middle, who has another connection
			// to the server.
			b = clientBinding(t, kind, elsewhere)
			if err := scramRun(t, "SCRAM-SHA-256-PLUS", server, user.NewConversationWithChannelBinding(b)); !errors.Is(err, ErrProof) {
				t.Errorf("%s, TLS %x, of another connection: %v", kind, v.version, err)
			}
		}
	}
}

func TestChannelBindingFlags(t *testing.T) {
	user, err := scram.SHA256.NewClient("user", "pencil", "")
	if err != nil {
		t.Fatal(err)
	}
	server, state := connect(t, tls.VersionTLS13)
	bound := func() *scram.ClientConversation {
		return user.NewConversationWithChannelBinding(clientBinding(t, "tls-exporter", state))
	}
	for _, c := range []struct {
		name, mechanism string
		channel         Channel
		client          *scram.ClientConversation
		err             error
	}{
		{"none, in clear", "SCRAM-SHA-256", NoChannel{}, user.NewConversation(), nil},
		{"none, in TLS", "SCRAM-SHA-256", server, user.NewConversation(), nil},
		{"the offer not seen, in clear", "SCRAM-SHA-256", NoChannel{}, user.NewConversationAdvertisingChannelBinding(), nil},
		{"the offer taken away", "SCRAM-SHA-256", server, user.NewConversationAdvertisingChannelBinding(), ErrProof},
		{"bound without PLUS", "SCRAM-SHA-256", server, bound(), nil},
		{"bound without PLUS, in clear", "SCRAM-SHA-256", NoChannel{}, bound(), ErrProof},
		{"PLUS without binding", "SCRAM-SHA-256-PLUS", server, user.NewConversation(), ErrMessage},
		{"PLUS in clear", "SCRAM-SHA-256-PLUS", NoChannel{}, bound(), ErrProof},
	} {
		if err := scramRun(t, c.mechanism, c.channel, c.client); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if Bindable(NoChannel{}) {
		t.Error("a channel in clear is bindable")
	}
}

// FuzzScram checks that no messages of a client prove a key for which no password exists,
// and that no messages make the server side panic.
func FuzzScram(f *testing.F) {
	for _, v := range vectors {
		f.Add([]byte(v.first), []byte(v.final))
	}
	f.Add([]byte("p=tls-exporter,a=x=2C,n=u=3D,r=x,m=y"), []byte("c=,r=,p="))
	f.Add([]byte("y,,n=,r="), []byte(""))
	f.Fuzz(func(t *testing.T, first, final []byte) {
		for _, m := range []string{"SCRAM-SHA-1", "SCRAM-SHA-256-PLUS"} {
			s, err := NewScram(m, NoChannel{}, first, func(m, name string) (ScramKey, error) {
				return FakeScramKey(m, []byte("secret"), name), nil
			})
			if err != nil {
				continue
			}
			if _, done, err := s.Step(first); done || err != nil {
				if done {
					t.Errorf("%q proves all", first)
				}
				continue
			}
			if _, done, _ := s.Step(final); done {
				t.Errorf("%q, %q prove a key that nobody has", first, final)
			}
		}
	})
}
