// Package journal keeps the shared record of commits and of the servers that make them,
// in two unversioned tables of a store.
//
// Table cluster:
//
//	row "heads"               family c, one column per slot (2 bytes): a revision.Cell;
//	                          slot 0 belongs to no server: its cell announces a horizon
//	row "archive" slot n      family c, column a: a revision.Archive, kept forever
//	row "checkpoints"         family c, one column per name: version, revision, creation
//	                          time, and a token while it is being made; for a
//	                          deleted checkpoint: 0, revision, time of deletion
//	row "collected"           family c, column a: how far garbage was collected
//	row "numbers"             family c, column a: the first change number (see Mark);
//	                          row "numbers" + revision: a later one
//	row "clock"               family c, column a: a cell written to read the store's clock
//	row "servers"             family c, one column per server: its description of itself
//
// One Get of the row heads is one atomic snapshot of the whole cluster.
//
// Table journal: one row per commit, key slot (2 bytes) + revision (8 bytes); family j:
//
//	s   state P, C or A, and whether the cell of the slot decides; kind; token; priority
//	i   ids of the things that changed, 16 bytes each
//	k   hashes of other things that changed, 8 bytes each
//	m   message: who did what
//	w   write list: tables and row keys (see Record.Rows)
//	x   names of the tables with marks; present only for commits in branches
//	p   marks; present only for commits of one batch, while there are branches
//	r   rows with cells of revisions that the commit did not see; absent if there are none
//
// A large commit has additional rows. The key of such a row ends in the number of the
// chunk (4 bytes), and the row contains a part of the write list. A chunk is written before the
// cells in the rows that it lists, or in one batch with them.
//
// Integers of fixed size are big-endian. [Log] reads and writes both tables. A store's Swap may fail
// with an unknown outcome, or return false although the swap happened. In both cases the
// methods of Log read the cell again to find out whether the swap happened.
package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// These are the names of the tables.
const (
	Table   = "journal"
	Cluster = "cluster"
	// Incomplete exists while a store is being assembled from copies of tables. Such a
	// store cannot be opened.
	Incomplete = "incomplete"
)

// IncompleteSpec describes the table [Incomplete].
var IncompleteSpec = table.Spec{Name: Incomplete, Unversioned: true, Families: []table.FamilySpec{{Name: IncompleteFamily}}}

// DropIncomplete drops the given tables of a store that was not made completely, and then the mark. While any of the tables is
// there, the mark is too.
func DropIncomplete(ctx context.Context, s table.Store, names []string) error {
	if err := s.Drop(ctx, slices.DeleteFunc(slices.Clone(names), func(t string) bool { return t == Incomplete })...); err != nil {
		return err
	}
	return s.Drop(ctx, Incomplete)
}

// IncompleteFamily is the family of the table [Incomplete].
const IncompleteFamily table.Family = 'i'

const clusterFamily = 'c'

var (
	headsRow       = []byte("heads")
	archivePrefix  = []byte("archive")
	archiveColumn  = []byte{'a'}
	checkpointsRow = []byte("checkpoints")
)

// slotRegions is the number of servers whose commits have a region each in a new journal. Servers
// take the first free slots.
const slotRegions = 8

// Specs returns the specifications of the tables.
func Specs() []table.Spec {
	splits := [][]byte{slotColumn(revision.FirstBranch)}
	for s := range revision.Slot(slotRegions) {
		splits = append(splits, slotColumn(s+2)) // slot 1 is the first
	}
	return []table.Spec{
		{Name: Cluster, Families: []table.FamilySpec{{Name: clusterFamily}}, Unversioned: true},
		{Name: Table, Families: []table.FamilySpec{{Name: family}}, Unversioned: true, Splits: splits, Spread: true},
	}
}

// Log reads and writes the journal and the cluster's heads in a store.
type Log struct {
	store   table.Store
	cluster table.Table
	journal table.Table

	mu sync.Mutex
	// archives caches the archives that were read. An archive changes only in Cut, so none is
	// ever dropped from the cache.
	archives map[revision.Slot][]revision.Archive
}

