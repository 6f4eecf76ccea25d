package scim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/web/scim"
)

const (
	userURN  = "urn:ietf:params:scim:schemas:core:2.0:User"
	patchURN = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
)

// addUser adds a user and returns its id.
func (s *server) addUser(name string) string {
	s.Helper()
	status, o, _ := s.ask("POST", "/Users", fmt.Sprintf(`{"schemas":[%q],"userName":%q,"active":true}`, userURN, name))
	if status != 201 {
		s.Fatal(status, o)
	}
	return o["id"].(string)
}

// many returns n parts, with their numbers, separated by commas.
func many(part string, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(part, i)
	}
	return strings.Join(parts, ",")
}

// TestSizes checks that what is too large or too deep is refused with the status and the scimType for it.
func TestSizes(t *testing.T) {
	s := newServer(t)
	ann := s.addUser("ann")
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		kind               any
	}{
		"100 MiB":                 {"POST", "/Users", strings.Repeat(" ", 100<<20), 413, nil},
		"deep JSON":               {"POST", "/Users", strings.Repeat(`{"a":`, 1<<20), 400, "invalidSyntax"},
		"deep value":              {"PATCH", "/Users/" + ann, fmt.Sprintf(`{"schemas":[%q],"Operations":[{"op":"replace","path":"title","value":%s1%s}]}`, patchURN, strings.Repeat("[", 5000), strings.Repeat("]", 5000)), 400, "invalidValue"},
		"deep filter":             {"GET", "/Users?filter=" + strings.Repeat("(", 1000) + "title%20pr" + strings.Repeat(")", 1000), "", 400, "invalidFilter"},
		"deep not":                {"GET", "/Users?filter=" + strings.Repeat("not(", 1000) + "title%20pr" + strings.Repeat(")", 1000), "", 400, "invalidFilter"},
		"long filter":             {"GET", "/Users?filter=title%20eq%20%22" + strings.Repeat("x", 70<<10) + "%22", "", 400, "invalidFilter"},
		"wide filter":             {"GET", "/Users?filter=title%20pr" + strings.Repeat("%20or%20title%20pr", 100), "", 200, nil},
		"deep path":               {"PATCH", "/Users/" + ann, fmt.Sprintf(`{"schemas":[%q],"Operations":[{"op":"remove","path":"emails[%s"}]}`, patchURN, strings.Repeat("(", 10000)), 400, "invalidPath"},
		"many operations":         {"POST", "/Bulk", `{"schemas":["urn:ietf:params:scim:api:messages:2.0:BulkRequest"],"Operations":[` + strings.Repeat(`{"method":"DELETE","path":"/Users/x"},`, 1000) + `{"method":"DELETE","path":"/Users/x"}]}`, 413, nil},
		"many changes":            {"PATCH", "/Users/" + ann, fmt.Sprintf(`{"schemas":[%q],"Operations":[%s]}`, patchURN, many(`{"op":"replace","path":"title","value":"%d"}`, 10001)), 413, nil},
		"many values":             {"POST", "/Users", fmt.Sprintf(`{"schemas":[%q],"userName":"many","emails":[%s]}`, userURN, many(`{"value":"%d@example.com"}`, 501)), 400, "invalidValue"},
		"many values, one by one": {"PATCH", "/Users/" + ann, fmt.Sprintf(`{"schemas":[%q],"Operations":[%s]}`, patchURN, many(`{"op":"add","path":"emails","value":{"value":"%d@example.com"}}`, 501)), 400, "invalidValue"},
	} {
		t.Run(name, func(t *testing.T) {
			if status, o, _ := s.ask(c.method, c.path, c.body); status != c.status || o["scimType"] != c.kind {
				t.Errorf("%d %v", status, o)
			}
		})
	}
}

// TestMembersOfMany checks that a change of one member reads and writes none of the others: the answer has no body,
// and the resource says that it is too large to be returned with its members.
func TestMembersOfMany(t *testing.T) {
	s := newServer(t)
	ann := s.addUser("ann")
	members := make([][]byte, 10_001)
	for i := range members {
		members[i] = fmt.Appendf(nil, "uid=u%d,ou=people,dc=example,dc=com", i)
	}
	s.do(&op.Add{Name: "ou=groups,dc=example,dc=com", Attributes: []op.PartialAttribute{{Description: "objectClass", Values: [][]byte{[]byte("organizationalUnit")}}}})
	s.do(&op.Add{Name: "cn=all,ou=groups,dc=example,dc=com", Attributes: []op.PartialAttribute{
		{Description: "objectClass", Values: [][]byte{[]byte("groupOfNames")}}, {Description: "member", Values: members}}})
	_, o, _ := s.ask("GET", "/Groups?excludedAttributes=members", "")
	id := at(o, "Resources/0/id").(string)
	for _, c := range []struct {
		operation string
		groups    float64 // that have ann as a member then
	}{
		{`{"op":"add","path":"members","value":[{"value":"` + ann + `"}]}`, 1},
		{`{"op":"remove","path":"members[value eq \"` + ann + `\"]"}`, 0},
	} {
		was := s.commits()
		status, o, h := s.ask("PATCH", "/Groups/"+id, fmt.Sprintf(`{"schemas":[%q],"Operations":[%s]}`, patchURN, c.operation))
		if status != 204 || h.Get("ETag") == "" || s.commits() != was+1 {
			t.Errorf("%s: %d %v, %d commits", c.operation, status, o, s.commits()-was)
		}
		_, o, _ = s.ask("GET", `/Groups?filter=members%20eq%20%22`+ann+`%22&attributes=id`, "")
		if n := at(o, "totalResults"); n != c.groups {
			t.Errorf("%s: %v groups", c.operation, n)
		}
	}
	if status, o, _ := s.ask("GET", "/Groups/"+id, ""); status != 400 || o["scimType"] != "tooMany" {
		t.Errorf("%d %v", status, o["scimType"])
	}
}

