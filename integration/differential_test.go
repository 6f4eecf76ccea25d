package integration

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// directories is the number of random directories that TestDifferential searches on each
// engine. A search takes much longer on HBase than on the embedded engine.
var directories = map[string]*int{
	"lsm":   flag.Int("directories", 10, "random directories that TestDifferential searches on the embedded engine"),
	"hbase": flag.Int("hbasedirectories", 1, "random directories that TestDifferential searches on HBase"),
}

// serverFilters is the number of filters with which TestDifferentialServers searches each state.
var serverFilters = map[string]*int{
	"memory": flag.Int("serverfilters", 60, "random filters of each state of TestDifferentialServers in memory"),
	"hbase":  flag.Int("hbaseserverfilters", 6, "random filters of each state of TestDifferentialServers on HBase"),
}

// TestDifferential searches random directories with random filters, on both engines. A
// search, the same search in pages, and a test of every entry must find the same
// entries. LDAPD_DIFFERENTIAL_SEED=N runs the test only with the directory of seed N.
func TestDifferential(t *testing.T) {
	t.Parallel()
	filters := map[string]int{"lsm": 500, "hbase": 60}
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			first, directories := uint64(1), *directories[e.name]
			if s := os.Getenv("LDAPD_DIFFERENTIAL_SEED"); s != "" {
				first, _ = strconv.ParseUint(s, 10, 64)
				directories = 1
			}
			store := e.open(t)
			p := openPartition(t, store, randomIndexes...)
			for seed := first; seed < first+uint64(directories); seed++ {
				d := newDirectory(t, p, seed)
				d.populate()
				s := state.Newest(p)
				for range filters[e.name] {
					d.compare(s)
				}
				d.compareKinds(s)
				s.Close()
				if d.hits < filters[e.name]/10 {
					t.Errorf("seed %d: only %d of %d searches found anything", seed, d.hits, filters[e.name])
				}
				d.clear()
			}
		})
	}
}

// TestDifferentialServers searches a directory on a store that three servers have open. Each change
// is of another server, one branch is open and one is parked. The searches read the newest state of
// each server, the states of the branches, and the past.
func TestDifferentialServers(t *testing.T) {
	t.Parallel()
	for name, engine := range map[string]func(t *testing.T) func() table.Store{
		"memory": func(*testing.T) func() table.Store {
			m := tabletest.NewMem()
			return func() table.Store { return m }
		},
		"hbase": func(t *testing.T) func() table.Store {
			quorum, prefix := hbasetest.Start(t), hbasetest.Prefix(t)
			return func() table.Store { return openPrefix(t, quorum, prefix) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			testServers(t, engine(t), *serverFilters[name], map[string]int{"memory": 2, "hbase": 6}[name])
		})
	}
}

