package filter_test

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/dn"
	. "github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// parse parses the entries of an LDIF file into sources.
func parse(t testing.TB, r *ldif.Reader) []*EntrySource {
	t.Helper()
	s := schema.Core()
	var all []*EntrySource
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		e := &entry.Entry{ID: entry.NewID()}
		for _, a := range rec.Attributes {
			name, options, _ := strings.Cut(a.Description, ";")
			typ := s.Attribute(name)
			if typ == nil {
				t.Fatalf("%s: unknown attribute type %s", rec.DN, name)
			}
			e.Attributes = append(e.Attributes, entry.Attribute{Type: typ, Options: entry.SortOptions(options), Values: a.Values})
		}
		name, err := dn.Parse(rec.DN)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &EntrySource{Schema: s, Entry: e, Name: name})
	}
	return all
}

func sample(t testing.TB) []*EntrySource {
	t.Helper()
	f, err := os.Open("../testdata/ldif/example.ldif")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return parse(t, ldif.NewReader(f, ldif.Options{}))
}

// plain is a Source whose EntrySource is hidden, so that it is not a KeySource.
type plain struct{ s *EntrySource }

func (p plain) Has(t *schema.AttributeType, o string) bool { return p.s.Has(t, o) }
func (p plain) Keys(t *schema.AttributeType, o string) iter.Seq[[]byte] {
	return p.s.Keys(t, o)
}
func (p plain) Values(t *schema.AttributeType, o string) iter.Seq[[]byte] {
	return p.s.Values(t, o)
}
func (p plain) NameValues() iter.Seq2[*schema.AttributeType, []byte] { return p.s.NameValues() }

// TestTranscripts resolves filters and matches them. The commands are:
//
//	resolve  prints each filter after Resolve, then "values" if it needs values,
//	         and the result of Definite if it differs
//	entries  reads entries in LDIF for the following matches
//	match    prints the entries for which each filter is True (+) or Undefined (?)
//	sample   prints how many entries of the sample directory match, and the
//	         first of these entries
func TestTranscripts(t *testing.T) {
	s := schema.Core()
	all := sample(t)
	for _, path := range []string{"testdata/resolve", "testdata/match", "testdata/sample"} {
		var entries []*EntrySource
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "entries" {
				text := strings.ReplaceAll(d.Input, "\n$", "\n")
				entries = parse(t, ldif.NewReader(strings.NewReader(text), ldif.Options{}))
				return ""
			}
			var b strings.Builder
			for line := range strings.Lines(d.Input) {
				line = strings.TrimSuffix(line, "\n")
				f, err := Parse(line)
				if err != nil {
					t.Fatal(err)
				}
				r := Resolve(f, s)
				switch d.Cmd {
				case "resolve":
					b.WriteString(resolved(r))
				case "match":
					fmt.Fprintf(&b, "%s:%s\n", line, matches(t, entries, r))
				case "sample":
					b.WriteString(counted(t, all, r))
				}
				b.WriteByte('\n')
			}
			return strings.ReplaceAll(b.String(), "\n\n", "\n")
		})
	}
}

func resolved(r Resolved) string {
	text := r.String()
	if NeedsValues(r) {
		text += " values"
	}
	if d := Definite(r).String(); d != r.String() {
		text += " -> " + d
	}
	return text
}

func matches(t *testing.T, entries []*EntrySource, r Resolved) string {
	var b strings.Builder
	for _, e := range entries {
		switch match(t, e, r) {
		case True:
			fmt.Fprintf(&b, " +%s", e.Name[0][0].Value)
		case Undefined:
			fmt.Fprintf(&b, " ?%s", e.Name[0][0].Value)
		}
	}
	return b.String()
}

// match evaluates a filter by keys and by iterators, evaluates its definite form, and checks
// that the results agree.
func match(t *testing.T, e *EntrySource, r Resolved) Tri {
	t.Helper()
	got := r.Match(e)
	if p := r.Match(plain{e}); p != got {
		t.Errorf("%s of %s: %d by keys, %d by iterators", r, e.Name, got, p)
	}
	if d := Definite(r).Match(e); (d == True) != (got == True) || d == Undefined {
		t.Errorf("%s of %s: %d, but its definite form %s gives %d", r, e.Name, got, Definite(r), d)
	}
	return got
}

func counted(t *testing.T, all []*EntrySource, r Resolved) string {
	var names []string
	for _, e := range all {
		if match(t, e, r) == True {
			names = append(names, e.Name.String())
		}
	}
	text := fmt.Sprintf("%d %s", len(names), r)
	for _, n := range names[:min(len(names), 3)] {
		text += "\n  " + n
	}
	return text
}

// genTree generates filters whose nodes are not simplified.
func genTree(tests []Resolved, depth int) *rapid.Generator[Resolved] {
	return rapid.Custom(func(t *rapid.T) Resolved {
		parts := func() []Resolved {
			return rapid.SliceOfN(genTree(tests, depth-1), 0, 4).Draw(t, "parts")
		}
		kinds := 5
		if depth == 0 {
			kinds = 2
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom(tests).Draw(t, "test")
		case 1:
			return Const(rapid.SampledFrom([]Tri{False, Undefined, True}).Draw(t, "const"))
		case 2:
			return &AndNode{parts()}
		case 3:
			return &OrNode{parts()}
		default:
			return &NotNode{genTree(tests, depth-1).Draw(t, "not")}
		}
	})
}

