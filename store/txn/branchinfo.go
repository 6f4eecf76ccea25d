package txn

import (
	"context"
	"fmt"
	"iter"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A BranchInfo describes a branch as it is in one state of the store.
type BranchInfo struct {
	Base    table.Revision // the newest revision of the trunk that the branch shows
	First   table.Revision // the revision at which the branch was made; all its commits are newer
	Head    table.Revision // the branch's newest commit, even if it is void; First if there is none
	Merging bool           // the branch is frozen, or its merge is not decided
	Parked  bool           // the branch is parked, so it cannot be merged (see Park)
}

// Info describes the branch.
func (b *Branch) Info() (BranchInfo, error) {
	c, err := b.shown()
	if err != nil {
		return BranchInfo{}, err
	}
	return BranchInfo{c.Base, c.First, c.Head, c.State == revision.Frozen || c.State == revision.Merging, c.State == revision.Parked}, nil
}

// shown returns the branch's cell in the newest state that this server shows.
func (b *Branch) shown() (revision.Cell, error) {
	v := b.db.current.Load().heads
	if v == nil || v.Cell(b.slot).Incarnation != b.incarnation || !isShownInProgress(v, b.slot) {
		return revision.Cell{}, fmt.Errorf("%w: %s", ErrBranch, b.name)
	}
	return v.Cell(b.slot), nil
}

// isShownInProgress reports whether the branch of a slot is neither merged nor discarded
// in the state v of the heads. The state of a cell may still be Merging when the merge is
// already visible.
func isShownInProgress(v *revision.Vector, slot revision.Slot) bool {
	c := v.Cell(slot)
	return inProgress(c) && (c.State != revision.Merging || !v.Visible(c.Merge))
}

// Commits streams the records of the branch's own commits, the oldest first.
func (b *Branch) Commits(ctx context.Context) iter.Seq2[*journal.Record, error] {
	return func(yield func(*journal.Record, error) bool) {
		c, err := b.shown()
		if err != nil {
			yield(nil, err)
			return
		}
		own := c.Archive()
		for rec, err := range b.db.log.Scan(ctx, b.slot, own.First, own.Head) {
			if err != nil {
				yield(nil, err)
				return
			}
			if own.Shows(rec.Revision) && !yield(&rec, nil) {
				return
			}
		}
	}
}

// MayHaveChanged returns the ids, out of the given ids, that the records of the branch's
// commits may list. The result contains every given id that a record lists. It may also
// contain ids that no record lists.
func (b *Branch) MayHaveChanged(ctx context.Context, ids iter.Seq[entry.ID]) ([]entry.ID, error) {
	return b.db.branches.mayHaveChanged(ctx, b, ids)
}

// Rows streams the keys of the rows of a table that the branch's commits wrote or marked.
func (b *Branch) Rows(ctx context.Context, name string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		c, err := b.shown()
		if err != nil {
			yield(nil, err)
			return
		}
		for rec, err := range b.db.log.Lists(ctx, b.slot, c.First, c.Head) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, t := range rec.Rows {
				for _, key := range t.Keys {
					if t.Table == name && !yield(key, nil) {
						return
					}
				}
			}
		}
	}
}

// At is like Snapshot, but returns the state that the branch had when r was its newest
// commit.
func (b *Branch) At(ctx context.Context, r table.Revision) (*Snapshot, error) {
	now := b.db.Snapshot()
	defer now.Close()
	if err := now.unreadable(); err != nil {
		return nil, err
	}
	s, err := b.snapshot(ctx, now.heads)
	if err != nil {
		return nil, err
	}
	v := s.view.(*branchView)
	if r < v.base || r > max(v.base, v.own.Head) {
		s.Close()
		return nil, fmt.Errorf("%w: %s is not a state of the branch %s", ErrRevision, r, b.name)
	}
	v.own.Head = min(v.own.Head, r)
	s.max = max(v.base, v.own.Head)
	return s, nil
}

// Trunk returns the newest revision of the trunk that s shows. If s is a state of a branch,
// Trunk returns the branch's base. Otherwise it returns the revision of s.
func (s *Snapshot) Trunk() table.Revision {
	if v, ok := s.view.(*branchView); ok {
		return v.base
	}
	return s.max
}

// InBranch reports whether s is a state of a branch.
func (s *Snapshot) InBranch() bool { return s.branch != nil }

// Record returns the journal's record of a commit, without the list of its rows. If the
// journal has no such record, Record returns a record whose state is journal.None.
func (db *DB) Record(ctx context.Context, r table.Revision) (journal.Record, error) {
	for rec, err := range db.log.Scan(ctx, revision.SlotOf(r), r-1, r) {
		return rec, err
	}
	return journal.Record{}, nil
}
