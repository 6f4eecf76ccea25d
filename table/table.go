// Package table is the contract between the directory and its store: wide-column tables
// as in HBase, with the weakest promises of the engines behind it.
//
// A [Store] holds named tables. A table maps a row key (bytes, sorted) to cells; a
// [Cell] has a family, a qualifier, a value and the [Revision] that wrote it. Writers
// never overwrite and never delete: a newer revision hides an older one, and a logical
// delete is a tombstone written like any other cell. A [View] determines which
// revisions a reader sees.
//
// What a store promises:
//
//   - One row's part of an Apply is atomic; an Apply as a whole is not. When it returns
//     nil, all of it is durable.
//   - Apply is idempotent: repeating the same mutations at the same revision changes
//     nothing.
//   - Swap is linearizable on one row of an unversioned table. An error leaves its
//     outcome unknown, and false may follow a swap that did happen (clients send
//     again): the caller reads the cell to know.
//   - A Scan yields rows in key order and loses none. It is not a snapshot of the
//     store; the View makes it one.
//
// Nothing is removed unless asked for: [Collector] removes what no reader needs any
// more, and [Redactor] what nobody may read any more.
//
// Engines may implement the optional interfaces [Batcher], [Bulker], [Refuser] and
// [Reclaimer]. Package tabletest tests every engine against this contract.
package table

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
)

// A Family names a column family: one letter, as stored.
type Family byte

// A Spec describes a table.
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

// A FamilySpec describes one family of a table.
type FamilySpec struct {
	Name Family
	// With names an earlier family of the table that is nearly always read together
	// with this one. An engine may store the two as one. Zero means none.
	With Family
	// ImageLimit is the size in bytes up to which an engine may keep a row's cells of
	// this family in one piece, rewritten by each revision. Zero means 8 KiB. It should
	// be small for families whose rows grow by small cells.
	ImageLimit int
}

// A Cell is one value of one column.
type Cell struct {
	Family    Family
	Tombstone bool // logically deleted; Value is empty
	Qualifier []byte
	Value     []byte
	Revision  Revision // set for readers; writers leave it to Apply
}

// A Row has a row's visible cells, sorted by family, then qualifier, without
// tombstones. A row from a scan is valid until the scan continues: Clone what you keep.
// Its bytes must not be changed.
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

// A View determines what a reader sees: of each column, the newest cell with a visible
// revision. A nil View sees the newest cell.
type View interface {
	// Max returns the largest revision that may be visible.
	Max() Revision
	// Low returns the low-water mark: every revision up to it is decided, and visible
	// unless it left no cells. It never exceeds Max.
	Low() Revision
	// Visible reports whether the view shows what r wrote.
	Visible(r Revision) bool
}

// A Select selects parts of rows. The zero Select selects every family at the newest
// revision.
type Select struct {
	View     View
	Families []Family // empty: all
	// Columns narrows families to ranges of qualifiers. A selected family without such
	// a range is read whole. Families selects the families; if it is empty, all are.
	Columns []ColumnRange
	// MaxCells bounds the cells of a row, counted over all that was selected; zero
	// means no bound. With one range in Columns whose From advances, it pages through
	// rows of a million columns.
	MaxCells int
	// Filter lets an engine leave out rows that the caller does not need. It is a hint:
	// rows that do not match may still come, and the caller tests again. Rows that come
	// are complete as selected.
	Filter Filter
	// Reverse makes Scan go from the end to the start.
	Reverse bool
	// MaxRows ends a scan after so many rows; zero means no bound.
	MaxRows int
}

// Has reports whether a column is selected: its family must be, and if Columns has
// ranges of the family, one of them must contain the column.
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

// A ColumnRange is the qualifiers from From up to, but not including, To. An empty To
// means no end. A single column q is {From: q, To: q + 0x00}.
type ColumnRange struct {
	Family   Family
	From, To []byte
}

// Column returns the range of the single qualifier q.
func Column(f Family, q []byte) ColumnRange {
	to := make([]byte, len(q)+1)
	copy(to, q)
	return ColumnRange{f, to[:len(q):len(q)], to}
}

// ColumnPrefix returns the range of qualifiers that begin with p.
func ColumnPrefix(f Family, p []byte) ColumnRange {
	return ColumnRange{f, p, PrefixEnd(p)}
}

// A Range is the rows from Start up to, but not including, End. An empty End means no
// end.
type Range struct{ Start, End []byte }

// Prefix returns the range of rows that begin with p.
func Prefix(p []byte) Range { return Range{p, PrefixEnd(p)} }

// PrefixEnd returns the smallest key larger than every key that begins with p, or nil
// if there is none.
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
	// Get reads one row. A row without a visible cell is returned with its key and no
	// cells.
	Get(ctx context.Context, row []byte, s Select) (Row, error)
	// GetMany reads rows, in one round trip if the engine can. It returns them in the
	// order of rows.
	GetMany(ctx context.Context, rows [][]byte, s Select) ([]Row, error)
	// Scan streams the rows of r that have at least one selected visible cell. It ends
	// at the first error.
	Scan(ctx context.Context, r Range, s Select) iter.Seq2[Row, error]
	// Apply writes mutations at revision r: atomically for each row, but not as a
	// whole. After an error any part of it may have been written.
	Apply(ctx context.Context, r Revision, ms []Mutation) error
	// Erase physically removes what revision r wrote into rows. It is only for rolling
	// back a revision that nobody can see.
	Erase(ctx context.Context, r Revision, rows [][]byte) error
	// Swap writes cells into a row of an unversioned table if the cell (f, q) holds
	// old; a nil old means that the cell must be absent. Values are never empty. A
	// Tombstone cell deletes its column. See the package comment for what is known
	// after an error or false.
	Swap(ctx context.Context, row []byte, f Family, q, old []byte, cells []Cell) (bool, error)
}

