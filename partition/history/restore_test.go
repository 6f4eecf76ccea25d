package history_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

func name(t testing.TB, s string) dn.DN {
	t.Helper()
	d, err := dn.Parse(s)
	must(t, err)
	return d
}

func restore(t testing.TB, p *partition.Partition, then *partition.Snapshot, o history.RestoreOptions, on string) (string, *history.Restored, error) {
	t.Helper()
	o.Name, o.By = name(t, on), partition.By{Name: "cn=admin"}
	done, err := history.Restore(context.Background(), p, then, o)
	if err != nil {
		return "", nil, err
	}
	var lines []string
	for _, r := range done.Records {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "\n"), done, nil
}

const upheaval = `dn: uid=a,ou=people,dc=example,dc=com
changetype: delete

dn: uid=b,ou=people,dc=example,dc=com
changetype: modrdn
newrdn: uid=c
deleteoldrdn: 1
newsuperior: dc=example,dc=com

dn: uid=a,ou=people,dc=example,dc=com
changetype: add
objectClass: inetOrgPerson
uid: a
cn: Another
sn: One

dn: uid=new,ou=people,dc=example,dc=com
changetype: add
objectClass: inetOrgPerson
uid: new
cn: New
sn: New

dn: ou=people,dc=example,dc=com
changetype: modify
replace: description
description: new
`

// TestRestoreTree checks that a tree is restored in one commit, with the same ids.
func TestRestoreTree(t *testing.T) {
	for kind, store := range stores {
		t.Run(kind, func(t *testing.T) {
			p := newTree(t, store())
			then := now(t, p)
			was, err := then.Find(context.Background(), name(t, "uid=a,ou=people,dc=example,dc=com"))
			must(t, err)
			run(t, p, upheaval)
			changed := dump(t, now(t, p))
			o := history.RestoreOptions{Subtree: true, DryRun: true}
			planned, done, err := restore(t, p, then, o, "ou=people,dc=example,dc=com")
			must(t, err)
			if done.Revision != 0 || dump(t, now(t, p)) != changed {
				t.Error("a dry run changed something")
			}
			o.DryRun = false
			before := state.Newest(p).Revision()
			made, done, err := restore(t, p, then, o, "ou=people,dc=example,dc=com")
			must(t, err)
			if planned != made {
				t.Errorf("planned:\n%s\nmade:\n%s", planned, made)
			}
			if d := cmp.Diff(dump(t, then), dump(t, now(t, p))); d != "" {
				t.Errorf("not as it was: %s\nby:\n%s", d, made)
			}
			if done.Kept != 1 || len(done.Lost) != 0 || done.Revision <= before {
				t.Errorf("%+v", done)
			}
			s := now(t, p)
			is, err := s.Find(context.Background(), name(t, "uid=a,ou=people,dc=example,dc=com"))
			must(t, err)
			if is.ID != was.ID {
				t.Errorf("entryUUID %s, was %s", is.ID, was.ID)
			}
			secrets, err := s.Secrets(context.Background(), is.ID)
			if err != nil || len(secrets) != 1 || string(secrets[0].Values[0]) != "secret" {
				t.Errorf("password: %v, %v", secrets, err)
			}
			commits := 0
			for c, err := range changestream.ShownAfter(context.Background(), s, before) {
				must(t, err)
				commits++
				if c.Revision != done.Revision {
					t.Errorf("another commit: %s", c.Message)
				}
			}
			if commits != 1 {
				t.Errorf("%d commits", commits)
			}
			again, done, err := restore(t, p, then, o, "ou=people,dc=example,dc=com")
			must(t, err)
			if again != "" || done.Revision != 0 {
				t.Errorf("once more: %s", again)
			}
		})
	}
}

