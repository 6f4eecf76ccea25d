package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// embedded commits atomic batches on a store that only this process has open.
//
// A commit allocates its revision and passes its batch to the store under one lock, so
// the revisions have the same order as the store's log. The commit then waits, together
// with other commits, until the log is synced, and shows its revision as the new head.
// The head also shows smaller revisions whose commits are still waiting. These commits
// are earlier in the log, and a crash leaves a prefix of the log, so they are as durable as the
// head. After a crash the head is the largest committed revision in the journal. Commits up to
// that head are complete even if they were never acknowledged, because a batch is atomic.
type embedded struct {
	db      *DB
	batcher table.Batcher
	clock   *revision.Clock

	mu       sync.Mutex // held while a commit gets its revision and its place in the log
	last     position   // the last commit in the log
	recent   *recent
	branches *embeddedBrancher

	showing sync.Mutex // held while a state is shown
	broken  atomic.Pointer[error]

	// late counts the commits whose wait returned ErrPending and that are not durable
	// yet. While late is not zero, new commits are refused at once.
	late       atomic.Int32
	background context.Context
	stop       context.CancelFunc
}

// A position is a place in the order of commits, and the state there.
type position struct {
	head    table.Revision // the newest commit of the trunk
	ordinal uint64
	lines   *branchTable
}

func openEmbedded(ctx context.Context, db *DB) error {
	e := &embedded{
		db: db, batcher: db.store.(table.Batcher), recent: newRecent(),
		clock: revision.NewClock(revision.OnlySlot, db.o.Now),
	}
	e.branches = newEmbeddedBrancher(e)
	e.background, e.stop = context.WithCancel(context.Background())
	if err := e.unlessRefused(e.claim(ctx)); err != nil {
		return err
	}
	head, left, err := e.newest(ctx)
	if err == nil {
		err = e.unlessRefused(e.rollBack(ctx, left))
	}
	if err != nil {
		return err
	}
	e.clock.Observe(head)
	h, err := e.db.log.Heads(ctx)
	if err != nil {
		return err
	}
	e.last = position{head, 1, branchTableOf(h, head)}
	db.registry.horizon = e.last.lines.noBranchWithin(h.Horizon)
	e.warnOfFuture()
	db.commits, db.views, db.horizon, db.branches, db.alone = e, e, e, e.branches, e
	db.show(e.state(e.last))
	e.branches.sweepClosed()
	return nil
}

// state returns the state at a position.
func (e *embedded) state(p position) *Snapshot {
	s := &Snapshot{db: e.db, max: p.head, low: p.head, ordinal: p.ordinal}
	p.lines.setView(s)
	return s
}

// The method "past" returns the state at a revision that is not above the head.
func (e *embedded) past(r table.Revision) *Snapshot {
	now := e.db.current.Load()
	return &Snapshot{db: e.db, view: now.view, heads: now.heads, max: r, low: r}
}

// claim records in the heads row which process has the store open. The store's own lock
// keeps other processes out. The cell only informs people and records the head, so that
// later ids are larger.
func (e *embedded) claim(ctx context.Context) error {
	h, err := e.db.log.Heads(ctx)
	if err != nil || e.db.o.ReadOnly {
		return err
	}
	e.clock.Observe(h.Max())
	for _, s := range h.Slots() {
		e.clock.Observe(max(h.Cell(s).First, h.Cell(s).Head))
	}
	c := h.Cell(revision.OnlySlot)
	e.clock.Observe(c.Limit)
	c = revision.Cell{
		State: revision.Open, Incarnation: 1, Sequence: c.Sequence + 1,
		First: c.First, Head: c.Head, Token: e.db.o.random(), Owner: e.db.o.Owner,
	}
	done, _, err := e.db.log.SwapHead(ctx, revision.OnlySlot, h.Raw(revision.OnlySlot), c.Append(nil))
	if err == nil && !done {
		err = fmt.Errorf("%w by another server", table.ErrLocked)
	}
	return err
}