// New returns the Log of a store in which the tables exist.
func New(s table.Store) *Log {
	return &Log{
		store: s, cluster: s.Table(Cluster), journal: s.Table(Table),
		archives: map[revision.Slot][]revision.Archive{},
	}
}

// Heads is the result of one reading of the row of heads.
type Heads struct {
	*revision.Vector
	// Horizon is the horizon that was announced to all servers. A server may still use
	// older states; see Honoured.
	Horizon table.Revision
	raw     map[revision.Slot][]byte
	written map[revision.Slot]time.Time
}

// Raw returns the bytes of a slot's cell, which SwapHead takes as the old content. It
// returns nil if the slot has no cell.
func (h *Heads) Raw(s revision.Slot) []byte { return h.raw[s] }

// Heads reads the heads of all slots.
func (l *Log) Heads(ctx context.Context) (*Heads, error) {
	row, err := l.cluster.Get(ctx, headsRow, table.Select{})
	if err != nil {
		return nil, fmt.Errorf("reading the heads: %w", err)
	}
	return l.heads(ctx, row)
}

// heads decodes the row of heads.
func (l *Log) heads(ctx context.Context, row table.Row) (*Heads, error) {
	cells := make(map[revision.Slot]revision.Cell, len(row.Cells))
	raw := make(map[revision.Slot][]byte, len(row.Cells))
	times := make(map[revision.Slot]time.Time, len(row.Cells))
	archives := make(map[revision.Slot][]revision.Archive, len(row.Cells))
	var horizon table.Revision
	for i, x := range row.Cells {
		if len(x.Qualifier) != 2 {
			return nil, fmt.Errorf("heads row, column %x: %w", x.Qualifier, table.ErrCorrupt)
		}
		s := revision.Slot(binary.BigEndian.Uint16(x.Qualifier))
		c, err := revision.DecodeCell(x.Value)
		if err != nil {
			return nil, fmt.Errorf("slot %d: %w", s, err)
		}
		if raw[s] = bytes.Clone(x.Value); s == horizonSlot {
			horizon = c.Horizon
			continue
		}
		cells[s], times[s] = c, written(&row.Cells[i])
		if archives[s], err = l.archived(ctx, s, c); err != nil {
			return nil, err
		}
	}
	return &Heads{revision.NewVector(cells, archives), horizon, raw, times}, nil
}

// archived returns the archives of a slot's former holders. A cell of incarnation n
// implies that the archives 1 to n-1 exist, and also archive n if the cell is free.
// Archives that are not cached must be read before the cell is used to decide which
// commits are visible.
func (l *Log) archived(ctx context.Context, s revision.Slot, c revision.Cell) ([]revision.Archive, error) {
	want := int(c.Incarnation)
	if c.State != revision.Free {
		want--
	}
	l.mu.Lock()
	known := l.archives[s]
	l.mu.Unlock()
	if len(known) >= want { //rule:archives
		return known[:max(0, want):max(0, want)], nil
	}
	var all []revision.Archive
	prefix := archiveKey(s, 0)[:len(archivePrefix)+2]
	for row, err := range l.cluster.Scan(ctx, table.Prefix(prefix), table.Select{}) {
		if err != nil {
			return nil, fmt.Errorf("reading the archives of slot %d: %w", s, err)
		}
		a, err := decodeArchive(row, len(all)+1)
		if err != nil {
			return nil, fmt.Errorf("slot %d: %w", s, err)
		}
		all = append(all, a)
	}
	if len(all) < want {
		return nil, fmt.Errorf("slot %d has %d archives, its cell tells of %d: %w", s, len(all), want, table.ErrCorrupt)
	}
	l.mu.Lock()
	l.archives[s] = all
	l.mu.Unlock()
	return all[:want:want], nil
}

