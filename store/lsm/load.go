package lsm

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A loader converts the sorted records of one shard into keys, row by row.
type loader struct {
	b   *bulk
	s   *shard
	m   *merger
	w   writer
	out *tables

	row   []byte // image prefix of the current row
	cells []table.Cell
	mem   []byte
	seen  int64
}

// streamFrom is a size in bytes. A row with more bytes is written while its records are
// read, and is not gathered in memory.
const streamFrom = 1 << 20

func (x *loader) run(ctx context.Context) error {
	r, ok, err := x.m.next()
	for ok && err == nil {
		if err = context.Cause(ctx); err != nil {
			break
		}
		r, ok, err = x.loadRow(r)
	}
	x.b.report(x.seen & 0xfff)
	return err
}

// next returns the next record. It invalidates the record that it returned before.
func (x *loader) next() (record, bool, error) {
	if x.seen++; x.seen&0xfff == 0 {
		x.b.report(0x1000)
	}
	return x.m.next()
}

// loadRow gathers and writes the records of one row, and returns the first record of the
// next row.
func (x *loader) loadRow(r record) (record, bool, error) {
	x.row = append(x.row[:0], r.key[:r.prefix]...)
	x.cells, x.mem = x.cells[:0], x.mem[:0]
	d := &delta{t: x.s.t, g: x.s.g, prefix: x.row}
	sorted, ok := true, true
	var err error
	for ok && bytes.Equal(r.key[:r.prefix], x.row) {
		if len(r.key) == r.prefix {
			d.del = true
		} else {
			sorted = x.keep(&r) && sorted
		}
		if r, ok, err = x.next(); err != nil {
			return r, false, err
		}
		if len(x.mem) > streamFrom && ok && bytes.Equal(r.key[:r.prefix], x.row) {
			return x.stream(d, r)
		}
	}
	if d.cells = x.cells; !sorted {
		d.cells = table.LastOfEach(x.cells)
	}
	return r, ok, x.write(d)
}

// keep copies a record's cells. It reports whether these cells sort after the cells kept
// before.
func (x *loader) keep(r *record) bool {
	n := len(x.cells)
	at := len(x.mem)
	x.mem = append(x.mem, r.cells...)
	c := record{cells: x.mem[at:len(x.mem):len(x.mem)]}
	x.cells = c.decode(x.cells, x.b.r)
	return n == 0 || x.cells[n-1].Compare(x.cells[n]) < 0
}

// write writes the cells of a gathered row.
func (x *loader) write(d *delta) error {
	if d.t.spec.Unversioned {
		return x.replace(d)
	}
	if x.w.it == nil {
		return x.w.update(d)
	}
	late, err := x.writeLate(d)
	if err == nil && !late {
		err = x.w.update(d)
	}
	if d.over {
		x.b.over.add(d)
	}
	return err
}

// writeLate writes the row and returns true if the store has a revision of the row that
// is newer than the load. Otherwise it writes nothing and returns false. Writing such a row
// changes many keys in no particular order, so writeLate gathers and sorts them.
func (x *loader) writeLate(d *delta) (bool, error) {
	if !x.w.it.SeekPrefixGE(d.prefix) {
		return false, x.w.it.Error()
	}
	if revisionOf(x.w.it.Key()) <= x.b.r {
		return false, nil
	}
	var g gathered
	x.w.out = &g
	err := x.w.update(d)
	x.w.out = x.out
	if err != nil {
		return true, err
	}
	return true, g.writeTo(x.out)
}

// replace writes the cells of a row of an unversioned table.
func (x *loader) replace(d *delta) error {
	var g gathered
	x.w.out = &g
	defer func() { x.w.out = x.out }()
	if d.del && x.w.it != nil {
		if err := x.w.removeGroup(d.prefix); err != nil {
			return err
		}
	}
	if err := x.w.replaceCells(d.t, bytes.Clone(d.prefix), d.cells); err != nil {
		return err
	}
	return g.writeTo(x.out)
}

