package history_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/erase"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// newCompany returns a directory whose secrets have no history, with people who are in groups.
func newCompany(t testing.TB, s table.Store) *partition.Partition {
	t.Helper()
	ctx := context.Background()
	var indexes []catalog.Index
	for _, a := range []string{"manager", "pwdPolicySubentry"} {
		indexes = append(indexes, catalog.Index{Attribute: a, Layout: catalog.RowLayout})
	}
	p, err := partition.Open(ctx, s, partition.Options{Create: true, Cache: 8 << 20, Indexes: append(catalog.DefaultIndexes(), indexes...),
		Txn: txn.Options{SecretAge: time.Millisecond, Poll: 5 * time.Millisecond}})
	must(t, err)
	t.Cleanup(func() { p.Close(ctx) })
	must(t, onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}))
	for _, a := range []string{"member", "manager", "pwdPolicySubentry"} {
		must(t, onlineschema.SetReferences(ctx, p, []catalog.Reference{catalog.Reference{Attribute: a, MustExist: a == "manager"}}, true))
	}
	var b strings.Builder
	b.WriteString("dn: dc=example,dc=com\nchangetype: add\nobjectClass: domain\n\n")
	for _, ou := range []string{"people", "groups"} {
		fmt.Fprintf(&b, "dn: ou=%s,dc=example,dc=com\nchangetype: add\nobjectClass: organizationalUnit\n\n", ou)
	}
	for _, uid := range []string{"a", "b", "c"} {
		fmt.Fprintf(&b, "dn: uid=%s,ou=people,dc=example,dc=com\nchangetype: add\nobjectClass: inetOrgPerson\ncn: %[1]s\nsn: %[1]s\n", uid)
		if uid != "c" {
			fmt.Fprintf(&b, "userPassword: first of %s\n", uid)
		}
		b.WriteString("\n")
	}
	for _, m := range []string{"uid=a manager uid=b", "uid=b manager uid=a", "uid=c manager uid=a"} {
		f := strings.Fields(m)
		fmt.Fprintf(&b, "dn: %s,ou=people,dc=example,dc=com\nchangetype: modify\nadd: %s\n%[2]s: %[3]s,ou=people,dc=example,dc=com\n-\n\n", f[0], f[1], f[2])
	}
	for g, members := range map[string]string{"all": "abc", "one": "a", "ab": "ab"} {
		fmt.Fprintf(&b, "dn: cn=%s,ou=groups,dc=example,dc=com\nchangetype: add\nobjectClass: groupOfNames\n", g)
		for _, m := range members {
			fmt.Fprintf(&b, "member: UID=%c, ou=people,dc=example,dc=com\n", m)
		}
		b.WriteString("\n")
	}
	run(t, p, b.String())
	return p
}

// forget makes the directory forget the history of secrets.
func forget(t testing.TB, p *partition.Partition) {
	t.Helper()
	for range 3 {
		time.Sleep(2 * time.Millisecond)
		_, err := p.DB.Collect(context.Background(), txn.CollectOptions{Retention: time.Hour})
		must(t, err)
	}
}

func passwordOf(t testing.TB, s *partition.Snapshot, on string) string {
	t.Helper()
	at, err := s.Find(context.Background(), name(t, on))
	must(t, err)
	secrets, err := s.Secrets(context.Background(), at.ID)
	must(t, err)
	if i := slices.IndexFunc(secrets, func(a entry.Attribute) bool { return a.Type.Name() == "userPassword" }); i >= 0 {
		return string(bytes.Join(secrets[i].Values, []byte("|")))
	}
	return ""
}

const deleteA = "dn: uid=a,ou=people,dc=example,dc=com\nchangetype: delete\n"

const changePassword = "dn: uid=a,ou=people,dc=example,dc=com\nchangetype: modify\nreplace: userPassword\nuserPassword: second of a\n-\n"

