// Package table is the contract between the directory and the store it lives
// in: wide-column tables as HBase has them, with the weakest promises of the
// engines behind it.
//
// A [Store] holds named tables. A table maps a row key (bytes, sorted) to
// cells; a [Cell] has a family, a qualifier, a value and the [Revision] that
// wrote it. Writers never overwrite and never delete: a newer revision hides an
// older one, and a logical delete is a tombstone written like any other cell.
// A [View] says which revisions a reader sees.
//
// What a store promises:
//
//   - One row's part of an Apply is atomic; an Apply as a whole is not. When it
//     returns nil, all of it is durable.
//   - Apply is idempotent: the same mutations at the same revision, once more,
//     change nothing.
//   - Swap is linearizable on one row of an unversioned table. An error leaves
//     its outcome unknown, and false may follow a swap that did happen (clients
//     send again): the caller reads the cell to know.
//   - A Scan yields rows in key order and loses none. It is not a snapshot of
//     the store; the View makes it one.
//
// Nothing is forgotten by itself: [Collector] takes away what no reader needs any
// more, and [Redactor] what nobody may read any more.
//
// Extra powers of an engine are the optional interfaces [Batcher], [Bulker], [Refuser] and
// [Reclaimer].
// Package tabletest holds every engine to this page.
package table

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
)

// A Family names a column family: one letter, as it is on disk.
type Family byte

// Spec describes a table.
type Spec struct {
	Name     string
	Families []FamilySpec
	// Unversioned tables (cluster, journal) keep the newest value only. They
	// are written by Swap alone and read with a nil View.
	Unversioned bool
	// Splits are the row keys at which a distributed engine cuts a new table
	// into regions. Others ignore them.
	Splits [][]byte
}

// FamilySpec describes one family of a table.
type FamilySpec struct {
	Name Family
	// With names an earlier family of the table that is nearly always read
	// together with this one; an engine may store the two as one. Zero: alone.
	With Family
	// ImageLimit is the size in bytes up to which an engine may keep a row's
	// cells of this family in one piece, rewritten by each revision. Zero is
	// 8 KiB. Families whose rows grow by small cells want it small.
	ImageLimit int
}

// A Cell is one value of one column.
type Cell struct {
	Family    Family
	Tombstone bool // logically deleted; Value is empty
	Qualifier []byte
	Value     []byte
	Revision  Revision // set by readers; writers leave it to Apply
}

// A Row is a row's visible cells, sorted by family, then qualifier. Tombstones
// are never among them. A row that a scan yields is valid until the scan goes
// on: Clone what you keep. Its bytes must not be changed.
type Row struct {
	Key   []byte
	Cells []Cell
}

// A Mutation is what one revision does to one row. DeleteRow hides every older
// cell of the row in every family; Cells given beside it are written on top.
type Mutation struct {
	Row       []byte
	DeleteRow bool
	Cells     []Cell
}

// A View decides what a reader sees: of each column the newest cell whose
// revision is visible. A nil View sees the newest cell.
type View interface {
	// Max is the largest revision that may be visible.
	Max() Revision
	// Low is the low-water mark: every revision up to it is decided, and
	// visible unless it left no cells. It never exceeds Max.
	Low() Revision
	// Visible reports whether the view shows what r wrote.
	Visible(r Revision) bool
}

// A Select says what of a row is wanted. The zero Select is every family at
// the newest revision.
type Select struct {
	View     View
	Families []Family // empty: all
	// Columns narrows a family to ranges of qualifiers. A family without a
	// range among them is read whole if Families names it (or is empty).
	Columns []ColumnRange
	// MaxCells bounds the cells of a row, counted over all that was selected;
	// zero is no bound. With one Columns range and From moved on, it pages
	// through rows of a million columns.
	MaxCells int
	// Filter lets an engine leave out rows that cannot interest the caller. It
	// is a hint: rows for which it is false may still come, and the caller
	// tests again. Rows that do come are complete as selected.
	Filter Filter
	// Reverse makes Scan go from the end to the start.
	Reverse bool
	// MaxRows ends a scan after so many rows; zero is no bound.
	MaxRows int
}

