package directory_test

import (
	"slices"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	_ "github.com/seed-4dac0d86/ldapd/directory/account/strength"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

const configDN = "cn=config"

// setDefault makes cn=config the default policy.
func setDefault(t testing.TB, s *directory.Session, says ...line) {
	t.Helper()
	ls := []line{{"add objectClass", "pwdPolicy"}, {"add pwdAttribute", "userPassword"}}
	for _, l := range says {
		ls = append(ls, line{"add " + l.key, l.value})
	}
	serve(t, s, &op.Modify{Name: configDN, Changes: changes(ls)})
}

// TestDefaultPolicy checks that cn=config is the policy of entries that no other policy applies
// to. It also checks changes of cn=config.
func TestDefaultPolicy(t *testing.T) {
	d, p, s := withPolicy(t)
	serve(t, s, &op.Delete{Name: policyDN})
	setDefault(t, s, line{"pwdLockout", "TRUE"}, line{"pwdMaxFailure", "2"}, line{"pwdMustChange", "TRUE"}, line{"pwdCheckQuality", "1"}, line{"pwdMinLength", "4"})
	if got := valuesOf(t, s, annDN, "pwdPolicySubentry"); !slices.Equal(got, []string{configDN}) {
		t.Errorf("pwdPolicySubentry: %q", got)
	}
	if got := valuesOf(t, s, configDN, "objectClass"); !slices.Equal(got, []string{"top", "directoryConfiguration", "pwdPolicy"}) {
		t.Errorf("objectClass: %q", got)
	}
	for range 2 {
		bindCode(t, d, annDN, "wrong")
	}
	if code := bindCode(t, d, annDN, "ann"); code != op.InvalidCredentials {
		t.Errorf("not locked by the default: %v", code)
	}
	if r := withControls(t, s, &op.Modify{Name: bobDN, Changes: changes([]line{{"replace userPassword", "abc"}})}); r.Code != op.ConstraintViolation {
		t.Errorf("a short password: %v", &r.Result)
	}
	serve(t, s, &op.Modify{Name: configDN, Changes: changes([]line{{"replace pwdMaxFailure", "3"}})})
	if code := bindCode(t, d, annDN, "ann"); code != op.Success {
		t.Errorf("2 of 3 failures: %v", code)
	}

	serve(t, s, &op.Add{Name: policyDN, Attributes: attributes([]line{{"objectClass", "subentry"}, {"objectClass", "pwdPolicy"},
		{"cn", "policy"}, {"subtreeSpecification", "{}"}, {"pwdAttribute", "userPassword"}})})
	if got := valuesOf(t, s, annDN, "pwdPolicySubentry"); !slices.Equal(got, []string{policyDN}) {
		t.Errorf("with a subentry: %q", got)
	}
	serve(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace pwdPolicySubentry", "CN=Config"}})})
	if r := withControls(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "abc"}})}); r.Code != op.ConstraintViolation {
		t.Errorf("the entry names the default: %v", &r.Result)
	}

	before := state.Newest(p)
	defer before.Close()
	serve(t, s, &op.Delete{Name: policyDN})
	serve(t, s, &op.Modify{Name: configDN, Changes: changes([]line{{"delete objectClass", "pwdPolicy"}, {"delete pwdAttribute", ""}, {"delete pwdLockout", ""},
		{"delete pwdMaxFailure", ""}, {"delete pwdMustChange", ""}, {"delete pwdCheckQuality", ""}, {"delete pwdMinLength", ""}})})
	if got := valuesOf(t, s, bobDN, "pwdPolicySubentry"); got != nil {
		t.Errorf("no policy any more: %q", got)
	}
	now := state.Newest(p)
	defer now.Close()
	if before.Catalog.Policy == nil || now.Catalog.Policy != nil {
		t.Errorf("the policy: before %v, now %v", before.Catalog.Policy, now.Catalog.Policy)
	}
}

// TestDefaultPolicyIsChecked checks which changes of cn=config are refused.
func TestDefaultPolicyIsChecked(t *testing.T) {
	_, p, s := withPolicy(t)
	setDefault(t, s, line{"pwdMaxAge", "100"})
	since := state.Newest(p)
	defer since.Close()
	for _, c := range []struct {
		change []line
		want   op.Code
	}{
		{[]line{{"add pwdMaxFailure", "many"}}, op.InvalidAttributeSyntax},
		{[]line{{"add pwdMinAge", "101"}}, op.ConstraintViolation},
		{[]line{{"add pwdPolicyFor", "users"}}, op.ConstraintViolation},
		{[]line{{"add pwdPriority", "1"}}, op.ConstraintViolation},
		{[]line{{"add pwdMaxAge", "200"}}, op.ConstraintViolation},
		{[]line{{"add pwdMaxAge", "100"}}, op.AttributeOrValueExists},
		{[]line{{"delete pwdMaxAge", "99"}}, op.NoSuchAttribute},
		{[]line{{"delete pwdMinAge", ""}}, op.NoSuchAttribute},
		{[]line{{"delete pwdAttribute", ""}}, op.ObjectClassViolation},
		{[]line{{"delete objectClass", "pwdPolicy"}}, op.ObjectClassViolation},
		{[]line{{"delete objectClass", "directoryConfiguration"}}, op.ObjectClassViolation},
		{[]line{{"add objectClass", "device"}}, op.ObjectClassViolation},
		{[]line{{"replace cn", "other"}}, op.UnwillingToPerform},
		{[]line{{"add nothing", "x"}}, op.UndefinedAttributeType},
		{[]line{{"add accessRule", "x: allow everyone to use *"}, {"add pwdMaxAge", "200"}}, op.ConstraintViolation},
	} {
		if r := withControls(t, s, &op.Modify{Name: configDN, Changes: changes(c.change)}); r.Code != c.want {
			t.Errorf("%q: %v", c.change, &r.Result)
		}
	}
	now := state.Newest(p)
	defer now.Close()
	if now.Catalog.Policy != since.Catalog.Policy || now.Catalog.Access != since.Catalog.Access {
		t.Errorf("a change that was refused changed the settings")
	}
	serve(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace pwdReset", "TRUE"}})})
}

// TestMustChangeComesFirst checks that a user who must change the password can change
// neither the settings nor the schema before that, whatever rights the user has.
func TestMustChangeComesFirst(t *testing.T) {
	d, p, s := withPolicy(t, line{"pwdMustChange", "TRUE"})
	setRules(t, p, "use: allow everyone to use *\nall: allow everyone to manage")
	serve(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "reset"}})})
	own := d.NewSession(nil)
	serve(t, own, &op.Bind{Version: 3, Name: annDN, Password: []byte("reset")})
	for _, r := range []*op.Modify{
		{Name: configDN, Changes: changes([]line{{"add accessRule", "x: allow everyone to use *"}})},
		{Name: "cn=Subschema", Changes: changes([]line{{"add attributeTypes", "( 2.25.1 NAME 'x' SUP name )"}})},
	} {
		if got := withControls(t, own, r); got.Code != op.InsufficientAccessRights {
			t.Errorf("%s: %v", r.Name, &got.Result)
		}
	}
}

