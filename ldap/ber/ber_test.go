package ber_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAppend checks those encodings in clause 8 of X.690 that LDAP uses.
func TestAppend(t *testing.T) {
	start := []byte{0xee} // the buffer's contents are kept
	tests := []struct {
		want string
		got  []byte
	}{
		{"01 01 ff", ber.AppendBool(start, ber.Boolean, true)},
		{"01 01 00", ber.AppendBool(start, ber.Boolean, false)},
		{"02 01 00", ber.AppendInt(start, ber.Integer, 0)},
		{"02 01 7f", ber.AppendInt(start, ber.Integer, 127)},
		{"02 02 00 80", ber.AppendInt(start, ber.Integer, 128)},
		{"02 01 80", ber.AppendInt(start, ber.Integer, -128)},
		{"02 02 ff 7f", ber.AppendInt(start, ber.Integer, -129)},
		{"02 04 7f ff ff ff", ber.AppendInt(start, ber.Integer, math.MaxInt32)},
		{"02 08 80 00 00 00 00 00 00 00", ber.AppendInt(start, ber.Integer, math.MinInt64)},
		{"0a 01 20", ber.AppendInt(start, ber.Enumerated, 32)},
		{"04 00", ber.AppendString(start, ber.OctetString, "")},
		{"80 03 61 62 63", ber.AppendString(start, ber.Context(0), []byte("abc"))},
		{"4a 01 78", ber.AppendString(start, ber.Application(10), "x")},
		{"04 7f", ber.AppendHeader(start, ber.OctetString, 127)},
		{"04 81 80", ber.AppendHeader(start, ber.OctetString, 128)},
		{"04 82 01 00", ber.AppendHeader(start, ber.OctetString, 256)},
		{"04 83 01 00 00", ber.AppendHeader(start, ber.OctetString, 1<<16)},
		{"30 00", ber.Close(ber.Open(start, ber.Sequence), 1)},
		{"30 02 05 00", ber.Close(append(ber.Open(start, ber.Sequence), 5, 0), 1)},
	}
	for _, test := range tests {
		if want := append([]byte{0xee}, unhex(t, test.want)...); !bytes.Equal(test.got, want) {
			t.Errorf("got %x, want %x", test.got, want)
		}
	}
}

// TestCloseLengths checks that Close makes the same bytes as AppendHeader, for lengths that
// are encoded in one octet to four octets.
func TestCloseLengths(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 129, 255, 256, 65535, 65536, 1 << 20} {
		contents := bytes.Repeat([]byte{0xab}, n)
		got := ber.Close(append(ber.Open([]byte("before"), ber.Set), contents...), len("before"))
		want := append(ber.AppendHeader([]byte("before"), ber.Set, n), contents...)
		if !bytes.Equal(got, want) {
			t.Errorf("%d octets: header %x, want %x", n, got[:min(len(got), 14)], want[:min(len(want), 14)])
		}
	}
}

func TestReader(t *testing.T) {
	r := ber.NewReader(unhex(t, "30 13  02 01 05  04 02 68 69  01 01 01  a0 03 0a 01 02  80 00  05 00"))
	end := r.Enter(ber.Sequence)
	if v := r.Int(ber.Integer); v != 5 {
		t.Errorf("Int = %d", v)
	}
	if b := r.Bytes(ber.OctetString); string(b) != "hi" || cap(b) != 2 {
		t.Errorf("Bytes = %q, capacity %d", b, cap(b))
	}
	if !r.Bool(ber.Boolean) {
		t.Error("Bool = false")
	}
	if r.At(ber.Context(0)) {
		t.Error("At [0] primitive before [0] constructed")
	}
	inner := r.Enter(ber.Context(0) | ber.Constructed)
	if v := r.IntIn(ber.Enumerated, 0, 2); v != 2 {
		t.Errorf("IntIn = %d", v)
	}
	if r.More() {
		t.Error("More at the end of [0]")
	}
	r.Leave(inner)
	if b := r.Bytes(ber.Context(0)); b == nil || len(b) != 0 {
		t.Errorf("empty Bytes = %#v", b)
	}
	r.Leave(end) // skips the NULL
	r.End()
	if r.Err() != nil {
		t.Error(r.Err())
	}
}

// TestReaderLenient checks that a Reader accepts lengths and integers that are longer
// than necessary. Such lengths are valid BER (X.690, 8.1.3.5). Such integers are not
// (8.3.2), but are accepted too.
func TestReaderLenient(t *testing.T) {
	r := ber.NewReader(unhex(t, "30 84 00 00 00 0a  02 82 00 01 07  02 03 00 00 01"))
	end := r.Enter(ber.Sequence)
	for _, want := range []int64{7, 1} {
		if v := r.Int(ber.Integer); v != want || r.Err() != nil {
			t.Errorf("Int = %d, want %d (%v)", v, want, r.Err())
		}
	}
	r.Leave(end)
}

