package master_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// row returns a row with sorted cells.
func row(cells ...table.Cell) table.Row {
	slices.SortFunc(cells, table.Cell.Compare)
	return table.Row{Key: []byte("key"), Cells: cells}
}

func print(as []entry.Attribute) string {
	var lines []string
	for _, a := range as {
		lines = append(lines, fmt.Sprintf("%s: %s", a.Description(), bytes.Join(a.Values, []byte(", "))))
	}
	return strings.Join(lines, "\n")
}

// TestDecode decodes rows of stores with codes, and of stores without them.
func TestDecode(t *testing.T) {
	for _, codes := range []int{0, 2, schema.Codes()} {
		decode(t, schema.Core().WithCodes(codes))
	}
}

func decode(t *testing.T, s *schema.Schema) {
	t.Helper()
	cn, sn, class, password, number := s.Attribute("cn"), s.Attribute("sn"), s.Attribute("objectClass"), s.Attribute("userPassword"), s.Attribute("uidNumber")
	at := master.NewPosition
	r := row(
		master.Value(sn, "", at(5, 1), []byte("Lee")),
		master.Value(cn, "", at(5, 2), []byte("second")), master.Value(cn, "", at(4, 9), []byte("first")),
		master.Value(cn, "", at(5, 300), []byte("third")), master.Value(cn, ";lang-de", at(1, 1), nil),
		master.Value(class, "", at(6, 1), []byte("person")), master.Value(number, "", nil, []byte("7")),
		master.Value(password, "", at(1, 1), []byte("secret")),
		table.Cell{Family: master.NormAttributes, Qualifier: []byte("2.5.4.3=x"), Value: at(4, 9)},
		table.Cell{Family: master.TreeInfo, Qualifier: []byte("u"), Value: []byte("cn=x")},
	)
	as, err := master.Decode(r, s)
	if err != nil {
		t.Fatal(err)
	}
	entry.Order{}.Arrange(as)
	const want = "objectClass: person\ncn: first, second, third\ncn;lang-de: \nsn: Lee\nuidNumber: 7\nuserPassword: secret"
	if got := print(as); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for i := range r.Cells { // the attributes must not refer to the row's memory
		clear(r.Cells[i].Value)
		clear(r.Cells[i].Qualifier)
	}
	if got := print(as); got != want {
		t.Errorf("after the row was used again:\n%s", got)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for q, want := range map[string]string{
		"cn": "corrupt", "": "corrupt", "bogus\x00": "bogus is not in the schema", "bogus;x\x00p": "bogus;x is not in the schema",
		"\xff\xff\x00p": "\xff\xff is not in the schema", "\x81": "corrupt",
	} {
		_, err := master.Decode(row(table.Cell{Family: master.UpAttributes, Qualifier: []byte(q)}), schema.Core())
		if err == nil || !strings.Contains(err.Error(), want) && !(want == "corrupt" && errors.Is(err, table.ErrCorrupt)) {
			t.Errorf("column %q: %v, want %s", q, err, want)
		}
	}
	if as, err := master.Decode(table.Row{}, schema.Core()); err != nil || len(as) != 0 {
		t.Errorf("no row: %v, %v", as, err)
	}
}

// TestSingleValuesShareAColumn checks that all values of a SINGLE-VALUE type have the
// same column, so that a new value replaces the old value.
func TestSingleValuesShareAColumn(t *testing.T) {
	number := schema.Core().Attribute("uidNumber")
	a, b := master.Value(number, "", nil, []byte("1")), master.Gone(number, "", nil)
	if a.Compare(b) != 0 {
		t.Errorf("%q and %q", a.Qualifier, b.Qualifier)
	}
}

// TestColumns checks that the range of one description does not include the columns of a
// description with more options.
func TestColumns(t *testing.T) {
	cn := schema.Core().Attribute("cn")
	q := func(options string) table.Row {
		return row(master.Value(cn, options, master.NewPosition(1, 0), []byte("x")))
	}
	for _, c := range []struct {
		asked, held string
		want        int
	}{{"", "", 1}, {"", ";x", 0}, {";x", "", 0}, {";x", ";x", 1}, {";x", ";x-a", 0}, {";x", ";x;y", 0}} {
		if n := len(q(c.held).Range(master.Columns(cn, c.asked))); n != c.want {
			t.Errorf("columns of %q: %d of %q, want %d", c.asked, n, c.held, c.want)
		}
	}
	p := master.NewPosition(256, 0) // the position contains zero bytes
	if got := master.PositionOf(master.Qualifier(cn, ";x", p)); !bytes.Equal(got, p) {
		t.Errorf("position %x, want %x", got, p)
	}
}

// TestNode checks the cells of nodes in stores with codes, and in stores without them.
func TestNode(t *testing.T) {
	for order, cells := range map[string]int{"": 3, "sn cn": 4} {
		n := master.Node{Parent: entry.NewID(), UpRDN: "CN=A", NormRDN: dn.Norm("2.5.4.3=a"), Order: entry.ParseOrder(order)}
		for _, c := range []struct{ codes, cells int }{{0, cells}, {schema.Codes(), 1}} {
			of := n.Cells(schema.Core().WithCodes(c.codes))
			got, ok := master.DecodeNode(row(slices.Clone(of)...))
			if !ok || got != n || len(of) != c.cells {
				t.Errorf("%d codes: %+v, %v, %d cells", c.codes, got, ok, len(of))
			}
		}
		whole := n.Cells(schema.Core())[0]
		value := whole.Value
		for i := range len(value) - len(order) {
			whole.Value = value[:i]
			if got, ok := master.DecodeNode(row(whole)); ok {
				t.Errorf("%d of %d octets are a node: %+v", i, len(value), got)
			}
		}
	}
	if _, ok := master.DecodeNode(table.Row{}); ok {
		t.Error("a missing row has a node")
	}
	if _, ok := master.DecodeNode(row(table.Cell{Family: master.TreeInfo, Qualifier: []byte("p"), Value: []byte("short")})); ok {
		t.Error("half an id is one")
	}
}

// TestFirst checks that positions of the values of a new entry are in order, before all others.
func TestFirst(t *testing.T) {
	since2017 := table.Revision(time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC).Sub(table.Epoch).Milliseconds()) << (table.SlotBits + table.CounterBits)
	last := master.First(0)
	for n := 1; n < 1<<32; n = max(n+1, n+n/100) {
		p := master.First(n)
		if bytes.Compare(last, p) >= 0 || bytes.Compare(p, master.NewPosition(since2017, 0)) >= 0 {
			t.Fatalf("First(%d) is %x, after %x", n, p, last)
		}
		last = p
	}
}
