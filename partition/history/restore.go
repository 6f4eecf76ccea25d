package history

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// RestoreOptions select what a restore changes.
type RestoreOptions struct {
	Name dn.DN // the name that the entry had in the past state
	// If Subtree is set, Restore also restores the entries below the entry. It adds
	// entries that were deleted, moves back entries that were moved, and deletes entries
	// that were added later.
	Subtree bool
	// If DryRun is set, Restore only returns what it would change.
	DryRun bool
	By     partition.By
	// Secrets returns secret attributes of a deleted entry that the store does not have any more.
	// It may be nil.
	Secrets func(ctx context.Context, id entry.ID) ([]entry.Attribute, error)
}

// Restored is the result of a restore, or of a dry run.
type Restored struct {
	Revision table.Revision // revision of the commit; 0 if nothing was committed
	Records  []*Record
	// Kept counts the added entries that were restored with a password. Lost names the added entries
	// that were restored without a password although they may have had one. Entries that still
	// existed keep their present secrets.
	Kept int
	Lost []string
	// Unnamed says which values do not come back that named added entries, or that now name other entries, and why.
	Unnamed []string
	// Erased counts the deleted entries that cannot be restored because their names were
	// erased.
	Erased int
}

// maxRestore limits the number of entries that a restore compares, because a restore is one
// commit. Entries that exist in both states count twice.
const maxRestore = 100_000

// ErrNone means that no entry had the name in the past state.
var ErrNone = errors.New("there was no such entry")

// ErrMany means that a restore would compare too many entries.
var ErrMany = errors.New("too many entries")

// errDryRun ends a transaction that must change nothing.
var errDryRun = errors.New("dry run")

// Restore returns an entry or a tree to a past state, in one commit. Entries keep their
// entryUUID. An entry that is added again has the creator and the time of creation that
// it had in the past state.
func Restore(ctx context.Context, p *partition.Partition, then *partition.Snapshot, o RestoreOptions) (*Restored, error) {
	return bring(ctx, p, then, &o, func(b *bringing) (*Restored, error) { return b.plan(ctx) })
}

