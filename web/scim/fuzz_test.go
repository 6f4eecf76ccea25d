package scim_test

import (
	"fmt"
	"net/url"
	"testing"
)

// patches are operations whose values are empty or of an unusual form, for every verb.
func patches() (all []string) {
	for _, path := range []string{`emails[type eq \"work\"].value`, `emails[type eq \"work\"]`, "emails.value", "emails", `addresses[type eq \"work\"].locality`,
		"addresses", "name.familyName", "name", "manager", "title", "active", "password", ""} {
		for _, value := range []string{`""`, "null", "{}", "[]", `[""]`, "[{}]", `{"value":""}`, `"x"`, "1", "true", `{"value":{"value":[1]}}`, `[null]`, `[[]]`} {
			for _, verb := range []string{"add", "replace", "remove"} {
				all = append(all, fmt.Sprintf(`{"op":%q,"path":"%s","value":%s}`, verb, path, value))
			}
		}
	}
	return all
}

// of returns the server for a test within another.
func (s *server) of(t testing.TB) *server {
	c := *s
	c.TB = t
	return &c
}

// FuzzPatch checks that every PATCH is answered by a success or by an error that is the client's.
func FuzzPatch(f *testing.F) {
	s := newServer(f)
	path := "/Users/" + s.addUser("ann")
	for _, o := range patches() {
		f.Add(o)
	}
	f.Fuzz(func(t *testing.T, operations string) {
		body := fmt.Sprintf(`{"schemas":[%q],"Operations":[%s]}`, patchURN, operations)
		if status, o, _ := s.of(t).ask("PATCH", path, body); status >= 500 {
			t.Fatalf("%s: %d %v", operations, status, o)
		}
	})
}

// FuzzFilter checks the same for filters, and FuzzCreate for resources.
func FuzzFilter(f *testing.F) {
	s := newServer(f)
	s.addUser("ann")
	for _, text := range []string{`userName eq "ann"`, `emails[type eq "work" and value co "@"]`, `not (title pr)`, `meta.created gt "2026-01-01T00:00:00Z"`,
		`active eq false or (id ne "x" and name.familyName sw "A")`, `groups.value eq "x"`, `manager.value eq null`, `addresses.locality eq ""`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if status, o, _ := s.of(t).ask("GET", "/Users?filter="+url.QueryEscape(text), ""); status >= 500 {
			t.Fatalf("%q: %d %v", text, status, o)
		}
	})
}

func FuzzCreate(f *testing.F) {
	s := newServer(f)
	for _, members := range []string{`"emails":[{"value":""}]`, `"emails":[null]`, `"emails":{}`, `"name":{}`, `"name":null`, `"addresses":[{"type":"work","locality":""}]`,
		`"active":"False"`, `"manager":{"value":""}`, `"password":{"value":"x"}`, `"title":[["x"]]`, `"userName":{"value":"bob"}`, `"externalId":""`} {
		f.Add(members)
	}
	f.Fuzz(func(t *testing.T, members string) {
		if status, o, _ := s.of(t).ask("POST", "/Users", fmt.Sprintf(`{"schemas":[%q],"userName":"ann",%s}`, userURN, members)); status >= 500 {
			t.Fatalf("%s: %d %v", members, status, o)
		} else if status == 201 {
			s.of(t).ask("DELETE", fmt.Sprint("/Users/", o["id"]), "")
		}
	})
}
