// Package table is the contract between the directory and its store. The store has
// wide-column tables as in HBase, and the contract promises only what every engine can
// do.
//
// A [Store] contains named tables. A table maps row keys (sorted bytes) to cells. A [Cell] has
// a family, a qualifier, a value and the [Revision] that wrote it. In a versioned table,
// writers never overwrite and never delete: a newer revision hides an older one, and a logical
// delete is a tombstone that is written like any other cell. A [View] determines which
// revisions a reader sees.
//
// A store promises the following:
//
//   - An Apply is atomic within each row, but not as a whole. When Apply returns nil, all
//     of it is durable.
//   - Apply is idempotent: repeating the same mutations at the same revision changes
//     nothing.
//   - Swap is linearizable on one row of an unversioned table. After an error it is
//     unknown whether the swap happened. Swap may also return false although the swap
//     happened, because a client may send the same request twice. In both cases the
//     caller must read the cell to find out.
//   - A Scan yields rows in key order and skips none. A Scan without a View is not a
//     snapshot of the store; a View makes it one.
//
// Nothing is removed from a versioned table without a request: [Collector] removes what no
// reader needs any more, and [Redactor] removes what no reader may read any more.
//
// Engines may implement the optional interfaces [Batcher], [Bulker], [Refuser], [Reclaimer],
// [Upgrader] and [Resealer]. Package tabletest tests every engine against this contract.
package table

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
)

// A Family is the name of a column family: one letter, as stored.
type Family byte

// A Spec describes a table.
type Spec struct {
	Name     string
	Families []FamilySpec
	// Unversioned tables (such as cluster and journal) keep only the newest value of a cell.
	// They are written only by Swap, a Batch or a Bulk, and read with a nil View.
	Unversioned bool
	// Splits lists the row keys at which a distributed engine splits a new table into
	// regions. Other engines ignore them.
	Splits [][]byte
	// Spread says that regions are of use only where several servers can have them.
	Spread bool
}

// A FamilySpec describes one family of a table.
type FamilySpec struct {
	Name Family
	// With is an earlier family of the table that is nearly always read together with
	// this family. An engine may store the two families as one. Zero means that there is
	// no such family.
	With Family
	// ImageLimit is a size in bytes. An engine may keep a row's cells of this family in one
	// piece if they are not larger. Each revision that changes the row rewrites that piece.
	// Zero means 8 KiB. The limit should be small for families whose rows grow by small
	// cells.
	ImageLimit int
}

// A Cell is one value of one column.
type Cell struct {
	Family    Family
	Tombstone bool // the cell is logically deleted; Value is empty
	Qualifier []byte
	Value     []byte
	Revision  Revision // set for readers; writers leave it zero, and Apply sets it
}

// A Row contains a row's visible cells, sorted by family and then by qualifier, without
// tombstones. A row from a scan is valid until the scan continues: use Clone to keep it
// longer. The bytes of a Row must not be changed.
type Row struct {
	Key   []byte
	Cells []Cell
}

// A Mutation is the change that one revision makes to one row. DeleteRow hides every
// older cell of the row in every family. If Cells are given too, they are written after
// the deletion.
type Mutation struct {
	Row       []byte
	DeleteRow bool
	Cells     []Cell
}

// A View determines what a reader sees: in each column, the newest cell whose revision is
// visible. A nil View shows the newest cell of each column.
type View interface {
	// Max returns the largest revision that may be visible.
	Max() Revision
	// Low returns the low-water mark. Every revision up to the mark is decided: it is
	// either visible or has no cells in the store. Revisions of parked branches are an
	// exception. Low never exceeds Max.
	Low() Revision
	// Visible reports whether the view shows the changes of r.
	Visible(r Revision) bool
}

// A Causal is a View that can promise to be causal. A causal view that shows a revision
// also shows everything that the writer of that revision saw (Batch.View). This helps an
// engine that keeps rows in one piece. The engine may find the row's newest revision that
// the view shows, and return the row as it was after that revision. A View that is not a
// Causal may show a revision and hide any other revision.
type Causal interface {
	View
	// IsCausal reports whether the view makes this promise. The result must not change
	// during the life of the view.
	IsCausal() bool
}

// A Select selects parts of rows. The zero Select selects every family at the newest
// revisions.
type Select struct {
	View     View
	Families []Family // if empty, all families
	// Columns narrows families to ranges of qualifiers. A selected family without a range
	// in Columns is read whole. Columns does not select families: Families does, and if
	// it is empty, all families are selected.
	Columns []ColumnRange
	// MaxCells bounds the number of cells of a row, counted over everything selected;
	// zero means no bound. With a single range in Columns, a caller can page through a
	// row of a million columns by advancing From.
	MaxCells int
	// Filter lets an engine leave out rows that the caller does not need. It is a hint:
	// rows that do not match may still be returned, and the caller must test them again.
	// Returned rows contain everything selected.
	Filter Filter
	// Reverse makes Scan return rows from the end of the range to the start.
	Reverse bool
	// MaxRows ends a scan after this many rows; zero means no bound.
	MaxRows int
	// Expect is the number of rows of a scan that the caller will probably read; zero means that this
	// is not known. An engine may read so many rows in its first call.
	Expect int
}

