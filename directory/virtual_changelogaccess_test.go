package directory_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

const readChangelog = `log: allow users to read in "cn=changelog"` + "\n"

// logged returns the changes that the client reads in the changelog. The line of each change
// contains the entry, the kind of change, the new name, and the changes.
func (c *client) logged() []string {
	c.t.Helper()
	entries, done := changesOf(c.t, c.s, "cn=changelog", op.SingleLevel, "(objectClass=changeLogEntry)", "targetDN changeType newRDN newSuperior deleteOldRDN changes")
	if done.Code != op.Success {
		c.t.Fatal(&done.Result)
	}
	var lines []string
	for _, e := range entries {
		line := strings.TrimSuffix(valueIn(e, "targetDN"), ",dc=example,dc=com")
		for _, a := range [][2]string{{"changeType", " "}, {"newRDN", " to "}, {"newSuperior", " below "}, {"deleteOldRDN", " "}, {"changes", " "}} {
			if v := valueIn(e, a[0]); v != "" {
				line += a[1] + v
			}
		}
		lines = append(lines, strings.ReplaceAll(line, "; -", ""))
	}
	return lines
}

// TestChangelogByRules checks that the changelog shows a change as the difference between
// what the user may see of the states before and after the change.
func TestChangelogByRules(t *testing.T) {
	const all = readChangelog + "all: allow users to read *, to past\n"
	x := func(c *client, change ...string) {
		c.must("modify", append([]string{"dn: uid=x,ou=people,dc=example,dc=com"}, change...)...)
	}
	move := func(c *client, name, rdn, superior string) {
		input := []string{"dn: " + name + ",dc=example,dc=com", "rdn: " + rdn}
		if superior != "" {
			input = append(input, "superior: "+superior+",dc=example,dc=com")
		}
		c.must("modifydn", input...)
	}
	for _, test := range []struct {
		name, rules string
		change      func(c *client)
		want        []string
	}{
		{"a change", all, func(c *client) { x(c, "replace title: now") }, []string{"uid=x,ou=people modify replace: title; title: now"}},
		{"no right past", readChangelog + "all: allow users to read *\n", func(c *client) { x(c, "replace title: now") }, nil},
		{"past of other entries", readChangelog + "all: allow users to read *\nsome: allow users to past in \"ou=other,dc=example,dc=com\"\n", func(c *client) { x(c, "replace title: now") }, nil},
		{"a hidden attribute", all + "no: deny users to read title\n", func(c *client) { x(c, "replace title: now", "replace sn: Y") }, []string{"uid=x,ou=people modify replace: sn; sn: Y"}},
		{"nothing is left", all + "no: deny users to read title\n", func(c *client) { x(c, "replace title: now") }, nil},
		{"what the server writes", all + "more: allow users to read entryCSN\nno: deny users to read title\n", func(c *client) { x(c, "replace title: now") }, []string{"uid=x,ou=people modify"}},
		{"hidden values", all + "no: deny users to read mail(mail=*@closed.org)\n", func(c *client) { x(c, "add mail: a@open.org | b@closed.org") },
			[]string{"uid=x,ou=people modify add: mail; mail: a@open.org"}},
		{"a replace of hidden and other values", all + "no: deny users to read mail(mail=*@closed.org)\n", func(c *client) {
			x(c, "add mail: a@open.org | b@closed.org | c@open.org | d@open.org")
			x(c, "replace mail: a@open.org | e@closed.org | c@open.org | d@open.org | f@open.org")
		}, []string{"uid=x,ou=people modify add: mail; mail: a@open.org; mail: c@open.org; mail: d@open.org", "uid=x,ou=people modify add: mail; mail: f@open.org"}},
		{"hidden entries", all + "no: deny users to read in \"ou=secret,dc=example,dc=com\"\n", func(c *client) {
			c.must("modify", "dn: uid=y,ou=secret,dc=example,dc=com", "replace title: now")
			c.must("delete", "dn: uid=z,ou=inner,ou=secret,dc=example,dc=com")
		}, nil},
		{"an entry that becomes visible", all + "no: deny users to read in (title=now)\n", func(c *client) { x(c, "replace title: now"); x(c, "replace title: new", "replace sn: Y") },
			[]string{"uid=x,ou=people delete", "uid=x,ou=people add objectClass: inetOrgPerson; objectClass: organizationalPerson; objectClass: person; objectClass: top; uid: x; cn: x; sn: Y; title: new"}},
		{"an entry that is hidden now", all + "no: deny users to read in (title=now)\n", func(c *client) { x(c, "replace sn: Y"); x(c, "replace title: now") }, nil},
		{"a rename", all, func(c *client) { move(c, "uid=x,ou=people", "uid=w", "") }, []string{"uid=x,ou=people modrdn to uid=w TRUE"}},
		{"a move into view", all + "no: deny users to read title\nshut: deny users to read in \"ou=secret,dc=example,dc=com\"\n", func(c *client) { move(c, "uid=y,ou=secret", "uid=y", "ou=people") },
			[]string{"uid=y,ou=people add objectClass: inetOrgPerson; objectClass: organizationalPerson; objectClass: person; objectClass: top; uid: y; cn: y; sn: y"}},
		{"a move out of view", all + "shut: deny users to read in \"ou=secret,dc=example,dc=com\"\n", func(c *client) { move(c, "uid=x,ou=people", "uid=x", "ou=secret") }, nil},
		{"a move of hidden superiors", all + "shut: deny users to read in only \"ou=secret,dc=example,dc=com\", only \"ou=open,dc=example,dc=com\"\n", func(c *client) { move(c, "ou=secret", "ou=open", "") }, nil},
		{"whether the old name stays is not shown", all + "no: deny users to read uid\n", func(c *client) {
			c.must("modifydn", "dn: uid=x,ou=people,dc=example,dc=com", "rdn: uid=w", "keep: x")
		}, []string{"uid=x,ou=people modrdn to uid=w TRUE"}},
		{"a deletion", all, func(c *client) { c.must("delete", "dn: uid=x,ou=people,dc=example,dc=com") }, []string{"uid=x,ou=people delete"}},
		{"a tree, part of it hidden", all + "no: deny users to read in (uid=y)\n", func(c *client) {
			c.do("delete", "dn: ou=secret,dc=example,dc=com", "control: treeDelete critical")
		}, []string{"uid=z,ou=inner,ou=secret delete", "ou=inner,ou=secret delete", "ou=secret delete"}},
		{"a secret", all + "pw: allow users to show userPassword\n", func(c *client) { x(c, "replace userPassword: new") }, []string{"uid=x,ou=people modify # userPassword was changed; its values are not kept"}},
		{"a secret that is not shown", all, func(c *client) { x(c, "replace userPassword: new") }, nil},
		{"the schema", all, func(c *client) {
			c.must("modify", "dn: cn=Subschema", "add attributeTypes: ( 1.3.6.1.4.1.55555.1 NAME 'shelf' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )")
		}, []string{"cn=Subschema modify add: attributeTypes; attributeTypes: ( 1.3.6.1.4.1.55555.1 NAME 'shelf' EQUALITY caseIgnoreMatch ;  SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )", "cn=Subschema modify"}},
		{"rules about the changelog's entries", "log: allow users to read in \"cn=changelog\" (changeType=delete)\nlogs: allow users to see in only \"cn=changelog\"\nall: allow users to read *, to past\n", func(c *client) {
			x(c, "replace title: now")
			c.must("delete", "dn: uid=x,ou=people,dc=example,dc=com")
		}, []string{"uid=x,ou=people delete"}},
		{"attributes of the changelog's entries", "log: allow users to read objectClass, targetDN in \"cn=changelog\"\nall: allow users to read *, to past\n", func(c *client) { x(c, "replace title: now") }, []string{"uid=x,ou=people"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			begun := 0
			c := newPast(t, test.rules, func(c *client) {
				begun = len(c.logged())
				test.change(c)
			})
			c.must("bind", "dn: "+admin, "password: secret")
			if whole := c.logged(); len(whole) <= begun {
				t.Fatalf("the administrator is shown %q", whole)
			}
			before := c.changesBefore(begun)
			c.must("bind", "dn: uid=me,ou=people,dc=example,dc=com", "password: p")
			if got := c.loggedAfter(before); !slices.Equal(got, test.want) {
				t.Errorf("%q\nwant %q", got, test.want)
			}
		})
	}
}

