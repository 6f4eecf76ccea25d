package integration

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-ldap/ldap/v3"
	"github.com/xdg-go/scram"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// These are the name and password of Ann, who binds in these tests.
const (
	annDN       = "uid=ann," + peopleDN
	annPassword = "päss,=word"
)

// A saslServer is a server with TLS, a Unix socket and an issuer of tokens. Its
// directory contains Ann. Over the socket, the user who runs the tests is the administrator.
type saslServer struct {
	*process
	files *tlsFiles
	ldapi string
	key   jose.JSONWebKey
}

func newSASL(t *testing.T) *saslServer {
	s := &saslServer{files: newTLS(t), ldapi: "ldapi://" + strings.ReplaceAll(filepath.Join(t.TempDir(), "s"), "/", "%2F")}
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	signer := s.files.Server()
	s.key = jose.JSONWebKey{Key: signer.PrivateKey, KeyID: "one"}
	public, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{s.key.Public()}})
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(keys, public, 0o600); err != nil {
		t.Fatal(err)
	}
	me := fmt.Sprintf(`dn:gidNumber=%d\+uidNumber=%d,cn=peercred,cn=external,cn=auth -> %s`, os.Getgid(), os.Getuid(), adminDN)
	flags := s.files.flags()
	for _, m := range auth.Mechanisms {
		flags = append(flags, "--sasl-mechanisms", m)
	}
	s.process = serve(t, store, append(flags, "--tls-client-certificates", "request", "--tls-client-ca", s.files.ca,
		"--listen", "ldap://127.0.0.1:0", "--listen", "ldaps://127.0.0.1:0", "--listen", s.ldapi,
		"--sasl-identity", me, "--sasl-identity", `mail:(.+)@example\.com -> ldap:///??sub?(uid=$1)`, "--sasl-identity", "u:(.+) -> ldap:///??sub?(uid=$1)",
		"--sasl-issuer", "https://issuer.example", "--sasl-issuer-audience", "ldap", "--sasl-issuer-keys", keys)...)
	ann := ldap.NewAddRequest(annDN, nil)
	for a, v := range map[string]string{"objectClass": "inetOrgPerson", "cn": "Ann", "sn": "Ann", "userPassword": annPassword} {
		ann.Attribute(a, []string{v})
	}
	if err := s.connect(adminDN, adminPassword).Add(ann); err != nil {
		t.Fatal(err)
	}
	return s
}

// client writes a certificate with Ann's mail address, and the private key of the certificate.
// It returns the paths of the two files.
func (s *saslServer) client(t *testing.T) (certificate, key string) {
	c := s.files.Client(pkix.Name{CommonName: "Somebody"}, func(c *x509.Certificate) { c.EmailAddresses = []string{"ann@example.com"} })
	return s.files.Write(t.TempDir(), "client", c)
}

func TestSASL(t *testing.T) {
	s := newSASL(t)
	t.Run("go-ldap", s.goLDAP)
	t.Run("ldapwhoami", s.ldapwhoami)
	t.Run("channel binding", s.channelBinding)
	t.Run("tokens", s.tokens)
}

