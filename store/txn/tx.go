package txn

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Tx is one attempt of a transaction. It is a table.Reader of a snapshot overlaid with
// the transaction's own writes. Only one goroutine may use a Tx.
type Tx struct {
	db       *DB
	snapshot *Snapshot
	stamp    table.Revision
	refused  error                  // the reason why the transaction must not commit, or nil
	prio     table.Revision         // the priority: the revision of the first attempt or of the reservation, or 0
	reserved table.Revision         // the revision of the reservation, or 0
	turn     *turn                  // the turn that the transaction holds, or nil
	ahead    map[string][]table.Row // what ReadAhead has read, by Read.key; nil if it has read nothing
	writes   map[string]*overlay
	marks    []placed
	markRows []markRow
	ids      []entry.ID
	keys     []uint64 // hashes of other things that the commit changes
	named    named    // sets of the elements of ids and keys
	message  []byte
	atCommit []func(table.Revision)
	shown    func(ordinal uint64) // see WhenShown
	urgent   bool
	prepared time.Time // when the log had the commit or, on a shared store, when it was decided
}

var _ table.Reader = (*Tx)(nil)

// An overlay is what a transaction wrote into one table.
type overlay struct {
	rows map[string]*rowWrite
	keys []string // keys of written rows, sorted; the list late has the others
	late []string // keys of written rows, not sorted yet
}

// If an overlay has more than mostLate keys in the list late, a scan sorts them into the list
// keys. With this value, a transaction seldom sorts its keys even if many writes and reads
// alternate.
const mostLate = 256

// A rowWrite is what a transaction wrote into one row: the merge of the mutations of that
// row.
type rowWrite struct {
	deleted bool
	// Each run contains one cell per column, in column order, and is at least twice as long as the
	// next run. The cells of later runs are newer.
	runs [][]table.Cell
	late []table.Cell // the newest cells, in the order of writing
}

// A markRow is a mark with the row that it will be stored in.
type markRow struct {
	table string
	row   []byte
	mark  Mark
}

// Snapshot returns the state at which the transaction began.
func (tx *Tx) Snapshot() *Snapshot { return tx.snapshot }

// Stamp returns an id that is unique to this attempt and larger than every revision that
// the snapshot shows. The id serves for positions and change numbers. The revision of the
// commit is allocated later and is larger. If no id can be issued, Stamp returns
// revision.Last and the transaction cannot commit.
func (tx *Tx) Stamp() table.Revision {
	if tx.stamp == 0 {
		var err error
		if tx.stamp, err = tx.db.commits.stamp(); err != nil {
			// Refuse the transaction even if the server can commit again before the
			// transaction ends.
			tx.stamp, tx.refused = revision.Last, fmt.Errorf("no id for this transaction: %w", err)
		}
	}
	return tx.stamp
}

// Write adds mutations to the transaction. A later mutation overrides earlier mutations
// of the same columns. The caller must not change the bytes of the mutations after the
// call.
func (tx *Tx) Write(t table.Table, ms ...table.Mutation) {
	o := tx.writes[t.Name()]
	if o == nil {
		o = &overlay{rows: map[string]*rowWrite{}}
		if tx.writes == nil {
			tx.writes = map[string]*overlay{}
		}
		tx.writes[t.Name()] = o
	}
	for _, m := range ms {
		if m.DeleteRow || len(m.Cells) > 0 {
			o.write(m)
		}
	}
}

func (o *overlay) write(m table.Mutation) {
	w := o.rows[string(m.Row)]
	if w == nil {
		k := string(m.Row)
		w = &rowWrite{}
		o.rows[k] = w
		o.late = append(o.late, k)
	}
	if m.DeleteRow {
		w.deleted, w.runs, w.late = true, nil, nil
	}
	w.late = append(w.late, m.Cells...)
}

// sorted returns the sorted keys of the written rows.
func (o *overlay) sorted() []string {
	if len(o.late) == 0 {
		return o.keys
	}
	slices.Sort(o.late)
	if len(o.keys) == 0 || o.keys[len(o.keys)-1] < o.late[0] {
		o.keys, o.late = append(o.keys, o.late...), o.late[:0]
		return o.keys
	}
	all := make([]string, 0, len(o.keys)+len(o.late))
	keys := o.keys
	for _, k := range o.late {
		i, _ := slices.BinarySearch(keys, k)
		all = append(append(all, keys[:i]...), k)
		keys = keys[i:]
	}
	o.keys, o.late = append(all, keys...), o.late[:0]
	return o.keys
}

