package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A branchCell is the cell of a branch in one reading of the heads. Its methods change the cell
// for the server whose writer it holds.
type branchCell struct {
	w     *writer
	slot  revision.Slot
	heads *journal.Heads
	cell  revision.Cell
	raw   []byte
}

// branchCell returns the cell of a slot in a reading of the heads.
func (w *writer) branchCell(heads *journal.Heads, s revision.Slot) *branchCell {
	return &branchCell{w, s, heads, heads.Cell(s), heads.Raw(s)}
}

// readBranch reads the heads, and returns the branch's cell in them.
func (w *writer) readBranch(ctx context.Context, b *Branch) (*branchCell, error) {
	heads, err := w.readHeads(ctx)
	if err != nil {
		return nil, err
	}
	c := w.branchCell(heads, b.slot)
	if c.cell.Incarnation != b.incarnation || !inProgress(c.cell) {
		return nil, fmt.Errorf("%w: %s", ErrBranch, b.name)
	}
	return c, nil
}

// isBusy reports whether a commit in the branch, or the merge of the branch, is under way.
func (c *branchCell) isBusy() bool {
	return c.cell.State == revision.Frozen || c.cell.State == revision.Merging || len(c.cell.Undecided) > 0
}

// inProgress reports whether c is the cell of a branch that was opened and is neither merged
// nor discarded. A branch that is being made is not in progress yet.
func inProgress(c revision.Cell) bool {
	return c.Kind == revision.Branch &&
		(c.State == revision.Open || c.State == revision.Frozen || c.State == revision.Merging || c.State == revision.Parked)
}

// isShownInProgress reports whether the branch of a slot is neither merged nor discarded
// in the state v of the heads. The state of a cell may still be Merging when the merge is
// already visible.
func isShownInProgress(v *revision.Vector, slot revision.Slot) bool {
	c := v.Cell(slot)
	return inProgress(c) && (c.State != revision.Merging || !v.Visible(c.Merge))
}

// freeBranch returns a free slot for a new branch. It returns an error if the name is taken, or
// if there are too many branches or cells of branches.
func freeBranch(heads *revision.Vector, name string) (free revision.Slot, err error) {
	cells, branches := 0, 0
	for _, s := range heads.Slots() {
		c := heads.Cell(s)
		switch {
		case !s.IsBranch():
			continue
		case c.State == revision.Free:
			free = s
		case isNamed(c, name):
			return 0, fmt.Errorf("%w: %s", ErrBranchExists, name)
		case c.State != revision.Merged && c.State != revision.Closed:
			branches++
		}
		cells++
	}
	switch {
	case branches >= MaxBranches:
		return 0, fmt.Errorf("%w: %d, the most that there may be", ErrBranches, branches)
	case free != 0:
		return free, nil
	case cells >= maxBranchCells:
		return 0, fmt.Errorf("%w, which began before %d others were merged or discarded: merge or discard the oldest one first", ErrBranches, cells-branches)
	}
	return revision.FirstBranch + revision.Slot(cells), nil
}

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

// swap replaces the cell with a new cell. If another server has changed the cell since c was read,
// swap leaves the cell as it is. In both cases swap sets c to the cell that the store has now.
// done reports whether that cell is the new cell.
// Even if done is false, the swap may have taken place: another server may have changed the
// cell again. Every change has a token and a sequence number of its own, so the bytes of a
// cell never repeat, and a swap from outdated bytes fails.
func (c *branchCell) swap(ctx context.Context, next revision.Cell) (done bool, err error) {
	next.Sequence++                  //rule:branch-bytes
	next.Token = c.w.e.db.o.random() //rule:branch-token
	var now []byte
	err = c.w.step(ctx, func(ctx context.Context) error {
		done, now, err = c.w.e.db.log.SwapHead(ctx, c.slot, c.raw, next.Append(nil))
		return err
	})
	if err != nil {
		return false, err
	}
	c.raw = now
	c.cell, err = revision.DecodeCell(now)
	return done, err
}

