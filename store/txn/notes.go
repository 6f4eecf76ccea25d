package txn

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// noteDeletes is the bit of an encoded note's kind that stands for Mark.Deletes.
const noteDeletes = 0x80

// rowHash returns the hash of a row in notes. It is the same in every process.
func rowHash(name string, row []byte) uint64 {
	h := fnv.New64a()
	h.Write(append([]byte(name), 0))
	h.Write(row)
	return h.Sum64()
}

// appendNotes appends the notes of marks to b. A note is the form of a mark in the
// journal of a store of one server that has branches. It consists of the hash of the
// row, the kind and, for MarkValue, the last 32 bits of Mark.Hash. A collision of hashes
// causes a needless clash, but never a missed one.
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
func notesOf(rec *journal.Record) (marks []placed, err error) {
	for b := rec.Marks; len(b) > 0; {
		if len(b) < 9 {
			return nil, fmt.Errorf("marks of %s: %w", rec.Revision, table.ErrCorrupt)
		}
		m := placed{row: binary.BigEndian.Uint64(b), Mark: Mark{Kind: MarkKind(b[8] &^ noteDeletes), Deletes: b[8]&noteDeletes != 0}}
		if b = b[9:]; m.Kind == MarkValue {
			if len(b) < 4 {
				return nil, fmt.Errorf("marks of %s: %w", rec.Revision, table.ErrCorrupt)
			}
			m.Hash, b = uint64(binary.BigEndian.Uint32(b)), b[4:]
		}
		marks = append(marks, m)
	}
	return marks, nil
}
