package lsm

import (
	"bytes"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A colWalk reads cells that have keys of their own: the cells of a columnar row or of an
// unversioned table.
type colWalk struct {
	prefix []byte         // prefix of the row's image keys
	cutoff table.Revision // cells older than this revision are deleted
	since  table.Revision // cells up to this revision are already known
	max    int            // stop after this many cells; zero means no bound
	dead   bool           // append tombstones too

	key  []byte // prefix of the row's column keys in one family
	col  []byte // the column under the iterator
	to   []byte // the end of the range being read
	fam  table.Family
	full bool
}

// walk appends the cells that sel selects to dst.
func (r *rowReader) walk(dst []table.Cell, sel *groupSel, w *colWalk) ([]table.Cell, error) {
	whole := []table.ColumnRange{{}}
	for i := range sel.fams {
		f := &sel.fams[i]
		w.fam = f.family
		w.key = append(appendRowPart(w.key[:0], w.prefix, termCol), byte(f.family))
		ranges := f.ranges
		if f.whole {
			ranges = whole
		}
		for j := range ranges {
			var err error
			if single(&ranges[j]) {
				dst, err = r.walkOne(dst, w, ranges[j].From)
			} else {
				dst, err = r.walkRange(dst, w, &ranges[j])
			}
			if err != nil || w.full {
				return dst, err
			}
		}
	}
	return dst, nil
}

// walkOne reads a single column. It needs at most one seek. A bloom filter may make the
// seek unnecessary.
func (r *rowReader) walkOne(dst []table.Cell, w *colWalk, q []byte) ([]table.Cell, error) {
	w.col = append(appendEscaped(append(w.col[:0], w.key...), q), escape, termImage)
	r.key = append(r.key[:0], w.col...)
	if r.max < maxRevision {
		r.key = appendSuffix(r.key, r.max)
	}
	r.sk++
	ok := r.it.SeekPrefixGE(r.key)
	for ; ok; ok = r.it.Next() {
		r.n++
		if rev := revisionOf(r.it.Key()); r.sees(rev) {
			return r.emit(dst, w, q, rev)
		}
	}
	return dst, r.it.Error()
}

func (r *rowReader) walkRange(dst []table.Cell, w *colWalk, c *table.ColumnRange) ([]table.Cell, error) {
	w.to = c.To
	r.key = appendEscaped(append(r.key[:0], w.key...), c.From)
	r.sk++
	for ok := r.it.SeekGE(r.key); ok; {
		k := r.it.Key()
		if !bytes.HasPrefix(k, w.key) {
			break
		}
		q, term, rest, good := cutEscaped(r.qual[:0], k[len(w.key):])
		if !good || term != termImage || len(rest) != 0 && len(rest) != suffixLen {
			return dst, errKey
		}
		if r.qual = q; behind(q, w.to) {
			break
		}
		w.col = append(w.col[:0], k[:len(k)-len(rest)]...)
		rev, found := r.version(w)
		if !found {
			ok = r.it.Valid()
			continue
		}
		var err error
		if dst, err = r.emit(dst, w, q, rev); err != nil || w.full {
			return dst, err
		}
		ok = r.it.NextPrefix()
	}
	return dst, r.it.Error()
}

// version moves the iterator to the newest visible version of the current column. If
// there is none, version moves the iterator past the column and returns false.
func (r *rowReader) version(w *colWalk) (table.Revision, bool) {
	for {
		r.n++
		rev := revisionOf(r.it.Key())
		var ok bool
		switch {
		case rev > r.max:
			r.key = appendSuffix(append(r.key[:0], w.col...), r.max)
			r.sk++
			ok = r.it.SeekGE(r.key)
		case r.sees(rev):
			return rev, true
		default:
			ok = r.it.Next()
		}
		if !ok || !bytes.Equal(comparer.Split.Prefix(r.it.Key()), w.col) {
			return 0, false
		}
	}
}

// emit appends the cell under the iterator to dst unless the cell is hidden.
func (r *rowReader) emit(dst []table.Cell, w *colWalk, q []byte, rev table.Revision) ([]table.Cell, error) {
	v, err := r.it.ValueAndErr()
	if err != nil {
		return dst, err
	}
	if len(v) == 0 || v[0] > columnLive {
		return dst, errColumn
	}
	dead := v[0] == columnDead
	if rev < w.cutoff || rev != 0 && rev <= w.since || dead && !w.dead {
		return dst, nil
	}
	at := len(r.mem)
	r.mem = append(append(r.mem, q...), v[1:]...)
	mid, end := at+len(q), len(r.mem)
	dst = append(dst, table.Cell{
		Family: w.fam, Tombstone: dead, Revision: rev,
		Qualifier: r.mem[at:mid:mid], Value: r.mem[mid:end:end],
	})
	w.full = w.max > 0 && len(dst) >= w.max
	return dst, nil
}