// TestSimplify checks that simplifying a filter does not change its result for any entry,
// and that a simplified filter cannot be simplified again.
func TestSimplify(t *testing.T) {
	s := schema.Core()
	var tests []Resolved
	for _, v := range []string{"a", "b", "c"} {
		tests = append(tests, Resolve(MustParse("(cn="+v+")"), s))
	}
	var entries []*EntrySource
	for bits := range 8 {
		a := entry.Attribute{Type: s.Attribute("cn")}
		for i := range 3 {
			if bits>>i&1 != 0 {
				a.Values = append(a.Values, []byte{byte('a' + i)})
			}
		}
		entries = append(entries, &EntrySource{Schema: s, Entry: &entry.Entry{Attributes: []entry.Attribute{a}}})
	}
	same := func(test *Test) Resolved { return test }
	rapid.Check(t, func(t *rapid.T) {
		f := genTree(tests, 3).Draw(t, "filter")
		simple, definite := Map(f, same), Definite(f)
		for _, e := range entries {
			want := f.Match(e)
			if got := simple.Match(e); got != want {
				t.Fatalf("%s is %d, simplified to %s %d", f, want, simple, got)
			}
			wantDefinite := False
			if want == True {
				wantDefinite = True
			}
			if got := definite.Match(e); got != wantDefinite {
				t.Fatalf("%s is %d, its definite form %s %d", f, want, definite, got)
			}
		}
		if text := Map(simple, same).String(); text != simple.String() {
			t.Fatalf("%s simplifies to %s and then to %s", f, simple, text)
		}
		if strings.Contains(definite.String(), "undefined") || !isSimple(simple, false) {
			t.Fatalf("%s simplifies to %s, definite %s", f, simple, definite)
		}
	})
}

func isSimple(f Resolved, inside bool) bool {
	part := func(p Resolved) bool { return isSimple(p, true) }
	nested := func(parts []Resolved, is func(Resolved) bool) bool {
		return len(parts) > 1 && !slices.ContainsFunc(parts, is) &&
			!slices.ContainsFunc(parts, func(p Resolved) bool { return !part(p) })
	}
	switch f := f.(type) {
	case *AndNode:
		return nested(f.Parts, func(p Resolved) bool { _, ok := p.(*AndNode); return ok })
	case *OrNode:
		return nested(f.Parts, func(p Resolved) bool { _, ok := p.(*OrNode); return ok })
	case *NotNode:
		_, double := f.Part.(*NotNode)
		_, constant := f.Part.(Const)
		return !double && !constant && part(f.Part)
	case Const:
		return !inside || f == Const(Undefined)
	}
	return true
}

func TestTests(t *testing.T) {
	r := Resolve(MustParse("(&(cn=a)(|(sn=b)(!(uid=c)))(l=d))"), schema.Core())
	var got []string
	for test := range Tests(r) {
		if got = append(got, test.String()); len(got) == 3 {
			break
		}
	}
	if want := []string{"(cn=a)", "(sn=b)", "(uid=c)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSourceReset(t *testing.T) {
	all := sample(t)
	s := &EntrySource{Schema: schema.Core()}
	r := Resolve(MustParse("(|(uid=jdoe)(cn~=boss))"), schema.Core())
	for _, e := range all {
		s.Reset(e.Entry, e.Name)
		if got, want := r.Match(s), r.Match(e); got != want {
			t.Errorf("%s: %d, want %d", e.Name, got, want)
		}
	}
}

// TestMatchAllocatesNothing checks that matching an entry whose keys are cached does not
// allocate memory, except for approximate matches.
func TestMatchAllocatesNothing(t *testing.T) {
	e := jdoe(t)
	for _, text := range []string{
		"(&(objectClass=inetOrgPerson)(!(uid=x))(|(sn=d*)(name=jo*n*e)))", "(uidNumber>=10)", "(mail=*)", "(cn~=john)",
		"(cn;lang-de=johann reh)",
	} {
		r := Resolve(MustParse(text), schema.Core())
		if r.Match(e) != True {
			t.Errorf("%s does not match", text)
		}
		if n := testing.AllocsPerRun(100, func() { r.Match(e) }); n > 0 && text != "(cn~=john)" {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

func jdoe(t testing.TB) *EntrySource {
	for _, e := range sample(t) {
		if strings.HasPrefix(e.Name.String(), "uid=jdoe,") {
			return e
		}
	}
	t.Fatal("jdoe is not in the sample")
	return nil
}

const typical = "(&(objectClass=inetOrgPerson)(|(uid=nobody)(mail=jdoe@example.com))(!(employeeType=alumnus)))"

func BenchmarkResolve(b *testing.B) {
	s, f := schema.Core(), MustParse(typical)
	b.ReportAllocs()
	for b.Loop() {
		Resolve(f, s)
	}
}

func BenchmarkMatch(b *testing.B) {
	e := jdoe(b)
	for _, text := range []string{typical, "(uid=jdoe)", "(cn=*doe*)", "(uidNumber>=100)", "(jpegPhoto=*)"} {
		r := Resolve(MustParse(text), schema.Core())
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r.Match(e) != True {
					b.Fatal()
				}
			}
		})
	}
}

// BenchmarkRecheck measures matching an entry that was just read, so that its values must
// be normalised first.
func BenchmarkRecheck(b *testing.B) {
	e := jdoe(b)
	r := Resolve(MustParse(typical), schema.Core())
	s := &EntrySource{Schema: schema.Core()}
	b.ReportAllocs()
	for b.Loop() {
		s.Reset(e.Entry, e.Name)
		if r.Match(s) != True {
			b.Fatal()
		}
	}
}