// TestComeBack checks what comes back with deleted entries: the last password that each had, long
// after secrets were collected, and all values that named them.
func TestComeBack(t *testing.T) {
	ctx := context.Background()
	deleteTree := func(t testing.TB, p *partition.Partition) {
		_, err := write.Update(ctx, p, partition.By{}, func(tx *partition.Tx) error {
			_, _, err := tx.DeleteTree(ctx, name(t, "ou=people,dc=example,dc=com"), 100)
			return err
		})
		must(t, err)
	}
	inBranch := func(t testing.TB, p *partition.Partition) {
		b, err := branch.Create(ctx, p, branch.Options{Name: "b"})
		must(t, err)
		_, err = b.Update(ctx, partition.By{}, func(tx *partition.Tx) error {
			return tx.Delete(ctx, name(t, "uid=a,ou=people,dc=example,dc=com"))
		})
		must(t, err)
		run(t, p, "dn: ou=groups,dc=example,dc=com\nchangetype: modify\nreplace: description\ndescription: x\n-\n")
		_, err = b.Merge(ctx, partition.By{})
		must(t, err)
		run(t, p, "dn: ou=groups,dc=example,dc=com\nchangetype: modify\nreplace: description\n-\n")
	}
	for what, test := range map[string]struct {
		gone func(testing.TB, *partition.Partition)
		on   string
		a    string // the password of uid=a afterwards
	}{
		"one":     {func(t testing.TB, p *partition.Partition) { run(t, p, deleteA) }, "uid=a,ou=people,dc=example,dc=com", "first of a"},
		"changed": {func(t testing.TB, p *partition.Partition) { run(t, p, changePassword+"\n"+deleteA) }, "uid=a,ou=people,dc=example,dc=com", "second of a"},
		"tree":    {deleteTree, "ou=people,dc=example,dc=com", "first of a"},
		"branch":  {inBranch, "uid=a,ou=people,dc=example,dc=com", "first of a"},
		"twice": {func(t testing.TB, p *partition.Partition) {
			then := now(t, p)
			run(t, p, deleteA)
			_, _, err := restore(t, p, then, history.RestoreOptions{}, "uid=a,ou=people,dc=example,dc=com")
			must(t, err)
			run(t, p, changePassword+"\n"+deleteA)
		}, "uid=a,ou=people,dc=example,dc=com", "second of a"},
		"added and deleted in one commit": {func(t testing.TB, p *partition.Partition) {
			at, err := now(t, p).Find(ctx, name(t, "uid=a,ou=people,dc=example,dc=com"))
			must(t, err)
			run(t, p, deleteA)
			_, err = write.Update(ctx, p, partition.By{}, func(tx *partition.Tx) error {
				as := []op.PartialAttribute{{Description: "objectClass", Values: [][]byte{[]byte("account")}},
					{Description: "entryUUID", Values: [][]byte{[]byte(at.ID.String())}}}
				if _, err := tx.Add(ctx, name(t, "uid=z,dc=example,dc=com"), as, true); err != nil {
					return err
				}
				return tx.Delete(ctx, name(t, "uid=z,dc=example,dc=com"))
			})
			must(t, err)
		}, "uid=a,ou=people,dc=example,dc=com", "first of a"},
	} {
		for kind, store := range stores {
			if kind == "shared" && what != "tree" && what != "branch" {
				continue // settings of a shared store take seconds to change
			}
			t.Run(what+"/"+kind, func(t *testing.T) {
				p := newCompany(t, store())
				then := now(t, p)
				test.gone(t, p)
				forget(t, p)
				o := history.RestoreOptions{Subtree: true, DryRun: true}
				planned, dry, err := restore(t, p, then, o, test.on)
				must(t, err)
				o.DryRun = false
				made, done, err := restore(t, p, then, o, test.on)
				must(t, err)
				if planned != made || dry.Kept != done.Kept || done.Kept == 0 || len(done.Lost)+len(dry.Lost)+len(done.Unnamed) != 0 {
					t.Errorf("planned %+v, done %+v:\n%s\n%s", dry, done, planned, made)
				}
				if d := cmp.Diff(sortedLines(dump(t, then)), sortedLines(dump(t, now(t, p)))); d != "" {
					t.Errorf("not as it was: %s", d)
				}
				if got := passwordOf(t, now(t, p), "uid=a,ou=people,dc=example,dc=com"); got != test.a {
					t.Errorf("password %q, want %q", got, test.a)
				}
			})
		}
	}
}