func decodeArchive(row table.Row, incarnation int) (revision.Archive, error) {
	if n := len(row.Key) - 8; n < 0 || binary.BigEndian.Uint64(row.Key[n:]) != uint64(incarnation) || len(row.Cells) != 1 {
		return revision.Archive{}, fmt.Errorf("archive row %q: want incarnation %d: %w", row.Key, incarnation, table.ErrCorrupt)
	}
	return revision.DecodeArchive(row.Cells[0].Value)
}

func archiveKey(s revision.Slot, incarnation uint64) []byte {
	b := append([]byte(nil), archivePrefix...)
	b = binary.BigEndian.AppendUint16(b, uint16(s))
	return binary.BigEndian.AppendUint64(b, incarnation)
}

func slotColumn(s revision.Slot) []byte { return binary.BigEndian.AppendUint16(nil, uint16(s)) }

// SwapHead writes the bytes new into a slot's cell if the cell contains the bytes old. If
// old is nil, the cell must be absent. SwapHead reports whether the cell contains new
// afterwards, and returns the bytes that the cell contains. SwapHead retries until it
// knows the outcome, ctx ends, or an error is permanent. After an error the outcome is
// unknown, and the caller may only repeat the call with the same arguments.
func (l *Log) SwapHead(ctx context.Context, s revision.Slot, old, new []byte) (done bool, now []byte, err error) {
	return swap(ctx, l.cluster, headsRow, clusterFamily, slotColumn(s), old,
		[]table.Cell{{Family: clusterFamily, Qualifier: slotColumn(s), Value: new}})
}

// Publish is SwapHead, and returns the heads as they were at a moment after the swap. The heads are nil if
// they are not known.
func (l *Log) Publish(ctx context.Context, s revision.Slot, old, new []byte) (done bool, now []byte, h *Heads, err error) {
	q := slotColumn(s)
	cells := []table.Cell{{Family: clusterFamily, Qualifier: q, Value: new}}
	ok, row, err := table.SwapGet(ctx, l.cluster, headsRow, clusterFamily, q, old, cells)
	if err == nil {
		switch c := row.Find(clusterFamily, q); {
		case ok || c != nil && bytes.Equal(c.Value, new):
			h, _ = l.heads(ctx, row) // the caller reads the heads that cannot be decoded, and gets the error
			return true, new, h, nil
		case c != nil && !bytes.Equal(c.Value, old):
			return false, bytes.Clone(c.Value), nil, nil
		}
	}
	done, now, err = l.SwapHead(ctx, s, old, new)
	return done, now, nil, err
}

// swap calls Swap and, if the outcome is unclear, reads the compared column. The first of cells
// is the new cell of that column. swap also returns true if another caller wrote the same value
// into that column. Callers that have to exclude this pass a value that nobody else uses.
func swap(ctx context.Context, t table.Table, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, []byte, error) {
	var failed error
	for try := 0; ; try++ {
		if try > 0 {
			if err := backOff(ctx, try); err != nil {
				return false, nil, fmt.Errorf("%w (%v)", table.ErrUnavailable, errors.Join(failed, err))
			}
		}
		ok, err := t.Swap(ctx, row, f, q, old, cells)
		if ok && err == nil { //rule:after-error
			return true, cells[0].Value, nil
		}
		if err != nil {
			failed = err
			if permanent(err) {
				return false, nil, err
			}
		}
		now, err := read(ctx, t, row, f, q) //rule:after-false
		switch {
		case err != nil:
			failed = err
			if permanent(err) {
				return false, nil, err
			}
		case bytes.Equal(now, cells[0].Value):
			return true, now, nil
		case !bytes.Equal(now, old):
			return false, now, nil
		}
	}
}

// permanent reports whether an error persists when the operation is repeated.
func permanent(err error) bool {
	return errors.Is(err, table.ErrRefused) || errors.Is(err, table.ErrClosed) || errors.Is(err, table.ErrTooLarge) || errors.Is(err, table.ErrCorrupt)
}

