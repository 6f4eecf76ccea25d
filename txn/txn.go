// Package txn makes a table store transactional: snapshots to read at, and
// transactions that commit at one revision or not at all, by the protocol of
// docs/design/transactions.md.
//
// A [DB] is a store opened by one server. [DB.Snapshot] gives the newest state
// the server may show; [DB.Update] runs a function on a [Tx] and commits what it
// wrote, again on a newer snapshot if another commit came between. On an engine
// that commits atomic batches (table.Batcher) conflicts are found in memory and
// journal, cells and head are one synced batch; on others a commit writes its
// journal row, its cells, the decision, and publishes.
package txn

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/table"
)

var errStub = errors.New("txn: not written yet")

// MarkFamily is the family of master and tree rows (and of table unique) that
// holds conflict marks. Whoever makes those tables includes it; engines that
// find conflicts in memory leave it empty.
const MarkFamily table.Family = 'm'

// Options of a DB; the zero Options are good.
type Options struct {
	// Owner names this server to people: host and process by default.
	Owner string
	// ReadOnly opens without claiming a slot; Update then fails with
	// ErrReadOnly.
	ReadOnly bool
	// Lease is how long a silent server keeps its slot; 10 s by default.
	Lease time.Duration
	// Poll is how often heads are read when nothing else reads them; 50 ms by
	// default. Stores of one process do not poll.
	Poll time.Duration
	// Attempts bounds the tries of an Update; 16 by default.
	Attempts int
	// Now is the wall clock, for tests.
	Now func() time.Time
	Log *slog.Logger
}

// DB is a store opened for transactions.
type DB struct{}

// Open makes the tables journal and cluster if they are missing, recovers what
// a predecessor left, and claims a slot unless o.ReadOnly. A store with another
// live writer opens as a follower (see ReadOnly and Writer).
func Open(ctx context.Context, s table.Store, o Options) (*DB, error) { panic(errStub) }

// Close waits for commits under way, gives the slot back and stops. It does not
// close the store.
func (db *DB) Close(ctx context.Context) error { panic(errStub) }

// Store gives the store below.
func (db *DB) Store() table.Store { panic(errStub) }

// A Table is a handle on one table of the DB.
type Table struct {
	Name string
	table.Table
}

// Table gives the handle of a table that Create of the store has made.
func (db *DB) Table(name string) *Table { panic(errStub) }

// A Reader reads rows at one state: a *Snapshot, or a *Tx that sees its own
// writes too. Select.View is the reader's business: callers leave it nil.
type Reader interface {
	Get(ctx context.Context, t *Table, row []byte, s table.Select) (table.Row, error)
	GetMany(ctx context.Context, t *Table, rows [][]byte, s table.Select) ([]table.Row, error)
	Scan(ctx context.Context, t *Table, r table.Range, s table.Select) iter.Seq2[table.Row, error]
}

// Snapshot is a state of the store that does not change (a table.View). Close
// it when done, so that garbage collection may pass it.
type Snapshot struct{}

var _ Reader = (*Snapshot)(nil)
var _ table.View = (*Snapshot)(nil)

// Snapshot gives the newest published state. It is cheap.
func (db *DB) Snapshot() *Snapshot { panic(errStub) }

// At gives the state at a past revision. A revision above the newest is an
// error.
func (db *DB) At(ctx context.Context, r table.Revision) (*Snapshot, error) { panic(errStub) }

func (s *Snapshot) Close()                        { panic(errStub) }
func (s *Snapshot) Max() table.Revision           { panic(errStub) }
func (s *Snapshot) Low() table.Revision           { panic(errStub) }
func (s *Snapshot) Visible(r table.Revision) bool { panic(errStub) }

// Ordinal counts the states this server has shown: of two current snapshots the
// one with the larger ordinal shows all that the other shows. Zero for
// snapshots of the past: what was read there is not for caches.
func (s *Snapshot) Ordinal() uint64 { panic(errStub) }

// Unchanged reports whether no commit that s shows, beyond those a snapshot of
// ordinal since showed, has touched id. It may say false without need, never
// true wrongly. False for snapshots of the past and when since > s.Ordinal().
func (s *Snapshot) Unchanged(id entry.ID, since uint64) bool { panic(errStub) }

func (s *Snapshot) Get(ctx context.Context, t *Table, row []byte, sel table.Select) (table.Row, error) {
	panic(errStub)
}
func (s *Snapshot) GetMany(ctx context.Context, t *Table, rows [][]byte, sel table.Select) ([]table.Row, error) {
	panic(errStub)
}
func (s *Snapshot) Scan(ctx context.Context, t *Table, r table.Range, sel table.Select) iter.Seq2[table.Row, error] {
	panic(errStub)
}

