package history_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// rename changes the name of a person whom groups and colleagues name.
const rename = "dn: uid=a,ou=people,dc=example,dc=com\nchangetype: modrdn\nnewrdn: uid=z\ndeleteoldrdn: 1\nnewsuperior: dc=example,dc=com\n"

// remove deletes that person.
const remove = "dn: uid=a,ou=people,dc=example,dc=com\nchangetype: delete\n"

// several changes many entries.
const several = remove + `
dn: uid=b,ou=people,dc=example,dc=com
changetype: modify
replace: description
description: second
-

dn: uid=c,ou=people,dc=example,dc=com
changetype: modrdn
newrdn: uid=cc
deleteoldrdn: 1

dn: ou=new,dc=example,dc=com
changetype: add
objectClass: organizationalUnit

dn: uid=n,ou=new,dc=example,dc=com
changetype: add
objectClass: inetOrgPerson
cn: n
sn: n
`

// TestUndo undoes commits of several entries after others were made, and undoes the undo.
func TestUndo(t *testing.T) {
	for kind, store := range stores {
		for _, c := range []struct{ name, commit, since string }{
			{"rename", rename, ""},
			{"delete", remove, ""},
			{"several", several, ""},
			// Groups that have lost a member may have changed.
			{"delete, busy groups", remove, "dn: cn=all,ou=groups,dc=example,dc=com\nchangetype: modify\nadd: description\ndescription: busy\n-\n"},
			{"rename, busy groups", rename, "dn: cn=all,ou=groups,dc=example,dc=com\nchangetype: modify\nadd: description\ndescription: busy\n-\n"},
		} {
			t.Run(kind+" "+c.name, func(t *testing.T) {
				p, twin := newCompany(t, store()), newCompany(t, store())
				commit := together(t, p, c.commit)
				run(t, p, c.since)
				run(t, twin, c.since) // where the commit was never made
				changed := dump(t, now(t, p))
				planned, err := undo(p, commit, true)
				must(t, err)
				if planned.Revision != 0 || dump(t, now(t, p)) != changed {
					t.Error("a dry run changed something")
				}
				done, err := undo(p, commit, false)
				must(t, err)
				if d := cmp.Diff(spelled(dump(t, now(t, twin))), spelled(dump(t, now(t, p)))); d != "" {
					t.Errorf("not as without the commit: %s", d)
				}
				if len(done.Records) != len(planned.Records) || len(done.Lost)+len(done.Unnamed) > 0 {
					t.Errorf("made %+v, planned %+v", done, planned)
				}
				_, err = undo(p, done.Revision, false)
				must(t, err)
				if d := cmp.Diff(spelled(changed), spelled(dump(t, now(t, p)))); d != "" {
					t.Errorf("the undo undone: %s", d)
				}
			})
		}
	}
}

// TestUndoRefused checks that a commit is undone as a whole, or not at all and with the entry in the diagnostic.
func TestUndoRefused(t *testing.T) {
	describe := func(name string) string {
		return "dn: " + name + "\nchangetype: modify\nreplace: description\ndescription: since\n-\n"
	}
	for _, c := range []struct {
		since, names string
		err          error
	}{
		{describe("uid=b,ou=people,dc=example,dc=com"), `uid=b,ou=people,dc=example,dc=com: it was changed again`, history.ErrChanged},
		{describe("uid=cc,ou=people,dc=example,dc=com"), `uid=cc,ou=people,dc=example,dc=com: it was changed again`, history.ErrChanged},
		{describe("uid=n,ou=new,dc=example,dc=com"), `uid=n,ou=new,dc=example,dc=com: it was changed again`, history.ErrChanged},
		{"dn: uid=n,ou=new,dc=example,dc=com\nchangetype: modify\nreplace: userPassword\nuserPassword: seven green lanterns\n-\n", `uid=n,ou=new,dc=example,dc=com: it was changed again`, history.ErrChanged},
		{"dn: uid=n,ou=new,dc=example,dc=com\nchangetype: delete\n", `uid=n,ou=new,dc=example,dc=com: it was changed again`, history.ErrChanged},
		{"dn: ou=deep,ou=new,dc=example,dc=com\nchangetype: add\nobjectClass: organizationalUnit\n", "ou=new,dc=example,dc=com has entries below it", history.ErrTaken},
		{"dn: uid=a,ou=people,dc=example,dc=com\nchangetype: add\nobjectClass: inetOrgPerson\ncn: a\nsn: a\n", "uid=a,ou=people,dc=example,dc=com", history.ErrTaken},
	} {
		p := newCompany(t, stores["embedded"]())
		commit := together(t, p, several)
		run(t, p, c.since)
		changed := dump(t, now(t, p))
		for _, dry := range []bool{true, false} {
			if _, err := undo(p, commit, dry); !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("dry run %t, after\n%s%v", dry, c.since, err)
			}
		}
		if d := cmp.Diff(changed, dump(t, now(t, p))); d != "" {
			t.Errorf("half done: %s", d)
		}
	}
	p := newCompany(t, stores["embedded"]())
	for _, r := range []table.Revision{0, 1, state.Newest(p).Revision() + 1} {
		if _, err := undo(p, r, false); !errors.Is(err, history.ErrNoCommit) {
			t.Errorf("revision %d: %v", r, err)
		}
	}
}

// spelled returns a dump without what renames change in the spelling and order of values.
func spelled(dump string) []string {
	lines := strings.Split(strings.ToLower(strings.ReplaceAll(dump, ", ", ",")), "\n")
	slices.Sort(lines)
	return lines
}

// together makes changes in one commit and returns its revision.
func together(t testing.TB, p *partition.Partition, text string) table.Revision {
	t.Helper()
	r, err := write.Update(t.Context(), p, partition.By{Name: "cn=admin"}, func(tx *partition.Tx) error {
		for rec, err := range ldif.NewReader(strings.NewReader(text), ldif.Options{}).Records() {
			if err == nil {
				err = do(t.Context(), tx, rec.DN, rec.Change)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	return r
}

func undo(p *partition.Partition, commit table.Revision, dry bool) (*history.Restored, error) {
	return history.Undo(context.Background(), p, commit, history.RestoreOptions{DryRun: dry, By: partition.By{Name: "cn=admin"}})
}