// A Versioner is a Table that can return versions a View hides. Commits use it to read
// the marks of others, so the tables of every engine that is not a [Batcher] are
// Versioners.
type Versioner interface {
	// Versions reads all cells of a family of some rows that revisions above after
	// wrote: of visible and invisible revisions, including tombstones, but not those of
	// DeleteRow. It returns rows in the order asked, and their cells by qualifier,
	// newest first.
	Versions(ctx context.Context, rows [][]byte, f Family, after Revision) ([]Row, error)
}

// A Store is an open set of tables.
type Store interface {
	// Create creates missing tables. It fails if a table exists with other families.
	Create(ctx context.Context, specs ...Spec) error
	// Drop removes tables with all their content. It ignores missing ones.
	Drop(ctx context.Context, names ...string) error
	// Names returns the names of the tables, sorted.
	Names(ctx context.Context) ([]string, error)
	// Table returns a table made by Create. If it does not exist, its first call fails.
	Table(name string) Table
	// String names the store for messages: a folder or a URL.
	String() string
	Close() error
}

// A Write is the mutations of a Batch for one table.
type Write struct {
	Table     string
	Mutations []Mutation
}

// Rows names rows of one table.
type Rows struct {
	Table string
	Keys  [][]byte
}

// A Batch is what one commit writes. In unversioned tables its cells simply replace
// older ones.
type Batch struct {
	Revision Revision
	Writes   []Write
	// Last, if set, is called within Commit to return a last write, to an unversioned
	// table. over are the rows of versioned tables that existed and are written over,
	// sorted.
	Last func(over []Rows) Write
	// Urgent is set if the commit leads to more free space or to an orderly end. It may
	// use what an engine reserves for a full disk.
	Urgent bool
}

// A Batcher is a Store that commits atomically to many rows of many tables, in the
// order of the calls: what survives a crash is a prefix of them.
type Batcher interface {
	// Commit makes the batch readable and returns. The batch is durable once wait has
	// returned nil. Concurrent waits share one fsync. Calls of Commit must not overlap;
	// waits may. After ErrPending wait can be called again. After another error the
	// batch may be lost, and so may later ones.
	Commit(ctx context.Context, b Batch) (wait func() error, err error)
}

// A Refuser is a Store that may refuse writes, for a time or for good.
type Refuser interface {
	// Refuses returns why an ordinary write would fail with ErrRefused now, or nil.
	Refuses() error
}

// An Upgrader is a Store whose files keep their format until Upgrade, so that the
// previous version can still use them.
type Upgrader interface {
	// Formats returns the format of the files and the newest one.
	Formats() (now, newest int)
	// Upgrade raises the format to the newest one.
	Upgrade(ctx context.Context) error
}

// A Bulker is a Store that loads any number of cells in bounded memory by sorting,
// without using its log.
type Bulker interface {
	// Bulk begins a load at revision r.
	Bulk(ctx context.Context, r Revision, o BulkOptions) (Bulk, error)
}

// BulkOptions are the options of a load.
type BulkOptions struct {
	Memory   int64                  // bytes to sort in; zero means the engine's default
	Progress func(done, of float64) // called now and then by Finish; may be nil
}

// A Bulk takes cells in any order. Cells of one row may come in many calls and are
// merged with the row's existing cells. Add may be called concurrently.
type Bulk interface {
	Add(table string, ms ...Mutation) error
	// Finish adds last (the journal's and cluster's rows) and makes everything readable
	// and durable in one atomic step.
	Finish(ctx context.Context, last []Write) error
	// Abort drops the load completely. After Finish it does nothing.
	Abort() error
}

// Errors that engines return, wrapped with details.
var (
	// ErrUnavailable: the store cannot be reached or cannot write now (an
	// unreachable quorum, a deadline, a full disk). It may pass.
	ErrUnavailable = errors.New("store unavailable")
	// ErrPending, from a Batcher's wait and together with ErrUnavailable: the batch is
	// not durable yet but may become so (a full disk).
	ErrPending = errors.New("not durable yet")
	// ErrRefused, together with ErrUnavailable: the engine takes no writes now (a full
	// disk, a store opened for reading). Nothing was written. Trying again does not
	// help until somebody makes space or reopens the store.
	ErrRefused = errors.New("write refused")
	// ErrLocked: another process holds the store.
	ErrLocked = errors.New("store in use")
	// ErrCorrupt: the store's bytes differ from what was written.
	ErrCorrupt = errors.New("store corrupt")
	// ErrNewer: the store was made by a newer version.
	ErrNewer = errors.New("store made by a newer version")
	// ErrTooLarge: a value exceeds MaxValue.
	ErrTooLarge = errors.New("value too large")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store closed")
)

// MaxValue bounds a cell's value. HBase takes cells of 10 MiB, less some.
const MaxValue = 8 << 20