func testServers(t *testing.T, open func() table.Store, filters, kinds int) {
	ctx, by := t.Context(), partition.By{Name: "cn=admin"}
	first := openPartition(t, open(), catalog.Index{Attribute: "objectClass", Layout: catalog.RowLayout})
	servers := []*partition.Partition{first}
	for range 2 {
		p, err := partition.Open(ctx, open(), partition.Options{Cache: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close(context.Background()) })
		servers = append(servers, p)
	}
	d := newDirectory(t, first, rand.Uint64())
	if s := os.Getenv("LDAPD_DIFFERENTIAL_SEED"); s != "" {
		seed, _ := strconv.ParseUint(s, 10, 64)
		d = newDirectory(t, first, seed)
	}
	trunk := func(f func(tx *partition.Tx) error) error {
		p := pick(d.r, servers)
		d.must(p.DB.CatchUp(ctx))
		_, err := write.Update(ctx, p, by, f)
		return err
	}
	d.in = trunk
	d.populate()
	past, names := first.DB.Snapshot().Max(), d.names
	var branches []*branch.Branch
	for _, name := range []string{"parked", "open"} {
		d.must(first.DB.CatchUp(ctx))
		b, err := branch.Create(ctx, first, branch.Options{Name: name})
		d.must(err)
		branches = append(branches, b)
		d.in = func(f func(tx *partition.Tx) error) error {
			_, err := b.Update(ctx, by, f)
			return err
		}
		d.names = slices.Clone(names)
		d.change()
		d.in, d.names = trunk, names
		d.change()
		names = d.names
	}
	d.must(branches[0].Park(ctx))
	hits, states, begin := 0, 0, d.r.IntN(kinds)
	search := func(what string, p *partition.Partition, s *partition.Snapshot, err error) {
		d.must(err)
		defer s.Close()
		d.p, d.hits = p, 0
		d.names = d.all(s)
		n := 0
		for ; n < filters || d.hits == 0 && n < 20*filters; n++ {
			d.compare(s)
		}
		t.Logf("%s: %d entries, %d of %d searches found something", what, len(d.names), d.hits, n)
		if (states+begin)%kinds == 0 { // not in all states, because the kinds take most of the time
			d.compareKinds(s)
		}
		hits, states = hits+d.hits, states+1
	}
	for _, p := range servers {
		d.must(p.DB.CatchUp(ctx))
		search("the newest state", p, state.Newest(p), nil)
	}
	for _, b := range branches {
		s, err := b.Snapshot(ctx)
		search("the branch "+b.Name(), first, s, err)
	}
	s, err := state.At(ctx, servers[2], past)
	search("the past", servers[2], s, err)
	if hits < states*max(1, filters/10) {
		t.Errorf("only %d searches of %d states found anything", hits, states)
	}
}

// all returns the names of all entries, parents before children.
func (d *directory) all(s *partition.Snapshot) (names []dn.DN) {
	for r, err := range search.Walk(context.Background(), s, partition.Query{Base: catalog.Root, Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}) {
		d.must(err)
		name, err := r.Name.DN()
		d.must(err)
		names = append(names, name)
	}
	return names
}

// randomIndexes are indexes of both layouts, on attributes with different equality rules.
// Filters on most other attributes need scans.
var randomIndexes = []catalog.Index{
	{Attribute: "objectClass", Layout: catalog.RowLayout},
	{Attribute: "cn", Layout: catalog.ColumnLayout},
	{Attribute: "sn", Layout: catalog.RowLayout},
	{Attribute: "uidNumber", Layout: catalog.RowLayout},
	{Attribute: "gidNumber", Layout: catalog.ColumnLayout},
	{Attribute: "member", Layout: catalog.ColumnLayout},
	{Attribute: "telephoneNumber", Layout: catalog.ColumnLayout},
	{Attribute: "title", Layout: catalog.RowLayout},
	{Attribute: "postalAddress", Layout: catalog.ColumnLayout},
}

// directory is a partition with random entries. names lists the entries that bruteForce
// tests.
type directory struct {
	t     *testing.T
	p     *partition.Partition
	r     *rand.Rand
	seed  uint64
	names []dn.DN // parents before children
	hits  int     // number of searches that found an entry
	// entries are those of the snapshot of, which bruteForce has read, by their names.
	of      *partition.Snapshot
	entries map[string]*filter.EntrySource
	// in, if set, runs an update instead of write.Update.
	in func(f func(tx *partition.Tx) error) error
}

