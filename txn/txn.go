// Package txn makes a table store transactional: snapshots to read at, and
// transactions that commit at one revision or not at all, by the protocol of
// docs/design/transactions.md.
//
// A [DB] is a store opened by one server. [DB.Snapshot] returns the newest state
// the server may show; [DB.Update] runs a function on a [Tx] and commits what it
// wrote, again on a newer snapshot if another commit came between. Rows are read
// through a [table.Reader], which both are. Two transactions conflict when they put
// incompatible [Mark]s on one row; what they wrote or read does not matter.
//
// On an engine that commits atomic batches (table.Batcher) cells and journal
// row are one synced batch; on others a commit writes its journal row, its
// cells, reads the marks of others, writes the decision, and publishes its head,
// as on HBase. There any number of servers write, each in a slot of its own.
package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Options of a DB; the zero Options are good.
type Options struct {
	// Owner names this server to people: host and process by default.
	Owner string
	// ReadOnly opens without claiming a slot; Update then fails with
	// ErrReadOnly.
	ReadOnly bool
	// Lease is how long a silent server keeps its slot; 10 s by default.
	Lease time.Duration
	// Poll is how often heads are read where snapshots are asked for, and so the
	// age of a snapshot at most; 50 ms by default. An idle server reads them
	// less often, and at once when it is asked again. Stores of one process do
	// not poll.
	Poll time.Duration
	// InFlight is how long a write may be under way in the store before it
	// lands or is lost for good; 30 s by default.
	InFlight time.Duration
	// Drift is how far this server's clock may lead that of a store which has
	// one; a minute by default. Beyond it the server does not commit.
	Drift time.Duration
	// Attempts bounds the tries of an Update; 16 by default.
	Attempts int
	// Collect has garbage collected in the background, by one server of those
	// that ask for it. Retention is how long history stays readable and the
	// journal is kept; zero is for ever.
	Collect   bool
	Retention time.Duration
	// Secrets are families of which no history is kept beyond SecretAge, 2
	// minutes by default.
	Secrets   map[string][]table.Family
	SecretAge time.Duration
	// CollectRate bounds what is looked at in the background, in rows a second;
	// 5,000 by default.
	CollectRate int
	// Consumed, if there is one, tells up to where others have read the journal:
	// what comes after is kept for them.
	Consumed func() table.Revision
	// Doubt, if there is one, returns why the wall clock cannot be believed by a
	// store whose newest commit is of that time, or nil. While it does, a store of
	// one process takes no commits and its history stays. Shared stores have Drift.
	Doubt func(newest time.Time) error
	// Observe, if there is one, is told how every attempt to commit went.
	Observe func(Attempt)
	// Now is the wall clock, for tests.
	Now func() time.Time
	Log *slog.Logger
	// random is where tokens and the lengths of pauses come from. It is asked
	// in an order that depends on the answers of the store alone, so that a
	// simulation can be repeated.
	random func() uint64
	// stripes of changes, a power of two: a simulation opens thousands of DBs.
	stripes int
}

