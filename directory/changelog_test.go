package directory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
)

// changesOf makes a search, usually of the changelog or of the monitor. It returns the
// entries as text, and the response.
func changesOf(t testing.TB, s *directory.Session, base string, scope op.Scope, f, attrs string, controls ...op.Control) ([]string, *op.Response) {
	t.Helper()
	var out answers
	s.Serve(t.Context(), &op.Message{
		Request:  &op.Search{Base: base, Scope: scope, Filter: filter.MustParse(f), Attributes: strings.Fields(attrs)},
		Controls: controls,
	}, &out)
	return out.entries, out.done
}

func TestChangelog(t *testing.T) {
	d := newDirectory(t, newPartition(t), directory.Options{Secret: []byte("k")})
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	serve(t, s, &op.Add{Name: "dc=example,dc=com", Attributes: attributes(lines("objectClass: domain"))})
	serve(t, s, &op.Add{Name: "uid=a,dc=example,dc=com", Attributes: attributes(lines("objectClass: inetOrgPerson\ncn: A\nsn: A\nuserPassword: hidden"))})
	serve(t, s, &op.Modify{Name: "uid=a,dc=example,dc=com", Changes: changes(lines("replace sn: B"))})
	serve(t, s, &op.ModifyDN{Name: "uid=a,dc=example,dc=com", NewRDN: "uid=b", DeleteOldRDN: true})
	serve(t, s, &op.Delete{Name: "uid=b,dc=example,dc=com"})

	const shown = "targetDN changeType changes newRDN deleteOldRDN changeInitiatorsName"
	all, done := changesOf(t, s, "cn=changelog", op.SingleLevel, "(objectClass=changeLogEntry)", shown)
	if done.Code != op.Success {
		t.Fatal(&done.Result)
	}
	want := []string{
		"targetDN: dc=example,dc=com|changeType: add|changes: objectClass: domain",
		"targetDN: uid=a,dc=example,dc=com|changeType: add|# userPassword was changed",
		"targetDN: uid=a,dc=example,dc=com|changeType: modify|changes: replace: sn\nsn: B\n-\n",
		"targetDN: uid=a,dc=example,dc=com|changeType: modrdn|newRDN: uid=b|deleteOldRDN: TRUE",
		"targetDN: uid=b,dc=example,dc=com|changeType: delete|changeInitiatorsName: cn=admin,dc=example,dc=com",
	}
	if len(all) != len(want) || !slices.IsSorted(all) {
		t.Fatalf("%d changes, in order %v: %q", len(all), slices.IsSorted(all), all)
	}
	for i, w := range want {
		for part := range strings.SplitSeq(w, "|") {
			if !strings.Contains(all[i], part) || strings.Contains(all[i], "hidden") {
				t.Errorf("change %d: %s\nwant %s", i, all[i], part)
			}
		}
	}
	// A search selects changes by a filter on their numbers, or a single change by the name of
	// its entry.
	third, _, _ := strings.Cut(strings.TrimPrefix(all[2], "dn: "), "\n")
	number, _, _ := strings.Cut(strings.TrimPrefix(third, "changeNumber="), ",")
	for f, n := range map[string]int{
		"(changeNumber>=%s)": 3, "(changeNumber<=%s)": 3, "(changeNumber=%s)": 1, "(!(changeNumber=%s))": 4,
		"(&(changeNumber>=%s)(changeType=delete))": 1, "(|(changeNumber=%s)(changeType=add))": 3,
	} {
		if got, _ := changesOf(t, s, "cn=changelog", op.SingleLevel, fmt.Sprintf(f, number), shown); len(got) != n {
			t.Errorf(f+": %d changes, want %d", number, len(got), n)
		}
	}
	if got, _ := changesOf(t, s, strings.ToUpper(third), op.BaseObject, "(objectClass=*)", shown); len(got) != 1 || got[0] != all[2] {
		t.Errorf("by its name: %q", got)
	}
	if got, done := changesOf(t, s, "changeNumber=1,cn=changelog", op.BaseObject, "(objectClass=*)", ""); len(got) != 0 || done.Code != op.NoSuchObject {
		t.Errorf("a number that nobody has: %q, %v", got, &done.Result)
	}
	if got, _ := changesOf(t, s, "cn=changelog", op.WholeSubtree, "(objectClass=*)", "1.1"); len(got) != 6 {
		t.Errorf("with the top: %q", got)
	}
	// An anonymous client may not read the changelog, and the administrator may not write it.
	if _, done := changesOf(t, d.NewSession(nil), "cn=changelog", op.WholeSubtree, "(objectClass=*)", ""); done.Code != op.InsufficientAccessRights {
		t.Errorf("anonymous: %v", &done.Result)
	}
	var out answers
	s.Serve(t.Context(), &op.Message{Request: &op.Delete{Name: third}}, &out)
	if out.done.Code != op.UnwillingToPerform {
		t.Errorf("delete: %v", &out.done.Result)
	}
	if _, done := changesOf(t, s, "cn=changelog", op.SingleLevel, "(objectClass=*)", "", namedControl("at now critical")); done.Code != op.UnwillingToPerform {
		t.Errorf("of the past: %v", &done.Result)
	}
}

// TestChangelogPaged reads the changelog in pages while commits are added.
func TestChangelogPaged(t *testing.T) {
	_, s := newPeople(t, 7)
	serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	all, _ := changesOf(t, s, "cn=changelog", op.WholeSubtree, "(objectClass=*)", "changeType")
	c := &client{t: t, s: s}
	var paged []string
	for i := range 10 {
		var out answers
		s.Serve(t.Context(), &op.Message{
			Request:  &op.Search{Base: "cn=changelog", Scope: op.WholeSubtree, Filter: filter.MustParse("(objectClass=*)"), Attributes: []string{"changeType"}},
			Controls: c.controls("paged 2"),
		}, &out)
		paged = append(paged, out.entries...)
		if c.print(&out); len(c.cookie) == 0 {
			break
		}
		serve(t, s, &op.Modify{Name: "dc=example,dc=com", Changes: changes(lines(fmt.Sprintf("replace description: %d", i)))})
	}
	if !slices.Equal(all, paged) {
		t.Errorf("by pages:\n%q\nwant:\n%q", paged, all)
	}
}
