package ldaptest_test

import (
	"crypto/tls"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/tools/ldaptest"
)

const people = `dn: dc=test,dc=org
objectClass: domain
dc: test

dn: uid=ann,dc=test,dc=org
objectClass: inetOrgPerson
uid: ann
cn: Ann
sn: Bee
userPassword: secret of ann
`

func dial(t *testing.T, s *ldaptest.Server, name, password string) *ldap.Conn {
	t.Helper()
	c, err := ldap.DialURL(s.URL, ldap.DialWithTLSConfig(&tls.Config{RootCAs: s.CA}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Bind(name, password); err != nil {
		t.Fatal(err)
	}
	return c
}

func names(t *testing.T, c *ldap.Conn, base string) string {
	t.Helper()
	r, err := c.Search(ldap.NewSearchRequest(base, ldap.ScopeWholeSubtree, 0, 0, 0, false, "(objectClass=*)", []string{"1.1"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range r.Entries {
		all = append(all, e.DN)
	}
	return strings.Join(all, "; ")
}

func TestStart(t *testing.T) {
	t.Parallel()
	s := ldaptest.Start(t)
	if got := names(t, dial(t, s, s.BindDN, s.Password), s.Suffix); got != "dc=example,dc=com" {
		t.Errorf("a server without files has %s", got)
	}
}

// TestReset binds as a person of an LDIF, over TLS, changes everything, and resets it.
func TestReset(t *testing.T) {
	t.Parallel()
	s := ldaptest.Start(t, ldaptest.Entries(people), ldaptest.TLS())
	const ann, before = "uid=ann,dc=test,dc=org", "dc=test,dc=org; uid=ann,dc=test,dc=org"
	dial(t, s, ann, "secret of ann")
	admin := dial(t, s, s.BindDN, s.Password)
	for range 2 {
		if got := names(t, admin, s.Suffix); got != before {
			t.Fatalf("%s, want %s", got, before)
		}
		if err := admin.Del(ldap.NewDelRequest(ann, nil)); err != nil {
			t.Fatal(err)
		}
		add := ldap.NewAddRequest("ou=more,"+s.Suffix, nil)
		add.Attribute("objectClass", []string{"organizationalUnit"})
		if err := admin.Add(add); err != nil {
			t.Fatal(err)
		}
		s.Reset()
	}
	dial(t, s, ann, "secret of ann")
	if err := admin.Del(ldap.NewDelRequest(ann, nil)); err != nil {
		t.Fatal(err)
	}
	if err := admin.Del(ldap.NewDelRequest(s.Suffix, nil)); err != nil {
		t.Fatal(err)
	}
	s.Reset() // of an empty directory
	if got := names(t, admin, s.Suffix); got != before {
		t.Errorf("%s, want %s", got, before)
	}
}

// A failing is a testing.TB that notes the failure of its test.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	panic(f)
}

// TestBadEntry checks that a bad entry fails the test with its place.
func TestBadEntry(t *testing.T) {
	t.Parallel()
	f := &failing{TB: t}
	defer func() {
		if recover() == nil || !strings.Contains(f.text, `ldaptest: Entries:5: "uid=ann,dc=test,dc=org": `) {
			t.Errorf("%q", f.text)
		}
	}()
	ldaptest.Start(f, ldaptest.Entries(strings.Replace(people, "sn: Bee\n", "", 1)))
}

var otherModule = flag.Bool("othermodule", false, "compile a module that uses the package, which takes a minute")

// TestOtherModule uses the package from a module of its own, as users do.
func TestOtherModule(t *testing.T) {
	if !*otherModule {
		t.Skip("SKIPPED: a module that uses the package (-othermodule compiles it)")
	}
	t.Parallel()
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const module = "github.com/seed-4dac0d86/ldapd"
	for name, text := range map[string]string{
		"login_test.go": read("testdata/login_test.go.txt"),
		"go.sum":        read(filepath.Join(root, "go.sum")),
		"go.mod": strings.Replace(read(filepath.Join(root, "go.mod")), "module "+module, "module example.org/login", 1) +
			fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %s => %s\n", module, module, root),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("go", "test", "-mod=mod", "-vet=off", "-v", ".")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLogin") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() { // each server lives to the end of the benchmark
		ldaptest.Start(b, ldaptest.Entries(people))
	}
}
