package history

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// A Side says whose changes a rebase keeps if entries are in conflict.
type Side int

// The sides.
const (
	Neither Side = iota // a conflict ends the rebase
	Ours                // the changes of the branch
	Theirs              // the changes outside of the branch
)

// RebaseOptions are the options of Rebase.
type RebaseOptions struct {
	Keep Side
	By   partition.By
}

// Rebased is the result of a rebase.
type Rebased struct {
	Changes int      // number of changes that the branch now has
	Dropped []string // changes of the branch that were left out, each with the reason
}

// rebaseCommit is the number of changes that a rebase makes in one commit.
const rebaseCommit = 1000

// Unfinished returns the name of the new branch that a rebase fills. The parameter name is the
// name of the old branch. When the rebase ends, the new branch takes that name.
func Unfinished(name string) string { return name + "~" }

// Rebase makes the changes of a branch again, in a new branch whose base is the newest state.
// The new branch then takes the name of the old branch, which is discarded. If an entry was
// changed both in the branch and outside of it, without a conflict, the entry has the changes
// of both sides. If there is an error before the old branch is discarded, the old branch stays
// as it is.
//
// If a rebase was interrupted, the next rebase with the same name starts from the
// beginning. If the old branch was already discarded, the next rebase only renames the
// new branch to that name.
func Rebase(ctx context.Context, p *partition.Partition, name string, o RebaseOptions) (*Rebased, error) {
	// Without CatchUp, the server might still show an old branch that another server has
	// discarded. The rebase would then discard the new branch as a leftover, although
	// the new branch is all that remains.
	if err := p.CatchUp(ctx); err != nil {
		return nil, err
	}
	old, err := branch.Find(p, name)
	if partition.Is(err, partition.NoSuchEntry) {
		if left, e := branch.Find(p, Unfinished(name)); e == nil {
			return &Rebased{}, left.Rename(ctx, name)
		}
	}
	if err != nil {
		return nil, err
	}
	if left, err := branch.Find(p, Unfinished(name)); err == nil {
		if err := discardUnfinished(ctx, old, left); err != nil {
			return nil, err
		}
	}
	s, err := openSides(ctx, old)
	if err != nil {
		return nil, err
	}
	defer s.close()
	r := &rebase{sides: s, o: &o, inConflict: map[entry.ID]bool{}, done: &Rebased{}}
	if err := r.checkConflicts(ctx, old); err != nil {
		return nil, err
	}
	next, err := branch.Create(ctx, p, branch.Options{Name: Unfinished(name), Description: s.info.Description, By: s.info.By})
	if err != nil {
		return nil, err
	}
	if err := r.fill(ctx, next); err != nil {
		return nil, errors.Join(err, next.Discard(context.WithoutCancel(ctx)))
	}
	switch err := old.Discard(ctx); {
	case errors.Is(err, txn.ErrUnknown):
		return nil, err // the new branch may be all that is left
	case err != nil:
		return nil, errors.Join(err, next.Discard(context.WithoutCancel(ctx)))
	}
	return r.done, next.Rename(ctx, name)
}

// discardUnfinished discards the branch left, which an interrupted rebase has made. Normally
// left was made by a rebase of the branch old. But if left is older than old, it was made by a
// rebase of an earlier branch with the same name. Then left is all that remains of the earlier
// branch, and discardUnfinished returns an error instead.
func discardUnfinished(ctx context.Context, old, left *branch.Branch) error {
	is, err := old.Info(ctx)
	if err != nil {
		return err
	}
	was, err := left.Info(ctx)
	if err != nil {
		return err
	}
	if was.Made.Before(is.Made) {
		return &partition.Error{Problem: partition.EntryExists, Text: fmt.Sprintf(
			"%s is what an interrupted rebase left of an earlier branch %s: merge or discard it first", left.Name(), old.Name())}
	}
	return left.Discard(ctx)
}

// A rebase is the state of a running Rebase.
type rebase struct {
	*sides
	o          *RebaseOptions
	inConflict map[entry.ID]bool
	done       *Rebased
}

// checkConflicts finds the entries in conflict. If there are such entries, and
// RebaseOptions.Keep is Neither, it returns a ConflictError. It ignores conflicts that are
// not about one entry, such as changed settings, because the rebase makes all changes
// again under the new settings.
func (r *rebase) checkConflicts(ctx context.Context, b *branch.Branch) error {
	all, err := b.Conflicts(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(c branch.Conflict) bool { return c.ID == entry.Root })
	for _, c := range all {
		r.inConflict[c.ID] = true
		if r.o.Keep == Theirs {
			r.done.Dropped = append(r.done.Dropped, c.Place())
		}
	}
	if r.o.Keep == Neither && len(all) > 0 {
		return &branch.ConflictError{Branch: b.Name(), Conflicts: all}
	}
	return nil
}

// fill makes the changes of the branch again in the new branch.
func (r *rebase) fill(ctx context.Context, next *branch.Branch) error {
	d := &Difference{From: r.base, To: r.own, IDs: r.ids, Touched: true}
	var some []*Record
	for rec, err := range d.Records(ctx) {
		if err != nil {
			return err
		}
		if some = append(some, rec); len(some) == rebaseCommit {
			if err := r.commit(ctx, next, some); err != nil {
				return err
			}
			some = some[:0]
		}
	}
	return r.commit(ctx, next, some)
}