func newDirectory(t *testing.T, p *partition.Partition, seed uint64) *directory {
	return &directory{t: t, p: p, r: rand.New(rand.NewPCG(seed, 1)), seed: seed}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

var words = []string{"Ada", "ada", "  Ada  Byron ", "Byron", "Ångström", "ångström", "Straße", "STRASSE", "a*b", "x(y)", `back\slash`,
												"Ada Byron", "O'Neil", "zoe", "Zoë", "12", "012", "\u00adsoft", "eins zwei drei", "EINS  ZWEI", strings.Repeat("long ", 140) + "tail", strings.Repeat("long ", 140) + "other"}
var photo = "\xff\xd8\xff\xe0" + strings.Repeat(" not much of a picture ", 2000) + "\xff\xd9" // a large value
var numbers = []string{"0", "1", "2", "-1", "10", "9", "100", "340282366920938463463374607431768211456", "-99999999999999999999"}
var times = []string{"20260101000000Z", "20260101010000+0100", "20251231235959.5Z", "2026010100Z", "19700101000000Z"}

// value returns a random value of an attribute.
func (d *directory) value(attribute string) string {
	switch attribute {
	case "uidNumber", "gidNumber":
		return pick(d.r, numbers)
	case "member", "seeAlso":
		return pick(d.r, d.names).String()
	case "telephoneNumber":
		return pick(d.r, []string{"+1 555 0100", "+1-555-0100", "+49 30 1234", "15550100"})
	case "mail":
		return pick(d.r, []string{"ada@example.com", "ADA@example.com", "zoe@example.org"})
	case "dateOfTest":
		return pick(d.r, times)
	case "postalAddress":
		return pick(d.r, []string{"1 Main St$Town", "1 main st $town", "2 Side St$Town$Land"})
	case "x121Address":
		return pick(d.r, []string{"12 34", "1234", "99"})
	case "x500UniqueIdentifier":
		return pick(d.r, []string{"'0101'B", "'01010'B", "'1'B"})
	case "jpegPhoto":
		return photo
	case "labeledURI":
		return pick(d.r, []string{"http://example.com/A a", "http://example.com/a a"})
	}
	return pick(d.r, words)
}

var attributes = []string{"cn", "cn;lang-de", "cn;lang-de;x-y", "sn", "givenName", "title", "description", "mail", "telephoneNumber",
	"uidNumber", "gidNumber", "displayName", "dnQualifier", "member", "seeAlso", "postalAddress", "x121Address", "x500UniqueIdentifier", "jpegPhoto", "labeledURI", "title;lang-fr"}

func (d *directory) update(f func(tx *partition.Tx) error) error {
	if d.in != nil {
		return d.in(f)
	}
	_, err := write.Update(context.Background(), d.p, partition.By{Name: "cn=admin"}, f)
	return err
}

// populate adds entries. Then it changes, renames and deletes some of them, so that the
// indexes see every kind of change. It ignores changes that are refused.
func (d *directory) populate() {
	root, _ := dn.Parse(suffix)
	d.names = []dn.DN{root}
	d.must(d.add(root, "objectClass=organization", "objectClass=dcObject", "o=Example"))
	for i := range 40 {
		parent := pick(d.r, d.names)
		name := append(dn.DN{{{Type: "cn", Value: []byte(fmt.Sprintf("e%d", i))}}}, parent...)
		lines := []string{"objectClass=person", "objectClass=extensibleObject", "sn=" + d.value("sn")}
		for range d.r.IntN(12) {
			a := pick(d.r, attributes)
			lines = append(lines, a+"="+d.value(a))
		}
		if i%20 == 7 {
			many := 130 // so many values that they are stored separately
			if i > 20 {
				many = 600 // and so many that the entry is wide (state.MaxColumns)
			}
			for k := range many {
				lines = append(lines, fmt.Sprintf("member=cn=m%d,%s", k, suffix))
			}
		}
		if d.add(name, lines...) == nil {
			d.names = append(d.names, name)
		}
	}
	d.change()
}

// change changes, renames and deletes some entries.
func (d *directory) change() {
	ctx := context.Background()
	for range 30 {
		name := pick(d.r, d.names[1:])
		a := pick(d.r, attributes)
		kind := pick(d.r, []op.ModKind{op.ModAdd, op.ModDelete, op.ModReplace})
		values := [][]byte{[]byte(d.value(a))}
		if d.r.IntN(4) == 0 {
			values = nil
		}
		_ = d.update(func(tx *partition.Tx) error {
			return tx.Modify(ctx, name, []op.Modification{{Kind: kind, PartialAttribute: op.PartialAttribute{Description: a, Values: values}}})
		})
	}
	for i := range 5 {
		d.rename(d.r.IntN(len(d.names)-1)+1, fmt.Sprintf("r%d", i))
	}
	for range 5 {
		i := d.r.IntN(len(d.names)-1) + 1
		if d.update(func(tx *partition.Tx) error { return tx.Delete(ctx, d.names[i]) }) == nil {
			d.names = slices.Delete(d.names, i, i+1)
		}
	}
}

// add adds an entry from lines "attribute=value". It leaves out duplicate values, and keeps
// only the first value of SINGLE-VALUE attributes and of attributes without an equality rule.
func (d *directory) add(name dn.DN, lines ...string) error {
	var as []op.PartialAttribute
	for _, l := range lines {
		a, v, _ := strings.Cut(l, "=")
		i := slices.IndexFunc(as, func(x op.PartialAttribute) bool { return x.Description == a })
		if i < 0 {
			as = append(as, op.PartialAttribute{Description: a})
			i = len(as) - 1
		}
		if d.p.Schema().Attribute(strings.Split(a, ";")[0]).SingleValue && len(as[i].Values) > 0 || d.holds(a, as[i].Values, []byte(v)) {
			continue
		}
		as[i].Values = append(as[i].Values, []byte(v))
	}
	return d.update(func(tx *partition.Tx) error {
		_, err := tx.Add(context.Background(), name, as, false)
		return err
	})
}

func (d *directory) holds(a string, values [][]byte, v []byte) bool {
	base, _, _ := strings.Cut(a, ";")
	rule := d.p.Schema().Attribute(base).Equality
	if rule == nil {
		return len(values) > 0
	}
	key, err := rule.Key(v)
	return err == nil && slices.ContainsFunc(values, func(o []byte) bool {
		k, err := rule.Key(o)
		return err == nil && bytes.Equal(k, key)
	})
}

// rename renames an entry and moves it, with all entries below it, to a random parent. It
// ignores a refusal.
func (d *directory) rename(i int, rdn string) {
	old := d.names[i]
	parent := pick(d.r, d.names)
	to := dn.RDN{{Type: "cn", Value: []byte(rdn)}}
	err := d.update(func(tx *partition.Tx) error {
		return tx.Rename(context.Background(), old, to, d.r.IntN(2) == 0, &parent)
	})
	if err != nil {
		return
	}
	for k, n := range d.names {
		if above := len(n) - len(old); above >= 0 && slices.EqualFunc(n[above:], old, func(a, b dn.RDN) bool { return a.String() == b.String() }) {
			d.names[k] = append(append(append(dn.DN{}, n[:above]...), to), parent...)
		}
	}
}

func (d *directory) clear() {
	slices.SortFunc(d.names, func(a, b dn.DN) int { return len(b) - len(a) })
	for _, n := range d.names {
		d.must(d.update(func(tx *partition.Tx) error { return tx.Delete(context.Background(), n) }))
	}
}

func (d *directory) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatalf("seed %d: %v", d.seed, err)
	}
}

