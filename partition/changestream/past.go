package changestream

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/erase"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// SubschemaID is the id of the subschema's entry. A commit that changes the schema
// touches this id.
var SubschemaID = catalog.SubschemaID

// Settled returns the newest state to which no server can add a commit any more. The
// state is the same on every server. A reader that needs all changes in the order of
// their revisions reads up to this state.
func Settled(ctx context.Context, p *catalog.Partition) (*state.Snapshot, error) {
	s, err := p.DB.Decided(ctx)
	if err != nil {
		return nil, err
	}
	return state.Of(ctx, p, s)
}

// ShownAfter streams the commits that the snapshot shows and that are newer than a revision, in the
// order of their revisions. In each slot of a shared store the stream ends before the first undecided
// commit, although the snapshot may show later ones: see AllAfter.
func ShownAfter(ctx context.Context, s *state.Snapshot, r table.Revision) iter.Seq2[*Change, error] {
	return toChanges(s.At.CommitsAfter(ctx, r))
}

// AllAfter streams all commits that the snapshot shows and that are newer than a revision, one slot
// after another. If the journal may no longer contain all of them, the stream ends with a
// txn.HorizonError.
func AllAfter(ctx context.Context, s *state.Snapshot, r table.Revision) iter.Seq2[*Change, error] {
	return toChanges(s.At.Since(ctx, r))
}

func toChanges(records iter.Seq2[*journal.Record, error]) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for rec, err := range records {
			if err != nil {
				yield(nil, err)
				return
			}
			if rec.Weight() == 0 {
				continue // the commit changed only hot attributes, which are not reported
			}
			if !yield(CommitOf(rec), nil) {
				return
			}
		}
	}
}

// CommitOf returns the commit of a record of the journal.
func CommitOf(rec *journal.Record) *Change {
	return &Change{Revision: rec.Revision, All: rec.AllChanged, Renames: slices.Contains(rec.IDs, cache.Moves), IDs: rec.IDs, Message: rec.Message}
}

// Numbered streams the commits that the snapshot shows and that have changes with numbers
// greater than n, in the order of their revisions. It begins at the horizon if that is later.
func Numbered(ctx context.Context, s *state.Snapshot, n uint64) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		at, kept, err := numberedAfter(ctx, s, n)
		if err != nil {
			yield(nil, err)
			return
		}
		defer kept.Close()
		for rec, err := range s.At.CommitsAfter(ctx, at.Revision) {
			if err != nil {
				yield(nil, err)
				return
			}
			c := CommitOf(rec)
			c.First, c.Last = at.Number+1, at.Number+rec.Weight()
			at.Number = c.Last
			if c.First <= c.Last && !yield(c, nil) {
				return
			}
		}
	}
}

// numberedAfter returns the position where Numbered begins, and the state there. While that
// state is open, the journal keeps the commits after it.
func numberedAfter(ctx context.Context, s *state.Snapshot, n uint64) (at txn.Numbered, kept *txn.Snapshot, err error) {
	db := s.Partition.DB
	for {
		if at, err = db.NumberedAfter(ctx, n); err != nil {
			return at, nil, err
		}
		if horizon := db.Horizon(); at.Revision < horizon {
			at.Revision = horizon
			if at.Number, err = db.NumberAt(ctx, horizon); err != nil {
				return at, nil, err
			}
		}
		kept, err = db.At(ctx, min(at.Revision, s.Revision()))
		if passed := new(txn.HorizonError); !errors.As(err, &passed) || at.Revision >= db.Horizon() {
			return at, kept, err
		}
	}
}

// NumberAt returns the number of the last change of the commits up to r. r must not be above
// the revision of the state that Settled returns.
func NumberAt(ctx context.Context, p *catalog.Partition, r table.Revision) (uint64, error) {
	return p.DB.NumberAt(ctx, r)
}

// Node returns an entry's node in the tree, or nil if there is no such entry.
func Node(ctx context.Context, s *state.Snapshot, id entry.ID) (*master.Node, error) {
	return s.Node(ctx, id)
}

// Nameless reports whether an entry's name was erased. The node of such an entry has the
// entry's entryUUID in place of the name.
func Nameless(s *state.Snapshot, id entry.ID, node *master.Node) bool {
	return node.NormRDN == erase.Unnamed(s.Catalog.Types, id).NormRDN
}

// Child finds an entry by its parent and its normalised RDN (master.Node).
func Child(ctx context.Context, s *state.Snapshot, parent entry.ID, rdn dn.Norm) (id entry.ID, ok bool, err error) {
	return s.Resolve(ctx, parent, rdn)
}

// Known reports whether the journal still contains all commits that the snapshot shows
// and that are newer than a revision.
func Known(s *state.Snapshot, r table.Revision) bool { return r >= s.Partition.DB.Horizon() }
