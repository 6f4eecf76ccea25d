// Package txn makes a table store transactional. It offers snapshots to read at, and
// transactions that either commit at one revision or do not commit at all. The protocol
// is in docs/design/transactions.md.
//
// A [DB] is a store opened by one server. [DB.Snapshot] returns the newest state that the
// server may show. [DB.Update] runs a function on a [Tx] and commits what the function
// wrote. If a conflicting commit was made in the meantime, DB.Update runs the function
// again on a newer snapshot. Both [Snapshot] and [Tx] implement [table.Reader]. Two
// transactions conflict if they put incompatible [Mark]s on one row, even if they read or
// wrote different cells.
//
// On a store that commits atomic batches (table.Batcher), the cells and the journal row
// of a commit are one synced batch. On other stores, such as HBase, a commit writes its
// journal row, writes its cells and reads the marks of other commits, and publishes the
// head of its server, which decides it. Any number of servers can write to such a store, each
// in a slot of its own.
package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Options are the options of a DB. The zero Options are valid.
type Options struct {
	// Owner is the name of this server for people to read. The default is the host's name
	// and the process id.
	Owner string
	// ReadOnly makes Open claim no slot; Update then fails with ErrReadOnly.
	ReadOnly bool
	// Follow opens a store that receives another server's log. It implies ReadOnly.
	// ShowNewest shows the commits that have arrived.
	Follow bool
	// Fenced, if set, returns an error if another server has taken over from this one.
	// While it returns an error, a store of one process commits nothing.
	Fenced func() error
	// Lease is how long a silent server keeps its slot; 10 s by default. A server is
	// silent if it no longer changes its heads cell.
	Lease time.Duration
	// Poll is the interval at which the heads are read while snapshots are requested. It
	// is therefore roughly the greatest age of a snapshot; 50 ms by default. An idle
	// server reads the heads less often, but at once when a snapshot is requested. On a
	// store of one process, Poll has no effect.
	Poll time.Duration
	// InFlight is the longest time from sending a write until the store has applied the
	// write or will never apply it; 30 s by default.
	InFlight time.Duration
	// Drift is how far this server's clock may lead the store's clock, if the store has
	// one; a minute by default. While the clock leads by more than Drift, the server does
	// not commit.
	Drift time.Duration
	// Attempts bounds the attempts of an Update; 16 by default.
	Attempts int
	// Collect makes the server collect garbage in the background. On a shared store it
	// does so only while no other open server has a lower slot. Retention is how long
	// history stays readable and the journal is kept; zero means forever.
	Collect   bool
	Retention time.Duration
	// BranchAge is the largest age of the base of an open branch. When the base is
	// older, background collection parks the branch. If Retention is longer, it parks the
	// branch at the age Retention instead. Zero means that it parks no branch. See
	// Branch.Park.
	BranchAge time.Duration
	// Secrets lists, for each table, the families whose history is kept only for
	// SecretAge. SecretAge is 2 minutes by default.
	Secrets   map[string][]table.Family
	SecretAge time.Duration
	// Derived, if set, reports whether a table is one that WriteDerived writes. The journal
	// does not name the rows of such a table, so each collection examines all of them.
	Derived func(name string) bool
	// CollectRate bounds the number of rows that background collections examine per
	// second; 5,000 by default.
	CollectRate int
	// Consumed, if set, returns the revision up to which all consumers have read the
	// journal. Garbage collection keeps the records after this revision.
	Consumed func() table.Revision
	// Doubt, if set, is called with the time of the store's newest commit, and returns an
	// error if the wall clock cannot be trusted. While Doubt returns an error, a store of
	// one process commits nothing and keeps its history. Shared stores use Drift instead.
	Doubt func(newest time.Time) error
	// Observe, if set, is called with the outcome of every attempt to commit.
	Observe func(Attempt)
	// Now returns the time of the wall clock. The default is time.Now; tests set another
	// function.
	Now func() time.Time
	Log *slog.Logger
	// random is the source of tokens and of the lengths of pauses. The order of calls to
	// random depends only on the store's answers, so that a simulation can be repeated.
	random func() uint64
	// stripes is the number of stripes in changes, a power of two. A simulation sets a
	// small number because it opens thousands of DBs.
	stripes int
}

