package index_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// drawKey draws keys that may contain the bytes 00, 01, 02 and FF, which the codec treats
// specially. It draws keys shorter and longer than MaxKey.
func drawKey(t *rapid.T, label string) []byte {
	n := rapid.SampledFrom([]int{0, 0, 0, index.MaxKey - 1, index.MaxKey, index.MaxKey + 1}).Draw(t, label+" run")
	tail := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 'b', 0xff}), 0, 4).Draw(t, label)
	return append(bytes.Repeat([]byte{'a'}, n), tail...)
}

// cut returns the part of a key that the codec stores.
func cut(key []byte) []byte { return key[:min(len(key), index.MaxKey)] }

func TestKeysSortAndComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawKey(t, "a"), drawKey(t, "b")
		ra, rb := index.AppendKey(nil, a), index.AppendKey(nil, b)
		if want := bytes.Compare(a, b); bytes.Compare(ra, rb) != want && !(bytes.Equal(cut(a), cut(b)) && want != 0) {
			t.Fatalf("%x and %x: rows %x and %x are in another order", a, b, ra, rb)
		}
		if !bytes.Equal(a, b) && (bytes.HasPrefix(ra, rb) || bytes.HasPrefix(rb, ra)) {
			t.Fatalf("%x and %x: of the rows %x and %x one begins the other", a, b, ra, rb)
		}
		key, wasCut, rest, err := index.CutKey(append(ra, "id"...))
		if err != nil || !bytes.Equal(key, cut(a)) || wasCut != (len(a) > index.MaxKey) || string(rest) != "id" {
			t.Fatalf("%x came back as %x, cut %v, rest %q, %v", a, key, wasCut, rest, err)
		}
	})
}

func TestMalformedRows(t *testing.T) {
	for _, row := range []string{"", "=", "=a", "=a\x00", "*a\x00\x01", "=\x00\xff", "=a\x00\xffb\x00", "=a\x00\x03", "=a\x00\x02short"} {
		if key, _, _, err := index.CutKey([]byte(row)); !errors.Is(err, table.ErrCorrupt) {
			t.Errorf("%q: key %q, %v", row, key, err)
		}
	}
}

// holds reports whether a span contains a key. It follows the definition of Span
// directly.
func holds(s index.Span, key []byte) bool {
	if s.From != nil && bytes.Compare(key, s.From) < 0 || s.To != nil && bytes.Compare(key, s.To) > 0 {
		return false
	}
	rest, ok := bytes.CutPrefix(key, s.Prefix)
	return ok && piecesHold(rest, s.Parts, s.AtEnd)
}

func piecesHold(key []byte, parts [][]byte, atEnd bool) bool {
	if len(parts) == 0 {
		return true
	}
	if atEnd && len(parts) == 1 {
		return bytes.HasSuffix(key, parts[0])
	}
	for i := 0; i+len(parts[0]) <= len(key); i++ {
		if bytes.HasPrefix(key[i:], parts[0]) && piecesHold(key[i+len(parts[0]):], parts[1:], atEnd) {
			return true
		}
	}
	return false
}

// TestSpans checks that the rows of a span include every key that the span contains. It
// checks that Holds is right for whole keys, and that it never returns false for a cut
// key that the span contains.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s index.Span
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			s.From = drawKey(t, "from")
		case 1:
			s.To = drawKey(t, "to")
		case 2:
			s.From, s.To = drawKey(t, "from"), drawKey(t, "to")
		case 3:
			s.Prefix = drawKey(t, "prefix")
			s.Parts = rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]byte("ab")), 1, 2), 0, 2).Draw(t, "parts")
			s.AtEnd = rapid.Bool().Draw(t, "atEnd")
		}
		key := drawKey(t, "key")
		if len(s.Prefix) > 0 && rapid.Bool().Draw(t, "begins") {
			key = append(bytes.Clone(s.Prefix), key...)
		}
		row := index.AppendKey(nil, key)
		rows, want := s.Rows(), holds(s, key)
		in := bytes.Compare(row, rows.Start) >= 0 && (rows.End == nil || bytes.Compare(row, rows.End) < 0)
		if want && !in {
			t.Fatalf("%+v holds %x, but its row %x is not in %x", s, key, row, rows)
		}
		if f := s.Filter(); f != nil {
			passes := f.Match(table.Row{Key: row})
			bounded := s.From != nil || s.To != nil // the filter does not test the bounds
			if want && !passes || passes && !want && !bounded && len(key) <= index.MaxKey {
				t.Fatalf("%+v of %x: %v, its row passes the filter: %v", s, key, want, passes)
			}
		}
		kept, wasCut, _, err := index.CutKey(row)
		if err != nil {
			t.Fatal(err)
		}
		got, maybe := s.Holds(kept, wasCut)
		if maybe != wasCut || !maybe && got != want || want && !got {
			t.Fatalf("%+v of %x: holds %v, maybe %v, want %v", s, key, got, maybe, want)
		}
	})
}

func TestRowsAreNarrow(t *testing.T) {
	for _, c := range []struct {
		s    index.Span
		want string
	}{
		{index.Span{Prefix: []byte("ab")}, "3d6162-3d6163"},
		{index.Span{To: []byte("ab")}, "3d-3d616201"},
		{index.Span{From: []byte("ab"), To: []byte("b")}, "3d6162-3d6201"},
	} {
		r := c.s.Rows()
		if got := fmt.Sprintf("%x-%x", r.Start, r.End); got != c.want {
			t.Errorf("%+v: rows %s, want %s", c.s, got, c.want)
		}
	}
}

func TestContinue(t *testing.T) {
	r := table.Prefix([]byte("="))
	if got := index.Continue(r, nil); !bytes.Equal(got.Start, r.Start) {
		t.Errorf("without a position: %q", got)
	}
	if got := index.Continue(r, []byte("=a")); string(got.Start) != "=a\x00" || !bytes.Equal(got.End, r.End) {
		t.Errorf("behind =a: %q", got)
	}
	if got := index.Continue(r, []byte("*a")); !bytes.Equal(got.Start, r.Start) {
		t.Errorf("behind what lies before: %q", got)
	}
}