var rules = []string{"caseIgnoreMatch", "caseExactMatch", "integerMatch", "integerOrderingMatch", "distinguishedNameMatch",
	"caseIgnoreOrderingMatch", "caseIgnoreSubstringsMatch", "telephoneNumberMatch", "numericStringMatch", "octetStringMatch",
	"1.2.840.113556.1.4.803", "1.2.840.113556.1.4.804", "objectIdentifierMatch", "wordMatch", "bogusMatch"}

// filter returns a random filter.
func (d *directory) filter(depth int) filter.Filter {
	if depth > 0 {
		switch d.r.IntN(5) {
		case 0:
			return filter.And(d.filters(depth - 1))
		case 1:
			return filter.Or(d.filters(depth - 1))
		case 2:
			return &filter.Not{Filter: d.filter(depth - 1)}
		}
	}
	a := pick(d.r, append([]string{"name", "objectClass", "bogus", "entryUUID", "cn;lang-de", "2.5.4.3", "createTimestamp", "userPassword"}, attributes...))
	v := []byte(d.value(a))
	switch a {
	case "objectClass":
		v = []byte(pick(d.r, []string{"person", "2.5.6.6", "ORGANIZATION", "extensibleObject", "nothing"}))
	case "entryUUID":
		v = []byte(entry.NewID().String())
	case "createTimestamp":
		v = []byte(pick(d.r, times))
	case "member", "seeAlso":
		if d.r.IntN(3) == 0 {
			v = []byte("CN=M" + strconv.Itoa(d.r.IntN(140)) + ", dc=Example,dc=com")
		}
	}
	switch d.r.IntN(9) {
	case 0, 1, 2:
		return &filter.Equal{Attribute: a, Value: v}
	case 3:
		return &filter.GreaterOrEqual{Attribute: a, Value: v}
	case 4:
		return &filter.LessOrEqual{Attribute: a, Value: v}
	case 5:
		return &filter.Present{Attribute: a}
	case 6:
		return &filter.Approx{Attribute: a, Value: v}
	case 7:
		return d.substrings(a, v)
	}
	x := &filter.Extensible{Attribute: a, Value: v, Rule: pick(d.r, rules), DNAttrs: d.r.IntN(4) == 0}
	if strings.HasSuffix(x.Rule, "SubstringsMatch") {
		x.Value = slices.Insert(v, d.r.IntN(len(v)), '*')
	}
	switch d.r.IntN(3) {
	case 0:
		x.Attribute = ""
	case 1:
		x.Rule = ""
	}
	if x.Rule == "" && x.Attribute == "" {
		x.Rule = "caseIgnoreMatch"
	}
	return x
}

