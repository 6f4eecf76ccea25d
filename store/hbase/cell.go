package hbase

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// These are the possible first bytes of a stored value, and [markSealed].
const (
	markTombstone = 0
	markValue     = 1
)

var tombstone = []byte{markTombstone}

// storeValue returns the stored form of a cell's value.
func storeValue(c *table.Cell) []byte {
	if c.Tombstone {
		return tombstone
	}
	return storePlain(c.Value)
}

func storePlain(v []byte) []byte {
	b := make([]byte, 1+len(v))
	b[0] = markValue
	copy(b[1:], v)
	return b
}

// rowTombstone is the qualifier of row tombstones. It is not the empty qualifier, because
// HBase stores its own delete markers of a family under the empty qualifier. A filter
// that seeks from a cell with the empty qualifier to a later column would skip these
// markers.
var rowTombstone = []byte{0}

// storeQualifier returns the stored form of a qualifier. If the qualifier is empty or
// begins with 00, the stored form is 00 01 and the qualifier. Otherwise it is the
// qualifier itself.
func storeQualifier(q []byte) []byte {
	if len(q) > 0 && q[0] != 0 {
		return q
	}
	return append([]byte{0, 1}, q...)
}

// loadQualifier reverses storeQualifier.
func loadQualifier(q []byte) []byte {
	if len(q) >= 2 && q[0] == 0 {
		return q[2:]
	}
	return q
}

// A version is one cell as HBase sends it, in stored form.
type version struct {
	qualifier []byte
	value     []byte
	revision  table.Revision
	family    table.Family
}

// isRowTombstone reports whether the cell deletes its row.
func (v *version) isRowTombstone() bool { return len(v.qualifier) == 1 && v.qualifier[0] == 0 }

var errKeyValue = errors.New("malformed KeyValue in an answer")

// parseKeyValue parses one cell of a cell block. The encoding of a cell is: the lengths
// of the cell, of its key and of its value; the key; and the value. The key is: row
// length, row, family length, family, qualifier, timestamp, type. parseKeyValue also
// returns the row and the number of bytes read. The results share the memory of b.
func parseKeyValue(b []byte) (row []byte, v version, n int, err error) {
	if len(b) < 14 {
		return nil, v, 0, errKeyValue
	}
	size := int(binary.BigEndian.Uint32(b))
	keyLen := int(binary.BigEndian.Uint32(b[4:]))
	valueLen := int(binary.BigEndian.Uint32(b[8:]))
	rowLen := int(binary.BigEndian.Uint16(b[12:]))
	n = 4 + size
	// The key has 13 other bytes: 2 row length, 1 family length, 1 family, 8 timestamp, 1
	// type.
	if n > len(b) || size != 8+keyLen+valueLen || keyLen < rowLen+13 || b[14+rowLen] != 1 {
		return nil, v, 0, errKeyValue
	}
	key := b[12 : 12+keyLen : 12+keyLen]
	value := b[12+keyLen : n : n]
	row = key[2 : 2+rowLen : 2+rowLen]
	at := 2 + rowLen + 1
	end := keyLen - 9
	v = version{
		family:    table.Family(key[at]),
		qualifier: key[at+1 : end : end],
		revision:  table.Revision(binary.BigEndian.Uint64(key[end:])),
		value:     value,
	}
	return row, v, n, nil
}

// A readView caches whether its view shows the last tested revision. This saves most
// calls of the view, because neighbouring cells of a row often have the same revision.
type readView struct {
	opener // of the row whose versions are resolved
	view   table.View
	last   table.Revision
	shown  bool
	asked  bool
}

func (s *readView) shows(r table.Revision) bool {
	if s.view == nil {
		return true
	}
	if !s.asked || s.last != r {
		s.last, s.shown, s.asked = r, r <= s.view.Max() && s.view.Visible(r), true
	}
	return s.shown
}

// resolve appends to dst the cells that a view shows of one row's versions. The versions must
// be sorted by family, qualifier and descending revision, with at most depth versions of each
// column. A depth of zero means that vs contains all versions. If vs does not contain the
// newest row tombstone that the view shows, the caller passes the revision of this tombstone in
// since. Otherwise since is zero. The result deeper is true if vs has depth versions of some
// column and none of them is visible. The caller must then read more versions.
func resolve(dst []table.Cell, vs []version, see *readView, since table.Revision, depth int) (cells []table.Cell, deeper bool, err error) {
	for i := 0; i < len(vs); {
		j, k := column(vs, i, see)
		if vs[i].isRowTombstone() && k < j {
			since = max(since, vs[k].revision)
		}
		deeper = deeper || k == j && depth > 0 && j-i >= depth
		i = j
	}
	if deeper {
		return dst, true, nil
	}
	for i := 0; i < len(vs); {
		j, k := column(vs, i, see)
		if k < j && !vs[k].isRowTombstone() && vs[k].revision >= since {
			if dst, err = appendCell(dst, &vs[k], see.opener); err != nil {
				return dst, false, err
			}
		}
		i = j
	}
	return dst, false, nil
}

// column returns the end of the column that begins at index i, and the index of its
// newest visible version. If the column has no visible version, both results are the end.
func column(vs []version, i int, see *readView) (end, shown int) {
	end, shown = i+1, i
	if !see.shows(vs[i].revision) {
		shown = -1
	}
	for ; end < len(vs) && vs[end].family == vs[i].family && string(vs[end].qualifier) == string(vs[i].qualifier); end++ {
		if shown < 0 && see.shows(vs[end].revision) {
			shown = end
		}
	}
	if shown < 0 {
		shown = end
	}
	return end, shown
}

func appendCell(dst []table.Cell, v *version, o opener) (_ []table.Cell, err error) {
	var value []byte
	switch {
	case len(v.value) > 0 && v.value[0] == markSealed:
		if value, err = o.open(v); err != nil {
			return dst, err
		}
	case len(v.value) == 0 || v.value[0] > markValue:
		return dst, fmt.Errorf("hbase: %w: column %c:%q at %d has a value that this server did not write", table.ErrCorrupt, v.family, v.qualifier, v.revision)
	case v.value[0] == markTombstone:
		return dst, nil
	default:
		value = v.value[1:]
	}
	return append(dst, table.Cell{
		Family:    v.family,
		Qualifier: loadQualifier(v.qualifier),
		Value:     value,
		Revision:  v.revision,
	}), nil
}
