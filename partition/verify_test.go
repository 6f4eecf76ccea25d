package partition_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// faults returns the findings of Verify as text.
func faults(t testing.TB, p *partition.Partition) []string {
	t.Helper()
	var found []string
	_, err := verify.Verify(context.Background(), p, verify.Options{Found: func(f *verify.Finding) error { found = append(found, f.String()); return nil }})
	must(t, err)
	return found
}

func wantSound(t testing.TB, p *partition.Partition) {
	t.Helper()
	if found := faults(t, p); len(found) > 0 {
		t.Errorf("found:\n%s", strings.Join(found, "\n"))
	}
}

// idOf returns the id of an entry.
func idOf(t testing.TB, p *partition.Partition, dn string) entry.ID {
	t.Helper()
	s := state.Newest(p)
	defer s.Close()
	at, err := s.Find(context.Background(), name(dn))
	must(t, err)
	return at.ID
}

func TestVerifyEmpty(t *testing.T) {
	eachStore(t, func(t *testing.T, p *partition.Partition, _ table.Store) { wantSound(t, p) })
}

func TestVerifySound(t *testing.T) {
	eachStore(t, func(t *testing.T, p *partition.Partition, _ table.Store) {
		loadSample(t, p, 300)
		var members []string
		for i := range 250 {
			members = append(members, fmt.Sprintf("member: uid=u%d,ou=people,%s", i, domain))
		}
		must(t, add(t, p, "cn=many,"+domain, append(members, "objectClass: groupOfNames", "cn;lang-de: Viele", "cn;lang-fr: viele")...))
		must(t, update(t, p, func(tx *partition.Tx) error {
			ctx := context.Background()
			for i := range 20 {
				if err := tx.Delete(ctx, name(fmt.Sprintf("uid=u%d,ou=people,%s", i, domain))); err != nil {
					return err
				}
			}
			long := strings.Repeat("long ", 500)
			return tx.Modify(ctx, name("uid=u20,ou=people,"+domain), []op.Modification{
				{Kind: op.ModReplace, PartialAttribute: attrs("cn: " + long)[0]},
				{Kind: op.ModAdd, PartialAttribute: attrs("givenName: x", "givenName: y")[0]},
			})
		}))
		above := name(domain)
		must(t, update(t, p, func(tx *partition.Tx) error {
			return tx.Rename(context.Background(), name("uid=u30,ou=people,"+domain), name("uid=moved")[0], true, &above)
		}))
		wantSound(t, p)
	})
}

// A breakage is a way to damage a store, with the expected findings.
type breakage struct {
	name  string
	table string
	// row and cell select the cells to damage.
	row  func(t *testing.T, p *partition.Partition, key []byte) bool
	cell func(p *partition.Partition, c *table.Cell) bool
	with []byte // the new value of these cells; nil: a tombstone
	want []string
	node func(n *master.Node) // set in place of cell and with: changes the place of an entry
}