// TestTokens checks that a token is the account that it belongs to, until it ends or the account is locked, and that
// the account's access rules count.
func TestTokens(t *testing.T) {
	s := newServer(t)
	id := s.addUser("prov")
	const name = "uid=prov,ou=people,dc=example,dc=com"
	set := func(kind op.ModKind, attribute string, values ...string) {
		t.Helper()
		s.do(&op.Modify{Name: name, Changes: []op.Modification{op.Change(kind, attribute, values...)}})
	}
	set(op.ModAdd, "objectClass", "bearerTokenObject")
	uuid, err := entry.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	token, value := auth.NewStoredToken(uuid, time.Time{}, "a note")
	old, over := auth.NewStoredToken(uuid, time.Now().Add(-time.Second), "")
	set(op.ModAdd, "bearerToken", value, over)
	ask := func(method, path, token string) int {
		t.Helper()
		status, _, _ := s.ask(method, path, "", "Authorization: Bearer "+token)
		return status
	}
	if n := ask("GET", "/Users", token); n != 200 {
		t.Errorf("token: %d", n)
	}
	other, _ := auth.NewStoredToken(uuid, time.Time{}, "")
	for _, wrong := range []string{old, other, token[:20], token + "A", "ldapd_", ""} {
		if n := ask("GET", "/Users", wrong); n != 401 {
			t.Errorf("%q: %d", wrong, n)
		}
	}
	if n := ask("DELETE", "/Users/"+s.addUser("bob"), token); n != 403 {
		t.Errorf("delete without the right to: %d", n)
	}
	s.do(&op.Modify{Name: "cn=config", Changes: []op.Modification{op.Change(op.ModReplace, "accessRule",
		"bind: allow everyone to bind", "use: allow everyone to use *", "containers: allow users to read objectClass in (objectClass=domain)",
		`people: allow "`+name+`" to manage in "ou=people,dc=example,dc=com"`)}})
	with := "Authorization: Bearer " + token
	status, o, _ := s.ask("POST", "/Users", fmt.Sprintf(`{"schemas":[%q],"userName":"carl","active":false,"password":"a secret 55"}`, userURN), with)
	if status != 201 || o["active"] != false {
		t.Errorf("add: %d %v", status, o)
	}
	carl := fmt.Sprint("/Users/", o["id"])
	status, o, _ = s.ask("PATCH", carl, fmt.Sprintf(`{"schemas":[%q],"Operations":[{"op":"replace","value":{"active":true,"userName":"karl","title":"x"}}]}`, patchURN), with)
	if status != 200 || o["active"] != true || o["userName"] != "karl" {
		t.Errorf("change: %d %v", status, o)
	}
	if n := ask("DELETE", carl, token); n != 204 {
		t.Errorf("delete: %d", n)
	}
	if status, o, _ := s.ask("POST", "/Groups", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:Group"],"displayName":"g"}`, with); status != 403 {
		t.Errorf("a group: %d %v", status, o)
	}
	// Secrets are in no resource, and in no search.
	if _, o, _ := s.ask("GET", "/Users/"+id, ""); strings.Contains(fmt.Sprint(o), value[:64]) {
		t.Error(o)
	}
	set(op.ModReplace, "pwdAccountLockedTime", "000001010000Z")
	if n := ask("GET", "/Users", token); n != 401 {
		t.Errorf("locked: %d", n)
	}
	set(op.ModReplace, "pwdAccountLockedTime")
	set(op.ModDelete, "bearerToken", value)
	if n := ask("GET", "/Users", token); n != 401 {
		t.Errorf("revoked: %d", n)
	}
	s.do(&op.Delete{Name: name})
	if n := ask("GET", "/Users", token); n != 401 {
		t.Errorf("deleted: %d", n)
	}
}

// TestReferrals checks that the referrals of a directory are nothing in SCIM.
func TestReferrals(t *testing.T) {
	s := newServer(t)
	s.do(&op.Add{Name: "ou=elsewhere,dc=example,dc=com", Attributes: []op.PartialAttribute{op.Attribute("objectClass", "referral", "extensibleObject"),
		op.Attribute("ref", "ldap://elsewhere.example/ou=elsewhere,dc=example,dc=com")}})
	for _, name := range []string{"ann", "bob"} {
		s.ask("POST", "/Users", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"`+name+`"}`)
	}
	for _, query := range []string{"", "&sortBy=userName&sortOrder=descending", "&cursor="} {
		_, list, _ := s.ask("GET", "/Users?count=2"+query, "")
		if all, _ := list["Resources"].([]any); len(all) != 2 || query != "&cursor=" && list["totalResults"] != 2.0 || list["nextCursor"] != nil {
			t.Errorf("%q: %v", query, list)
		}
	}
}

// TestBeforeLogin checks what is answered without credentials: how to log in.
func TestBeforeLogin(t *testing.T) {
	s := newServer(t)
	for path, status := range map[string]int{"/ServiceProviderConfig": 200, "/ServiceProviderConfig/x": 401, "/Schemas": 401, "/Users": 401, "/ServiceProviderConfig/../Users": 401} {
		r, err := s.Client().Get(s.URL + scim.Prefix + path)
		if err != nil {
			t.Fatal(err)
		}
		if r.Body.Close(); r.StatusCode != status {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}
