package directory_test

import (
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

// secretsOf returns the secrets of an entry as the administrator sees them.
func secretsOf(t *testing.T, d *directory.Directory, name string) string {
	t.Helper()
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	var out answers
	s.Serve(t.Context(), &op.Message{Request: &op.Search{Base: name, Filter: filter.MustParse("(objectClass=*)"),
		Attributes: []string{"userPassword", "scramKey"}}}, &out)
	return out.entries[0]
}

// TestUpgrade checks that a successful bind stores the password in the form of new passwords.
// A failed bind, a bind to an entry with two passwords, and a bind without the option
// UpgradePasswords must leave the stored values unchanged.
func TestUpgrade(t *testing.T) {
	argon, err := auth.New(1, nil).Hash(t.Context(), auth.NoChannel{}, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		upgrades bool
		stored   []line
		password string
		becomes  string // the beginning of userPassword after the bind
		keys     int
	}{
		{"a fast scheme", true, []line{{"userPassword", adminPassword}}, "secret", "{ARGON2}", 3},
		{"no keys", true, []line{{"userPassword", string(argon)}}, "secret", "{ARGON2}", 3},
		{"a wrong password", true, []line{{"userPassword", adminPassword}}, "wrong", "{SSHA}", 0},
		{"two passwords", true, []line{{"userPassword", adminPassword}, {"userPassword", string(argon)}}, "secret", "{SSHA}", 0},
		{"not wanted", false, []line{{"userPassword", adminPassword}}, "secret", "{SSHA}", 0},
	} {
		d := newUsers(t, directory.Options{UpgradePasswords: c.upgrades})
		s := d.NewSession(nil)
		serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
		name := "uid=carl,dc=example,dc=com"
		serve(t, s, &op.Add{Name: name, Attributes: person("carl", c.stored...)})
		for range 2 {
			var out answers
			s.Serve(t.Context(), &op.Message{Request: &op.Bind{Version: 3, Name: name, Password: []byte(c.password)}}, &out)
			if (out.done.Code == op.Success) != (c.password == "secret") {
				t.Errorf("%s: %v", c.name, &out.done.Result)
			}
			directory.AwaitUpgrade(d)
			got := secretsOf(t, d, name)
			if !strings.Contains(got, "userPassword: "+c.becomes) || strings.Count(got, "scramKey: ") != c.keys {
				t.Errorf("%s: %s", c.name, got)
			}
		}
		if c.keys > 0 {
			if r, _ := scramBind(t, s, "SCRAM-SHA-256", "carl", "secret", ""); r.Code != op.Success {
				t.Errorf("%s: %v", c.name, &r.Result)
			}
		}
	}
}

// TestNoKeysUnlessConfigured checks that no SCRAM keys are derived for any password if no
// SCRAM mechanism is configured. If an account already has SCRAM keys and passwords are
// upgraded, the next bind to the account must delete the keys.
func TestNoKeysUnlessConfigured(t *testing.T) {
	d := newUsers(t, directory.Options{})
	if got := secretsOf(t, d, annDN); strings.Count(got, "scramKey: ") != 3 {
		t.Fatalf("with all mechanisms: %s", got)
	}
	d, err := directory.New(directory.PartitionOf(d), directory.Options{Admin: admin, AdminPassword: adminPassword, UpgradePasswords: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	none := func(name string) {
		t.Helper()
		if got := secretsOf(t, d, name); strings.Contains(got, "scramKey") || !strings.Contains(got, "userPassword: {ARGON2}") {
			t.Error(got)
		}
	}
	bind := func(name, password string) *directory.Session {
		s := d.NewSession(nil)
		serve(t, s, &op.Bind{Version: 3, Name: name, Password: []byte(password)})
		directory.AwaitUpgrade(d)
		return s
	}
	s := bind(annDN, "ann")
	none(annDN)
	serve(t, s, &op.Extended{OID: "1.3.6.1.4.1.4203.1.11.1", Value: []byte("\x30\x05\x82\x03new")})
	none(annDN)
	set(t, d, "userPassword", "ann")
	none(annDN)
	root := bind(admin, "secret")
	carl := "uid=carl,dc=example,dc=com"
	serve(t, root, &op.Add{Name: carl, Attributes: person("carl", line{"userPassword", "carl"})})
	none(carl)
	before := state.Newest(directory.PartitionOf(d))
	defer before.Close()
	bind(carl, "carl")
	after := state.Newest(directory.PartitionOf(d))
	defer after.Close()
	if before.Revision() != after.Revision() {
		t.Error("a bind that had nothing to upgrade made a commit")
	}
}

// TestSecretsAreNotAmongAllOperational checks that secrets are returned only by name, and
// not by a request for all operational attributes.
func TestSecretsAreNotAmongAllOperational(t *testing.T) {
	d := newUsers(t, directory.Options{})
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	for attributes, want := range map[string]bool{"+": false, "* +": false, "*": false, "scramKey": true, "+ scramKey": true} {
		r := devices("(objectClass=*)")
		r.Base, r.Scope, r.Attributes = annDN, op.BaseObject, strings.Fields(attributes)
		var out answers
		s.Serve(t.Context(), &op.Message{Request: r}, &out)
		if got := strings.Contains(out.entries[0], "scramKey"); got != want {
			t.Errorf("%s: %s", attributes, out.entries[0])
		}
	}
}
