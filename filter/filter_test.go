package filter_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// TestText prints the results of parsing filters. The command "text" prints the Go value
// and the text of a filter, and "ber" prints its encoding. Both print the error if the
// text is not a filter.
func TestText(t *testing.T) {
	datadriven.RunTest(t, "testdata/text", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSuffix(line, "\n")
			f, err := filter.Parse(line)
			switch {
			case err != nil:
				var e *filter.Error
				if !errors.As(err, &e) || e.Filter != line {
					t.Errorf("%q: error %v", line, err)
					continue
				}
				fmt.Fprintf(&b, "%*s^ %s\n", e.Offset, "", e.Text)
			case d.Cmd == "ber":
				fmt.Fprintf(&b, "%x\n", wire.AppendFilter(nil, f))
			default:
				fmt.Fprintf(&b, "%s = %s\n", f, describe(f))
			}
		}
		return b.String()
	})
}

func describe(f filter.Filter) string {
	list := func(parts []filter.Filter) string {
		var all []string
		for _, p := range parts {
			all = append(all, describe(p))
		}
		return strings.Join(all, ", ")
	}
	switch f := f.(type) {
	case filter.And:
		return "And{" + list(f) + "}"
	case filter.Or:
		return "Or{" + list(f) + "}"
	case *filter.Not:
		return "Not{" + describe(f.Filter) + "}"
	case *filter.Equal:
		return fmt.Sprintf("Equal{%s %q}", f.Attribute, f.Value)
	case *filter.GreaterOrEqual:
		return fmt.Sprintf("GreaterOrEqual{%s %q}", f.Attribute, f.Value)
	case *filter.LessOrEqual:
		return fmt.Sprintf("LessOrEqual{%s %q}", f.Attribute, f.Value)
	case *filter.Approx:
		return fmt.Sprintf("Approx{%s %q}", f.Attribute, f.Value)
	case *filter.Present:
		return fmt.Sprintf("Present{%s}", f.Attribute)
	case *filter.Substrings:
		return fmt.Sprintf("Substrings{%s %s %q %s}", f.Attribute, piece(f.Initial), f.Any, piece(f.Final))
	case *filter.Extensible:
		return fmt.Sprintf("Extensible{rule %q, attribute %q, dn %t, %q}", f.Rule, f.Attribute, f.DNAttrs, f.Value)
	}
	return fmt.Sprintf("%T", f)
}

func piece(b []byte) string {
	if b == nil {
		return "none"
	}
	return fmt.Sprintf("%q", b)
}

