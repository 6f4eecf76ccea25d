package table

import (
	"bytes"
	"errors"
	"iter"
	"math/big"
)

// A Scanner scans rows: Table.Scan or a reader's, with the rest of its arguments
// bound.
type Scanner func(Range, Select) iter.Seq2[Row, error]

// ScanPast is a forward scan that goes on behind what is corrupt. Of each gap, lost
// is told the range of keys that could not be read and why; its error ends the scan.
// A gap is found by trying keys, so it is as small as the engine's damage allows: a
// block, or one row. Rows that come may be fewer than s.MaxRows.
func ScanPast(scan Scanner, r Range, s Select, lost func(Range, error) error) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		from := r.Start
		for {
			failed, ended := error(nil), false
			for row, err := range scan(Range{from, r.End}, s) {
				if err != nil {
					failed = err
					break
				}
				from = append(bytes.Clone(row.Key), 0)
				if !yield(row, nil) {
					return
				}
			}
			if failed == nil {
				return
			}
			if !errors.Is(failed, ErrCorrupt) {
				yield(Row{}, failed)
				return
			}
			gap := Range{from, r.End}
			if from, ended = behind(scan, gap, s); !ended {
				gap.End = from
			}
			if err := lost(gap, failed); err != nil {
				yield(Row{}, err)
				return
			}
			if ended {
				return
			}
		}
	}
}

// behind finds the first key of a range from which on it can be read: by steps of
// doubling size until a key can be read from, then by halving the last step, with
// longer and longer keys. Ended: there is none.
func behind(scan Scanner, r Range, s Select) (key []byte, ended bool) {
	s.MaxRows = 1
	reads := func(key []byte) bool {
		for _, err := range scan(Range{key, r.End}, s) {
			return err == nil
		}
		return true
	}
	k := keySpace{len(r.Start) + keyGrain}
	from := k.number(r.Start)
	bad, good, step := from, (*big.Int)(nil), big.NewInt(1)
	for good == nil {
		at := new(big.Int).Add(from, step)
		key, ok := k.key(at)
		switch {
		case !ok || len(r.End) > 0 && bytes.Compare(key, r.End) >= 0:
			return nil, true
		case reads(key):
			good = at
		default:
			bad = at
		}
		step = new(big.Int).Lsh(step, 1)
	}
	for range keyRounds {
		bad, good = k.halve(bad, good, reads)
		k.bytes += keyGrain
		bad, good = bad.Lsh(bad, 8*keyGrain), good.Lsh(good, 8*keyGrain)
	}
	key, _ = k.key(good)
	return key, false
}

const (
	keyGrain  = 8 // bytes by which keys become longer
	keyRounds = 6
)

// halve narrows down where keys begin to be readable.
func (k keySpace) halve(bad, good *big.Int, reads func([]byte) bool) (_, _ *big.Int) {
	for {
		half := new(big.Int).Add(bad, good)
		half.Rsh(half, 1)
		if half.Cmp(bad) == 0 {
			return bad, good
		}
		if key, _ := k.key(half); reads(key) {
			good = half
		} else {
			bad = half
		}
	}
}

// A keySpace counts with the keys of a length.
type keySpace struct{ bytes int }

func (k keySpace) number(key []byte) *big.Int {
	b := make([]byte, k.bytes)
	copy(b, key)
	return new(big.Int).SetBytes(b)
}

// key returns the key of a number, unless there is none so large.
func (k keySpace) key(n *big.Int) ([]byte, bool) {
	if n.BitLen() > 8*k.bytes {
		return nil, false
	}
	return n.FillBytes(make([]byte, k.bytes)), true
}
