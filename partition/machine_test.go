package partition_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/reformat"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// TestModel runs random transactions on a partition and on a model. It compares the entries and
// the results of searches, at the newest revision and at past revisions.
func TestModel(t *testing.T) { rapid.Check(t, runMachine) }

// TestReformat is TestModel on a store in the first format, which is copied to one in the newest in between. The copy has
// the same past.
func TestReformat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := openMachine(t, catalog.FormatNames)
		m := &machine{ctx: context.Background(), p: p, model: newModel(p.Schema())}
		m.run(t, map[string]func(*rapid.T){"reformat": func(t *rapid.T) {
			if now, _ := m.p.RowFormats(); now != catalog.FormatNames {
				return
			}
			ok(t, m.p.Close(m.ctx))
			to, err := lsm.Open(lsm.Options{Path: "copy", FS: vfs.NewMem()})
			ok(t, err)
			_, err = reformat.Copy(m.ctx, s, to, reformat.Options{Options: machineOptions})
			ok(t, err)
			ok(t, s.Close())
			s = to
			m.p, err = partition.Open(m.ctx, s, machineOptions)
			ok(t, err)
			m.model = m.model.with(m.p.Schema())
			for i := range m.kept {
				m.kept[i].model = m.kept[i].model.with(m.p.Schema())
			}
			m.verify(t)
			m.past(t)
		}})
		m.compareNow(t)
		m.verify(t)
		ok(t, m.p.Close(m.ctx))
		ok(t, s.Close())
	})
}

// FuzzModel is TestModel with inputs that the fuzzer chooses by code coverage.
func FuzzModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(runMachine)) }

func runMachine(t *rapid.T) {
	ctx := context.Background()
	s, p := openMachine(t, *storeFormat)
	defer s.Close()
	defer p.Close(ctx)
	m := &machine{ctx: ctx, p: p, model: newModel(p.Schema())}
	m.run(t, nil)
	m.compareNow(t)
	m.verify(t)
}

var machineOptions = partition.Options{Schema: tagged, Cache: 1 << 20, Indexes: machineIndexes}