// unlessRefused returns err unless err is ErrRefused. If the store refuses writes, for
// example because the disk is full, unlessRefused returns nil and makes all commits fail,
// so that the store can still be read.
func (e *embedded) unlessRefused(err error) error {
	if !errors.Is(err, table.ErrRefused) {
		return err
	}
	err = fmt.Errorf("%w: it could not be written to when it was opened, start again: %w", table.ErrUnavailable, err)
	e.broken.CompareAndSwap(nil, &err)
	return nil
}

// newest returns the revision of the newest commit, and the revisions of later loads that were
// not committed.
func (e *embedded) newest(ctx context.Context) (head table.Revision, left []table.Revision, err error) {
	for rec, err := range e.db.log.Backward(ctx, revision.OnlySlot, 0, revision.Last-1) {
		if err != nil {
			return 0, nil, err
		}
		e.clock.Observe(rec.Revision)
		if rec.State == journal.Committed {
			return rec.Revision, left, nil
		}
		left = append(left, rec.Revision)
	}
	return 0, left, nil
}

// warnOfFuture warns if commits are ahead of the clock. Either the clock is wrong now, or
// it was wrong when these commits were made.
func (e *embedded) warnOfFuture() {
	if behind := e.clock.Behind(); behind > 0 {
		e.db.o.Log.Warn("the newest commit is in the future of the clock: all commits until then get its time",
			"store", e.db.store.String(), "newest", e.clock.Last().Time(), "behind", behind.Round(time.Millisecond))
	}
}

