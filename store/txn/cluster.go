package txn

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// cluster is the engine for stores that are atomic only per row, such as HBase. Many servers
// can open such a store, and each has a slot of its own. From openCluster to close, only the
// goroutine that executes run changes this server's cell in the heads row and the state that
// this server shows. run claims a slot and then calls writer.run. While the server has no slot,
// or only reads, run polls the heads.
type cluster struct {
	db     *DB
	start  time.Time    // base of the monotonic clock
	read   atomic.Int64 // when the heads of the state shown were read, as time since start
	poll   *backoff
	clock  storeClock
	writer atomic.Pointer[writer]
	turned atomic.Int64 // when run or writer.run last began an iteration of its loop, as time since start

	// Only openCluster and run use the following fields.
	heads   *journal.Heads
	ordinal uint64
	others  others
	claims  claimer

	background context.Context // ends when the engine closes
	stop       context.CancelCauseFunc
	done       sync.WaitGroup // waits for run and for the goroutines that it starts
}

func openCluster(ctx context.Context, db *DB) error {
	e := &cluster{db: db, start: time.Now(), poll: newBackoff(&db.o)}
	e.clock.o, e.clock.start = &db.o, e.start
	e.claims.e = e
	e.others.e, e.others.seen = e, map[revision.Slot]observation{}
	e.background, e.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	db.commits, db.views, db.horizon, db.branches, db.peers = e, e, e, &clusterBrancher{e}, e
	err := e.refresh(ctx, nil)
	if err == nil {
		err = e.claims.claim(ctx)
	}
	if err != nil {
		e.stop(err)
		return err
	}
	e.done.Go(e.run)
	return nil
}

// run polls the heads while this server has no slot, and calls writer.run while it has a
// slot. It returns when the engine closes.
func (e *cluster) run() {
	for e.background.Err() == nil {
		e.turn()
		if w := e.writer.Load(); w != nil {
			w.run()
			continue
		}
		if e.poll.await(e.background, !e.db.o.ReadOnly) != nil {
			return
		}
		err := e.refresh(e.background, nil)
		if err == nil {
			e.others.recoverSilent()
			err = e.claims.claim(e.background)
		}
		if err != nil && e.background.Err() == nil {
			e.db.o.Log.Warn("following the store", "store", e.db.store.String(), "error", err)
		}
	}
}

// errNoAnswer is the cause of deadlines that come from the lease. It wraps table.ErrUnavailable, so that the store looks for
// a reason why it did not answer.
var errNoAnswer = fmt.Errorf("%w: no answer within a lease", table.ErrUnavailable)

// deadline returns a context for one step at the store, which limits the step to the duration
// of a lease.
func (e *cluster) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, e.db.o.Lease, errNoAnswer)
}

// fresh returns nil if the state shown is new enough to be read, and otherwise the reason
// why it is not. If nobody has requested a snapshot for a while, fresh first waits for a
// reading of the heads.
func (e *cluster) fresh() error {
	if age := e.age(); age > e.db.o.Poll/2 {
		if !e.poll.wanted.Load() {
			e.poll.wanted.Store(true)
		}
		if age > 2*e.db.o.Poll && e.poll.dozing.Load() {
			ctx, cancel := context.WithTimeout(e.background, e.db.o.Poll)
			defer cancel()
			e.awaitRead(ctx) // ignore a timeout: stale then checks the age
		}
	}
	return e.stale()
}

// tenured reports whether this server holds its slot under a lease that has not ended.
// Other servers do not wait for a server whose lease has ended, even if that server was
// only suspended for a while.
func (e *cluster) tenured() bool {
	w := e.writer.Load()
	return w != nil && !w.fenced.Load() && time.Since(e.start)-time.Duration(w.renewed.Load()) <= e.db.o.Lease
}

// age returns how long ago the heads of the state shown were read.
func (e *cluster) age() time.Duration {
	return time.Since(e.start) - time.Duration(e.read.Load())
}

func (e *cluster) stale() error {
	if age := e.age(); age > e.db.o.Lease {
		return fmt.Errorf("%w: no news of the store's heads for %v", table.ErrUnavailable, age.Round(time.Millisecond))
	}
	return nil
}

// awaitRead waits for a reading of the heads that begins after the call.
func (e *cluster) awaitRead(ctx context.Context) error {
	asked := time.Since(e.start)
	for {
		read := e.poll.read.Next()
		if time.Duration(e.read.Load()) >= asked {
			return nil
		}
		if err := e.stale(); err != nil {
			return err
		}
		e.poll.ask(asked)
		// If the heads are not read within the rest of the lease, the state shown becomes
		// stale.
		if err := awaitEvent(ctx, read, e.db.o.Lease-e.age()+1); err != nil {
			return err
		}
	}
}

// awaitEvent waits for an event, but not longer than bound.
func awaitEvent(ctx context.Context, event <-chan struct{}, bound time.Duration) error {
	t := time.NewTimer(bound)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-event:
	case <-t.C:
	}
	return nil
}

