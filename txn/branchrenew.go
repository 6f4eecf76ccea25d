package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/table"
)

// renewals is how often a branch's cell is changed in the time of a lease while a server
// works on what the cell says.
const renewals = 6

// errTaken means that another server changed a branch's cell. What was done under the
// cell is never shown, so it can be done again.
var errTaken = errors.New("another server changed the branch's cell")

// renewing runs do, and changes the sequence number of a branch's cell from time to time
// meanwhile, so that other servers see that somebody works on it. The context of do ends
// with errTaken if the cell is changed by another server, and with table.ErrUnavailable half a lease after the
// last change that was acknowledged. So all that do sends has landed when other servers
// remove for the second time what is void. Afterwards c is the last cell that this server
// wrote: if another one is there, the next swap fails.
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
