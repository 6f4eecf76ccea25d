package partition_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// branched is a directory with a branch.
type branched struct {
	t *testing.T
	p *partition.Partition
	b *branch.Branch
}

// eachBranched runs a test on a directory with a branch, on each kind of store.
func eachBranched(t *testing.T, f func(t *testing.T, w *branched)) {
	eachUnbranched(t, func(t *testing.T, w *branched) {
		w.b = w.create("staging")
		f(t, w)
	})
}

// eachUnbranched runs a test on a directory that has had no branch.
func eachUnbranched(t *testing.T, f func(t *testing.T, w *branched)) {
	eachEraseStore(t, func(t *testing.T, s table.Store) {
		p, err := partition.Open(context.Background(), s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged})
		must(t, err)
		t.Cleanup(func() { p.Close(context.Background()) })
		must(t, onlineschema.SetSuffixes(context.Background(), p, []string{domain}))
		must(t, add(t, p, domain, domainLines...))
		must(t, add(t, p, people, "objectClass: organizationalUnit"))
		for _, uid := range []string{"ann", "bob", "cid"} {
			must(t, add(t, p, "uid="+uid+","+people, "objectClass: inetOrgPerson", "cn: "+uid, "sn: Old", "userPassword: "+uid, "description: of all"))
		}
		f(t, &branched{t: t, p: p})
	})
}

func (w *branched) create(name string) *branch.Branch {
	w.t.Helper()
	b, err := branch.Create(context.Background(), w.p, branch.Options{Name: name, Description: "of " + name, By: partition.By{Name: "cn=maker"}})
	must(w.t, err)
	return b
}

// stage runs fn in a transaction in the branch.
func (w *branched) stage(b *branch.Branch, fn func(tx *partition.Tx) error) error {
	_, err := b.Update(context.Background(), partition.By{Name: "cn=stager"}, fn)
	return err
}

func (w *branched) stageModify(b *branch.Branch, at string, cs ...op.Modification) error {
	return w.stage(b, func(tx *partition.Tx) error { return onlineschema.Modify(context.Background(), tx, name(at), cs) })
}

func (w *branched) stageAdd(b *branch.Branch, at string, lines ...string) error {
	return w.stage(b, func(tx *partition.Tx) error {
		_, err := tx.Add(context.Background(), name(at), attrs(lines...), false)
		return err
	})
}

func (w *branched) merge(b *branch.Branch) (table.Revision, error) {
	return b.Merge(context.Background(), partition.By{Name: "cn=merger"})
}

