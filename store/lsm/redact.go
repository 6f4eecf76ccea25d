package lsm

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// The past is changed image by image. A cell is in the image of its revision and in later
// images of the row. In a columnar row, a cell has a key of its own.

var _ table.Redactor = handle{}

// History implements table.Redactor.
func (h handle) History(ctx context.Context, r table.Range) iter.Seq2[table.Past, error] {
	return func(yield func(table.Past, error) bool) {
		for key, err := range h.Keys(ctx, r) {
			x := historian{h: h, row: key}
			more := err == nil
			for more && err == nil {
				var p table.Past
				if p, more, err = x.piece(ctx); err == nil && !yield(p, nil) {
					return
				}
			}
			if err != nil {
				yield(table.Past{}, h.s.wrap("history of "+h.name, err))
				return
			}
		}
	}
}

// A historian reads everything stored for a row: first the images, then the columns in
// pieces.
type historian struct {
	h    handle
	row  []byte
	next []byte // the next column key; if nil, the historian begins with the images
	part int    // index of the group whose columns are being read
}

func (x *historian) piece(ctx context.Context) (p table.Past, more bool, err error) {
	s := x.h.s
	if err := s.gate.begin(ctx); err != nil {
		return p, false, err
	}
	defer s.gate.end()
	defer damaged(&err)
	t, err := s.tables.table(x.h.name)
	if err != nil {
		return p, false, err
	}
	if t.spec.Unversioned {
		return p, false, fmt.Errorf("table %q is unversioned", x.h.name)
	}
	it, err := s.iters.get(0)
	if err != nil {
		return p, false, err
	}
	defer s.iters.put(it)
	p.Key = x.row
	if x.next == nil {
		for _, g := range t.groups {
			if err := appendImages(&p, it, appendImage(nil, t.id, g.name, x.row)); err != nil {
				return p, false, err
			}
		}
		slices.Sort(p.Deletes)
		p.Deletes = slices.Compact(p.Deletes)
	}
	for n := collectColumns; x.part < len(t.groups); x.part, x.next = x.part+1, nil {
		prefix := appendImage(nil, t.id, t.groups[x.part].name, x.row)
		if more, err = x.columns(&p, it, prefix, &n); more || err != nil {
			return p, more, err
		}
	}
	p.Cells = table.SortVersions(p.Cells)
	return p, false, nil
}

// appendImages adds the cells and deletions in the images of one group of a row.
func appendImages(p *table.Past, it *iterator, prefix []byte) error {
	for ok := it.SeekPrefixGE(prefix); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		m, err := parseImage(revisionOf(it.Key()), v)
		if err != nil {
			return err
		}
		if m.del {
			p.Deletes = append(p.Deletes, m.rev)
		}
		if m.columns {
			continue
		}
		if p.Cells, err = m.clone().appendAll(p.Cells); err != nil {
			return err
		}
	}
	return it.Error()
}

// columns adds versions of the columns of a columnar row to p, at most *n of them. It reports
// whether more versions are left.
func (x *historian) columns(p *table.Past, it *iterator, prefix []byte, n *int) (more bool, err error) {
	all := appendRowPart(nil, prefix, termCol)
	from := x.next
	if from == nil {
		from = all
	}
	for ok := it.SeekGE(from); ok && bytes.HasPrefix(it.Key(), all); ok = it.Next() {
		if *n--; *n < 0 {
			x.next = bytes.Clone(it.Key())
			p.Cells = table.SortVersions(p.Cells)
			return true, nil
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return false, err
		}
		c, err := columnCell(it.Key()[len(all):], v)
		if err != nil {
			return false, err
		}
		p.Cells = append(p.Cells, c)
	}
	return false, it.Error()
}

// columnCell decodes one version of a column from its value and from the part of its key
// after the row. It copies the qualifier and the value.
func columnCell(key, v []byte) (c table.Cell, err error) {
	if len(key) == 0 || len(v) == 0 {
		return c, errColumn
	}
	q, _, _, ok := cutEscaped([]byte{}, key[1:])
	if !ok {
		return c, errKey
	}
	c = table.Cell{Family: table.Family(key[0]), Qualifier: q, Revision: revisionOf(key)}
	if c.Tombstone = v[0] == columnDead; !c.Tombstone {
		c.Value = bytes.Clone(v[1:])
	}
	return c, nil
}

