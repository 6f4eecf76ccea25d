package txn

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/table"
)

// A Status is the state of this server's connection to its store.
type Status struct {
	Broken  error         // why it has to be started again, or nil
	Stale   error         // why nothing can be read, or nil
	Refusal error         // why nothing can be committed, or nil
	Shared  bool          // other servers may write the store
	HeadAge time.Duration // since the heads shown were read; zero if not shared
	Lease   time.Duration // time left of the lease; zero without a slot
	Ahead   time.Duration // how far this server's clock leads the store's
}

// stuckAfter is how long the loop of a shared store may take to come round. A lease
// bounds each of its calls of the store.
const stuckAfter = 30 * time.Second

// Status returns the state of this server's connection to its store.
func (db *DB) Status() Status {
	s := Status{Stale: db.views.fresh(), Refusal: db.Refusal(), Shared: db.Shared()}
	switch e := db.commits.(type) {
	case *embedded:
		s.Broken = e.failed()
	case *cluster:
		e.status(&s)
	}
	if f, ok := db.store.(interface{ Failed() error }); ok && s.Broken == nil {
		s.Broken = f.Failed()
	}
	return s
}

// failed returns the failure after which the store has to be opened again, or nil. A
// store that refused writes when it was opened has none: opening it again would not
// help.
func (e *embedded) failed() error {
	if err := e.broken.Load(); err != nil && !errors.Is(*err, table.ErrRefused) {
		return *err
	}
	return nil
}

func (e *cluster) status(s *Status) {
	s.HeadAge = e.age()
	if still := time.Since(e.start) - time.Duration(e.turned.Load()); still > max(stuckAfter, 4*e.db.o.Lease) {
		s.Broken = fmt.Errorf("the loop that follows the store has not turned for %v", still.Round(time.Second))
	}
	if w := e.writer.Load(); w != nil {
		s.Lease = max(0, e.db.o.Lease-(time.Since(e.start)-time.Duration(w.renewed.Load())))
	}
	if latest, ok := e.latest(); ok {
		s.Ahead = e.db.o.Now().Sub(latest.Add(-e.db.o.Drift))
	}
}

// Owner names this server to people.
func (db *DB) Owner() string { return db.o.Owner }

// turn notes that a loop comes round.
func (e *cluster) turn() { e.turned.Store(int64(time.Since(e.start))) }

// An Attempt is the outcome of one attempt to commit, for metrics.
type Attempt struct {
	Result  string        // committed, conflict, unknown or failed
	Other   bool          // the conflict is with another server's commit
	Prepare time.Duration // until the writes are in the log or, on a shared store, decided
	Sync    time.Duration // until the commit is durable and shown
}

// observe passes an attempt to Options.Observe.
func (db *DB) observe(tx *Tx, begun time.Time, met *conflict, err error) {
	if db.o.Observe == nil {
		return
	}
	a := Attempt{Result: "committed", Other: met != nil && met.revision != 0}
	switch {
	case met != nil:
		a.Result = "conflict"
	case errors.Is(err, ErrUnknown):
		a.Result = "unknown"
	case err != nil:
		a.Result = "failed"
	}
	if !tx.prepared.IsZero() {
		a.Prepare, a.Sync = tx.prepared.Sub(begun), time.Since(tx.prepared)
	}
	db.o.Observe(a)
}

// A tally is what garbage collection removed since the store was opened.
type tally struct {
	removed atomic.Int64
	last    atomic.Int64 // when, in nanoseconds since 1970; 0: never
}

// Collected returns how many versions collections of this server have removed, and when
// the last successful one ended; the zero time means never.
func (db *DB) Collected() (versions int64, last time.Time) {
	t := &db.garbage.tally
	if n := t.last.Load(); n != 0 {
		last = time.Unix(0, n)
	}
	return t.removed.Load(), last
}