// Has reports whether a column is selected: all of a family that is named, or what
// lies in one of the family's ranges if it has any.
func (s *Select) Has(c Cell) bool {
	if len(s.Families) > 0 && !slices.Contains(s.Families, c.Family) {
		return false
	}
	narrowed := false
	for _, r := range s.Columns {
		if r.Family != c.Family {
			continue
		}
		narrowed = true
		if bytes.Compare(c.Qualifier, r.From) >= 0 && (len(r.To) == 0 || bytes.Compare(c.Qualifier, r.To) < 0) {
			return true
		}
	}
	return !narrowed
}

// A ColumnRange is the qualifiers from From up to, not including, To; an empty
// To has no end. A single column q is {From: q, To: q + 0x00}.
type ColumnRange struct {
	Family   Family
	From, To []byte
}

// Column is the range that holds the qualifier q alone.
func Column(f Family, q []byte) ColumnRange {
	to := make([]byte, len(q)+1)
	copy(to, q)
	return ColumnRange{f, to[:len(q):len(q)], to}
}

// ColumnPrefix is the range of qualifiers that begin with p.
func ColumnPrefix(f Family, p []byte) ColumnRange {
	return ColumnRange{f, p, PrefixEnd(p)}
}

// A Range is the rows from Start up to, not including, End; an empty End has
// no end.
type Range struct{ Start, End []byte }

// Prefix is the range of rows that begin with p.
func Prefix(p []byte) Range { return Range{p, PrefixEnd(p)} }

// PrefixEnd is the smallest key larger than every key that begins with p, or
// nil when there is none.
func PrefixEnd(p []byte) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != 0xff {
			end := append([]byte(nil), p[:i+1]...)
			end[i]++
			return end
		}
	}
	return nil
}

// A Table is one table of a store. Its methods may be called concurrently.
type Table interface {
	// Name returns the name that Create gave it.
	Name() string
	// Get reads one row. A row that has no visible cell comes back with its
	// key and no cells.
	Get(ctx context.Context, row []byte, s Select) (Row, error)
	// GetMany reads rows in one round trip where the engine has such a thing;
	// answers stand in the order asked.
	GetMany(ctx context.Context, rows [][]byte, s Select) ([]Row, error)
	// Scan streams the rows of r that have at least one visible cell in the
	// selection. It ends with the first error.
	Scan(ctx context.Context, r Range, s Select) iter.Seq2[Row, error]
	// Apply writes mutations at revision r: every row atomically, the whole
	// not. After an error any part of it may have been written.
	Apply(ctx context.Context, r Revision, ms []Mutation) error
	// Erase removes physically what revision r wrote into a row. Only for
	// rolling back a revision that nobody can see.
	Erase(ctx context.Context, r Revision, rows [][]byte) error
	// Swap writes cells into a row of an unversioned table if the cell
	// (f, q) holds old; a nil old means that the cell must be absent. Values
	// are never empty. A Tombstone cell deletes its column. See the package
	// comment for what an error and false leave open.
	Swap(ctx context.Context, row []byte, f Family, q, old []byte, cells []Cell) (bool, error)
}

// A Versioner is a Table that can show what lies below a View. Commits read the
// marks of others by it, so the tables of every engine that is no [Batcher] are
// Versioners.
type Versioner interface {
	// Versions reads every cell of a family of some rows that was written by
	// revisions above after: of all revisions, visible or not, tombstones too,
	// but not what DeleteRow leaves. Answers stand in the order asked, their
	// cells by qualifier, newest first.
	Versions(ctx context.Context, rows [][]byte, f Family, after Revision) ([]Row, error)
}

// A Store is an open set of tables.
type Store interface {
	// Create makes the tables that are missing. One that exists with other
	// families is an error.
	Create(ctx context.Context, specs ...Spec) error
	// Drop removes tables with all they hold; a missing one is no error.
	Drop(ctx context.Context, names ...string) error
	// Names lists the tables, sorted.
	Names(ctx context.Context) ([]string, error)
	// Table returns a table made by Create. Using one that does not exist is an
	// error of the first call.
	Table(name string) Table
	// String names the store for messages: a folder or a URL.
	String() string
	Close() error
}