// Has reports whether s selects the column of c. It returns false if s does not select
// the family of c, or if Columns has ranges of this family and none of them contains the
// qualifier of c.
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

// A ColumnRange is the range of qualifiers from From up to, but not including, To. An
// empty To means no end. A single column q is {From: q, To: q + 0x00}.
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

// A Range is the range of rows from Start up to, but not including, End. An empty End
// means no end.
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

// A Table is one table of a store. Its methods may be called concurrently. A call that
// fails because its context has ended returns the context's cause.
type Table interface {
	// Name returns the name with which Create created the table.
	Name() string
	// Get reads one row. If the row has no visible cell, Get returns a Row with the key
	// and without cells.
	Get(ctx context.Context, row []byte, s Select) (Row, error)
	// GetMany reads several rows, in one round trip if the engine can. It returns the
	// rows in the order of the argument rows.
	GetMany(ctx context.Context, rows [][]byte, s Select) ([]Row, error)
	// Scan streams the rows of r that have at least one selected visible cell. The scan ends
	// at the first error.
	Scan(ctx context.Context, r Range, s Select) iter.Seq2[Row, error]
	// Apply writes mutations at revision r. It is atomic for each row, but not as a whole.
	// If Apply returns an error, it may have written some of the mutations.
	Apply(ctx context.Context, r Revision, ms []Mutation) error
	// Erase physically removes the cells and deletions of revision r from rows. Callers may
	// use Erase only to roll back a revision that no reader can see.
	Erase(ctx context.Context, r Revision, rows [][]byte) error
	// Swap writes cells into a row of an unversioned table if the cell (f, q) has the value
	// old. If old is nil, Swap writes only if the cell is absent. Neither old nor a written
	// value may be empty. A Tombstone cell deletes its column. The package comment explains
	// what an error and the result false mean.
	Swap(ctx context.Context, row []byte, f Family, q, old []byte, cells []Cell) (bool, error)
}

// A Versioner is a Table that can return versions that a View hides. Commits use Versions
// to read the marks of other commits. So the tables of an engine must be Versioners
// unless the engine is a [Batcher].
type Versioner interface {
	// Versions reads some rows. It returns all cells of the family f with revisions larger than
	// the argument after, whether or not a view shows them. The cells include tombstones, but
	// not deletions by DeleteRow. The rows are in the order of the argument rows, and the cells
	// of a row are sorted by qualifier, newest first.
	Versions(ctx context.Context, rows [][]byte, f Family, after Revision) ([]Row, error)
}

// A Resealer is a Table whose engine may seal the values of some cells: it encrypts them before they leave the server, and
// opens them when they are read.
type Resealer interface {
	// Reseals reports whether the engine has keys.
	Reseals() bool
	// ResealCell seals a cell of an unversioned table with the key in force, if it is not sealed with it.
	ResealCell(ctx context.Context, row []byte, f Family, q []byte) error
	// Sealed counts the values in a family of rows, in all versions, that are sealed as the key in force demands, and
	// those that are not.
	Sealed(ctx context.Context, r Range, f Family) (current, old int, err error)
}

// A Store is an open set of tables.
type Store interface {
	// Create creates the tables that do not exist. It returns an error if a table exists
	// with other families.
	Create(ctx context.Context, specs ...Spec) error
	// Drop removes tables with all their content. It ignores tables that do not exist.
	Drop(ctx context.Context, names ...string) error
	// Names returns the sorted names of the tables.
	Names(ctx context.Context) ([]string, error)
	// Table returns a table that Create created. If the table does not exist, the methods
	// of the result return errors.
	Table(name string) Table
	// String returns the name of the store for messages: a folder or a URL.
	String() string
	Close() error
}

// A Write contains the mutations of a Batch for one table.
type Write struct {
	Table     string
	Mutations []Mutation
}

// Rows lists rows of one table by their keys.
type Rows struct {
	Table string
	Keys  [][]byte
}

// A Batch contains everything that one commit writes. In unversioned tables the cells of
// a batch replace older cells unconditionally.
type Batch struct {
	Revision Revision
	Writes   []Write
	// View is the state that the commit builds on. A nil View means that the commit sees
	// every revision in the store. Callers may leave View nil only if there are no branches.
	// With or without a View, the rows that the batch changes must not have newer revisions.
	View View
	// Joined is set if the batch merges a branch. It lists rows in which View shows
	// revisions whose writers did not see each other. An engine that keeps rows in one
	// piece writes each of these rows again at the batch's revision, with the cells that
	// View shows.
	Joined []Rows
	// Commit calls Last if it is set. Last returns one more write of the batch. This write
	// must be to an unversioned table.
	Last func(Found) Write
	// Urgent is set if the commit helps to free space or to shut down in an orderly way.
	// Such a commit may use space that an engine reserves for a full disk.
	Urgent bool
}

