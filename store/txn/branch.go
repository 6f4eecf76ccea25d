package txn

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Branch is a line of commits that nobody sees outside of the branch until a merge
// shows all of them at one revision. A Branch begins at a state of the trunk, which is
// its base. It has a slot of its own, so the slot in a revision shows whether the commit
// belongs to a branch. A commit in the branch is decided by the branch's cell in the row
// of heads. The commits of a branch form one sequence, and any server may make the next
// commit. docs/design/transactions.md, "Branches", has the rules.
type Branch struct {
	db          *DB
	slot        revision.Slot
	incarnation uint64
	name        string
}

// These are the errors of branches.
var (
	// ErrBranch: the branch does not exist, or it was merged or discarded.
	ErrBranch = errors.New("no such branch")
	// ErrBranchExists: another branch has the name.
	ErrBranchExists = errors.New("the branch exists")
	// ErrBranches: the request is not possible while there are branches, or while there are
	// so many.
	ErrBranches = errors.New("there are branches")
	// ErrParked: the branch is parked, so it takes no commits and cannot be merged.
	ErrParked = errors.New("the branch is parked")
)

// MaxBranches is the largest number of branches.
const MaxBranches = 64

// maxBranchCells is the largest number of cells of branches. It is bounded because every
// reading of the heads reads all of these cells. On a shared store, a merged branch keeps its
// cell at least while a branch that began before the merge is open. A discarded branch keeps
// its cell until the branch's data is removed.
const maxBranchCells = 512

// Name returns the name of the branch.
func (b *Branch) Name() string { return b.name }

// CreateBranch makes a branch of the newest state, which includes every commit that any
// server had made when CreateBranch was called.
func (db *DB) CreateBranch(ctx context.Context, name string) (*Branch, error) {
	return db.branches.create(ctx, name)
}

// unbranched returns an error if there are branches that are neither merged nor discarded.
func (db *DB) unbranched(what string) error {
	if all := db.Branches(); len(all) > 0 {
		return fmt.Errorf("%w: %s must wait until %s is merged or discarded", ErrBranches, what, all[0].name)
	}
	return nil
}

// Branches returns the branches that are neither merged nor discarded, as of the newest
// state that this server shows.
func (db *DB) Branches() (all []*Branch) {
	v := db.current.Load().heads
	if v == nil {
		return nil
	}
	for _, s := range v.Slots() {
		if c := v.Cell(s); isShownInProgress(v, s) {
			name, _ := names(c)
			all = append(all, &Branch{db, s, c.Incarnation, name})
		}
	}
	return all
}

// Branch returns the branch with the given name.
func (db *DB) Branch(name string) (*Branch, error) {
	for _, b := range db.Branches() {
		if b.name == name {
			return b, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrBranch, name)
}

// Snapshot returns the branch's newest state that this server knows of: what the base
// shows, and the branch's own commits.
func (b *Branch) Snapshot(ctx context.Context) (*Snapshot, error) {
	now := b.db.Snapshot()
	defer now.Close()
	if err := now.unreadable(); err != nil {
		return nil, err
	}
	return b.snapshot(ctx, now.heads)
}

func (b *Branch) snapshot(ctx context.Context, v *revision.Vector) (*Snapshot, error) {
	if v == nil || v.Cell(b.slot).Incarnation != b.incarnation || v.Cell(b.slot).State == revision.Closed || v.Cell(b.slot).State == revision.Free {
		return nil, fmt.Errorf("%w: %s", ErrBranch, b.name)
	}
	c := v.Cell(b.slot)
	own := c.Archive()
	s := &Snapshot{
		db: b.db, view: &branchView{v, b.slot, own, c.Base}, heads: v, branch: b,
		max: max(c.Base, c.Head), low: min(c.Base, v.Low()),
	}
	return b.db.admitPast(ctx, s)
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

// A branchView is the table.View of a branch: it shows what the branch's base shows and
// the branch's own commits.
type branchView struct {
	vector *revision.Vector
	slot   revision.Slot
	own    revision.Archive // the branch's own commits
	base   table.Revision
}

func (v *branchView) isOwn(r table.Revision) bool {
	return revision.SlotOf(r) == v.slot && r >= v.own.First
}

func (v *branchView) Visible(r table.Revision) bool {
	if v.isOwn(r) {
		return v.own.Shows(r)
	}
	return v.vector.VisibleAt(r, v.base)
}

func (v *branchView) ShownBy(r table.Revision) table.Revision {
	if v.isOwn(r) {
		return r
	}
	return v.vector.ShownBy(r)
}

func (v *branchView) Max() table.Revision { return max(v.base, v.own.Head) }

func (v *branchView) Low() table.Revision { return min(v.base, v.vector.Low()) }

func (v *branchView) Settled(table.Revision) table.Revision { return v.vector.Settled(v.base) }

func (v *branchView) Swept(r table.Revision) bool { return v.vector.Swept(r) }

// Frontier returns nil, because nobody follows the changes of a branch.
func (v *branchView) Frontier() revision.Frontier { return nil }

// Update runs fn on a transaction in the branch and commits what fn wrote there, as
// [DB.Update] does on the trunk. If another server commits in the branch at the same
// time, one of the two servers runs its fn again. fn must not make, change, merge or end a
// branch: on a store of one server such a call would wait until its context ends.
func (b *Branch) Update(ctx context.Context, fn func(*Tx) error) (table.Revision, error) {
	return b.db.branches.update(ctx, b, fn)
}

// Merge makes the branch visible by one commit. If the branch conflicts with commits of the
// trunk, Merge returns a ClashError.
func (b *Branch) Merge(ctx context.Context, message []byte) (table.Revision, error) {
	return b.db.branches.merge(ctx, b, message)
}

// Clashes returns the conflicts that keep the branch from being merged now. It changes
// nothing.
func (b *Branch) Clashes(ctx context.Context) ([]Clash, error) {
	return b.db.branches.clashes(ctx, b)
}

// Discard closes the branch. Nobody sees its commits from then on, and later their cells
// are removed.
func (b *Branch) Discard(ctx context.Context) error { return b.db.branches.discard(ctx, b) }

// An open branch needs the marks and the history since its base, so a branch that nobody
// ends would hold back garbage collection for ever. A parked branch does not hold it
// back: only the branch's own commits and the state at its base are kept. A parked branch
// can still be read, so its changes can be made again in a new branch.

// Park makes the branch refuse commits and merges, and lets garbage collection remove the
// history since its base. On a shared store, Park returns ErrConflict if the branch is being
// merged, or if a commit in the branch is under way.
func (b *Branch) Park(ctx context.Context) error { return b.db.branches.park(ctx, b) }

// changeable returns ErrParked if c, the branch's cell, says that the branch is parked.
func (b *Branch) changeable(c *revision.Cell) error {
	if c.State != revision.Parked {
		return nil
	}
	return fmt.Errorf("%w: %s began at %s, and the history since then is no longer kept: rebase or discard it",
		ErrParked, b.name, c.Base.Time().UTC().Format(time.RFC3339))
}

// Rename replaces the name of the branch.
func (b *Branch) Rename(ctx context.Context, name string) error {
	err := b.db.branches.rename(ctx, b, name)
	if err == nil {
		b.name = name
	}
	return err
}

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
