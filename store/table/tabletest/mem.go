package tabletest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Mem is a table.Store in memory that is as simple as possible. Tests compare other
// engines with a Mem, and tests of the packages above the stores use a Mem as their
// store. A Mem keeps every cell of every revision, and each read selects the cells that
// its view shows.
//
// A Mem is neither a table.Batcher nor a table.Bulker, so programs use it as they use
// HBase. A BatchMem is a Batcher.
type Mem struct {
	// SwapTime is the time from the effect of a Swap until its answer. With the clock of
	// testing/synctest, no other operation takes time.
	SwapTime time.Duration

	mu     sync.RWMutex
	tables map[string]*memTable
	closed bool
}

// NewMem returns an empty store.
func NewMem() *Mem { return &Mem{tables: map[string]*memTable{}} }

type memTable struct {
	spec table.Spec
	rows map[string]*memRow
	keys []string // sorted keys of rows
}

// A memRow contains all versions of all cells of a row, sorted by family, qualifier and
// descending revision, and the revisions that deleted the row.
type memRow struct {
	cells   []table.Cell
	deletes []table.Revision
}

func (m *Mem) String() string { return "mem" }

// Create implements table.Store.
func (m *Mem) Create(_ context.Context, specs ...table.Spec) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return table.ErrClosed
	}
	for _, s := range specs {
		if t := m.tables[s.Name]; t != nil {
			if t.spec.Unversioned != s.Unversioned || !slices.Equal(t.spec.Families, s.Families) {
				return fmt.Errorf("mem: table %q exists with other families", s.Name)
			}
			continue
		}
		m.tables[s.Name] = &memTable{spec: s, rows: map[string]*memRow{}}
	}
	return nil
}

// Drop implements table.Store.
func (m *Mem) Drop(_ context.Context, names ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return table.ErrClosed
	}
	for _, n := range names {
		delete(m.tables, n)
	}
	return nil
}

// Names implements table.Store.
func (m *Mem) Names(context.Context) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, table.ErrClosed
	}
	var names []string
	for n := range m.tables {
		names = append(names, n)
	}
	sort.Strings(names)
	return names, nil
}

// Table implements table.Store.
func (m *Mem) Table(name string) table.Table { return memHandle{m, name} }

// Close implements table.Store. The store keeps its content, and Reopen makes it usable
// again.
func (m *Mem) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Reopen makes a closed store usable again, as opening its folder again would.
func (m *Mem) Reopen() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = false
}

// Cells returns every stored cell of a row, of every revision and including tombstones, and the
// revisions that deleted the row.
func (m *Mem) Cells(name string, row []byte) ([]table.Cell, []table.Revision) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t := m.tables[name]
	if t == nil || t.rows[string(row)] == nil {
		return nil, nil
	}
	r := t.rows[string(row)]
	return slices.Clone(r.cells), slices.Clone(r.deletes)
}

// Revisions returns every revision that has a cell or a deletion in a versioned table.
func (m *Mem) Revisions() []table.Revision {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var rs []table.Revision
	for _, t := range m.tables {
		if t.spec.Unversioned {
			continue
		}
		for _, r := range t.rows {
			for _, c := range r.cells {
				rs = append(rs, c.Revision)
			}
			rs = append(rs, r.deletes...)
		}
	}
	slices.Sort(rs)
	return slices.Compact(rs)
}

// table returns the table with a name. It returns an error if the store is closed or
// has no such table. The caller holds the lock.
func (m *Mem) table(name string) (*memTable, error) {
	if m.closed {
		return nil, table.ErrClosed
	}
	t := m.tables[name]
	if t == nil {
		return nil, fmt.Errorf("mem: no table %q", name)
	}
	return t, nil
}

type memHandle struct {
	m    *Mem
	name string
}

func (h memHandle) Name() string { return h.name }

func (h memHandle) Get(ctx context.Context, row []byte, s table.Select) (table.Row, error) {
	rows, err := h.GetMany(ctx, [][]byte{row}, s)
	if err != nil {
		return table.Row{}, err
	}
	return rows[0], nil
}

