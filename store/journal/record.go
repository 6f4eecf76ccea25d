package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A State is the state of a commit. Only the state Pending can change, and, of a commit that the
// cell decides and never shows, the state Committed. Both change only once.
type State byte

const (
	None      State = 0   // there is no record
	Pending   State = 'P' // cells of the commit may be on their way to the store
	Committed State = 'C' // written only by the owner of the commit
	Aborted   State = 'A' // written by any server
)

// A Kind is the kind of a commit.
type Kind byte

const (
	Ordinary Kind = iota
	// Bulk commits are loads. A load that was written as one batch is a Bulk commit only if it
	// changed too many existing rows to list.
	Bulk
	// Merge commits make a branch visible.
	Merge
)

// A Record describes one commit. It is stored as a row of the journal.
type Record struct {
	Revision table.Revision
	State    State
	Kind     Kind
	// ByCell is set if the cell of the slot decides the commit: it is committed if the cell shows it. The State is
	// Committed from the beginning, and Aborted once the commit was rolled back.
	ByCell bool
	Token  uint64         // chosen by the writer, unique to the attempt
	Prio   table.Revision // the revision of the first attempt; the smaller priority wins
	// IDs are the ids of the things that the commit changed. They are not stored if AllChanged
	// is set.
	IDs        []entry.ID
	AllChanged bool
	// Keys are the hashes of other things that the commit changed: values in indexes. They are
	// not stored if AllChanged is set.
	Keys    []uint64
	Message []byte // says who did what
	// Rows is the write list. For a commit that is written in several steps, and for every commit
	// in a branch, these are the rows that may contain its cells. For a commit of the trunk that
	// was written as one batch, these are the existing rows that the batch changed. The write
	// list of a large commit is stored in additional rows, see Log.Chunk.
	Rows []Rows
	// Marked is set only for a commit in a branch. It lists the tables in which the commit
	// placed marks.
	Marked []string
	// Marks encodes the marks of a commit that was written as one batch while there were
	// branches.
	Marks []byte
	// Hidden is for a commit that was written as one batch. It lists the rows of the batch
	// that had cells of revisions which the commit did not see (see table.Found).
	Hidden []Rows

	chunks []uint32
}

// Rows lists rows of one table.
type Rows = table.Rows

// MaxRows is the largest number of rows in the write list of a journal row, and in each
// chunk of a longer list.
const MaxRows = 4096

// MaxIDs and MaxKeys bound the ids and keys in a record. A commit with more ids or keys is
// recorded as one that changed everything.
const (
	MaxIDs  = 4096
	MaxKeys = 32768
)

const (
	family = 'j'

	// headerSize is the length of what precedes the priority in a state cell.
	headerSize = 1 + 1 + 1 + 1 + 8

	recordVersion = 1
	byCellVersion = 2 // of a record with ByCell, which earlier programs must not interpret
)

// These are the columns of a journal row.
var (
	stateColumn   = []byte{'s'}
	rowsColumn    = []byte{'w'}
	idsColumn     = []byte{'i'}
	keysColumn    = []byte{'k'}
	messageColumn = []byte{'m'}
	markedColumn  = []byte{'x'}
	marksColumn   = []byte{'p'}
	hiddenColumn  = []byte{'r'}
)

// Key returns the row key of a revision: its slot, then the revision itself. Each slot
// has its own range of keys, so servers do not all write to the same region.
func Key(r table.Revision) []byte {
	b := make([]byte, 0, 14)
	b = binary.BigEndian.AppendUint16(b, uint16(revision.SlotOf(r)))
	return binary.BigEndian.AppendUint64(b, uint64(r))
}

func chunkKey(r table.Revision, number uint32) []byte {
	return binary.BigEndian.AppendUint32(Key(r), number)
}

// parseKey splits a row key into the revision and, for the row of a chunk, the chunk's
// number.
func parseKey(key []byte) (r table.Revision, chunk []uint32, err error) {
	switch len(key) {
	case 10:
	case 14:
		chunk = []uint32{binary.BigEndian.Uint32(key[10:])}
	default:
		return 0, nil, fmt.Errorf("journal row %x: %w", key, table.ErrCorrupt)
	}
	return table.Revision(binary.BigEndian.Uint64(key[2:])), chunk, nil
}

// state encodes a state cell.
func (rec *Record) state(s State) []byte {
	b := make([]byte, 0, headerSize+binary.MaxVarintLen64)
	b = append(b, recordVersion, byte(s), byte(rec.Kind), 0)
	if rec.ByCell {
		b[0] = byCellVersion
	}
	if rec.tooMany() {
		b[3] = 1
	}
	b = binary.BigEndian.AppendUint64(b, rec.Token)
	return binary.AppendUvarint(b, uint64(rec.Prio))
}

