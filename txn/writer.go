package txn

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/internal/pause"
	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// grace is how long a commit holds up the head; then it becomes an exception
// below it, so that a long one delays nobody.
const grace = 50 * time.Millisecond

// A writer is one incarnation of a slot: the commits of this server between a
// claim and the loss or release of its lease.
//
// Commits run in the goroutines of their callers up to the decision. Publishing
// is run's: one change of the heads cell at a time, which shows all commits
// decided before it was put together.
type writer struct {
	e           *cluster
	slot        revision.Slot
	incarnation uint64
	clock       *revision.Clock
	kick        chan struct{} // something was decided
	lost        chan struct{} // closed when the slot is lost

	renewed atomic.Int64 // when the last acknowledged change of the cell was sent, since e.start
	fenced  atomic.Bool

	// cell is what the store acknowledged, raw its bytes. Owned by run.
	cell revision.Cell
	raw  []byte

	// mu is held to allocate an id and to choose the head: no id is issued at
	// or below a head that is on its way.
	mu      sync.Mutex
	pending []*pendingCommit // by id: undecided, or decided and not shown yet
	aborted []abortedCommit  // by id
	recent  *recent

	resolver resolver
}

// An pendingCommit is a commit under way.
type pendingCommit struct {
	rec     *journal.Record
	marks   []placed
	began   uint64 // ordinal of the state that it was made on
	started time.Time
	dirty   bool // cells may have been sent
	state   journal.State
	shown   chan struct{}
}

// A abortedCommit is a given up revision whose cells may still arrive.
type abortedCommit struct {
	rec   *journal.Record
	since time.Time
}

// alive reports whether this server may still send mutations: half of its lease
// is left at least, so that none of them lands much later than the lease.
func (w *writer) alive() error {
	if w.fenced.Load() {
		return fmt.Errorf("%w: another server took over", table.ErrUnavailable)
	}
	if age := time.Since(w.e.start) - time.Duration(w.renewed.Load()); age > w.e.db.o.Lease/2 {
		return fmt.Errorf("%w: the lease was not renewed for %v", table.ErrUnavailable, age.Round(time.Millisecond))
	}
	return nil
}

// limit announces ids for one lease. Longer is of no use, since a server whose
// cell was not renewed commits for half a lease only; and by the time that a
// successor may take the slot the wall clock has passed it.
func (w *writer) limit(from table.Revision) table.Revision {
	now := max(revision.At(w.e.wall()), from)
	return revision.At(now.Time().Add(w.e.db.o.Lease))
}

// run publishes, and follows what other servers publish, until the slot is lost
// or the engine closes.
func (w *writer) run() {
	every := max(w.e.db.o.Lease/8, time.Millisecond)
	renew := time.Now().Add(every)
	var again time.Time // what held up the head no longer does; zero: nothing did
	for {
		w.e.turn()
		var blocked time.Duration
		var err error
		switch w.nextTask(renew, again) {
		case nothing:
			return
		case renewing:
			renew = time.Now().Add(every)
			if blocked, err = w.publish(w.e.background, true); err == nil {
				w.e.watchDrift()
				w.e.others.startCleanUp(w)
				w.e.others.recoverSilent()
			}
		case publishing:
			again = time.Time{}
			blocked, err = w.publish(w.e.background, false)
		case following:
			err = w.follow(w.e.background)
		}
		if w.e.background.Err() != nil {
			return
		}
		if err != nil {
			w.giveUp(err)
			return
		}
		if blocked > 0 {
			again = time.Now().Add(blocked)
		}
	}
}

// A task is what run does next.
type task int

const (
	nothing task = iota // the engine closes
	renewing
	publishing
	following
)

// nextTask waits for something to do. Of several things it takes the first of a
// fixed order, never one by chance, so that a simulation can be repeated.
func (w *writer) nextTask(renew, again time.Time) task {
	due := earliest(renew, earliest(w.e.poll.next, again))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for {
		now := time.Now()
		switch {
		case w.e.background.Err() != nil:
			return nothing
		case !now.Before(renew):
			return renewing
		case received(w.kick) || !again.IsZero() && !now.Before(again):
			return publishing
		case w.e.poll.due():
			return following
		}
		select {
		case <-w.e.background.Done():
		case <-w.kick:
			return publishing
		case <-w.e.poll.bell:
		case <-timer.C:
		}
	}
}

