package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A claimer claims a slot for a cluster's engine, and tries again until it has a slot. Only
// openCluster and run use a claimer.
type claimer struct {
	e      *cluster
	retry  time.Time      // no attempt to claim before this time
	failed int            // number of consecutive failed claims
	issued table.Revision // at or above every id that former writers of e issued
}

// claim claims the first free slot. It does nothing if this server only reads, already
// has a slot, or should not try again yet. It also returns nil without a slot if this
// server's clock is too far ahead, if another server claimed the slot first, or if
// another server is loading in bulk.
func (c *claimer) claim(ctx context.Context) error {
	e := c.e
	if e.db.o.ReadOnly || e.writer.Load() != nil || time.Now().Before(c.retry) {
		return nil
	}
	if ok, err := c.may(ctx); !ok {
		return err
	}
	w, err := c.newWriter()
	if err != nil {
		return err
	}
	sent := time.Since(e.start)
	raw := w.cell.Append(nil)
	done, _, err := e.db.log.SwapHead(ctx, w.slot, e.heads.Raw(w.slot), raw)
	if err != nil {
		return err
	}
	if !done { // another server claimed the slot: try again soon, after a random pause
		c.failed++
		c.retry = time.Now().Add(jittered(e.db.o.Poll*time.Duration(min(c.failed, 8)), e.db.o.random()))
		return nil
	}
	w.raw = raw
	w.renewed.Store(int64(sent))
	// Read the first snapshot after the claim is acknowledged. The snapshot must not miss
	// a commit that was shown between the earlier reading of the heads and the claim.
	if err := e.refresh(ctx, w); err != nil { //rule:snapshot-after-claim
		return err
	}
	if loading, err := c.loading(ctx, w.slot); loading || err != nil {
		c.retry = time.Now().Add(jittered(e.db.o.Lease/4, e.db.o.random()))
		return errors.Join(err, w.release(ctx))
	}
	c.failed = 0
	w.recent.knownSince = e.ordinal
	e.writer.Store(w)
	e.db.o.Log.Info("this server writes", "slot", w.slot, "incarnation", w.cell.Incarnation)
	return nil
}

// loading reports whether another server is loading in bulk, which excludes other
// writers. A loader first announces its load as undecided and then looks for other
// writers. A claimer first announces itself and then looks for loads. So at least one of
// the two sees the other.
func (c *claimer) loading(ctx context.Context, but revision.Slot) (bool, error) {
	e := c.e
	ctx, cancel := e.deadline(ctx)
	defer cancel()
	for _, s := range e.heads.Slots() {
		cell := e.heads.Cell(s)
		if s == but || !holds(cell) {
			continue
		}
		for _, r := range cell.Undecided {
			rec, err := e.db.log.State(ctx, r)
			if err != nil {
				return false, unanswered(ctx, err)
			}
			if rec.Kind == journal.Bulk && rec.State == journal.Pending {
				return true, nil
			}
		}
	}
	return false, nil
}

// newWriter prepares the next incarnation of the first free slot. The ids of the new
// incarnation are above every head and above all ids that the slot's previous holder may
// have issued.
func (c *claimer) newWriter() (*writer, error) {
	e := c.e
	slot := revision.Slot(1)
	for e.heads.Raw(slot) != nil && e.heads.Cell(slot).State != revision.Free {
		if slot++; slot.IsBranch() {
			return nil, fmt.Errorf("%w: no free slot", table.ErrUnavailable)
		}
	}
	old := e.heads.Cell(slot)
	clock := revision.NewClock(slot, e.clock.wall)
	clock.Observe(e.heads.Max())
	clock.Observe(max(old.Head, old.Limit, c.issued)) //rule:ids-above
	first, err := clock.Next()
	if err != nil {
		return nil, err
	}
	w := &writer{
		e: e, slot: slot, incarnation: old.Incarnation + 1, clock: clock, recent: newRecent(),
		kick: make(chan struct{}, 1), lost: make(chan struct{}),
		cell: revision.Cell{
			State: revision.Open, Incarnation: old.Incarnation + 1, Token: e.db.o.random(), Sequence: old.Sequence + 1,
			First: first, Head: first, Oldest: e.db.Oldest(), Horizon: e.db.Horizon(), Owner: e.db.o.Owner,
		},
	}
	w.resolver.w = w
	w.cell.Limit = w.limit(first)
	clock.SetLimit(w.cell.Limit)
	return w, nil
}

// The method "may" reads the store's clock and reports whether this server is allowed to announce
// ids. A server must not announce ids if its clock is too far ahead.
func (c *claimer) may(ctx context.Context) (bool, error) {
	e := c.e
	limited, cancel := e.deadline(ctx)
	defer cancel()
	asked := time.Since(e.start)
	at, err := e.db.log.Time(limited, e.db.o.random())
	if err != nil {
		return false, unanswered(ctx, err)
	}
	e.clock.measure(at, asked)
	err = e.clock.drifted()
	if err != nil {
		e.db.o.Log.Warn("this server does not write", "error", err)
		c.retry = time.Now().Add(jittered(e.db.o.Lease/4, e.db.o.random()))
	}
	return err == nil, nil
}
