package directory_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// refreshed requests a refresh and returns the names received, the cookie and the result.
func refreshed(t *testing.T, s *directory.Session, cookie string) (names []string, next string, result op.Result) {
	t.Helper()
	var out answers
	r := devices("(objectClass=device)")
	s.Serve(t.Context(), &op.Message{Request: r, Controls: []op.Control{withCookie(1, cookie)}}, &out)
	for _, c := range out.done.Controls {
		if c.OID == "1.3.6.1.4.1.4203.1.9.1.3" {
			r := ber.NewReader(c.Value)
			r.Enter(ber.Sequence)
			next = string(r.Bytes(ber.OctetString))
		}
	}
	return out.entries, next, out.done.Result
}

// TestCookiesBelowTheFloor checks cookies of a state that garbage collection has removed. A
// search with a paging cookie must be refused. A sync operation must send the present
// entries instead of the changes.
func TestCookiesBelowTheFloor(t *testing.T) {
	p := newPartition(t)
	_, s := newPeopleIn(t, p, 6)
	_, pages, result := page(t, s, devices("(objectClass=device)"), 2, nil)
	if result.Code != op.Success || len(pages) == 0 {
		t.Fatal(result)
	}
	_, known, result := refreshed(t, s, "")
	if result.Code != op.Success {
		t.Fatal(result)
	}
	serve(t, s, &op.Modify{Name: "cn=d01,dc=example,dc=com", Changes: []op.Modification{{Kind: op.ModReplace,
		PartialAttribute: op.PartialAttribute{Description: "description", Values: [][]byte{[]byte("new")}}}}})
	serve(t, s, &op.Delete{Name: "cn=d02,dc=example,dc=com"})
	if names, _, result := refreshed(t, s, known); result.Code != op.Success || len(names) != 1 {
		t.Fatalf("what has changed: %q, %v", names, result)
	}

	if _, err := p.DB.Collect(t.Context(), txn.CollectOptions{}); err != nil {
		t.Fatal(err)
	}
	_, _, result = page(t, s, devices("(objectClass=device)"), 2, pages)
	if result.Code != op.UnwillingToPerform || !strings.Contains(result.Diagnostic, "no longer kept") {
		t.Errorf("the second page: %d %q", result.Code, result.Diagnostic)
	}
	names, next, result := refreshed(t, s, known)
	if result.Code != op.Success || !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, "cn=d01,") }) {
		t.Errorf("synchronizing: %q, %d %q", names, result.Code, result.Diagnostic)
	}
	if names, _, result := refreshed(t, s, next); result.Code != op.Success || len(names) != 0 {
		t.Errorf("then: %q, %d %q", names, result.Code, result.Diagnostic)
	}
}