// earliest is the first of two times; the zero Time is none.
func earliest(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

func received(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// follow shows what others published. An error means that the slot is lost; a
// reading that fails is repeated by the next poll.
func (w *writer) follow(ctx context.Context) error {
	if err := w.e.refresh(ctx, w); err != nil {
		w.e.db.o.Log.Debug("reading the heads", "error", err)
		return nil
	}
	if !bytes.Equal(w.e.heads.Raw(w.slot), w.raw) {
		return w.taken()
	}
	return nil
}

func (w *writer) taken() error {
	return fmt.Errorf("%w: another server took over slot %d", table.ErrUnavailable, w.slot)
}

// publish changes the cell and shows the new state. blocked is the time after
// which a commit that holds up the head no longer does. An error means that the
// slot is lost.
func (w *writer) publish(ctx context.Context, renew bool) (blocked time.Duration, err error) {
	next, blocked := w.choose(renew)
	if !renew && next.Head == w.cell.Head && next.Config == w.cell.Config && slices.Equal(next.Undecided, w.cell.Undecided) {
		return blocked, nil
	}
	until := w.e.start.Add(time.Duration(w.renewed.Load()) + w.e.db.o.Lease)
	// Closing waits for it: a cell whose bytes are not known cannot be closed.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	sent := time.Since(w.e.start)
	raw := next.Append(nil)
	// SwapHead sends the same bytes until it knows: any of them that lands
	// late finds the cell changed.
	done, _, err := w.e.db.log.SwapHead(ctx, w.slot, w.raw, raw)
	if err != nil {
		return 0, err
	}
	if !done {
		return 0, w.taken()
	}
	w.cell, w.raw = next, raw
	w.renewed.Store(int64(sent))
	w.clock.SetLimit(next.Limit)
	for try := 0; ; try++ {
		if err = w.e.refresh(ctx, w); err == nil {
			w.e.measure(w.e.heads.Written(w.slot), sent)
			return blocked, nil
		}
		if ctx.Err() != nil {
			return blocked, err
		}
		if err := pause.For(ctx, min(time.Millisecond<<min(try, 6), w.e.db.o.Poll)); err != nil {
			return blocked, err
		}
	}
}

// choose puts the next cell together: the head goes to the end of the decided
// prefix of ids, over those undecided for longer than grace.
func (w *writer) choose(renew bool) (next revision.Cell, blocked time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = w.cell
	next.Sequence++
	next.Void, next.Undecided = nil, nil
	for _, p := range w.pending {
		r := p.rec.Revision
		if p.state == journal.Pending {
			if age := time.Since(p.started); age < grace && r > next.Head {
				blocked = grace - age
				break
			}
			next.Undecided = append(next.Undecided, r)
		}
		next.Head = max(next.Head, r)
	}
	for _, v := range w.aborted {
		next.Void = append(next.Void, v.rec.Revision)
	}
	next.Oldest, next.Horizon, next.Config = w.e.db.Oldest(), w.e.db.Horizon(), w.stepIn(&next)
	if renew {
		next.Lease++
		if now, err := w.clock.Next(); err == nil && blocked == 0 {
			next.Head = max(next.Head, now)
		}
		next.Limit = max(next.Limit, w.limit(w.clock.Last()))
	}
	return next, blocked
}

// nowShown takes the commits that newer heads show, or never will, off the list
// and notes their changes for the state of ordinal n.
func (w *writer) nowShown(h *journal.Heads, n uint64) (shown []*pendingCommit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := h.Cell(w.slot)
	kept := w.pending[:0]
	for _, p := range w.pending {
		r := p.rec.Revision
		_, undecided := slices.BinarySearch(c.Undecided, r)
		switch {
		case p.state == journal.Pending || r > c.Head || undecided:
			kept = append(kept, p)
		case p.state == journal.Committed:
			w.e.db.changes.touch(p.rec.IDs, p.rec.Keys, n)
			if p.rec.AllChanged {
				w.e.db.changes.everything(n)
			}
			w.recent.commitBegun(p.marks, n)
			shown = append(shown, p)
		}
	}
	clear(w.pending[len(kept):])
	w.pending = kept
	return shown
}

// giveUp ends the incarnation. Commits that wait for being shown learn that
// their outcome is unknown; a successor, perhaps this server, decides it.
func (w *writer) giveUp(cause error) {
	w.e.db.o.Log.Warn("this server lost its slot", "slot", w.slot, "error", cause)
	w.fenced.Store(true)
	w.e.claims.issued = max(w.e.claims.issued, w.cell.Limit)
	w.e.writer.CompareAndSwap(w, nil)
	close(w.lost)
}

// signal asks run to publish.
func (w *writer) signal() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// release closes the slot: it is free at once if no cell of a void
// revision can arrive any more. Nobody commits, and run has ended.
func (w *writer) release(ctx context.Context) error {
	w.fenced.Store(true)
	w.e.writer.CompareAndSwap(w, nil)
	next, _ := w.choose(false)
	next.State = revision.Closed
	next.Limit = w.clock.Last()
	raw := next.Append(nil)
	done, _, err := w.e.db.log.SwapHead(ctx, w.slot, w.raw, raw)
	if err != nil || !done {
		return err
	}
	if len(next.Void)+len(next.Undecided) > 0 {
		return nil
	}
	return w.e.db.log.Free(ctx, w.slot, raw)
}

// jittered is d, more or less by up to a half.
func jittered(d time.Duration, random uint64) time.Duration {
	return d/2 + time.Duration(random%uint64(d+1))
}