func read(ctx context.Context, t table.Table, row []byte, f table.Family, q []byte) ([]byte, error) {
	r, err := t.Get(ctx, row, table.Select{Families: []table.Family{f}, Columns: []table.ColumnRange{table.Column(f, q)}})
	if err != nil {
		return nil, err
	}
	if c := r.Find(f, q); c != nil {
		return bytes.Clone(c.Value), nil
	}
	return nil, nil
}

// backOff waits before another attempt, for 2 to 100 ms.
func backOff(ctx context.Context, try int) error {
	return pause.For(ctx, min(time.Millisecond<<min(try, 10), 100*time.Millisecond))
}

// ErrTaken: a row that should be new already exists.
var ErrTaken = errors.New("journal row taken")

// Begin writes the row of rec if the row is absent. The state in the row is Committed if
// rec.State is Committed, and otherwise Pending. Commits that a cell decides, that of a server or of
// a branch, are written as Committed. After an error the caller must write no cell of the
// commit and must not use the revision again.
func (l *Log) Begin(ctx context.Context, rec *Record) error {
	state := Pending
	if rec.State == Committed {
		state = Committed
	}
	done, _, err := swap(ctx, l.journal, Key(rec.Revision), family, stateColumn, nil, rec.cells(state))
	if err == nil && !done {
		err = ErrTaken
	}
	if err != nil {
		return fmt.Errorf("journal row of %s: %w", rec.Revision, err)
	}
	return nil
}

// Chunk writes a part of the write list. It must be called before the cells in the listed
// rows are written.
func (l *Log) Chunk(ctx context.Context, r table.Revision, number uint32, rows []Rows) error {
	cell := table.Cell{Family: family, Qualifier: rowsColumn, Value: appendRows(nil, rows)}
	done, _, err := swap(ctx, l.journal, chunkKey(r, number), family, rowsColumn, nil, []table.Cell{cell})
	if err == nil && !done {
		err = ErrTaken
	}
	if err != nil {
		return fmt.Errorf("journal row of %s, chunk %d: %w", r, number, err)
	}
	return nil
}

// Decide changes a pending record to Committed or Aborted, and returns the final state,
// which another server may have decided. It returns None if there is no record. Only the
// owner of a commit may change it to Committed. After an error the state is unknown. A record with ByCell can only
// be changed to Aborted, by a caller that knows that its cell will never show it.
func (l *Log) Decide(ctx context.Context, rec *Record, to State) (State, error) {
	cells := []table.Cell{{Family: family, Qualifier: stateColumn, Value: rec.state(to)}}
	// The message was not known when the load began.
	if rec.Kind == Bulk && to == Committed && len(rec.Message) > 0 {
		cells = append(cells, table.Cell{Family: family, Qualifier: messageColumn, Value: rec.Message})
	}
	old := rec.state(Pending)
	if rec.ByCell {
		old = rec.state(Committed)
	}
	_, now, err := swap(ctx, l.journal, Key(rec.Revision), family, stateColumn, old, cells)
	if err != nil {
		return None, fmt.Errorf("deciding %s: %w", rec.Revision, err)
	}
	if now == nil {
		return None, nil
	}
	is := Record{Revision: rec.Revision}
	if err := is.decodeState(now); err != nil {
		return None, err
	}
	return is.State, nil
}

// Get reads a commit's record, with the write list of all its chunks. The State is None
// if the record does not exist.
func (l *Log) Get(ctx context.Context, r table.Revision) (Record, error) {
	for rec, err := range l.scan(ctx, table.Prefix(Key(r)), table.Select{}) {
		return rec, err
	}
	return Record{Revision: r}, nil
}

// State reads only the State, Kind, AllChanged, Token and Prio of a commit's record.
func (l *Log) State(ctx context.Context, r table.Revision) (Record, error) {
	rec := Record{Revision: r}
	b, err := read(ctx, l.journal, Key(r), family, stateColumn)
	if err == nil && b != nil {
		err = rec.decodeState(b)
	}
	if err != nil {
		return Record{}, fmt.Errorf("state of %s: %w", r, err)
	}
	return rec, nil
}

