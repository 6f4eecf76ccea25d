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

// History is collected with HBase's delete markers. One marker removes the versions of a
// column that are older than all kept versions. Every other removed version gets a marker of
// its own. Markers mask the cells at once, for every reader. The next major compaction
// releases the space and removes the markers. A marker also masks cells with a lower
// timestamp that are written after the marker. This is harmless, because only aborted commits
// can write cells that late.

var _ table.Collector = (*Table)(nil)

// wideFamily is a number of versions. If a family of a row has at least that many versions, all
// families of the row are read in pieces.
const wideFamily = 4096

// upTo is a view of all revisions up to and including its own value.
type upTo table.Revision

func (r upTo) Max() table.Revision           { return table.Revision(r) }
func (r upTo) Low() table.Revision           { return table.Revision(r) }
func (r upTo) Visible(o table.Revision) bool { return o <= table.Revision(r) }

// Collect implements table.Collector. It does not read versions above the largest horizon,
// because all of these are kept.
func (t *Table) Collect(ctx context.Context, rows [][]byte, k *table.Keep) (sum table.Collected, err error) {
	h, err := t.shape(ctx)
	if err != nil || h.unversioned {
		return sum, err
	}
	c := &collection{t: t, h: h, k: k}
	c.plan()
	for part := range slices.Chunk(rows, batchRows) {
		if err := c.rows(ctx, part); err != nil {
			return c.sum, err
		}
	}
	if c.sum.Cells > 0 && !k.Dry {
		t.store.garbage.add(t.name)
	}
	return c.sum, nil
}

// A collection is one call of Collect.
type collection struct {
	t   *Table
	h   *shape
	k   *table.Keep
	sum table.Collected

	read   *selection     // families whose versions must be read, or nil if there are none
	forget []table.Family // families whose versions up to the horizon are removed without being read
}

// plan decides for each family how it is collected.
func (c *collection) plan() {
	var judged []table.Family
	var horizon table.Revision
	for _, f := range c.h.families {
		switch rule := c.k.Of(f); {
		case rule.Horizon == 0:
		case rule.All:
			c.forget = append(c.forget, f)
		default:
			judged = append(judged, f)
			horizon = max(horizon, rule.Horizon)
		}
	}
	if len(judged) == 0 {
		return
	}
	c.read = &selection{view: upTo(horizon), families: map[string][]string{}}
	for _, f := range judged {
		c.read.families[familyName(f)] = nil
	}
}

// rows collects some rows. It first removes columns of all rows, and then the rows'
// deletions. In this order, a deletion hides columns until they are removed.
func (c *collection) rows(ctx context.Context, keys [][]byte) error {
	var columns, deletions []marker
	for _, key := range keys {
		for _, f := range c.forget {
			columns = append(columns, marker{row: key, at: c.k.Of(f).Horizon, families: []table.Family{f}})
		}
	}
	if c.read != nil {
		found, err := c.versions(ctx, keys)
		if err != nil {
			return err
		}
		for i, key := range keys {
			cols, dels, err := c.row(ctx, key, found[i])
			if err != nil {
				return err
			}
			columns, deletions = append(columns, cols...), append(deletions, dels...)
		}
	}
	if c.k.Dry {
		return nil
	}
	if err := c.t.mark(ctx, columns); err != nil {
		return err
	}
	return c.t.mark(ctx, deletions)
}

func (c *collection) versions(ctx context.Context, keys [][]byte) ([][]version, error) {
	want := make([]*table.Row, len(keys))
	for i, k := range keys {
		want[i] = &table.Row{Key: k}
	}
	calls, err := c.t.read(ctx, want, c.read, allVersions, wideFamily)
	if err != nil {
		return nil, err
	}
	found := make([][]version, len(keys))
	for i, call := range calls {
		found[i] = call.versions
	}
	return found, nil
}

// row returns the delete markers for one row: the markers of columns and the markers of
// deletions.
func (c *collection) row(ctx context.Context, key []byte, vs []version) (columns, deletions []marker, err error) {
	if _, wide := cutFamily(vs, wideFamily); wide {
		columns, err = c.wide(ctx, key, vs)
		return columns, nil, err
	}
	stays := c.judge(vs)
	c.count(key, vs, stays)
	if c.nothingStays(vs, stays) {
		return []marker{{row: key, at: c.k.Horizon, families: c.h.families}}, nil, nil
	}
	return c.markers(key, vs, stays, false), c.markers(key, vs, stays, true), nil
}

