package tree_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

var core = schema.Core()

// TestColumnsComeBack checks the columns of stores with codes, and of stores without them.
func TestColumnsComeBack(t *testing.T) {
	for _, codes := range []int{0, 2, schema.Codes()} {
		columnsComeBack(t, core.WithCodes(codes))
	}
}

func columnsComeBack(t *testing.T, core *schema.Schema) {
	t.Helper()
	long := bytes.Repeat([]byte("k"), 600)
	at := master.NewPosition(7, 1)
	for _, c := range []struct {
		typ, options string
		key          []byte
		kind         byte
	}{
		{"cn", "", []byte("a"), tree.Whole}, {"cn", ";lang-de;x-a", []byte("a=b;c:d>~?"), tree.Whole},
		{"cn", "", nil, tree.Whole}, {"cn", ";x", long, tree.Cut}, {"cn", "", long[:512], tree.Whole},
		{"uidNumber", ";x", []byte{0, ';'}, tree.Single}, {"jpegPhoto", ";x", nil, tree.Unkeyed},
	} {
		typ, at := core.Attribute(c.typ), at
		if typ.SingleValue {
			at = nil
		}
		cell := tree.ColumnOf(typ, c.options, c.key, at)
		got := tree.Decode(&cell)
		if core.StoredAs(string(got.Type)) != typ || got.Options != c.options || got.Kind != c.kind {
			t.Errorf("%s%s: %q of %q, options %q", c.typ, c.options, got.Kind, got.Type, got.Options)
		}
		if c.kind != tree.Cut && c.kind != tree.Unkeyed && !bytes.Equal(got.Key, c.key) {
			t.Errorf("%s%s: key %q, want %q", c.typ, c.options, got.Key, c.key)
		}
		if positioned := c.kind == tree.Whole || c.kind == tree.Cut; positioned && !bytes.Equal(got.Position, at) || !positioned && got.Position != nil {
			t.Errorf("%s%s: position %x", c.typ, c.options, got.Position)
		}
		if in := (table.Row{Cells: []table.Cell{cell}}).Range(tree.Columns(typ)); len(in) != 1 {
			t.Errorf("%s%s: not among the type's columns", c.typ, c.options)
		}
	}
}

func TestDecodeMalformed(t *testing.T) {
	for _, q := range []string{"", "2.5.4.3", "2.5.4.3;x", ";", "\xff\xfe"} {
		if c := tree.Decode(&table.Cell{Qualifier: []byte(q)}); c.Kind != 0 {
			t.Errorf("%q: %+v", q, c)
		}
	}
}

// TestCutsDiffer checks that two long names with a common beginning have different rows,
// and that two long keys with a common beginning have different columns.
func TestCutsDiffer(t *testing.T) {
	a, b := strings.Repeat("n", 2000)+"a", strings.Repeat("n", 2000)+"b"
	id := entry.NewID()
	ka, kb := tree.Key(id, dn.Norm(a)), tree.Key(id, dn.Norm(b))
	if bytes.Equal(ka, kb) || len(ka) > 1100 || tree.Parent(ka) != id {
		t.Errorf("rows %x and %x", ka, kb)
	}
	if r := tree.Children(id); bytes.Compare(ka, r.Start) < 0 || bytes.Compare(ka, r.End) >= 0 {
		t.Errorf("row %x is not in %x", ka, r)
	}
	cn := core.Attribute("cn")
	if qa, qb := tree.Qualifier(cn, "", []byte(a)), tree.Qualifier(cn, "", []byte(b)); bytes.Equal(qa, qb) || len(qa) > 600 {
		t.Errorf("columns %q and %q", qa, qb)
	}
}

// TestSource tests a filter, and the hint of that filter, on a tree row. It compares both
// results with the result of the filter on the entry.
func TestSource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		row := rowOf(e, rapid.SampledFrom([]int{2, 100}).Draw(t, "many"), rapid.Bool().Draw(t, "bare"))
		f := filter.Definite(filter.Resolve(drawFilter(t, e, 2), core))
		want := f.Match(&filter.EntrySource{Entry: e, Schema: core})
		if h := tree.Hint(f); h != nil && want == filter.True && !h.Match(row) {
			t.Fatalf("the hint of %s keeps the entry out that matches: %s", f, print(e))
		}
		if filter.NeedsValues(f) {
			return // such a filter is never tested on rows
		}
		s := &tree.Source{Row: row}
		if got := f.Match(s); got != want && !s.Unsure {
			t.Fatalf("%s: the row says %d, the entry %d: %s", f, got, want, print(e))
		}
	})
}

