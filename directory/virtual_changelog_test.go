package directory_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
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

// TestChangeNumbers checks that change numbers are small and have no gaps, that all servers show
// the same ones, and that restarts and collections do not change them.
func TestChangeNumbers(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		testChangeNumbers(t, s, newServer(t, s))
	})
	t.Run("two servers", func(t *testing.T) {
		s := tabletest.NewMem()
		testChangeNumbers(t, s, newServer(t, s), newServer(t, s))
	})
}

func testChangeNumbers(t *testing.T, s table.Store, cs ...*client) {
	cs[0].must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	catchUp := func() {
		for _, c := range cs {
			if err := c.p.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 8 {
		catchUp()
		c, uid := cs[i%len(cs)], fmt.Sprint("u", i)
		c.addPerson(uid)
		c.must("modify", "dn: uid="+uid+",dc=example,dc=com", "replace sn: "+fmt.Sprint(i))
		c.must("modifydn", "dn: uid="+uid+",dc=example,dc=com", "rdn: uid=n"+fmt.Sprint(i))
		_, err := write.Update(t.Context(), c.p, partition.By{Name: admin}, func(tx *partition.Tx) error {
			for j := range 5 {
				if _, err := tx.Add(t.Context(), mustName(t, fmt.Sprintf("cn=%d-%d,dc=example,dc=com", i, j)), attributes(lines("objectClass: device")), false); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	catchUp()
	all := cs[0].numbered("(objectClass=changeLogEntry)")
	for len(all) < 1+8*(3+5) { // until the last commit is settled
		time.Sleep(time.Millisecond)
		all = cs[0].numbered("(objectClass=changeLogEntry)")
	}
	last := all[len(all)-1].number
	for i, c := range all {
		if before := all[max(0, i-1)].number; i > 0 && (c.number <= before || c.number > before+2) {
			t.Errorf("number %d follows %d", c.number, before)
		}
	}
	// After half of the history is removed, the other half has the same numbers. The second
	// server has not counted before.
	kept := len(all) / 2
	if _, err := cs[0].p.DB.Collect(t.Context(), txn.CollectOptions{Retention: time.Since(all[kept-1].at.Time())}); err != nil {
		t.Fatal(err)
	}
	for all[0].at <= cs[0].p.DB.Horizon() {
		all = all[1:]
	}
	if len(cs) == 1 { // the store has one server at a time
		if err := cs[0].p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		cs = nil
	}
	cs = append(cs, newServer(t, s))
	for i, c := range cs {
		if got := c.numbered("(objectClass=changeLogEntry)"); !slices.Equal(got, all) {
			t.Errorf("server %d shows %v, want %v", i, got, all)
		}
		for f, want := range map[string][]numberedChange{
			"(changeNumber>=%d)": all[5:], "(changeNumber<=%d)": all[:6], "(changeNumber=%d)": all[5:6],
			"(|(changeNumber=%[1]d)(changeNumber=%[1]d)(changeNumber=999999))": all[5:6],
			"(&(changeNumber>=%[1]d)(!(changeNumber>=%[1]d)))":                 nil,
		} {
			if got := c.numbered(fmt.Sprintf(f, all[5].number)); !slices.Equal(got, want) {
				t.Errorf("server %d, %s: %v, want %v", i, f, got, want)
			}
		}
		dse := c.do("search", "base: ", "scope: base", "attrs: firstChangeNumber lastChangeNumber")
		first, _ := strconv.Atoi(valueIn(dse, "firstChangeNumber"))
		until, _ := strconv.Atoi(valueIn(strings.TrimSuffix(dse, "\n0\n"), "lastChangeNumber"))
		if first <= all[0].number-3 || first > all[0].number || until < last || until > last+2 {
			t.Errorf("server %d: %s\nwant %d to %d", i, dse, all[0].number, last)
		}
		if out := c.do("search", "base: cn=changelog", "scope: one", fmt.Sprintf("filter: (changeNumber>=%d)", uint64(all[0].at))); !strings.HasPrefix(out, "53 ") {
			t.Errorf("a number of an earlier version: %s", out)
		}
	}
}

type numberedChange struct {
	number int
	at     table.Revision
	entry  string
}

// numbered returns the changes that a filter selects in the changelog.
func (c *client) numbered(filter string) (all []numberedChange) {
	c.t.Helper()
	entries, done := changesOf(c.t, c.s, "cn=changelog", op.SingleLevel, filter, "changeNumber changeRevision targetDN")
	if done.Code != op.Success {
		c.t.Fatal(&done.Result)
	}
	for _, e := range entries {
		at, err := revision.Parse(valueIn(e, "changeRevision"))
		if err != nil || fmt.Sprint(number(e)) != valueIn(e, "changeNumber") {
			c.t.Fatalf("%s: %v", e, err)
		}
		all = append(all, numberedChange{number(e), at, valueIn(e, "targetDN")})
	}
	return all
}

// TestSharedNumber checks the names of changes of a commit that has more changes than entries.
func TestSharedNumber(t *testing.T) {
	c := newServer(t, tabletest.NewMem())
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	for _, uid := range []string{"a", "b"} {
		c.addPerson(uid)
	}
	_, err := write.Update(t.Context(), c.p, partition.By{Name: admin}, func(tx *partition.Tx) error {
		for _, uid := range []string{"a", "b"} {
			name := mustName(t, "uid="+uid+",dc=example,dc=com")
			if err := tx.Modify(t.Context(), name, changes(lines("replace title: T"))); err != nil {
				return err
			}
			if err := tx.Rename(t.Context(), name, mustName(t, "uid="+uid+uid)[0], true, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all, _ := changesOf(t, c.s, "cn=changelog", op.SingleLevel, "(&(changeNumber>=4)(|(changeType=modrdn)(changeType=modify)))", "changeType")
	var names []string
	for _, e := range all {
		name, _, _ := strings.Cut(strings.TrimPrefix(e, "dn: "), "\n")
		if got, done := changesOf(t, c.s, name, op.BaseObject, "(objectClass=*)", "changeType"); len(got) != 1 || got[0] != e {
			t.Errorf("by its name: %q, %v", got, &done.Result)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) != 4 || len(slices.Compact(names)) != 4 {
		t.Errorf("%q", all)
	}
}
