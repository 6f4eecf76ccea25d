package bulk_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
	"github.com/seed-4dac0d86/ldapd/tree"
)

var octetsOf = flag.String("octets-of", "", "the LDIF file with the naming context dc=example,dc=com that TestOctets counts; none: people and groups of the test")

// octets are what cells take.
type octets struct{ cells, octets int }

func (o *octets) add(row []byte, c *table.Cell) {
	o.cells++
	o.octets += keyValue(row, c)
}

// keyValue returns the length of a cell as HBase's KeyValue without tags: the lengths of key and value, then the
// length of the row, the row, the length of the family, the family, the qualifier, the stamp, the type, and the value.
func keyValue(row []byte, c *table.Cell) int {
	return 4 + 4 + 2 + len(row) + 1 + 1 + len(c.Qualifier) + 8 + 1 + len(c.Value)
}

// octetsWanted is what an entry of the test takes. A change of rows changes it.
const octetsWanted = 3747

// TestOctets counts the octets of KeyValues that an imported entry takes in HBase, in the tables of entries, of names
// and of indexes. `go test ./tools/bulk -run TestOctets -v` prints them by table, family and attribute type.
func TestOctets(t *testing.T) {
	ldif := *octetsOf
	if ldif == "" {
		ldif = file(t, "people.ldif", company(200)+groups(10, 200))
	}
	s := tabletest.NewBatchMem()
	p := open(t, s)
	n := mustImport(t, p, bulk.Options{Files: []string{ldif}, Suffixes: []string{"dc=example,dc=com"}}).Done
	names, err := s.Names(t.Context())
	must(t, err)
	all, lines := octets{}, map[string]*octets{}
	for _, name := range names {
		if name != master.Name && name != tree.Name && !strings.HasPrefix(name, "index_") {
			continue
		}
		for row, err := range s.Table(name).Scan(t.Context(), table.Range{}, table.Select{}) {
			must(t, err)
			for i := range row.Cells {
				c := &row.Cells[i]
				all.add(row.Key, c)
				what := fmt.Sprintf("%s %c", name, c.Family)
				for _, line := range []string{name, what, what + " " + columnOf(p.Schema(), name, row.Key, c)} {
					if lines[line] == nil {
						lines[line] = &octets{}
					}
					lines[line].add(row.Key, c)
				}
			}
		}
	}
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		t.Logf("%-40s %6.2f cells %7.1f octets an entry", line, float64(lines[line].cells)/float64(n), float64(lines[line].octets)/float64(n))
	}
	t.Logf("%-40s %6.2f cells %7.1f octets an entry", "all", float64(all.cells)/float64(n), float64(all.octets)/float64(n))
	if each := all.octets / int(n); *octetsOf == "" && each != octetsWanted {
		t.Errorf("%d octets an entry, want %d: if rows were changed on purpose, note the new number here", each, octetsWanted)
	}
}

// columnOf names what a cell is about.
func columnOf(s *schema.Schema, name string, row []byte, c *table.Cell) string {
	switch {
	case name == master.Name && (c.Family == master.UpAttributes || c.Family == master.Secrets):
		if a, _, _ := master.Describe(c.Qualifier, s); a != nil {
			return a.Name()
		}
	case name == tree.Name && c.Family == tree.NormAttributes:
		if a := s.StoredAs(string(tree.Decode(c).Type)); a != nil {
			return a.Name()
		}
	case c.Family == index.Info:
		return string(row[:1])
	}
	return string(c.Qualifier)
}

// groups returns n groups of 20 of the people of company.
func groups(n, people int) string {
	var b strings.Builder
	b.WriteString("dn: ou=groups,dc=example,dc=com\nobjectClass: organizationalUnit\nou: groups\n\n")
	for g := range n {
		fmt.Fprintf(&b, "dn: cn=group-%06[1]d,ou=groups,dc=example,dc=com\nobjectClass: top\nobjectClass: groupOfNames\ncn: group-%06[1]d\ndescription: Group %[1]d\n", g)
		for i := range 20 {
			fmt.Fprintf(&b, "member: uid=u%07d,ou=people,dc=example,dc=com\n", (g*37+i*11)%people)
		}
		b.WriteString("\n")
	}
	return b.String()
}