// TestDecodeUnknown checks that an unknown alternative is Undefined, and that the rest of
// the filter is still evaluated.
func TestDecodeUnknown(t *testing.T) {
	for encoded, want := range map[string]struct {
		text string
		is   filter.Tri
	}{
		"8a0178":         {"(?)", filter.Undefined},
		"aa03040178":     {"(?)", filter.Undefined},
		"a2038a0178":     {"(!(?))", filter.Undefined},
		"a0058a0178a100": {"(&(?)(|))", filter.False},
		"a1058a0178a000": {"(|(?)(&))", filter.True},
	} {
		b, err := hex.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		f, err := wire.DecodeFilter(b)
		if err != nil || f.String() != want.text || !bytes.Equal(wire.AppendFilter(nil, f), b) {
			t.Errorf("%s: %v, %v; want %s", encoded, f, err, want.text)
			continue
		}
		if got := filter.Resolve(f, schema.Core()); got != filter.Const(want.is) {
			t.Errorf("%s: %v, want %v", f, got, want.is)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	nested := func(open string, n int) string { return strings.Repeat(open, n) }
	deep := filter.Filter(&filter.Present{"cn"})
	for range filter.MaxDepth {
		deep = &filter.Not{deep}
	}
	many := make(filter.And, filter.MaxParts)
	for i := range many {
		many[i] = &filter.Present{"a"}
	}
	pieces := &filter.Substrings{Attribute: "cn", Any: make([][]byte, filter.MaxParts)}
	for _, c := range []struct{ name, hex, want string }{
		{"nothing", "", "expected a filter"},
		{"another tag", "0400", "expected a filter, found OCTET STRING"},
		{"another form of a tag", "8300", "expected a filter, found [3]"},
		{"cut short", "a003", "of 3 octets"},
		{"cut inside", "a0028703", "of 3 octets"},
		{"more behind", "8702636e00", "the end"},
		{"not of nothing", "a200", "expected a filter"},
		{"not of two", "a2068701618701" + "62", "the end"},
		{"no value", "a3040402636e", "OCTET STRING"},
		{"no pieces", "a4060402636e3000", "without a substring"},
		{"initial twice", "a40c0402636e3006800161800161", "not the first"},
		{"initial last", "a40c0402636e3006810161800161", "not the first"},
		{"initial behind final", "a40c0402636e3006820161800161", "behind the final"},
		{"final first", "a40c0402636e3006820161810161", "behind the final"},
		{"final twice", "a40c0402636e3006820161820161", "behind the final"},
		{"another kind of substring", "a40c0402636e3006810161830161", "expected a substring, found [3]"},
		{"matches nothing", "a903830161", "neither a matching rule nor a type"},
		{"no match value", "a90481" + "0261" + "62", "[3]"},
		{"indefinite", "a0800000", "definite"},
		{"nested sets", nested("a080", 3), "definite"},
		{"depth", hex.EncodeToString(wire.AppendFilter(nil, deep)), "nest at most"},
		{"parts", hex.EncodeToString(wire.AppendFilter(nil, many)), "at most 65536 parts"},
		{"pieces", hex.EncodeToString(wire.AppendFilter(nil, pieces)), "at most 65536 parts"},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(c.name, err)
		}
		f, err := wire.DecodeFilter(b)
		if err == nil || f != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", c.name, f, err, c.want)
		}
	}
}

func TestParseLimits(t *testing.T) {
	for _, c := range []struct {
		in string
		ok bool
	}{
		{strings.Repeat("(!", filter.MaxDepth-1) + "(a=b)" + strings.Repeat(")", filter.MaxDepth-1), true},
		{strings.Repeat("(!", filter.MaxDepth) + "(a=b)" + strings.Repeat(")", filter.MaxDepth), false},
		{strings.Repeat("(!", 1e6), false},
		{"(&" + strings.Repeat("(a=b)", filter.MaxParts-1) + ")", true},
		{"(&" + strings.Repeat("(a=b)", filter.MaxParts) + ")", false},
	} {
		if _, err := filter.Parse(c.in); (err == nil) != c.ok {
			t.Errorf("%.20s...: %.100v", c.in, err)
		}
	}
}

func TestMustParse(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	if filter.MustParse("(a=b)").String() != "(a=b)" {
		t.Error("parsed as something else")
	}
	filter.MustParse("(a")
}