func (d *directory) filters(depth int) []filter.Filter {
	fs := make([]filter.Filter, d.r.IntN(4))
	for i := range fs {
		fs[i] = d.filter(depth)
	}
	return fs
}

func (d *directory) substrings(a string, v []byte) filter.Filter {
	s := &filter.Substrings{Attribute: a}
	cut := func() []byte {
		i := d.r.IntN(len(v))
		return v[i : i+d.r.IntN(min(4, len(v)-i))+1]
	}
	if d.r.IntN(2) == 0 {
		s.Initial = v[:d.r.IntN(len(v))+1]
	}
	for range d.r.IntN(3) {
		s.Any = append(s.Any, cut())
	}
	if d.r.IntN(3) == 0 || s.Initial == nil && s.Any == nil {
		s.Final = v[d.r.IntN(len(v)):]
	}
	return s
}

// compare compares one random search of a state with brute force and with the same search in
// pages.
func (d *directory) compare(s *partition.Snapshot) {
	d.t.Helper()
	f := d.filter(3)
	q, want := d.check(s, f, pick(d.r, d.names), op.Scope(d.r.IntN(4)))
	if len(want) > 0 {
		d.hits++
	}
	if len(want) > 1 {
		d.paged(s, q, want)
	}
}

// check compares one search of a state with brute force.
func (d *directory) check(s *partition.Snapshot, f filter.Filter, base dn.DN, scope op.Scope) (q partition.Query, want []string) {
	d.t.Helper()
	ctx := context.Background()
	resolved := filter.Resolve(f, d.p.Schema())
	want = d.bruteForce(s, base, scope, resolved)
	at, err := s.Find(ctx, base)
	d.must(err)
	q = partition.Query{Base: at.ID, Scope: scope, Filter: resolved, Lend: d.r.IntN(2) == 0}
	for range d.r.IntN(3) {
		a, _, _ := strings.Cut(pick(d.r, attributes), ";")
		q.Only = append(q.Only, d.p.Schema().Attribute(a))
	}
	got := d.search(s, q)
	if !slices.Equal(got, want) {
		plan, _ := search.Explain(ctx, s, q, false)
		d.t.Fatalf("seed %d: base %s, scope %d, filter %s\nfound   %q\nbrute   %q\nplan: %s", d.seed, base, scope, f, got, want, plan)
	}
	return q, want
}