// The function "found" returns the RDNs of the entries in s that match a filter. It closes s.
func found(t *testing.T, s *partition.Snapshot, f string) string {
	t.Helper()
	defer s.Close()
	var names []string
	q := partition.Query{Scope: op.WholeSubtree, Filter: filter.Resolve(filter.MustParse(f), s.Schema())}
	for r, err := range search.Search(context.Background(), s, q) {
		must(t, err)
		d, err := r.Name.DN()
		must(t, err)
		names = append(names, d[:1].String())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (w *branched) in(b *branch.Branch, f string) string {
	w.t.Helper()
	s, err := b.Snapshot(context.Background())
	must(w.t, err)
	return found(w.t, s, f)
}

func (w *branched) now(f string) string {
	w.t.Helper()
	must(w.t, w.p.CatchUp(context.Background()))
	return found(w.t, state.Newest(w.p), f)
}

func (w *branched) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestBranch makes changes of every kind in a branch. It checks the states of the branch
// and of the trunk before and after the merge, and the journal's record of the merge.
func TestBranch(t *testing.T) {
	eachBranched(t, func(t *testing.T, w *branched) {
		ctx := context.Background()
		must(t, w.stageAdd(w.b, "uid=dan,"+people, "objectClass: inetOrgPerson", "cn: dan", "sn: New", "userPassword: dan"))
		must(t, w.stageModify(w.b, "uid=ann,"+people, change(op.ModReplace, "sn", []byte("New"))))
		must(t, w.stage(w.b, func(tx *partition.Tx) error {
			if err := tx.Delete(ctx, name("uid=cid,"+people)); err != nil {
				return err
			}
			ou := name("ou=staff," + domain)
			return tx.Rename(ctx, name(people), ou[0], true, nil)
		}))
		must(t, modify(t, w.p, "uid=bob,"+people, change(op.ModReplace, "sn", []byte("Later"))))

		w.want("the trunk", w.now("(sn=*)"), "uid=ann uid=bob uid=cid")
		w.want("the trunk", w.now("(sn=New)"), "")
		w.want("the branch", w.in(w.b, "(sn=*)"), "uid=ann uid=bob uid=dan")
		w.want("the branch", w.in(w.b, "(sn=New)"), "uid=ann uid=dan")
		w.want("the branch, of what came later", w.in(w.b, "(sn=Later)"), "")
		i, err := w.b.Info(ctx)
		must(t, err)
		if n, err := w.b.Changed(ctx, i); err != nil || n != 4 || i.Commits != 3 || i.By.Name != "cn=maker" || i.Description != "of staging" {
			t.Errorf("%d entries changed, %v: %+v", n, err, i)
		}
		s, err := w.b.At(ctx, i.Base)
		must(t, err)
		w.want("the branch as it began", found(t, s, "(sn=New)"), "")

		m, err := w.merge(w.b)
		must(t, err)
		w.want("after the merge", w.now("(sn=New)"), "uid=ann uid=dan")
		w.want("after the merge", w.now("(sn=Later)"), "uid=bob")
		w.want("after the merge", w.now("(ou=*)"), "ou=staff")
		before, err := state.At(ctx, w.p, m-1)
		must(t, err)
		w.want("just before the merge", found(t, before, "(sn=*)"), "uid=ann uid=bob uid=cid")
		w.wantJournal(m)
		wantSound(t, w.p)
		if _, err := branch.Find(w.p, "staging"); !partition.Is(err, partition.NoSuchEntry) {
			t.Errorf("finding it: %v", err)
		}
		if _, err := w.merge(w.b); !partition.Is(err, partition.NoSuchEntry) {
			t.Errorf("merging it again: %v", err)
		}
	})
}

// wantJournal checks that the trunk shows the changes of the branch as one commit, the merge
// m. The record of m must say what the branch changed.
func (w *branched) wantJournal(m table.Revision) {
	w.t.Helper()
	s := state.Newest(w.p)
	defer s.Close()
	for c, err := range changestream.ShownAfter(context.Background(), s, m-1) {
		must(w.t, err)
		if want := "\"cn=merger\"\nmerge \"staging\""; c.Revision != m || string(c.Message) != want || len(c.IDs) < 4 {
			w.t.Errorf("journal: %+v", c)
		}
		return
	}
	w.t.Error("the journal has no merge")
}

// TestBranchConflicts checks which conflicts a refused merge reports, and that changes that
// commute are not in conflict.
func TestBranchConflicts(t *testing.T) {
	eachBranched(t, func(t *testing.T, w *branched) {
		ctx := context.Background()
		must(t, w.stageModify(w.b, "uid=ann,"+people, change(op.ModReplace, "sn", []byte("Branch"))))
		must(t, w.stageModify(w.b, "uid=bob,"+people, change(op.ModAdd, "description", []byte("of the branch"))))
		must(t, w.stage(w.b, func(tx *partition.Tx) error { return tx.Delete(ctx, name("uid=cid,"+people)) }))
		must(t, w.stageAdd(w.b, "uid=eve,"+people, "objectClass: inetOrgPerson", "cn: eve", "sn: Branch"))
		must(t, modify(t, w.p, "uid=bob,"+people, change(op.ModAdd, "description", []byte("of the trunk"))))
		if all, err := w.b.Conflicts(ctx); err != nil || len(all) > 0 {
			t.Fatalf("too early: %+v, %v", all, err)
		}
		must(t, modify(t, w.p, "uid=ann,"+people, change(op.ModReplace, "sn", []byte("Trunk"))))
		must(t, modify(t, w.p, "uid=cid,"+people, change(op.ModReplace, "sn", []byte("Trunk"))))
		must(t, add(t, w.p, "uid=eve,"+people, "objectClass: inetOrgPerson", "cn: eve", "sn: Trunk"))
		_, err := w.merge(w.b)
		var refused *branch.ConflictError
		if !errors.As(err, &refused) {
			t.Fatal(err)
		}
		var got []string
		for _, c := range refused.Conflicts {
			text, _, _ := strings.Cut(c.Place(), " since ")
			got = append(got, text+" by "+c.By.Name)
			for _, a := range c.Attributes {
				got = append(got, fmt.Sprintf("%s: %s %s %s", a.Description, a.Base[0], a.Branch[0], a.Newest[0]))
			}
		}
		w.want("conflicts", strings.Join(got, "\n"), strings.Join([]string{
			"uid=ann," + people + ": sn by cn=admin", "sn: Old Branch Trunk",
			"uid=cid," + people + ": deleted in the branch and changed outside by cn=admin",
			"uid=eve," + people + ": another entry was given its name outside by cn=admin",
		}, "\n"))
		w.want("after the failed merge", w.in(w.b, "(sn=Branch)"), "uid=ann uid=eve")
		must(t, w.b.Discard(ctx))
		w.want("after all", w.now("(sn=Branch)"), "")
		wantSound(t, w.p)
	})
}

// TestBranchStamps checks the entryCSN of entries after a merge. An entry that both the branch
// and the trunk changed must have a new entryCSN. An entry that only the branch changed must
// keep the entryCSN of that change.
func TestBranchStamps(t *testing.T) {
	eachBranched(t, func(t *testing.T, w *branched) {
		ctx := context.Background()
		must(t, w.stageModify(w.b, "uid=bob,"+people, change(op.ModAdd, "description", []byte("of the branch"))))
		must(t, w.stageModify(w.b, "uid=ann,"+people, change(op.ModReplace, "sn", []byte("Branch"))))
		must(t, modify(t, w.p, "uid=bob,"+people, change(op.ModAdd, "description", []byte("of the trunk"))))
		stamps := func(s *partition.Snapshot, uid string) (csn, by string) {
			defer s.Close()
			at, err := s.Find(ctx, name("uid="+uid+","+people))
			must(t, err)
			e, err := s.Entry(ctx, at.ID, false)
			must(t, err)
			return string(e.Values(s.Schema().Attribute("entryCSN"))[0]), string(e.Values(s.Schema().Attribute("modifiersName"))[0])
		}
		trunk, _ := stamps(state.Newest(w.p), "bob")
		s, err := w.b.Snapshot(ctx)
		must(t, err)
		own, _ := stamps(s, "ann")
		_, err = w.merge(w.b)
		must(t, err)
		if csn, by := stamps(state.Newest(w.p), "bob"); csn <= trunk || by != "cn=merger" {
			t.Errorf("bob, whom both changed: %s by %s, and %s before the merge", csn, by, trunk)
		}
		if csn, by := stamps(state.Newest(w.p), "ann"); csn != own || by != "cn=stager" {
			t.Errorf("ann: %s by %s, and %s in the branch", csn, by, own)
		}
		w.want("values", w.now("(&(description=of the trunk)(description=of the branch))"), "uid=bob")
	})
}

// TestBranchSettings checks that the schema and the settings cannot change in a branch. It
// also checks that a branch cannot be merged if settings that entries must obey have changed
// since the branch's base.
func TestBranchSettings(t *testing.T) {
	eachBranched(t, func(t *testing.T, w *branched) {
		ctx := context.Background()
		wantProblem(t, w.stageModify(w.b, "cn=subschema", change(op.ModAdd, "attributeTypes", []byte("( 1.2.3.4 NAME 'mine' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"))), partition.Unwilling, "branch")
		wantProblem(t, w.stage(w.b, func(tx *partition.Tx) error { return tx.SetAccess(nil) }), partition.Unwilling, "branch")

		must(t, w.stageModify(w.b, "uid=ann,"+people, change(op.ModReplace, "sn", []byte("1"))))
		must(t, onlineschema.SetAccess(ctx, w.p, partition.By{}, func(*partition.Snapshot, []partition.AccessRule) ([]partition.AccessRule, error) {
			return []partition.AccessRule{{Text: "admins: *"}}, nil
		}))
		must(t, addDefinition(t, w.p, "( 1.2.3.4 NAME 'mine' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"))
		_, err := w.merge(w.b)
		must(t, err)

		for what, change := range map[string]func() error{
			"unique": func() error {
				return onlineschema.SetUnique(ctx, w.p, []catalog.Unique{catalog.Unique{Attribute: "uid", Base: idOf(t, w.p, domain)}}, true)
			},
			"context": func() error { return onlineschema.AddSuffixes(ctx, w.p, []string{"o=other"}) },
		} {
			b := w.create("of " + what)
			must(t, w.stageModify(b, "uid=bob,"+people, change2("sn", what)))
			must(t, change())
			var refused *branch.ConflictError
			if _, err := w.merge(b); !errors.As(err, &refused) || !strings.Contains(refused.Conflicts[0].About, "schema or settings") {
				t.Errorf("%s: %v", what, err)
			}
			must(t, b.Discard(ctx))
		}
		wantSound(t, w.p)
	})
}

func change2(description, value string) op.Modification {
	return change(op.ModReplace, description, []byte(value))
}

func addDefinition(t *testing.T, p *partition.Partition, text string) error {
	t.Helper()
	_, err := onlineschema.UpdateSchema(context.Background(), p, partition.By{}, func(tx *partition.Tx) error {
		return onlineschema.ChangeSchema(context.Background(), tx, []schema.Definition{{Attribute: "attributeTypes", Text: text}}, nil)
	})
	return err
}

// TestBranchNames checks which names branches may have, and that two branches cannot have
// the same name at the same time.
func TestBranchNames(t *testing.T) {
	eachBranched(t, func(t *testing.T, w *branched) {
		ctx := context.Background()
		for _, n := range []string{"", " x", "x ", "a\nb", "a\x00", "\xff", strings.Repeat("n", 65)} {
			if _, err := branch.Create(ctx, w.p, branch.Options{Name: n}); !partition.Is(err, partition.Constraint) {
				t.Errorf("%q: %v", n, err)
			}
		}
		for _, n := range []string{"a,b=c+d", "ä ö", `"quoted" \ #`, "now", strings.Repeat("n", 64)} {
			b := w.create(n)
			must(t, w.stageModify(b, "uid=ann,"+people, change2("sn", "x")))
			again, err := branch.Find(w.p, n)
			must(t, err)
			w.want(n, w.in(again, "(sn=x)"), "uid=ann")
			if _, err := branch.Create(ctx, w.p, branch.Options{Name: n}); !partition.Is(err, partition.EntryExists) {
				t.Errorf("%q again: %v", n, err)
			}
		}
		for n := range txn.MaxBranches - 6 {
			w.create(dn.RDN{{Type: "n", Value: []byte{byte('0' + n)}}}.String())
		}
		if _, err := branch.Create(ctx, w.p, branch.Options{Name: "one more"}); !partition.Is(err, partition.TooMany) {
			t.Errorf("65 branches: %v", err)
		}
	})
}

// TestBranchRules checks that, in a branch and after its merge, unique values are unique
// and references follow renames and deletions.
func TestBranchRules(t *testing.T) {
	eachUnbranched(t, func(t *testing.T, w *branched) {
		ctx := context.Background()
		must(t, onlineschema.SetUnique(ctx, w.p, []catalog.Unique{catalog.Unique{Attribute: "uid", Base: idOf(t, w.p, domain)}}, true))
		follow(t, w.p, false, "manager")
		must(t, modify(t, w.p, "uid=bob,"+people, change2("manager", "uid=ann,"+people)))
		w.b = w.create("rules")

		twice := []string{"objectClass: account", "uid: ann"}
		wantProblem(t, w.stageAdd(w.b, "uid=ann,"+domain, twice...), partition.Constraint, "unique")
		must(t, w.stage(w.b, func(tx *partition.Tx) error {
			return tx.Rename(ctx, name("uid=ann,"+people), name("uid=anna," + domain)[0], true, nil)
		}))
		w.want("the manager in the branch", w.in(w.b, "(manager=uid=anna,"+people+")"), "uid=bob")
		w.want("the manager outside", w.now("(manager=uid=ann,"+people+")"), "uid=bob")
		must(t, w.stageAdd(w.b, "uid=ann,"+domain, twice...))
		must(t, w.stageAdd(w.b, "uid=new,"+people, "objectClass: account"))
		must(t, add(t, w.p, "uid=new,"+domain, "objectClass: account"))
		_, err := w.merge(w.b)
		var refused *branch.ConflictError
		if !errors.As(err, &refused) || len(refused.Conflicts) != 1 || !strings.Contains(refused.Conflicts[0].About, "uid, which is unique") {
			t.Fatalf("merging: %v", err)
		}
		must(t, w.stage(w.b, func(tx *partition.Tx) error { return tx.Delete(ctx, name("uid=new,"+people)) }))
		must(t, update(t, w.p, func(tx *partition.Tx) error { return tx.Delete(ctx, name("uid=new,"+domain)) }))
		if all, err := w.b.Conflicts(ctx); err != nil || len(all) != 1 {
			t.Errorf("what was claimed on both sides is a conflict, though it is gone: %+v, %v", all, err)
		}
		must(t, w.b.Discard(ctx))

		first, second := w.create("first"), w.create("second")
		for _, b := range []*branch.Branch{first, second} {
			must(t, w.stage(b, func(tx *partition.Tx) error {
				return tx.Rename(ctx, name("uid=ann,"+people), name("uid=anna," + domain)[0], true, nil)
			}))
		}
		_, err = w.merge(first)
		must(t, err)
		w.want("the manager after the merge", w.now("(manager=uid=anna,"+people+")"), "uid=bob")
		if _, err := w.merge(second); !errors.As(err, &refused) {
			t.Errorf("merging the second branch: %v", err)
		}
		third := w.create("third")
		must(t, w.stage(third, func(tx *partition.Tx) error { return tx.Delete(ctx, name("uid=anna,"+people)) }))
		must(t, modify(t, w.p, "uid=cid,"+people, change2("manager", "uid=anna,"+people)))
		if _, err := w.merge(third); !errors.As(err, &refused) {
			t.Errorf("merging the deletion of an entry that has just been named: %v", err)
		}
		wantSound(t, w.p)
	})
}