// refresh reads the heads and shows their state. If w is not nil, some commits of w may
// become visible with this state, and refresh wakes the callers that wait for them. What
// these commits changed is known in memory. What other servers' commits changed is read
// from the journal.
func (e *cluster) refresh(ctx context.Context, w *writer) error {
	limited, cancel := e.deadline(ctx)
	defer cancel()
	before := time.Since(e.start)
	e.poll.begun = before
	h, err := e.db.log.Heads(limited)
	if err != nil {
		e.poll.failed()
		return unanswered(ctx, err)
	}
	e.take(limited, h, w, before)
	return nil
}

// take shows the state of the heads h, which were read after the time before. For w see refresh.
func (e *cluster) take(ctx context.Context, h *journal.Heads, w *writer, before time.Duration) {
	e.others.look(h)
	if w != nil {
		// Ids respect causality: every later id is above all revisions that the state
		// shows, even if the clocks of other writers are ahead.
		w.clock.Observe(h.Max()) //rule:causality
	}
	changed := false
	if e.heads == nil || !h.Same(e.heads) {
		changed = e.advance(ctx, h, w)
	}
	e.read.Store(int64(before))
	e.poll.done(changed)
}

// advance shows the state of newer heads. It reports whether the state has new commits of
// other servers.
func (e *cluster) advance(ctx context.Context, h *journal.Heads, w *writer) (changed bool) {
	n := e.ordinal + 1
	if e.heads != nil {
		changed = e.noteChanges(ctx, h, w, n)
	}
	var shown []*pendingCommit
	if w != nil {
		shown = w.nowShown(h, n)
	}
	e.heads, e.ordinal = h, n
	s := &Snapshot{db: e.db, view: h.Vector, heads: h.Vector, max: h.Max(), low: h.Low(), ordinal: n}
	e.db.show(s)
	if e.writer.Load() == nil {
		e.db.registry.expire(h.NoBranchWithin(h.Horizon))
	}
	// The honoured horizon is never above the base of an open branch, so that the state
	// at the base stays readable.
	e.db.registry.honour(h.NoBranchWithin(h.Horizon), s)
	for _, p := range shown {
		close(p.shown)
	}
	return changed
}

// noteChanges looks for commits of other servers that h shows and that no earlier state
// showed. It records what these commits changed, and reports whether there are any. If
// it cannot read what they changed, it counts everything as changed. It does not take long, because this server must
// renew its lease even while the journal does not answer.
func (e *cluster) noteChanges(ctx context.Context, h *journal.Heads, w *writer, n uint64) (changed bool) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.db.o.Lease/3, errNoAnswer)
	defer cancel()
	for _, s := range h.Slots() {
		// Cells of branches are skipped: the commit that merges a branch records what the
		// branch changed.
		if w != nil && w.slot == s || s.IsBranch() || bytes.Equal(h.Raw(s), e.heads.Raw(s)) {
			continue
		}
		old := e.heads.Cell(s)
		after := old.Head
		if len(old.Undecided) > 0 {
			after = min(after, old.Undecided[0]-1)
		}
		for rec, err := range e.db.log.Scan(ctx, s, after, h.Max()) {
			if err != nil {
				e.db.changes.everything(n)
				return true
			}
			if !h.Visible(rec.Revision) || e.heads.Visible(rec.Revision) {
				continue
			}
			changed = true
			e.db.changes.touch(rec.IDs, rec.Keys, n)
			if rec.AllChanged {
				e.db.changes.everything(n)
			}
		}
	}
	return changed
}

// holds reports whether the slot's holder may still commit, or has left commits
// undecided.
func holds(c revision.Cell) bool {
	return c.Kind == revision.Server && (c.State == revision.Open || c.State == revision.Recovering)
}

// shown returns the heads vector of the current state.
func (e *cluster) shown() *revision.Vector { return e.db.current.Load().heads }

func (e *cluster) writable() error {
	w, err := e.holder()
	if err != nil {
		return err
	}
	return w.alive()
}

