package txn

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A note is a mark as the journal keeps it on a store of one server while there are
// branches. It has a hash of the mark's row, and for MarkValue the last 32 bits of
// Mark.Hash. A collision of hashes causes a needless clash, but never a missed one.
//
// The fields are those of a Mark, in fewer octets, because a merge has all notes of its
// branch in memory.
type note struct {
	row     uint64
	hash    uint32
	kind    MarkKind
	deletes bool
}

func (n note) mark() Mark { return Mark{n.kind, n.deletes, uint64(n.hash)} }

// noteDeletes is the bit of an encoded note's kind that stands for Mark.Deletes.
const noteDeletes = 0x80

// rowHash returns the hash of a row in notes. It is the same in every process.
func rowHash(name string, row []byte) uint64 {
	h := fnv.New64a()
	h.Write(append([]byte(name), 0))
	h.Write(row)
	return h.Sum64()
}

// appendNotes encodes marks. Each is the hash of its row, its kind and, for MarkValue,
// the last 32 bits of its hash.
func appendNotes(b []byte, marks []markRow) []byte {
	for _, m := range marks {
		b = binary.BigEndian.AppendUint64(b, rowHash(m.table, m.row))
		kind := byte(m.mark.Kind)
		if m.mark.Deletes {
			kind |= noteDeletes
		}
		if b = append(b, kind); m.mark.Kind == MarkValue {
			b = binary.BigEndian.AppendUint32(b, uint32(m.mark.Hash))
		}
	}
	return b
}

// notesOf decodes the marks of a commit.
func notesOf(rec *journal.Record) (notes []note, err error) {
	for b := rec.Marks; len(b) > 0; {
		if len(b) < 9 {
			return nil, fmt.Errorf("marks of %s: %w", rec.Revision, table.ErrCorrupt)
		}
		n := note{row: binary.BigEndian.Uint64(b), kind: MarkKind(b[8] &^ noteDeletes), deletes: b[8]&noteDeletes != 0}
		if b = b[9:]; n.kind == MarkValue {
			if len(b) < 4 {
				return nil, fmt.Errorf("marks of %s: %w", rec.Revision, table.ErrCorrupt)
			}
			n.hash, b = binary.BigEndian.Uint32(b), b[4:]
		}
		notes = append(notes, n)
	}
	return notes, nil
}

// A noteSet contains marks, sorted by the hashes of their rows.
type noteSet []note

func (s noteSet) sort() {
	slices.SortFunc(s, func(a, b note) int { return cmp.Compare(a.row, b.row) })
}

// meets reports whether a mark conflicts with a mark in the set.
func (s noteSet) meets(n note) bool {
	i, _ := slices.BinarySearchFunc(s, n, func(a, b note) int { return cmp.Compare(a.row, b.row) })
	for ; i < len(s) && s[i].row == n.row; i++ {
		if s[i].mark().conflicts(n.mark()) {
			return true
		}
	}
	return false
}
