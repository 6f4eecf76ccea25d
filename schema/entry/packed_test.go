package entry_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// TestPacked checks that random attributes are the same after they are packed and unpacked, whole,
// in part and value by value, and that a Packed shares no memory with what was packed.
func TestPacked(t *testing.T) {
	var types []*schema.AttributeType
	for _, n := range []string{"cn", "sn", "mail", "description", "member", "jpegPhoto", "entryUUID", "uid"} {
		types = append(types, schema.Core().Attribute(n))
	}
	options := []string{"", "", "", ";lang-de", ";lang-de;x-a", ";x-b"}
	lengths := []int{0, 0, 1, 7, 30, 300, 7000}
	var shapes entry.Shapes
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		random := func(n int) []byte {
			b := bytes.Repeat([]byte{byte(r.Uint32())}, n)
			if n > 0 {
				b[r.IntN(n)]++
			}
			return b
		}
		as := make([]entry.Attribute, r.IntN(12))
		for i := range as {
			as[i] = entry.Attribute{Type: types[r.IntN(len(types))], Options: options[r.IntN(len(options))], Values: [][]byte{}}
			for range []int{0, 1, 1, 1, 2, 3, 20, 600}[r.IntN(8)] {
				as[i].Values = append(as[i].Values, random(lengths[r.IntN(len(lengths)-r.IntN(5))]))
			}
		}
		want := make([]entry.Attribute, len(as))
		for i, a := range as {
			want[i] = a
			want[i].Values = [][]byte{}
			for _, v := range a.Values {
				want[i].Values = append(want[i].Values, bytes.Clone(v))
			}
		}
		up, norm := string(random(r.IntN(20))), string(random(r.IntN(20)))
		upWas, normWas := up, norm
		p, _ := shapes.Pack(as, &up, &norm)
		if up != upWas || norm != normWas {
			t.Fatalf("seed %d: the texts are %q and %q, want %q and %q", seed, up, norm, upWas, normWas)
		}
		for _, a := range as {
			for _, v := range a.Values {
				clear(v)
			}
		}
		got := p.Entry(entry.ID{1})
		if got.ID != (entry.ID{1}) || !reflect.DeepEqual(got.Attributes, want) {
			t.Fatalf("seed %d: unpacked %v, want %v", seed, got.Attributes, want)
		}
		if p.Len() != len(want) || p.IsZero() {
			t.Fatalf("seed %d: %d attributes, want %d", seed, p.Len(), len(want))
		}
		var some []entry.Attribute
		for k, a := range want {
			if typ, o := p.Description(k); typ != a.Type || o != a.Options {
				t.Fatalf("seed %d: attribute %d is %s%s, want %s%s", seed, k, typ.Name(), o, a.Type.Name(), a.Options)
			}
			if i := p.Index(a.Type, a.Options); i > k || want[i].Type != a.Type || want[i].Options != a.Options {
				t.Fatalf("seed %d: %s%s has the index %d, want %d or less", seed, a.Type.Name(), a.Options, i, k)
			}
			from, to := p.Numbers(k)
			values := [][]byte{}
			for n := from; n < to; n++ {
				values = append(values, bytes.Clone(p.Value(n)))
			}
			if !reflect.DeepEqual(values, a.Values) {
				t.Fatalf("seed %d: attribute %d has other values one by one", seed, k)
			}
			if a.Type == types[0] || a.Type == types[1] {
				some = append(some, a)
			}
		}
		if part, _ := p.Append(nil, nil, types[:2]); !reflect.DeepEqual(clone(part), clone(some)) {
			t.Fatalf("seed %d: %v are the attributes of two types, want %v", seed, part, some)
		}
		checkSame(t, &shapes, p, want)
		if p.Index(schema.Core().Attribute("street"), "") != -1 {
			t.Fatalf("seed %d: an attribute that is not there has an index", seed)
		}
	}
}

// checkSame checks that p, which has the attributes as, is the same as another Packed of them, and not the same as
// those with one value more, one changed or one attribute less, unless their type is not compared.
func checkSame(t *testing.T, shapes *entry.Shapes, p entry.Packed, as []entry.Attribute) {
	t.Helper()
	is := func(as []entry.Attribute, without *schema.AttributeType) bool {
		q, _ := shapes.Pack(as)
		return p.Same(q, func(t *schema.AttributeType) bool { return t != without })
	}
	if !is(as, nil) {
		t.Fatal("the same attributes are not the same")
	}
	for k, a := range as {
		changed := append([]entry.Attribute{}, as...)
		changed[k].Values = append(append([][]byte{}, a.Values...), []byte("more"))
		if is(changed, nil) || !is(changed, a.Type) {
			t.Fatalf("attribute %d with a value more", k)
		}
		if n := len(a.Values); n > 0 {
			changed[k].Values = append([][]byte{}, a.Values...)
			changed[k].Values[n-1] = append([]byte("x"), a.Values[n-1]...)
			if is(changed, nil) || !is(changed, a.Type) {
				t.Fatalf("attribute %d with a changed value", k)
			}
		}
		if is(append(append([]entry.Attribute{}, as[:k]...), as[k+1:]...), a.Type) {
			t.Fatalf("without attribute %d", k)
		}
	}
}

// clone replaces empty lists of values by one that is not nil.
func clone(as []entry.Attribute) []entry.Attribute {
	for i := range as {
		as[i].Values = append([][]byte{}, as[i].Values...)
	}
	return as
}

// TestShapesAreShared checks that entries with the same descriptions share their shape, and that a
// shape is paid for once.
func TestShapesAreShared(t *testing.T) {
	cn := schema.Core().Attribute("cn")
	var shapes entry.Shapes
	of := func(options string) int {
		_, size := shapes.Pack([]entry.Attribute{{Type: cn, Options: options, Values: [][]byte{[]byte("x")}}})
		return size
	}
	first, second, other := of(""), of(""), of(";lang-de")
	if second >= first || second > 8 || other <= second {
		t.Errorf("sizes %d, %d, %d", first, second, other)
	}
}