// between returns the sorted keys of the written rows in a range.
func (o *overlay) between(r table.Range) []string {
	if len(o.late) > mostLate {
		o.sorted()
	}
	i, _ := slices.BinarySearch(o.keys, string(r.Start))
	j := len(o.keys)
	if len(r.End) > 0 {
		j, _ = slices.BinarySearch(o.keys, string(r.End))
	}
	in := slices.Clone(o.keys[i:max(i, j)])
	n := len(in)
	for _, k := range o.late {
		if k >= string(r.Start) && (len(r.End) == 0 || k < string(r.End)) {
			in = append(in, k)
		}
	}
	if len(in) > n {
		slices.Sort(in)
	}
	return in
}

// columns returns the last cell written in each column, sorted by column.
func (w *rowWrite) columns() []table.Cell {
	if len(w.runs) == 0 {
		w.late = table.LastOfEach(w.late)
		return w.late
	}
	w.settle(true)
	return w.runs[0]
}

// selected returns the last cell written in each column that sel selects, sorted by column, as far as
// sel.MaxCells needs them. It does not look at the other cells, because a transaction may write and read
// one long row again and again.
func (w *rowWrite) selected(sel *table.Select) (cells []table.Cell) {
	if len(sel.Families) == 0 {
		return slices.DeleteFunc(slices.Clone(w.columns()), func(c table.Cell) bool { return !sel.Has(c) })
	}
	w.settle(false)
	left := sel.MaxCells
	heads := make([][]table.Cell, len(w.runs)) // the cells of each run that are still to be looked at
	for _, r := range rangesOf(sel) {
		for i, run := range w.runs {
			heads[i] = within(run, r)
		}
		for {
			next := -1
			for i, h := range heads {
				if len(h) > 0 && (next < 0 || h[0].Compare(heads[next][0]) <= 0) {
					next = i
				}
			}
			if next < 0 {
				break
			}
			c := heads[next][0]
			for i, h := range heads[:next+1] {
				if len(h) > 0 && h[0].Compare(c) == 0 {
					heads[i] = h[1:]
				}
			}
			cells = append(cells, c)
			if c.Tombstone {
				continue
			}
			if left--; left == 0 {
				return cells
			}
		}
	}
	return cells
}

// rangesOf returns the ranges of columns that sel, which names families, selects. They are sorted and have
// no column in common.
func rangesOf(sel *table.Select) (rs []table.ColumnRange) {
	for _, f := range slices.Sorted(slices.Values(sel.Families)) {
		n := len(rs)
		for _, c := range sel.Columns {
			if c.Family == f {
				rs = append(rs, c)
			}
		}
		if len(rs) == n {
			rs = append(rs, table.ColumnRange{Family: f})
		}
		slices.SortFunc(rs[n:], func(a, b table.ColumnRange) int { return bytes.Compare(a.From, b.From) })
		for i := n + 1; i < len(rs); i++ {
			if to := rs[i-1].To; len(to) == 0 {
				rs = rs[:i]
			} else if bytes.Compare(rs[i].From, to) < 0 {
				rs[i].From, rs[i].To = to, laterEnd(to, rs[i].To)
			}
		}
	}
	return rs
}

// laterEnd returns the later of two ends of ranges. An empty end is the last one.
func laterEnd(a, b []byte) []byte {
	if len(b) == 0 || bytes.Compare(b, a) > 0 {
		return b
	}
	return a
}

// within returns the cells of a run in a range.
func within(run []table.Cell, r table.ColumnRange) []table.Cell {
	i := sort.Search(len(run), func(i int) bool { return run[i].Compare(table.Cell{Family: r.Family, Qualifier: r.From}) >= 0 })
	run = run[i:]
	return run[:sort.Search(len(run), func(i int) bool {
		return run[i].Family != r.Family || len(r.To) > 0 && bytes.Compare(run[i].Qualifier, r.To) >= 0
	})]
}

// settle makes a run of the late cells, and merges runs, or all of them into one.
func (w *rowWrite) settle(all bool) {
	if len(w.late) > 0 {
		w.runs, w.late = append(w.runs, table.LastOfEach(w.late)), nil
	}
	for n := len(w.runs); n > 1 && (all || len(w.runs[n-2]) < 2*len(w.runs[n-1])); n-- {
		w.runs = append(w.runs[:n-2], mergeRuns(w.runs[n-2], w.runs[n-1]))
	}
}

// mergeRuns returns the cells of two runs, of which top is newer.
func mergeRuns(old, top []table.Cell) []table.Cell {
	out := make([]table.Cell, 0, len(old)+len(top))
	for len(old) > 0 && len(top) > 0 {
		order := old[0].Compare(top[0])
		if order < 0 {
			out, old = append(out, old[0]), old[1:]
			continue
		}
		if order == 0 {
			old = old[1:]
		}
		out, top = append(out, top[0]), top[1:]
	}
	return append(append(out, old...), top...)
}

