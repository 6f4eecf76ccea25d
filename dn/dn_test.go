package dn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fold is a Matcher for a few attribute types. It ignores case.
type fold struct{}

var oids = map[string]string{
	"cn": "2.5.4.3", "ou": "2.5.4.11", "dc": "0.9.2342.19200300.100.1.25",
	"uid": "0.9.2342.19200300.100.1.1", "2.5.4.3": "2.5.4.3",
}

func (fold) NormalizeAVA(t string, v []byte) (string, []byte, error) {
	oid, ok := oids[strings.ToLower(t)]
	if !ok {
		return "", nil, fmt.Errorf("unknown type %s", t)
	}
	return oid, bytes.ToLower(v), nil
}

func ava(t, v string) AVA { return AVA{Type: t, Value: []byte(v)} }

func TestParse(t *testing.T) {
	one := func(v string) DN { return DN{{ava("cn", v)}} }
	for _, c := range []struct {
		in    string
		want  DN
		print string // empty: String returns the parsed text
	}{
		// The examples of RFC 4514, section 4.
		{"UID=jsmith,DC=example,DC=net", DN{{ava("UID", "jsmith")}, {ava("DC", "example")}, {ava("DC", "net")}}, ""},
		{"OU=Sales+CN=J.  Smith,DC=net", DN{{ava("OU", "Sales"), ava("CN", "J.  Smith")}, {ava("DC", "net")}}, ""},
		{`CN=James \"Jim\" Smith\, III,DC=net`, DN{{ava("CN", `James "Jim" Smith, III`)}, {ava("DC", "net")}}, ""},
		{`CN=Before\0dAfter`, DN{{ava("CN", "Before\rAfter")}}, ""},
		{"1.3.6.1.4.1.1466.0=#04024869", DN{{ava("1.3.6.1.4.1.1466.0", "Hi")}}, "1.3.6.1.4.1.1466.0=Hi"},
		{`CN=Lu\C4\8Di\C4\87`, DN{{ava("CN", "Lučić")}}, "CN=Lučić"},
		// The looser forms of RFC 2253.
		{`cn="Smith, \"Jim\"" ; dc = net`, DN{{ava("cn", `Smith, "Jim"`)}, {ava("dc", "net")}}, `cn=Smith\, \"Jim\",dc=net`},
		{"OID.2.5.4.3=a", DN{{ava("2.5.4.3", "a")}}, "2.5.4.3=a"},
		{" cn = a , dc = b ", DN{{ava("cn", "a")}, {ava("dc", "b")}}, "cn=a,dc=b"},
		{"cn=a + ou=b", DN{{ava("cn", "a"), ava("ou", "b")}}, "cn=a+ou=b"},
		// Spaces, number signs and empty values.
		{`cn=\ a\ `, one(" a "), ""},
		{`cn=\20a b\20\20 `, one(" a b  "), `cn=\ a b \ `},
		{`cn=\ `, one(" "), ""},
		{`cn=\#a#`, one("#a#"), ""},
		{"cn=", one(""), ""},
		{`cn=""`, one(""), "cn="},
		{"cn=a=b", one("a=b"), ""},
		{`cn=a\=b`, one("a=b"), "cn=a=b"},
		{`cn=\00\ff`, one("\x00\xff"), `cn=\00\ff`},
		{`cn=\<\>\;`, one("<>;"), ""},
		// Hex strings: string types are decoded, and other types are kept encoded.
		{"cn=#0c03c3a962 ", one("éb"), "cn=éb"},
		{"cn=#13 ", nil, ""},
		{"cn=#3003020101", one("\x30\x03\x02\x01\x01"), `cn=0\03\02\01\01`},
		{"cn=#04810161,dc=b", DN{{ava("cn", "a")}, {ava("dc", "b")}}, "cn=a,dc=b"},
		{"", nil, ""},
	} {
		got, err := Parse(c.in)
		if c.want == nil && c.in != "" {
			if err == nil {
				t.Errorf("%q parsed as %v", c.in, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q: %s", c.in, d)
		}
		want := c.print
		if want == "" {
			want = c.in
		}
		if got := got.String(); got != want {
			t.Errorf("%q prints as %q, want %q", c.in, got, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		in     string
		offset int
		text   string
	}{
		{" ", 1, "attribute type"},
		{"cn", 2, "expected ="},
		{"=a", 0, "attribute type"},
		{"cn=a,", 5, "attribute type"},
		{"cn=a,,dc=b", 5, "attribute type"},
		{"cn=a+", 5, "attribute type"},
		{"c_n=a", 1, "expected ="},
		{"cn;lang-de=a", 2, "expected ="},
		{"2=a", 1, "two numbers"},
		{"2.05=a", 2, "leading zeros"},
		{"2..5=a", 2, "number"},
		{"oid.cn=a", 4, "numeric OID"},
		{`cn=a\`, 4, "nothing to escape"},
		{`cn=a\x`, 4, "hex digits"},
		{`cn=a\4`, 4, "hex digits"},
		{`cn=a"b`, 4, "escaped"},
		{`cn=a<b`, 4, "escaped"},
		{"cn=a\x00", 4, "escaped"},
		{`cn="a`, 5, "no end"},
		{`cn="a"b`, 6, "comma or a plus"},
		{"cn=\xff", 3, "UTF-8"},
		{"cn=\"\xff\"", 4, "UTF-8"},
		{"cn=#", 3, "BER"},
		{"cn=#0", 4, "comma or a plus"},
		{"cn=#0405aa", 3, "BER"},
		{"cn=#0480aa0000", 3, "BER"},
		{"cn=#1f0100", 3, "BER"},
		{"cn=#048501000000aa", 3, "BER"},
	} {
		_, err := Parse(c.in)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: error %v", c.in, err)
			continue
		}
		if e.Offset != c.offset || !strings.Contains(e.Text, c.text) {
			t.Errorf("%q: %v, want offset %d and %q", c.in, err, c.offset, c.text)
		}
	}
}

func TestParseRDN(t *testing.T) {
	r, err := ParseRDN("cn=a+uid=b")
	if err != nil || r.String() != "cn=a+uid=b" {
		t.Errorf("%v, %v", r, err)
	}
	for _, in := range []string{"", "cn=a,dc=b", "cn=a,"} {
		if r, err := ParseRDN(in); err == nil {
			t.Errorf("%q parsed as %v", in, r)
		}
	}
}

// TestPartsAreApart checks that appending to one part of a parsed name does not overwrite
// the next part, although the parts share arrays.
func TestPartsAreApart(t *testing.T) {
	d, err := Parse("cn=a+uid=b,dc=c")
	if err != nil {
		t.Fatal(err)
	}
	_ = append(d[0], ava("x", "y"))
	_ = append(d[0][0].Value, "zzzz"...)
	if got := d.String(); got != "cn=a+uid=b,dc=c" {
		t.Error(got)
	}
}

func TestNormalize(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"OU=People", "2.5.4.11=people"},
		{"cn=a=b+c", ""},
		{"uid=1+cn=Ann", "+\x1b0.9.2342.19200300.100.1.1=1\x0b2.5.4.3=ann"},
		{"cn=Ann+2.5.4.3=ANN", ""},
		{"nope=a", ""},
	} {
		r, err := ParseRDN(c.in)
		var n Norm
		if err == nil {
			n, err = r.Normalize(fold{})
		}
		if string(n) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q: %q, %v; want %q", c.in, n, err, c.want)
		}
	}
	if _, err := (RDN{}).Normalize(fold{}); err == nil {
		t.Error("an empty RDN has a norm")
	}
	if _, err := (DN{{ava("nope", "")}}).Normalize(fold{}); err == nil {
		t.Error("an unknown type has a norm")
	}
}

func TestParent(t *testing.T) {
	d, _ := Parse("cn=a,dc=b")
	if got := d.Parent().String(); got != "dc=b" {
		t.Error(got)
	}
	if root := d.Parent().Parent(); len(root) != 0 || len(root.Parent()) != 0 || root.String() != "" {
		t.Error(root)
	}
	if len(Key(nil)) != 0 {
		t.Error("the root's key is not empty")
	}
}

func genRDN(t *rapid.T) RDN {
	types := []string{"cn", "CN", "2.5.4.3", "ou", "uid"}
	// Some values are made only of the bytes that occur in keys and separators. So the test
	// can find two names with the same key, if there are any.
	value := rapid.OneOf(
		rapid.StringOf(rapid.RuneFrom([]rune("aA+=,;\"\\# .\x00\x05\x092"))),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	r := make(RDN, rapid.IntRange(1, 3).Draw(t, "avas"))
	for i := range r {
		r[i] = ava(rapid.SampledFrom(types).Draw(t, "type"), value.Draw(t, "value"))
	}
	return r
}

func genDN(t *rapid.T) DN {
	d := make(DN, rapid.IntRange(0, 4).Draw(t, "rdns"))
	for i := range d {
		d[i] = genRDN(t)
	}
	return d
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := genDN(t)
		text := d.String()
		back, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if !equal(d, back) {
			t.Fatalf("%q became %q", text, back)
		}
	})
}