// TestMustChangeToAnother checks that a user who must change the password cannot "change" it to the
// same password, whatever the policy keeps of earlier passwords, and is free after another password.
func TestMustChangeToAnother(t *testing.T) {
	for _, more := range [][]line{nil, {{"pwdInHistory", "3"}}, {{"pwdCheckQuality", "0"}}, {{"pwdSafeModify", "FALSE"}}} {
		d, p, s := withPolicy(t, append([]line{{"pwdMustChange", "TRUE"}}, more...)...)
		setRules(t, p, "bind: allow everyone to bind\nuse: allow everyone to use *\nown: allow self to write userPassword")
		serve(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "reset"}})})
		own := d.NewSession(nil)
		serve(t, own, &op.Bind{Version: 3, Name: annDN, Password: []byte("reset")})
		for what, r := range map[string]op.Request{
			"replace":         &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "reset"}})},
			"delete and add":  &op.Modify{Name: annDN, Changes: changes([]line{{"delete userPassword", "reset"}, {"add userPassword", "reset"}})},
			"Password Modify": &op.Extended{OID: control.OIDPasswordModify, Value: passwordModify("", "", "reset")},
			"with the old":    &op.Extended{OID: control.OIDPasswordModify, Value: passwordModify("", "reset", "reset")},
		} {
			got := withControls(t, own, r, op.Control{OID: control.OIDPasswordPolicy})
			if got.Code != op.ConstraintViolation || policyControl(got) != failed(8) {
				t.Errorf("%v, %s: %v, %s", more, what, &got.Result, policyControl(got))
			}
		}
		if got := withControls(t, own, &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "mine"}})}); got.Code != op.Success {
			t.Errorf("another password: %v", &got.Result)
		}
		// Who need not change the password may set it again, unless the policy keeps earlier ones.
		want := op.Success
		if more != nil && more[0].key == "pwdInHistory" {
			want = op.ConstraintViolation
		}
		if got := withControls(t, own, &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "mine"}})}); got.Code != want {
			t.Errorf("the same password, without a duty: %v", &got.Result)
		}
	}
}

// TestDefaultPolicyReachesServers checks that a change of the default policy is acknowledged
// only after all servers apply it.
func TestDefaultPolicyReachesServers(t *testing.T) {
	cs := newServers(t)
	cs[0].addPerson("ann")
	cs[0].must("modify", "dn: cn=config", "add objectClass: pwdPolicy", "add pwdAttribute: userPassword", "add pwdCheckQuality: 1")
	for i := range 20 {
		length := []string{"100", "1"}[i%2]
		cs[0].must("modify", "dn: cn=config", "replace pwdMinLength: "+length)
		out := cs[1].do("modify", "dn: uid=ann,dc=example,dc=com", "replace userPassword: abc")
		if want := []string{"19", "0"}[i%2]; len(out) < len(want) || out[:len(want)] != want {
			t.Fatalf("at least %s characters: %s", length, out)
		}
	}
}

// TestRecommendedPolicy checks that a new directory can begin with the recommended
// policy.
func TestRecommendedPolicy(t *testing.T) {
	d := newDirectory(t, newPartitionWith(t, partition.Options{Policy: directory.RecommendedPolicy()}), directory.Options{})
	t.Cleanup(d.Close)
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	if got := valuesOf(t, s, configDN, "pwdMinLength"); !slices.Equal(got, []string{"12"}) {
		t.Errorf("pwdMinLength: %q", got)
	}
	// A modify can change the recommended policy like any other default policy.
	serve(t, s, &op.Modify{Name: configDN, Changes: changes([]line{{"replace pwdMaxFailure", "10"}})})
	add := func(password string) op.Code {
		return withControls(t, s, &op.Add{Name: "dc=example,dc=com", Attributes: attributes([]line{{"objectClass", "domain"},
			{"objectClass", "simpleSecurityObject"}, {"dc", "example"}, {"userPassword", password}})}).Code
	}
	if code := add("short"); code != op.ConstraintViolation {
		t.Errorf("short: %v", code)
	}
	if code := add("correct-zebra-7-ladder"); code != op.Success {
		t.Errorf("long: %v", code)
	}
}
