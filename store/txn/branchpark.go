package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An open branch needs the marks and the history since its base, so a branch that nobody
// ends would hold back garbage collection for ever. A parked branch does not hold it
// back: only the branch's own commits and the state at its base are kept. A parked branch
// can still be read, so its changes can be made again in a new branch.

// Park makes the branch refuse commits and merges, and lets garbage collection remove the
// history since its base. On a shared store, Park returns ErrConflict if the branch is being
// merged, or if a commit in the branch is under way.
func (b *Branch) Park(ctx context.Context) error { return b.db.branches.parkBranch(ctx, b) }

func (e *cluster) parkBranch(ctx context.Context, b *Branch) error {
	w, err := e.holder()
	if err != nil {
		return err
	}
	c, err := w.readBranch(ctx, b)
	switch {
	case err != nil:
		return err
	case c.cell.State == revision.Parked:
		return nil
	case c.cell.State != revision.Open || len(c.cell.Undecided) > 0:
		return fmt.Errorf("%w: %s is being changed or merged", ErrConflict, b.name)
	}
	next := c.cell
	next.Park()
	_, err = w.swapBranch(ctx, c, next)
	switch {
	case err != nil:
		return fmt.Errorf("%w: parking %s: %w", ErrUnknown, b.name, err)
	case c.cell.Incarnation != b.incarnation || c.cell.State != revision.Parked:
		return fmt.Errorf("%w: %s was changed meanwhile", ErrConflict, b.name)
	}
	return e.awaitChange(ctx)
}

// changeable returns ErrParked if c, the branch's cell, says that the branch is parked.
func (b *Branch) changeable(c *revision.Cell) error {
	if c.State != revision.Parked {
		return nil
	}
	return fmt.Errorf("%w: %s began at %s, and the history since then is no longer kept: rebase or discard it",
		ErrParked, b.name, c.Base.Time().UTC().Format(time.RFC3339))
}

// parkOld parks the branches that are too old. It warns of branches that will soon be too
// old.
func (db *DB) parkOld(ctx context.Context) {
	b, err := db.horizon.bounds(ctx)
	if err != nil || !b.leader || db.o.BranchAge == 0 {
		return
	}
	limit := max(db.o.BranchAge, db.o.Retention)
	for _, branch := range db.Branches() {
		i, err := branch.Info()
		if err != nil || i.Parked || i.Merging {
			continue
		}
		age := b.now.Time().Sub(i.Base.Time())
		if age < limit {
			db.warnOfOld(branch.name, i.Base, age, limit)
		} else if err = branch.Park(ctx); err == nil {
			db.o.Log.Warn("a branch was parked: it can be read, rebased or discarded, but not merged", "branch", branch.name, "base", i.Base.Time(), "age", age.Round(time.Second))
		} else if !errors.Is(err, ErrConflict) && !errors.Is(err, ErrBranch) {
			db.o.Log.Warn("parking an old branch", "branch", branch.name, "error", err)
		}
	}
}

// warnOfOld logs one warning for a branch that has at most a fourth of the limit left
// before it is parked.
func (db *DB) warnOfOld(name string, base table.Revision, age, limit time.Duration) {
	if age < limit-limit/4 || db.garbage.warned[name] == base {
		return
	}
	if db.garbage.warned == nil {
		db.garbage.warned = map[string]table.Revision{}
	}
	db.garbage.warned[name] = base
	db.o.Log.Warn("a branch will soon be parked: merge, rebase or discard it before", "branch", name,
		"base", base.Time(), "in", (limit - age).Round(time.Second))
}
