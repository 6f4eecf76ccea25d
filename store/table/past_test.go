package table

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
)

// damagedRows is a table in which some keys cannot be read.
type damagedRows struct {
	keys [][]byte
	bad  func(i int) bool
}

func (d damagedRows) scan(r Range, s Select) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		n := 0
		for i := range d.keys {
			if s.Reverse {
				i = len(d.keys) - 1 - i
			}
			k := d.keys[i]
			if bytes.Compare(k, r.Start) < 0 || len(r.End) > 0 && bytes.Compare(k, r.End) >= 0 {
				continue
			}
			if d.bad(i) {
				yield(Row{}, fmt.Errorf("%w: block", ErrCorrupt))
				return
			}
			if !yield(Row{Key: k}, nil) {
				return
			}
			if n++; n == s.MaxRows {
				return
			}
		}
	}
}

// TestScanPast checks that all readable rows are returned in order and that each gap is
// reported once.
func TestScanPast(t *testing.T) {
	var keys [][]byte
	for i := range 300 {
		keys = append(keys, fmt.Appendf(nil, "parent%02d/uid=user%06d", i/50, i*i))
	}
	for _, bad := range []func(int) bool{
		func(int) bool { return false },
		func(i int) bool { return i == 0 },
		func(i int) bool { return i == 299 },
		func(i int) bool { return i%7 == 3 },
		func(i int) bool { return i > 90 && i < 170 },
		func(i int) bool { return i == 5 || i == 6 || i > 200 },
		func(int) bool { return true },
	} {
		d := damagedRows{keys, bad}
		var want, got [][]byte
		gaps := 0
		for i, k := range keys {
			if !bad(i) {
				want = append(want, k)
			} else if i == 0 || !bad(i-1) {
				gaps++
			}
		}
		seen := 0
		for row, err := range ScanPast(d.scan, Range{}, Select{}, func(r Range, err error) error {
			if seen++; !errors.Is(err, ErrCorrupt) {
				t.Error(err)
			}
			return nil
		}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, row.Key)
		}
		if !slices.EqualFunc(got, want, bytes.Equal) || seen != gaps {
			t.Errorf("%d rows of %d, %d gaps of %d", len(got), len(want), seen, gaps)
		}
	}
}

// TestScanPastStops checks that ScanPast ends with the error that the function lost returns.
func TestScanPastStops(t *testing.T) {
	stop := errors.New("stop")
	d := damagedRows{[][]byte{{1}, {2}}, func(i int) bool { return i == 0 }}
	for _, err := range ScanPast(d.scan, Range{}, Select{}, func(Range, error) error { return stop }) {
		if !errors.Is(err, stop) {
			t.Errorf("%v", err)
		}
	}
}

// TestScanPastReadsLittle checks that the end of a gap is found with few reads, because each read
// of a damaged block takes an engine milliseconds.
func TestScanPastReadsLittle(t *testing.T) {
	var keys [][]byte
	for i := range 300 {
		keys = append(keys, fmt.Appendf(nil, "parent%02d/uid=user%06d", i/50, i*i))
	}
	for _, test := range []struct{ first, last, most int }{
		{91, 169, 240}, // across parents
		{60, 80, 45},
		{60, 60, 45},
	} {
		reads := 0
		d := damagedRows{keys, func(i int) bool { return i >= test.first && i <= test.last }}
		scan := func(r Range, s Select) iter.Seq2[Row, error] { reads++; return d.scan(r, s) }
		for _, err := range ScanPast(scan, Range{}, Select{}, func(Range, error) error { return nil }) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if reads > test.most {
			t.Errorf("%d reads for the gap from %d to %d", reads, test.first, test.last)
		}
	}
}