// stream writes a row that is too large to gather, and is therefore columnar. Records are
// sorted by their first cell, so all cells below the first cell of the next record are
// final. If the table is unversioned or the group is not empty, stream calls gatherAll instead.
func (x *loader) stream(d *delta, r record) (record, bool, error) {
	if x.s.t.spec.Unversioned || x.w.it != nil {
		return x.gatherAll(d, r)
	}
	var cutoff table.Revision
	if d.del {
		cutoff = x.b.r
	}
	if err := x.w.putMarker(d, x.b.r, d.del, cutoff); err != nil {
		return r, false, err
	}
	ok, err := true, error(nil)
	for ok && bytes.Equal(r.key[:r.prefix], x.row) {
		if err = x.flush(d, r.key[r.prefix:]); err != nil {
			return r, false, err
		}
		x.keep(&r)
		if r, ok, err = x.next(); err != nil {
			return r, false, err
		}
	}
	return r, ok, x.w.putColumns(d, table.LastOfEach(x.cells))
}

// flush writes the cells below a column and keeps the other cells.
func (x *loader) flush(d *delta, col []byte) error {
	x.cells = table.LastOfEach(x.cells)
	first := table.Cell{Family: table.Family(col[0]), Qualifier: col[1:]}
	n, _ := slices.BinarySearchFunc(x.cells, first, table.Cell.Compare)
	if err := x.w.putColumns(d, x.cells[:n]); err != nil {
		return err
	}
	rest := slices.Clone(x.cells[n:])
	mem := detach(rest, nil)
	x.cells, x.mem = append(x.cells[:0], rest...), mem
	return nil
}

// gatherAll reads a large row into memory. This is necessary if the table is unversioned, or
// if the store may already have the row.
func (x *loader) gatherAll(d *delta, r record) (record, bool, error) {
	ok, err := true, error(nil)
	for ok && bytes.Equal(r.key[:r.prefix], x.row) {
		x.keep(&r)
		if r, ok, err = x.next(); err != nil {
			return r, false, err
		}
	}
	d.cells = table.LastOfEach(x.cells)
	return r, ok, x.write(d)
}

// gathered is a sink that sorts its operations by key. Of several operations on a key it
// keeps the last one.
type gathered struct{ ops []op }

type op struct {
	key, value []byte
	del        bool
}

// Set implements sink.
func (g *gathered) Set(key, value []byte, _ *pebble.WriteOptions) error {
	g.ops = append(g.ops, op{bytes.Clone(key), bytes.Clone(value), false})
	return nil
}

// Delete implements sink.
func (g *gathered) Delete(key []byte, _ *pebble.WriteOptions) error {
	g.ops = append(g.ops, op{bytes.Clone(key), nil, true})
	return nil
}

func (g *gathered) writeTo(out sink) error {
	slices.Reverse(g.ops)
	slices.SortStableFunc(g.ops, func(a, b op) int { return bytes.Compare(a.key, b.key) })
	g.ops = slices.CompactFunc(g.ops, func(a, b op) bool { return bytes.Equal(a.key, b.key) })
	for _, o := range g.ops {
		var err error
		if o.del {
			err = out.Delete(o.key, nil)
		} else {
			err = out.Set(o.key, o.value, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// overMost bounds the sum of the sizes of the row keys that a load lists as written over, in
// bytes.
const overMost = 16 << 20

// overwritten gathers the keys of the rows that a load writes over.
type overwritten struct {
	mu   sync.Mutex
	rows map[string][][]byte // by table
	size int
	all  bool // there are too many rows to list
}

func (o *overwritten) add(d *delta) {
	row, _, _, _ := cutEscaped(nil, d.prefix[headLen:])
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.size += len(row); o.all || o.size > overMost {
		o.all, o.rows = true, nil
		return
	}
	if o.rows == nil {
		o.rows = map[string][][]byte{}
	}
	o.rows[d.t.spec.Name] = append(o.rows[d.t.spec.Name], row)
}

// sorted lists each row once, also one that was written in several groups.
func (o *overwritten) sorted() table.Overwritten {
	return table.Overwritten{Rows: table.SortedRows(o.rows), All: o.all}
}
