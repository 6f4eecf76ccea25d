package lsm

import (
	"bytes"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	headLen   = 3 // length of the table id and the group letter
	suffixLen = 9 // length of the inverted revision and suffixMark
	// suffixMark ends every key that has a revision. Prefixes end in termImage, and
	// bounds end in other bytes, so the last byte shows whether a key has a revision.
	suffixMark = 0x09

	escape    = 0x00
	escaped   = 0xff // 00 FF encodes a zero byte in a row or qualifier
	termImage = 0x01 // 00 01 ends the row in an image key, and every qualifier
	termCol   = 0x02 // 00 02 ends the row in a column key
	termRow   = 0x03 // 00 03 sorts after all keys of the row
)

// comparer orders keys as bytes. This works because no prefix is the beginning of another
// prefix. Split cuts off the revision, so that a bloom filter has one entry per row or
// column, and Pebble's NextPrefix skips the other versions of a row or column.
var comparer = &pebble.Comparer{
	Name:                 "ldapd.row.1",
	Compare:              bytes.Compare,
	Equal:                bytes.Equal,
	ComparePointSuffixes: bytes.Compare,
	CompareRangeSuffixes: bytes.Compare,
	AbbreviatedKey:       pebble.DefaultComparer.AbbreviatedKey,
	FormatKey:            pebble.DefaultComparer.FormatKey,
	Split:                split,
	Separator:            separator,
	Successor:            func(dst, a []byte) []byte { return append(dst, a...) },
	ImmediateSuccessor:   immediateSuccessor,
}

func split(k []byte) int {
	if n := len(k); n >= suffixLen && k[n-1] == suffixMark {
		return n - suffixLen
	}
	return len(k)
}

// separator returns a key from a up to but not including b for an index block. If
// possible, the key is shorter than a.
func separator(dst, a, b []byte) []byte {
	n := min(split(a), len(b))
	for i := range n {
		if a[i] == b[i] {
			continue
		}
		if a[i]+1 < b[i] {
			dst = append(dst, a[:i]...)
			return append(dst, a[i]+1, 0)
		}
		break
	}
	return append(dst, a...)
}

// immediateSuccessor returns a key that follows all keys with a prefix. A prefix ends in
// termImage, so the result is the prefix with its last byte increased by one.
func immediateSuccessor(dst, a []byte) []byte {
	dst = append(dst, a...)
	if n := len(dst); n > headLen && dst[n-1] == termImage {
		dst[n-1]++
		return dst
	}
	return append(dst, 0)
}

// appendEscaped appends b with escaped zero bytes. The result sorts like b, and a
// terminator after it can mark its end.
func appendEscaped(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, escape)
		if i < 0 {
			return append(dst, b...)
		}
		dst = append(append(dst, b[:i+1]...), escaped)
		b = b[i+1:]
	}
}

// cutEscaped decodes bytes that appendEscaped wrote, up to the terminator. It returns the
// terminator and the rest of k behind the terminator.
func cutEscaped(dst, k []byte) (b []byte, term byte, rest []byte, ok bool) {
	for {
		i := bytes.IndexByte(k, escape)
		if i < 0 || i+1 >= len(k) {
			return nil, 0, nil, false
		}
		dst = append(dst, k[:i]...)
		if k[i+1] != escaped {
			return dst, k[i+1], k[i+2:], true
		}
		dst = append(dst, escape)
		k = k[i+2:]
	}
}

// appendHead appends the beginning of every key of a group.
func appendHead(dst []byte, id uint16, g table.Family) []byte {
	return append(dst, byte(id>>8), byte(id), byte(g))
}

// appendImage appends the prefix of a row's image keys. This prefix is also the smallest
// key of the row.
func appendImage(dst []byte, id uint16, g table.Family, row []byte) []byte {
	dst = appendEscaped(appendHead(dst, id, g), row)
	return append(dst, escape, termImage)
}

// appendRowPart appends a row's image prefix with its terminator replaced by term. With
// termCol, the result is the common beginning of the row's column keys. With termRow, it is a
// bound behind all keys of the row.
func appendRowPart(dst, image []byte, term byte) []byte {
	dst = append(dst, image...)
	dst[len(dst)-1] = term
	return dst
}

// appendColumn appends the prefix of a column's keys. image is the row's image prefix.
func appendColumn(dst, image []byte, f table.Family, q []byte) []byte {
	dst = appendColumnFrom(dst, image, f, q)
	return append(dst, escape, termImage)
}

// appendColumnFrom appends a lower bound of the keys of those columns in a row's family f
// whose qualifiers are at least q.
func appendColumnFrom(dst, image []byte, f table.Family, q []byte) []byte {
	dst = append(appendRowPart(dst, image, termCol), byte(f))
	return appendEscaped(dst, q)
}

// appendGroupEnd appends a key that is larger than all keys of a group.
func appendGroupEnd(dst []byte, id uint16, g table.Family) []byte {
	if g == 0xff {
		return append(dst, byte((id+1)>>8), byte(id+1), 0)
	}
	return append(appendHead(dst, id, g+1), 0)
}

func appendSuffix(dst []byte, r table.Revision) []byte {
	dst = binary.BigEndian.AppendUint64(dst, ^uint64(r))
	return append(dst, suffixMark)
}

// revisionOf returns the revision in the suffix of a key, or 0 if the key has no suffix.
func revisionOf(k []byte) table.Revision {
	if split(k) == len(k) {
		return 0
	}
	return table.Revision(^binary.BigEndian.Uint64(k[len(k)-suffixLen:]))
}