// TestComeBackOld checks that a restore names the entries that come back without a password, because
// the history of their deletion is gone, and takes their passwords from elsewhere.
func TestComeBackOld(t *testing.T) {
	ctx := context.Background()
	p := newCompany(t, stores["embedded"]())
	cp, err := p.DB.Checkpoint(ctx, "cp")
	must(t, err)
	run(t, p, deleteA+"\ndn: uid=b,ou=people,dc=example,dc=com\nchangetype: modify\nreplace: description\ndescription: x\n-\n")
	time.Sleep(3 * time.Millisecond)
	for range 2 {
		_, err = p.DB.Collect(ctx, txn.CollectOptions{Retention: time.Millisecond, All: true})
		must(t, err)
	}
	then, err := state.At(ctx, p, cp.Revision)
	must(t, err)
	o := history.RestoreOptions{DryRun: true}
	const on = "uid=a,ou=people,dc=example,dc=com"
	_, done, err := restore(t, p, then, o, on)
	must(t, err)
	if d := cmp.Diff([]string{on}, done.Lost); d != "" || done.Kept != 0 {
		t.Errorf("%+v", done)
	}
	o = history.RestoreOptions{Secrets: func(_ context.Context, id entry.ID) ([]entry.Attribute, error) {
		return []entry.Attribute{{Type: p.Schema().Attribute("userPassword"), Values: [][]byte{[]byte("elsewhere")}}}, nil
	}}
	_, done, err = restore(t, p, then, o, on)
	must(t, err)
	if got := passwordOf(t, now(t, p), on); got != "elsewhere" || done.Kept != 1 || len(done.Lost) != 0 {
		t.Errorf("%q, %+v", got, done)
	}
}

// sortedLines returns the lines of each entry in order: values that come back come last.
func sortedLines(text string) []string {
	all := strings.Split(text, "\n\n")
	for i := range all {
		lines := strings.Split(all[i], "\n")
		slices.Sort(lines[1:])
		all[i] = strings.Join(lines, "\n")
	}
	return all
}

// TestComeBackChanged checks that a restore does not put back what was removed by hand before the
// deletion, nor over what was written since, and says what it did not put back.
func TestComeBackChanged(t *testing.T) {
	p := newCompany(t, stores["embedded"]())
	then := now(t, p)
	set := "dn: uid=c,ou=people,dc=example,dc=com\nchangetype: modify\nreplace: pwdPolicySubentry\npwdPolicySubentry: uid=%s,ou=people,dc=example,dc=com\n-\n\n"
	run(t, p, fmt.Sprintf(set, "a")+`dn: cn=ab,ou=groups,dc=example,dc=com
changetype: modify
delete: member
member: uid=a,ou=people,dc=example,dc=com
-

`+deleteA+`

`+fmt.Sprintf(set, "b")+`dn: cn=all,ou=groups,dc=example,dc=com
changetype: delete
`)
	_, done, err := restore(t, p, then, history.RestoreOptions{}, "uid=a,ou=people,dc=example,dc=com")
	must(t, err)
	after := dump(t, now(t, p))
	if n := strings.Count(after, "member: UID=a"); n != 1 {
		t.Errorf("%d groups have the member: want cn=one\n%s", n, after)
	}
	want := []string{
		`member of "cn=all,ou=groups,dc=example,dc=com" does not name "uid=a,ou=people,dc=example,dc=com" again: the entry or the attribute does not exist any more`,
		`pwdPolicySubentry of "uid=c,ou=people,dc=example,dc=com" does not name "uid=a,ou=people,dc=example,dc=com" again: it has another value now`,
	}
	slices.Sort(done.Unnamed)
	if d := cmp.Diff(want, done.Unnamed); d != "" {
		t.Error(d)
	}
}