// judge reports for each version whether it is kept.
func (c *collection) judge(vs []version) []bool {
	var cells []table.Cell
	var deletes []table.Revision
	for i := range vs {
		v := &vs[i]
		if v.isRowTombstone() {
			deletes = append(deletes, v.revision)
			continue
		}
		dead := len(v.value) > 0 && v.value[0] == markTombstone
		cells = append(cells, table.Cell{Family: v.family, Qualifier: v.qualifier, Revision: v.revision, Tombstone: dead})
	}
	slices.Sort(deletes)
	deletes = slices.Compact(deletes)
	cellStays, deleteStays := c.k.Row(cells, deletes)
	stays := make([]bool, len(vs))
	n := 0
	for i := range vs {
		if vs[i].isRowTombstone() {
			at, _ := slices.BinarySearch(deletes, vs[i].revision)
			stays[i] = deleteStays[at]
			continue
		}
		stays[i] = cellStays[n]
		n++
	}
	return stays
}

// nothingStays reports whether the row has versions up to the horizon and all of them can
// be removed.
func (c *collection) nothingStays(vs []version, stays []bool) bool {
	some := false
	for i := range vs {
		if vs[i].revision <= c.k.Horizon {
			if stays[i] {
				return false
			}
			some = true
		}
	}
	return some
}

func (c *collection) count(key []byte, vs []version, stays []bool) {
	for i := range vs {
		if !stays[i] {
			c.sum.Add(table.Collected{Cells: 1, Bytes: int64(len(key) + len(vs[i].qualifier) + len(vs[i].value))})
		}
	}
}

// A cut is a removal from one column. If exact is set, it removes only the version whose
// revision is cut.at. Otherwise it removes all versions up to a timestamp. joinCuts may
// choose any timestamp between cut.at and cut.to.
type cut struct {
	family    table.Family
	qualifier []byte
	at, to    table.Revision
	exact     bool
}

// markers returns the delete markers for those versions of a row that are not kept. If
// deletions is set, it returns the markers for the row's deletions. Otherwise it returns the
// markers for its columns. Where possible, columns share a marker and its timestamp.
func (c *collection) markers(key []byte, vs []version, stays []bool, deletions bool) []marker {
	var cuts []cut
	for i := 0; i < len(vs); {
		j := i
		for j < len(vs) && vs[j].family == vs[i].family && bytes.Equal(vs[j].qualifier, vs[i].qualifier) {
			j++
		}
		if vs[i].isRowTombstone() == deletions {
			cuts = c.cutColumn(cuts, vs[i:j], stays[i:j])
		}
		i = j
	}
	return joinCuts(key, cuts)
}

// cutColumn appends the cuts of a column to cuts. vs contains the column's versions,
// newest first.
func (c *collection) cutColumn(cuts []cut, vs []version, stays []bool) []cut {
	end := len(vs)
	for end > 0 && !stays[end-1] {
		end--
	}
	if end < len(vs) {
		to := c.k.Of(vs[0].family).Horizon
		if end > 0 {
			to = min(to, vs[end-1].revision-1)
		}
		cuts = append(cuts, cut{vs[0].family, vs[0].qualifier, vs[end].revision, to, false})
	}
	for i := range end {
		if r := vs[i].revision; !stays[i] {
			cuts = append(cuts, cut{vs[i].family, vs[i].qualifier, r, r, true})
		}
	}
	return cuts
}

// joinCuts returns markers for cuts, with as few timestamps as possible.
func joinCuts(key []byte, cuts []cut) (ms []marker) {
	slices.SortStableFunc(cuts, func(a, b cut) int {
		switch {
		case a.to < b.to:
			return -1
		case a.to > b.to:
			return 1
		}
		return 0
	})
	for _, exact := range []bool{false, true} {
		n := len(ms)
		for _, x := range cuts {
			if x.exact != exact {
				continue
			}
			if len(ms) == n || ms[len(ms)-1].at < x.at {
				ms = append(ms, marker{row: key, at: x.to, exact: exact, columns: columns{}})
			}
			ms[len(ms)-1].columns.set(x.family, x.qualifier, nil)
		}
	}
	return ms
}

