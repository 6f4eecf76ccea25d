package lsm

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// History is collected image by image. Every image contains the whole row, so an image is
// removed unless a kept state shows it. In a columnar row this rule applies to the
// markers, and each column is collected separately.

var _ table.Collector = handle{}

const (
	// collectRows is the number of rows examined at once. collectColumns is the number of
	// column versions of a wide row examined at once. Between two such steps, other writers
	// can commit.
	collectRows    = 64
	collectColumns = 4096
)

// Collect implements table.Collector.
func (h handle) Collect(ctx context.Context, rows [][]byte, k *table.Keep) (sum table.Collected, err error) {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, bytes.Compare)
	rows = slices.CompactFunc(rows, bytes.Equal)
	defer func() {
		if sum.Cells > 0 && !k.Dry {
			h.s.iters.refresh() // idle iterators would still show the removed versions
		}
	}()
	clean := false // the last part had no garbage
	for part := range slices.Chunk(rows, collectRows) {
		if clean {
			part, err = h.withGarbage(ctx, part, k)
		}
		before := sum.Cells
		if err == nil && len(part) > 0 {
			err = h.collect(ctx, part, k, &sum)
		}
		if err != nil {
			return sum, h.s.wrap("collect in "+h.name, err)
		}
		clean = sum.Cells == before
	}
	return sum, nil
}

// withGarbage returns those rows that may have something to collect. Others can commit meanwhile.
func (h handle) withGarbage(ctx context.Context, rows [][]byte, k *table.Keep) (found [][]byte, err error) {
	if err := h.s.gate.begin(ctx); err != nil {
		return nil, err
	}
	defer h.s.gate.end()
	defer damaged(&err)
	t, err := h.s.tables.table(h.name)
	if err != nil || t.spec.Unversioned {
		return nil, err
	}
	dry := *k
	dry.Dry = true
	c := &collector{k: &dry, void: map[table.Revision][][]byte{}}
	if c.it, err = h.s.iters.get(0); err != nil {
		return nil, err
	}
	defer func() { h.s.iters.put(c.it) }()
	return c.rows(t, rows)
}