// commit makes some changes in one commit. If RebaseOptions.Keep is Theirs, commit leaves out
// the changes of entries in conflict, and changes that are refused. An attempt in which a
// change is refused commits nothing, because that change may already have written something.
// The next attempt leaves the change out.
func (r *rebase) commit(ctx context.Context, next *branch.Branch, some []*Record) error {
	left := map[*Record]bool{}
	for {
		var failed *Record
		n := 0
		_, err := next.Update(ctx, r.o.By, func(tx *partition.Tx) (err error) {
			n = 0
			for _, failed = range some {
				if left[failed] || r.inConflict[failed.ID] && r.o.Keep == Theirs {
					continue
				}
				if err = r.change(ctx, tx, failed); err != nil {
					return fmt.Errorf("%s: %w", failed.Name, taken(err))
				}
				n++
			}
			if n == 0 {
				return errDryRun // there is nothing to commit
			}
			return nil
		})
		var refused *partition.Error
		if errors.As(err, &refused) && r.o.Keep == Theirs && !errors.Is(err, errDryRun) {
			left[failed] = true
			r.done.Dropped = append(r.done.Dropped, failed.Name+": "+refused.Text)
			continue
		}
		if err != nil && !errors.Is(err, errDryRun) {
			return err
		}
		r.done.Changes += n
		return nil
	}
}

// taken explains the error of a change that fails because another entry has the name. It
// returns all other errors unchanged.
func taken(err error) error {
	if !partition.Is(err, partition.EntryExists) {
		return err
	}
	return &partition.Error{Problem: partition.EntryExists, Text: "outside of the branch another entry has this name: " +
		"rename or delete one of the two, in the branch or outside of it, or rebase so that what others did is kept"}
}

// change makes one change.
func (r *rebase) change(ctx context.Context, tx *partition.Tx, rec *Record) error {
	tx.Rules = partition.Rules{Relaxed: true, Permissive: true, Accounts: true}
	if add, ok := rec.Request.(*op.Add); ok {
		return r.add(ctx, tx, rec, add.Name)
	}
	name, err := nameIn(ctx, tx, rec.ID)
	if err != nil {
		return err
	}
	if name == nil {
		return r.missing(ctx, tx, rec)
	}
	switch c := rec.Request.(type) {
	case *op.Delete:
		return tx.Delete(ctx, name)
	case *op.Modify:
		return r.modify(ctx, tx, rec.ID, name, c.Changes)
	case *op.ModifyDN:
		return r.rename(ctx, tx, rec, name, c)
	}
	return nil
}

func (r *rebase) rename(ctx context.Context, tx *partition.Tx, rec *Record, name dn.DN, c *op.ModifyDN) error {
	rdn, err := dn.ParseRDN(c.NewRDN)
	if err != nil {
		return err
	}
	var superior *dn.DN
	if c.NewSuperior != nil {
		above, err := nameIn(ctx, tx, rec.Parent)
		if err != nil {
			return err
		}
		if above == nil && rec.Parent != entry.Root {
			return errGone
		}
		superior = &above
	}
	return tx.Rename(ctx, name, rdn, c.DeleteOldRDN, superior)
}

// errGone is the error of a change below an entry that was deleted outside of the branch.
var errGone = &partition.Error{Problem: partition.NoSuchEntry, Text: "the entry above it was deleted outside of the branch"}

// missing handles a change of an entry that was deleted outside of the branch. A delete needs
// no work. For any other change, missing returns an error unless RebaseOptions.Keep is Ours.
// If it is Ours, missing adds the entry as the branch has it.
func (r *rebase) missing(ctx context.Context, tx *partition.Tx, rec *Record) error {
	if _, ok := rec.Request.(*op.Delete); ok {
		return nil
	}
	if r.o.Keep != Ours {
		return &partition.Error{Problem: partition.NoSuchEntry, Text: "it was deleted outside of the branch"}
	}
	node, err := changestream.Node(ctx, r.own, rec.ID)
	if err != nil || node == nil {
		return err
	}
	x := *rec
	x.Parent = node.Parent
	return r.add(ctx, tx, &x, node.UpRDN)
}

// nameIn returns the name of an entry in a transaction, or nil if there is no such entry.
func nameIn(ctx context.Context, tx *partition.Tx, id entry.ID) (dn.DN, error) {
	node, err := changestream.Node(ctx, &tx.Snapshot, id)
	if err != nil || node == nil {
		return nil, err
	}
	name, err := tx.Name(ctx, id)
	if err != nil {
		return nil, err
	}
	return name.DN()
}

// add adds an entry with everything that it has in the branch. The entry's RDN is the
// first RDN of text, which is a name. The rest of the entry's name is its parent's name.
func (r *rebase) add(ctx context.Context, tx *partition.Tx, rec *Record, text string) error {
	name, err := dn.Parse(text)
	if err != nil {
		return err
	}
	if rec.Parent != entry.Root {
		above, err := nameIn(ctx, tx, rec.Parent)
		if err != nil {
			return err
		}
		if above == nil {
			return errGone
		}
		name = append(dn.DN{name[0]}, above...)
	}
	e, err := r.own.Entry(ctx, rec.ID, true)
	if err != nil {
		return err
	}
	_, err = tx.Add(ctx, name, restorable(e), false)
	return err
}

// modify changes an entry, and sets the secret attributes that the branch changed.
func (r *rebase) modify(ctx context.Context, tx *partition.Tx, id entry.ID, name dn.DN, changes []op.Modification) error {
	names, err := r.secrets(ctx, id)
	if err != nil {
		return err
	}
	secrets, err := r.own.Secrets(ctx, id)
	if err != nil {
		return err
	}
	changes = slices.Clone(changes)
	for _, n := range names {
		c := op.Modification{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: n}}
		for i := range secrets {
			if secrets[i].Type.Name() == n && secrets[i].Options == "" {
				c.Values = secrets[i].Values
			}
		}
		changes = append(changes, c)
	}
	if len(changes) == 0 {
		return nil
	}
	return onlineschema.Modify(ctx, tx, name, changes)
}