func TestReaderErrors(t *testing.T) {
	read := func(r *ber.Reader) {
		end := r.Enter(ber.Sequence)
		r.IntIn(ber.Integer, 0, 9)
		r.Bool(ber.Boolean)
		r.Leave(end)
		r.End()
	}
	tests := []struct{ in, want string }{
		{"", "at offset 0: expected SEQUENCE (30), found the end"},
		{"31 00", "at offset 0: expected SEQUENCE (30), found SET (31)"},
		{"77 00", "at offset 0: expected SEQUENCE (30), found [APPLICATION 23] (77)"},
		{"30", "at offset 0: expected an element, found the end"},
		{"30 80 00 00", "at offset 1: expected a definite length, found an indefinite one"},
		{"30 89 00", "at offset 1: expected a length of at most 8 octets, found one of 9"},
		{"30 84 80 00 00 00", "at offset 1: expected a length of less than 2 GiB, found 2147483648"},
		{"30 05 02", "at offset 0: expected SEQUENCE (30) of 5 octets, found only 1"},
		{"30 00", "at offset 2: expected INTEGER (02), found the end"},
		{"30 03 02 01 0a", "at offset 2: expected INTEGER (02) of 0 to 9, found 10"},
		{"30 02 02 00", "at offset 2: expected an integer of 1 to 8 octets, found 0 octets"},
		{"30 03 02 02 01", "at offset 2: expected INTEGER (02) of 2 octets, found only 1"},
		{"30 05 02 01 01 01 00", "at offset 5: expected a boolean of one octet, found 0 octets"},
		{"30 07 02 01 01 01 01 00 1f", "at offset 8: expected a tag number up to 30, found octet 1f"},
		{"30 06 02 01 01 01 01 00 05 00", "at offset 8: expected the end, found NULL (05)"},
	}
	for _, test := range tests {
		r := ber.NewReader(unhex(t, test.in))
		read(&r)
		var syntax *ber.SyntaxError
		if err := r.Err(); !errors.As(err, &syntax) || err.Error() != "ber: "+test.want {
			t.Errorf("%s:\n got %v\nwant ber: %s", test.in, r.Err(), test.want)
		}
	}
}

// TestRoundTrip checks that everything that was written can be read back.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ints := rapid.SliceOf(rapid.Int64()).Draw(t, "ints")
		text := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "text")
		flag := rapid.Bool().Draw(t, "flag")
		b := ber.Open(nil, ber.Sequence)
		for _, v := range ints {
			b = ber.AppendInt(b, ber.Integer, v)
		}
		b = ber.AppendString(b, ber.OctetString, text)
		b = ber.Close(ber.AppendBool(b, ber.Boolean, flag), 0)

		r := ber.NewReader(b)
		end := r.Enter(ber.Sequence)
		for _, v := range ints {
			if got := r.Int(ber.Integer); got != v {
				t.Fatalf("Int = %d, want %d", got, v)
			}
		}
		if got := r.Bytes(ber.OctetString); !bytes.Equal(got, text) {
			t.Fatalf("Bytes = %x, want %x", got, text)
		}
		if got := r.Bool(ber.Boolean); got != flag {
			t.Fatalf("Bool = %v", got)
		}
		r.End()
		r.Leave(end)
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
	})
}

// FuzzReader checks that a Reader reads any bytes to their end or to an error, and that
// the elements are the same after they were written and read again.
func FuzzReader(f *testing.F) {
	f.Add([]byte{0x30, 0x05, 0x02, 0x01, 0x01, 0x42, 0x00})
	f.Add([]byte{0x30, 0x84, 0, 0, 0, 1, 5})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := ber.NewReader(in)
		out := again(&r, nil, 0)
		if err := r.Err(); err != nil {
			var syntax *ber.SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(in) {
				t.Fatalf("error %v for %d octets", err, len(in))
			}
			return
		}
		r = ber.NewReader(out)
		if twice := again(&r, nil, 0); r.Err() != nil || !bytes.Equal(out, twice) {
			t.Fatalf("%x read and written is %x, then %x (%v)", in, out, twice, r.Err())
		}
	})
}

// again writes the elements in r, with minimal lengths.
func again(r *ber.Reader, b []byte, depth int) []byte {
	for r.More() {
		if t := r.Peek(); t&ber.Constructed != 0 && depth < 100 {
			start, end := len(b), r.Enter(t)
			b = ber.Open(b, t)
			b = ber.Close(again(r, b, depth+1), start)
			r.Leave(end)
		} else if t, v := r.Next(); r.Err() == nil {
			b = ber.AppendString(b, t, v)
		}
	}
	return b
}

func BenchmarkReader(b *testing.B) {
	in := ber.Open(nil, ber.Sequence)
	for range 10 {
		in = ber.AppendInt(in, ber.Integer, 1000)
		in = ber.AppendString(in, ber.OctetString, "some text")
	}
	in = ber.Close(in, 0)
	b.ReportAllocs()
	for b.Loop() {
		r := ber.NewReader(in)
		end := r.Enter(ber.Sequence)
		for r.More() {
			r.Int(ber.Integer)
			r.Bytes(ber.OctetString)
		}
		r.Leave(end)
		if r.Err() != nil {
			b.Fatal(r.Err())
		}
	}
}

// BenchmarkClose closes an element as large as a search entry. The cost of Close is the
// cost of moving the contents to make room for the length.
func BenchmarkClose(b *testing.B) {
	contents := make([]byte, 600)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = append(ber.Open(buf[:0], ber.Sequence), contents...)
		buf = ber.Close(buf, 0)
	}
}