// changesBefore returns the changeNumber of the n-th change in the changelog.
func (c *client) changesBefore(n int) int {
	c.t.Helper()
	entries, _ := changesOf(c.t, c.s, "cn=changelog", op.SingleLevel, "(objectClass=changeLogEntry)", "changeNumber")
	return number(entries[n-1])
}

func number(e string) int {
	n, _, _ := strings.Cut(strings.TrimPrefix(e, "dn: changeNumber="), ",")
	n, _, _ = strings.Cut(n, "+")
	i, _ := strconv.Atoi(n)
	return i
}

// loggedAfter is like logged, but returns only the changes whose changeNumber is greater
// than n.
func (c *client) loggedAfter(n int) []string {
	c.t.Helper()
	entries, _ := changesOf(c.t, c.s, "cn=changelog", op.SingleLevel, "(objectClass=changeLogEntry)", "1.1")
	behind := slices.IndexFunc(entries, func(e string) bool { return number(e) > n })
	if behind < 0 {
		return nil
	}
	return c.logged()[behind:]
}

// TestListingsByName checks which rules let users read the changelog and the monitor: rules
// that name cn=changelog or cn=monitor, and rules that let the users manage the whole
// directory.
func TestListingsByName(t *testing.T) {
	for rules, want := range map[string][2]op.Code{
		"all: allow users to read *, +, to past":                                                                   {op.InsufficientAccessRights, op.InsufficientAccessRights},
		"all: allow users to read *, +, to past in (objectClass=*)":                                                {op.InsufficientAccessRights, op.InsufficientAccessRights},
		"log: allow users to read in \"cn=changelog\"":                                                             {op.Success, op.InsufficientAccessRights},
		"log: allow users to read in \"cn=monitor\"":                                                               {op.InsufficientAccessRights, op.Success},
		"log: allow users to read in \"cn=monitor\", \"cn=changelog\"\nno: deny users to read if not secure":       {op.InsufficientAccessRights, op.InsufficientAccessRights},
		"log: allow users to manage":                                                                               {op.Success, op.Success},
		"log: allow users to manage in \"dc=example,dc=com\"":                                                      {op.InsufficientAccessRights, op.InsufficientAccessRights},
		"log: allow users to read in below \"cn=monitor\"":                                                         {op.InsufficientAccessRights, op.InsufficientAccessRights},
		"log: allow users to read in \"cn=changelog\"\n\"dc=example,dc=com\" more: allow users to read *, to past": {op.Success, op.InsufficientAccessRights},
	} {
		c := newPast(t, rules, nil)
		for i, base := range []string{"cn=changelog", "cn=monitor"} {
			if _, done := changesOf(t, c.s, base, op.WholeSubtree, "(objectClass=*)", ""); done.Code != want[i] {
				t.Errorf("%s\n%s: %v", rules, base, &done.Result)
			}
		}
	}
	c := newPast(t, "log: allow users to read objectClass, cn in \"cn=monitor\" except \"cn=snmp,cn=monitor\", only \"cn=cluster,cn=monitor\"", nil)
	entries, _ := changesOf(t, c.s, "cn=monitor", op.WholeSubtree, "(objectClass=*)", "* +")
	for _, e := range entries {
		if strings.Contains(e, "cn=snmp") || strings.HasPrefix(e, "dn: cn=cluster") || strings.Contains(e, "clusterNewest") || strings.Contains(e, "slotOwner") {
			t.Errorf("shown: %s", e)
		}
	}
	if !slices.ContainsFunc(entries, func(e string) bool { return strings.Contains(e, "cn: slot 1") }) {
		t.Errorf("the slot is not shown: %q", entries)
	}
	if _, done := changesOf(t, c.s, "cn=cluster,cn=monitor", op.BaseObject, "(objectClass=*)", ""); done.Code != op.NoSuchObject || done.MatchedDN != "cn=monitor" {
		t.Errorf("a hidden base: %v", &done.Result)
	}
	if entries, _ := changesOf(t, c.s, "cn=monitor", op.WholeSubtree, "(slotOwner=*)", ""); len(entries) != 0 {
		t.Errorf("found by what may not be searched: %q", entries)
	}
}