// TestHintsRuleOut checks that hints exclude some rows. A hint that excludes no row would
// pass TestSource.
func TestHintsRuleOut(t *testing.T) {
	long := strings.Repeat("m", 600)
	e := &entry.Entry{ID: entry.NewID()}
	for name, value := range map[string]string{"cn": "ann", "uidNumber": "7", "displayName": "ann lee", "dnQualifier": "m", "description": long, "jpegPhoto": "one"} {
		e.Attributes = append(e.Attributes, entry.Attribute{Type: core.Attribute(name), Values: [][]byte{[]byte(value)}})
	}
	row := rowOf(e, 100, false)
	for f, want := range map[string]bool{
		"(cn=ann)": true, "(cn=bob)": false, "(cn=a*)": true, "(cn=b*)": false, "(cn=*n)": true, "(cn=*x*)": false,
		"(sn=*)": false, "(cn=*)": true, "(&(cn=ann)(sn=x))": false, "(|(cn=ann)(sn=x))": true, "(|(cn=bob)(sn=x))": false,
		"(cn;lang-de=*)": false, "(cn;lang-de=ann)": false, "(sn:caseExactMatch:=x)": false, "(cn:caseExactMatch:=x)": true,
		// values in the value of a cell
		"(uidNumber=7)": true, "(uidNumber=8)": false, "(uidNumber>=7)": true, "(uidNumber>=8)": false, "(uidNumber<=7)": true, "(uidNumber<=6)": false,
		"(&(uidNumber>=5)(uidNumber<=6))": false, "(&(uidNumber>=6)(cn=ann)(uidNumber<=7)(uidNumber>=-1))": true, "(&(uidNumber>=7)(cn=bob)(uidNumber<=7))": false, "(uidNumber~=7)": true, "(uidNumber~=8)": false,
		"(uidNumber:integerOrderingMatch:=8)": true, "(uidNumber:integerOrderingMatch:=6)": false, "(uidNumber:1.2.840.113556.1.4.803:=8)": true,
		"(displayName=ann*)": true, "(displayName=b*)": false, "(displayName=*lee)": true, "(displayName=*ann)": false, "(displayName=*x*)": false,
		`(displayName:caseIgnoreSubstringsMatch:=\2ann\2a)`: true, `(displayName:caseIgnoreSubstringsMatch:=b\2a)`: false, `(displayName:caseIgnoreSubstringsMatch:=\2ax)`: false,
		// values in qualifiers
		"(dnQualifier>=m)": true, "(dnQualifier>=n)": false, "(dnQualifier<=m)": true, "(dnQualifier<=l)": false,
		"(dnQualifier:caseIgnoreOrderingMatch:=n)": true, "(dnQualifier:caseIgnoreOrderingMatch:=l)": false,
		// values that are cut
		"(description=" + long + ")": true, "(description=" + long + "x)": false, "(description=m*x)": true, "(description=n*)": false,
		"(description=" + long + "m*)": true, "(description:caseIgnoreOrderingMatch:=l)": false, "(description:caseIgnoreOrderingMatch:=n)": true,
		"(jpegPhoto=*)": true, "(photo=*)": false,
	} {
		if h := tree.Hint(filter.Definite(filter.Resolve(filter.MustParse(f), core))); h == nil || h.Match(row) != want {
			t.Errorf("%s: %+v, want %v", f, h, want)
		}
	}
	for _, f := range []string{"(!(cn=ann))", "(!(uidNumber=7))", "(entryUUID=" + e.ID.String() + ")", "(cn:dn:=x)", "(|(cn=x)(!(sn=x)))", "(hasSubordinates=TRUE)"} {
		if h := tree.Hint(filter.Definite(filter.Resolve(filter.MustParse(f), core))); h != nil {
			t.Errorf("%s: %+v: a store cannot tell", f, h)
		}
	}
}

var values = map[string][]string{
	"cn": {"ann", "bob", "ann lee"}, "cn;lang-de": {"ann", "eva"}, "sn": {"lee", "a"}, "uidNumber": {"1", "12", "-3"},
	"dnQualifier": {"a", "ann", "long " + strings.Repeat("long ", 150), "m"},
	"displayName": {"ann", "Bob"}, "description": {"one", "two", strings.Repeat("long ", 150) + "x", strings.Repeat("long ", 150) + "y"},
	"jpegPhoto": {"one", "two"}, "userPassword": {"secret"}, "member": {"cn=a", "cn=b,dc=c"}, "objectClass": {"person", "top"},
}

func drawEntry(t *rapid.T) *entry.Entry {
	e := &entry.Entry{ID: entry.NewID()}
	for _, d := range slices.Sorted(maps.Keys(values)) {
		pool := values[d]
		name, options, _ := strings.Cut(d, ";")
		if options != "" {
			options = ";" + options
		}
		vs := rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 0, len(pool), rapid.ID).Draw(t, d)
		if len(vs) == 0 {
			continue
		}
		a := entry.Attribute{Type: core.Attribute(name), Options: options}
		if a.Type.SingleValue && !rapid.Bool().Draw(t, "was multi-valued") {
			vs = vs[:1]
		}
		for _, v := range vs {
			a.Values = append(a.Values, []byte(v))
		}
		if !a.Type.Secret() { // filters do not see secret attributes
			e.Attributes = append(e.Attributes, a)
		}
	}
	id := entry.Attribute{Type: core.Attribute("entryUUID"), Values: [][]byte{[]byte(e.ID.String())}}
	e.Attributes = append(e.Attributes, id)
	return e
}