// MarkKind says what a transaction does to what a row stands for
// (transactions.md, "Marks per entry").
type MarkKind byte

const (
	// MarkExclusive (x): create, delete, rename; with Deletes it conflicts
	// with MarkChild.
	MarkExclusive MarkKind = 'x'
	// MarkUpdate (u): modify.
	MarkUpdate MarkKind = 'u'
	// MarkValue (v): one value added to or removed from a multi-valued
	// attribute; Hash is of attribute and value.
	MarkValue MarkKind = 'v'
	// MarkChild (c): a child added or moved in.
	MarkChild MarkKind = 'c'
)

// A Mark declares what a transaction does to a row, so that concurrent
// transactions that cannot both be right do not both commit.
type Mark struct {
	Kind    MarkKind
	Deletes bool
	Hash    uint64
}

// Tx is one attempt of a transaction: a Reader at a snapshot overlaid with its
// own writes. It is used by one goroutine.
type Tx struct{}

var _ Reader = (*Tx)(nil)

// Snapshot is the state the transaction began at.
func (tx *Tx) Snapshot() *Snapshot { panic(errStub) }

// Stamp is an id larger than every revision the snapshot shows and unique to
// this attempt: for positions and change numbers. It is not the revision of the
// commit, which comes later and is larger.
func (tx *Tx) Stamp() table.Revision { panic(errStub) }

// Write adds mutations to be committed. Later ones lie over earlier ones.
func (tx *Tx) Write(t *Table, ms ...table.Mutation) { panic(errStub) }

// Mark declares what the transaction does to a row.
func (tx *Tx) Mark(t *Table, row []byte, m Mark) { panic(errStub) }

// Touch names entries (or other things with an ID) that the commit changes, for
// caches and followers.
func (tx *Tx) Touch(ids ...entry.ID) { panic(errStub) }

// SetMessage is what the journal keeps of the commit: who did what.
func (tx *Tx) SetMessage(m []byte) { panic(errStub) }

func (tx *Tx) Get(ctx context.Context, t *Table, row []byte, sel table.Select) (table.Row, error) {
	panic(errStub)
}
func (tx *Tx) GetMany(ctx context.Context, t *Table, rows [][]byte, sel table.Select) ([]table.Row, error) {
	panic(errStub)
}
func (tx *Tx) Scan(ctx context.Context, t *Table, r table.Range, sel table.Select) iter.Seq2[table.Row, error] {
	panic(errStub)
}

// Update runs fn on a transaction and commits what it wrote. When another
// commit conflicts it runs fn again on a newer snapshot, a bounded number of
// times with growing, jittered pauses, then fails with ErrConflict. An error of
// fn ends it as it is, nothing written. A transaction that wrote nothing commits
// nothing. Update returns once the commit is durable and every later Snapshot
// shows it. A commit whose outcome cannot be learned fails with ErrUnknown.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) (table.Revision, error) {
	panic(errStub)
}

// Bulk is one huge commit, written past the usual path: nothing of it is seen
// until Commit, then all of it. It has no marks: its caller keeps other writers
// out.
type Bulk struct{}

// Bulk begins a load. On stores that are neither Batcher nor Bulker the rows
// are written as they come, at a revision that stays invisible until Commit.
func (db *DB) Bulk(ctx context.Context, o table.BulkOptions) (*Bulk, error) { panic(errStub) }

// Stamp is as Tx.Stamp.
func (b *Bulk) Stamp() table.Revision { panic(errStub) }

// Write adds mutations; it may be called concurrently. Cells of one row may
// come in several calls.
func (b *Bulk) Write(ctx context.Context, t *Table, ms ...table.Mutation) error { panic(errStub) }

// Commit makes the load durable and visible at one revision, in one step.
func (b *Bulk) Commit(ctx context.Context, message []byte) (table.Revision, error) { panic(errStub) }

// Abort undoes the load. After Commit it does nothing.
func (b *Bulk) Abort(ctx context.Context) error { panic(errStub) }

// Errors of transactions. Those of package table come through wrapped.
var (
	// ErrConflict: other writers kept winning; nothing was written.
	ErrConflict = errors.New("conflicting writes, retries exhausted")
	// ErrReadOnly: this server does not write (another one does).
	ErrReadOnly = errors.New("this server does not write")
	// ErrUnknown: the store failed between decision and publishing; whether
	// the commit stands cannot be told.
	ErrUnknown = errors.New("outcome unknown")
	// ErrRevision: a snapshot was asked for that is not to be had.
	ErrRevision = errors.New("no such revision")
)