func (h handle) collect(ctx context.Context, rows [][]byte, k *table.Keep, sum *table.Collected) error {
	c := &collector{k: k, void: map[table.Revision][][]byte{}}
	err := h.deleteKeys(ctx, c, sum, func(t *tableInfo) error {
		if t.spec.Unversioned {
			return nil
		}
		_, err := c.rows(t, rows)
		return err
	})
	if err != nil {
		return err
	}
	if len(c.void) > 0 && !k.Dry {
		for r, rows := range c.void {
			if err := h.Erase(ctx, r, rows); err != nil {
				return err
			}
		}
		return h.collect(ctx, rows, k, sum)
	}
	for _, w := range c.wide {
		for more := true; more; {
			if err := h.deleteKeys(ctx, c, sum, func(*tableInfo) (err error) {
				more, err = c.columns(&w)
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Forget implements table.Collector.
func (h handle) Forget(ctx context.Context, rows [][]byte) (sum table.Collected, err error) {
	for part := range slices.Chunk(rows, collectRows) {
		c := &collector{k: &table.Keep{}}
		if err := h.deleteKeys(ctx, c, &sum, func(t *tableInfo) error {
			if !t.spec.Unversioned {
				return fmt.Errorf("table %q is versioned", h.name)
			}
			return c.forget(t, part)
		}); err != nil {
			return sum, h.s.wrap("forget in "+h.name, err)
		}
	}
	return sum, nil
}

// deleteKeys calls the function do, and applies the changes that the function records as one
// batch. The batch is not synced: if a crash undoes it, a later collection or erasure repeats
// the changes.
func (h handle) deleteKeys(ctx context.Context, c *collector, sum *table.Collected, do func(*tableInfo) error) (err error) {
	s := h.s
	if err := s.gate.beginWrite(ctx, true); err != nil {
		return err
	}
	defer s.gate.endWrite()
	defer s.caught(&err)
	t, err := s.tables.table(h.name)
	if err != nil {
		return err
	}
	b := s.db.NewBatch()
	defer b.Close()
	if c.it, err = s.iters.get(0); err != nil {
		return err
	}
	defer func() { s.iters.put(c.it); c.it = nil }()
	c.out, c.removed = b, table.Collected{}
	if err := do(t); err != nil {
		return err
	}
	sum.Add(c.removed)
	if b.Empty() {
		return nil
	}
	if err := s.db.Apply(b, pebble.NoSync); err != nil {
		return err
	}
	s.iters.swapped() // writers must not use a removed image
	s.garbage.add(t.id, c.removed.Bytes)
	return nil
}

// A collector deletes keys that no kept state needs.
type collector struct {
	k       *table.Keep
	it      *iterator
	out     sink
	removed table.Collected
	work    int // counts the keys removed, and the rows in void and wide
	scratch collectorMemory
	void    map[table.Revision][][]byte // rows with images of aborted revisions
	wide    []wideRow
}

// collectorMemory is what a collector uses again for each row.
type collectorMemory struct {
	images []imageKey
	keys   []byte
	cells  []table.Cell
	prefix []byte
}

// remove deletes a key and counts it. In a dry collection it only counts the key. The key is
// the key under the iterator or a copy of it.
func (c *collector) remove(key []byte, size int) error {
	c.work++
	c.removed.Cells++
	c.removed.Bytes += int64(size)
	if c.k.Dry {
		return nil
	}
	return c.out.Delete(key, nil)
}

func (c *collector) size() int {
	v := c.it.LazyValue()
	return len(c.it.Key()) + v.Len()
}

func (c *collector) forget(t *tableInfo, rows [][]byte) error {
	for _, row := range rows {
		for _, g := range t.groups {
			prefix := appendImage(nil, t.id, g.name, row)
			end := appendRowPart(nil, prefix, termRow)
			for ok := c.it.SeekGE(prefix); ok && bytes.Compare(c.it.Key(), end) < 0; ok = c.it.NextPrefix() {
				if err := c.remove(c.it.Key(), c.size()); err != nil {
					return err
				}
			}
		}
	}
	return c.it.Error()
}

// rows collects the images of rows, and returns the rows that have something to collect.
func (c *collector) rows(t *tableInfo, rows [][]byte) (found [][]byte, err error) {
	some := make([]bool, len(rows))
	for _, g := range t.groups { // group by group, as the keys are stored
		for i, row := range rows {
			before := c.work
			c.scratch.prefix = appendImage(c.scratch.prefix[:0], t.id, g.name, row)
			if err := c.row(g, row, c.scratch.prefix); err != nil {
				return nil, err
			}
			some[i] = some[i] || c.work > before
		}
	}
	for i, row := range rows {
		if some[i] {
			found = append(found, row)
		}
	}
	return found, nil
}

// rule returns the family whose rule applies to a group. Families that share an image are
// collected together. The rule with the oldest horizon applies, because it keeps the most
// history.
func (c *collector) rule(g *group) table.Family {
	f := g.families[0]
	for _, o := range g.families[1:] {
		if c.k.Of(o).Horizon < c.k.Of(f).Horizon {
			f = o
		}
	}
	return f
}

// An imageKey is an image of a row with the additional information that collection needs.
type imageKey struct {
	image
	key  []byte
	size int
	top  bool // a kept state shows the image
	dead bool // the image has no live cells
}

// row collects the images in one group of a row.
func (c *collector) row(g *group, row, prefix []byte) error {
	f := c.rule(g)
	if c.k.Of(f).Horizon == 0 {
		return nil // all history is kept, so reading the images is not necessary
	}
	images, err := c.images(f, prefix)
	if err != nil || len(images) == 0 {
		return err
	}
	horizon := c.k.Of(f).Horizon
	whole := true
	_, own := c.k.Families[f]
	for i := range images {
		switch r := images[i].rev; {
		case r > horizon && own && r.IsStaged():
			// The branch that wrote this image may not see all images below the horizon. One of
			// those images may delete a cell that this image contains. The merge of the branch,
			// and readers of other branches, may still need the image with that deletion. So no
			// image of the row is removed.
			return nil
		case r > horizon:
		case c.k.Void != nil && c.k.Void(r):
			c.void[r] = append(c.void[r], row)
			c.work++
			whole = false
		case !c.counts(r, horizon):
			return nil // the state at the horizon does not show r, a revision of a branch
		}
	}
	if !whole {
		return nil // Erase must rewrite the row's images first
	}
	if slices.ContainsFunc(images, func(m imageKey) bool { return m.columns }) {
		c.wide = append(c.wide, wideRow{group: g, family: f, prefix: bytes.Clone(prefix)})
		c.work++
	}
	_, err = c.drop(images, horizon, false)
	return err
}

// counts reports whether the state at the horizon shows r. The revision r must not be
// aborted.
func (c *collector) counts(r, horizon table.Revision) bool {
	return (c.k.Visible == nil || c.k.Visible(r)) && (c.k.ShownBy == nil || c.k.ShownBy(r) <= horizon)
}

// drop removes images that no state needs, and returns the number of images left. An
// image without live cells is not needed if no older image is left. If empty is set, the
// row has no columns left, so its markers count as images without live cells.
func (c *collector) drop(images []imageKey, horizon table.Revision, empty bool) (stay int, err error) {
	for i := len(images) - 1; i >= 0; i-- {
		m := &images[i]
		if m.rev > horizon || m.top && !(stay == 0 && (m.dead || empty && m.columns)) {
			stay++
			continue
		}
		if err := c.remove(m.key, m.size); err != nil {
			return stay, err
		}
	}
	return stay, nil
}

// images returns the images of a row, newest first, with top set for the images that a
// kept state shows. They are valid until the next call.
func (c *collector) images(f table.Family, prefix []byte) ([]imageKey, error) {
	states := c.k.States(f)
	images, keys := c.scratch.images[:0], c.scratch.keys[:0]
	defer func() { c.scratch.images, c.scratch.keys = images, keys }()
	for ok := c.it.SeekPrefixGE(prefix); ok; ok = c.it.Next() {
		at := len(keys)
		keys = append(keys, c.it.Key()...)
		m := imageKey{key: keys[at:], size: c.size()}
		m.rev = revisionOf(m.key)
		for n := len(states); n > 0 && c.k.Shows(states[n-1], m.rev); n = len(states) {
			states, m.top = states[:n-1], true
		}
		if m.top || len(images) == 0 {
			if err := c.decode(&m); err != nil {
				return nil, err
			}
		}
		images = append(images, m)
	}
	return images, c.it.Error()
}

// decode decodes the value of the image under the iterator.
func (c *collector) decode(m *imageKey) error {
	v, err := c.it.ValueAndErr()
	if err != nil {
		return err
	}
	if m.image, err = parseImage(m.rev, v); err != nil || m.columns {
		return err
	}
	cells, err := m.appendAll(c.scratch.cells[:0])
	c.scratch.cells = cells
	m.dead = !slices.ContainsFunc(cells, func(c table.Cell) bool { return !c.Tombstone })
	m.revs, m.body = nil, nil // their memory belongs to the iterator
	return err
}

// A wideRow is a columnar row whose columns are examined in pieces.
type wideRow struct {
	group  *group
	family table.Family
	prefix []byte
	next   []byte // the key at which the next piece begins
	left   bool   // an examined piece has columns that are kept
}

// columns collects the next piece of a columnar row, and reports whether there are more
// pieces. It reads the row's images again for each piece, because others may commit in
// between.
func (c *collector) columns(w *wideRow) (more bool, err error) {
	images, err := c.images(w.family, w.prefix)
	if err != nil || len(images) == 0 {
		return false, err
	}
	var deletes []table.Version
	for _, m := range images {
		if m.columns && m.cutoff > 0 {
			deletes = append(deletes, table.Version{Revision: m.cutoff})
		}
	}
	x := &columnCollector{c: c, fold: c.k.Fold(w.family, deletes), w: w}
	whole := w.next == nil
	if more, err = x.run(); err != nil || more || !whole || w.left {
		return more, err
	}
	_, err = c.drop(images, c.k.Of(w.family).Horizon, true)
	return false, err
}

// A columnCollector examines the columns of a row, version by version.
type columnCollector struct {
	c    *collector
	w    *wideRow
	fold *table.Folder
	col  []byte // the column whose versions are being gathered
	vs   []table.Version
	keys [][]byte
	size []int
}

func (x *columnCollector) run() (more bool, err error) {
	it := x.c.it
	all := appendRowPart(nil, x.w.prefix, termCol)
	from := x.w.next
	if from == nil {
		from = all
	}
	n := 0
	for ok := it.SeekGE(from); ok && bytes.HasPrefix(it.Key(), all); ok = it.Next() {
		if col := comparer.Split.Prefix(it.Key()); !bytes.Equal(col, x.col) {
			if err := x.judge(); err != nil {
				return false, err
			}
			if x.col = append(x.col[:0], col...); n >= collectColumns {
				x.w.next = bytes.Clone(col)
				return true, nil
			}
		}
		n++
		v, err := it.ValueAndErr()
		if err != nil {
			return false, err
		}
		dead := len(v) == 1 && v[0] == columnDead
		x.vs = append(x.vs, table.Version{Revision: revisionOf(it.Key()), Tombstone: dead})
		x.keys = append(x.keys, bytes.Clone(it.Key()))
		x.size = append(x.size, len(it.Key())+len(v))
	}
	if err := it.Error(); err != nil {
		return false, err
	}
	return false, x.judge()
}

// judge removes the versions of the gathered column that no kept state needs.
func (x *columnCollector) judge() error {
	x.fold.Column(x.vs)
	for i, v := range x.vs {
		if v.Kept {
			x.w.left = true
		} else if err := x.c.remove(x.keys[i], x.size[i]); err != nil {
			return err
		}
	}
	x.vs, x.keys, x.size = x.vs[:0], x.keys[:0], x.size[:0]
	return nil
}