// TestChangelogShowsThePast makes random changes, and compares what a user sees in the
// changelog with what the user may see of all entries at each revision.
func TestChangelogShowsThePast(t *testing.T) {
	for seed := range uint64(4) {
		p := newTwins(t, seed)
		c := p.sides[0]
		setRules(t, c.p, []string{leakRules, leakDenials}[seed%2]+`whole: allow users to read in "cn=changelog"`)
		p.changeAtRandom(c, 120)
		if seen, whole := p.compareWithPast(c); seen < 20 || whole-seen < 20 {
			t.Errorf("seed %d: %d of %d changes are seen: the test means little", seed, seen, whole)
		}
		p.close()
	}
}

// changeAtRandom makes changes as the administrator.
func (p *twins) changeAtRandom(c *client, n int) {
	user := c.s
	c.s = p.admins[0]
	defer func() { c.s = user }()
	// The changes never delete or rename the user's entry or the entries above it.
	names := slices.DeleteFunc(slices.Clone(p.names), func(name string) bool {
		return strings.HasSuffix("uid=me,ou=people,"+leakBase, name) || strings.HasPrefix(name, "cn=adders")
	})
	for range n {
		name := pickOf(p.Rand, names)
		switch a := pickOf(p.Rand, []string{"l", "description", "description;lang-de", "mail", "title", "carLicense", "employeeType", "sn"}); p.IntN(8) {
		case 0:
			c.do("modifydn", "dn: "+name, "rdn: uid=r"+fmt.Sprint(p.IntN(4)), "superior: "+pickOf(p.Rand, p.names))
		case 1:
			c.do("delete", "dn: "+name, "control: treeDelete critical")
		case 2:
			filler{p, c, p.Rand, p.Rand}.tryPerson(name)
		case 3:
			c.do("modify", "dn: "+name, "replace employeeType: "+pickOf(p.Rand, []string{"hidden", "a"}))
		case 4:
			c.do("modify", "dn: "+pickOf(p.Rand, []string{"cn=mixed,ou=groups,", "cn=plain,ou=groups,"})+leakBase, "replace member: "+pickOf(p.Rand, p.names)+" | "+pickOf(p.Rand, p.names))
		default:
			c.do("modify", "dn: "+name, pickOf(p.Rand, []string{"add ", "replace ", "replace "})+a+": "+p.value(a))
		}
	}
}

