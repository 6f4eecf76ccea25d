package hbase

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/tsuna/gohbase/hrpc"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// The past is changed in two ways. Delete markers remove versions up to a timestamp. To
// replace an old version, a new version is written with the same timestamp: of two such
// cells, HBase returns the one that was written later. The next major compaction removes
// the masked cells.

var _ table.Redactor = (*Table)(nil)

// History implements table.Redactor.
func (t *Table) History(ctx context.Context, r table.Range) iter.Seq2[table.Past, error] {
	return func(yield func(table.Past, error) bool) {
		h, err := t.shape(ctx)
		if err == nil && h.unversioned {
			err = fmt.Errorf("hbase: table %s is unversioned", t.full)
		}
		if err == nil {
			x := historian{t: t}
			x.see = func(key []byte, vs []version) error {
				p, err := t.pastOf(key, vs)
				x.ended = err == nil && !yield(p, nil)
				return err
			}
			err = x.run(ctx, r, h.families)
		}
		if err != nil {
			yield(table.Past{}, err)
		}
	}
}

// A historian reads all versions of rows, many rows in one batch.
type historian struct {
	t     *Table
	see   func(key []byte, vs []version) error // receives the versions of a row, or a piece of them
	all   *selection
	rows  []*table.Row
	ended bool // set by see: the iteration stops
}

func (x *historian) run(ctx context.Context, r table.Range, families []table.Family) error {
	x.all = &selection{families: map[string][]string{}}
	for _, f := range families {
		x.all.families[familyName(f)] = nil
	}
	for key, err := range x.t.Keys(ctx, r) {
		if err != nil {
			return err
		}
		if x.rows = append(x.rows, &table.Row{Key: bytes.Clone(key)}); len(x.rows) < batchRows {
			continue
		}
		if err := x.flush(ctx); err != nil || x.ended {
			return err
		}
	}
	return x.flush(ctx)
}

// flush reads the gathered rows and yields them.
func (x *historian) flush(ctx context.Context) error {
	if len(x.rows) == 0 {
		return nil
	}
	calls, err := x.t.read(ctx, x.rows, x.all, allVersions, wideFamily)
	if err != nil {
		return err
	}
	for i, row := range x.rows {
		vs := calls[i].versions
		if _, wide := cutFamily(vs, wideFamily); wide {
			err = x.wide(ctx, row.Key, vs)
		} else {
			err = x.see(row.Key, vs)
		}
		if err != nil || x.ended {
			return err
		}
	}
	x.rows = x.rows[:0]
	return nil
}

// pastOf returns the past of a row, or of a piece of a row.
func (t *Table) pastOf(key []byte, vs []version) (p table.Past, err error) {
	p.Key = key
	if p.Cells, err = allCells(vs, t.opener(key)); err != nil {
		return p, err
	}
	for i := range vs {
		if vs[i].isRowTombstone() {
			p.Deletes = append(p.Deletes, vs[i].revision)
		}
	}
	slices.Sort(p.Deletes)
	p.Deletes = slices.Compact(p.Deletes)
	p.Cells = table.SortVersions(p.Cells)
	return p, nil
}

// wide reads a row that is too wide for one answer, family by family.
func (x *historian) wide(ctx context.Context, key []byte, vs []version) error {
	deletes := slices.DeleteFunc(slices.Clone(vs), func(v version) bool { return !v.isRowTombstone() })
	if err := x.see(key, deletes); err != nil || x.ended {
		return err
	}
	for f := range x.all.families {
		for piece, err := range x.t.pieces(ctx, key, nil, table.Family(f[0])) {
			if err == nil {
				err = x.see(key, piece)
			}
			if err != nil || x.ended {
				return err
			}
		}
	}
	return nil
}

// pieces yields the versions in a family of a row, except row tombstones. If v is not nil, it
// yields no versions above v.Max(). All versions of a column are in the same piece.
func (t *Table) pieces(ctx context.Context, key []byte, v table.View, f table.Family) iter.Seq2[[]version, error] {
	return func(yield func([]version, error) bool) {
		for from := firstStored; ; {
			vs, err := t.readSpan(ctx, key, v, f, span{from: from}, allVersions, wideFamily)
			full := err == nil && len(vs) >= wideFamily
			if full {
				last := vs[len(vs)-1].qualifier
				n := slices.IndexFunc(vs, func(v version) bool { return bytes.Equal(v.qualifier, last) })
				if from = last; n == 0 { // all versions read belong to one column
					from = append(bytes.Clone(last), 0)
					vs, err = t.readSpan(ctx, key, v, f, span{from: last, to: from}, allVersions, 0)
				} else {
					vs = vs[:n]
				}
			}
			if !yield(vs, err) || err != nil || !full {
				return
			}
		}
	}
}

// Redact implements table.Redactor.
func (t *Table) Redact(ctx context.Context, upTo table.Revision, rs []table.Redaction) error {
	h, err := t.writable(ctx, upTo)
	if err != nil {
		return err
	}
	var gone []marker
	for i := range rs {
		switch x := &rs[i]; {
		case x.All:
			gone = append(gone, marker{row: x.Row, at: upTo, families: h.families})
		case len(x.Columns) > 0:
			m := marker{row: x.Row, at: upTo, columns: columns{}}
			for _, c := range x.Columns {
				m.columns.set(c.Family, storeQualifier(c.Qualifier), nil)
			}
			gone = append(gone, m)
		}
	}
	if err := t.mark(ctx, gone); err != nil {
		return err
	}
	for i := range rs {
		if err := t.rewrite(ctx, &rs[i], upTo); err != nil {
			return err
		}
	}
	return nil
}

// rewrite writes the new version of each cell whose old version exists.
func (t *Table) rewrite(ctx context.Context, x *table.Redaction, upTo table.Revision) error {
	if x.All || len(x.Cells) == 0 {
		return nil
	}
	versions, err := t.stored(ctx, x.Row, x.Cells, upTo)
	if err != nil || len(versions) == 0 {
		return err
	}
	at := make([]table.Revision, 0, len(versions))
	for r := range versions {
		at = append(at, r)
	}
	return t.write(ctx, "redact", len(at), func(ctx context.Context, i int) (hrpc.Call, error) {
		return hrpc.NewPut(ctx, t.full, x.Row, versions[at[i]], hrpc.TimestampUint64(uint64(at[i])))
	})
}

// stored returns, by revision, the cells that replace a version that exists now. A version that
// HBase does not return may be masked by a delete marker. In that case its replacement must not
// be written, because it would be masked too, or would reappear later.
func (t *Table) stored(ctx context.Context, row []byte, cells []table.Cell, upTo table.Revision) (map[table.Revision]columns, error) {
	existing := map[table.Revision]columns{}
	x := table.Redaction{Cells: cells}
	done := map[table.Family]bool{}
	for _, c := range cells {
		if done[c.Family] {
			continue
		}
		done[c.Family] = true
		for vs, err := range t.pieces(ctx, row, nil, c.Family) {
			var now []table.Cell
			if err == nil {
				now, err = allCells(vs, t.opener(row))
			}
			if err != nil {
				return nil, err
			}
			for i := range now {
				to, _ := x.Change(&now[i], upTo)
				if to.Tombstone == now[i].Tombstone && bytes.Equal(to.Value, now[i].Value) {
					continue
				}
				if existing[to.Revision] == nil {
					existing[to.Revision] = columns{}
				}
				existing[to.Revision].set(to.Family, storeQualifier(to.Qualifier), t.storeIn(row, &to))
			}
		}
	}
	return existing, nil
}