// Found describes the rows of versioned tables that a Batch changes, in the state before
// the Batch. The rows are sorted.
type Found struct {
	Over   []Rows // rows that existed before the Batch
	Hidden []Rows // the rows of Over in which View hides a revision
}

// A Batcher is a Store with atomic commits: a commit changes many rows of many tables.
// Commits become durable in the order of the calls. So if a commit survives a crash, all
// earlier commits survive too.
type Batcher interface {
	// Commit makes the batch readable and returns the function wait. The batch is durable
	// when wait has returned nil. If the wait functions of several batches are called
	// concurrently, the batches share one fsync. Calls of Commit must not overlap, but calls
	// of wait may. If wait returns ErrPending, the caller may call wait again. After any
	// other error the batch may be lost, and later batches may be lost too.
	Commit(ctx context.Context, b Batch) (wait func() error, err error)
}

// A Refuser is a Store that may refuse writes, temporarily or permanently.
type Refuser interface {
	// Refuses returns nil if the store accepts ordinary writes now. Otherwise it returns the
	// error of such a write, which is an ErrRefused.
	Refuses() error
}

// An Upgrader is a Store whose files keep their format until Upgrade is called, so that
// the previous version of the program can still use them.
type Upgrader interface {
	// Formats returns the current format of the files and the newest format.
	Formats() (now, newest int)
	// Upgrade raises the format to the newest one.
	Upgrade(ctx context.Context) error
}

// A Bulker is a Store that can load any number of cells in bounded memory. A load sorts
// the cells, and does not use the log of the store.
type Bulker interface {
	// Bulk begins a load at revision r.
	Bulk(ctx context.Context, r Revision, o BulkOptions) (Bulk, error)
}

// BulkOptions are the options of a load.
type BulkOptions struct {
	Memory   int64                  // bytes of memory for sorting; zero means the engine's default
	Progress func(done, of float64) // called repeatedly by Finish; may be nil
}

// A Bulk accepts cells in any order. Several calls of Add may pass cells of the same row,
// and these cells are merged with the row's existing cells. Add may be called
// concurrently.
type Bulk interface {
	Add(table string, ms ...Mutation) error
	// Finish makes everything readable and durable in one atomic step. Before that it adds the
	// writes that last returns, which must be to unversioned tables. last may be nil.
	Finish(ctx context.Context, last func(Overwritten) []Write) error
	// Abort drops the load completely. After Finish it does nothing.
	Abort() error
}

// SortedRows lists rows, whose keys are given by table, by table and key, each once.
func SortedRows(keys map[string][][]byte) (rows []Rows) {
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		ks := slices.Clone(keys[name])
		slices.SortFunc(ks, bytes.Compare)
		rows = append(rows, Rows{Table: name, Keys: slices.CompactFunc(ks, bytes.Equal)})
	}
	return rows
}

// Overwritten describes the rows of versioned tables that existed before a Bulk and that it
// changes. Rows is sorted by table and key. If there are too many rows to list, Rows is nil and
// All is set.
type Overwritten struct {
	Rows []Rows
	All  bool
}

// These are the errors that engines return, wrapped with details.
var (
	// ErrUnavailable: the store cannot be reached or cannot write now (an unreachable
	// quorum, a deadline, a full disk). The error may be temporary.
	ErrUnavailable = errors.New("store unavailable")
	// ErrBusy: the store refuses calls because it has too many (a quota, a full queue), and did so
	// until the deadline. ErrBusy is always returned together with ErrUnavailable.
	ErrBusy = errors.New("store busy")
	// ErrPending: the batch is not durable yet but may become durable (a full disk). Only
	// the wait function of Batcher.Commit returns ErrPending, always together with
	// ErrUnavailable.
	ErrPending = errors.New("not durable yet")
	// ErrRefused: the engine accepts no writes now (a full disk, a store opened for
	// reading). Nothing was written. Trying again does not help until somebody frees
	// space or opens the store again. ErrRefused is always returned together with
	// ErrUnavailable.
	ErrRefused = errors.New("write refused")
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("store in use")
	// ErrCorrupt: the store's bytes differ from the bytes that were written.
	ErrCorrupt = errors.New("store corrupt")
	// ErrNewer: the store was written by a newer version of the program.
	ErrNewer = errors.New("store made by a newer version")
	// ErrKey: a value was sealed with a key that this server does not have.
	ErrKey = errors.New("no key for a sealed value")
	// ErrTooLarge: a value exceeds MaxValue, or a row key or a cell exceeds a limit of the
	// engine.
	ErrTooLarge = errors.New("value too large")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store closed")
)

// MaxValue bounds the size of a cell's value. HBase accepts cells of a little less than
// 10 MiB.
const MaxValue = 8 << 20