// stored has an attribute for each way in which the tree stores values (package tree): in qualifiers,
// whole or cut, in the value of a cell, without an equality rule, in another table, not at all.
var stored = []string{"description", "dnQualifier", "cn", "cn;lang-de", "mail", "displayName", "uidNumber", "createTimestamp", "member", "jpegPhoto",
	"entryUUID", "userPassword", "hasSubordinates", "name"}

// compareKinds compares searches of the whole directory with brute force: each kind of filter with each
// way of storing values. It is the table of docs/design/transactions.md.
func (d *directory) compareKinds(s *partition.Snapshot) {
	d.t.Helper()
	found := map[string]int{}
	d.compareStored(s, found)
	for range 20 { // a small directory may have little that random filters find
		if !slices.Contains(slices.Collect(maps.Values(found)), 0) {
			break
		}
		d.compareStored(s, found)
	}
	for kind, n := range found {
		if n == 0 {
			d.t.Errorf("seed %d: no search of kind %s found anything", d.seed, kind)
		}
	}
}

// compareStored compares each kind of filter. The map found counts what each kind has found; if it is not empty, only kinds that
// have found nothing are compared.
func (d *directory) compareStored(s *partition.Snapshot, found map[string]int) {
	again := len(found) > 0
	for _, a := range stored {
		base, _, _ := strings.Cut(a, ";")
		t := d.p.Schema().Attribute(base)
		value := func() []byte { return []byte(d.value(base)) }
		switch base {
		case "entryUUID":
			value = func() []byte { return []byte(d.entry(s, pick(d.r, d.names)).Entry.ID.String()) }
		case "createTimestamp":
			value = func() []byte { return []byte(pick(d.r, []string{"20250101000000Z", "20990101000000Z"})) }
		case "hasSubordinates":
			value = func() []byte { return []byte("TRUE") }
		}
		equal := func() filter.Filter { return &filter.Equal{Attribute: a, Value: value()} }
		kinds := map[string]func() filter.Filter{
			"=":   equal,
			"=*":  func() filter.Filter { return &filter.Present{Attribute: a} },
			"=*x": func() filter.Filter { return d.substrings(a, value()) },
			">=":  func() filter.Filter { return &filter.GreaterOrEqual{Attribute: a, Value: value()} },
			"<=":  func() filter.Filter { return &filter.LessOrEqual{Attribute: a, Value: value()} },
			"~=":  func() filter.Filter { return &filter.Approx{Attribute: a, Value: value()} },
			"!":   func() filter.Filter { return &filter.Not{Filter: equal()} },
			"&":   func() filter.Filter { return filter.And{equal(), &filter.Present{Attribute: "title"}} },
			"&!": func() filter.Filter {
				return filter.And{&filter.Present{Attribute: a}, &filter.Not{Filter: equal()}}
			},
			"|": func() filter.Filter {
				return filter.Or{equal(), equal(), &filter.Equal{Attribute: "sn", Value: []byte("ada")}}
			},
		}
		for use, rule := range map[string]*schema.MatchingRule{"equality": t.Equality, "ordering": t.Ordering, "substrings": t.Substr, "another": d.p.Schema().Rule("caseExactMatch")} {
			if rule != nil {
				kinds[":"+use+":="] = func() filter.Filter {
					v := value()
					if use == "substrings" {
						v = bytes.ReplaceAll(v, []byte{'\\'}, []byte(`\5C`))
						v = slices.Concat(v[:d.r.IntN(len(v))], []byte("*"))
					}
					return &filter.Extensible{Attribute: a, Rule: rule.Name(), Value: v}
				}
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			if found[kind] > 0 && again {
				continue
			}
			for range 2 {
				_, want := d.check(s, kinds[kind](), d.names[0], op.WholeSubtree)
				found[kind] += len(want)
			}
		}
	}
}

func (d *directory) search(s *partition.Snapshot, q partition.Query) []string {
	names := []string{}
	for r, err := range search.Search(context.Background(), s, q) {
		d.must(err)
		names = append(names, r.Name.String())
		name, err := r.Name.DN()
		d.must(err)
		got, want := values(r.Entry, q.Only), values(d.entry(s, name).Entry, q.Only)
		if got != want {
			d.t.Fatalf("seed %d: %s, filter %s, with %v: %.5000s, want %.5000s", d.seed, r.Name, q.Filter, q.Only, got, want)
		}
	}
	slices.Sort(names)
	return names
}

// values prints the values of the types, or those of all stored types if types is nil.
func values(e *entry.Entry, types []*schema.AttributeType) string {
	var b strings.Builder
	for _, a := range e.Attributes {
		if slices.Contains(types, a.Type) || types == nil && !strings.HasSuffix(a.Type.Name(), "ubordinates") {
			b.WriteString(a.Description() + ": ")
			for _, v := range a.Values {
				b.Write(v)
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

// paged runs a query again, continuing after each result from that result's position.
func (d *directory) paged(s *partition.Snapshot, q partition.Query, want []string) {
	names := []string{}
	for more := true; more; {
		more = false
		for r, err := range search.Search(context.Background(), s, q) {
			d.must(err)
			names = append(names, r.Name.String())
			q.After, more = bytes.Clone(r.Position), true
			break
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		d.t.Fatalf("seed %d: paged, filter %s\nfound %q\nwant  %q", d.seed, q.Filter, names, want)
	}
}

// bruteForce returns the names of the entries that match, by testing every entry.
func (d *directory) bruteForce(s *partition.Snapshot, base dn.DN, scope op.Scope, f filter.Resolved) []string {
	names := []string{}
	for _, n := range d.names {
		below := len(n) - len(base)
		in := below >= 0 && slices.EqualFunc(n[max(below, 0):], base, func(a, b dn.RDN) bool { return a.String() == b.String() })
		switch scope {
		case op.BaseObject:
			in = in && below == 0
		case op.SingleLevel:
			in = in && below == 1
		case op.Subordinates:
			in = in && below > 0
		}
		if !in {
			continue
		}
		if e := d.entry(s, n); f.Match(e) == filter.True {
			names = append(names, e.Stored.String())
		}
	}
	slices.Sort(names)
	return names
}

// entry returns an entry of a state.
func (d *directory) entry(s *partition.Snapshot, n dn.DN) *filter.EntrySource {
	if d.of != s {
		d.of, d.entries = s, map[string]*filter.EntrySource{}
	}
	e := d.entries[n.String()]
	if e == nil {
		at, err := s.Find(context.Background(), n)
		d.must(err)
		stored, err := s.Entry(context.Background(), at.ID, false)
		d.must(err)
		name, err := at.Name.DN()
		d.must(err)
		e = &filter.EntrySource{Schema: d.p.Schema(), Entry: d.withChildren(s, stored), Name: name, Stored: at.Name}
		d.entries[n.String()] = e
	}
	return e
}

// withChildren returns an entry with the attributes that the server computes from the entries
// below it. An assertion without an attribute type also tests these attributes (RFC 4511,
// 4.5.1.7.7).
func (d *directory) withChildren(s *partition.Snapshot, e *entry.Entry) *entry.Entry {
	n, err := s.CountChildren(context.Background(), e.ID)
	d.must(err)
	below := 0
	for _, err := range search.Search(context.Background(), s, partition.Query{Base: e.ID, Scope: op.Subordinates, Filter: filter.Const(filter.True), Only: []*schema.AttributeType{}}) {
		d.must(err)
		below++
	}
	more := slices.Clip(e.Attributes)
	for name, value := range map[string]string{
		"numSubordinates": strconv.Itoa(n), "numAllSubordinates": strconv.Itoa(below), "hasSubordinates": strings.ToUpper(strconv.FormatBool(n > 0)),
	} {
		more = append(more, entry.Attribute{Type: d.p.Schema().Attribute(name), Values: [][]byte{[]byte(value)}})
	}
	return &entry.Entry{ID: e.ID, Attributes: more}
}
