package txn

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Settings that must be the same on all servers of a store, such as the schema, change in
// steps. Each step is a commit like any other. In its heads cell, a server publishes the step
// that it works by (revision.Cell.Config). A server that wants to make the next step first
// waits until every server with a slot has published the previous step. It need not wait for
// servers without a slot, because the commits that they left undecided cannot be committed any
// more. A new server reads its first snapshot after its claim, and therefore after the step,
// and commits no transaction that began before its claim.
//
// The marks of steps conflict with each other. This orders the steps: a state that shows
// a step shows all steps with smaller revisions.

// taken is the step that new transactions work by, as SetStep recorded it.
type taken struct {
	revision table.Revision
	ordinal  uint64 // ordinal of a state that shows the step
}

// steps orders the changes of settings that must be the same on all servers.
type steps struct {
	db   *DB
	step atomic.Pointer[taken]
}

// SetStep records the step that was committed at revision r. New transactions work by
// this step if they begin at the state of the given ordinal or at a later state. The
// step is published when all transactions that began at earlier states have ended.
func (x *steps) SetStep(r table.Revision, ordinal uint64) {
	x.step.Store(&taken{r, ordinal})
	x.publishStep()
}

func (x *steps) publishStep() {
	if x.db.peers != nil {
		x.db.peers.publishStep()
	}
}

func (e *cluster) publishStep() {
	if w := e.writer.Load(); w != nil {
		w.signal()
	}
}

// stepIn returns the step that the next cell may publish. Usually that is the step of SetStep.
// But as long as a transaction that began before that step is running or its commit is not
// shown, stepIn returns the step that is already published. The caller holds w.mu.
func (w *writer) stepIn(next *revision.Cell) table.Revision {
	s := w.e.db.step.Load()
	if s == nil || s.revision == next.Config || w.e.db.running.oldest(s.ordinal) < s.ordinal {
		return next.Config
	}
	for _, p := range w.pending {
		if p.began < s.ordinal && p.state != journal.Aborted && (p.state == journal.Pending || p.rec.Revision > next.Head) {
			return next.Config
		}
	}
	return s.revision
}

// stepPatience is how long AwaitStep waits, in leases. One lease is for a server that
// fell silent, and the others are for long transactions.
const stepPatience = 4

// AwaitStep returns when every server works by step r or a later step. From then on a
// Snapshot shows all commits of transactions that worked without step r. After
// stepPatience leases, AwaitStep returns ErrConflict with the name of a server that lags
// behind.
func (x *steps) AwaitStep(ctx context.Context, r table.Revision) error {
	return x.awaitCells(ctx, func(c *revision.Cell) bool { return c.Config >= r })
}

// AwaitReaders waits until all snapshots of the present show r, on every server that may
// write. It ignores snapshots that are not in use. It waits no longer than AwaitStep
// does.
func (x *steps) AwaitReaders(ctx context.Context, r table.Revision) error {
	return x.awaitCells(ctx, func(c *revision.Cell) bool { return c.Oldest >= r })
}

// awaitCells waits until ready returns true for the cells of all servers. On a store of
// one server it returns at once, because the caller keeps other writers out.
func (x *steps) awaitCells(ctx context.Context, ready func(*revision.Cell) bool) error {
	if x.db.peers == nil {
		return nil
	}
	return x.db.peers.awaitCells(ctx, ready)
}

// awaitCells waits until ready returns true for the cells of all servers that may write,
// including this server.
func (e *cluster) awaitCells(ctx context.Context, ready func(*revision.Cell) bool) error {
	for end := time.Now().Add(stepPatience * e.db.o.Lease); ; {
		next := e.db.shown.Next()
		behind := straggler(e.shown(), ready)
		if behind == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: the server %s lags behind", ErrConflict, behind.Owner)
		}
		e.poll.ask(time.Since(e.start))
		if err := awaitEvent(ctx, next, e.db.o.Poll); err != nil {
			return err
		}
	}
}

// straggler returns the cell of a server that is not ready, or nil if all servers are
// ready.
func straggler(v *revision.Vector, ready func(*revision.Cell) bool) *revision.Cell {
	for _, s := range v.Slots() {
		if c := v.Cell(s); holds(c) && !ready(&c) {
			return &c
		}
	}
	return nil
}

// A Holder is one server's tenure of a slot.
type Holder struct {
	Slot        revision.Slot
	Incarnation uint64
}

// Holder returns the holder that commits for this DB now. It returns the zero Holder if
// this server is the only one that can write, or if this server has no slot.
func (x *steps) Holder() Holder {
	if x.db.peers == nil {
		return Holder{}
	}
	return x.db.peers.incarnation()
}

func (e *cluster) incarnation() Holder {
	if w := e.writer.Load(); w != nil {
		return Holder{w.slot, w.incarnation}
	}
	return Holder{}
}

// Holders returns the holders of open slots in the state shown now. It returns none if
// this server is the only one that can write.
func (x *steps) Holders() (all []Holder) {
	if x.db.peers == nil {
		return nil
	}
	v := x.db.current.Load().heads
	for _, s := range v.Slots() {
		if c := v.Cell(s); c.Kind == revision.Server && c.State == revision.Open {
			all = append(all, Holder{s, c.Incarnation})
		}
	}
	return all
}

// Over reports whether a holder's tenure has ended in the state shown now. If it has,
// every commit that the holder ever made is decided. On a store of one server, Over returns
// true.
func (x *steps) Over(h Holder) bool { return x.db.peers == nil || x.db.peers.over(h) }

func (e *cluster) over(h Holder) bool {
	c := e.shown().Cell(h.Slot)
	return c.Incarnation != h.Incarnation || !holds(c)
}

// Lease returns how long a silent server keeps its slot.
func (db *DB) Lease() time.Duration { return db.o.Lease }

// Touched returns the number of entries that commits have touched since this server
// opened the store. It counts only entries that the commits name, and counts a commit
// before a state shows it.
func (db *DB) Touched() uint64 { return db.changes.touched.Load() }

// Shared reports whether other servers may write the store too.
func (db *DB) Shared() bool { return db.peers != nil }
