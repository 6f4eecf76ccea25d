package txn

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/store/revision"
)

// On a shared store, a branch is renamed in two swaps of its cell. The first swap adds the new
// name, which no other branch can get from then on. The second swap drops the old name. If the
// second swap is not made within a lease, other servers drop the new name again. Dropping the
// name changes the cell, so a second swap that reaches the store afterwards fails. Otherwise
// two branches could have one name, because another branch may have the new name by then.

// nameSeparator separates, in a branch's cell, the branch's name from the name that it is
// about to get.
const nameSeparator = "\x00"

// names returns the name of a branch, and the name that it is about to get, or "".
func names(c revision.Cell) (name, next string) {
	name, next, _ = strings.Cut(c.Owner, nameSeparator)
	return name, next
}

// isNamed reports whether a cell belongs to a branch that has the given name or is about
// to get it. Branches that were merged or discarded do not count; a branch that is being
// made does.
func isNamed(c revision.Cell, want string) bool {
	name, next := names(c)
	return c.Kind == revision.Branch && (name == want || next == want) && (inProgress(c) || c.State == revision.Recovering) //rule:next-name
}

// isTaken reports whether a branch in a slot other than the given one has the name or is about
// to get it.
func isTaken(heads *revision.Vector, slot revision.Slot, name string) bool {
	for _, s := range heads.Slots() {
		if s != slot && isNamed(heads.Cell(s), name) {
			return true
		}
	}
	return false
}

// Rename replaces the name of the branch.
func (b *Branch) Rename(ctx context.Context, name string) error {
	err := b.db.branches.renameBranch(ctx, b, name)
	if err == nil {
		b.name = name
	}
	return err
}

func (e *cluster) renameBranch(ctx context.Context, b *Branch, name string) error {
	for done := false; !done; {
		w, err := e.holder()
		if err != nil {
			return err
		}
		if done, err = w.renameBranch(ctx, b, name); err != nil {
			return err
		}
	}
	return e.awaitChange(ctx)
}

// renameBranch replaces the name in a branch's cell. After the first swap renameBranch reads
// the heads again. If another branch has the new name too, renameBranch restores the old name.
// If the cell was changed between the two swaps, renameBranch has done nothing and returns
// false: the new name may have been dropped, and another branch may have it.
func (w *writer) renameBranch(ctx context.Context, b *Branch, name string) (done bool, err error) {
	c, err := w.readBranch(ctx, b)
	switch {
	case err != nil:
		return false, err
	case c.cell.Owner == name:
		return true, nil
	case isTaken(c.heads.Vector, c.slot, name):
		return false, fmt.Errorf("%w: %s", ErrBranchExists, name)
	case c.cell.State == revision.Merging:
		return false, fmt.Errorf("%w: %s is being merged", ErrConflict, b.name)
	}
	old, _ := names(c.cell)
	if done, err := w.setNames(ctx, c, old+nameSeparator+name); err != nil || !done {
		return false, err
	}
	heads, err := w.readHeads(ctx)
	if err == nil && isTaken(heads.Vector, c.slot, name) { //rule:rename-again
		err = fmt.Errorf("%w: %s", ErrBranchExists, name)
	}
	if err != nil {
		w.setNames(ctx, c, old) // if this fails, other servers drop the new name after a lease
		return false, err
	}
	if done, err = w.setNames(ctx, c, name); err != nil {
		return false, fmt.Errorf("%w: renaming the branch %s: %w", ErrUnknown, old, err)
	}
	return done, nil
}

// setNames replaces the names in a branch's cell, which is open, frozen or parked. A frozen
// branch is opened again, so that the merge that froze it does not wait for its own cell.
func (w *writer) setNames(ctx context.Context, c *branchCell, names string) (done bool, err error) {
	next := c.cell
	next.Owner = names
	if next.State == revision.Frozen {
		next.State = revision.Open
	}
	return w.swapBranch(ctx, c, next)
}
