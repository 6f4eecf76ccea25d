package table

import (
	"bytes"
	"errors"
	"iter"
	"math/big"
)

// A Scanner scans a range of rows. A Scanner calls Table.Scan or Reader.Scan, and supplies the
// other arguments of these methods.
type Scanner func(Range, Select) iter.Seq2[Row, error]

// ScanPast scans forward and continues after corrupt parts. For each gap it calls the function
// lost with the range of keys that cannot be read and with the error. If the function returns
// an error, the scan ends with that error. ScanPast finds the end of a gap by trying keys. So a
// gap contains only what the engine cannot read: a block or one row. s.MaxRows applies to each
// part between two gaps.
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

// The function "behind" returns the first key of a range at which reading can continue. It moves
// forward in steps of doubling size until it finds a key at which a scan succeeds. Then it
// narrows the last step by bisection, with longer and longer keys, until no row between the
// unreadable key and the readable one can be read: an engine may need long for each failure. The
// result ended is true if there is no such key.
func behind(scan Scanner, r Range, s Select) (key []byte, ended bool) {
	s.MaxRows = 1
	one := func(r Range, reverse bool) (key []byte, err error) {
		s.Reverse = reverse
		for row, err := range scan(r, s) {
			return row.Key, err
		}
		return nil, nil
	}
	reads := func(key []byte) bool {
		_, err := one(Range{key, r.End}, false)
		return err == nil
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
		low, _ := k.key(bad)
		key, _ = k.key(good)
		if next, err := one(Range{key, r.End}, false); err == nil && next != nil {
			if _, err := one(Range{low, next}, true); err != nil {
				return key, false
			}
		}
		k.bytes += keyGrain
		bad, good = bad.Lsh(bad, 8*keyGrain), good.Lsh(good, 8*keyGrain)
	}
	key, _ = k.key(good)
	return key, false
}

const (
	keyGrain  = 8 // in each round, keys become longer by this number of bytes
	keyRounds = 6
)

// halve searches by bisection for the place at which keys become readable. bad is the
// number of an unreadable key, and good is the number of a readable key. The results are
// adjacent numbers with the same properties.
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

// A keySpace converts keys to numbers and back. Its field is the largest length of a key.
// Shorter keys are padded with zero bytes.
type keySpace struct{ bytes int }

func (k keySpace) number(key []byte) *big.Int {
	b := make([]byte, k.bytes)
	copy(b, key)
	return new(big.Int).SetBytes(b)
}

// key returns the key of a number, or false if the number is too large.
func (k keySpace) key(n *big.Int) ([]byte, bool) {
	if n.BitLen() > 8*k.bytes {
		return nil, false
	}
	return n.FillBytes(make([]byte, k.bytes)), true
}