// rowOf returns an entry's row. The parameter many is the largest number of values that have
// columns of their own: a description with more values, whose type has an equality rule, has
// only the column of the kind Many. If bare is set, the first value of each description has no
// position, as if its type had been SINGLE-VALUE.
func rowOf(e *entry.Entry, many int, bare bool) table.Row {
	r := table.Row{Cells: []table.Cell{tree.Cell(e.ID)}}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		if a.Type.Name() == "entryUUID" {
			continue // entryUUID is the row's id
		}
		if len(a.Values) > many && a.Type.Equality != nil {
			r.Cells = append(r.Cells, table.Cell{Family: tree.NormAttributes, Qualifier: tree.Plain(a.Type, a.Options, tree.Many), Value: []byte{1}})
			continue
		}
		for n, v := range a.Values {
			var key []byte
			if a.Type.Equality != nil {
				key, _ = a.Type.Equality.Key(v)
			}
			p := master.NewPosition(1, n)
			if n == 0 && (bare || a.Type.SingleValue) {
				p = nil
			}
			r.Cells = append(r.Cells, tree.ColumnOf(a.Type, a.Options, key, p))
		}
	}
	slices.SortFunc(r.Cells, table.Cell.Compare)
	r.Cells = slices.CompactFunc(r.Cells, func(a, b table.Cell) bool { return a.Compare(b) == 0 })
	return r
}

func print(e *entry.Entry) string {
	var b strings.Builder
	for i := range e.Attributes {
		b.WriteString("\n" + e.Attributes[i].Description() + ": " + string(bytes.Join(e.Attributes[i].Values, []byte(", "))))
	}
	return b.String()
}

var extensible = []string{"caseExactMatch", "caseIgnoreMatch", "caseIgnoreOrderingMatch", "caseIgnoreSubstringsMatch", "integerMatch", "integerOrderingMatch", "wordMatch", "1.2.840.113556.1.4.804"}

func drawFilter(t *rapid.T, e *entry.Entry, depth int) filter.Filter {
	if depth > 0 {
		switch rapid.IntRange(0, 6).Draw(t, "node") {
		case 0:
			return filter.And(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) filter.Filter { return drawFilter(t, e, depth-1) }), 2, 4).Draw(t, "parts"))
		case 1:
			return filter.Or{drawFilter(t, e, depth-1), drawFilter(t, e, depth-1)}
		case 2:
			return &filter.Not{Filter: drawFilter(t, e, depth-1)}
		case 3:
			bound := rapid.SampledFrom(values["uidNumber"])
			return filter.And{&filter.GreaterOrEqual{Attribute: "uidNumber", Value: []byte(bound.Draw(t, "from"))},
				&filter.LessOrEqual{Attribute: "uidNumber", Value: []byte(bound.Draw(t, "to"))}}
		}
	}
	types := []string{"cn", "cn;lang-de", "cn;lang-", "sn", "uidNumber", "uidNumber", "displayName", "description", "dnQualifier", "jpegPhoto", "userPassword", "member", "objectClass", "name", "bogus"}
	d := rapid.SampledFrom(types).Draw(t, "type")
	pool := values[d]
	if pool == nil {
		pool = values["cn"]
	}
	v := []byte(rapid.SampledFrom(pool).Draw(t, "value"))
	switch rapid.IntRange(0, 8).Draw(t, "test") {
	case 0:
		return &filter.Present{Attribute: d}
	case 1:
		return &filter.GreaterOrEqual{Attribute: d, Value: v}
	case 2:
		return &filter.LessOrEqual{Attribute: d, Value: v}
	case 3:
		return &filter.Substrings{Attribute: d, Initial: v[:1], Any: [][]byte{v[len(v)/2:]}}
	case 4:
		return &filter.Substrings{Attribute: d, Any: [][]byte{v[:1]}, Final: v[len(v)-1:]}
	case 5:
		return &filter.Approx{Attribute: d, Value: v}
	case 6:
		return &filter.Equal{Attribute: "entryUUID", Value: []byte(e.ID.String())}
	case 7:
		x := &filter.Extensible{Attribute: d, Rule: rapid.SampledFrom(extensible).Draw(t, "rule"), Value: v}
		if strings.HasSuffix(x.Rule, "SubstringsMatch") {
			x.Value = slices.Insert(v, rapid.IntRange(0, len(v)).Draw(t, "at"), '*')
		}
		return x
	}
	return &filter.Equal{Attribute: d, Value: v}
}