func (rec *Record) decodeState(b []byte) error {
	bad := func(why string) error {
		return fmt.Errorf("journal row of %s: %s: %w", rec.Revision, why, table.ErrCorrupt)
	}
	switch {
	case len(b) == 0:
		return bad("no state")
	case b[0] != recordVersion && b[0] != byCellVersion:
		return fmt.Errorf("journal row of %s has version %d: %w", rec.Revision, b[0], table.ErrNewer)
	case len(b) <= headerSize:
		return bad("state cut short")
	}
	rec.ByCell, rec.State, rec.Kind, rec.AllChanged = b[0] == byCellVersion, State(b[1]), Kind(b[2]), b[3] != 0
	if rec.State != Pending && rec.State != Committed && rec.State != Aborted {
		return bad(fmt.Sprintf("unknown state %q", b[1]))
	}
	if rec.Kind > Merge || b[3] > 1 {
		return bad("unknown kind")
	}
	rec.Token = binary.BigEndian.Uint64(b[4:])
	prio, n := binary.Uvarint(b[headerSize:])
	if n <= 0 || headerSize+n != len(b) {
		return bad("priority")
	}
	rec.Prio = table.Revision(prio)
	return nil
}

// cells returns the cells of the record's row in state s.
func (rec *Record) cells(s State) []table.Cell {
	cells := []table.Cell{{Family: family, Qualifier: stateColumn, Value: rec.state(s)}}
	if len(rec.IDs) > 0 && !rec.tooMany() {
		cells = append(cells, table.Cell{Family: family, Qualifier: idsColumn, Value: encodeIDs(rec.IDs)})
	}
	if len(rec.Keys) > 0 && !rec.tooMany() {
		cells = append(cells, table.Cell{Family: family, Qualifier: keysColumn, Value: encodeKeys(rec.Keys)})
	}
	if len(rec.Message) > 0 {
		cells = append(cells, table.Cell{Family: family, Qualifier: messageColumn, Value: rec.Message})
	}
	if len(rec.Rows) > 0 {
		cells = append(cells, table.Cell{Family: family, Qualifier: rowsColumn, Value: appendRows(nil, rec.Rows)})
	}
	if len(rec.Marked) > 0 {
		cells = append(cells, table.Cell{Family: family, Qualifier: markedColumn, Value: appendNames(nil, rec.Marked)})
	}
	if len(rec.Marks) > 0 {
		cells = append(cells, table.Cell{Family: family, Qualifier: marksColumn, Value: rec.Marks})
	}
	if len(rec.Hidden) > 0 {
		cells = append(cells, table.Cell{Family: family, Qualifier: hiddenColumn, Value: appendRows(nil, rec.Hidden)})
	}
	return cells
}

// Write returns the write of the journal row for a batch that also writes the cells of the
// commit. The batch is atomic, so the state in the row is Committed from the beginning.
func (rec *Record) Write() table.Write {
	w := table.Write{Table: Table}
	lists := rec.Rows
	if countRows(lists) > MaxRows {
		rec.Rows = nil
		for i, part := range Chunked(lists) {
			cell := table.Cell{Family: family, Qualifier: rowsColumn, Value: appendRows(nil, part)}
			w.Mutations = append(w.Mutations, table.Mutation{Row: chunkKey(rec.Revision, uint32(i+1)), Cells: []table.Cell{cell}})
		}
	}
	w.Mutations = append(w.Mutations, table.Mutation{Row: Key(rec.Revision), Cells: rec.cells(Committed)})
	return w
}

func countRows(lists []Rows) (n int) {
	for _, t := range lists {
		n += len(t.Keys)
	}
	return n
}

// Chunked cuts a write list into parts of at most MaxRows rows.
func Chunked(lists []Rows) (parts [][]Rows) {
	room := 0 // rows that still fit into the last part
	for _, t := range lists {
		for keys := t.Keys; len(keys) > 0; {
			if room == 0 {
				parts, room = append(parts, nil), MaxRows
			}
			n := min(room, len(keys))
			last := &parts[len(parts)-1]
			*last = append(*last, Rows{Table: t.Table, Keys: keys[:n]})
			keys, room = keys[n:], room-n
		}
	}
	return parts
}

// decode decodes a journal row.
func decode(row table.Row) (Record, error) {
	r, chunks, err := parseKey(row.Key)
	if err != nil {
		return Record{}, err
	}
	rec := Record{Revision: r, chunks: chunks}
	for _, c := range row.Cells {
		switch {
		case c.Family != family || len(c.Qualifier) != 1:
			err = fmt.Errorf("journal row of %s: unknown column: %w", r, table.ErrCorrupt)
		case c.Qualifier[0] == stateColumn[0]:
			err = rec.decodeState(c.Value)
		case c.Qualifier[0] == idsColumn[0]:
			rec.IDs, err = decodeIDs(c.Value)
		case c.Qualifier[0] == keysColumn[0]:
			rec.Keys, err = decodeKeys(c.Value)
		case c.Qualifier[0] == messageColumn[0]:
			rec.Message = append([]byte(nil), c.Value...)
		case c.Qualifier[0] == rowsColumn[0]:
			rec.Rows, err = decodeRows(c.Value)
		case c.Qualifier[0] == markedColumn[0]:
			rec.Marked, err = decodeNames(c.Value)
		case c.Qualifier[0] == marksColumn[0]:
			rec.Marks = append([]byte(nil), c.Value...)
		case c.Qualifier[0] == hiddenColumn[0]:
			rec.Hidden, err = decodeRows(c.Value)
		}
		if err != nil {
			return Record{}, err
		}
	}
	return rec, nil
}

