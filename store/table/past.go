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
		var before [][]byte // the last keys
		for {
			failed, ended := error(nil), false
			for row, err := range scan(Range{from, r.End}, s) {
				if err != nil {
					failed = err
					break
				}
				from = append(bytes.Clone(row.Key), 0)
				before = append(before[max(0, len(before)-nearKeys):], from)
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
			if from, ended = behind(scan, gap, s, before); !ended {
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
// narrows the last step by bisection, more and more finely, until no row between the
// unreadable key and the readable one can be read. The distances of the keys before the range say
// how large the first step is and how fine the first bisection, because an engine may need long for
// each failure: Pebble 2.1 flips each bit of a block whose checksum is wrong in search of the fault.
// The result ended is true if there is no such key.
func behind(scan Scanner, r Range, s Select, before [][]byte) (key []byte, ended bool) {
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
	step := k.distance(before)
	bad, good, grain := from, (*big.Int)(nil), new(big.Int).Rsh(step, finer)
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
	for rounds := 0; rounds < keyRounds; {
		bad, good = k.halve(bad, good, grain, reads)
		low, _ := k.key(bad)
		key, _ = k.key(good)
		if next, err := one(Range{key, r.End}, false); err == nil && next != nil {
			if _, err := one(Range{low, next}, true); err != nil {
				return key, false
			}
		}
		if grain.Sign() > 0 {
			grain.Rsh(grain, 2*finer)
			continue
		}
		rounds++
		k.bytes += keyGrain
		bad, good = bad.Lsh(bad, 8*keyGrain), good.Lsh(good, 8*keyGrain)
	}
	return key, false
}

const (
	keyGrain  = 8 // in each round, keys become longer by this number of bytes
	keyRounds = 6
	nearKeys  = 8 // number of distances that show how close keys are
	finer     = 8 // number of bits by which the bisection is finer than these distances
)

// halve searches by bisection for the place at which keys become readable. bad is the number of
// an unreadable key, and good is the number of a readable key. The results have the same properties,
// and are adjacent or not farther apart than grain.
func (k keySpace) halve(bad, good, grain *big.Int, reads func([]byte) bool) (_, _ *big.Int) {
	for {
		half := new(big.Int).Sub(good, bad)
		if half.Cmp(grain) <= 0 || half.BitLen() < 2 {
			return bad, good
		}
		half.Add(bad, half.Rsh(half, 1))
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

// distance returns the power of two just below the smallest distance between two of some keys in
// order, or 1. Adding a power of two changes the fewest bytes of a key, so a step finds the place
// of a similar key, such as the same name below the next parent.
func (k keySpace) distance(keys [][]byte) *big.Int {
	bits := 1
	for i := 1; i < len(keys); i++ {
		d := k.number(keys[i])
		if n := d.Sub(d, k.number(keys[i-1])).BitLen(); i == 1 || n < bits {
			bits = n
		}
	}
	return new(big.Int).Lsh(big.NewInt(1), uint(max(bits, 1)-1))
}

// key returns the key of a number, or false if the number is too large.
func (k keySpace) key(n *big.Int) ([]byte, bool) {
	if n.BitLen() > 8*k.bytes {
		return nil, false
	}
	return n.FillBytes(make([]byte, k.bytes)), true
}
