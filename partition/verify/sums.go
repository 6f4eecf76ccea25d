package verify

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Sums are the sums of the cells that a table must have and of those that it has.
type sums struct {
	want, have sum
	suspect    bool // something was found that the sums do not show
}

func (s *sums) wrong() bool { return s.suspect || s.want != s.have }

// A sum of cells is their number and the sum of their hashes. It does not depend on their order.
type sum struct {
	n    int
	hash [2]uint64
}

// A hasher adds cells to sums. Two hashes of 64 bits, with random seeds, make it improbable that
// different cells have equal sums.
type hasher struct {
	seeds [2]maphash.Seed
	buf   []byte
}

func newHasher() hasher {
	return hasher{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// add adds a cell of a row to a sum.
func (h *hasher) add(s *sum, row []byte, c *table.Cell) {
	b := binary.AppendUvarint(h.buf[:0], uint64(len(row)))
	b = append(append(b, row...), byte(c.Family))
	b = binary.AppendUvarint(b, uint64(len(c.Qualifier)))
	b = append(append(b, c.Qualifier...), c.Value...)
	s.n++
	for i, seed := range h.seeds {
		s.hash[i] += maphash.Bytes(seed, b)
	}
	h.buf = b
}