// Mark declares what the transaction does to a row.
func (tx *Tx) Mark(t table.Table, row []byte, m Mark) {
	tx.marks = append(tx.marks, place(t.Name(), row, m))
	if tx.snapshot.recordsMarks || tx.db.Shared() {
		tx.markRows = append(tx.markRows, markRow{t.Name(), row, m})
	}
}

// Touch adds the ids of entries, or of other things with an ID, that the commit changes.
// Caches and followers read these ids.
func (tx *Tx) Touch(ids ...entry.ID) { tx.ids = append(tx.ids, ids...) }

// TouchKeys adds the hashes of other things that the commit changes. Only caches read
// these hashes.
func (tx *Tx) TouchKeys(keys ...uint64) { tx.keys = append(tx.keys, keys...) }

// Touched reports whether id was passed to Touch in this transaction.
func (tx *Tx) Touched(id entry.ID) bool { return tx.named.ids.has(tx.ids, id) }

// TouchedOnce returns a map in which an id is true if it was passed to Touch exactly once.
func (tx *Tx) TouchedOnce() map[entry.ID]bool {
	once := make(map[entry.ID]bool, len(tx.ids))
	for _, id := range tx.ids {
		_, again := once[id]
		once[id] = !again
	}
	return once
}

// ChangedAfter reports whether id may have changed between the state with the ordinal since and
// this transaction. On an embedded store, a function that was passed to AtCommit may call
// ChangedAfter.
func (tx *Tx) ChangedAfter(id entry.ID, since uint64) bool {
	return tx.db.changes.last(hash(id)) > since
}

// TouchedKey reports whether key was passed to TouchKeys in this transaction.
func (tx *Tx) TouchedKey(key uint64) bool { return tx.named.keys.has(tx.keys, key) }

// named contains the set of ids and the set of keys that a transaction has touched. Each
// set is built when it is first used.
type named struct {
	ids  members[entry.ID]
	keys members[uint64]
}

// members is the set of the elements of a list that may grow between two calls of has.
type members[T comparable] struct {
	seen map[T]struct{}
	n    int // number of list elements that are in seen
}

func (m *members[T]) has(list []T, x T) bool {
	if m.seen == nil {
		m.seen = map[T]struct{}{}
	}
	for ; m.n < len(list); m.n++ {
		m.seen[list[m.n]] = struct{}{}
	}
	_, ok := m.seen[x]
	return ok
}

// SetMessage sets the message that the journal keeps with the commit. The message says
// who did what.
func (tx *Tx) SetMessage(m []byte) { tx.message = m }

// AtCommit registers fn to be called when the revision of the commit is known, before
// anything is written. fn may fill in bytes that were passed to Write. fn must be quick,
// because other commits wait for it.
func (tx *Tx) AtCommit(fn func(r table.Revision)) { tx.atCommit = append(tx.atCommit, fn) }

// WhenShown sets the function that is called when the commit is durable and shown, with the ordinal of the first
// state that shows it. On a store that servers share, it is not called.
func (tx *Tx) WhenShown(fn func(ordinal uint64)) { tx.shown = fn }

// SetUrgent marks the transaction as one that helps to free space in the store; see
// table.Batch.
func (tx *Tx) SetUrgent() { tx.urgent = true }

func (tx *Tx) fillIn(r table.Revision) {
	for _, fn := range tx.atCommit {
		fn(r)
	}
}

// empty reports whether there is nothing to commit.
func (tx *Tx) empty() bool { return len(tx.writes) == 0 && len(tx.ids) == 0 && tx.message == nil }

// batch returns the transaction's writes, sorted by table and row.
func (tx *Tx) batch() []table.Write {
	ws := make([]table.Write, 0, len(tx.writes))
	for name, o := range tx.writes {
		ms := make([]table.Mutation, 0, len(o.rows))
		for _, k := range o.sorted() {
			w := o.rows[k]
			ms = append(ms, table.Mutation{Row: []byte(k), DeleteRow: w.deleted, Cells: w.columns()})
		}
		ws = append(ws, table.Write{Table: name, Mutations: ms})
	}
	slices.SortFunc(ws, func(a, b table.Write) int { return strings.Compare(a.Table, b.Table) })
	return ws
}

func (tx *Tx) distinctKeys() []uint64 {
	slices.Sort(tx.keys)
	tx.keys = slices.Compact(tx.keys)
	return tx.keys
}

// distinctIDs returns the ids that were passed to Touch, each id once, in the order in
// which they were first passed.
func (tx *Tx) distinctIDs() []entry.ID {
	seen := make(map[entry.ID]struct{}, len(tx.ids))
	tx.ids = slices.DeleteFunc(tx.ids, func(id entry.ID) bool {
		_, again := seen[id]
		seen[id] = struct{}{}
		return again
	})
	return tx.ids
}

