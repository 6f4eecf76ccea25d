package history_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// applyText makes the changes of an LDIF text in one transaction.
func applyText(t *testing.T, update func(context.Context, partition.By, func(*partition.Tx) error) error, text string) {
	t.Helper()
	ctx := context.Background()
	err := update(ctx, partition.By{Name: "cn=me"}, func(tx *partition.Tx) error {
		for r, err := range ldif.NewReader(strings.NewReader(text), ldif.Options{}).Records() {
			if err != nil {
				return err
			}
			name, err := dn.Parse(r.DN)
			if err != nil {
				return err
			}
			switch c := r.Change.(type) {
			case nil:
				_, err = tx.Add(ctx, name, r.Attributes, false)
			case *op.Add:
				_, err = tx.Add(ctx, name, c.Attributes, false)
			case *op.Modify:
				err = tx.Modify(ctx, name, c.Changes)
			case *op.Delete:
				err = tx.Delete(ctx, name)
			case *op.ModifyDN:
				var rdn dn.RDN
				if rdn, err = dn.ParseRDN(c.NewRDN); err == nil {
					var superior *dn.DN
					if c.NewSuperior != nil {
						var d dn.DN
						d, err = dn.Parse(*c.NewSuperior)
						superior = &d
					}
					err = errors.Join(err, tx.Rename(ctx, name, rdn, c.DeleteOldRDN, superior))
				}
			}
			if err != nil {
				return fmt.Errorf("%s: %w", r.DN, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// eachBranchStore runs a test on each kind of store that has branches.
func eachBranchStore(t *testing.T, test func(*testing.T, func() table.Store)) {
	t.Run("shared", func(t *testing.T) { test(t, func() table.Store { return tabletest.NewMem() }) })
	t.Run("embedded", func(t *testing.T) {
		test(t, func() table.Store {
			s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		})
	})
}

// rebased is a directory with a branch.
type rebased struct {
	t *testing.T
	p *partition.Partition
}

func newRebased(t *testing.T, s table.Store) *rebased {
	t.Helper()
	w := newRebasedWith(t, s, partition.Options{Create: true, Txn: txn.Options{SecretAge: time.Millisecond}})
	t.Cleanup(func() { w.p.Close(context.Background()) })
	return w
}

// newRebasedWith is newRebased with options. The caller closes the partition.
func newRebasedWith(t *testing.T, s table.Store, o partition.Options) *rebased {
	t.Helper()
	ctx := context.Background()
	p, err := partition.Open(ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := onlineschema.SetSuffixes(ctx, p, []string{"o=x"}); err != nil {
		t.Fatal(err)
	}
	w := &rebased{t, p}
	w.trunk(`dn: o=x
objectClass: organization

dn: ou=old,o=x
objectClass: organizationalUnit

dn: uid=ann,ou=old,o=x
objectClass: inetOrgPerson
cn: Ann
sn: Base
description: one
userPassword: base

dn: uid=bob,ou=old,o=x
objectClass: inetOrgPerson
cn: Bob
sn: Base
description: one

dn: uid=cid,ou=old,o=x
objectClass: inetOrgPerson
cn: Cid
sn: Base
`)
	if _, err := branch.Create(ctx, p, branch.Options{Name: "b", Description: "mine", By: partition.By{Name: "cn=maker"}}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *rebased) trunk(text string) {
	w.t.Helper()
	applyText(w.t, func(ctx context.Context, by partition.By, fn func(*partition.Tx) error) error {
		_, err := write.Update(ctx, w.p, by, fn)
		return err
	}, text)
}

func (w *rebased) branch() *branch.Branch {
	w.t.Helper()
	b, err := branch.Find(w.p, "b")
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *rebased) stage(text string) {
	w.t.Helper()
	applyText(w.t, func(ctx context.Context, by partition.By, fn func(*partition.Tx) error) error {
		_, err := w.branch().Update(ctx, by, fn)
		return err
	}, text)
}

// people returns the entries of people in a state, with sn, description and userPassword.
func (w *rebased) people(s *partition.Snapshot, err error) string {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	defer s.Close()
	var all []string
	q := partition.Query{Scope: op.WholeSubtree, Secrets: true, Filter: filter.Resolve(filter.MustParse("(sn=*)"), s.Schema())}
	for r, err := range search.Search(context.Background(), s, q) {
		if err != nil {
			w.t.Fatal(err)
		}
		text := r.Name.String()
		for _, a := range []string{"sn", "description", "userPassword"} {
			for _, v := range r.Entry.Values(s.Schema().Attribute(a)) {
				text += " " + string(v)
			}
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func (w *rebased) rebase(keep history.Side) (*history.Rebased, error) {
	return history.Rebase(context.Background(), w.p, "b", history.RebaseOptions{Keep: keep, By: partition.By{Name: "cn=me"}})
}

func (w *rebased) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

// TestRebase rebases a branch after changes outside of it that do not conflict, and merges
// the result. Some of these changes concern the same entries, and some rename their
// superiors.
func TestRebase(t *testing.T) {
	eachBranchStore(t, func(t *testing.T, store func() table.Store) { rebase(t, store, false) })
}

// TestRebaseParked is like TestRebase, but with a parked branch, after the history since
// its base was collected.
func TestRebaseParked(t *testing.T) {
	eachBranchStore(t, func(t *testing.T, store func() table.Store) { rebase(t, store, true) })
}

// park parks the branch, and collects everything that is not needed any more. It checks that
// the parked branch can be neither merged nor changed.
func (w *rebased) park() {
	w.t.Helper()
	ctx := context.Background()
	if err := w.branch().Park(ctx); err != nil {
		w.t.Fatal(err)
	}
	i, err := w.branch().Info(ctx)
	if err != nil || i.State() != "parked" {
		w.t.Fatal(i, err)
	}
	for end := time.Now().Add(time.Minute); w.p.DB.Horizon() <= i.Base; {
		if time.Now().After(end) {
			w.t.Fatal("the horizon does not pass the base of a parked branch")
		}
		w.trunk("dn: o=x\nchangetype: modify\nreplace: description\ndescription: later\n")
		if _, err := w.p.DB.Collect(ctx, txn.CollectOptions{All: true}); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := w.branch().Merge(ctx, partition.By{}); err == nil || !strings.Contains(err.Error(), "is parked") {
		w.t.Errorf("merging a parked branch: %v", err)
	}
	if _, err := w.branch().Update(ctx, partition.By{}, func(tx *partition.Tx) error {
		return tx.Delete(ctx, dn.DN{{{Type: "o", Value: []byte("x")}}})
	}); !partition.Is(err, partition.Unwilling) {
		w.t.Errorf("changing a parked branch: %v", err)
	}
	if err := w.branch().Describe(ctx, partition.By{}, "new"); !partition.Is(err, partition.Unwilling) {
		w.t.Errorf("describing a parked branch: %v", err)
	}
}

func rebase(t *testing.T, store func() table.Store, parked bool) {
	ctx := context.Background()
	w := newRebased(t, store())
	w.stage(`dn: uid=ann,ou=old,o=x
changetype: modify
replace: sn
sn: Branch
-
replace: userPassword
userPassword: branch

dn: ou=new,o=x
changetype: add
objectClass: organizationalUnit

dn: uid=cid,ou=old,o=x
changetype: modrdn
newrdn: uid=cid
deleteoldrdn: 1
newsuperior: ou=new,o=x

dn: uid=dan,ou=old,o=x
changetype: add
objectClass: inetOrgPerson
cn: Dan
sn: Branch
userPassword: dan

dn: uid=bob,ou=old,o=x
changetype: modify
add: description
description: branch
`)
	w.trunk(`dn: ou=old,o=x
changetype: modrdn
newrdn: ou=renamed
deleteoldrdn: 1

dn: uid=bob,ou=renamed,o=x
changetype: modify
add: description
description: trunk

dn: uid=eve,ou=renamed,o=x
changetype: add
objectClass: inetOrgPerson
cn: Eve
sn: Trunk
`)
	if parked {
		before := w.people(w.branch().Snapshot(ctx))
		w.park()
		w.want("the parked branch", w.people(w.branch().Snapshot(ctx)), before)
	}
	done, err := w.rebase(history.Neither)
	if err != nil {
		t.Fatal(err)
	}
	if done.Changes != 5 || len(done.Dropped) > 0 {
		t.Errorf("%+v", done)
	}
	want := `uid=ann,ou=renamed,o=x Branch one branch
uid=bob,ou=renamed,o=x Base one trunk branch
uid=cid,ou=new,o=x Base
uid=dan,ou=renamed,o=x Branch dan
uid=eve,ou=renamed,o=x Trunk`
	w.want("the branch", w.people(w.branch().Snapshot(ctx)), want)
	i, err := w.branch().Info(ctx)
	if err != nil || i.By.Name != "cn=maker" || i.Description != "mine" || len(branch.All(w.p)) != 1 {
		t.Errorf("%+v, %v", i, err)
	}
	if _, err := w.branch().Merge(ctx, partition.By{}); err != nil {
		t.Fatal(err)
	}
	w.want("the trunk", w.people(state.Newest(w.p), nil), want)
	if _, err := verify.Verify(ctx, w.p, verify.Options{Found: func(f *verify.Finding) error { t.Error(f); return nil }}); err != nil {
		t.Error(err)
	}
}

// TestRebaseConflicts rebases a branch with conflicts, once for each side that can be kept and
// once for neither side.
func TestRebaseConflicts(t *testing.T) {
	for _, parked := range []bool{false, true} {
		t.Run(fmt.Sprintf("parked %v", parked), func(t *testing.T) {
			eachBranchStore(t, func(t *testing.T, store func() table.Store) { rebaseConflicts(t, store, parked) })
		})
	}
}

func rebaseConflicts(t *testing.T, store func() table.Store, parked bool) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		keep    history.Side
		want    string
		dropped int
	}{
		"neither": {history.Neither, "", 0},
		"ours":    {history.Ours, "uid=ann,ou=old,o=x Branch one base\nuid=cid,ou=old,o=x Branch\nuid=dan,ou=old,o=x Branch", 0},
		"theirs":  {history.Theirs, "uid=ann,ou=old,o=x Trunk one base\nuid=bob,ou=old,o=x Trunk one\nuid=dan,ou=old,o=x Branch", 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRebased(t, store())
			w.stage(`dn: uid=ann,ou=old,o=x
changetype: modify
replace: sn
sn: Branch

dn: uid=bob,ou=old,o=x
changetype: delete

dn: uid=cid,ou=old,o=x
changetype: modify
replace: sn
sn: Branch

dn: uid=dan,ou=old,o=x
changetype: add
objectClass: inetOrgPerson
cn: Dan
sn: Branch
`)
			before := w.people(w.branch().Snapshot(ctx))
			w.trunk(`dn: uid=ann,ou=old,o=x
changetype: modify
replace: sn
sn: Trunk

dn: uid=bob,ou=old,o=x
changetype: modify
replace: sn
sn: Trunk

dn: uid=cid,ou=old,o=x
changetype: delete
`)
			if parked {
				w.park()
			}
			done, err := w.rebase(c.keep)
			var conflict *branch.ConflictError
			switch {
			case c.keep == history.Neither:
				if !errors.As(err, &conflict) || len(conflict.Conflicts) != 3 || len(branch.All(w.p)) != 1 {
					t.Errorf("%v", err)
				}
				w.want("the branch, as it was", w.people(w.branch().Snapshot(ctx)), before)
				return
			case err != nil:
				t.Fatal(err)
			case len(done.Dropped) != c.dropped:
				t.Errorf("dropped: %q", done.Dropped)
			}
			w.want("the branch", w.people(w.branch().Snapshot(ctx)), c.want)
			if all, err := w.branch().Conflicts(ctx); err != nil || len(all) > 0 {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}

// TestRebaseGoesOn checks that the next rebase completes an interrupted rebase.
func TestRebaseGoesOn(t *testing.T) { eachBranchStore(t, rebaseGoesOn) }

func rebaseGoesOn(t *testing.T, store func() table.Store) {
	ctx := context.Background()
	w := newRebased(t, store())
	w.stage("dn: uid=ann,ou=old,o=x\nchangetype: modify\nreplace: sn\nsn: Branch\n")
	if _, err := branch.Create(ctx, w.p, branch.Options{Name: history.Unfinished("b")}); err != nil {
		t.Fatal(err)
	}
	if done, err := w.rebase(history.Neither); err != nil || done.Changes != 1 {
		t.Fatal(done, err)
	}
	if err := w.branch().Rename(ctx, history.Unfinished("b")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.rebase(history.Neither); err != nil {
		t.Fatal(err)
	}
	if got := w.people(w.branch().Snapshot(ctx)); !strings.Contains(got, "Branch") || len(branch.All(w.p)) != 1 {
		t.Errorf("after the end: %s", got)
	}
	if _, err := history.Rebase(ctx, w.p, "nowhere", history.RebaseOptions{}); !partition.Is(err, partition.NoSuchEntry) {
		t.Error(err)
	}
}
