// Package txn makes a table store transactional: it offers snapshots to read at, and
// transactions that commit at one revision or not at all, by the protocol of
// docs/design/transactions.md.
//
// A [DB] is a store opened by one server. [DB.Snapshot] returns the newest state the
// server may show. [DB.Update] runs a function on a [Tx] and commits what it wrote,
// again on a newer snapshot if another commit came between. A [Snapshot] and a [Tx] are
// both a [table.Reader]. Two transactions conflict if they put incompatible [Mark]s on
// one row, whatever they read or wrote.
//
// On an engine that commits atomic batches (table.Batcher), cells and journal row are
// one synced batch. On others, as HBase, a commit writes its journal row and its cells,
// reads the marks of others, writes the decision, and publishes its head. Any number of
// servers can write there, each in a slot of its own.
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

// Options of a DB. The zero Options are valid.
type Options struct {
	// Owner names this server to people: host and process by default.
	Owner string
	// ReadOnly opens without claiming a slot; Update then fails with
	// ErrReadOnly.
	ReadOnly bool
	// Lease is how long a silent server keeps its slot; 10 s by default.
	Lease time.Duration
	// Poll is how often heads are read while snapshots are asked for, and so bounds the
	// age of a snapshot; 50 ms by default. An idle server reads them less often, but at
	// once when asked. Stores of one process do not poll.
	Poll time.Duration
	// InFlight is how long a write may be under way in the store before it
	// lands or is lost for good; 30 s by default.
	InFlight time.Duration
	// Drift is how far this server's clock may lead the store's, if the store has one;
	// a minute by default. Beyond it the server does not commit.
	Drift time.Duration
	// Attempts bounds the tries of an Update; 16 by default.
	Attempts int
	// Collect makes the server collect garbage in the background. Only one of the servers
	// with Collect does so at a time. Retention is how long history stays readable and
	// the journal is kept; zero means for ever.
	Collect   bool
	Retention time.Duration
	// Secrets are the families whose history is kept for SecretAge only, 2 minutes by
	// default.
	Secrets   map[string][]table.Family
	SecretAge time.Duration
	// CollectRate bounds the rows per second examined in the background; 5,000 by
	// default.
	CollectRate int
	// Consumed, if set, returns the revision up to which others have read the journal.
	// Garbage collection keeps the records after it.
	Consumed func() table.Revision
	// Doubt, if set, returns why the wall clock cannot be trusted, given the time of
	// the store's newest commit, or nil. While it returns an error, a store of one
	// process takes no commits and keeps its history. Shared stores use Drift instead.
	Doubt func(newest time.Time) error
	// Observe, if set, is called with the outcome of every attempt to commit.
	Observe func(Attempt)
	// Now returns the wall clock's time; tests set it.
	Now func() time.Time
	Log *slog.Logger
	// random is the source of tokens and of the lengths of pauses. The order of its
	// calls depends only on the store's answers, so that a simulation can be repeated.
	random func() uint64
	// stripes is the number of stripes of changes, a power of two. A simulation opens
	// thousands of DBs and sets fewer.
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

// Errors of transactions. Errors of package table are returned wrapped.
var (
	// ErrConflict: other writers won every attempt, or a bulk load is under way.
	// Nothing was written.
	ErrConflict = errors.New("conflicting writes, retries exhausted")
	// ErrReadOnly: this server opened the store for reading.
	ErrReadOnly = errors.New("this server does not write")
	// ErrUnknown: the store failed between decision and publishing. The commit may or
	// may not stand.
	ErrUnknown = errors.New("outcome unknown")
	// ErrRevision: the requested snapshot is not available.
	ErrRevision = errors.New("no such revision")
	// ErrFuture: the requested state is in the future.
	ErrFuture = errors.New("a moment in the future")
	// ErrForgotten: the journal no longer has all commits after a frontier.
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
	shown   broadcast // signals a new current state, or the end of the engine
}

// A committer makes commits on one kind of store.
type committer interface {
	// writable returns why commits are refused, or nil.
	writable() error
	// stamp issues an id that no commit gets.
	stamp() (table.Revision, error)
	// commit makes a transaction durable and shows it, or returns the conflict to wait
	// for before the next attempt.
	commit(ctx context.Context, tx *Tx) (r table.Revision, met *conflict, err error)
	// wait returns when the state that a conflict names is shown.
	wait(ctx context.Context, c *conflict) error
	// bulk begins a load. No other commit is under way until it ends.
	bulk(ctx context.Context, o table.BulkOptions) (loader, error)
	close(ctx context.Context) error
}

// A viewer provides the states of a store that can be read.
type viewer interface {
	// fresh returns why the state shown is too old to be read, or nil.
	fresh() error
	// catchUp returns when the state shown has all that any server had committed when
	// it was called.
	catchUp(ctx context.Context) error
	// at returns a past state.
	at(ctx context.Context, r table.Revision) (*Snapshot, error)
	// until returns the state of everything that is or will be committed up to r. r may
	// be above the newest revision but is not in the future.
	until(ctx context.Context, r table.Revision) (*Snapshot, error)
	// atFrontier returns the state at a frontier, or nil if it is not reached yet.
	atFrontier(f revision.Frontier) *Snapshot
}

// A keeper decides what garbage collection keeps.
type keeper interface {
	// bounds returns the limits of what may be collected now.
	bounds(ctx context.Context) (*bounds, error)
	// mutate runs do, a change of the store that depends on this server's snapshots
	// being respected by others. It runs it only while they are.
	mutate(ctx context.Context, do func(context.Context) error) error
}

// A stepper commits on a store that other servers write too. It finds conflicts with
// them by marks in the store, and changes what all must agree on in steps.
type stepper interface {
	// reserve places the marks of a transaction before its next attempt. It returns nil
	// if there are no marks.
	reserve(ctx context.Context, a *attempt) (*reservation, *conflict, error)
	// alone returns when no other server writes, or fails and names one that does.
	alone(ctx context.Context) error
	// awaitCells returns when the cells of all servers that may write are ready, or
	// fails with ErrConflict.
	awaitCells(ctx context.Context, ready func(*revision.Cell) bool) error
	// publishStep publishes the step that this server works by, as soon as that is
	// allowed.
	publishStep()
	// incarnation returns the holder that commits for this server now, or zero.
	incarnation() Holder
	// over reports whether a holder's tenure is over.
	over(h Holder) bool
	// backfiller returns a writer of cells outside transactions.
	backfiller() (backfiller, error)
}

// A conflict is a commit that excludes a transaction, and so what to wait for before
// the next attempt. It belongs to this server or to another.
type conflict struct {
	// ordinal of the first state that shows the commit of this server. Zero: it is
	// undecided.
	ordinal uint64
	// revision of the other server's commit, which may still be undecided.
	revision  table.Revision
	undecided bool
}

// Open creates the tables journal and cluster if they are missing, and claims a slot
// unless o.ReadOnly. Meanwhile it recovers what former servers left undecided, after
// their leases have ended. While another server loads in bulk there are no slots, and
// Update fails with table.ErrUnavailable until the load has ended. A table.Batcher has
// one DB at a time.
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

// createTables creates missing tables. A store that was itself opened for reading has
// its tables already.
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

// Close waits for commits under way, frees the slot and stops. It does not close the
// store.
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

// CatchUp returns when Snapshot shows all that any server of the store had committed
// when it was called.
func (db *DB) CatchUp(ctx context.Context) error { return db.views.catchUp(ctx) }

// Alone returns when no other server writes to the store, or fails with ErrConflict and
// names one that does. It is for changes that other servers would not notice. A silent
// server may be dead, so Alone waits for it.
func (db *DB) Alone(ctx context.Context) error {
	if db.peers == nil {
		return nil
	}
	return db.peers.alone(ctx)
}

// Store returns the store below.
func (db *DB) Store() table.Store { return db.store }

// Table returns a table that the store's Create has made.
func (db *DB) Table(name string) table.Table { return db.store.Table(name) }
