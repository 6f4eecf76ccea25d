package txn

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// grace is how long an undecided commit can hold back the head. After that the commit
// becomes an exception below the head, so that it no longer delays other commits.
const grace = 50 * time.Millisecond

// A writer is one incarnation of a slot. It makes this server's commits from the claim of
// the slot until the slot is lost or released.
//
// Each commit runs in the goroutine of its caller up to the decision. The goroutine that
// executes run publishes the commits. It makes one change of the heads cell at a time.
// Each change shows all commits that were decided before the new cell was composed, except
// those that an undecided commit holds back (see choose).
type writer struct {
	e           *cluster
	slot        revision.Slot
	incarnation uint64
	clock       *revision.Clock
	kick        chan struct{} // signals run to publish
	lost        chan struct{} // closed when the slot is lost

	// renewed is the time at which the last acknowledged change of the cell was sent. It is
	// counted from e.start.
	renewed atomic.Int64
	fenced  atomic.Bool

	// cell is the content that the store acknowledged, and raw is its encoding. claim sets
	// them. Afterwards only run and release use them, and release is not called while run
	// is running.
	cell revision.Cell
	raw  []byte

	// mu is held while a commit gets its id and while the head is chosen, so that no commit
	// gets an id at or below a head that is being published.
	mu      sync.Mutex
	pending []*pendingCommit // sorted by id: undecided commits, and decided commits not shown yet
	aborted []abortedCommit  // sorted by id
	recent  *recent

	resolver resolver
}

// A pendingCommit is a commit that is undecided or not shown yet.
type pendingCommit struct {
	rec     *journal.Record
	marks   []placed
	began   uint64 // ordinal of the state at which the transaction began
	started time.Time
	dirty   bool // cells of the commit may have been sent
	state   journal.State
	ends    *pendingCommit // the reservation that ends with this commit, or nil
	shown   chan struct{}
	taken   chan struct{} // closed when another server has made the commit void in this server's cell
}

// isTaken reports whether another server has made the commit void.
func (p *pendingCommit) isTaken() bool {
	select {
	case <-p.taken:
		return true
	default:
		return false
	}
}

// An abortedCommit is an aborted commit whose cells may still reach the store.
type abortedCommit struct {
	rec   *journal.Record
	since time.Time
}

// alive returns nil if this server may still send mutations. At least half of the lease
// must be left, so that no mutation reaches the store much later than the end of the
// lease.
func (w *writer) alive() error {
	if w.fenced.Load() {
		return fmt.Errorf("%w: another server took over", table.ErrUnavailable)
	}
	if age := time.Since(w.e.start) - time.Duration(w.renewed.Load()); age > w.e.db.o.Lease/2 {
		return fmt.Errorf("%w: the lease was not renewed for %v", table.ErrUnavailable, age.Round(time.Millisecond))
	}
	return nil
}

// limit returns the largest id to announce. It is one lease after the present, or one lease
// after the parameter from if that is later. A later limit would be useless, because a server
// that cannot renew its cell stops committing after half a lease.
func (w *writer) limit(from table.Revision) table.Revision {
	now := max(revision.At(w.e.clock.wall()), from)
	return revision.At(now.Time().Add(w.e.db.o.Lease))
}

