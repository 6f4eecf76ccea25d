package directory_test

import (
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
)

// secretsOf gives what the administrator sees of an entry's secrets.
func secretsOf(t *testing.T, d *directory.Directory, name string) string {
	t.Helper()
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	var out answers
	s.Serve(t.Context(), &op.Message{Request: &op.Search{Base: name, Filter: filter.MustParse("(objectClass=*)"),
		Attributes: []string{"userPassword", "scramKey"}}}, &out)
	return out.entries[0]
}

// After a bind, and not before, passwords are stored as new ones are.
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
		becomes  string // what userPassword begins with then
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