// goLDAP binds with EXTERNAL, the only mechanism in these tests that go-ldap implements.
func (s *saslServer) goLDAP(t *testing.T) {
	certificate, key := s.client(t)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	config := s.files.trusting()
	config.Certificates = []tls.Certificate{pair}
	for _, url := range s.urls[:2] {
		c := dialTLS(t, url, config)
		if err := c.ExternalBind(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if who, err := c.WhoAmI(nil); err != nil || who.AuthzID != "dn:"+annDN {
			t.Errorf("%s: %v, %v", url, who, err)
		}
	}
	if err := dialTLS(t, s.urls[1], s.files.trusting()).ExternalBind(); !ldap.IsErrorWithCode(err, ldap.LDAPResultInappropriateAuthentication) {
		t.Errorf("without a certificate: %v", err)
	}
}

// ldapwhoami binds with OpenLDAP's client, which uses Cyrus SASL.
func (s *saslServer) ldapwhoami(t *testing.T) {
	if _, err := exec.LookPath("ldapwhoami"); err != nil {
		t.Skip(err)
	}
	certificate, key := s.client(t)
	withCertificate := []string{"LDAPTLS_CERT=" + certificate, "LDAPTLS_KEY=" + key}
	user := []string{"-U", "ann", "-w", annPassword}
	for _, c := range []struct {
		name string
		args []string
		env  []string
		want string
	}{
		{"EXTERNAL, socket", []string{"-H", s.ldapi, "-Y", "EXTERNAL"}, nil, adminDN},
		{"EXTERNAL, socket, as Ann", []string{"-H", s.ldapi, "-Y", "EXTERNAL", "-X", "u:ann"}, nil, annDN},
		{"EXTERNAL, certificate", []string{"-H", s.urls[1], "-Y", "EXTERNAL"}, withCertificate, annDN},
		{"EXTERNAL, StartTLS", []string{"-H", s.urls[0], "-ZZ", "-Y", "EXTERNAL"}, withCertificate, annDN},
		{"EXTERNAL, as the administrator", []string{"-H", s.urls[1], "-Y", "EXTERNAL", "-X", "dn:" + adminDN}, withCertificate, ""},
		{"PLAIN, TLS", append([]string{"-H", s.urls[1], "-Y", "PLAIN"}, user...), nil, annDN},
		{"PLAIN, in clear", append([]string{"-H", s.urls[0], "-Y", "PLAIN", "-O", "minssf=0"}, user...), nil, ""},
		{"PLAIN, wrong", []string{"-H", s.urls[1], "-Y", "PLAIN", "-U", "ann", "-w", "x"}, nil, ""},
		{"SCRAM-SHA-1", append([]string{"-H", s.urls[0], "-Y", "SCRAM-SHA-1"}, user...), nil, annDN},
		{"SCRAM-SHA-256", append([]string{"-H", s.urls[0], "-Y", "SCRAM-SHA-256"}, user...), nil, annDN},
		{"SCRAM-SHA-512", append([]string{"-H", s.urls[1], "-Y", "SCRAM-SHA-512"}, user...), nil, annDN},
		{"SCRAM, as another", append([]string{"-H", s.urls[0], "-Y", "SCRAM-SHA-256", "-X", "u:jdoe"}, user...), nil, ""},
		{"SCRAM, wrong", []string{"-H", s.urls[0], "-Y", "SCRAM-SHA-256", "-U", "ann", "-w", "x"}, nil, ""},
		{"SCRAM, nobody", []string{"-H", s.urls[0], "-Y", "SCRAM-SHA-256", "-U", "nobody", "-w", "x"}, nil, ""},
		// OpenLDAP calls every binding "ldap", which is no channel binding of RFC 5929.
		{"channel binding", append([]string{"-H", s.urls[1], "-Y", "SCRAM-SHA-256-PLUS"}, user...),
			[]string{"LDAPSASL_CBINDING=tls-endpoint"}, ""},
	} {
		cmd := exec.Command("ldapwhoami", append(c.args, "-Q")...)
		cmd.Env = append(os.Environ(), append(c.env, "LDAPTLS_CACERT="+s.files.ca)...)
		out, err := cmd.CombinedOutput()
		if c.want == "" && err == nil || c.want != "" && string(out) != "dn:"+c.want+"\n" {
			t.Errorf("%s: %v: %s", c.name, err, out)
		}
	}
}

// A saslClient sends requests that other clients cannot send.
type saslClient struct {
	t *testing.T
	net.Conn
	r  *bufio.Reader
	id int32
}

// rawTLS connects with the given version of TLS.
func (s *saslServer) rawTLS(t *testing.T, version uint16) (*saslClient, *tls.ConnectionState) {
	t.Helper()
	config := s.files.trusting()
	config.MinVersion, config.MaxVersion = version, version
	nc, err := tls.Dial("tcp", strings.TrimPrefix(s.urls[1], "ldaps://"), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	state := nc.ConnectionState()
	return &saslClient{t: t, Conn: nc, r: bufio.NewReader(nc)}, &state
}

// ask sends a request and returns the answer.
func (c *saslClient) ask(r op.Request) *wiretest.Answer {
	c.t.Helper()
	c.id++
	if _, err := c.Write(wiretest.AppendRequest(nil, &op.Message{ID: c.id, Request: r})); err != nil {
		c.t.Fatal(err)
	}
	a, err := wiretest.Read(c.r)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

func (c *saslClient) bind(mechanism, message string) *wiretest.Answer {
	c.t.Helper()
	return c.ask(&op.Bind{Version: 3, SASL: true, Mechanism: mechanism, Credentials: []byte(message)})
}

func (c *saslClient) whoAmI() string {
	c.t.Helper()
	return string(c.ask(&op.Extended{OID: "1.3.6.1.4.1.4203.1.11.3"}).Response.Value)
}

// channelBinding binds with every kind of channel binding: once with the data of the
// connection, and once with the data of another connection.
func (s *saslServer) channelBinding(t *testing.T) {
	for _, c := range []struct {
		version uint16
		kind    string
		of      func(*tls.ConnectionState) (scram.ChannelBinding, error)
	}{
		{tls.VersionTLS12, "tls-unique", func(state *tls.ConnectionState) (scram.ChannelBinding, error) {
			return scram.NewTLSUniqueBinding(state.TLSUnique), nil
		}},
		{tls.VersionTLS12, "tls-server-end-point", scram.NewTLSServerEndpointBinding},
		{tls.VersionTLS12, "tls-exporter", scram.NewTLSExporterBinding},
		{tls.VersionTLS13, "tls-server-end-point", scram.NewTLSServerEndpointBinding},
		{tls.VersionTLS13, "tls-exporter", scram.NewTLSExporterBinding},
	} {
		client, own := s.rawTLS(t, c.version)
		_, other := s.rawTLS(t, c.version)
		for _, state := range []*tls.ConnectionState{other, own} {
			binding, err := c.of(state)
			if err != nil {
				t.Fatal(err)
			}
			user, err := scram.SHA512.NewClient("ann", annPassword, "")
			if err != nil {
				t.Fatal(err)
			}
			a := client.scram(user.NewConversationWithChannelBinding(binding))
			// Both connections have the same certificate, and so the same
			// tls-server-end-point.
			good := state == own || c.kind == "tls-server-end-point"
			if (a.Response.Code == op.Success) != good || (client.whoAmI() == "dn:"+annDN) != good {
				t.Errorf("%s, TLS %x, own connection %v: %v", c.kind, c.version, state == own, &a.Response.Result)
			}
		}
	}
}

func (c *saslClient) scram(conv *scram.ClientConversation) *wiretest.Answer {
	c.t.Helper()
	challenge := ""
	for {
		message, err := conv.Step(challenge)
		if err != nil {
			c.t.Fatal(err)
		}
		a := c.bind("SCRAM-SHA-512-PLUS", message)
		if a.Response.Code != op.SASLBindInProgress {
			return a
		}
		challenge = string(a.Response.SASLCredentials)
	}
}

// tokens binds with OAUTHBEARER (RFC 7628, 4).
func (s *saslServer) tokens(t *testing.T) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token := func(audience string) string {
		text, err := jwt.Signed(signer).Claims(jwt.Claims{Issuer: "https://issuer.example", Subject: "ann",
			Audience: jwt.Audience{audience}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return "n,,\x01host=localhost\x01auth=Bearer " + text + "\x01\x01"
	}
	c, _ := s.rawTLS(t, tls.VersionTLS13)
	if a := c.bind("OAUTHBEARER", token("ldap")); a.Response.Code != op.Success || c.whoAmI() != "dn:"+annDN {
		t.Errorf("%v", &a.Response.Result)
	}
	want := `{"status":"invalid_token","openid-configuration":"https://issuer.example/.well-known/openid-configuration"}`
	for _, message := range []string{token("mail"), "n,,\x01auth=\x01\x01"} {
		a := c.bind("OAUTHBEARER", message)
		if a.Response.Code != op.SASLBindInProgress || string(a.Response.SASLCredentials) != want {
			t.Errorf("%v, %s", &a.Response.Result, a.Response.SASLCredentials)
		}
		if a := c.bind("OAUTHBEARER", "\x01"); a.Response.Code != op.InvalidCredentials || c.whoAmI() != "" {
			t.Errorf("%v", &a.Response.Result)
		}
	}
}