// equal reports whether two names are spelled the same.
func equal(a, b DN) bool {
	return slices.EqualFunc(a, b, func(a, b RDN) bool {
		return slices.EqualFunc(a, b, func(a, b AVA) bool {
			return a.Type == b.Type && bytes.Equal(a.Value, b.Value)
		})
	})
}

// set returns an RDN as a set of pairs (OID, folded value). Two Norms must be equal if
// and only if the sets of their RDNs are equal.
func set(r RDN) map[[2]string]bool {
	s := map[[2]string]bool{}
	for _, a := range r {
		s[[2]string{oids[strings.ToLower(a.Type)], string(bytes.ToLower(a.Value))}] = true
	}
	return s
}

func TestNormEqualsSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genRDN(t), genRDN(t)
		na, errA := a.Normalize(fold{})
		nb, errB := b.Normalize(fold{})
		if (errA != nil) != (len(set(a)) < len(a)) {
			t.Fatalf("%q: %v", a, errA)
		}
		if errA == nil && errB == nil && (na == nb) != cmp.Equal(set(a), set(b)) {
			t.Fatalf("%q and %q have norms %q and %q", a, b, na, nb)
		}
		shuffled := slices.Clone(a)
		rand.Shuffle(len(a), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if n, err := shuffled.Normalize(fold{}); n != na || (err != nil) != (errA != nil) {
			t.Fatalf("%q has the norm %q, %q has %q", a, na, shuffled, n)
		}
	})
}

