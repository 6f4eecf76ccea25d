package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// These are the OIDs of controls whose values go-ldap does not encode.
const (
	assertionOID     = "1.3.6.1.1.12"
	preReadOID       = "1.3.6.1.1.13.1"
	postReadOID      = "1.3.6.1.1.13.2"
	proxiedOID       = "2.16.840.1.113730.3.4.18"
	matchedValuesOID = "1.2.826.0.1.3344810.2.3"
)

// element returns an element of BER. contents must be encoded already.
func element(tag ber.Tag, contents ...string) string {
	b := append(ber.Open(nil, tag), strings.Join(contents, "")...)
	return string(ber.Close(b, 0))
}

func octets(text string) string { return element(ber.OctetString, text) }

// filterValue parses text as a filter and returns its BER encoding by go-ldap.
func filterValue(t *testing.T, text string) string {
	t.Helper()
	f, err := ldap.CompileFilter(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(f.Bytes())
}

func assertion(t *testing.T, text string) ldap.Control {
	return ldap.NewControlString(assertionOID, true, filterValue(t, text))
}

func describing(dn, text string, controls ...ldap.Control) *ldap.ModifyRequest {
	r := ldap.NewModifyRequest(dn, controls)
	r.Replace("description", []string{text})
	return r
}

const (
	oneDN             = "cn=1," + watchedDN
	searchResultEntry = ber.Tag(0x64) // RFC 4511, 4.5.2
)

// TestGoLDAPAssertion checks that an operation with a false assertion does nothing (RFC
// 4528).
func TestGoLDAPAssertion(t *testing.T) {
	p := watchedServer(t)
	c := p.admin()
	none := assertion(t, "(!(description=*))")
	wantCode(t, "modify", c.Modify(describing(oneDN, "one", none)), ldap.LDAPResultSuccess)
	wantCode(t, "modify again", c.Modify(describing(oneDN, "two", none)), ldap.LDAPResultAssertionFailed)
	wantCode(t, "delete", c.Del(ldap.NewDelRequest(oneDN, []ldap.Control{none})), ldap.LDAPResultAssertionFailed)
	_, err := c.Compare(oneDN, "description", "one")
	wantCode(t, "compare", err, ldap.LDAPResultSuccess)
	_, err = c.Search(watchRequest(none)) // the assertion applies to the base entry
	wantCode(t, "search", err, ldap.LDAPResultSuccess)
	_, err = c.Search(watchRequest(assertion(t, "(description=*)")))
	wantCode(t, "search of another base", err, ldap.LDAPResultAssertionFailed)
}

// TestGoLDAPReadEntry checks that a modify returns the entry before and after the
// change (RFC 4527).
func TestGoLDAPReadEntry(t *testing.T) {
	p := watchedServer(t)
	c := p.admin()
	wantCode(t, "modify", c.Modify(describing(oneDN, "before")), ldap.LDAPResultSuccess)
	selection := element(ber.Sequence, octets("description"))
	r, err := c.ModifyWithResult(describing(oneDN, "after",
		ldap.NewControlString(preReadOID, true, selection), ldap.NewControlString(postReadOID, true, selection)))
	if err != nil {
		t.Fatal(err)
	}
	for oid, value := range map[string]string{preReadOID: "before", postReadOID: "after"} {
		attribute := element(ber.Sequence, octets("description"), element(ber.Set, octets(value)))
		want := element(searchResultEntry, octets(oneDN), element(ber.Sequence, attribute))
		got, ok := ldap.FindControl(r.Controls, oid).(*ldap.ControlString)
		if !ok || got.ControlValue != want {
			t.Errorf("%s: %v, want the entry with %q", oid, got, value)
		}
	}
}

// TestGoLDAPProxiedAuthorization checks that a client that assumes an identity has the
// rights of that identity (RFC 4370).
func TestGoLDAPProxiedAuthorization(t *testing.T) {
	p := watchedServer(t)
	c := p.admin()
	as := func(id string) ldap.Control { return ldap.NewControlString(proxiedOID, true, id) }
	who, err := c.WhoAmI([]ldap.Control{as("dn:" + asantos)})
	if err != nil || !strings.EqualFold(who.AuthzID, "dn:"+asantos) {
		t.Errorf("who am I: %v, %v", who, err)
	}
	wantCode(t, "modify as another", c.Modify(describing(oneDN, "x", as("dn:"+asantos))), ldap.LDAPResultInsufficientAccessRights)
	wantCode(t, "as nobody", c.Modify(describing(oneDN, "x", as("u:nobody-here"))), ldap.LDAPResultAuthorizationDenied)
	wantCode(t, "modify as oneself", c.Modify(describing(oneDN, "x")), ldap.LDAPResultSuccess)
	user := p.connect(asantos, "Pão de queijo")
	_, err = user.WhoAmI([]ldap.Control{as("dn:" + adminDN)})
	wantCode(t, "of a user", err, ldap.LDAPResultAuthorizationDenied)
}

// TestGoLDAPMatchedValues checks that a search returns only the values that match (RFC
// 3876).
func TestGoLDAPMatchedValues(t *testing.T) {
	p := watchedServer(t)
	c := p.admin()
	r := ldap.NewModifyRequest(oneDN, nil)
	r.Replace("description", []string{"red", "green", "grey"})
	wantCode(t, "modify", c.Modify(r), ldap.LDAPResultSuccess)
	s := watchRequest(ldap.NewControlString(matchedValuesOID, true, element(ber.Sequence, filterValue(t, "(description=gre*)"))))
	s.Attributes = []string{"description", "cn"}
	res, err := c.Search(s)
	if err != nil || len(res.Entries) != 1 {
		t.Fatalf("%v, %v", res, err)
	}
	if got := res.Entries[0].GetAttributeValues("description"); !slices.Equal(got, []string{"green", "grey"}) {
		t.Errorf("description %q", got)
	}
	if got := res.Entries[0].GetAttributeValues("cn"); len(got) != 0 {
		t.Errorf("cn %q", got)
	}
}

// TestGoLDAPTreeDelete checks that a tree is deleted as a whole or not at all
// (draft-armijo).
func TestGoLDAPTreeDelete(t *testing.T) {
	p := watchedServer(t)
	c := p.admin()
	addTo(t, c, "cn=below,"+oneDN, "device")
	wantCode(t, "delete", c.Del(ldap.NewDelRequest(watchedDN, nil)), ldap.LDAPResultNotAllowedOnNonLeaf)
	tree := []ldap.Control{ldap.NewControlSubtreeDelete()}
	user := p.connect(asantos, "Pão de queijo")
	wantCode(t, "tree delete by a user", user.Del(ldap.NewDelRequest(watchedDN, tree)), ldap.LDAPResultInsufficientAccessRights)
	wantCode(t, "tree delete", c.Del(ldap.NewDelRequest(watchedDN, tree)), ldap.LDAPResultSuccess)
	_, err := c.Search(watchRequest())
	wantCode(t, "search after it", err, ldap.LDAPResultNoSuchObject)
	wantCode(t, "again", c.Del(ldap.NewDelRequest(watchedDN, tree)), ldap.LDAPResultNoSuchObject)
}
