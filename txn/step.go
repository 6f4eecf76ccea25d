package txn

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// What all servers of a store must agree on, such as the schema, changes in steps. Each
// step is a commit like any other. A server publishes in its cell the step that it
// works by (revision.Cell.Config). Whoever takes the next step first waits until every
// server with a slot has published the one before. Servers that are gone do not count:
// what they left undecided cannot be committed any more. A new server takes its first
// snapshot after its claim, which is after the step, and commits nothing that began
// before.
//
// The marks of steps conflict, which orders them: a state that shows a step shows all
// steps with smaller revisions.

// taken is the step that new transactions work by.
type taken struct {
	revision table.Revision
	ordinal  uint64 // of a state that shows the step
}

// SetStep notes that transactions on states from an ordinal on work by the step
// committed as r. The step is published once all transactions that began before are
// over.
func (db *DB) SetStep(r table.Revision, ordinal uint64) {
	db.step.Store(&taken{r, ordinal})
	db.publishStep()
}

func (db *DB) publishStep() {
	if db.peers != nil {
		db.peers.publishStep()
	}
}

func (e *cluster) publishStep() {
	if w := e.writer.Load(); w != nil {
		w.signal()
	}
}

// stepIn returns the step that the next cell may publish. No transaction that began
// before that step is running or still to be shown. The caller holds w.mu.
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

// stepPatience is how long AwaitStep waits, in leases: one for a server that fell
// silent, the others for long transactions.
const stepPatience = 4

// AwaitStep returns when every server works by step r or a later one. A Snapshot then
// shows all commits of transactions that did not know the step. After some leases
// AwaitStep fails with ErrConflict and names a server that lags behind.
func (db *DB) AwaitStep(ctx context.Context, r table.Revision) error {
	return db.awaitCells(ctx, func(c *revision.Cell) bool { return c.Config >= r })
}

// AwaitReaders returns when no server reads a state that does not show r, within the
// same bounds.
func (db *DB) AwaitReaders(ctx context.Context, r table.Revision) error {
	return db.awaitCells(ctx, func(c *revision.Cell) bool { return c.Oldest >= r })
}

// awaitCells returns at once if there is only one server: its caller keeps others from
// writing.
func (db *DB) awaitCells(ctx context.Context, ready func(*revision.Cell) bool) error {
	if db.peers == nil {
		return nil
	}
	return db.peers.awaitCells(ctx, ready)
}

// awaitCells waits for the cells of all servers that may write, this one included.
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

// straggler returns the cell of a server that is not ready, or nil.
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

// Holder returns the holder that commits for this DB now. It is zero if this server is
// the only one that can write, or may not write.
func (db *DB) Holder() Holder {
	if db.peers == nil {
		return Holder{}
	}
	return db.peers.incarnation()
}

func (e *cluster) incarnation() Holder {
	if w := e.writer.Load(); w != nil {
		return Holder{w.slot, w.incarnation}
	}
	return Holder{}
}

// Over reports whether a holder's tenure is over in the state shown now: all commits
// that it will ever have made are decided.
func (db *DB) Over(h Holder) bool { return db.peers == nil || db.peers.over(h) }

func (e *cluster) over(h Holder) bool {
	c := e.shown().Cell(h.Slot)
	return c.Incarnation != h.Incarnation || !holds(c)
}

// Lease returns how long a silent server keeps its slot.
func (db *DB) Lease() time.Duration { return db.o.Lease }

// Shared reports whether other servers may write the store too.
func (db *DB) Shared() bool { return db.peers != nil }