func TestKeyPrefixIsAncestor(t *testing.T) {
	genNorms := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Norm {
		return Norm(rapid.SampledFrom([]string{"", "a", "a\x01", "\x01", "\x01a", "aa", strings.Repeat("a", 200)}).Draw(t, "norm"))
	}), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := genNorms.Draw(t, "a"), genNorms.Draw(t, "b")
		ancestor := len(a) <= len(b) && slices.Equal(a, b[len(b)-len(a):])
		if bytes.HasPrefix(Key(b), Key(a)) != ancestor {
			t.Fatalf("%q and %q have keys %q and %q", a, b, Key(a), Key(b))
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "uid=jdoe,ou=people,dc=example,dc=com", `cn="a, b"; OID.2.5.4.3 = c`,
		`cn=\ \#\0a#\ + uid=#04024869`, "cn=#3003020101", `cn=Lu\C4\8Di\C4\87,`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := Parse(s)
		if err != nil {
			return
		}
		text := d.String()
		back, err := Parse(text)
		if err != nil {
			t.Fatalf("%q printed as %q: %v", s, text, err)
		}
		if !equal(d, back) {
			t.Fatalf("%q printed as %q, which is another name", s, text)
		}
	})
}

const typical = "uid=jdoe,ou=people,o=example"

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(typical); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkString(b *testing.B) {
	d, _ := Parse(typical)
	b.ReportAllocs()
	for b.Loop() {
		_ = d.String()
	}
}