func (o Options) withDefaults() Options {
	if o.Owner == "" {
		host, _ := os.Hostname() // if the host is unknown, its name is empty
		o.Owner = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.Poll = cmp.Or(o.Poll, 50*time.Millisecond)
	o.InFlight = cmp.Or(o.InFlight, 30*time.Second)
	o.Drift = cmp.Or(o.Drift, time.Minute)
	o.Attempts = cmp.Or(o.Attempts, 16)
	o.SecretAge = cmp.Or(o.SecretAge, 2*time.Minute)
	o.CollectRate = cmp.Or(o.CollectRate, 5000)
	o.stripes = cmp.Or(o.stripes, 1<<16)
	o.ReadOnly = o.ReadOnly || o.Follow
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.random == nil {
		o.random = rand.Uint64
	}
	return o
}

// These are the errors of transactions. Errors of package table are returned wrapped.
var (
	// ErrConflict: other writers won every attempt, a bulk load is under way, another server is
	// alive or lags behind, or a branch or checkpoint was changed at the same time. What was
	// requested was not done.
	ErrConflict = errors.New("conflicting writes, retries exhausted")
	// ErrReadOnly: this server opened the store for reading, or another server has taken over from
	// this one.
	ErrReadOnly = errors.New("this server does not write")
	// ErrUnknown: the store failed while it decided or published the commit. The commit
	// may or may not have been made.
	ErrUnknown = errors.New("outcome unknown")
	// ErrRevision: the requested snapshot is not available.
	ErrRevision = errors.New("no such revision")
	// ErrFuture: the requested state is in the future.
	ErrFuture = errors.New("the state requested is in the future")
	// ErrForgotten: the journal no longer has all commits after a frontier.
	ErrForgotten = errors.New("the changes since then are no longer kept")
	// ErrForeign: a frontier names commits that this store never made or has lost.
	ErrForeign = errors.New("not a state of this store")
)

// DB is a store opened for transactions. The types that it embeds hold the DB; each has the methods
// and the state of one concern.
type DB struct {
	checkpoints
	collector
	frontiers
	numbering
	refusal
	registry
	roster
	steps

	store    table.Store
	o        Options
	log      *journal.Log
	commits  committer
	views    viewer
	horizon  keeper
	branches brancher
	peers    stepper   // nil if no other server writes this store
	alone    *embedded // nil if other servers may write this store
	gate     gate
	turns    turns
	running  running
	changes  changes

	current atomic.Pointer[Snapshot]
	shown   broadcast // signals a new current state, or that a commit is late or failed
}

// A committer makes commits on one kind of store.
type committer interface {
	// writable returns nil if commits are possible, and otherwise the reason why they are
	// refused.
	writable() error
	// stamp issues an id that no commit will use.
	stamp() (table.Revision, error)
	// commit makes a transaction durable and shows it. If another commit conflicts, commit
	// returns the conflict instead. Before the next attempt the caller passes the conflict to
	// the method wait.
	commit(ctx context.Context, tx *Tx) (r table.Revision, met *conflict, err error)
	// wait returns when the transaction may be tried again after the conflict c.
	wait(ctx context.Context, c *conflict) error
	// bulk begins a load. Until the load ends, there is no other commit.
	bulk(ctx context.Context, o table.BulkOptions) (loader, error)
	close(ctx context.Context) error
}

// A viewer provides the states of a store that can be read.
type viewer interface {
	// fresh returns nil if the state shown is new enough to be read, and otherwise the
	// reason why it is not.
	fresh() error
	// tenured reports whether it is certain that collections on other servers wait for
	// this server's snapshots of the past.
	tenured() bool
	// catchUp returns when the state shown includes every commit that any server had made
	// when catchUp was called.
	catchUp(ctx context.Context) error
	// The method "at" returns the state at the revision r, which must not be above the newest
	// revision.
	at(ctx context.Context, r table.Revision) (*Snapshot, error)
	// The method "until" waits until no further commit can have a revision of at most r, and
	// then returns the state at r. r may be above the newest revision but must not be in
	// the future.
	until(ctx context.Context, r table.Revision) (*Snapshot, error)
	// atFrontier returns the state at a frontier, or nil if this server has not reached
	// the frontier.
	atFrontier(f revision.Frontier) *Snapshot
}

// A keeper decides what garbage collection keeps.
type keeper interface {
	// bounds returns the limits of what may be collected now.
	bounds(ctx context.Context) (*bounds, error)
	// mutate calls the function do, which changes the store. The change is safe only while
	// other servers keep what this server's snapshots show. If that is not certain now, mutate
	// returns an error.
	mutate(ctx context.Context, do func(context.Context) error) error
}

// A brancher makes, changes and ends branches on one kind of store.
type brancher interface {
	create(ctx context.Context, name string) (*Branch, error)
	update(ctx context.Context, b *Branch, fn func(*Tx) error) (table.Revision, error)
	clashes(ctx context.Context, b *Branch) ([]Clash, error)
	mayHaveChanged(ctx context.Context, b *Branch, ids iter.Seq[entry.ID]) ([]entry.ID, error)
	merge(ctx context.Context, b *Branch, message []byte) (table.Revision, error)
	discard(ctx context.Context, b *Branch) error
	rename(ctx context.Context, b *Branch, name string) error
	park(ctx context.Context, b *Branch) error
}

// A stepper commits on a store that other servers also write. It finds conflicts with
// commits of other servers by marks in the store. It also orders, in steps, changes of
// the settings that must be the same on all servers.
type stepper interface {
	// reserve places the marks of a transaction that holds a turn, before it begins its next attempt.
	reserve(ctx context.Context, a *attempt) (*conflict, error)
	// alone returns when no other server writes. If another server is alive, alone
	// returns an error that names the other server.
	alone(ctx context.Context) error
	// awaitCells returns when ready returns true for the cell of every server that may
	// write. If that takes too long, it returns ErrConflict.
	awaitCells(ctx context.Context, ready func(*revision.Cell) bool) error
	// publishStep publishes the step that this server works by, as soon as the protocol
	// allows.
	publishStep()
	// incarnation returns the holder that commits for this server now, or the zero
	// Holder.
	incarnation() Holder
	// The method "over" reports whether a holder's tenure has ended.
	over(h Holder) bool
	// backfiller returns a writer that writes cells outside transactions.
	backfiller() (backfiller, error)
}

// A conflict describes the commits that exclude a transaction. The transaction waits for these
// commits before its next attempt. If others is not empty, other servers made them. If
// ordinal is not zero, this server made it. If both are zero, the commit is not known or
// not decided, and the transaction waits for a short time at most.
type conflict struct {
	// ordinal is the ordinal of the first state that shows this server's commit. It is
	// zero if the commit is undecided.
	ordinal uint64
	// others are revisions of other servers. taken is set if another server made the transaction's
	// commit void.
	others []table.Revision
	taken  bool
	// mark is the mark of the transaction that conflicts, on a store that other servers may write.
	mark placed
}

// isOthers reports whether the conflict is with a commit of another server.
func (c *conflict) isOthers() bool { return c != nil && (c.taken || len(c.others) > 0) }

// Open creates the tables journal and cluster if they are missing, and claims a slot
// unless o.ReadOnly is set. A server that may write also recovers, in the background, the
// commits that silent servers left undecided, after the leases of these servers have ended.
// While another server loads in bulk, no slot can be claimed, and Update fails with
// table.ErrUnavailable until the load has ended. A store that is a table.Batcher can have
// only one DB at a time.
func Open(ctx context.Context, s table.Store, o Options) (*DB, error) {
	db := &DB{store: s, o: o.withDefaults()}
	db.checkpoints.db, db.collector.db, db.frontiers.db, db.numbering.db = db, db, db, db
	db.refusal.db, db.registry.db, db.roster.db, db.steps.db = db, db, db, db
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
	db.collector.start()
	return db, nil
}

// ErrIncomplete: the store was not made completely.
var ErrIncomplete = errors.New("the store is incomplete: the command that made it was interrupted, run it again")

// createTables creates the tables that are missing. If no table is missing, it does not
// call Create, because a store that was opened for reading cannot create tables.
func (db *DB) createTables(ctx context.Context) error {
	names, err := db.store.Names(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(names, journal.Incomplete) {
		return ErrIncomplete
	}
	if slices.Contains(names, journal.Table) && slices.Contains(names, journal.Cluster) {
		return nil
	}
	return db.store.Create(ctx, journal.Specs()...)
}

// Close waits until running commits have ended, releases the slot and stops the DB. It does
// not close the store.
func (db *DB) Close(ctx context.Context) error {
	db.collector.stop()
	if err := db.gate.close(ctx); err != nil {
		return fmt.Errorf("closing %s: %w", db.store, err)
	}
	if err := db.commits.close(ctx); err != nil {
		return fmt.Errorf("closing %s: %w", db.store, err)
	}
	return nil
}

// CatchUp returns when Snapshot shows every commit that any server of the store had made
// when CatchUp was called.
func (db *DB) CatchUp(ctx context.Context) error { return db.views.catchUp(ctx) }

// Alone returns when no other server writes to the store. If another server is alive,
// Alone returns ErrConflict with the name of that server. Alone is for changes that other
// servers would not notice. Alone waits until the slot of a silent server is recovered,
// because that server may be dead.
func (db *DB) Alone(ctx context.Context) error {
	if db.peers == nil {
		return nil
	}
	return db.peers.alone(ctx)
}

// Store returns the store that the DB was opened on.
func (db *DB) Store() table.Store { return db.store }

// Table returns a table. It must have been created with the store's Create.
func (db *DB) Table(name string) table.Table { return db.store.Table(name) }