// A Write is a mutation list for one table of a Batch.
type Write struct {
	Table     string
	Mutations []Mutation
}

// Rows names rows of one table.
type Rows struct {
	Table string
	Keys  [][]byte
}

// A Batch is what one commit writes. For unversioned tables the cells simply
// replace what is there.
type Batch struct {
	Revision Revision
	Writes   []Write
	// Last, if there is one, is called within Commit with the rows of versioned
	// tables that were there before and are written over, sorted, and gives a
	// last write, to an unversioned table.
	Last func(over []Rows) Write
	// Urgent is set for what leads to more space, or to an end in order: it may use
	// what an engine keeps for a full disk.
	Urgent bool
}

// A Batcher is a Store that commits to many rows of many tables atomically, in
// the order of the calls: whatever survives a crash is a prefix of them.
type Batcher interface {
	// Commit makes the batch readable and returns; it is durable once wait
	// has returned nil. Concurrent waits share one fsync. Calls of Commit must
	// not overlap; waits may. After ErrPending wait can be called again; after
	// another error the batch may be lost, and so may those behind it.
	Commit(ctx context.Context, b Batch) (wait func() error, err error)
}

// A Refuser is a Store that may take no writes for a time, or at all.
type Refuser interface {
	// Refuses returns why an ordinary write would fail with ErrRefused now, or nil.
	Refuses() error
}

// An Upgrader is a Store whose files keep the format that they have until they are
// upgraded, so that the version before can go on with them.
type Upgrader interface {
	// Formats returns the format of the files and the newest one.
	Formats() (now, newest int)
	// Upgrade raises the format to the newest one.
	Upgrade(ctx context.Context) error
}

// A Bulker is a Store that loads any number of cells in bounded memory by
// sorting, without going through its log.
type Bulker interface {
	// Bulk begins a load at revision r.
	Bulk(ctx context.Context, r Revision, o BulkOptions) (Bulk, error)
}

// BulkOptions bounds a load.
type BulkOptions struct {
	Memory   int64                  // bytes to sort in at once; zero is a default of the engine
	Progress func(done, of float64) // called now and then by Finish; may be nil
}

// A Bulk takes cells in any order; cells of one row may come in many calls and
// are merged with what the row already has. Add may be called concurrently.
type Bulk interface {
	Add(table string, ms ...Mutation) error
	// Finish adds last (the journal's and cluster's rows) and makes everything
	// readable and durable in one atomic step.
	Finish(ctx context.Context, last []Write) error
	// Abort drops the load and leaves nothing behind. After Finish it does
	// nothing.
	Abort() error
}

// Errors that engines return, wrapped with what they know.
var (
	// ErrUnavailable: the store cannot be reached or cannot write now (an
	// unreachable quorum, a deadline, a full disk). It may pass.
	ErrUnavailable = errors.New("store unavailable")
	// ErrPending, of a Batcher's wait, beside ErrUnavailable: the batch is not
	// durable yet but may become so (a full disk).
	ErrPending = errors.New("not durable yet")
	// ErrRefused, beside ErrUnavailable: the engine takes no writes now (a full disk,
	// a store opened for reading). Nothing was written; trying again does not help
	// before somebody makes space or opens the store again.
	ErrRefused = errors.New("write refused")
	// ErrLocked: another process holds the store.
	ErrLocked = errors.New("store in use")
	// ErrCorrupt: the store's bytes are not what was written.
	ErrCorrupt = errors.New("store corrupt")
	// ErrNewer: the store was made by a newer version.
	ErrNewer = errors.New("store made by a newer version")
	// ErrTooLarge: a value exceeds MaxValue.
	ErrTooLarge = errors.New("value too large")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store closed")
)

// MaxValue bounds a cell's value: HBase takes cells of 10 MiB, less some.
const MaxValue = 8 << 20