func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	const u1 = "uid=u1,ou=people," + domain
	other := entry.ID{9, 9, 9}
	ofEntry := func(dn string) func(*testing.T, *partition.Partition, []byte) bool {
		return func(t *testing.T, p *partition.Partition, key []byte) bool {
			id := idOf(t, p, dn)
			return strings.Contains(string(key), string(id[:]))
		}
	}
	contains := func(text string) func(*testing.T, *partition.Partition, []byte) bool {
		return func(_ *testing.T, _ *partition.Partition, key []byte) bool {
			return strings.Contains(string(key), text)
		}
	}
	valueOf := func(name string) func(*partition.Partition, *table.Cell) bool {
		return func(p *partition.Partition, c *table.Cell) bool {
			return strings.HasPrefix(string(c.Qualifier), p.Schema().Attribute(name).InValues()+"\x00")
		}
	}
	keyOf := func(name string) func(*partition.Partition, *table.Cell) bool {
		return func(p *partition.Partition, c *table.Cell) bool {
			return strings.HasPrefix(string(c.Qualifier), p.Schema().Attribute(name).InKeys()+"=")
		}
	}
	any := func(*partition.Partition, *table.Cell) bool { return true }
	inFamily := func(f table.Family) func(*partition.Partition, *table.Cell) bool {
		return func(_ *partition.Partition, c *table.Cell) bool { return c.Family == f }
	}
	for _, b := range []breakage{
		{"no node", "master", ofEntry(u1), inFamily('t'), nil,
			[]string{"entry: table master", "no place in the tree", "names an entry that does not exist"}, nil},
		{"parent missing", "master", ofEntry(u1), nil, nil,
			[]string{"parent: table master", "does not exist", u1[:6], "stands elsewhere"}, func(n *master.Node) { n.Parent = other }},
		{"value gone", "master", ofEntry(u1), valueOf("mail"), nil,
			[]string{"column: table tree", "is of no value", "index: table index_mail", "has no such value"}, nil},
		{"value against its syntax", "master", ofEntry(u1), valueOf("createTimestamp"), []byte("yesterday"),
			[]string{"value: table master", "createTimestamp"}, nil},
		{"name's normal form", "master", ofEntry(u1), nil, nil,
			[]string{"name: table master", "tree: table tree", "there is no row"}, func(n *master.Node) { n.NormRDN = "0.9.2342=x" }},
		{"order", "master", ofEntry(u1), nil, nil,
			[]string{"entry: table master", `the order of its attributes, "cn cn", is no list`}, func(n *master.Node) { n.Order = entry.ParseOrder("cn cn") }},
		{"tree row gone", "tree", contains(" u1 "), any, nil,
			[]string{"tree: table tree", "cannot be found by it"}, nil},
		{"tree row of another", "tree", contains(" u1 "), inFamily(tree.TreeInfo), other[:],
			[]string{"belongs to the entry " + other.String(), "does not exist"}, nil},
		{"column gone", "tree", contains(" u1 "), keyOf("sn"), nil,
			[]string{"column: table tree", "is missing"}, nil},
		{"column wrong", "tree", contains(" u1 "), keyOf("sn"), []byte("elsewhere"),
			[]string{"column: table tree", "does not lead to its value"}, nil},
		{"row index cell gone", "index_sn", ofEntry(u1), any, nil,
			[]string{"index: table index_sn", "searches miss it", u1}, nil},
		{"row index parent", "index_sn", ofEntry(u1), any, other[:],
			[]string{"index: table index_sn", "another parent", u1}, nil},
		{"column index cell gone", "index_uid", contains(" u1 "), any, nil,
			[]string{"index: table index_uid", "searches miss it", u1}, nil},
	} {
		t.Run(b.name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, p *partition.Partition, s table.Store) {
				loadSample(t, p, 5)
				b.apply(t, p, s)
				wantFindings(t, faults(t, p), b.want)
			})
		})
	}
}

// apply damages the selected cells. It writes at the newest revision.
func (b *breakage) apply(t *testing.T, p *partition.Partition, s table.Store) {
	ctx := context.Background()
	snapshot := state.Newest(p)
	defer snapshot.Close()
	tbl := s.Table(b.table)
	var ms []table.Mutation
	for row, err := range tbl.Scan(ctx, table.Range{}, table.Select{}) {
		must(t, err)
		if !b.row(t, p, row.Key) {
			continue
		}
		m := table.Mutation{Row: row.Clone().Key}
		if b.node != nil {
			n, _ := master.DecodeNode(row)
			b.node(&n)
			m.Cells = n.Cells(p.Schema())
			ms = append(ms, m)
			continue
		}
		for _, c := range row.Clone().Cells {
			if b.cell(p, &c) {
				c.Value, c.Tombstone = b.with, b.with == nil
				m.Cells = append(m.Cells, c)
			}
		}
		ms = append(ms, m)
	}
	if len(ms) == 0 {
		t.Fatal("nothing to damage")
	}
	must(t, tbl.Apply(ctx, snapshot.Revision(), ms))
}

func wantFindings(t *testing.T, found, want []string) {
	t.Helper()
	all := strings.Join(found, "\n")
	for _, w := range want {
		if !strings.Contains(all, w) {
			t.Errorf("%q is not among the findings:\n%s", w, all)
		}
	}
}

// misplace changes the place of an entry directly in the table master.
func misplace(t *testing.T, p *partition.Partition, s table.Store, id entry.ID, change func(*master.Node)) {
	t.Helper()
	b := breakage{table: master.Name, node: change, row: func(_ *testing.T, _ *partition.Partition, key []byte) bool { return string(key) == string(id[:]) }}
	b.apply(t, p, s)
}