// TestSealedNotShown checks that nothing shows the secrets of a deleted entry, that no commit's
// message has them in clear, and that an erasure and the end of history remove them.
func TestSealedNotShown(t *testing.T) {
	ctx := context.Background()
	const on = "uid=a,ou=people,dc=example,dc=com"
	for kind, store := range stores {
		for what, erase := range map[string]func(testing.TB, *partition.Partition){
			"nothing": func(testing.TB, *partition.Partition) {},
			"value": func(t testing.TB, p *partition.Partition) {
				_, err := erase.Erase(ctx, p, erase.Options{Attribute: "userPassword", Value: []byte("first of a")})
				must(t, err)
			},
			"name": func(t testing.TB, p *partition.Partition) {
				_, err := erase.Erase(ctx, p, erase.Options{Name: name(t, on)})
				must(t, err)
			},
			"history": func(t testing.TB, p *partition.Partition) {
				time.Sleep(2 * time.Millisecond)
				_, err := p.DB.Collect(ctx, txn.CollectOptions{Retention: time.Millisecond})
				must(t, err)
			},
		} {
			if kind == "shared" && what != "value" {
				continue // settings of a shared store take seconds to change
			}
			t.Run(kind+"/"+what, func(t *testing.T) {
				p := newCompany(t, store())
				then := now(t, p)
				defer then.Close()
				run(t, p, deleteA)
				run(t, p, "dn: uid=b,ou=people,dc=example,dc=com\nchangetype: modify\nreplace: description\ndescription: x\n-\n")
				forget(t, p)
				sealed := func() (sealed int) {
					var log bytes.Buffer
					_, err := history.Log(ctx, p, &log, history.LogOptions{Until: now(t, p), Since: p.DB.Horizon(), JSON: true})
					must(t, err)
					for c, err := range changestream.ShownAfter(ctx, now(t, p), p.DB.Horizon()) {
						must(t, err)
						if bytes.Contains(c.Message, []byte("first of a")) || strings.Contains(log.String(), "first of a") || strings.Contains(log.String(), "sealed") {
							t.Errorf("shown: %s\n%s", c.Message, &log)
						}
						sealed += bytes.Count(c.Message, []byte("sealed "))
					}
					return sealed
				}
				if n := sealed(); n != 1 {
					t.Fatalf("%d commits have sealed secrets", n)
				}
				then.Close()
				erase(t, p)
				if n, want := sealed(), map[bool]int{true: 1}[what == "nothing"]; n != want {
					t.Errorf("%d commits have sealed secrets, want %d", n, want)
				}
			})
		}
	}
}

// TestRestoreFollowed restores a tree in which somebody names an entry that goes away with the restore.
func TestRestoreFollowed(t *testing.T) {
	p := newCompany(t, stores["embedded"]())
	then := now(t, p)
	run(t, p, `dn: uid=x,ou=people,dc=example,dc=com
changetype: add
objectClass: inetOrgPerson
cn: x
sn: x

dn: uid=a,ou=people,dc=example,dc=com
changetype: modify
delete: manager
-
add: manager
manager: uid=x,ou=people,dc=example,dc=com
-
`)
	_, _, err := restore(t, p, then, history.RestoreOptions{Subtree: true}, "ou=people,dc=example,dc=com")
	must(t, err)
	if d := cmp.Diff(dump(t, then), dump(t, now(t, p))); d != "" {
		t.Errorf("not as it was: %s", d)
	}
	run(t, p, "dn: uid=c,ou=people,dc=example,dc=com\nchangetype: modify\ndelete: manager\n-\n")
	then = now(t, p)
	run(t, p, `dn: uid=x,ou=people,dc=example,dc=com
changetype: add
objectClass: inetOrgPerson
cn: x
sn: x

dn: uid=c,ou=people,dc=example,dc=com
changetype: modify
add: manager
manager: uid=x,ou=people,dc=example,dc=com
-
`)
	_, _, err = restore(t, p, then, history.RestoreOptions{Subtree: true}, "ou=people,dc=example,dc=com")
	must(t, err)
}
