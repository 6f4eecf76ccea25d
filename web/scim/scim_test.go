package scim_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/auth/authtest"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/web"
	"github.com/seed-4dac0d86/ldapd/web/scim"
)

const admin = "cn=admin,dc=example,dc=com"

// A server serves SCIM of a directory in memory.
type server struct {
	testing.TB
	*httptest.Server
	d    *directory.Directory
	ldap web.Client // bound as the administrator
}

func newServer(t testing.TB) *server {
	t.Helper()
	ctx := context.Background()
	store, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	p, err := partition.Open(ctx, store, partition.Options{Create: true, References: catalog.DefaultReferences()})
	if err != nil {
		t.Fatal(err)
	}
	if err := onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}); err != nil {
		t.Fatal(err)
	}
	d, err := directory.New(p, directory.Options{Admin: admin, AdminPassword: "{CLEARTEXT}secret", Passwords: auth.New(0, authtest.Cheap)})
	if err != nil {
		t.Fatal(err)
	}
	h, err := scim.New(d, scim.Options{Users: "ou=people", Groups: "ou=groups", UserClass: []string{"inetOrgPerson"}, GroupClass: []string{"groupOfNames"},
		UserName: "uid", Member: "member"})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{TB: t, Server: httptest.NewServer(h), d: d, ldap: web.Client{Session: d.NewSession(nil)}}
	t.Cleanup(func() {
		s.Server.Close()
		d.Close()
		p.Close(ctx)
		store.Close()
	})
	s.do(&op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	s.do(&op.Add{Name: "dc=example,dc=com", Attributes: []op.PartialAttribute{op.Attribute("objectClass", "domain"), op.Attribute("dc", "example")}})
	return s
}

// do runs an LDAP operation as the administrator.
func (s *server) do(r op.Request) {
	s.Helper()
	if _, err := s.ldap.Do(s.Context(), r, web.Answer{}); err != nil {
		s.Fatalf("%T: %v", r, err)
	}
}

// commits returns the number of changes in the changelog.
func (s *server) commits() (n int) {
	s.Helper()
	r := &op.Search{Base: "cn=changelog", Scope: op.SingleLevel, Filter: filter.MustParse("(objectClass=*)"), Attributes: []string{"1.1"}}
	if _, err := s.ldap.Do(s.Context(), r, web.Answer{Entry: func(*op.SearchEntry) error { n++; return nil }}); err != nil {
		s.Fatal(err)
	}
	return n
}

// ask sends a request as the administrator. The headers are NAME: VALUE.
func (s *server) ask(method, path, body string, headers ...string) (int, map[string]any, http.Header) {
	s.Helper()
	q, err := http.NewRequest(method, s.URL+scim.Prefix+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	q.SetBasicAuth(admin, "secret")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		q.Header.Set(name, value)
	}
	r, err := s.Client().Do(q)
	if err != nil {
		s.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.Fatal(err)
	}
	o := map[string]any{}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &o); err != nil {
			s.Fatalf("%s %s: %v\n%s", method, path, err, text)
		}
	}
	return r.StatusCode, o, r.Header
}
