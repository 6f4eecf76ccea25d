package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

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
func (w *writer) renewing(ctx context.Context, c *branchCell, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	renewed, stop, stopped := *c, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		if err := w.renewBranch(ctx, &renewed, stop); err != nil {
			cancel(err)
		}
	}()
	err := do(ctx)
	close(stop)
	<-stopped
	*c = renewed
	return err
}

// renewBranch renews a branch's cell until stop is closed.
func (w *writer) renewBranch(ctx context.Context, c *branchCell, stop <-chan struct{}) error {
	lease := w.e.db.o.Lease
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
		done, err := w.swapBranch(soon, &next, c.cell)
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