// Forbid writes an aborted record if there is no record, so that a commit whose journal
// row has not reached the store yet never begins. Forbid returns the record that exists
// now.
func (l *Log) Forbid(ctx context.Context, r table.Revision, token uint64) (Record, error) {
	rec := Record{Revision: r, Token: token, Prio: r}
	_, now, err := swap(ctx, l.journal, Key(r), family, stateColumn, nil, rec.cells(Aborted))
	if err == nil && now != nil {
		err = rec.decodeState(now)
	}
	if err != nil {
		return Record{}, fmt.Errorf("forbidding %s: %w", r, err)
	}
	return rec, nil
}

// Scan streams the records of a slot with revisions in (after, upTo], in ascending order. The
// records have neither write lists nor Marked.
func (l *Log) Scan(ctx context.Context, s revision.Slot, after, upTo table.Revision) iter.Seq2[Record, error] {
	return l.scan(ctx, between(s, after, upTo), table.Select{Columns: withoutRows})
}

// Backward is like Scan, but streams the records in descending order.
func (l *Log) Backward(ctx context.Context, s revision.Slot, after, upTo table.Revision) iter.Seq2[Record, error] {
	return l.scan(ctx, between(s, after, upTo), table.Select{Columns: withoutRows, Reverse: true})
}

// Lists is like Scan, but the records have their write lists.
func (l *Log) Lists(ctx context.Context, s revision.Slot, after, upTo table.Revision) iter.Seq2[Record, error] {
	return l.scan(ctx, between(s, after, upTo), table.Select{})
}

// withoutRows selects all columns of a journal row except the write list and the column x. It
// leaves out x only because x sorts behind the write list.
var withoutRows = []table.ColumnRange{{Family: family, From: idsColumn, To: rowsColumn}}

func between(s revision.Slot, after, upTo table.Revision) table.Range {
	key := func(r table.Revision) []byte {
		return binary.BigEndian.AppendUint64(slotColumn(s), uint64(r))
	}
	return table.Range{Start: key(after + 1), End: key(upTo + 1)}
}

// scan joins the rows of each commit into one record. It skips chunks without a record.
func (l *Log) scan(ctx context.Context, r table.Range, sel table.Select) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var rec Record // the record being joined; none if its revision is 0
		flush := func() bool { return rec.State == None || yield(rec, nil) }
		for row, err := range l.journal.Scan(ctx, r, sel) {
			var part Record
			if err == nil {
				part, err = decode(row)
			}
			if err != nil {
				yield(Record{}, fmt.Errorf("reading the journal: %w", err))
				return
			}
			if part.Revision != rec.Revision {
				if !flush() {
					return
				}
				rec = part
				continue
			}
			rows, chunks := append(rec.Rows, part.Rows...), append(rec.chunks, part.chunks...)
			if part.State != None {
				rec = part
			}
			rec.Rows, rec.chunks = rows, chunks
		}
		flush()
	}
}

// Rollback aborts a record, unless it is already aborted, and removes the cells that the
// commit may have written. It returns an error if the record is committed.
func (l *Log) Rollback(ctx context.Context, rec *Record) error {
	if rec.State != Aborted {
		s, err := l.Decide(ctx, rec, Aborted)
		if err != nil {
			return err
		}
		if s == Committed {
			return fmt.Errorf("rolling back %s: it is committed", rec.Revision)
		}
		if s == Aborted {
			rec.State = Aborted // a row that is not there yet may arrive, and is then decided by the next call
		}
	}
	return l.Erase(ctx, rec)
}

// Erase removes the cells of a record's commit from the rows of the write list.
func (l *Log) Erase(ctx context.Context, rec *Record) error {
	for _, t := range rec.Rows {
		if err := l.store.Table(t.Table).Erase(ctx, rec.Revision, t.Keys); err != nil {
			return fmt.Errorf("erasing %s: %w", rec.Revision, err)
		}
	}
	return nil
}

// Same reports whether two readings of the heads are equal.
func (h *Heads) Same(o *Heads) bool {
	return maps.EqualFunc(h.raw, o.raw, bytes.Equal)
}