// run publishes this server's commits and reads the heads that other servers publish. It
// returns when the slot is lost or the engine closes.
func (w *writer) run() {
	every := max(w.e.db.o.Lease/8, time.Millisecond)
	renew := time.Now().Add(every)
	var again time.Time // end of the time for which the head is held back, or zero
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
				w.e.clock.watch(w.e.heads.Max().Time())
				w.e.others.startCleanUp(w)
				w.e.others.recoverSilent()
				w.e.others.helpBranches(w)
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

// A task is the next action of run.
type task int

const (
	nothing task = iota // the engine closes
	renewing
	publishing
	following
)

// nextTask waits until there is a task for run. If there are several tasks, it returns
// the first one in a fixed order and not a random one, so that a simulation can be
// repeated.
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

// earliest returns the earlier of two times. A zero Time is ignored.
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

// follow shows the state that other servers published. It returns an error if the slot is
// lost. If the store cannot be read, follow returns nil, and the next poll tries again.
func (w *writer) follow(ctx context.Context) error {
	if err := w.e.refresh(ctx, w); err != nil {
		w.e.db.o.Log.Debug("reading the heads", "error", err)
		return nil
	}
	if raw := w.e.heads.Raw(w.slot); !bytes.Equal(raw, w.raw) && !w.adopt(w.cell, raw) {
		return w.taken()
	}
	return nil
}

// adopt takes over the content of the cell if it is the cell c, in which other servers have made more commits
// void. Other servers change nothing else in the cell of a living server. adopt reports whether it is c.
func (w *writer) adopt(c revision.Cell, raw []byte) bool {
	now, err := revision.DecodeCell(raw)
	if err != nil {
		return false
	}
	c.Void, c.Sequence = now.Void, now.Sequence
	if !bytes.Equal(c.Append(nil), raw) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cell, w.raw = now, raw
	for _, p := range w.pending {
		if _, void := slices.BinarySearch(now.Void, p.rec.Revision); void && p.state != journal.Aborted && !p.isTaken() {
			p.state = journal.Pending
			close(p.taken)
		}
	}
	return true
}

func (w *writer) taken() error {
	return fmt.Errorf("%w: another server took over slot %d", table.ErrUnavailable, w.slot)
}

// publish changes the cell and shows the new state. If renew is not set and there is nothing
// to publish, it does nothing. The result blocked is how long an undecided commit can still
// hold back the head. publish returns an error if the slot is lost, or if the store has not
// answered by the end of the lease.
func (w *writer) publish(ctx context.Context, renew bool) (blocked time.Duration, err error) {
	until := w.e.start.Add(time.Duration(w.renewed.Load()) + w.e.db.o.Lease) //rule:publishing-ends
	// The swap is not canceled when the engine closes: release cannot swap a cell whose
	// content is unknown.
	ctx, cancel := context.WithDeadlineCause(context.WithoutCancel(ctx), until, errNoAnswer)
	defer cancel()
	var sent time.Duration
	var heads *journal.Heads
	for done := false; !done; {
		var next revision.Cell
		if next, blocked = w.choose(renew); !renew && next.Head == w.cell.Head && next.Config == w.cell.Config && slices.Equal(next.Undecided, w.cell.Undecided) {
			return blocked, nil
		}
		sent = time.Since(w.e.start)
		raw := next.Append(nil)
		var now []byte
		// Publish repeats the swap with the same bytes until it knows the outcome. A
		// repetition that reaches the store late fails, because the cell has changed.
		done, now, heads, err = w.e.db.log.Publish(ctx, w.slot, w.raw, raw)
		if err != nil {
			return 0, err
		}
		switch {
		case done:
			w.cell, w.raw = next, raw
		case w.adopt(next, now): // it was published, and changed since
			done = true
		case w.adopt(w.cell, now): //rule:taken-cell
			continue
		default:
			return 0, w.taken()
		}
		w.renewed.Store(int64(sent))
		w.clock.SetLimit(next.Limit)
	}
	if heads != nil {
		w.e.poll.begun = sent
		w.e.take(ctx, heads, w, sent)
		w.e.clock.measure(heads.Written(w.slot), sent)
		return blocked, nil
	}
	for try := 0; ; try++ {
		if err = w.e.refresh(ctx, w); err == nil {
			w.e.clock.measure(w.e.heads.Written(w.slot), sent)
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

// choose composes the next cell. The new head is the last commit before the first one that has
// been undecided for less than grace. Commits that have been undecided for longer become
// exceptions below the head. If no commit holds back the head and renew is set, the new head is
// an id issued now.
func (w *writer) choose(renew bool) (next revision.Cell, blocked time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = w.cell
	next.Sequence++ //rule:cell-bytes
	next.Void, next.Undecided = nil, nil
	for _, p := range w.pending {
		if p.state == journal.Pending && p.isTaken() {
			next.Void = append(next.Void, p.rec.Revision) //rule:taken-stays
		}
	}
	for _, p := range w.pending {
		r := p.rec.Revision
		if p.state == journal.Pending && !p.isTaken() {
			if age := time.Since(p.started); age < grace && r > next.Head {
				blocked = grace - age
				break
			}
			next.Undecided = append(next.Undecided, r) //rule:undecided
		}
		next.Head = max(next.Head, r)
	}
	for _, v := range w.aborted {
		next.Void = append(next.Void, v.rec.Revision)
	}
	slices.Sort(next.Void)
	next.Oldest, next.Horizon, next.Config = w.e.db.Oldest(), w.e.db.Horizon(), w.stepIn(&next)
	if renew {
		next.Lease++
		if now, err := w.clock.Next(); err == nil && blocked == 0 { //rule:head-on-its-way
			next.Head = max(next.Head, now)
		}
		next.Limit = max(next.Limit, w.limit(w.clock.Last()))
	}
	return next, blocked
}

// nowShown removes decided commits from w.pending: those that are not above this server's head
// in the newer heads h and that h does not have as undecided. It returns those of them that are
// committed, and records that the state of ordinal n is the first to show what these commits
// changed.
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

// giveUp ends the incarnation. Callers that wait for their commits to be shown return
// ErrUnknown. The last publishing may have shown their commits. When this server or another one
// recovers the slot, merges and loads that are committed in the journal become visible.
func (w *writer) giveUp(cause error) {
	w.e.db.o.Log.Warn("this server lost its slot", "slot", w.slot, "error", cause)
	w.fenced.Store(true)
	w.e.claims.issued = max(w.e.claims.issued, w.cell.Limit)
	w.e.writer.CompareAndSwap(w, nil)
	close(w.lost)
}

// signal makes run publish.
func (w *writer) signal() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// release closes the slot. It also frees the slot at once if no cell of an aborted commit
// can still reach the store. When release is called, neither a commit nor run is running.
func (w *writer) release(ctx context.Context) error {
	w.fenced.Store(true)
	w.e.writer.CompareAndSwap(w, nil)
	var next revision.Cell
	var raw []byte
	for done := false; !done; {
		next, _ = w.choose(false)
		next.State = revision.Closed
		next.Limit = w.clock.Last()
		raw = next.Append(nil)
		var now []byte
		var err error
		if done, now, err = w.e.db.log.SwapHead(ctx, w.slot, w.raw, raw); err != nil {
			return err
		}
		if !done && !w.adopt(w.cell, now) {
			return nil
		}
	}
	if len(next.Void)+len(next.Undecided) > 0 {
		return nil
	}
	return w.e.db.log.Free(ctx, w.slot, raw)
}

// jittered returns a random duration between half of d and one and a half times d.
func jittered(d time.Duration, random uint64) time.Duration {
	return d/2 + time.Duration(random%uint64(d+1))
}