func (o Options) withDefaults() Options {
	if o.Owner == "" {
		host, _ := os.Hostname() // an unknown host is an empty name
		o.Owner = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	def(&o.Lease, 10*time.Second)
	def(&o.Poll, 50*time.Millisecond)
	def(&o.InFlight, 30*time.Second)
	def(&o.Drift, time.Minute)
	def(&o.Attempts, 16)
	def(&o.SecretAge, 2*time.Minute)
	def(&o.CollectRate, 5000)
	def(&o.stripes, 1<<16)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.random == nil {
		o.random = rand.Uint64
	}
	return o
}

func def[T ~int | ~int64](p *T, v T) {
	if *p <= 0 {
		*p = v
	}
}

// Errors of transactions. Those of package table come through wrapped.
var (
	// ErrConflict: other writers kept winning, or a bulk load is under way;
	// nothing was written.
	ErrConflict = errors.New("conflicting writes, retries exhausted")
	// ErrReadOnly: this server opened the store for reading.
	ErrReadOnly = errors.New("this server does not write")
	// ErrUnknown: the store failed between decision and publishing; whether
	// the commit stands cannot be told.
	ErrUnknown = errors.New("outcome unknown")
	// ErrRevision: a snapshot was asked for that is not to be had.
	ErrRevision = errors.New("no such revision")
	// ErrFuture: a state was asked for that is yet to come.
	ErrFuture = errors.New("a moment in the future")
	// ErrForgotten: the commits after a frontier are no longer all kept.
	ErrForgotten = errors.New("the changes since then are no longer kept")
	// ErrForeign: a frontier names commits that this store never made, or lost.
	ErrForeign = errors.New("not a state of this store")
)

// DB is a store opened for transactions.
type DB struct {
	store     table.Store
	o         Options
	log       *journal.Log
	commits   committer
	views     viewer
	horizon   keeper
	peers     stepper // nil: no other server writes this store
	gate      gate
	refused   refusal
	running   running
	changes   changes
	frontiers frontiers
	step      atomic.Pointer[taken]

	current atomic.Pointer[Snapshot]
	live    registry
	garbage collector
	shown   broadcast // of a new current state, or of the end of the engine
}

// A committer is the way commits are made on a kind of store.
type committer interface {
	// writable returns why commits are refused, or nil.
	writable() error
	// stamp issues an id that no commit will have.
	stamp() (table.Revision, error)
	// commit makes a transaction durable and shows it, or returns the conflict that
	// it waits for before it tries again.
	commit(ctx context.Context, tx *Tx) (r table.Revision, met *conflict, err error)
	// wait returns when the state that a conflict names is shown.
	wait(ctx context.Context, c *conflict) error
	// bulk begins a load; no other commit is under way until it ends.
	bulk(ctx context.Context, o table.BulkOptions) (loader, error)
	close(ctx context.Context) error
}

// A viewer has the states of a store that can be read.
type viewer interface {
	// fresh returns why the state shown is too old to be read, or nil.
	fresh() error
	// catchUp returns when the state shown has all that was committed anywhere
	// when it was called.
	catchUp(ctx context.Context) error
	// at returns a past state.
	at(ctx context.Context, r table.Revision) (*Snapshot, error)
	// until returns the state of all that is or will be committed up to r, which
	// may be above the newest revision but is not in the future.
	until(ctx context.Context, r table.Revision) (*Snapshot, error)
	// atFrontier returns the state at a frontier; nil if it is not reached.
	atFrontier(f revision.Frontier) *Snapshot
}

// A keeper knows what garbage collection has to keep.
type keeper interface {
	// bounds returns what may be collected now.
	bounds(ctx context.Context) (*bounds, error)
	// mutate does a change of the store that depends on the snapshots which this
	// server holds: only while others count them.
	mutate(ctx context.Context, do func(context.Context) error) error
}

// A stepper commits beside other servers of the store: it finds conflicts with them
// by marks in the store, and changes by steps what all must agree on.
type stepper interface {
	// reserve places the marks of a transaction before its next attempt; nil: it
	// has none.
	reserve(ctx context.Context, a *attempt) (*reservation, *conflict, error)
	// alone returns when no other server writes, or says which one does.
	alone(ctx context.Context) error
	// awaitCells returns when the cells of all who may write are ready, or fails
	// with ErrConflict.
	awaitCells(ctx context.Context, ready func(*revision.Cell) bool) error
	// publishStep has the step that this server works by published, if it can be.
	publishStep()
	// incarnation returns who commits for this server now, if anybody does.
	incarnation() Holder
	// over reports whether a holder's time is over.
	over(h Holder) bool
	// backfiller returns what writes cells past the usual path.
	backfiller() (backfiller, error)
}

// A conflict is the commit that a transaction cannot stand beside, and so what to wait
// for before the next attempt: one of this server, or one of another.
type conflict struct {
	// ordinal of the first state that shows a commit of this server. Zero: it is
	// not decided yet.
	ordinal uint64
	// revision of another server's commit, which may still be undecided.
	revision  table.Revision
	undecided bool
}

// Open makes the tables journal and cluster if they are missing and claims a slot
// unless o.ReadOnly. What servers that are gone have left undecided is recovered
// beside that, when their leases have ended. While another server loads in bulk
// there is no slot to be had: Update fails with table.ErrUnavailable until it has
// ended. On a table.Batcher there is one DB at a time.
func Open(ctx context.Context, s table.Store, o Options) (*DB, error) {
	db := &DB{store: s, o: o.withDefaults()}
	db.changes.stripes = make([]atomic.Uint64, db.o.stripes)
	if err := db.createTables(ctx); err != nil {
		return nil, fmt.Errorf("opening %s: %w", s, err)
	}
	db.log, db.gate.random = journal.New(s), db.o.random
	open := openCluster
	if db.isEmbedded() {
		open = openEmbedded
	}
	if err := open(ctx, db); err != nil {
		return nil, fmt.Errorf("opening %s: %w", s, err)
	}
	if !db.o.ReadOnly && db.isEmbedded() {
		db.noteRefusal()
	}
	db.garbage.start(db)
	return db, nil
}

// createTables makes what is missing. A store that itself was opened for reading
// has its tables already.
func (db *DB) createTables(ctx context.Context) error {
	names, err := db.store.Names(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(names, journal.Table) && slices.Contains(names, journal.Cluster) {
		return nil
	}
	return db.store.Create(ctx, journal.Specs()...)
}

// Close waits for commits under way, gives the slot back and stops. It does not
// close the store.
func (db *DB) Close(ctx context.Context) error {
	db.garbage.stop()
	if err := db.gate.close(ctx); err != nil {
		return fmt.Errorf("closing %s: %w", db.store, err)
	}
	if err := db.commits.close(ctx); err != nil {
		return fmt.Errorf("closing %s: %w", db.store, err)
	}
	return nil
}

// CatchUp returns when Snapshot shows all that any server of the store had
// committed when it was called.
func (db *DB) CatchUp(ctx context.Context) error { return db.views.catchUp(ctx) }

// Alone returns when no other server writes to the store, or fails with
// ErrConflict and says which one does: for changes that other servers would not
// learn of. One that is silent may be dead, and is waited for.
func (db *DB) Alone(ctx context.Context) error {
	if db.peers == nil {
		return nil
	}
	return db.peers.alone(ctx)
}

// Store returns the store below.
func (db *DB) Store() table.Store { return db.store }

// Table returns a table that Create of the store has made.
func (db *DB) Table(name string) table.Table { return db.store.Table(name) }
