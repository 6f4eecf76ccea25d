package directory_test

import (
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
)

// setRules puts access rules into force.
func setRules(t testing.TB, p *partition.Partition, text string) {
	t.Helper()
	rules, err := acl.ReadFile(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	err = onlineschema.SetAccess(t.Context(), p, partition.By{}, func(s *partition.Snapshot, _ []partition.AccessRule) ([]partition.AccessRule, error) {
		return access.Store(t.Context(), s, rules)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestComparePassword checks the Compare operation on userPassword. The requester needs the
// right to compare, granted by a rule that names userPassword. A Compare verifies the
// password, and counts a failure as a bind does. A Compare must be false for a locked
// account and for an account that cannot be used.
func TestComparePassword(t *testing.T) {
	d, p, s := withPolicy(t, line{"pwdLockout", "TRUE"}, line{"pwdMaxFailure", "3"}, line{"pwdLockoutDuration", "300"})
	const read = "bind: allow everyone to bind\nread: allow everyone to read *, +\n"
	user := d.NewSession(nil)
	compare := func(dn, password string) op.Code {
		return withControls(t, user, &op.Compare{Name: dn, Description: "userPassword", Value: []byte(password)}).Code
	}
	wants := func(what string, got, want op.Code) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	setRules(t, p, read)
	serve(t, user, &op.Bind{Version: 3, Name: bobDN, Password: []byte("bob")})
	wants("without the right", compare(annDN, "ann"), op.InsufficientAccessRights)
	setRules(t, p, read+"check: allow everyone to compare userPassword")
	wants("the right password", compare(annDN, "ann"), op.CompareTrue)
	for range 3 {
		wants("a wrong password", compare(annDN, "no"), op.CompareFalse)
	}
	wants("a locked account", compare(annDN, "ann"), op.CompareFalse)
	wants("a bind to it", bindCode(t, d, annDN, "ann"), op.InvalidCredentials)
	wants("another account", compare(bobDN, "bob"), op.CompareTrue)
	relaxed(t, s, &op.Modify{Name: bobDN, Changes: changes([]line{{"replace pwdStartTime", "20990101000000Z"}})})
	user = d.NewSession(nil)
	wants("an account that cannot be used", compare(bobDN, "bob"), op.CompareFalse)
	wants("a bind to it", bindCode(t, d, bobDN, "bob"), op.InvalidCredentials)
}