// holder returns the writer of this server's slot, or an error that says why there is
// none. Another server may recover the slot at any moment, so the result may be out of
// date at any time.
func (e *cluster) holder() (*writer, error) {
	if w := e.writer.Load(); w != nil {
		return w, nil
	}
	if e.db.o.ReadOnly {
		return nil, fmt.Errorf("%w: it was opened for reading", ErrReadOnly)
	}
	if err := e.clock.drifted(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: this server has no slot among the writers now and is taking one", table.ErrUnavailable)
}

func (e *cluster) mutate(ctx context.Context, do func(context.Context) error) error {
	w, err := e.holder()
	if err != nil {
		return err
	}
	return w.step(ctx, do)
}

func (e *cluster) stamp() (table.Revision, error) {
	w, err := e.holder()
	if err != nil {
		return 0, err
	}
	r, err := w.clock.Next()
	if err != nil {
		err = fmt.Errorf("%w: %w", table.ErrUnavailable, err)
	}
	return r, err
}

func (e *cluster) catchUp(ctx context.Context) error { return e.awaitRead(ctx) }

// wait returns when a new state is shown, or after a short time. If c names other servers'
// commits, wait instead waits until these commits are decided, and shown or excluded.
func (e *cluster) wait(ctx context.Context, c *conflict) error {
	if len(c.others) > 0 {
		w, err := e.holder()
		if err != nil {
			return err
		}
		return w.await(ctx, c.others)
	}
	next := e.db.shown.Next()
	if c.ordinal != 0 && e.db.current.Load().ordinal >= c.ordinal {
		return nil
	}
	return awaitEvent(ctx, next, e.db.o.Poll)
}

// awaitDecided waits until the state shown includes another server's commit or excludes it for
// good, and reports whether it does. It waits for at most two leases, in which other servers normally recover the slot
// of a silent server. Commits follow each other quickly where servers want one row, so it reads the heads often at first.
func (e *cluster) awaitDecided(ctx context.Context, r table.Revision) (bool, error) {
	end := time.Now().Add(2 * e.db.o.Lease)
	for try := 0; time.Now().Before(end); try++ {
		next := e.db.shown.Next()
		if v := e.shown(); v.Visible(r) || v.Void(r) {
			return true, nil
		}
		e.poll.ask(time.Since(e.start))
		if err := awaitEvent(ctx, next, min(time.Millisecond<<min(try/8, 10), e.db.o.Poll)); err != nil {
			return false, err
		}
	}
	return false, nil
}

// pastPatience bounds how long at, until and AtFrontier wait.
const pastPatience = 2 * time.Second

func (e *cluster) at(ctx context.Context, r table.Revision) (*Snapshot, error) {
	if newest := e.db.current.Load().max; r > newest {
		return nil, fmt.Errorf("%w: %s is newer than %s", ErrRevision, r, newest)
	}
	return e.until(ctx, r)
}

func (e *cluster) until(ctx context.Context, r table.Revision) (*Snapshot, error) {
	return e.within(ctx, pastPatience, r)
}

// within returns the state that shows every commit up to r. It waits until all these commits
// are decided, but not longer than the parameter patience.
func (e *cluster) within(ctx context.Context, patience time.Duration, r table.Revision) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		next := e.db.shown.Next()
		v := e.shown()
		if r <= v.Decided() || v.Max() < r && nobodyWrites(v) {
			at := min(r, v.Max())
			return &Snapshot{db: e.db, view: v, heads: v, max: at, low: min(at, v.Low())}, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: what is below %s is not decided yet", ErrRevision, r)
		case <-next:
		}
	}
}

// nobodyWrites reports whether no server holds a slot. Then later commits get later revisions,
// unless the clock of a server that claims a slot later is slow.
func nobodyWrites(v *revision.Vector) bool {
	for _, s := range v.Slots() {
		if holds(v.Cell(s)) {
			return false
		}
	}
	return true
}

func (e *cluster) atFrontier(f revision.Frontier) *Snapshot {
	v := e.shown()
	if !v.Reached(f) {
		return nil
	}
	past := v.At(f)
	return &Snapshot{db: e.db, view: past, heads: v, max: past.Max(), low: past.Low()}
}

// bounds returns the limits of collection according to one reading of the heads. It
// measures ages from a time at or below the low-water mark of all servers, so that a
// server whose clock is ahead removes nothing too early. The leader, which collects for
// all servers, is the open server with the lowest slot. It does no harm if two servers
// collect at the same time for a moment.
func (e *cluster) bounds(ctx context.Context) (*bounds, error) {
	ctx, cancel := e.deadline(ctx)
	defer cancel()
	h, err := e.db.log.Heads(ctx)
	if err != nil {
		return nil, unanswered(ctx, err)
	}
	w := e.writer.Load()
	b := &bounds{
		announced: h.Horizon, honoured: h.Honoured(), stable: h.Low(),
		now:   min(revision.At(e.db.o.Now()), h.Stable()),
		young: h.Oldest(), secrets: h.OldestOfServers(), slots: h.Slots(), leader: w != nil,
		visible: h.Visible, void: h.Void, swept: h.Swept, shownBy: h.ShownBy, noBranch: h.NoBranchWithin, parked: h.ParkedBases(),
	}
	for _, s := range b.slots {
		if w != nil && s < w.slot && h.Cell(s).State == revision.Open && h.Cell(s).Kind == revision.Server {
			b.leader = false
		}
	}
	return b, nil
}

func (e *cluster) close(ctx context.Context) error {
	w := e.writer.Load()
	if w != nil {
		if err := w.resolver.wait(ctx); err != nil {
			e.db.o.Log.Warn("closing with undecided commits: a successor recovers them", "error", err)
			w = nil
		}
	}
	e.db.turns.close()
	e.stop(table.ErrClosed)
	e.done.Wait()
	if w == nil || e.writer.Load() != w {
		return nil
	}
	return w.release(ctx)
}
