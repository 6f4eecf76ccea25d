package directory_test

import (
	"slices"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestNamingContexts checks that naming contexts are added and removed by modifies of cn=config, at all
// servers, and what is refused.
func TestNamingContexts(t *testing.T) {
	cs := newServers(t)
	s := cs[0].s
	organization := func(name string) *op.Add {
		return &op.Add{Name: "o=" + name, Attributes: attributes([]line{{"objectClass", "organization"}, {"o", name}})}
	}
	if r := withControls(t, s, organization("Second")); r.Code != op.NoSuchObject {
		t.Errorf("add without a naming context: %v", &r.Result)
	}
	serve(t, s, &op.Modify{Name: configDN, Changes: changes([]line{{"add namingContexts", "o=Second"}})})
	serve(t, s, organization("Second"))
	want := []string{"dc=example,dc=com", "o=Second"}
	if got := valuesOf(t, s, configDN, "namingContexts"); !slices.Equal(got, want) {
		t.Errorf("cn=config has %q, want %q", got, want)
	}
	if err := cs[1].p.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := valuesOf(t, cs[1].s, "", "namingContexts"); !slices.Equal(got, want) {
		t.Errorf("the other server's root DSE has %q, want %q", got, want)
	}
	if got := valuesOf(t, cs[1].s, "o=second", "o"); !slices.Equal(got, []string{"Second"}) {
		t.Errorf("the other server finds %q", got)
	}

	for _, x := range []struct {
		change line
		want   op.Code
	}{
		{line{"add namingContexts", "O = second"}, op.AttributeOrValueExists},
		{line{"add namingContexts", "o"}, op.InvalidDNSyntax},
		{line{"add namingContexts", ""}, op.ProtocolError}, // no value
		{line{"add namingContexts", "CN=monitor"}, op.UnwillingToPerform},
		{line{"add namingContexts;lang-de", "o=Third"}, op.ConstraintViolation},
		{line{"increment namingContexts", "1"}, op.InvalidDNSyntax},
		{line{"delete namingContexts", "o=Third"}, op.NoSuchAttribute},
		{line{"delete namingContexts", "o=Second"}, op.UnwillingToPerform}, // it has entries
		{line{"delete namingContexts", ""}, op.UnwillingToPerform},
		{line{"replace namingContexts", "o=Third"}, op.UnwillingToPerform},
	} {
		if r := withControls(t, s, &op.Modify{Name: configDN, Changes: changes([]line{x.change})}); r.Code != x.want {
			t.Errorf("%s %s: %v, want %v", x.change.key, x.change.value, &r.Result, x.want)
		}
	}

	serve(t, s, &op.Delete{Name: "o=Second"})
	serve(t, s, &op.Modify{Name: configDN, Changes: changes([]line{{"delete namingContexts", "O=SECOND"}, {"add namingContexts", "o=Third"}})})
	if got, want := valuesOf(t, s, configDN, "namingContexts"), []string{"dc=example,dc=com", "o=Third"}; !slices.Equal(got, want) {
		t.Errorf("cn=config has %q, want %q", got, want)
	}
}