// record returns the commit record of the transaction.
func (tx *Tx) record(r table.Revision) *journal.Record {
	return &journal.Record{
		Revision: r,
		Prio:     r,
		IDs:      tx.distinctIDs(),
		Keys:     tx.distinctKeys(),
		Message:  tx.message,
	}
}

// begin starts an attempt at the newest state.
func (db *DB) begin() *Tx {
	for {
		s := db.Snapshot()
		db.running.begin(s.ordinal)
		// Another goroutine may have called running.oldest between the two lines above, and
		// missed this transaction. If so, a newer state is shown by now.
		if s.err != nil || db.current.Load() == s {
			return &Tx{db: db, snapshot: s}
		}
		db.running.end(s.ordinal)
		s.Close()
	}
}

func (tx *Tx) end() {
	tx.db.running.end(tx.snapshot.ordinal)
	tx.snapshot.Close()
	if s := tx.db.step.Load(); s != nil && tx.snapshot.ordinal < s.ordinal {
		tx.db.publishStep() // the step may have waited for tx
	}
}

// canceled returns the cause if ctx has ended, or nil.
func canceled(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// A Read is a Get of Row or, if Row is nil, a Scan of Range that finds few rows.
type Read struct {
	Table  table.Table
	Row    []byte
	Range  table.Range
	Select table.Select
}

// ReadsAhead reports whether ReadAhead can save time. On the embedded engine a read has no round trip.
func (tx *Tx) ReadsAhead() bool { return tx.db.Shared() && len(tx.writes) == 0 }

// ReadAhead makes several reads at once. The same reads, which follow one after the other, then find their
// rows in memory. A read that fails is made again when its row is needed.
func (tx *Tx) ReadAhead(ctx context.Context, reads ...Read) {
	if len(reads) < 2 || !tx.ReadsAhead() {
		return
	}
	rows := make([][]table.Row, len(reads))
	var wg sync.WaitGroup
	for i, r := range reads {
		wg.Go(func() { rows[i] = r.rows(ctx, tx.snapshot) })
	}
	wg.Wait()
	if tx.ahead == nil {
		tx.ahead = map[string][]table.Row{}
	}
	for i, r := range reads {
		if rows[i] != nil {
			tx.ahead[r.key()] = rows[i]
		}
	}
}

// rows makes the read. It returns nil if the read fails.
func (r *Read) rows(ctx context.Context, s *Snapshot) []table.Row {
	if r.Row != nil {
		row, err := s.Get(ctx, r.Table, r.Row, r.Select)
		if err != nil {
			return nil
		}
		return []table.Row{row}
	}
	rows := []table.Row{}
	for row, err := range s.Scan(ctx, r.Table, r.Range, r.Select) {
		if err != nil {
			return nil
		}
		rows = append(rows, row.Clone())
	}
	return rows
}

// key returns a string that two reads share only if they return the same rows.
func (r *Read) key() string {
	b := make([]byte, 0, 256)
	add := func(k []byte) { b = append(binary.AppendUvarint(b, uint64(len(k))), k...) }
	add([]byte(r.Table.Name()))
	add(r.Row)
	add(r.Range.Start)
	add(r.Range.End)
	b = binary.AppendUvarint(b, uint64(len(r.Select.Families)))
	for _, f := range r.Select.Families {
		b = append(b, byte(f))
	}
	for _, c := range r.Select.Columns {
		b = append(b, byte(c.Family))
		add(c.From)
		add(c.To)
	}
	return string(binary.AppendUvarint(binary.AppendUvarint(b, uint64(r.Select.MaxCells)), uint64(r.Select.MaxRows)))
}

// found returns what ReadAhead has read.
func (tx *Tx) found(r Read) ([]table.Row, bool) {
	if tx.ahead == nil || r.Select.Filter != nil || r.Select.Reverse {
		return nil, false
	}
	rows, ok := tx.ahead[r.key()]
	return rows, ok
}

// get reads a row of the snapshot.
func (tx *Tx) get(ctx context.Context, t table.Table, row []byte, sel table.Select) (table.Row, error) {
	if rows, ok := tx.found(Read{Table: t, Row: row, Select: sel}); ok {
		return rows[0], nil
	}
	return tx.snapshot.Get(ctx, t, row, sel)
}

// scan scans the snapshot.
func (tx *Tx) scan(ctx context.Context, t table.Table, r table.Range, sel table.Select) iter.Seq2[table.Row, error] {
	if rows, ok := tx.found(Read{Table: t, Range: r, Select: sel}); ok {
		return func(yield func(table.Row, error) bool) {
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
	return tx.snapshot.Scan(ctx, t, r, sel)
}
