package directory_test

import (
	"slices"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

var anything = filter.MustParse("(objectClass=*)")

// answerTo returns the result of a request, with controls.
func answerTo(t *testing.T, s *directory.Session, r op.Request, controls ...op.Control) op.Result {
	t.Helper()
	var out answers
	s.Serve(t.Context(), &op.Message{Request: r, Controls: controls}, &out)
	return out.done.Result
}

// TestReferralOutside checks that an operation other than Bind is referred to the configured
// servers if its name is outside all naming contexts. This holds for every requester, with and
// without ManageDsaIT. Operations on the server's own entries are not referred.
func TestReferralOutside(t *testing.T) {
	d := newUsers(t, directory.Options{})
	d = newDirectory(t, directory.PartitionOf(d), directory.Options{Referral: []string{"ldap://up.example", "ldaps://up2.example:1636"}})
	const out, in = "cn=a b,o=Other", "cn=nobody,DC=Example, dc=com"
	search := func(base string, scope op.Scope) *op.Search {
		return &op.Search{Base: base, Scope: scope, Filter: anything}
	}
	admins, anyone := d.NewSession(nil), d.NewSession(nil)
	serve(t, admins, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	below := "o=Elsewhere"
	for _, c := range []struct {
		name    string
		request op.Request
		code    op.Code
		url     string // URL of the first server
	}{
		{"search", search(out, op.WholeSubtree), op.Referral, "ldap://up.example/cn=a%20b,o=Other??sub"},
		{"base search", search(out, op.BaseObject), op.Referral, "ldap://up.example/cn=a%20b,o=Other??base"},
		{"search of unknown types", search("x-y=z", op.SingleLevel), op.Referral, "ldap://up.example/x-y=z??one"},
		{"search above a context", search("dc=com", op.BaseObject), op.Referral, "ldap://up.example/dc=com??base"},
		{"search below a context", search(in, op.BaseObject), op.NoSuchObject, ""},
		{"search of all contexts", search("", op.WholeSubtree), op.Success, ""},
		{"root DSE", search("", op.BaseObject), op.Success, ""},
		{"subschema", search("cn=Subschema", op.BaseObject), op.Success, ""},
		{"below the subschema", search("cn=x,cn=Subschema", op.BaseObject), op.NoSuchObject, ""},
		{"compare", &op.Compare{Name: out, Description: "cn", Value: []byte("x")}, op.Referral, "ldap://up.example/cn=a%20b,o=Other"},
		{"compare of the monitor", &op.Compare{Name: "cn=x,cn=monitor", Description: "cn", Value: []byte("x")}, op.NoSuchObject, ""},
		{"add", &op.Add{Name: out, Attributes: attributes([]line{{"objectClass", "device"}, {"cn", "a b"}})}, op.Referral, "ldap://up.example/cn=a%20b,o=Other"},
		{"modify", &op.Modify{Name: out, Changes: changes([]line{{"replace description", "x"}})}, op.Referral, "ldap://up.example/cn=a%20b,o=Other"},
		{"delete", &op.Delete{Name: out}, op.Referral, "ldap://up.example/cn=a%20b,o=Other"},
		{"rename", &op.ModifyDN{Name: out, NewRDN: "cn=b"}, op.Referral, "ldap://up.example/cn=a%20b,o=Other"},
	} {
		manage := op.Control{OID: "2.16.840.1.113730.3.4.2", Critical: true}
		for _, r := range []op.Result{answerTo(t, admins, c.request), answerTo(t, admins, c.request, manage), answerTo(t, anyone, c.request)} {
			var want []string
			if c.url != "" {
				want = []string{c.url, "ldaps://up2.example:1636" + c.url[len("ldap://up.example"):]}
			}
			if r.Code != c.code || !slices.Equal(r.Referrals, want) {
				t.Errorf("%s: %v, %q", c.name, &r, r.Referrals)
			}
		}
	}
	if c := codeOf(t, admins, &op.ModifyDN{Name: annDN, NewRDN: "uid=ann", NewSuperior: &below}); c != op.AffectsMultipleDSAs {
		t.Errorf("move to another server: %v", c)
	}
	if c := codeOf(t, anyone, &op.Bind{Version: 3, Name: out, Password: []byte("x")}); c != op.InvalidCredentials {
		t.Errorf("bind: %v", c)
	}
	if err := d.Reconfigure(directory.Options{}); err != nil {
		t.Fatal(err)
	}
	if c := codeOf(t, anyone, search(out, op.BaseObject)); c != op.NoSuchObject {
		t.Errorf("without a referral: %v", c)
	}
}

// TestReferralInRootDSE checks that the root DSE contains the servers that clients are
// referred to.
func TestReferralInRootDSE(t *testing.T) {
	d := newDirectory(t, newPartition(t), directory.Options{Referral: []string{"ldap://up.example"}})
	var out answers
	d.NewSession(nil).Serve(t.Context(), &op.Message{Request: &op.Search{Filter: anything, Attributes: []string{"ref"}}}, &out)
	if want := []string{"dn: \n  ref: ldap://up.example\n"}; !slices.Equal(out.entries, want) {
		t.Errorf("%q", out.entries)
	}
}
