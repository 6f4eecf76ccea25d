package lsm

import (
	"bytes"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A readView contains a view and its bounds. With these bounds most revisions can be
// tested without a call to the view.
type readView struct {
	view table.View
	max  table.Revision // maxRevision if there is no view
	low  table.Revision // all stored revisions up to low are visible, except revisions of parked branches
}

const maxRevision = 1<<63 - 1

func newReadView(v table.View) readView {
	if v == nil {
		return readView{nil, maxRevision, maxRevision}
	}
	e := readView{v, min(v.Max(), maxRevision), v.Low()}
	e.low = min(e.low, e.max)
	return e
}

// poolMax returns the argument for iterPool.get. With this argument, the iterator shows
// everything that the view may show.
func (e *readView) poolMax() table.Revision {
	if e.view == nil {
		return 0
	}
	return e.max
}

// isCausal reports whether the view is causal. For a causal view, the newest visible
// image of a row contains exactly what the view shows of the row.
func (e *readView) isCausal() bool {
	c, ok := e.view.(table.Causal)
	return ok && c.IsCausal()
}

func (e *readView) sees(r table.Revision) bool {
	return e.isSettled(r) || r <= e.max && e.view.Visible(r)
}

// isSettled reports whether r is visible and is at or below the low-water mark. The
// low-water mark of a merge's view may be above invisible revisions of parked branches.
func (e *readView) isSettled(r table.Revision) bool {
	return r <= e.low && (e.view == nil || !r.IsStaged() || e.view.Visible(r))
}

// A state is one group of a row as a view sees it, before its cells are decoded. Usually
// a state is one image. If the view hides revisions above the low-water mark, the state
// is assembled from the changes of the visible revisions above the mark, on top of the
// image at the mark.
type state struct {
	image                  // the newest visible image; if pieced: the image at the low-water mark
	exists  bool           // reports whether image is set, or the table is unversioned
	prefix  []byte         // prefix of the row's image keys
	pieced  bool           // the state is assembled from several images
	deltas  []table.Cell   // if pieced: the changes of visible revisions above the mark
	del     table.Revision // if pieced: the newest visible revision that deleted the row
	columns bool           // the cells have keys of their own
}

// A rowReader finds rows and their cells with one iterator. It can be used repeatedly.
type rowReader struct {
	readView
	it   *iterator
	key  []byte // scratch memory for keys
	qual []byte // scratch memory for qualifiers
	mem  []byte // bytes of the row's cells that have keys of their own
	n    int64  // number of keys read
	sk   int64  // number of seeks
}

// locate finds the state of a row in a versioned group. prefix is the row's image prefix.
func (r *rowReader) locate(st *state, prefix []byte) error {
	*st = state{prefix: prefix, deltas: st.deltas[:0]}
	r.key = append(r.key[:0], prefix...)
	if r.max < maxRevision {
		r.key = appendSuffix(r.key, r.max)
	}
	r.sk++
	if !r.it.SeekPrefixGE(r.key) {
		return r.it.Error()
	}
	return r.classify(st)
}

// classify reads the state from the iterator, which must be at the newest image key not
// above max. It moves the iterator only if the view may hide revisions.
func (r *rowReader) classify(st *state) error {
	r.n++
	rev := revisionOf(r.it.Key())
	if !r.isSettled(rev) && r.isCausal() {
		return r.newestSeen(st, rev)
	}
	v, err := r.it.ValueAndErr()
	if err != nil {
		return err
	}
	if r.isSettled(rev) {
		return st.whole(rev, v)
	}
	return r.piece(st, rev, v)
}

// whole sets the state to a single image.
func (st *state) whole(rev table.Revision, v []byte) (err error) {
	st.exists = true
	st.image, err = parseImage(rev, v)
	st.columns = st.image.columns
	return err
}

// newestSeen sets the state to the newest visible image. It is used only for causal
// views. This image is enough. An image contains everything that its writer saw. If the
// writers of two visible images did not see each other's changes, a merge has joined the
// changes in a newer image.
func (r *rowReader) newestSeen(st *state, rev table.Revision) error {
	for !r.sees(rev) {
		if !r.it.Next() || split(r.it.Key()) != len(st.prefix) || !bytes.HasPrefix(r.it.Key(), st.prefix) {
			return r.it.Error()
		}
		r.n++
		rev = revisionOf(r.it.Key())
	}
	v, err := r.it.ValueAndErr()
	if err != nil {
		return err
	}
	return st.whole(rev, v)
}

// piece reads the image keys above the low-water mark, from newest to oldest. If all of
// them are visible and none belongs to a branch, the state is simply the newest image.
// piece copies this image, because the iterator moves.
func (r *rowReader) piece(st *state, rev table.Revision, v []byte) error {
	newest, err := parseImage(rev, bytes.Clone(v))
	if err != nil {
		return err
	}
	columns := newest.columns
	all := r.sees(rev) && !rev.IsStaged()
	if r.sees(rev) {
		if err := r.delta(st, newest); err != nil {
			return err
		}
	}
	for r.it.Next() && bytes.HasPrefix(r.it.Key(), st.prefix) && split(r.it.Key()) == len(st.prefix) {
		r.n++
		rev := revisionOf(r.it.Key())
		v, err := r.it.ValueAndErr()
		if err != nil {
			return err
		}
		m, err := parseImage(rev, v)
		if err != nil {
			return err
		}
		columns = columns || m.columns
		if r.isSettled(rev) {
			st.image, st.exists = m.clone(), true
			break
		}
		all = all && r.sees(rev) && !rev.IsStaged()
		if !r.sees(rev) {
			continue
		}
		if err := r.delta(st, m.clone()); err != nil {
			return err
		}
	}
	if err := r.it.Error(); err != nil {
		return err
	}
	if all {
		*st = state{prefix: st.prefix, deltas: st.deltas[:0], image: newest, exists: true, columns: newest.columns}
		return nil
	}
	st.pieced, st.columns = true, columns
	return nil
}

// delta adds the change of a visible revision to the state. It also adds the image's
// cells of other visible revisions, because the images of those revisions may have been
// collected.
func (r *rowReader) delta(st *state, m image) error {
	if m.del {
		st.del = max(st.del, m.rev)
	}
	if m.columns {
		return nil
	}
	n := len(st.deltas)
	var err error
	if st.deltas, err = m.appendAll(st.deltas); err != nil {
		return err
	}
	own := slices.DeleteFunc(st.deltas[n:], func(c table.Cell) bool { return c.Revision != m.rev && !r.sees(c.Revision) })
	st.deltas = st.deltas[:n+len(own)]
	return nil
}

// cells decodes the cells of a row that sel selects, at most max cells if max is not
// zero. The cells of an image use the iterator's memory, and other cells use r.mem.
func (r *rowReader) cells(dst []table.Cell, st *state, sel *groupSel, max int) ([]table.Cell, error) {
	if max > 0 {
		max += len(dst)
	}
	switch {
	case st.pieced:
		return r.assemble(dst, st, sel, max)
	case !st.exists:
		return dst, nil
	case st.columns:
		w := colWalk{prefix: st.prefix, cutoff: st.cutoff, max: max}
		return r.walk(dst, sel, &w)
	}
	return st.image.appendSelected(dst, sel, max)
}

// assemble gathers the cells of a pieced row from all sources and keeps the newest cell
// of each column.
func (r *rowReader) assemble(dst []table.Cell, st *state, sel *groupSel, max int) ([]table.Cell, error) {
	n := len(dst)
	cutoff, since := st.del, table.Revision(0)
	var err error
	if st.exists && !st.image.columns {
		if dst, err = st.image.appendSelected(dst, sel, 0); err != nil {
			return dst, err
		}
		since = st.rev
	} else if st.exists {
		cutoff = maxRev(cutoff, st.cutoff)
	}
	for _, c := range st.deltas {
		if sel.wants(&c) {
			dst = append(dst, c)
		}
	}
	if st.columns {
		w := colWalk{prefix: st.prefix, since: since, dead: true}
		if dst, err = r.walk(dst, sel, &w); err != nil {
			return dst, err
		}
	}
	own := newestOfEach(dst[n:], cutoff)
	dst = dst[:n+len(own)]
	if max > 0 && len(dst) > max {
		dst = dst[:max]
	}
	return dst, nil
}

func maxRev(a, b table.Revision) table.Revision { return max(a, b) }

// newestOfEach sorts cells and keeps the newest cell of each column. It drops cells that
// are tombstones or below cutoff.
func newestOfEach(cells []table.Cell, cutoff table.Revision) []table.Cell {
	slices.SortStableFunc(cells, table.CompareVersions)
	out := slices.CompactFunc(cells, func(a, b table.Cell) bool { return a.Compare(b) == 0 })
	return slices.DeleteFunc(out, func(c table.Cell) bool { return c.Tombstone || c.Revision < cutoff })
}