// wide returns the markers for the columns of a row that is too wide for one answer. It
// reads the row family by family and keeps all deletions of the row.
func (c *collection) wide(ctx context.Context, key []byte, vs []version) (ms []marker, err error) {
	var deletes []version
	for _, v := range vs {
		if v.isRowTombstone() {
			deletes = append(deletes, v)
		}
	}
	for f := range c.read.families {
		if ms, err = c.wideFamily(ctx, key, table.Family(f[0]), deletes, ms); err != nil {
			return nil, err
		}
	}
	return ms, nil
}

func (c *collection) wideFamily(ctx context.Context, key []byte, f table.Family, deletes []version, ms []marker) ([]marker, error) {
	for vs, err := range c.t.pieces(ctx, key, c.read.view, f) {
		if err != nil {
			return nil, err
		}
		all := slices.Concat(deletes, vs)
		stays := c.judge(all)[len(deletes):]
		c.count(key, vs, stays)
		ms = append(ms, c.markers(key, vs, stays, false)...)
	}
	return ms, nil
}

// A marker is a delete marker for a row's columns or for whole families. If exact is set,
// it deletes only the versions at a timestamp. Otherwise it deletes all versions up to
// the timestamp.
type marker struct {
	row      []byte
	at       table.Revision
	exact    bool
	columns  columns
	families []table.Family
}

func (m *marker) call(ctx context.Context, t *Table) (hrpc.Call, error) {
	cols := m.columns
	if len(m.families) > 0 {
		cols = columns{}
		for _, f := range m.families {
			cols[familyName(f)] = nil
		}
	}
	opts := []func(hrpc.Call) error{hrpc.TimestampUint64(uint64(m.at))}
	if m.exact {
		opts = append(opts, hrpc.DeleteOneVersion())
	}
	return hrpc.NewDel(ctx, t.full, m.row, cols, opts...)
}

// mark writes delete markers.
func (t *Table) mark(ctx context.Context, ms []marker) error {
	for part := range slices.Chunk(ms, batchWrites) {
		err := t.write(ctx, "collect", len(part), func(ctx context.Context, i int) (hrpc.Call, error) {
			return part[i].call(ctx, t)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Forget implements table.Collector.
func (t *Table) Forget(ctx context.Context, rows [][]byte) (sum table.Collected, err error) {
	h, err := t.shape(ctx)
	if err != nil {
		return sum, err
	}
	if !h.unversioned {
		return sum, fmt.Errorf("hbase: table %s is versioned", t.full)
	}
	for part := range slices.Chunk(rows, batchWrites) {
		err := t.write(ctx, "forget", len(part), func(ctx context.Context, i int) (hrpc.Call, error) {
			return hrpc.NewDel(ctx, t.full, part[i], nil)
		})
		if err != nil {
			return sum, err
		}
		sum.Cells += int64(len(part))
	}
	t.store.garbage.add(t.name)
	return sum, nil
}

// Keys implements table.Collector.
func (t *Table) Keys(ctx context.Context, r table.Range) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		sc, err := t.newScanner(ctx, r, &table.Select{MaxCells: 1})
		for err == nil && !sc.done {
			var raw []rawRow
			if raw, err = sc.next(ctx); err != nil {
				break
			}
			for i := range raw {
				var some bool
				if some, err = sc.holds(ctx, &raw[i]); err != nil {
					break
				}
				if some && !yield(raw[i].key, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// holds reports whether a row has any cells. It normally answers from the page that
// returned the row. If this page has no cell of the row but ends within the row, holds
// reads the row from the server.
func (sc *scanner) holds(ctx context.Context, r *rawRow) (bool, error) {
	if len(r.versions) > 0 || !r.partial {
		return len(r.versions) > 0, nil
	}
	calls, err := sc.t.read(ctx, []*table.Row{{Key: r.key}}, sc.plain, 1, 1)
	return err == nil && len(calls[0].versions) > 0, err
}