// put applies a mutation directly to a table. The revision of the mutation is the newest
// revision plus offset.
func put(t *testing.T, p *partition.Partition, s table.Store, tbl string, offset table.Revision, m table.Mutation) {
	t.Helper()
	snapshot := state.Newest(p)
	defer snapshot.Close()
	must(t, s.Table(tbl).Apply(context.Background(), snapshot.Revision()+offset, []table.Mutation{m}))
}

func TestVerifyFindsMore(t *testing.T) {
	t.Parallel()
	id := entry.ID{7, 7, 7}
	cell := func(f table.Family, q, v string) table.Cell {
		return table.Cell{Family: f, Qualifier: []byte(q), Value: []byte(v)}
	}
	for _, c := range []struct {
		name, table string
		later       table.Revision
		m           table.Mutation
		want        []string
	}{
		{"stray tree row", "tree", 0, table.Mutation{Row: append(make([]byte, 16), "2.5.4.3=stray"...), Cells: []table.Cell{cell('t', "i", string(id[:]))}},
			[]string{"tree: table tree", "does not exist"}},
		{"tree row without id", "tree", 0, table.Mutation{Row: append(make([]byte, 16), "2.5.4.3=stray"...), Cells: []table.Cell{cell('n', "2.5.4.3=stray", "x")}},
			[]string{"tree: table tree", "has no id"}},
		{"stray index row", "index_sn", 0, table.Mutation{Row: append([]byte("= stray \x00\x01"), id[:]...), Cells: []table.Cell{cell('i', "p", string(id[:]))}},
			[]string{"index: table index_sn", "has no such value", id.String()}},
		{"stray index column", "index_uid", 0, table.Mutation{Row: []byte("= stray \x00\x01"), Cells: []table.Cell{cell('i', string(id[:]), string(id[:]))}},
			[]string{"index: table index_uid", "has no such value", id.String()}},
		{"stray presence", "index_uid", 0, table.Mutation{Row: append([]byte("*"), id[:]...), Cells: []table.Cell{cell('i', "p", string(id[:]))}},
			[]string{"index: table index_uid", "has no such value", id.String()}},
		{"index row of nobody", "index_uid", 0, table.Mutation{Row: []byte("*x"), Cells: []table.Cell{cell('i', "p", "x")}},
			[]string{"index: table index_uid", "of no entry"}},
		{"void cell", "index_uid", 1, table.Mutation{Row: []byte("= stray \x00\x01"), Cells: []table.Cell{cell('i', string(id[:]), string(id[:]))}},
			[]string{"void: table index_uid", "which is no commit"}},
		{"void entry", "master", 1, table.Mutation{Row: id[:], Cells: []table.Cell{cell('a', "cn\x00", "x")}},
			[]string{"void: table master", "which is no commit"}},
		{"row that is no id", "master", 0, table.Mutation{Row: []byte("x"), Cells: []table.Cell{cell('a', "cn\x00", "x")}},
			[]string{"entry: table master", "no entryUUID"}},
		{"unknown attribute", "master", 0, table.Mutation{Row: id[:], Cells: []table.Cell{cell('a', "colour\x00", "red"), cell('t', "p", string(make([]byte, 16))), cell('t', "u", "cn=x")}},
			[]string{"value: table master", `"colour"`, "no naming context", "the name's value of cn"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, p *partition.Partition, s table.Store) {
				loadSample(t, p, 5)
				put(t, p, s, c.table, c.later, c.m)
				wantFindings(t, faults(t, p), c.want)
			})
		})
	}
}

func TestVerifyFindsCircle(t *testing.T) {
	eachStore(t, func(t *testing.T, p *partition.Partition, s table.Store) {
		loadSample(t, p, 2)
		people, u1 := idOf(t, p, "ou=people,"+domain), idOf(t, p, "uid=u1,ou=people,"+domain)
		misplace(t, p, s, people, func(n *master.Node) { n.Parent = u1 })
		wantFindings(t, faults(t, p), []string{"circle: table master", "below itself", u1.String(), people.String()})
	})
}

func TestVerifyFindsMissingTable(t *testing.T) {
	p, s := sampleStore(t)
	must(t, s.Drop(context.Background(), "index_mail"))
	wantFindings(t, faults(t, p), []string{"missing: table index_mail", "run reindex mail"})
}

func sampleStore(t *testing.T) (*partition.Partition, table.Store) {
	s := stores["batches"](t)
	p, err := partition.Open(context.Background(), s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged})
	must(t, err)
	t.Cleanup(func() { p.Close(context.Background()) })
	loadSample(t, p, 5)
	return p, s
}
