package txn

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// What all servers of a store must agree on, as a schema, changes in steps, each
// of which is a commit like any other. A server publishes in its cell the step
// that it works by (revision.Cell.Config), and who takes the next step waits
// until every server among the writers has published the one before. Servers that
// are gone do not count: what they left undecided cannot be committed any more.
// One that comes takes its first snapshot after its claim, which is after the
// step, and commits nothing that began before.
//
// Steps are ordered by the marks of their commits, which conflict: so a state
// that shows one shows all with smaller revisions.

// taken is the step that what begins here goes by.
type taken struct {
	revision table.Revision
	ordinal  uint64 // of a state that shows it
}

// SetStep reports that what begins on states from an ordinal on goes by the step
// that was committed as r. It is published once all that began before is over.
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

// stepIn is the step that a cell to be published may tell of: nothing runs, or is
// to be shown, that began before it. The caller holds w.mu.
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

// stepPatience is for how many leases a step is waited for: one for a server that
// fell silent, some for long transactions.
const stepPatience = 4

// AwaitStep returns when every server works by the step r or a later one: a
// Snapshot then shows all that was committed by those who did not know it. It
// waits for some leases at most, and then fails with ErrConflict, naming a server
// that lags behind.
func (db *DB) AwaitStep(ctx context.Context, r table.Revision) error {
	return db.awaitCells(ctx, func(c *revision.Cell) bool { return c.Config >= r })
}

// AwaitReaders returns when no server reads a state any more that does not show r,
// within the same bounds.
func (db *DB) AwaitReaders(ctx context.Context, r table.Revision) error {
	return db.awaitCells(ctx, func(c *revision.Cell) bool { return c.Oldest >= r })
}

// awaitCells waits for nobody where there is one server: its caller keeps others from
// writing.
func (db *DB) awaitCells(ctx context.Context, ready func(*revision.Cell) bool) error {
	if db.peers == nil {
		return nil
	}
	return db.peers.awaitCells(ctx, ready)
}

// awaitCells waits for the cells of all who may write, its own included.
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

// straggler finds the cell of a server that is not ready.
func straggler(v *revision.Vector, ready func(*revision.Cell) bool) *revision.Cell {
	for _, s := range v.Slots() {
		if c := v.Cell(s); holds(c) && !ready(&c) {
			return &c
		}
	}
	return nil
}

// A Holder is the time of one server among the writers of a store.
type Holder struct {
	Slot        revision.Slot
	Incarnation uint64
}

// Holder returns who commits for this DB now; the zero Holder if it is the only one
// that can, or may not.
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

// Over reports whether a holder's time is over, in the state shown now: all that
// it will ever have committed is decided.
func (db *DB) Over(h Holder) bool { return db.peers == nil || db.peers.over(h) }

func (e *cluster) over(h Holder) bool {
	c := e.shown().Cell(h.Slot)
	return c.Incarnation != h.Incarnation || !holds(c)
}

// Lease is how long a silent server keeps its slot.
func (db *DB) Lease() time.Duration { return db.o.Lease }

// Shared reports whether other servers may write the store too.
func (db *DB) Shared() bool { return db.peers != nil }
