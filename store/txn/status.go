package txn

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Status is the state of this server's connection to its store.
type Status struct {
	Broken  error         // the reason why the store has to be opened again, or nil
	Stale   error         // the reason why nothing can be read, or nil
	Refusal error         // the reason why nothing can be committed, or nil
	Shared  bool          // other servers may write the store
	HeadAge time.Duration // time since the heads shown were read; zero unless Shared
	Lease   time.Duration // remaining time of the lease; zero if the server has no slot
	Ahead   time.Duration // how far this server's clock is ahead of the store's clock
}

// stuckAfter is how long an iteration of the loop that follows a shared store may take
// before the loop counts as stuck. If four leases are longer, they are the limit
// instead. Each of the loop's calls to the store takes at most a lease.
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

// failed returns the failure after which the store has to be opened again, or nil. If
// the store refused writes when it was opened, failed returns nil, because opening the
// store again would not help.
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
	if latest, ok := e.clock.latest(); ok {
		s.Ahead = e.db.o.Now().Sub(latest.Add(-e.db.o.Drift))
	}
}

// Owner returns the name of this server, which is meant for people.
func (db *DB) Owner() string { return db.o.Owner }

// turn records that the loop of run or of writer.run begins another iteration.
func (e *cluster) turn() { e.turned.Store(int64(time.Since(e.start))) }

// An Attempt is the outcome of one attempt to commit, for metrics.
type Attempt struct {
	Result string // committed, conflict, unknown or failed
	Other  bool   // the conflict is with a commit of another server
	// Prepare is the time from the call of commit, after the transaction's function has returned,
	// until the commit is in the log. On a shared store it is the time until the commit is
	// decided.
	Prepare time.Duration
	// Sync is the time from the end of Prepare until the commit is durable and shown.
	Sync time.Duration
}

// observe passes the outcome of an attempt to Options.Observe.
func (db *DB) observe(tx *Tx, begun time.Time, met *conflict, err error) {
	if db.o.Observe == nil {
		return
	}
	a := Attempt{Result: "committed", Other: met.isOthers()}
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

// A refusal is a period in which commits are refused. The beginning and the end of a refusal
// are each logged once.
type refusal struct {
	db     *DB
	under  atomic.Bool
	closed atomic.Pointer[error] // what Refuse has recorded
}

// Refuse records that the caller refuses all updates from now on, with the reason, or none if err is nil. Package txn
// only reports this.
func (x *refusal) Refuse(err error) {
	x.closed.Store(&err)
	x.noteRefusal()
	x.noteSuccess()
}

// Refusal returns the reason why this server cannot commit now, or nil if it can.
// Possible reasons are that the server was opened for reading, that its clock is in
// doubt, that its disk is full, that a write failed, that it has no slot, or what Refuse has recorded.
func (x *refusal) Refusal() error {
	if err := x.closed.Load(); err != nil && *err != nil {
		return *err
	}
	if err := x.db.commits.writable(); err != nil {
		return err
	}
	if s, ok := x.db.store.(table.Refuser); ok {
		return s.Refuses()
	}
	return nil
}

// noteRefusal logs the beginning of a refusal, with its reason, if that has not been
// logged yet.
func (x *refusal) noteRefusal() {
	if x.db.o.ReadOnly {
		return
	}
	if err := x.Refusal(); err != nil && !x.under.Swap(true) {
		x.db.o.Log.Error("the store is served for reading only", "store", x.db.store.String(), "reason", err)
	}
}

// noteSuccess logs the end of a refusal.
func (x *refusal) noteSuccess() {
	if x.under.Load() && x.Refusal() == nil && x.under.Swap(false) {
		x.db.o.Log.Info("the store takes changes again", "store", x.db.store.String())
	}
}

// isEmbedded reports whether no other process can commit.
func (db *DB) isEmbedded() bool {
	_, embedded := db.store.(table.Batcher)
	return embedded
}