func (h memHandle) GetMany(ctx context.Context, keys [][]byte, s table.Select) ([]table.Row, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	t, err := h.m.table(h.name)
	if err != nil {
		return nil, err
	}
	rows := make([]table.Row, len(keys))
	for i, k := range keys {
		rows[i] = table.Row{Key: slices.Clone(k)}
		if r := t.rows[string(k)]; r != nil {
			rows[i].Cells = Project(r.visible(s.View, s.Has), s)
		}
	}
	return rows, nil
}

func (h memHandle) Scan(ctx context.Context, r table.Range, s table.Select) iter.Seq2[table.Row, error] {
	return func(yield func(table.Row, error) bool) {
		n := 0
		for from, to := string(r.Start), string(r.End); ; {
			row, ok, err := h.next(ctx, from, to, s)
			if err != nil {
				yield(table.Row{}, err)
				return
			}
			if !ok || !yield(row, nil) {
				return
			}
			if n++; s.MaxRows > 0 && n == s.MaxRows {
				return
			}
			if s.Reverse {
				if to = string(row.Key); to == "" {
					return // an empty end would mean that there is no end
				}
			} else {
				from = string(row.Key) + "\x00"
			}
		}
	}
}

// next returns the next row that a scan yields: the first matching row in [from, to). In
// a reverse scan, it is the last matching row.
func (h memHandle) next(ctx context.Context, from, to string, s table.Select) (table.Row, bool, error) {
	if err := context.Cause(ctx); err != nil {
		return table.Row{}, false, err
	}
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	t, err := h.m.table(h.name)
	if err != nil {
		return table.Row{}, false, err
	}
	i, j := sort.SearchStrings(t.keys, from), len(t.keys)
	if to != "" {
		j = sort.SearchStrings(t.keys, to)
	}
	for ; i < j; i++ {
		k := t.keys[i]
		if s.Reverse {
			j--
			i--
			k = t.keys[j]
		}
		row := table.Row{Key: []byte(k), Cells: t.rows[k].visible(s.View, nil)}
		if s.Filter != nil && !s.Filter.Match(row) {
			continue
		}
		if row.Cells = Project(row.Cells, s); len(row.Cells) > 0 {
			return row, true, nil
		}
	}
	return table.Row{}, false, nil
}

// visible returns the newest cell of each column that the view shows. If has is not nil,
// visible leaves out the columns for which has returns false.
func (r *memRow) visible(v table.View, has func(table.Cell) bool) []table.Cell {
	shows := func(rev table.Revision) bool { return v == nil || rev <= v.Max() && v.Visible(rev) }
	var deleted table.Revision
	for _, d := range r.deletes {
		if shows(d) {
			deleted = max(deleted, d)
		}
	}
	var cells []table.Cell
	for i := 0; i < len(r.cells); {
		j := i
		for j < len(r.cells) && r.cells[j].Compare(r.cells[i]) == 0 {
			j++
		}
		versions := r.cells[i:j]
		i = j
		if has != nil && !has(versions[0]) {
			continue
		}
		for _, c := range versions {
			if shows(c.Revision) {
				if c.Revision >= deleted && !c.Tombstone {
					cells = append(cells, c)
				}
				break
			}
		}
	}
	return cells
}

// Project returns the selected cells, at most s.MaxCells of them if that is not zero.
func Project(cells []table.Cell, s table.Select) []table.Cell {
	var out []table.Cell
	for _, c := range cells {
		if s.MaxCells > 0 && len(out) == s.MaxCells {
			break
		}
		if s.Has(c) {
			out = append(out, c)
		}
	}
	return out
}

// Versions implements table.Versioner.
func (h memHandle) Versions(ctx context.Context, rows [][]byte, f table.Family, after table.Revision) ([]table.Row, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	t, err := h.m.table(h.name)
	if err != nil {
		return nil, err
	}
	out := make([]table.Row, len(rows))
	for i, key := range rows {
		out[i].Key = key
		row := t.rows[string(key)]
		if row == nil {
			continue
		}
		for _, c := range row.cells {
			if c.Family == f && c.Revision > after {
				out[i].Cells = append(out[i].Cells, c)
			}
		}
	}
	return out, nil
}

func (h memHandle) Apply(ctx context.Context, r table.Revision, ms []table.Mutation) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	t, err := h.m.table(h.name)
	if err != nil {
		return err
	}
	if t.spec.Unversioned {
		return fmt.Errorf("mem: table %q is unversioned, use Swap", h.name)
	}
	if r == 0 {
		return errors.New("mem: revision 0")
	}
	if err := t.check(ms); err != nil {
		return err
	}
	t.apply(r, ms)
	return nil
}