// openMachine makes a store with a partition in memory.
func openMachine(t *rapid.T, format int) (*lsm.Store, *partition.Partition) {
	ctx := context.Background()
	s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
	ok(t, err)
	o := machineOptions
	o.Format, o.Create = format, true
	p, err := partition.Open(ctx, s, o)
	ok(t, err)
	ok(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
	return s, p
}

// run runs random actions, and those of more.
func (m *machine) run(t *rapid.T, more map[string]func(*rapid.T)) {
	m.transact(t, 1)
	actions := map[string]func(*rapid.T){
		"transact": func(t *rapid.T) { m.transact(t, rapid.IntRange(1, 4).Draw(t, "operations")) },
		"search":   m.search,
		"entries":  func(t *rapid.T) { m.compareNow(t) },
		"past":     m.past,
		"verify":   m.verify,
		"forget":   m.forget,
	}
	maps.Copy(actions, more)
	t.Repeat(actions)
}

// machineIndexes are indexes of both layouts. Some are of single-valued types, and one is of a
// stamp. Some types that the machine uses have no index.
var machineIndexes = []catalog.Index{
	{Attribute: "objectClass", Layout: catalog.RowLayout}, {Attribute: "sn", Layout: catalog.RowLayout},
	{Attribute: "description", Layout: catalog.RowLayout}, {Attribute: "displayName", Layout: catalog.RowLayout},
	{Attribute: "cn", Layout: catalog.ColumnLayout}, {Attribute: "uid", Layout: catalog.ColumnLayout},
	{Attribute: "seeAlso", Layout: catalog.ColumnLayout}, {Attribute: "uidNumber", Layout: catalog.ColumnLayout},
	{Attribute: "modifiersName", Layout: catalog.RowLayout},
}

func ok(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type machine struct {
	ctx   context.Context
	p     *partition.Partition
	model *model
	kept  []keptState
	count int
}

// keptState is the model at a revision.
type keptState struct {
	at    table.Revision
	model *model
}

// operation is one drawn operation, for the partition and for the model.
type operation struct {
	text  string
	store func(tx *partition.Tx) error
	model func(m *model) partition.Problem
}

// transact runs operations in one transaction. The first operation that fails ends the
// transaction without a commit. After each successful operation, transact compares the
// partition with the model within the transaction.
func (m *machine) transact(t *rapid.T, n int) {
	by := partition.By{Name: rapid.SampledFrom([]string{"cn=admin", "cn=other"}).Draw(t, "by")}
	after := m.model.clone()
	var last error
	r, err := write.Update(m.ctx, m.p, by, func(tx *partition.Tx) error {
		for range n {
			o := m.draw(t, after)
			last = o.store(tx)
			want := o.model(after)
			agree(t, o.text, last, want)
			if last != nil {
				return last
			}
			m.compare(t, &tx.Snapshot, after)
			m.searchIn(t, &tx.Snapshot, after)
		}
		return nil
	})
	if last != nil {
		return
	}
	ok(t, err)
	m.model = after
	if m.count++; m.count%3 == 0 {
		m.kept = append(m.kept, keptState{r, after.clone()})
		m.kept = m.kept[max(0, len(m.kept)-3):]
	}
}

func agree(t *rapid.T, text string, err error, want partition.Problem) {
	var e *partition.Error
	switch {
	case err != nil && !errors.As(err, &e):
		t.Fatalf("%s: %v", text, err)
	case err == nil && want != 0:
		t.Fatalf("%s: done, but the model says problem %d", text, want)
	case err != nil && want == 0:
		t.Fatalf("%s: %v, but the model did it", text, err)
	case err != nil && e.Problem != want && !(atTheEnd[e.Problem] && atTheEnd[want]):
		t.Fatalf("%s: problem %d (%v), the model says %d", text, e.Problem, err, want)
	}
}

// atTheEnd are the problems that concern an entry as a whole. An entry may have several
// of these problems, and the partition and the model may report different problems.
var atTheEnd = map[partition.Problem]bool{
	partition.Constraint: true, partition.NotOnRDN: true, partition.NamingViolation: true,
	partition.ClassViolation: true, partition.ClassModification: true,
}

// draw draws an operation. The entry that it changes, or below which it adds an entry, usually
// exists in s.
func (m *machine) draw(t *rapid.T, s *model) operation {
	if len(s.entries) == 0 {
		return m.add(name(domain), attrs(domainLines...))
	}
	switch rapid.SampledFrom([]string{"add", "add", "modify", "modify", "modify", "rename", "delete"}).Draw(t, "kind") {
	case "add":
		return m.add(append(dn.DN{drawRDN(t)}, drawName(t, s)...), drawAttributes(t))
	case "modify":
		at, changes := drawName(t, s), drawChanges(t, s)
		return operation{fmt.Sprintf("modify %s %s", at, printChanges(changes)),
			func(tx *partition.Tx) error { return tx.Modify(m.ctx, at, changes) },
			func(s *model) partition.Problem { return s.modify(at, changes) }}
	case "rename":
		return m.rename(t, s)
	}
	at := drawName(t, s)
	return operation{fmt.Sprintf("delete %s", at),
		func(tx *partition.Tx) error { return tx.Delete(m.ctx, at) },
		func(s *model) partition.Problem { return s.remove(at) }}
}

func (m *machine) add(at dn.DN, as []op.PartialAttribute) operation {
	var id entry.ID
	return operation{fmt.Sprintf("add %s %.300s", at, as),
		func(tx *partition.Tx) (err error) {
			id, err = tx.Add(m.ctx, at, as, false)
			return err
		},
		func(s *model) partition.Problem {
			p := s.add(at, as)
			if p == 0 {
				s.find(at).id = id
			}
			return p
		}}
}

func (m *machine) rename(t *rapid.T, s *model) operation {
	at, rdn, deleteOld := drawName(t, s), drawRDN(t), rapid.Bool().Draw(t, "deleteOld")
	if len(at) == 2 { // a naming context cannot be renamed
		at = append(dn.DN{drawRDN(t)}, at...)
	}
	var parent *dn.DN
	if rapid.Bool().Draw(t, "moves") {
		to := drawName(t, s)
		parent = &to
	}
	return operation{fmt.Sprintf("rename %s %s %v %v", at, rdn, deleteOld, parent),
		func(tx *partition.Tx) error { return tx.Rename(m.ctx, at, rdn, deleteOld, parent) },
		func(s *model) partition.Problem { return s.rename(at, rdn, deleteOld, parent) }}
}

// drawName draws a name that usually exists.
func drawName(t *rapid.T, s *model) dn.DN {
	keys := slices.Sorted(maps.Keys(s.entries))
	at := s.entries[rapid.SampledFrom(keys).Draw(t, "at")].name
	if rapid.IntRange(0, 15).Draw(t, "elsewhere") == 0 {
		return append(dn.DN{drawRDN(t)}, at...)
	}
	return at
}

var (
	long  = strings.Repeat("Long ", 120)    // longer than keys in columns and indexes
	large = strings.Repeat("Large ", 25000) // so large that searches leave it out of entries if they can
)

func drawRDN(t *rapid.T) dn.RDN {
	s := rapid.SampledFrom([]string{
		"cn=a", "cn=A", "cn=b", "CN=c", "uid=1", "cn=a+uid=1", "uid=1+cn=A", "cn=b+uid=2", "employeeNumber=7",
		"employeeNumber=8", "cn=" + long + "x", "cn=" + long + "y", "description=" + long + long + "x",
		"description=" + long + long + "y", "displayName=one",
	}).Draw(t, "rdn")
	return name(s)[0]
}

// pools are the values that the machine uses for each description. "#" is replaced by a
// number.
var pools = map[string][]string{
	"cn": {"a", "A", "b", "c", "Ann Lee", "ann  lee", long + "x"}, "cn;lang-de": {"a", "b", "Anna"}, "cn;lang-d": {"a"},
	"uid": {"1", "2", "x#"}, "sn": {"Lee", "LEE", "Ray"}, "description": {"one", "ONE", "two", long + "x", long + "X", long + "y", "d#"},
	"description;x-a": {"one", "two", "d#"}, "description;x-a1": {"one", "d#"}, "description;x-ab": {"one", "two", "d#"},
	"displayName": {"one", "One", "two", long}, "employeeNumber": {"7", "8", "9"},
	"seeAlso":   {"cn=a,dc=example,dc=com", "CN=A, dc=Example,dc=com", "cn=" + long + ",dc=example", "cn=#"},
	"jpegPhoto": {"one", large + "x", large + "y"}, "jpegPhoto;x-a": {"one"}, "userPassword": {"secret", "Secret", "{X}y"},
	"uidNumber": {"1", "2", "10", "-7"}, "gidNumber": {"1", "100"}, "homeDirectory": {"/home"},
	"objectClass": {"posixAccount", "extensibleObject", "uidObject", "top", "person", "inetOrgPerson", "organization", "POSIXACCOUNT"},
	"street":      {"low", large + "x", large + "X"}, "o": {"Org"}, "uidNumber;x-n": {"5"},
}

var descriptions = slices.Sorted(maps.Keys(pools))

func drawValue(t *rapid.T, d string) []byte {
	v := rapid.SampledFrom(pools[d]).Draw(t, "value")
	if strings.Contains(v, "#") {
		v = strings.ReplaceAll(v, "#", fmt.Sprint(rapid.IntRange(0, 150).Draw(t, "#")))
	}
	return []byte(v)
}

// drawValues draws one to three values, or a series of up to 520.
func drawValues(t *rapid.T, d string) (vs [][]byte) {
	pool := pools[d]
	if last := pool[len(pool)-1]; strings.Contains(last, "#") && rapid.IntRange(0, 3).Draw(t, "run") == 0 {
		from, n := rapid.IntRange(0, 60).Draw(t, "from"), rapid.SampledFrom([]int{2, 60, 99, 100, 101, 120, 520}).Draw(t, "many")
		for i := range n {
			vs = append(vs, []byte(strings.ReplaceAll(last, "#", fmt.Sprint(from+i))))
		}
		return vs
	}
	for range rapid.IntRange(1, 3).Draw(t, "values") {
		vs = append(vs, drawValue(t, d))
	}
	return vs
}

func drawAttributes(t *rapid.T) []op.PartialAttribute {
	as := attrs("objectClass: inetOrgPerson", "sn: Lee", "cn: entry")
	for _, d := range []string{"jpegPhoto", "street"} {
		if rapid.Bool().Draw(t, d) {
			as = append(as, op.PartialAttribute{Description: d, Values: [][]byte{drawValue(t, d)}})
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "attributes") {
		d := rapid.SampledFrom(descriptions).Draw(t, "description")
		if d == "uidNumber" { // posixAccount requires it
			as = append(as, attrs("objectClass: posixAccount", "uid: p", "uidNumber: 5", "gidNumber: 1", "homeDirectory: /")...)
		} else {
			as = append(as, op.PartialAttribute{Description: d, Values: drawValues(t, d)})
		}
	}
	return as
}

func drawChanges(t *rapid.T, s *model) (cs []op.Modification) {
	for range rapid.IntRange(1, 4).Draw(t, "changes") {
		d := rapid.SampledFrom(descriptions).Draw(t, "description")
		c := op.Modification{Kind: rapid.SampledFrom([]op.ModKind{op.ModAdd, op.ModAdd, op.ModDelete, op.ModReplace, op.ModIncrement}).Draw(t, "kind")}
		c.Description = d
		switch {
		case c.Kind == op.ModIncrement:
			c.Values = [][]byte{drawValue(t, "uidNumber")}
		case c.Kind != op.ModAdd && rapid.IntRange(0, 2).Draw(t, "all") == 0:
		default:
			c.Values = drawValues(t, d)
		}
		cs = append(cs, c)
	}
	return cs
}

func printChanges(cs []op.Modification) string {
	var b strings.Builder
	for _, c := range cs {
		fmt.Fprintf(&b, "[%d %s %.200q]", c.Kind, c.Description, c.Values)
	}
	return b.String()
}

func (m *machine) verify(t *rapid.T) {
	_, err := verify.Verify(m.ctx, m.p, verify.Options{Found: func(f *verify.Finding) error { return errors.New(f.String()) }})
	ok(t, err)
}

func (m *machine) compareNow(t *rapid.T) {
	s := state.Newest(m.p)
	defer s.Close()
	m.compare(t, s, m.model)
}

func (m *machine) search(t *rapid.T) {
	s := state.Newest(m.p)
	defer s.Close()
	m.searchIn(t, s, m.model)
}

// forget removes all entries from the cache.
func (m *machine) forget(*rapid.T) {
	for _, e := range m.model.entries {
		m.p.Catalog.Load().Cache.Entries.Delete(e.id)
	}
}

func (m *machine) past(t *rapid.T) {
	for _, k := range m.kept {
		s, err := state.At(m.ctx, m.p, k.at)
		ok(t, err)
		m.compare(t, s, k.model)
		m.searchIn(t, s, k.model)
		s.Close()
	}
}

// compare compares every entry of the model, and the number of the entry's children, with what
// a state shows.
func (m *machine) compare(t *rapid.T, s *partition.Snapshot, want *model) {
	for _, k := range slices.Sorted(maps.Keys(want.entries)) {
		e := want.entries[k]
		at, err := s.Find(m.ctx, e.name)
		ok(t, err)
		if at.ID != e.id || at.Name.String() != e.name.String() {
			t.Fatalf("find %s: %s %q, want %s", e.name, at.ID, at.Name, e.id)
		}
		got, err := s.Entry(m.ctx, at.ID, true)
		ok(t, err)
		if g, w := printEntry(got), printEntry(want.entry(e, true)); g != w {
			t.Fatalf("entry %s:\n%s\nwant\n%s", e.name, g, w)
		}
		n, err := s.CountChildren(m.ctx, at.ID)
		ok(t, err)
		children := 0
		for _, b := range want.below(e.name) {
			if len(b.name) == len(e.name)+1 {
				children++
			}
		}
		if n != children {
			t.Fatalf("%s has %d children, want %d", e.name, n, children)
		}
	}
	for _, rdn := range []string{"cn=a", "uid=1", "cn=nobody"} {
		at := append(dn.DN{name(rdn)[0]}, name(domain)...)
		if _, err := s.Find(m.ctx, at); (err == nil) != (want.find(at) != nil) {
			t.Fatalf("find %s: %v, want found = %v", at, err, want.find(at) != nil)
		}
	}
}

// printEntry prints the attributes that the model also has.
func printEntry(e *entry.Entry) string {
	var lines []string
	for _, a := range e.Attributes {
		if a.Type.Operational() && a.Type.Name() != "entryUUID" {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: %q", a.Description(), a.Values))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// searchIn searches for a drawn filter in all scopes. It also compares a drawn value with the
// values of an entry.
func (m *machine) searchIn(t *rapid.T, s *partition.Snapshot, want *model) {
	if len(want.entries) == 0 {
		return
	}
	f := filter.Resolve(drawFilter(t, want, 2), want.schema)
	base := want.entries[rapid.SampledFrom(slices.Sorted(maps.Keys(want.entries))).Draw(t, "base")]
	for scope := op.BaseObject; scope <= op.Subordinates; scope++ {
		for _, top := range []bool{false, true} {
			q := partition.Query{Base: base.id, Scope: scope, Filter: f, Only: drawTypes(t, want), Lend: rapid.Bool().Draw(t, "lend")}
			depth, in := len(base.name), append(want.below(base.name), base)
			if top {
				q.Base, depth, in = entry.Root, 1, slices.Collect(maps.Values(want.entries))
			}
			m.searchOne(t, s, want, q, depth, in)
		}
	}
	d := rapid.SampledFrom(descriptions).Draw(t, "compared")
	m.compareValue(t, s, want, base, d, drawValue(t, d))
}

func (m *machine) searchOne(t *rapid.T, s *partition.Snapshot, want *model, q partition.Query, depth int, in []*modelEntry) {
	names, values := []string(nil), []string(nil)
	for _, e := range in {
		n := len(e.name) - depth
		scoped := q.Scope == op.WholeSubtree || q.Scope == op.BaseObject && n == 0 ||
			q.Scope == op.SingleLevel && n == 1 || q.Scope == op.Subordinates && n >= 1
		src := filter.EntrySource{Schema: want.schema, Entry: want.entry(e, false), Name: e.name}
		if scoped && q.Filter.Match(&src) == filter.True {
			names = append(names, e.name.String())
			values = append(values, e.name.String()+"\n"+printOnly(want.entry(e, false), q.Only))
		}
	}
	slices.Sort(names)
	slices.Sort(values)
	got, read := m.matches(t, s, q)
	if !slices.Equal(got, names) || !slices.Equal(read, values) {
		how, _ := search.Explain(m.ctx, s, q, false)
		t.Fatalf("search scope %d %.300s:\n%q\nwant\n%q\n%s\n%.5000s\nwant\n%.5000s", q.Scope, q.Filter, got, names, how, read, values)
	}
}

// drawTypes draws the types that a search needs, or nil for all.
func drawTypes(t *rapid.T, want *model) (ts []*schema.AttributeType) {
	for range rapid.IntRange(0, 2).Draw(t, "types") {
		typ, _ := want.describe(rapid.SampledFrom(append([]string{"name"}, descriptions...)).Draw(t, "needed"))
		ts = append(ts, want.schema.Subtypes(typ)...)
	}
	return ts
}

// printOnly prints the values of the types, or all if types is nil.
func printOnly(e *entry.Entry, types []*schema.AttributeType) string {
	some := &entry.Entry{ID: e.ID}
	for _, a := range e.Attributes {
		if types == nil || slices.Contains(types, a.Type) {
			some.Attributes = append(some.Attributes, a)
		}
	}
	return printEntry(some)
}

// matches runs a search in two parts. The second part continues behind the last
// result of the first part. It returns the names, and the names with the values that the search needs.
func (m *machine) matches(t *rapid.T, s *partition.Snapshot, q partition.Query) (names, values []string) {
	add := func(r *partition.Result) {
		names = append(names, r.Name.String())
		values = append(values, r.Name.String()+"\n"+printOnly(r.Entry, q.Only))
	}
	stop := rapid.IntRange(1, 5).Draw(t, "page")
	for r, err := range search.Search(m.ctx, s, q) {
		ok(t, err)
		add(r)
		if len(names) == stop {
			q.After = slices.Clone(r.Position)
			break
		}
	}
	if len(names) == stop {
		for r, err := range search.Search(m.ctx, s, q) {
			ok(t, err)
			add(r)
		}
	}
	slices.Sort(names)
	slices.Sort(values)
	return names, values
}

func (m *machine) compareValue(t *rapid.T, s *partition.Snapshot, want *model, e *modelEntry, d string, v []byte) {
	got, err := s.Compare(m.ctx, e.id, d, v)
	typ, _ := want.describe(d)
	if typ.Equality == nil || typ.Secret() {
		agree(t, "compare "+d, err, partition.NoMatching)
		return
	}
	src := filter.EntrySource{Schema: want.schema, Entry: want.entry(e, false)}
	if filter.Resolve(&filter.Present{Attribute: d}, want.schema).Match(&src) != filter.True {
		agree(t, "compare "+d, err, partition.NoSuchAttribute)
		return
	}
	ok(t, err)
	equal := filter.Resolve(&filter.Equal{Attribute: d, Value: v}, want.schema).Match(&src) == filter.True
	if got != equal {
		t.Fatalf("compare %s %s=%.50q: %v, want %v", e.name, d, v, got, equal)
	}
}

func drawFilter(t *rapid.T, want *model, depth int) filter.Filter {
	if depth > 0 {
		switch rapid.SampledFrom([]string{"test", "test", "and", "or", "not"}).Draw(t, "node") {
		case "and":
			return filter.And{drawFilter(t, want, depth-1), drawFilter(t, want, depth-1)}
		case "or":
			return filter.Or{drawFilter(t, want, depth-1), drawFilter(t, want, depth-1)}
		case "not":
			return &filter.Not{Filter: drawFilter(t, want, depth-1)}
		}
	}
	d := rapid.SampledFrom(append([]string{"name", "bogus", "entryUUID", "cn;lang-"}, descriptions...)).Draw(t, "type")
	if d == "entryUUID" {
		e := want.entries[rapid.SampledFrom(slices.Sorted(maps.Keys(want.entries))).Draw(t, "id")]
		return &filter.Equal{Attribute: d, Value: []byte(e.id.String())}
	}
	from := d
	if pools[d] == nil {
		from = "cn"
	}
	v := drawValue(t, from)
	switch rapid.SampledFrom([]string{"=", "=", "=*", ">=", "<=", "~=", "*"}).Draw(t, "assertion") {
	case "=*":
		return &filter.Present{Attribute: d}
	case ">=":
		return &filter.GreaterOrEqual{Attribute: d, Value: v}
	case "<=":
		return &filter.LessOrEqual{Attribute: d, Value: v}
	case "~=":
		return &filter.Approx{Attribute: d, Value: v}
	case "*":
		return drawSubstrings(t, d, v)
	}
	return &filter.Equal{Attribute: d, Value: v}
}

func drawSubstrings(t *rapid.T, d string, v []byte) filter.Filter {
	f := &filter.Substrings{Attribute: d, Any: [][]byte{v[:1]}}
	switch rapid.IntRange(0, 2).Draw(t, "pieces") {
	case 0:
		f.Initial, f.Any = v[:1], nil
	case 1:
		f.Final = v[len(v)-1:]
	}
	return f
}

func TestModelNames(t *testing.T) {
	// All values in pools must be valid.
	p := open(t)
	m := newModel(p.Schema())
	for d, vs := range pools {
		typ, _ := m.describe(d)
		for _, v := range vs {
			if err := typ.Syntax.Validate([]byte(strings.ReplaceAll(v, "#", "1"))); err != nil {
				t.Errorf("%s: %q: %v", d, v, err)
			}
		}
	}
}