// nextID allocates the next revision of a branch. The revision is above every revision
// that the branch or this server has seen.
func (c *branchCell) nextID() (table.Revision, error) {
	if err := c.w.e.clock.drifted(); err != nil {
		return 0, err
	}
	clock := revision.NewClock(c.slot, c.w.e.clock.wall)
	clock.Observe(max(c.heads.Max(), c.w.clock.Last(), c.cell.Head, c.cell.Limit, c.cell.First))
	return clock.Next()
}

// close replaces the cell with a closed one, which shows none of the branch's commits.
func (c *branchCell) close(ctx context.Context) (done bool, err error) {
	next := c.cell
	next.State, next.Head, next.Limit = revision.Closed, 0, max(next.Head, next.LastUndecided())
	next.Undecided = nil
	return c.swap(ctx, next)
}

// reopen opens a branch that is frozen, merging or being made. If the swap fails, the branch
// stays in its state until another server changes the state.
func (c *branchCell) reopen(ctx context.Context) (done bool, err error) {
	next := c.cell
	next.State, next.Merge = revision.Open, 0
	return c.swap(context.WithoutCancel(ctx), next)
}

// setNames replaces the names in a branch's cell, which is open, frozen or parked. A frozen
// branch is opened again, so that the merge that froze it does not wait for its own cell.
func (c *branchCell) setNames(ctx context.Context, names string) (done bool, err error) {
	next := c.cell
	next.Owner = names
	if next.State == revision.Frozen {
		next.State = revision.Open
	}
	return c.swap(ctx, next)
}

// voidReserved voids the revision that a branch's cell reserves, and removes the cells of that
// revision from the store. The revision stays void for as long as the branch exists, because
// some of its cells may still land later.
func (c *branchCell) voidReserved(ctx context.Context, rec *journal.Record) {
	next := c.cell
	next.Void = append(slices.Clone(next.Void), next.Undecided...) //rule:branch-void
	next.Head, next.Undecided = max(next.Head, next.LastUndecided()), nil
	done, err := c.swap(ctx, next)
	if err == nil && done && rec != nil {
		err = c.w.step(ctx, func(ctx context.Context) error { return c.w.e.db.log.Erase(ctx, rec) })
	}
	if err != nil {
		c.w.e.db.o.Log.Debug("a commit in a branch is left to be made void", "branch", c.cell.Owner, "error", err)
	}
}

// renewals is how many times per lease a server changes the cell of the branch that it
// works on.
const renewals = 6

// errTaken means that another server changed a branch's cell. The work that depended on the
// old cell is never shown, so the work can be repeated.
var errTaken = errors.New("another server changed the branch's cell")

// renewing calls the function do. During the call it changes the sequence number of a branch's
// cell from time to time, so that other servers see that somebody works on the branch. The
// context of the call ends with errTaken if another server changes the cell, and with
// table.ErrUnavailable at most half a lease after the last acknowledged change. After the
// branch is merged or closed, other servers erase the cells of void commits for the last time
// (see others.isDue). By then every write of the function has reached the store. When renewing
// returns, c is the last cell that this server wrote. If another server has changed the cell,
// the next swap fails.
func (c *branchCell) renewing(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	renewed, stop, stopped := *c, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		if err := renewed.renew(ctx, stop); err != nil {
			cancel(err)
		}
	}()
	err := do(ctx)
	close(stop)
	<-stopped
	*c = renewed
	return err
}

// renew renews the cell until stop is closed.
func (c *branchCell) renew(ctx context.Context, stop <-chan struct{}) error {
	lease := c.w.e.db.o.Lease
	for last := time.Now(); ; {
		timer := time.NewTimer(lease / renewals)
		select {
		case <-stop:
		case <-timer.C:
		}
		timer.Stop()
		select {
		case <-stop:
			return nil
		default:
		}
		began, next := time.Now(), *c
		soon, cancel := context.WithDeadline(ctx, last.Add(lease/2))
		done, err := next.swap(soon, c.cell)
		cancel()
		if err != nil {
			return fmt.Errorf("%w: renewing the branch's cell: %w", table.ErrUnavailable, err)
		}
		if !done {
			return errTaken
		}
		*c, last = next, began
	}
}