// tooMany reports whether the record states that the commit changed everything.
func (rec *Record) tooMany() bool {
	return rec.AllChanged || len(rec.IDs) > MaxIDs || len(rec.Keys) > MaxKeys
}

func encodeIDs(ids []entry.ID) []byte {
	b := make([]byte, 0, len(ids)*len(entry.ID{}))
	for i := range ids {
		b = append(b, ids[i][:]...)
	}
	return b
}

func encodeKeys(keys []uint64) []byte {
	b := make([]byte, 0, len(keys)*8)
	for _, k := range keys {
		b = binary.BigEndian.AppendUint64(b, k)
	}
	return b
}

func decodeKeys(b []byte) ([]uint64, error) {
	if len(b)%8 != 0 {
		return nil, fmt.Errorf("journal keys: %d bytes: %w", len(b), table.ErrCorrupt)
	}
	keys := make([]uint64, len(b)/8)
	for i := range keys {
		keys[i] = binary.BigEndian.Uint64(b[i*8:])
	}
	return keys, nil
}

func decodeIDs(b []byte) ([]entry.ID, error) {
	const n = len(entry.ID{})
	if len(b)%n != 0 {
		return nil, fmt.Errorf("journal ids: %d bytes: %w", len(b), table.ErrCorrupt)
	}
	ids := make([]entry.ID, len(b)/n)
	for i := range ids {
		copy(ids[i][:], b[i*n:])
	}
	return ids, nil
}

// appendRows encodes a write list. It writes the name, the number of rows and the row
// keys of each table. Names and keys are preceded by their lengths.
func appendRows(b []byte, rows []Rows) []byte {
	for _, t := range rows {
		b = appendString(b, t.Table)
		b = binary.AppendUvarint(b, uint64(len(t.Keys)))
		for _, k := range t.Keys {
			b = appendString(b, k)
		}
	}
	return b
}

func appendNames(b []byte, names []string) []byte {
	for _, n := range names {
		b = appendString(b, n)
	}
	return b
}

func decodeNames(b []byte) (names []string, err error) {
	for len(b) > 0 {
		name, rest, ok := cutString(b)
		if !ok {
			return nil, fmt.Errorf("journal names of tables: %w", table.ErrCorrupt)
		}
		names, b = append(names, string(name)), rest
	}
	return names, nil
}

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func decodeRows(b []byte) ([]Rows, error) {
	bad := fmt.Errorf("journal write list: %w", table.ErrCorrupt)
	b = append([]byte(nil), b...)
	var out []Rows
	for len(b) > 0 {
		name, rest, ok := cutString(b)
		n, k := binary.Uvarint(rest)
		if !ok || k <= 0 || n > uint64(len(rest)) {
			return nil, bad
		}
		t := Rows{Table: string(name), Keys: make([][]byte, n)}
		b = rest[k:]
		for i := range t.Keys {
			if t.Keys[i], b, ok = cutString(b); !ok {
				return nil, bad
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// RewriteCell changes the lists of rows in a cell of the journal. The function row returns the new key of a row of a
// table, or nil if the row is no longer listed.
func RewriteCell(c *table.Cell, row func(table string, key []byte) ([]byte, error)) error {
	if len(c.Qualifier) != 1 || c.Qualifier[0] != rowsColumn[0] && c.Qualifier[0] != hiddenColumn[0] || c.Tombstone {
		return nil
	}
	rows, err := decodeRows(c.Value)
	if err != nil {
		return err
	}
	for i := range rows {
		keys := rows[i].Keys[:0]
		for _, key := range rows[i].Keys {
			to, err := row(rows[i].Table, key)
			if err != nil {
				return err
			}
			if to != nil {
				keys = append(keys, to)
			}
		}
		slices.SortFunc(keys, bytes.Compare)
		rows[i].Keys = keys
	}
	c.Value = appendRows(nil, rows)
	return nil
}

func cutString(b []byte) (s, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, nil, false
	}
	return b[k : k+int(n) : k+int(n)], b[k+int(n):], true
}

// RevisionOf returns the revision of the commit to which a row of the journal belongs. It
// returns false if key is not the key of such a row.
func RevisionOf(key []byte) (table.Revision, bool) {
	r, _, err := parseKey(key)
	return r, err == nil
}