// asIs is a Matcher that costs nothing, so that benchmarks measure only package dn.
type asIs struct{}

func (asIs) NormalizeAVA(t string, v []byte) (string, []byte, error) { return t, v, nil }

func BenchmarkNormalize(b *testing.B) {
	d, _ := Parse(typical)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Normalize(asIs{}); err != nil {
			b.Fatal(err)
		}
	}
}

// folding is a Matcher whose keys differ from those of asIs.
type folding struct{}

func (folding) NormalizeAVA(attribute string, value []byte) (string, []byte, error) {
	return attribute, bytes.ToUpper(value), nil
}

func TestName(t *testing.T) {
	n := NewName("uid=ann,ou=people")
	first, err := n.DN()
	if err != nil || first.String() != "uid=ann,ou=people" || n.String() != first.String() {
		t.Fatalf("%v, %v", first, err)
	}
	if again, _ := n.DN(); &again[0] != &first[0] {
		t.Error("a name is parsed each time")
	}
	for _, m := range []Matcher{asIs{}, folding{}, asIs{}} {
		key, err := n.Key(m)
		ns, _ := first.Normalize(m)
		if err != nil || !bytes.Equal(key, Key(ns)) {
			t.Errorf("the key by %T is %q, %v", m, key, err)
		}
		if again, _ := n.Key(m); &again[0] != &key[0] {
			t.Error("a name is normalised each time")
		}
	}
	if made := NameOf(first); made.String() != n.String() {
		t.Errorf("the name of %s is %s", first, made)
	}
	if _, err := NewName("ann").DN(); err == nil {
		t.Error("a text that is no name has a DN")
	}
	if _, err := NewName("ann").Key(asIs{}); err == nil {
		t.Error("a text that is no name has a key")
	}
	if key, err := NewName("").Key(asIs{}); len(key) > 0 || err != nil {
		t.Errorf("the key of the root is %q, %v", key, err)
	}
	root := NewName("")
	if d, err := root.DN(); len(d) > 0 || err != nil || root.String() != "" || NameOf(nil) != nil {
		t.Errorf("the root: %v, %v, %q", d, err, root)
	}
	if j, err := json.Marshal([]*Name{n}); string(j) != `["uid=ann,ou=people"]` || err != nil {
		t.Errorf("%s, %v", j, err)
	}
}

// TestBounds checks the bounds of names that clients send, and that stored names are not bounded.
func TestBounds(t *testing.T) {
	name := func(n int) string { return strings.Repeat("cn=a,", n-1) + "cn=a" }
	rdn := func(n int) string { return strings.Repeat("cn=a+", n-1) + "cn=a" }
	for text, ok := range map[string]bool{name(MaxRDNs): true, name(MaxRDNs + 1): false, name(20000): false,
		rdn(MaxAVAs): true, rdn(MaxAVAs + 1): false, "cn=b," + rdn(MaxAVAs+1): false} {
		_, err := Parse(text)
		if ok != (err == nil) || err != nil && len(err.Error()) > 1500 {
			t.Errorf("%d octets: %v", len(text), err)
		}
	}
	if _, err := ParseRDN(rdn(MaxAVAs + 1)); err == nil {
		t.Error("an RDN is not bounded")
	}
	if d, err := NewName(name(MaxRDNs + 1)).DN(); len(d) != MaxRDNs+1 || err != nil {
		t.Errorf("a stored name: %d RDNs, %v", len(d), err)
	}
}