func TestRestoreEntry(t *testing.T) {
	p := newTree(t, stores["embedded"]())
	then := now(t, p)
	run(t, p, upheaval)
	// An entry that was moved away is moved back.
	got, _, err := restore(t, p, then, history.RestoreOptions{}, "uid=b,ou=people,dc=example,dc=com")
	must(t, err)
	if want := `renamed: "uid=c,dc=example,dc=com" to "uid=b,ou=people,dc=example,dc=com"`; got != want {
		t.Errorf("got %s", got)
	}
	// Another entry has the name of the entry to restore.
	if _, _, err = restore(t, p, then, history.RestoreOptions{}, "uid=a,ou=people,dc=example,dc=com"); !errors.Is(err, history.ErrTaken) {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, _, err = restore(t, p, then, history.RestoreOptions{}, "uid=new,ou=people,dc=example,dc=com"); !errors.Is(err, history.ErrNone) {
		t.Errorf("an entry that was not there: %v", err)
	}
	// The superior of the entry was deleted, or another entry has the superior's name
	// now.
	run(t, p, `dn: uid=a,ou=people,dc=example,dc=com
changetype: delete

dn: uid=b,ou=people,dc=example,dc=com
changetype: delete

dn: uid=new,ou=people,dc=example,dc=com
changetype: delete

dn: ou=people,dc=example,dc=com
changetype: delete
`)
	if _, _, err = restore(t, p, then, history.RestoreOptions{}, "uid=a,ou=people,dc=example,dc=com"); !errors.Is(err, history.ErrParent) {
		t.Errorf("nothing above: %v", err)
	}
	run(t, p, "dn: ou=people,dc=example,dc=com\nchangetype: add\nobjectClass: organizationalUnit\n")
	got, _, err = restore(t, p, then, history.RestoreOptions{}, "uid=a,ou=people,dc=example,dc=com")
	must(t, err)
	if want := `came back: "uid=a,ou=people,dc=example,dc=com"`; got != want {
		t.Errorf("got %s", got)
	}
}

func TestLog(t *testing.T) {
	p := newTree(t, stores["embedded"]())
	run(t, p, upheaval)
	run(t, p, `dn: uid=c,dc=example,dc=com
changetype: modify
add: description
description: x
-
delete: sn
sn: Two
-
add: sn
sn: Three
-
replace: userPassword
userPassword: hidden
`)
	log := func(o history.LogOptions) string {
		t.Helper()
		o.Until = now(t, p)
		var b bytes.Buffer
		_, err := history.Log(context.Background(), p, &b, o)
		must(t, err)
		if strings.Contains(b.String(), "hidden") || strings.Contains(b.String(), "userPassword: ") {
			t.Errorf("a password: %s", &b)
		}
		return b.String()
	}
	// The log of one entry contains its changes under all its names.
	lines := strings.Split(strings.TrimSpace(log(history.LogOptions{Name: name(t, "uid=c,dc=example,dc=com")})), "\n")
	want := []string{
		`add "uid=b,ou=people,dc=example,dc=com" by "cn=admin" from 192.0.2.1:5 request 3/7`,
		`modrdn "uid=b,ou=people,dc=example,dc=com" to "uid=c,dc=example,dc=com" by "cn=admin" from 192.0.2.1:5 request 3/7`,
		`modify "uid=c,dc=example,dc=com" =sn +description =userPassword by "cn=admin" from 192.0.2.1:5 request 3/7`,
	}
	for i, l := range lines {
		if _, text, _ := strings.Cut(l, "Z r"); i >= len(want) || !strings.HasSuffix(text, want[i]) {
			t.Errorf("line %d: %s", i, l)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines", len(lines))
	}
	// The log of one name contains the changes of two entries.
	if got := strings.Count(log(history.LogOptions{Name: name(t, "UID=A,ou=people,dc=example,dc=com")}), "\n"); got != 3 {
		t.Errorf("%d changes of a name: want add, delete, add", got)
	}
	if got := log(history.LogOptions{By: name(t, "cn=nobody")}); got != "" {
		t.Errorf("by nobody: %s", got)
	}
	if all := log(history.LogOptions{JSON: true}); strings.Count(all, "\n") != 10 || !strings.Contains(all, `"secrets":["userPassword"]`) || !strings.Contains(all, `description: x`) {
		t.Errorf("all as JSON: %s", all)
	}
}

// TestRestoreNames checks that values of restored entries name the entries that they named then, by the names which these
// have now, and that values follow while names are exchanged.
func TestRestoreNames(t *testing.T) {
	const c, one, all = "uid=c,ou=people,dc=example,dc=com", "cn=one,ou=groups,dc=example,dc=com", "cn=all,ou=groups,dc=example,dc=com"
	moved := "dn: ou=people,dc=example,dc=com\nchangetype: modrdn\nnewrdn: ou=staff\ndeleteoldrdn: 1\n\n"
	exchanged := ""
	for _, to := range []string{"a x", "b a", "x b"} {
		f := strings.Fields(to)
		exchanged += "dn: uid=" + f[0] + ",ou=people,dc=example,dc=com\nchangetype: modrdn\nnewrdn: uid=" + f[1] + "\ndeleteoldrdn: 1\n\n"
	}
	for what, x := range map[string]struct {
		since, on string
		subtree   bool
		want      []string // lines of the dump, without those of other kinds
	}{
		"deleted": {moved + "dn: uid=c,ou=staff,dc=example,dc=com\nchangetype: delete\n", c, false, []string{"manager: uid=a,ou=staff,dc=example,dc=com"}},
		"changed": {moved + "dn: uid=c,ou=staff,dc=example,dc=com\nchangetype: modify\nreplace: sn\nsn: x\n-\n", c, false, []string{"manager: uid=a,ou=staff,dc=example,dc=com"}},
		"a group": {moved + "dn: " + all + "\nchangetype: modify\ndelete: member\nmember: uid=a,ou=staff,dc=example,dc=com\n-\n", all, false,
			[]string{"member: uid=a,ou=staff,dc=example,dc=com", "member: uid=b,ou=staff,dc=example,dc=com", "member: uid=c,ou=staff,dc=example,dc=com"}},
		"a deleted group": {moved + "dn: " + one + "\nchangetype: delete\n", one, false, []string{"member: uid=a,ou=staff,dc=example,dc=com"}},
		"exchanged":       {exchanged, one, false, []string{"member: uid=b,ou=people,dc=example,dc=com"}},
		"exchanged back":  {exchanged, "dc=example,dc=com", true, nil},
	} {
		t.Run(what, func(t *testing.T) {
			p := newCompany(t, stores["embedded"]())
			then := now(t, p)
			run(t, p, x.since)
			_, _, err := restore(t, p, then, history.RestoreOptions{Subtree: x.subtree}, x.on)
			must(t, err)
			is := dump(t, now(t, p))
			if x.subtree {
				if d := cmp.Diff(spelled(dump(t, then)), spelled(is)); d != "" {
					t.Errorf("not as it was: %s", d)
				}
				return
			}
			_, is, _ = strings.Cut(is, x.on[:strings.Index(x.on, ",")]+",")
			is, _, _ = strings.Cut(is, "\n  objectClass")
			var got []string
			for _, l := range strings.Split(is, "\n  ")[1:] {
				if strings.HasPrefix(l, "m") {
					got = append(got, l)
				}
			}
			if d := cmp.Diff(spelled(strings.Join(x.want, "\n")), spelled(strings.Join(got, "\n"))); d != "" {
				t.Errorf("got %s", d)
			}
		})
	}
}

// TestRestoreStrangers checks that a restored value does not name an entry that only has the name of the one which it named.
func TestRestoreStrangers(t *testing.T) {
	const a, all, one = "uid=a,ou=people,dc=example,dc=com", "cn=all,ou=groups,dc=example,dc=com", "cn=one,ou=groups,dc=example,dc=com"
	const again = "dn: " + a + "\nchangetype: delete\n\ndn: " + a + "\nchangetype: add\nobjectClass: inetOrgPerson\ncn: x\nsn: x\nuid: a\n\n"
	gone := func(name string) string { return "dn: " + name + "\nchangetype: delete\n\n" }
	for what, x := range map[string]struct{ since, on, want string }{
		"a member":              {again, all, "member of \"" + all + "\" does not name \"UID=a, ou=people,dc=example,dc=com\" again: another entry has this name now"},
		"a group":               {again + gone(all), all, "member of \"" + all + "\" does not name \"UID=a, ou=people,dc=example,dc=com\" again: another entry has this name now"},
		"a manager":             {again + gone("uid=c,ou=people,dc=example,dc=com"), "uid=c,ou=people,dc=example,dc=com", "manager of \"uid=c,ou=people,dc=example,dc=com\" does not name \"" + a + "\" again: another entry has this name now"},
		"the only member":       {again + gone(one), one, "refused"},
		"the person comes, too": {again, "dc=example,dc=com", ""},
		"the name is nobody's":  {gone(a), all, ""},
	} {
		t.Run(what, func(t *testing.T) {
			p := newCompany(t, stores["embedded"]())
			then := now(t, p)
			run(t, p, x.since)
			_, done, err := restore(t, p, then, history.RestoreOptions{Subtree: x.on == "dc=example,dc=com"}, x.on)
			if x.want == "refused" {
				if !partition.Is(err, partition.ClassViolation) {
					t.Errorf("got %v", err)
				}
				return
			}
			must(t, err)
			if got := strings.Join(done.Unnamed, "\n"); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

// TestDryRun checks that a dry run finds what the restore would be refused for.
func TestDryRun(t *testing.T) {
	p := newTree(t, stores["embedded"]())
	runSchema(t, p, define+addBadge)
	then := now(t, p)
	runSchema(t, p, removeBadge+"dn: cn=Subschema\nchangetype: modify\ndelete: objectClasses\nobjectClasses: 2.25.1\n-\n\n")
	for _, dry := range []bool{true, false} {
		_, _, err := restore(t, p, then, history.RestoreOptions{DryRun: dry}, "uid=a,ou=people,dc=example,dc=com")
		if err == nil || !strings.Contains(err.Error(), `object class "badged" is not in the schema`) {
			t.Errorf("dry run %t: %v", dry, err)
		}
	}
}

const (
	define      = "dn: cn=Subschema\nchangetype: modify\nadd: objectClasses\nobjectClasses: ( 2.25.1 NAME 'badged' SUP top AUXILIARY )\n-\n\n"
	addBadge    = "dn: uid=a,ou=people,dc=example,dc=com\nchangetype: modify\nadd: objectClass\nobjectClass: badged\n-\n\n"
	removeBadge = "dn: uid=a,ou=people,dc=example,dc=com\nchangetype: modify\ndelete: objectClass\nobjectClass: badged\n-\n\n"
	redefine    = "dn: cn=Subschema\nchangetype: modify\ndelete: objectClasses\nobjectClasses: 2.25.1\n-\nadd: objectClasses\nobjectClasses: ( 2.25.1 NAME 'badged' DESC 'new' SUP top AUXILIARY )\n-\n\n"
)

// runSchema makes changes, each in an update that may change the schema.
func runSchema(t testing.TB, p *partition.Partition, text string) {
	t.Helper()
	for rec, err := range ldif.NewReader(strings.NewReader(text), ldif.Options{}).Records() {
		must(t, err)
		m, ok := rec.Change.(*op.Modify)
		if !ok {
			t.Fatalf("not a modify: %s", text)
		}
		_, err = onlineschema.UpdateSchema(t.Context(), p, partition.By{}, func(tx *partition.Tx) error {
			return onlineschema.Modify(t.Context(), tx, name(t, rec.DN), m.Changes)
		})
		must(t, err)
	}
}

// TestDiffDefinitions checks that differences between states with different definitions can be applied: they remove the
// definitions that only one state has, after the entries need them no more, and no others.
func TestDiffDefinitions(t *testing.T) {
	p := newTree(t, stores["embedded"]())
	states := []*partition.Snapshot{now(t, p)}
	for _, text := range []string{define, addBadge, redefine} {
		runSchema(t, p, text)
		states = append(states, now(t, p))
	}
	for _, i := range []int{2, 3, 0, 3, 1, 0, 1, 2, 0, 2} {
		to := diff(t, now(t, p), states[i], "")
		runSchema(t, p, to)
		if left := diff(t, now(t, p), states[i], ""); left != "version: 1\n" {
			t.Errorf("to the state %d:\n%sis left of\n%s", i, left, to)
		}
	}
}