// TestStrangeDescriptions checks that a description that only BER can contain does not
// make the text of a filter look like another filter.
func TestStrangeDescriptions(t *testing.T) {
	f := &filter.Equal{Attribute: "cn=x)(sn\n", Value: []byte("\xff)")}
	if got, want := f.String(), `(cn\3dx\29\28sn\0a=\ff\29)`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func genFilter(depth int) *rapid.Generator[filter.Filter] {
	return rapid.Custom(func(t *rapid.T) filter.Filter {
		attribute := rapid.SampledFrom([]string{"cn", "sn;lang-de", "2.5.4.3"}).Draw(t, "attribute")
		value := rapid.Map(rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("a()*\\=\x00é ")))),
			func(s string) []byte { return []byte(s) })
		filled := value.Filter(func(b []byte) bool { return len(b) > 0 })
		kinds := 10
		if depth == 0 {
			kinds = 7
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return &filter.Equal{attribute, value.Draw(t, "value")}
		case 1:
			return &filter.GreaterOrEqual{attribute, value.Draw(t, "value")}
		case 2:
			return &filter.LessOrEqual{attribute, value.Draw(t, "value")}
		case 3:
			return &filter.Approx{attribute, value.Draw(t, "value")}
		case 4:
			return &filter.Present{attribute}
		case 5:
			s := &filter.Substrings{Attribute: attribute, Any: rapid.SliceOfN(filled, 0, 2).Draw(t, "any")}
			if rapid.Bool().Draw(t, "initial") || len(s.Any) == 0 {
				s.Initial = filled.Draw(t, "initial")
			}
			if rapid.Bool().Draw(t, "final") {
				s.Final = filled.Draw(t, "final")
			}
			return s
		case 6:
			e := &filter.Extensible{Attribute: attribute, Value: value.Draw(t, "value"), DNAttrs: rapid.Bool().Draw(t, "dn")}
			e.Rule = rapid.SampledFrom([]string{"", "caseExactMatch", "2.5.13.2"}).Draw(t, "rule")
			if e.Rule != "" && rapid.Bool().Draw(t, "rule only") {
				e.Attribute = ""
			}
			return e
		case 7:
			return filter.And(rapid.SliceOfN(genFilter(depth-1), 0, 3).Draw(t, "and"))
		case 8:
			return filter.Or(rapid.SliceOfN(genFilter(depth-1), 0, 3).Draw(t, "or"))
		default:
			return &filter.Not{genFilter(depth-1).Draw(t, "not")}
		}
	})
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := genFilter(3).Draw(t, "filter")
		parsed, err := filter.Parse(f.String())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(f, parsed, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("%s as text: %s", f, d)
		}
		decoded, err := wire.DecodeFilter(wire.AppendFilter(nil, f))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(f, decoded, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("%s in BER: %s", f, d)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"(&(objectClass=person)(|(cn=a*b*c)(!(sn~=x))))", "cn=*", "(cn:dn:2.5.13.5:=\\28)",
		"(:caseExactMatch:=x)", "(a>=b)", "(a<=\\ff)", "( & (a=b) ) ", "(|)", "(cn=**)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parsed, err := filter.Parse(s)
		if err != nil {
			return
		}
		again, err := filter.Parse(parsed.String())
		if err != nil {
			t.Fatalf("%q printed as %q: %v", s, parsed, err)
		}
		if d := cmp.Diff(parsed, again); d != "" {
			t.Fatalf("%q printed as %q: %s", s, parsed, d)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"(&(objectClass=person)(|(cn=a*b*c)(!(sn~=x))))", "(cn=*)", "(cn:dn:2.5.13.5:=\\28)", "(a>=b)", "(a<=\\ff)", "(|)",
	} {
		f.Add(wire.AppendFilter(nil, filter.MustParse(s)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		decoded, err := wire.DecodeFilter(b)
		if err != nil {
			return
		}
		_ = decoded.String()
		encoded := wire.AppendFilter(nil, decoded)
		again, err := wire.DecodeFilter(encoded)
		if err != nil {
			t.Fatalf("%x became %x: %v", b, encoded, err)
		}
		if d := cmp.Diff(decoded, again); d != "" {
			t.Fatalf("%x became %x: %s", b, encoded, d)
		}
		if !bytes.Equal(encoded, wire.AppendFilter(nil, again)) {
			t.Fatalf("%x is not stable", encoded)
		}
	})
}

const usual = "(&(objectClass=inetOrgPerson)(|(uid=jdoe)(mail=jdoe@example.com))(!(employeeType=alumnus)))"

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := filter.Parse(usual); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	encoded := wire.AppendFilter(nil, filter.MustParse(usual))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeFilter(encoded); err != nil {
			b.Fatal(err)
		}
	}
}

func TestShape(t *testing.T) {
	for text, want := range map[string]string{
		"(&(cn=a)(!(sn>=b))(|(x<=c)(y~=d)))": "(&(cn=?)(!(sn>=?))(|(x<=?)(y~=?)))",
		"(cn=a*b*c*d)":                       "(cn=?*?*?*?)",
		"(cn=*b*)":                           "(cn=*?*)",
		"(cn=*)":                             "(cn=*)",
		"(cn:dn:2.5.13.2:=a)":                "(cn:dn:2.5.13.2:=?)",
	} {
		if got := filter.Shape(filter.MustParse(text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
