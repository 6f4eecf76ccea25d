package integration

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
)

// tlsFiles are the files of a server's certificate and its CA.
type tlsFiles struct {
	*certstest.Authority
	dir, certificate, key, ca string
}

func newTLS(t testing.TB) *tlsFiles {
	f := &tlsFiles{Authority: certstest.New(t), dir: t.TempDir()}
	f.certificate, f.key = f.Write(f.dir, "server", f.Server())
	f.ca = f.WriteCA(f.dir)
	return f
}

// flags returns the flags for a server that uses the files.
func (f *tlsFiles) flags() []string {
	return []string{"--tls-certificate", f.certificate, "--tls-key", f.key}
}

// trusting returns the TLS configuration of a client that trusts only the CA.
func (f *tlsFiles) trusting() *tls.Config {
	return &tls.Config{RootCAs: f.Pool(), ServerName: "localhost"}
}

// TestTLS tests ldaps and StartTLS with go-ldap and OpenLDAP's clients, and the renewal
// of a certificate while the server runs.
func TestTLS(t *testing.T) {
	t.Parallel()
	f := newTLS(t)
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	p := serve(t, store, append(f.flags(), "--listen", "ldap://127.0.0.1:0", "--listen", "ldaps://127.0.0.1:0")...)
	if !strings.HasPrefix(p.urls[1], "ldaps://") {
		t.Fatalf("ready %v", p.urls)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := f.trusting()
		config.MinVersion, config.MaxVersion = version, version
		for _, url := range p.urls {
			c := dialTLS(t, url, config)
			if err := c.Bind(adminDN, adminPassword); err != nil {
				t.Errorf("%s: %v", url, err)
			}
			if who, err := c.WhoAmI(nil); err != nil || who.AuthzID != "dn:"+adminDN {
				t.Errorf("%s: %v, %v", url, who, err)
			}
		}
	}
	t.Run("ldapwhoami", func(t *testing.T) { ldapwhoami(t, f, p) })
	t.Run("bound in clear", func(t *testing.T) {
		c := p.connect(adminDN, adminPassword)
		if err := c.StartTLS(f.trusting()); err != nil {
			t.Fatal(err)
		}
		if who, err := c.WhoAmI(nil); err != nil || who.AuthzID != "" {
			t.Errorf("%+v, %v", who, err)
		}
	})
	t.Run("renewed", func(t *testing.T) { renewed(t, f, p) })
}

func dialTLS(t *testing.T, url string, config *tls.Config) *ldap.Conn {
	t.Helper()
	c, err := ldap.DialURL(url, ldap.DialWithTLSConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if strings.HasPrefix(url, "ldap:") {
		if err := c.StartTLS(config); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func ldapwhoami(t *testing.T, f *tlsFiles, p *process) {
	if _, err := exec.LookPath("ldapwhoami"); err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{{"-H", p.urls[0], "-ZZ"}, {"-H", p.urls[1]}} {
		args = append(args, "-x", "-D", adminDN, "-w", adminPassword)
		cmd := exec.Command("ldapwhoami", args...)
		cmd.Env = append(os.Environ(), "LDAPNOINIT=1")
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("a CA that it does not know: %s", out)
		}
		cmd = exec.Command("ldapwhoami", args...)
		cmd.Env = append(os.Environ(), "LDAPTLS_CACERT="+f.ca)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "dn:"+adminDN+"\n" {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
}

// TestClientCertificates binds with EXTERNAL, with RSA and EC certificates. The clients are
// Debian's packages, which use GnuTLS.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	f := newTLS(t)
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	subject := pkix.Name{CommonName: "John"}
	toJohn := func(c *x509.Certificate) { c.EmailAddresses = []string{"jdoe@example.com"} }
	keys := map[string]tls.Certificate{"RSA": f.ClientRSA(subject, toJohn), "EC": f.Client(subject, toJohn)}
	strangers := certstest.New(t).Client(subject, toJohn)
	for _, clients := range []string{"request", "require"} {
		p := serve(t, store, append(f.flags(), "--tls-client-certificates", clients, "--tls-client-ca", f.ca,
			"--listen", "ldap://127.0.0.1:0", "--listen", "ldaps://127.0.0.1:0",
			"--sasl-identity", `mail:(.+)@example\.com -> ldap:///??sub?(uid=$1)`)...)
		for _, version := range []string{"1.2", "1.3"} {
			for kind, certificate := range keys {
				f.external(t, p, version, clients+" "+kind, certificate, "dn:uid=jdoe,"+peopleDN+"\n")
			}
			f.external(t, p, version, clients+" of another CA", strangers, "")
		}
		f.external(t, p, "1.3", clients+" none", tls.Certificate{}, "")
		p.stop()
	}
}

// external makes clients bind with EXTERNAL and ask for their identity. If want is
// empty, the clients must fail to connect or to bind.
func (f *tlsFiles) external(t *testing.T, p *process, version, name string, c tls.Certificate, want string) {
	env := append(os.Environ(), "LDAPTLS_CACERT="+f.ca, "LDAPTLS_CIPHER_SUITE=NORMAL:-VERS-ALL:+VERS-TLS"+version)
	if c.PrivateKey != nil {
		certificate, key := f.Write(t.TempDir(), "client", c)
		env = append(env, "LDAPTLS_CERT="+certificate, "LDAPTLS_KEY="+key)
	}
	const script = `import ldap, ldap.sasl, sys
c = ldap.initialize(sys.argv[1])
if sys.argv[1].startswith("ldap:"): c.start_tls_s()
c.sasl_non_interactive_bind_s("EXTERNAL")
print(c.whoami_s())`
	for _, args := range [][]string{
		{"ldapwhoami", "-Q", "-Y", "EXTERNAL", "-H", p.urls[1]},
		{"ldapwhoami", "-Q", "-Y", "EXTERNAL", "-H", p.urls[0], "-ZZ"},
		{"/usr/bin/python3", "-c", script, p.urls[1]},
		{"/usr/bin/python3", "-c", script, p.urls[0]},
	} {
		t.Run(strings.Join([]string{name, version, args[0], p.urls[0]}, " "), func(t *testing.T) {
			if !installed(args[0]) {
				t.Skip("not installed")
			}
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = env
			out, err := cmd.Output()
			if string(out) != want || (err == nil) != (want != "") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// installed reports whether a client can be run. Python also needs its LDAP module.
func installed(client string) bool {
	if strings.HasSuffix(client, "python3") {
		return exec.Command(client, "-c", "import ldap").Run() == nil
	}
	_, err := exec.LookPath(client)
	return err == nil
}

// renewed writes another certificate. New connections must use the new certificate, and
// old connections must continue.
func renewed(t *testing.T, f *tlsFiles, p *process) {
	old := dialTLS(t, p.urls[1], f.trusting())
	change := f.Server()
	f.Write(f.dir, "server", change)
	eventually(t, "the new certificate", func() error {
		c, err := tls.Dial("tcp", strings.TrimPrefix(p.urls[1], "ldaps://"), f.trusting())
		if err != nil {
			return err
		}
		defer c.Close()
		if got := c.ConnectionState().PeerCertificates[0].SerialNumber; got.Cmp(change.Leaf.SerialNumber) != 0 {
			return os.ErrNotExist
		}
		return nil
	})
	if _, err := old.WhoAmI(nil); err != nil {
		t.Error(err)
	}
}