// Redact implements table.Redactor.
func (h handle) Redact(ctx context.Context, upTo table.Revision, rs []table.Redaction) error {
	var sum table.Collected
	for part := range slices.Chunk(rs, collectRows) {
		c := &collector{k: &table.Keep{}}
		err := h.deleteKeys(ctx, c, &sum, func(t *tableInfo) error {
			if t.spec.Unversioned {
				return fmt.Errorf("table %q is unversioned", h.name)
			}
			for i := range part {
				x := redactor{collector: c, Redaction: &part[i], upTo: upTo}
				for _, g := range t.groups {
					if err := x.group(appendImage(nil, t.id, g.name, part[i].Row)); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return h.s.wrap("redact in "+h.name, err)
		}
	}
	h.s.iters.refresh() // idle iterators would still show the removed cells
	return nil
}

// A redactor changes everything that is stored for one row.
type redactor struct {
	*collector
	*table.Redaction
	upTo table.Revision
	enc  encoder
}

func (x *redactor) group(prefix []byte) error {
	var images []imageKey
	wide, newer := false, false // wide: the row is columnar; newer: the row has revisions above upTo
	for ok := x.it.SeekPrefixGE(prefix); ok; ok = x.it.Next() {
		m := imageKey{key: bytes.Clone(x.it.Key()), size: x.size()}
		v, err := x.it.ValueAndErr()
		if err != nil {
			return err
		}
		if m.image, err = parseImage(revisionOf(m.key), v); err != nil {
			return err
		}
		m.image = m.image.clone()
		wide, newer = wide || m.columns, newer || m.rev > x.upTo
		images = append(images, m)
	}
	if err := x.it.Error(); err != nil {
		return err
	}
	if wide {
		left, err := x.columns(appendRowPart(nil, prefix, termCol))
		if err != nil {
			return err
		}
		newer = newer || left
	}
	for i := range images {
		if err := x.image(&images[i], newer && i == firstMarker(images, x.upTo)); err != nil {
			return err
		}
	}
	return nil
}

// firstMarker returns the index of the newest image that is not above upTo, if this image
// is a marker. Otherwise it returns -1. Columns newer than upTo need this marker.
func firstMarker(images []imageKey, upTo table.Revision) int {
	i := slices.IndexFunc(images, func(m imageKey) bool { return m.rev <= upTo })
	if i >= 0 && images[i].columns {
		return i
	}
	return -1
}

// image applies the redaction to one image. If the redaction removes the whole row, the
// function removes the image. If needed is set, it keeps the image even then.
func (x *redactor) image(m *imageKey, needed bool) error {
	if x.All && m.rev <= x.upTo {
		if needed {
			return nil
		}
		return x.remove(m.key, m.size)
	}
	if m.columns {
		return nil
	}
	cells, err := m.appendAll(nil)
	if err != nil {
		return err
	}
	changed := false
	left := cells[:0]
	for i := range cells {
		c, stays := x.Change(&cells[i], x.upTo)
		if stays && c.Tombstone && cells[i].Revision != m.rev {
			stays = false // an image contains only the tombstones of its own revision
		}
		if !stays || c.Tombstone != cells[i].Tombstone || !bytes.Equal(c.Value, cells[i].Value) {
			changed = true
		}
		if stays {
			left = append(left, c)
		}
	}
	if !changed {
		return nil
	}
	x.removed.Cells++
	x.removed.Bytes += int64(m.size)
	return x.out.Set(m.key, x.enc.image(m.rev, m.del, left), nil)
}

// columns applies the redaction to the columns of a columnar row. It reports whether any
// column is newer than upTo.
func (x *redactor) columns(all []byte) (newer bool, err error) {
	for ok := x.it.SeekGE(all); ok && bytes.HasPrefix(x.it.Key(), all); ok = x.it.Next() {
		v, err := x.it.ValueAndErr()
		if err != nil {
			return false, err
		}
		c, err := columnCell(x.it.Key()[len(all):], v)
		if err != nil {
			return false, err
		}
		newer = newer || c.Revision > x.upTo
		to, stays := x.Change(&c, x.upTo)
		switch {
		case !stays:
			err = x.remove(x.it.Key(), len(x.it.Key())+len(v))
		case to.Tombstone != c.Tombstone || !bytes.Equal(to.Value, c.Value):
			x.removed.Cells++
			x.removed.Bytes += int64(len(v))
			err = x.out.Set(x.it.Key(), appendColumnValue(nil, &to), nil)
		}
		if err != nil {
			return false, err
		}
	}
	return newer, x.it.Error()
}