// bring makes the changes that plan returns, in one commit.
func bring(ctx context.Context, p *partition.Partition, then *partition.Snapshot, o *RestoreOptions, plan func(*bringing) (*Restored, error)) (*Restored, error) {
	var done *Restored
	r, err := write.Update(ctx, p, o.By, func(tx *partition.Tx) (err error) {
		b := &bringing{p: p, tx: tx, then: then, o: o}
		defer b.close()
		if done, err = plan(b); err != nil || len(done.Records) == 0 {
			return errors.Join(err, errNothing(done))
		}
		// Permissive: values that follow entries have changed with these.
		tx.Rules.Relaxed, tx.Rules.Together, tx.Rules.Permissive = true, true, true
		for _, rec := range done.Records {
			if err := b.apply(ctx, rec); err != nil {
				return fmt.Errorf("%s: %w", rec.Name, err)
			}
		}
		if o.DryRun { // as far as the changes themselves can be refused
			return errDryRun
		}
		return nil
	})
	if errors.Is(err, errDryRun) {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	done.Revision = r
	return done, nil
}

// errNothing returns an error if there is nothing to do, so that no empty commit is
// made.
func errNothing(done *Restored) error {
	if done != nil && len(done.Records) == 0 {
		return errDryRun
	}
	return nil
}

// A bringing is a restore in progress.
type bringing struct {
	p    *partition.Partition
	tx   *partition.Tx
	then *partition.Snapshot
	o    *RestoreOptions

	mine    map[entry.ID]bool                      // the entries to restore
	coming  map[entry.ID]*returning                // the entries that are added again
	befores map[table.Revision]*partition.Snapshot // the states before these revisions
}

// plan returns the changes that the restore has to make.
func (b *bringing) plan(ctx context.Context) (*Restored, error) {
	at, err := b.then.Find(ctx, b.o.Name)
	if isMissing(err) {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err != nil {
		return nil, err
	}
	d := &Difference{From: &b.tx.Snapshot, To: b.then, IDs: []entry.ID{at.ID}, Follow: true}
	if b.o.Subtree {
		if d.IDs, err = b.trees(ctx, at.ID); err != nil {
			return nil, err
		}
	}
	if d.Below, err = b.parent(ctx, at); err != nil {
		return nil, err
	}
	return b.differ(ctx, d)
}

// differ returns the changes of a difference, and what comes back with added entries.
func (b *bringing) differ(ctx context.Context, d *Difference) (done *Restored, err error) {
	done = &Restored{}
	if d.IDs, done.Erased, err = b.withoutErased(ctx, d.IDs); err != nil {
		return nil, err
	}
	for r, err := range d.Records(ctx) {
		if err != nil {
			return nil, err
		}
		done.Records = append(done.Records, r)
	}
	done.Unnamed = d.Strangers
	b.mine = map[entry.ID]bool{}
	for _, id := range d.IDs {
		b.mine[id] = true
	}
	return done, b.returnings(ctx, done)
}

// withoutErased returns ids without the entries that were deleted and whose names were
// erased. It also returns the number of the entries that it leaves out.
func (b *bringing) withoutErased(ctx context.Context, ids []entry.ID) (rest []entry.ID, erased int, err error) {
	for _, id := range ids {
		was, err := changestream.Node(ctx, b.then, id)
		if err != nil {
			return nil, 0, err
		}
		now, err := changestream.Node(ctx, &b.tx.Snapshot, id)
		if err != nil {
			return nil, 0, err
		}
		if was != nil && now == nil && changestream.Nameless(b.then, id, was) {
			erased++
			continue
		}
		rest = append(rest, id)
	}
	return rest, erased, nil
}

func isMissing(err error) bool { return partition.Is(err, partition.NoSuchEntry) }

// trees returns the given entry and three sets of entries: the entries that were below the
// given entry in the past state, the entries that are below it now, and the tree of the entry
// that now has the given entry's former name.
func (b *bringing) trees(ctx context.Context, id entry.ID) ([]entry.ID, error) {
	ids, err := b.below(ctx, nil, b.then, id)
	if err != nil {
		return nil, err
	}
	now := &b.tx.Snapshot
	if ids, err = b.below(ctx, ids, now, id); err != nil {
		return nil, err
	}
	at, err := now.Find(ctx, b.o.Name)
	if isMissing(err) || err == nil && at.ID == id {
		return ids, nil
	}
	if err != nil {
		return nil, err
	}
	return b.below(ctx, ids, now, at.ID)
}

func (b *bringing) below(ctx context.Context, ids []entry.ID, s *partition.Snapshot, base entry.ID) ([]entry.ID, error) {
	q := partition.Query{Base: base, Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}
	for r, err := range search.Search(ctx, s, q) {
		if err != nil {
			return nil, err
		}
		if ids = append(ids, r.ID); len(ids) > maxRestore {
			return nil, fmt.Errorf("%w: more than %d: restore smaller trees", ErrMany, maxRestore)
		}
	}
	return ids, nil
}

// parent returns the value of Difference.Below. If the entry's former parent no longer
// exists, the entry is placed below the entry that now has the former parent's name.
func (b *bringing) parent(ctx context.Context, at partition.Located) (map[entry.ID]entry.ID, error) {
	if at.Parent == entry.Root {
		return nil, nil
	}
	node, err := changestream.Node(ctx, &b.tx.Snapshot, at.Parent)
	if err != nil || node != nil {
		return nil, err
	}
	above, err := b.tx.Find(ctx, b.o.Name.Parent())
	if isMissing(err) {
		return nil, fmt.Errorf("%w: %s does not exist: restore that one first", ErrParent, b.o.Name.Parent())
	}
	return map[entry.ID]entry.ID{at.ID: above.ID}, err
}

// apply applies one change.
func (b *bringing) apply(ctx context.Context, rec *Record) error {
	name, err := b.nameNow(ctx, rec)
	if err != nil {
		return err
	}
	switch r := rec.Request.(type) {
	case *op.Add:
		return b.add(ctx, rec.ID, name, r)
	case *op.Delete:
		return b.tx.Delete(ctx, name)
	case *op.Modify:
		return onlineschema.Modify(ctx, b.tx, name, r.Changes)
	case *op.ModifyDN:
		return rename(ctx, b.tx, name, r)
	}
	return nil
}

// nameNow returns the name of a record's entry. An entry that is not restored itself may be below one
// that was moved.
func (b *bringing) nameNow(ctx context.Context, rec *Record) (dn.DN, error) {
	if b.mine[rec.ID] {
		return dn.Parse(rec.Name)
	}
	name, err := b.tx.Name(ctx, rec.ID)
	if err != nil {
		return nil, err
	}
	return name.DN()
}

// rename applies a rename.
func rename(ctx context.Context, tx *partition.Tx, name dn.DN, r *op.ModifyDN) error {
	rdn, err := dn.ParseRDN(r.NewRDN)
	if err != nil || r.NewSuperior == nil {
		return errors.Join(err, tx.Rename(ctx, name, rdn, r.DeleteOldRDN, nil))
	}
	superior, err := dn.Parse(*r.NewSuperior)
	if err != nil {
		return err
	}
	return tx.Rename(ctx, name, rdn, r.DeleteOldRDN, &superior)
}

// add restores an entry with the attributes that otherwise only the server writes, and
// with its secret attributes if they are still known.
func (b *bringing) add(ctx context.Context, id entry.ID, name dn.DN, planned *op.Add) error {
	e, err := b.then.Entry(ctx, id, false)
	if err != nil {
		return err
	}
	r := b.coming[id]
	as := restorable(e)
	for i := range e.Attributes { // what follows entries is as planned
		a := &e.Attributes[i]
		is := func(o op.PartialAttribute) bool { return o.Description == a.Description() }
		at := slices.IndexFunc(as, is)
		if at < 0 || !follows(&b.tx.Snapshot, a.Type) {
			continue
		}
		if p := slices.IndexFunc(planned.Attributes, is); p >= 0 {
			as[at] = planned.Attributes[p]
		} else {
			as = slices.Delete(as, at, at+1)
		}
	}
	more, err := r.accounts(ctx, e)
	for _, a := range append(more, r.secrets...) {
		as = append(as, op.PartialAttribute{Description: a.Description(), Values: a.Values})
	}
	if err == nil {
		_, err = b.tx.Add(ctx, name, as, false)
	}
	return err
}

// restorable returns the attributes with which an entry is added again: those that users
// may change, secret attributes, the entry's id, its creator and the time of its creation.
func restorable(e *entry.Entry) (as []op.PartialAttribute) {
	for i := range e.Attributes {
		a := &e.Attributes[i]
		switch a.Type.Name() {
		case "entryUUID", "creatorsName", "createTimestamp":
		default:
			if a.Type.NoUserModification && !a.Type.Secret() {
				continue
			}
		}
		as = append(as, op.PartialAttribute{Description: a.Description(), Values: a.Values})
	}
	return as
}
