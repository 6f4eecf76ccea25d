package lsm

import (
	"encoding/binary"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// These are the flags in an image's first byte.
const (
	flagColumns = 1 << iota // the row is columnar: its cells have keys of their own
	flagDelete              // the image's revision deleted the row
)

// An image is the decoded beginning of an image key's value. For a row in one piece, the
// value contains all cells that the row has after the image's revision, and the
// tombstones that this revision wrote. For a columnar row, the value contains the cutoff.
// All columns older than the cutoff are hidden.
type image struct {
	rev     table.Revision
	columns bool
	del     bool
	cutoff  table.Revision // for a columnar row: older columns are hidden
	revs    []byte         // revisions of cells that other revisions wrote, 8 bytes each
	body    []byte         // sections: for each family its name, the length of its cells, and the cells
}

func parseImage(rev table.Revision, v []byte) (image, error) {
	if len(v) == 0 {
		return image{}, errImage
	}
	m := image{rev: rev, columns: v[0]&flagColumns != 0, del: v[0]&flagDelete != 0}
	n, k := binary.Uvarint(v[1:])
	if k <= 0 {
		return image{}, errImage
	}
	v = v[1+k:]
	if m.columns {
		m.cutoff = table.Revision(n)
		return m, nil
	}
	if n > uint64(len(v))/8 {
		return image{}, errImage
	}
	m.revs, m.body = v[:8*n], v[8*n:]
	return m, nil
}

// appendMarker encodes the image of a columnar row, which is a marker.
func appendMarker(dst []byte, del bool, cutoff table.Revision) []byte {
	f := byte(flagColumns)
	if del {
		f |= flagDelete
	}
	return binary.AppendUvarint(append(dst, f), uint64(cutoff))
}

// A section is the part of an image with the cells of one family.
type section struct {
	family table.Family
	cells  []byte
}

// section removes the next section from the image's body and returns it.
func (m *image) section() (section, bool, error) {
	if len(m.body) == 0 {
		return section{}, false, nil
	}
	n, k := binary.Uvarint(m.body[1:])
	if k <= 0 || n > uint64(len(m.body)-1-k) {
		return section{}, false, errImage
	}
	s := section{table.Family(m.body[0]), m.body[1+k : 1+k+int(n)]}
	m.body = m.body[1+k+int(n):]
	return s, true, nil
}

// cell decodes the first cell of b and returns the rest of b. A cell consists of the
// qualifier length and tombstone bit, the index of its revision, the value length, the
// qualifier and the value. Nearly all of the numbers are below 128, so cell has a faster
// path for such numbers.
func (m *image) cell(c *table.Cell, b []byte) ([]byte, bool) {
	var ql, ri, vl uint64
	if len(b) >= 3 && b[0]|b[1]|b[2] < 0x80 {
		ql, ri, vl, b = uint64(b[0]), uint64(b[1]), uint64(b[2]), b[3:]
	} else {
		for _, p := range [...]*uint64{&ql, &ri, &vl} {
			n, k := binary.Uvarint(b)
			if k <= 0 {
				return nil, false
			}
			*p, b = n, b[k:]
		}
	}
	c.Tombstone = ql&1 != 0
	ql >>= 1
	if ql > uint64(len(b)) || vl > uint64(len(b))-ql || ri > uint64(len(m.revs)/8) {
		return nil, false
	}
	c.Revision = m.rev
	if ri > 0 {
		c.Revision = table.Revision(binary.BigEndian.Uint64(m.revs[8*(ri-1):]))
	}
	c.Qualifier = b[:ql:ql]
	c.Value = b[ql : ql+vl : ql+vl]
	return b[ql+vl:], true
}

// appendAll decodes every cell of the image, including the tombstones of the image's
// revision.
func (m image) appendAll(dst []table.Cell) ([]table.Cell, error) {
	for {
		s, ok, err := m.section()
		if err != nil || !ok {
			return dst, err
		}
		for b := s.cells; len(b) > 0; {
			dst = append(dst, table.Cell{Family: s.family})
			if b, ok = m.cell(&dst[len(dst)-1], b); !ok {
				return dst, errImage
			}
		}
	}
}

// appendSelected decodes the live cells of the image that sel selects. If max is not
// zero, appendSelected stops when dst has max cells.
func (m image) appendSelected(dst []table.Cell, sel *groupSel, max int) ([]table.Cell, error) {
	for {
		s, ok, err := m.section()
		if err != nil || !ok || max > 0 && len(dst) >= max {
			return dst, err
		}
		f := sel.family(s.family)
		if f == nil {
			continue
		}
		if dst, err = m.appendSection(dst, s, f, max); err != nil {
			return dst, err
		}
	}
}

func (m *image) appendSection(dst []table.Cell, s section, f *famSel, max int) ([]table.Cell, error) {
	ranges := f.ranges
	for b := s.cells; len(b) > 0; {
		if !f.whole {
			q, rest, ok := m.qualifier(b)
			if !ok {
				return dst, errImage
			}
			for behind(q, ranges[0].To) {
				if ranges = ranges[1:]; len(ranges) == 0 {
					return dst, nil
				}
			}
			if string(q) < string(ranges[0].From) {
				b = rest
				continue
			}
		}
		dst = append(dst, table.Cell{Family: s.family})
		c := &dst[len(dst)-1]
		var ok bool
		if b, ok = m.cell(c, b); !ok {
			return dst, errImage
		}
		if c.Tombstone {
			dst = dst[:len(dst)-1]
		} else if max > 0 && len(dst) >= max {
			return dst, nil
		}
	}
	return dst, nil
}

// qualifier returns the qualifier of the first cell of b, and the rest of b. Scans skip most cells by it.
func (m *image) qualifier(b []byte) (q, rest []byte, ok bool) {
	if len(b) >= 3 && b[0]|b[1]|b[2] < 0x80 {
		ql := 3 + int(b[0]>>1)
		if end := ql + int(b[2]); end <= len(b) {
			return b[3:ql], b[end:], true
		}
	}
	var c table.Cell
	rest, ok = m.cell(&c, b)
	return c.Qualifier, rest, ok
}

// The function "behind" reports whether q is at or after the end of a range. The end is the
// second parameter; if it is empty, the range has no end.
func behind(q, to []byte) bool { return len(to) > 0 && string(q) >= string(to) }

// An encoder encodes images. It can be used repeatedly.
type encoder struct {
	revs []table.Revision
	body []byte
	out  []byte
}

// image encodes sorted cells as the image of revision r. The result is valid until the
// next call.
func (e *encoder) image(r table.Revision, del bool, cells []table.Cell) []byte {
	e.revs, e.body = e.revs[:0], e.body[:0]
	for i := 0; i < len(cells); {
		j := i
		for j < len(cells) && cells[j].Family == cells[i].Family {
			j++
		}
		e.section(r, cells[i:j])
		i = j
	}
	var f byte
	if del {
		f = flagDelete
	}
	e.out = binary.AppendUvarint(append(e.out[:0], f), uint64(len(e.revs)))
	for _, x := range e.revs {
		e.out = binary.BigEndian.AppendUint64(e.out, uint64(x))
	}
	e.out = append(e.out, e.body...)
	return e.out
}

func (e *encoder) section(r table.Revision, cells []table.Cell) {
	e.body = append(e.body, byte(cells[0].Family))
	at := len(e.body)
	for i := range cells {
		c := &cells[i]
		ql := uint64(len(c.Qualifier)) << 1
		if c.Tombstone {
			ql |= 1
		}
		e.body = binary.AppendUvarint(e.body, ql)
		e.body = binary.AppendUvarint(e.body, e.revision(r, c.Revision))
		e.body = binary.AppendUvarint(e.body, uint64(len(c.Value)))
		e.body = append(append(e.body, c.Qualifier...), c.Value...)
	}
	var n [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(n[:], uint64(len(e.body)-at))
	e.body = slices.Insert(e.body, at, n[:k]...)
}

// revision returns the index of a cell's revision in the image's list of revisions, and 0
// for the image's own revision. It searches from the end of the list, because
// neighbouring cells often have the same revision.
func (e *encoder) revision(own, r table.Revision) uint64 {
	if r == own {
		return 0
	}
	for i := len(e.revs) - 1; i >= 0; i-- {
		if e.revs[i] == r {
			return uint64(i + 1)
		}
	}
	e.revs = append(e.revs, r)
	return uint64(len(e.revs))
}

// The first byte of a column's value is one of these bytes, and the cell's value follows.
const (
	columnDead = 0
	columnLive = 1
)

func appendColumnValue(dst []byte, c *table.Cell) []byte {
	if c.Tombstone {
		return append(dst, columnDead)
	}
	return append(append(dst, columnLive), c.Value...)
}

// clone returns a copy of the image with its own memory.
func (m image) clone() image {
	b := make([]byte, 0, len(m.revs)+len(m.body))
	b = append(append(b, m.revs...), m.body...)
	m.revs, m.body = b[:len(m.revs):len(m.revs)], b[len(m.revs):]
	return m
}