// rollBack removes what uncommitted loads left in the store.
func (e *embedded) rollBack(ctx context.Context, left []table.Revision) error {
	if e.db.o.ReadOnly || e.broken.Load() != nil {
		return nil
	}
	for _, r := range left {
		rec, err := e.db.log.Get(ctx, r)
		if err == nil {
			err = e.db.log.Rollback(ctx, &rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fresh returns nil because no other process commits to this store.
func (e *embedded) fresh() error { return nil }

// tenured returns false. It is called only on a standby, and the primary's collections do
// not wait for the standby's snapshots.
func (e *embedded) tenured() bool { return false }

// catchUp returns at once because no other process commits to this store.
func (e *embedded) catchUp(context.Context) error { return nil }

func (e *embedded) mutate(ctx context.Context, do func(context.Context) error) error { return do(ctx) }

func (e *embedded) stamp() (table.Revision, error) { return e.clock.Next() }

func (e *embedded) writable() error {
	switch o := &e.db.o; {
	case o.Follow:
		return fmt.Errorf("%w: it is a standby", ErrReadOnly)
	case o.ReadOnly:
		return fmt.Errorf("%w: it was opened for reading", ErrReadOnly)
	case o.Fenced != nil:
		if err := o.Fenced(); err != nil {
			return fmt.Errorf("%w: %w", ErrReadOnly, err)
		}
	}
	if err := e.broken.Load(); err != nil {
		return *err
	}
	if e.late.Load() > 0 {
		return fmt.Errorf("%w: an earlier commit is not durable yet", table.ErrUnavailable)
	}
	if err := e.doubt(); err != nil {
		return fmt.Errorf("%w: %w", table.ErrUnavailable, err)
	}
	return nil
}

// doubt returns an error if the clock cannot be trusted.
func (e *embedded) doubt() error {
	if e.db.o.Doubt == nil {
		return nil
	}
	return e.db.o.Doubt(e.db.current.Load().max.Time())
}

// wall returns the time of the clock. While the clock is in doubt, wall returns the time
// of the newest commit, so that a fast clock does not make history look older than it is.
func (e *embedded) wall() time.Time {
	if e.doubt() != nil {
		return e.db.current.Load().max.Time()
	}
	return e.db.o.Now()
}

func (e *embedded) commit(ctx context.Context, tx *Tx) (table.Revision, *conflict, error) {
	if err := canceled(ctx); err != nil {
		return 0, nil, err
	}
	writes := tx.batch()
	p, wait, met, err := e.enqueue(ctx, tx, writes)
	if met != nil || err != nil {
		return 0, met, err
	}
	tx.prepared = time.Now()
	if err := e.await(p, wait); err != nil {
		return 0, nil, err
	}
	if tx.shown != nil {
		tx.shown(p.ordinal)
	}
	return p.head, nil, nil
}

// await shows a position when it is durable.
func (e *embedded) await(p position, wait func() error) error {
	switch err := wait(); {
	case errors.Is(err, table.ErrPending):
		e.late.Add(1)
		e.db.shown.Broadcast() // wakes callers that wait for this commit
		go e.showLate(p, wait)
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case err != nil:
		return e.fail(err)
	}
	e.show(p)
	return nil
}

// latePause is the time between two attempts to wait for a late commit.
const latePause = 50 * time.Millisecond

// showLate shows a commit when it becomes durable. The commit's client has already got
// ErrUnknown.
func (e *embedded) showLate(p position, wait func() error) {
	defer e.late.Add(-1)
	for pause.For(e.background, latePause) == nil {
		err := wait()
		if errors.Is(err, table.ErrPending) {
			continue
		}
		if err == nil {
			e.show(p)
		} else {
			_ = e.fail(err) // stops later commits; this client already has an answer
		}
		return
	}
}

// enqueue allocates the commit's revision and passes its batch to the store's log.
func (e *embedded) enqueue(ctx context.Context, tx *Tx, writes []table.Write) (p position, wait func() error, met *conflict, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.writable(); err != nil {
		return p, nil, nil, err
	}
	if o, _, met := e.recent.conflict(tx.marks, tx.snapshot.ordinal); met != nil {
		return p, nil, &conflict{ordinal: o}, nil
	}
	noting := e.last.lines.areOpen()
	if noting && !tx.snapshot.recordsMarks && len(tx.marks) > 0 {
		return p, nil, &conflict{ordinal: e.last.ordinal}, nil // the transaction began before the branch
	}
	p = e.last
	if p.head, err = e.clock.Next(); err != nil {
		return p, nil, nil, err
	}
	tx.fillIn(p.head)
	p.ordinal++
	rec := tx.record(p.head)
	e.db.changes.touch(rec.IDs, rec.Keys, p.ordinal)
	b := table.Batch{Revision: p.head, Writes: writes, Urgent: tx.urgent}
	b.Last = func(found table.Found) table.Write {
		rec.Rows = found.Over
		if noting {
			rec.Marks, rec.Hidden = appendNotes(nil, tx.markRows), found.Hidden
		}
		return rec.Write()
	}
	if noting {
		b.View = e.state(e.last)
	}
	// A client that stops waiting must not leave half a commit: from here on the commit
	// runs to its end.
	wait, err = e.batcher.Commit(context.WithoutCancel(ctx), b)
	if err != nil {
		return p, nil, nil, e.refused(ctx, p.head, err)
	}
	e.last = p
	if e.recent.isFull() {
		e.recent.prune(e.db.running.oldest(p.ordinal))
	}
	e.recent.commit(tx.marks, p.ordinal)
	return p, wait, nil, nil
}

// refused returns the error for a batch that the store refused. If the store may have
// accepted the batch although it returned an error, refused stops all commits.
func (e *embedded) refused(ctx context.Context, r table.Revision, cause error) error {
	rec, err := e.db.log.Get(context.WithoutCancel(ctx), r)
	if err == nil && rec.State == journal.None {
		return fmt.Errorf("commit: %w", cause)
	}
	return e.fail(errors.Join(cause, err))
}

// fail stops all commits: writes that the store could not sync may be lost, and no commit
// after them may be shown. When the store is opened again, it finds out which commits
// exist.
func (e *embedded) fail(cause error) error {
	err := fmt.Errorf("%w: open the store again after its failure: %w", table.ErrUnavailable, cause)
	e.broken.CompareAndSwap(nil, &err)
	e.db.shown.Broadcast()
	return fmt.Errorf("%w: %w", ErrUnknown, cause)
}

// show shows the state at a position, unless a later state is already shown.
func (e *embedded) show(p position) {
	e.showing.Lock()
	defer e.showing.Unlock()
	if e.db.current.Load().ordinal < p.ordinal {
		e.db.show(e.state(p))
	}
}

func (e *embedded) wait(ctx context.Context, c *conflict) error {
	for {
		next := e.db.shown.Next()
		if e.db.current.Load().ordinal >= c.ordinal {
			return nil
		}
		if err := e.writable(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-next:
		}
	}
}

func (e *embedded) at(_ context.Context, r table.Revision) (*Snapshot, error) {
	if head := e.db.current.Load().max; r > head {
		return nil, fmt.Errorf("%w: %s is newer than %s", ErrRevision, r, head)
	}
	return e.past(r), nil
}

// The method "until" makes all later commits use revisions above r, and waits for commits that
// have a revision but are not durable yet. While the clock is in doubt, until does not raise
// the revisions. On a standby, until returns ErrRevision if r is above the head.
func (e *embedded) until(ctx context.Context, r table.Revision) (*Snapshot, error) {
	if err := e.known(r); err != nil {
		return nil, err
	}
	e.mu.Lock()
	if e.doubt() == nil {
		e.clock.Observe(r)
	}
	n := e.last.ordinal
	e.mu.Unlock()
	if err := e.wait(ctx, &conflict{ordinal: n}); err != nil {
		return nil, err
	}
	return e.past(min(r, e.db.current.Load().max)), nil
}

func (e *embedded) atFrontier(f revision.Frontier) *Snapshot {
	if len(f) > 1 || f.Max() != f.Of(revision.OnlySlot) || f.Max() > e.db.current.Load().max {
		return nil
	}
	return e.past(f.Max())
}

// bounds returns bounds in which everything up to the head is decided. It asks no other
// server, because there is none.
func (e *embedded) bounds(ctx context.Context) (*bounds, error) {
	h, err := e.db.log.Heads(ctx)
	if err != nil {
		return nil, err
	}
	s := e.db.current.Load()
	b := &bounds{
		announced: h.Horizon, stable: s.low, now: revision.At(e.wall()),
		young: e.db.Oldest(), secrets: e.db.Oldest(), slots: []revision.Slot{revision.OnlySlot}, leader: !e.db.o.ReadOnly,
	}
	honour := h.Horizon
	if v := s.heads; v != nil {
		b.slots = v.Slots()
		b.visible, b.void, b.shownBy, b.noBranch = v.Visible, v.Void, v.ShownBy, v.NoBranchWithin
		b.swept, b.parked = v.Swept, v.ParkedBases()
		honour = v.NoBranchWithin(honour)
	}
	b.honoured = e.db.registry.honour(honour, s)
	return b, nil
}

func (e *embedded) close(ctx context.Context) error {
	e.stop()
	e.branches.sweeping.Wait()
	if e.db.o.ReadOnly || e.broken.Load() != nil {
		return nil
	}
	h, err := e.db.log.Heads(ctx)
	if err != nil {
		return err
	}
	c := h.Cell(revision.OnlySlot)
	c.State, c.Head, c.Sequence = revision.Closed, e.db.current.Load().max, c.Sequence+1
	_, _, err = e.db.log.SwapHead(ctx, revision.OnlySlot, h.Raw(revision.OnlySlot), c.Append(nil))
	if errors.Is(err, table.ErrRefused) {
		// The next process that opens the store finds the head in the journal.
		e.db.o.Log.Warn("the end of this server was not written down", "error", err)
		return nil
	}
	return err
}
