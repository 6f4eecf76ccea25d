package lsm

import (
	"bytes"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// The trunk and each branch write images of their own. An image is built on the newest
// image that its writer sees, and a causal reader uses only the newest image that the
// reader sees. So a row that only one side changed needs no work when a branch is merged.
// If both sides changed the row, the merge joins their images in one.
//
// A columnar row needs no such join for its columns, because each cell has a key and a
// revision of its own. But a row becomes columnar on one side first. That side then
// writes older cells as columns too. The other side may have deleted these cells in its
// images. See bury.

// joinAll joins the images of rows. It appends one delta for each row and group to
// w.deltas.
func (w *writer) joinAll(rows []table.Rows) error {
	for _, x := range rows {
		t, err := w.s.tables.table(x.Table)
		if err != nil {
			return err
		}
		for _, key := range x.Keys {
			for _, g := range t.groups {
				d := delta{t: t, g: g, row: key, prefix: appendImage(nil, t.id, g.name, key)}
				if err := w.join(&d); err != nil {
					return err
				}
				w.deltas = append(w.deltas, d)
			}
		}
	}
	return nil
}

// join writes an image of a row as the writer's view shows the row. It writes nothing if
// only one image of the row is visible, or if no branch wrote a visible image above the
// low-water mark. The new image joins the changes of all visible revisions above the
// low-water mark, because an image does not show what earlier revisions deleted.
func (w *writer) join(d *delta) error {
	x, err := w.parts(d.prefix)
	if err != nil || x.images < 2 || !x.staged {
		return err
	}
	d.hidden = x.hidden
	if !x.columns {
		return w.putNewest(d, false, newestOfEach(x.cells, x.deleted), nil)
	}
	if err := w.putMarker(d, w.rev, false, x.deleted); err != nil {
		return err
	}
	return w.putColumns(d, x.cells)
}

// parts is information about the visible images of a row. It covers all visible images
// above the low-water mark, and the newest image at or below the mark.
type parts struct {
	images  int
	staged  bool           // a visible image above the mark belongs to a branch
	hidden  bool           // there is an image that the view hides
	columns bool           // one of the images is a marker
	deleted table.Revision // the newest revision that deleted the row
	cells   []table.Cell   // for each column in an image: the newest cell or tombstone
}

func (w *writer) parts(prefix []byte) (x parts, err error) {
	for ok := w.it.SeekPrefixGE(prefix); ok; ok = w.it.Next() {
		rev := revisionOf(w.it.Key())
		if w.view.view != nil && !w.view.sees(rev) {
			x.hidden = true
			continue
		}
		x.staged = x.staged || rev.IsStaged() && rev > w.view.low
		v, err := w.it.ValueAndErr()
		if err != nil {
			return x, err
		}
		m, err := parseImage(rev, bytes.Clone(v))
		if err != nil {
			return x, err
		}
		x.images++
		if m.del {
			x.deleted = max(x.deleted, rev)
		}
		if m.columns {
			x.columns, x.deleted = true, max(x.deleted, m.cutoff)
		} else if x.cells, err = m.appendAll(x.cells); err != nil {
			return x, err
		}
		if rev <= w.view.low {
			break
		}
	}
	slices.SortStableFunc(x.cells, table.CompareVersions)
	x.cells = slices.CompactFunc(x.cells, func(a, b table.Cell) bool { return a.Compare(b) == 0 })
	return x, w.it.Error()
}

// bury prepares the cells of a row that becomes columnar at w.rev. All lines (the trunk
// and the branches) share the columns of a row. Another line may have written older cells
// as columns, or may do so later, although this line has deleted these cells. So bury
// adds a tombstone for each of these cells, with the revision that deleted the cell in
// this line. The cells returned do not use the iterator's memory.
func (w *writer) bury(d *delta, cells []table.Cell) ([]table.Cell, error) {
	if w.it == nil {
		return cells, nil
	}
	cells = slices.Clone(cells)
	detach(cells, nil)
	w.seeks++
	shared := w.it.SeekGE(appendRowPart(nil, d.prefix, termCol)) && bytes.HasPrefix(w.it.Key(), appendRowPart(nil, d.prefix, termCol))
	if err := w.it.Error(); err != nil || !shared && w.view.view == nil {
		return cells, err
	}
	x, err := w.parts(d.prefix)
	if err != nil {
		return nil, err
	}
	// Other lines may build their images on the images above the low-water mark. So the
	// cells of these images are buried too.
	cells = x.buried(cells, x.cells, w.rev)
	if !shared || x.images == 0 {
		// If a collection removed all images that this line sees, this line has deleted
		// nothing: its own images would have prevented the collection. So no column is buried.
		return cells, nil
	}
	written, err := w.columns(d)
	if err != nil {
		return nil, err
	}
	return x.buried(cells, written, w.rev), nil
}

// buried adds tombstones to the sorted cells of a row. It adds one for each cell of old
// whose column has no cell in the parameter cells.
func (x *parts) buried(cells, old []table.Cell, rev table.Revision) []table.Cell {
	n := len(cells)
	for i := range old {
		c := &old[i]
		if _, found := slices.BinarySearchFunc(cells[:n], *c, table.Cell.Compare); !found {
			cells = append(cells, table.Cell{Family: c.Family, Qualifier: c.Qualifier, Tombstone: true, Revision: x.deletedAt(c, rev)})
		}
	}
	slices.SortFunc(cells, table.Cell.Compare)
	return cells
}

// columns returns those cells of a row that have keys of their own. For each column, it returns
// the newest version that the view shows. It leaves out columns whose newest version is a
// tombstone.
func (w *writer) columns(d *delta) (cells []table.Cell, err error) {
	all := appendRowPart(nil, d.prefix, termCol)
	var col []byte // the column whose newest visible version was found
	for ok := w.it.SeekGE(all); ok && bytes.HasPrefix(w.it.Key(), all); ok = w.it.Next() {
		rev := revisionOf(w.it.Key())
		if bytes.Equal(comparer.Split.Prefix(w.it.Key()), col) || rev > w.rev || w.view.view != nil && !w.view.sees(rev) {
			continue
		}
		col = append(col[:0], comparer.Split.Prefix(w.it.Key())...)
		v, err := w.it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		c, err := columnCell(w.it.Key()[len(all):], v)
		if err != nil {
			return nil, err
		}
		if !c.Tombstone {
			cells = append(cells, c)
		}
	}
	return cells, w.it.Error()
}

// deletedAt returns the revision that deleted a cell. If that revision is not known, it
// returns its second argument.
func (x *parts) deletedAt(c *table.Cell, otherwise table.Revision) table.Revision {
	at := x.deleted
	if i, found := slices.BinarySearchFunc(x.cells, *c, table.Cell.Compare); found && x.cells[i].Tombstone {
		at = max(at, x.cells[i].Revision)
	}
	if at < c.Revision || at == c.Revision && !c.Tombstone {
		return otherwise
	}
	return at
}

// eraseStaged removes from one group of a row the change that w.rev made. w.rev is a revision
// of a branch that was discarded. Later images of the same branch build on the image of w.rev,
// but the caller erases these images too. No other images build on it.
func (w *writer) eraseStaged(d *delta) error {
	left := false // reports whether one of the remaining images is a marker
	for ok := w.it.SeekPrefixGE(d.prefix); ok; ok = w.it.Next() {
		if revisionOf(w.it.Key()) == w.rev {
			if err := w.out.Delete(w.it.Key(), nil); err != nil {
				return err
			}
			continue
		}
		v, err := w.it.ValueAndErr()
		if err != nil {
			return err
		}
		m, err := parseImage(revisionOf(w.it.Key()), v)
		if err != nil {
			return err
		}
		left = left || m.columns
	}
	if err := w.it.Error(); err != nil {
		return err
	}
	all := appendRowPart(nil, d.prefix, termCol)
	for ok := w.it.SeekGE(all); ok && bytes.HasPrefix(w.it.Key(), all); ok = w.it.Next() {
		if left && revisionOf(w.it.Key()) != w.rev {
			continue
		}
		if err := w.out.Delete(w.it.Key(), nil); err != nil {
			return err
		}
	}
	return w.it.Error()
}