func (t *memTable) check(ms []table.Mutation) error {
	for _, m := range ms {
		if err := t.checkCells(m.Cells); err != nil {
			return err
		}
	}
	return nil
}

func (t *memTable) checkCells(cells []table.Cell) error {
	for _, c := range cells {
		if !slices.ContainsFunc(t.spec.Families, func(f table.FamilySpec) bool { return f.Name == c.Family }) {
			return fmt.Errorf("mem: table %q has no family %q", t.spec.Name, c.Family)
		}
		if len(c.Value) > table.MaxValue {
			return fmt.Errorf("mem: table %q: %w: %d bytes", t.spec.Name, table.ErrTooLarge, len(c.Value))
		}
	}
	return nil
}

func (t *memTable) apply(r table.Revision, ms []table.Mutation) {
	for _, m := range ms {
		row := t.row(m.Row)
		if m.DeleteRow && !slices.Contains(row.deletes, r) {
			row.deletes = append(row.deletes, r)
		}
		for _, c := range m.Cells {
			c.Revision = r
			row.put(c)
		}
	}
}

// row returns a row, and creates it if it does not exist.
func (t *memTable) row(key []byte) *memRow {
	k := string(key)
	r := t.rows[k]
	if r == nil {
		r = &memRow{}
		t.rows[k] = r
		i, _ := slices.BinarySearch(t.keys, k)
		t.keys = slices.Insert(t.keys, i, k)
	}
	return r
}

// put stores a copy of a cell under its revision.
func (r *memRow) put(c table.Cell) {
	c.Qualifier, c.Value = bytes.Clone(c.Qualifier), bytes.Clone(c.Value)
	if c.Tombstone {
		c.Value = nil
	}
	i, found := slices.BinarySearchFunc(r.cells, c, table.CompareVersions)
	if found {
		r.cells[i] = c
		return
	}
	r.cells = slices.Insert(r.cells, i, c)
}

func (h memHandle) Erase(ctx context.Context, r table.Revision, rows [][]byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	t, err := h.m.table(h.name)
	if err != nil {
		return err
	}
	t.erase(r, rows)
	return nil
}

func (t *memTable) erase(r table.Revision, rows [][]byte) {
	for _, k := range rows {
		row := t.rows[string(k)]
		if row == nil {
			continue
		}
		row.cells = slices.DeleteFunc(row.cells, func(c table.Cell) bool { return c.Revision == r })
		row.deletes = slices.DeleteFunc(row.deletes, func(d table.Revision) bool { return d == r })
		t.drop(string(k), row)
	}
}

// drop removes a row if it is empty.
func (t *memTable) drop(k string, r *memRow) {
	if len(r.cells)+len(r.deletes) > 0 {
		return
	}
	delete(t.rows, k)
	if i, ok := slices.BinarySearch(t.keys, k); ok {
		t.keys = slices.Delete(t.keys, i, i+1)
	}
}

func (h memHandle) Swap(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, error) {
	done, err := h.swap(ctx, row, f, q, old, cells)
	if h.m.SwapTime > 0 {
		time.Sleep(h.m.SwapTime)
	}
	return done, err
}

func (h memHandle) swap(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, error) {
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	t, err := h.m.table(h.name)
	if err != nil {
		return false, err
	}
	if !t.spec.Unversioned {
		return false, fmt.Errorf("mem: table %q is versioned, Swap is not for it", h.name)
	}
	if err := t.checkCells(cells); err != nil {
		return false, err
	}
	for _, c := range cells {
		if len(c.Value) == 0 && !c.Tombstone {
			return false, fmt.Errorf("mem: empty value in a swap of table %q", h.name)
		}
	}
	var now []byte
	if r := t.rows[string(row)]; r != nil {
		if c := (table.Row{Cells: r.cells}).Find(f, q); c != nil {
			now = c.Value
		}
	}
	if !bytes.Equal(now, old) {
		return false, nil
	}
	t.replace(row, cells)
	return true, nil
}

