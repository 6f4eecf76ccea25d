package ldaptest_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldaptest"
)

const people = `dn: dc=example,dc=com
objectClass: domain

dn: uid=ann,dc=example,dc=com
objectClass: inetOrgPerson
cn: Ann
sn: Lee
userPassword: three blind mice

dn: o=other
objectClass: organization
`

func dial(t *testing.T, url string, options ...ldap.DialOpt) *ldap.Conn {
	t.Helper()
	c, err := ldap.DialURL(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestStart(t *testing.T) {
	srv := ldaptest.Start(t, ldaptest.Text(people))
	if srv.BaseDN != "dc=example,dc=com" {
		t.Errorf("BaseDN %q", srv.BaseDN)
	}
	c := dial(t, srv.URL)
	if err := c.Bind("uid=ann,dc=example,dc=com", "three blind mice"); err != nil {
		t.Error(err)
	}
	if err := c.Bind(srv.BindDN, srv.Password); err != nil {
		t.Error(err)
	}
	if err := c.Del(ldap.NewDelRequest("o=other", nil)); err != nil {
		t.Error(err)
	}
}

// TestReset changes entries by a connection that stays.
func TestReset(t *testing.T) {
	srv := ldaptest.Start(t, ldaptest.Text(people))
	c := dial(t, srv.URL)
	if err := c.Bind(srv.BindDN, srv.Password); err != nil {
		t.Fatal(err)
	}
	r := ldap.NewModifyRequest("uid=ann,dc=example,dc=com", nil)
	r.Replace("userPassword", []string{"other"})
	if err := c.Modify(r); err != nil {
		t.Fatal(err)
	}
	if err := c.Del(ldap.NewDelRequest("o=other", nil)); err != nil {
		t.Fatal(err)
	}
	srv.Reset()
	if err := c.Bind("uid=ann,dc=example,dc=com", "three blind mice"); err != nil {
		t.Error(err)
	}
	if ok, err := c.Compare("o=other", "o", "other"); !ok || err != nil {
		t.Error(ok, err)
	}
}

func TestTLS(t *testing.T) {
	srv := ldaptest.Start(t, ldaptest.TLS())
	pem, err := os.ReadFile(srv.CA)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	config.RootCAs.AppendCertsFromPEM(pem)
	if err := dial(t, srv.SecureURL, ldap.DialWithTLSConfig(config)).Bind(srv.BindDN, srv.Password); err != nil {
		t.Error(err)
	}
	c := dial(t, srv.URL)
	if err := c.StartTLS(config); err != nil {
		t.Fatal(err)
	}
	if err := c.Bind(srv.BindDN, srv.Password); err != nil {
		t.Error(err)
	}
}

// TestBeside checks that servers beside each other share nothing.
func TestBeside(t *testing.T) {
	for i := range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			base := fmt.Sprintf("o=%d", i)
			srv := ldaptest.Start(t, ldaptest.Text("dn: "+base+"\nobjectClass: organization\n"))
			for range 3 {
				r, err := dial(t, srv.URL).Search(ldap.NewSearchRequest("", ldap.ScopeBaseObject, 0, 0, 0, false, "(objectClass=*)", []string{"namingContexts"}, nil))
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Entries[0].GetAttributeValues("namingContexts"); len(got) != 1 || got[0] != base {
					t.Errorf("%s has %q", base, got)
				}
				srv.Reset()
			}
		})
	}
}

// failing is a test that ends at its first failure.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

// TestBadFiles checks that the diagnostic has the file and the line.
func TestBadFiles(t *testing.T) {
	file := t.TempDir() + "/bad.ldif"
	for text, want := range map[string]string{
		people + "\ndn: uid=bob,dc=example,dc=com\nobjectClass: inetOrgPerson\n": "bad.ldif:13: uid=bob,dc=example,dc=com: ",
		people + "\ndn: uid=ann,dc=example,dc=com\nchangetype: delete\n":         "bad.ldif:13: only entries",
		"dn: dc=example,dc=com\nobjectClass domain\n":                            "line 2",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := &failing{TB: t}
		func() {
			defer func() { _ = recover() }()
			ldaptest.Start(f, ldaptest.LDIF(file))
		}()
		if !strings.Contains(f.said, want) {
			t.Errorf("%q, want %q", f.said, want)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		ldaptest.Start(b, ldaptest.Text(people)).Reset()
	}
}