func (f filler) tryPerson(name string) {
	f.c.do("add", "dn: "+name, "objectClass: inetOrgPerson", "cn: "+pickOf(f.Rand, leakWords), "sn: "+pickOf(f.Rand, leakWords), "l: "+pickOf(f.Rand, leakWords))
}

// compareWithPast compares each change with what the user may see of the entry in the
// states before and after the change: the user's changelog must show the difference. It
// returns how many changes the user is shown, and how many changes there are.
func (p *twins) compareWithPast(c *client) (seen, whole int) {
	user := c.s
	entries, _ := changesOf(p.t, p.admins[0], "cn=changelog", op.SingleLevel, "(objectClass=changeLogEntry)", "changeRevision targetEntryUUID")
	whole = len(entries)
	shown := map[string][]string{} // by commit and entry: what the changes say
	mine, _ := changesOf(p.t, user, "cn=changelog", op.SingleLevel, "(objectClass=changeLogEntry)", "changeType targetEntryUUID changeRevision targetDN changes newRDN newSuperior")
	for _, e := range mine {
		key := valueIn(e, "changeRevision") + " " + valueIn(e, "targetEntryUUID")
		shown[key] = append(shown[key], e)
	}
	checked := map[string]bool{}
	for _, e := range entries {
		key := valueIn(e, "changeRevision") + " " + valueIn(e, "targetEntryUUID")
		if checked[key] || valueIn(e, "targetEntryUUID") == "" {
			continue
		}
		checked[key] = true
		p.compareChange(c, e, shown[key])
		delete(shown, key)
	}
	for key, e := range shown {
		p.t.Errorf("%s is no change: %q", key, e)
	}
	return len(mine), whole
}

