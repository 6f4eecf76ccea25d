package directory_test

import (
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// codeOf returns the result code of a request.
func codeOf(t *testing.T, s *directory.Session, r op.Request) op.Code {
	t.Helper()
	var out answers
	s.Serve(t.Context(), &op.Message{Request: r}, &out)
	return out.done.Code
}

// TestClearPasswords checks that passwords in clear are accepted only from the clients
// that the options allow.
func TestClearPasswords(t *testing.T) {
	d := newUsers(t, directory.Options{})
	for _, c := range []struct {
		allowed directory.ClearPasswords
		remote  string
		code    op.Code
	}{
		{directory.ClearFromAnywhere, "192.0.2.1:5", op.Success},
		{directory.ClearFromThisMachine, "192.0.2.1:5", op.ConfidentialityRequired},
		{directory.ClearFromThisMachine, "127.0.0.1:5", op.Success},
		{directory.ClearFromThisMachine, "[::1]:5", op.Success},
		{directory.ClearFromThisMachine, "[::ffff:127.0.0.1]:5", op.Success},
		{directory.ClearFromThisMachine, "", op.ConfidentialityRequired},
		{directory.ClearFromNowhere, "127.0.0.1:5", op.ConfidentialityRequired},
	} {
		served := newDirectory(t, directory.PartitionOf(d), directory.Options{ClearPasswords: c.allowed})
		bind := &op.Bind{Version: 3, Name: annDN, Password: []byte("ann")}
		if code := codeOf(t, served.NewSession(simPeer{remote: c.remote}), bind); code != c.code {
			t.Errorf("%d from %q: %v", c.allowed, c.remote, code)
		}
	}
}

// TestReconfigure checks that options can be replaced while sessions continue: the
// administrator's password, and the limits of bound identities. Invalid options must
// change nothing.
func TestReconfigure(t *testing.T) {
	d := newUsers(t, directory.Options{})
	served := newDirectory(t, directory.PartitionOf(d), directory.Options{})
	s := served.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: annDN, Password: []byte("ann")})
	search := &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse("(objectClass=*)")}
	bind := func(password string) op.Code {
		return codeOf(t, served.NewSession(nil), &op.Bind{Version: 3, Name: admin, Password: []byte(password)})
	}
	serve(t, s, search)
	limited := directory.Options{Admin: admin, AdminPassword: "new",
		LimitRules: []directory.LimitRule{{Who: "users", Limits: directory.Limits{Size: 1}}}}
	if err := served.Reconfigure(limited); err != nil {
		t.Fatal(err)
	}
	if c := codeOf(t, s, search); c != op.SizeLimitExceeded {
		t.Errorf("search: %v", c)
	}
	if was, is := bind("secret"), bind("new"); was != op.InvalidCredentials || is != op.Success {
		t.Errorf("the old password %v, the new one %v", was, is)
	}
	if err := served.Reconfigure(directory.Options{LimitRules: []directory.LimitRule{{Who: "nobody"}}}); err == nil {
		t.Error("a wrong rule is taken")
	}
	if c := codeOf(t, s, search); c != op.SizeLimitExceeded {
		t.Errorf("search after wrong options: %v", c)
	}
}

// TestEmptyPassword checks that an empty password is refused in every form.
func TestEmptyPassword(t *testing.T) {
	s := newUsers(t, directory.Options{}).NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	for _, value := range []string{"", "{CLEAR}", "{CLEARTEXT}"} {
		password := line{"userPassword", value}
		for _, r := range []op.Request{
			&op.Add{Name: "uid=new,dc=example,dc=com", Attributes: person("new", password)},
			&op.Modify{Name: annDN, Changes: []op.Modification{{Kind: op.ModReplace, PartialAttribute: attributes([]line{password})[0]}}},
		} {
			if c := codeOf(t, s, r); c != op.ConstraintViolation {
				t.Errorf("%q by %T: %v", value, r, c)
			}
		}
	}
}

// TestAdminWithAnEntry checks whom a name binds that is an entry's, before, while and after it is the
// administrator's, also if the state remembers the name, and if the entry is renamed.
func TestAdminWithAnEntry(t *testing.T) {
	d := newUsers(t, directory.Options{})
	served := newDirectory(t, directory.PartitionOf(d), directory.Options{})
	binds := func(password string, want op.Code) {
		t.Helper()
		for range 3 {
			if code := codeOf(t, served.NewSession(nil), &op.Bind{Version: 3, Name: annDN, Password: []byte(password)}); code != want {
				t.Errorf("with %q: %v, want %v", password, code, want)
			}
		}
	}
	configure := func(o directory.Options) {
		t.Helper()
		if err := served.Reconfigure(o); err != nil {
			t.Fatal(err)
		}
	}
	binds("ann", op.Success)
	configure(directory.Options{Admin: strings.ToUpper(annDN), AdminPassword: "other"})
	binds("ann", op.InvalidCredentials)
	binds("other", op.Success)
	configure(directory.Options{Admin: admin, AdminPassword: adminPassword})
	binds("other", op.InvalidCredentials)
	binds("ann", op.Success)
	s := served.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	serve(t, s, &op.ModifyDN{Name: annDN, NewRDN: "uid=anna", DeleteOldRDN: true})
	binds("ann", op.InvalidCredentials)
	serve(t, s, &op.ModifyDN{Name: strings.Replace(annDN, "ann", "anna", 1), NewRDN: "uid=ann", DeleteOldRDN: true})
	binds("ann", op.Success)
}