// replace writes cells of an unversioned table. All of these cells have revision 0, so a
// new cell replaces the old one.
func (t *memTable) replace(key []byte, cells []table.Cell) {
	r := t.row(key)
	for _, c := range cells {
		c.Revision = 0
		r.put(c)
	}
	r.cells = slices.DeleteFunc(r.cells, func(c table.Cell) bool { return c.Tombstone })
	t.drop(string(key), r)
}

// A BatchMem is a Mem that is a table.Batcher. Crash may lose committed batches whose
// wait function was not called. This is like a process that ends before its log is
// synced.
type BatchMem struct {
	*Mem
	unsynced []undo
	seq      int // number of committed batches
	synced   int // number of durable batches
	crashes  int // number of crashes; the wait of a batch committed before the last crash fails
}

var _ table.Batcher = (*BatchMem)(nil)

// NewBatchMem returns an empty store that commits batches.
func NewBatchMem() *BatchMem { return &BatchMem{Mem: NewMem()} }

// An undo reverts one batch.
type undo struct {
	seq int
	fn  []func()
}

// Commit implements table.Batcher.
func (m *BatchMem) Commit(ctx context.Context, b table.Batch) (func() error, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range b.Writes {
		t, err := m.table(w.Table)
		if err != nil {
			return nil, err
		}
		if err := t.check(w.Mutations); err != nil {
			return nil, err
		}
	}
	m.seq++
	u := undo{seq: m.seq}
	writes := b.Writes
	if b.Last != nil {
		writes = append(slices.Clip(writes), b.Last(table.Found{Over: m.overwritten(writes)}))
	}
	for _, w := range writes {
		u.fn = append(u.fn, m.tables[w.Table].commit(b.Revision, w.Mutations)...)
	}
	m.unsynced = append(m.unsynced, u)
	seq, crashes := m.seq, m.crashes
	return func() error { return m.sync(seq, crashes) }, nil
}

// overwritten returns the rows of versioned tables that the writes change and that already have
// cells or deletions.
func (m *BatchMem) overwritten(writes []table.Write) (rows []table.Rows) {
	for _, w := range writes {
		t := m.tables[w.Table]
		over := table.Rows{Table: w.Table}
		for _, x := range w.Mutations {
			if t.rows[string(x.Row)] != nil && !t.spec.Unversioned {
				over.Keys = append(over.Keys, slices.Clone(x.Row))
			}
		}
		if len(over.Keys) > 0 {
			slices.SortFunc(over.Keys, bytes.Compare)
			over.Keys = slices.CompactFunc(over.Keys, bytes.Equal)
			rows = append(rows, over)
		}
	}
	slices.SortFunc(rows, func(a, b table.Rows) int { return strings.Compare(a.Table, b.Table) })
	return rows
}

// commit applies one table's part of a batch and returns functions that revert it.
func (t *memTable) commit(r table.Revision, ms []table.Mutation) []func() {
	var fn []func()
	for _, mu := range ms {
		key := slices.Clone(mu.Row)
		if !t.spec.Unversioned {
			t.apply(r, []table.Mutation{mu})
			fn = append(fn, func() { t.erase(r, [][]byte{key}) })
			continue
		}
		before := slices.Clone(t.row(key).cells)
		t.replace(key, mu.Cells)
		fn = append(fn, func() {
			row := t.row(key)
			row.cells = before
			t.drop(string(key), row)
		})
	}
	return fn
}

// sync makes all batches up to number seq durable.
func (m *BatchMem) sync(seq, crashes int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if crashes == m.crashes && seq <= m.synced {
		return nil
	}
	if m.closed || crashes != m.crashes {
		return fmt.Errorf("mem: %w before the commit was durable", table.ErrClosed)
	}
	m.synced = seq
	for len(m.unsynced) > 0 && m.unsynced[0].seq <= seq {
		m.unsynced = m.unsynced[1:]
	}
	return nil
}

// Crash closes the store and makes it usable again. Of the batches that are not durable,
// Crash keeps the first ones and loses the others. The parameter keep is the number of
// kept batches.
func (m *BatchMem) Crash(keep int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.unsynced) - 1; i >= min(keep, len(m.unsynced)); i-- {
		for _, fn := range slices.Backward(m.unsynced[i].fn) {
			fn()
		}
	}
	m.seq -= max(0, len(m.unsynced)-keep)
	m.synced = m.seq
	m.unsynced = nil
	m.crashes++
	m.closed = false
}