// compareChange compares what the user is shown of one change with the states before and
// after the change.
func (p *twins) compareChange(c *client, change string, shown []string) {
	id := valueIn(change, "targetEntryUUID")
	after, err := revision.Parse(valueIn(change, "changeRevision"))
	if err != nil {
		p.t.Fatal(err)
	}
	was, is := p.sightAt(c, after-1, id), p.sightAt(c, after, id)
	var kinds []string
	for _, e := range shown {
		kinds = append(kinds, valueIn(e, "changeType"))
	}
	got := strings.Join(kinds, " ")
	name := func(sight string) string { n, _, _ := strings.Cut(sight, "\n"); return n }
	want := "modify"
	switch {
	case was == is:
		want = ""
	case was == "":
		want = "add"
	case is == "":
		want = "delete"
	case name(was) != name(is):
		want = "modrdn"
	}
	// A rename of a superior is no change of the entry.
	if got != want && !(want == "modrdn" && (got == "modrdn modify" || got == "modify" || got == "")) {
		p.t.Errorf("change %s of %s: %q, want %q\nbefore %s\nafter %s\nshown %q", after, id, got, want, was, is, shown)
	}
	for _, e := range shown {
		for line := range strings.SplitSeq(valueIn(e, "changes"), "; ") {
			a, v, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if !ok || slices.Contains([]string{"add", "replace", "delete"}, a) || strings.HasPrefix(a, "c-") {
				continue
			}
			if !strings.Contains(was+is, "  "+a+": "+v+"\n") {
				p.t.Errorf("change %s of %s has %s=%s, which the past does not show\nbefore %s\nafter %s", after, id, a, v, was, is)
			}
		}
	}
}

// sightAt returns what the user is shown of an entry at a revision, or "". It leaves out
// collective attributes, which the changelog does not show as changes of the entry.
func (p *twins) sightAt(c *client, r table.Revision, id string) string {
	s, err := state.At(p.t.Context(), c.p, r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	of, err := entry.ParseID(id)
	if err != nil {
		p.t.Fatal(err)
	}
	if e, err := s.Entry(p.t.Context(), of, false); e == nil {
		if err != nil {
			p.t.Fatal(err)
		}
		return ""
	}
	name, err := s.Name(p.t.Context(), of)
	if err != nil {
		p.t.Fatal(err)
	}
	const stored = "attrs: * ref entryUUID creatorsName modifiersName createTimestamp modifyTimestamp entryCSN administrativeRole subtreeSpecification collectiveExclusions structuralObjectClass"
	var out string
	for _, control := range []string{"; subentries TRUE", ""} {
		out = c.do("search", "base: "+name.String(), stored, "control: at "+r.String()+" critical; manageDsaIT"+control)
		if out != "0\n" {
			break
		}
	}
	if strings.HasPrefix(out, "32 ") {
		return ""
	}
	out, ok := strings.CutSuffix(out, "0\n")
	if !ok {
		p.t.Fatal(out)
	}
	var kept strings.Builder
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "  c-") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// valueIn returns the first value of an attribute of an entry, or "". The lines of the
// value are separated by "; ".
func valueIn(e, attribute string) string {
	_, v, _ := strings.Cut(e, "\n  "+attribute+": ")
	v, _, _ = strings.Cut(v, "\n  ")
	return strings.ReplaceAll(strings.TrimSpace(v), "\n", "; ")
}
