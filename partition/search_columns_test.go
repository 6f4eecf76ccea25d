package partition_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/columns"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// columnFilters test types without an index, with several values, options, long keys and many values, alone and beside
// types with an index.
var columnFilters = []string{
	"(description=*7*)", "(description=number 1*)", "(description=*9)", "(description=n*b*3)", "(description=number 17)", "(description=*)",
	"(description;lang-de=*1*)", "(!(description=*1*))", "(title>=t5)", "(title<=t3)", "(title=T4)", "(title=*)", "(!(title=*))",
	"(&(description=*1*)(title=t*))", "(|(description=*33*)(title=t2)(uid=u9))", "(&(objectClass=inetOrgPerson)(description=*2*))",
	"(&(objectClass=inetOrgPerson)(|(title=t1)(title=t2)))", "(&(objectClass=inetOrgPerson)(!(title=t1)))", "(employeeNumber>=5)",
	"(street=*end)", "(street=long*)", "(postalAddress=*a 5*)", "(name=*7)", "(|(roomNumber=r1)(&(title=t1)(jpegPhoto=*)))", "(description~=number 5)",
	"(uid=*7*)", "(&(objectClass=inetOrgPerson)(cn=*o*)(uid=*1))", "(|(uid=*33)(cn=*nobody*))",
	"(jpegPhoto=*)", "(description=nowhere)", "(&(description=*)(!(description=*1*)))",
}

// A columnTest is a directory that changes, and whose filters are answered from columns.
type columnTest struct {
	*testing.T
	p    *partition.Partition
	rand *rand.Rand
	made int
	same bool // the cache must not be replaced
}

func (c *columnTest) lines() []string {
	pick := func(n int) int { return c.rand.IntN(n) }
	all := []string{"objectClass: inetOrgPerson", "cn: Somebody", fmt.Sprintf("sn: s%d", pick(50))}
	for range pick(3) {
		all = append(all, fmt.Sprintf("description: number %d", pick(400)))
	}
	if pick(4) == 0 {
		all = append(all, fmt.Sprintf("description;lang-de: nummer %d", pick(40)))
	}
	for _, l := range []string{
		fmt.Sprintf("title: t%d", pick(8)), fmt.Sprintf("employeeNumber: %d", pick(9)), "street: long" + strings.Repeat("x", 510+pick(5)) + "end",
		fmt.Sprintf("postalAddress: a %d$b", pick(9)), fmt.Sprintf("roomNumber: r%d", pick(3)), "jpegPhoto: not a picture",
	} {
		if pick(3) > 0 {
			all = append(all, l)
		}
	}
	if pick(60) == 0 {
		for i := range 150 {
			all = append(all, fmt.Sprintf("description: many %d of %d", i, pick(1000)))
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(l string) bool { had := seen[l]; seen[l] = true; return had })
}

func (c *columnTest) dn(n int) string {
	return fmt.Sprintf("uid=c%d,ou=%s,%s", n, []string{"people", "groups"}[n%2], domain)
}

// change makes one commit.
func (c *columnTest) change() {
	ctx := context.Background()
	n := c.rand.IntN(c.made + 1)
	err := update(c.T, c.p, func(tx *partition.Tx) (err error) {
		switch c.rand.IntN(5) {
		case 0:
			_, err = tx.Add(ctx, name(c.dn(c.made)), attrs(c.lines()...), false)
			c.made++
		case 1:
			err = tx.Delete(ctx, name(c.dn(n)))
		case 2:
			err = tx.Rename(ctx, name(c.dn(n)), name(fmt.Sprintf("uid=c%d", n))[0], false, new(name([]string{domain, "ou=people," + domain}[c.rand.IntN(2)])))
		default:
			var ms []op.Modification
			for _, a := range attrs(c.lines()...)[2:] {
				ms = append(ms, op.Modification{Kind: op.ModReplace, PartialAttribute: a})
			}
			err = tx.Modify(ctx, name(c.dn(n)), ms)
		}
		return err
	})
	if refused := new(partition.Error); !errors.As(err, &refused) { // there may be no such entry
		must(c.T, err)
	}
}

// find returns the ids that a search finds in pages, each of which another search continues. A page may
// begin without the columns that the page before had, or when the state is one of the past.
func (c *columnTest) find(s *state.Snapshot, q partition.Query) (ids []entry.ID) {
	page := 1 + c.rand.IntN(500)
	for {
		n := 0
		for r, err := range search.Search(context.Background(), s, q) {
			must(c.T, err)
			ids = append(ids, r.ID)
			if n++; n == page {
				q.After = slices.Clone(r.Position)
				break
			}
		}
		if n < page {
			slices.SortFunc(ids, entry.ID.Compare)
			return ids
		}
		switch c.rand.IntN(8) {
		case 0:
			if !c.same {
				s.Catalog.Cache.Columns = columns.NewCache(1 << 20)
			}
		case 1:
			c.change()
			past, err := state.At(context.Background(), c.p, s.Revision())
			must(c.T, err)
			defer past.Close()
			s = past
		}
	}
}

// check compares searches with the filter tested on each entry.
func (c *columnTest) check(s *state.Snapshot) {
	ctx := context.Background()
	q := partition.Query{Scope: op.WholeSubtree, Filter: filter.Resolve(filter.MustParse(columnFilters[c.rand.IntN(len(columnFilters))]), s.Schema())}
	if base := []string{"", domain, "ou=people," + domain}[c.rand.IntN(3)]; base != "" {
		at, err := s.Find(ctx, name(base))
		must(c.T, err)
		q.Base, q.Scope = at.ID, []op.Scope{op.SingleLevel, op.WholeSubtree, op.Subordinates}[c.rand.IntN(3)]
	}
	var want []entry.ID
	for row, err := range s.Reader.Scan(ctx, s.Partition.Master, table.Range{}, table.Select{}) {
		must(c.T, err)
		if len(row.Key) == len(entry.ID{}) {
			_, ok, err := search.Lookup(ctx, s, q, entry.ID(row.Key))
			must(c.T, err)
			if ok {
				want = append(want, entry.ID(row.Key))
			}
		}
	}
	for range 3 {
		if got := c.find(s, q); !slices.Equal(got, want) {
			c.Fatalf("%s: %d entries, want %d", q.Filter, len(got), len(want))
		}
	}
}

// TestColumns checks searches through columns in memory against each entry, while entries change, in states that
// are older than the columns, and across pages. It checks that columns serve most of the searches.
func TestColumns(t *testing.T) {
	t.Parallel()
	p := open(t)
	loadSample(t, p, 500)
	c := &columnTest{T: t, p: p, rand: rand.New(rand.NewPCG(1, 2))}
	for range 60 {
		c.change()
	}
	old := state.Newest(p)
	defer func() { old.Close() }()
	rounds := 150
	if testing.Short() {
		rounds = 40
	}
	searches := func() (n uint64) {
		hits, _, _ := p.Catalog.Load().Cache.Columns.Counts()
		return hits
	}
	var served uint64
	for n := range rounds {
		for range c.rand.IntN(12) {
			c.change()
		}
		s := state.Newest(p)
		before := searches()
		c.check(s)
		if now := searches(); now > before {
			served++
		}
		c.check(old)
		if n%4 == 0 {
			old.Close()
			old = state.Newest(p)
		}
		s.Close()
	}
	if served < uint64(rounds)/4 {
		t.Errorf("columns served searches in %d of %d rounds", served, rounds)
	}
	wantSound(t, p)
}

// TestColumnsTogether is like TestColumns, but the searches and the commits run at the same time.
func TestColumnsTogether(t *testing.T) {
	t.Parallel()
	p := open(t)
	loadSample(t, p, 300)
	together(4, func(i int, r *rand.Rand) {
		c := &columnTest{T: t, p: p, rand: r, same: true}
		if i%2 == 0 {
			for range 300 {
				c.change()
			}
			return
		}
		for range 15 {
			s := state.Newest(p)
			c.check(s)
			s.Close()
		}
	})
	wantSound(t, p)
}

// TestColumnsBounds checks that columns are not made for a client whose limit on candidates is less than the directory,
// nor to explain a search, nor again and again after a failure, that making them takes little more memory than there is for them, and
// that they serve the later pages of a search while commits are made.
func TestColumnsBounds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := open(t)
	loadSample(t, p, 500)
	s := state.Newest(p)
	defer s.Close()
	kept := s.Catalog.Cache.Columns
	q := partition.Query{Scope: op.WholeSubtree, Filter: filter.Resolve(filter.MustParse("(mail=*@example.com)"), s.Schema())}
	// find returns the position of the hundredth result, and what the search used.
	find := func(ctx context.Context, s *state.Snapshot, q partition.Query) (position []byte, by string) {
		q.Cost = new(search.Cost)
		n := 0
		for r, err := range search.Search(ctx, s, q) {
			if n++; err != nil || n == 100 {
				if err == nil {
					position = slices.Clone(r.Position)
				}
				break
			}
		}
		for _, u := range q.Cost.Indexes {
			by += u.Kind
		}
		return position, by
	}
	want := func(what, by string, make bool) {
		t.Helper()
		_, _, size := kept.Counts()
		if made := size > 0; by == "column" != make || made != make {
			t.Errorf("%s: by %q, columns of %d octets", what, by, size)
		}
	}
	limited := q
	limited.Most = 100
	for range 3 {
		_, by := find(ctx, s, limited)
		want("a client that may examine 100 entries", by, false)
		by, err := search.Explain(ctx, s, q, false)
		must(t, err)
		want("a search that is explained", by, false)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	find(ctx, s, q)
	find(gone, s, q)
	for range 10 {
		_, by := find(ctx, s, q)
		want("after a failure", by, false)
	}
	for range 100 {
		find(ctx, s, q)
	}
	after, by := find(ctx, s, q)
	want("later", by, true)

	must(t, add(t, p, "ou=long,"+domain, "objectClass: organizationalUnit", "description: "+strings.Repeat("x", 400)))
	past, err := state.At(ctx, p, s.Revision())
	must(t, err)
	defer past.Close()
	q.After = after
	_, by = find(ctx, past, q)
	want("a later page", by, true)

	now := state.Newest(p)
	defer now.Close()
	b := columns.NewCache(100).NewBuilder(now.At, []*schema.AttributeType{now.Schema().Attribute("description")})
	for row, err := range now.Reader.Scan(ctx, p.Tree, table.Range{}, b.Select()) {
		must(t, err)
		if strings.Contains(string(row.Key), "long") && b.Add(row) {
			t.Error("a key of 400 octets was added to a table of 100")
		}
	}
}

// finder returns a function that searches a state for a filter, and tells by what.
func finder(t *testing.T, s *state.Snapshot) func(f string) (by string) {
	return func(f string) (by string) {
		q := partition.Query{Scope: op.WholeSubtree, Filter: filter.Resolve(filter.MustParse(f), s.Schema()), Cost: new(search.Cost)}
		for _, err := range search.Search(context.Background(), s, q) {
			must(t, err)
		}
		for _, u := range q.Cost.Indexes {
			by += u.Kind
		}
		return by
	}
}

// TestColumnsByTurns checks that searches for several types by turns build few tables, and that none is built for
// a search that an index makes short.
func TestColumnsByTurns(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := open(t)
	loadSample(t, p, 2000)
	must(t, update(t, p, func(tx *partition.Tx) error {
		for i := range 300 {
			if _, err := tx.Add(ctx, name(fmt.Sprintf("uid=o%d,ou=people,%s", i, domain)), attrs("objectClass: inetOrgPerson", "cn: x", "sn: Other"), false); err != nil {
				return err
			}
		}
		return nil
	}))
	p.WantsSubordinates.Store(true)
	must(t, materialized.NewManager(p).Step(ctx)) // counts the entries
	s := state.Newest(p)
	defer s.Close()
	find := finder(t, s)
	for range 5 {
		if by := find("(&(sn=Other)(description=*x*))"); by != "value" {
			t.Errorf("a list of 300 of 2,300 entries: by %q", by)
		}
	}
	turns := []string{"(description=*x*)", "(telephoneNumber=*7*)", "(title=*x*)", "(street=*x*)", "(displayName=*x*)"}
	for round := range 10 {
		for _, f := range turns {
			if by := find(f); round >= 2 && by != "column" {
				t.Errorf("round %d, %s: by %q", round, f, by)
			}
		}
	}
	if _, misses, _ := s.Catalog.Cache.Columns.Counts(); misses != 2*uint64(len(turns)) {
		t.Errorf("%d searches found no columns, want 2 for each type", misses)
	}
}

// withColumns loads people with long values of some types without an index.
func withColumns(t *testing.T, size uint64) (s *state.Snapshot, find func(f string) (by string)) {
	t.Helper()
	ctx := context.Background()
	p := open(t)
	loadSample(t, p, 10)
	must(t, update(t, p, func(tx *partition.Tx) error {
		for i := range 500 {
			lines := []string{"objectClass: inetOrgPerson", "cn: x", "sn: x"}
			for _, a := range []string{"description", "title", "street", "displayName"} {
				lines = append(lines, fmt.Sprintf("%s: %s%d", a, strings.Repeat("x", 300), i))
			}
			if _, err := tx.Add(ctx, name(fmt.Sprintf("uid=o%d,ou=people,%s", i, domain)), attrs(lines...), false); err != nil {
				return err
			}
		}
		return nil
	}))
	s = state.Newest(p)
	t.Cleanup(s.Close)
	s.Catalog.Cache.Columns = columns.NewCache(size)
	return s, finder(t, s)
}

// TestColumnsTooLarge checks that columns of several types which do not fit together are still built for each alone, but
// not one for each search when searches for them come by turns, nor when they do not fit beside those that are kept.
func TestColumnsTooLarge(t *testing.T) {
	t.Parallel()
	const one = 500*(300+4+12) + 20*600 // octets of a table of one column
	s, find := withColumns(t, one*3/2)
	for range 3 {
		if by := find("(&(description=*1*)(title=*1*)(street=*1*))"); by != "" {
			t.Errorf("three columns in a cache for one: by %q", by)
		}
	}
	served := 0
	for range 200 {
		if find("(title=*1*)") == "column" {
			served++
		}
	}
	if served < 100 {
		t.Errorf("columns that do not fit together: %d of 200 searches for one of them were served", served)
	}
	for what, size := range map[string]uint64{"each is dropped for the next": one * 3 / 2, "one beside a smaller one": one * 5 / 2} {
		s.Catalog.Cache.Columns = columns.NewCache(size)
		built := 0
		for range 100 {
			for _, f := range []string{"(description=*1*)", "(title=*1*)", "(street=*1*)", "(displayName=*1*)"} {
				_, before, _ := s.Catalog.Cache.Columns.Counts()
				by := find(f)
				if _, now, _ := s.Catalog.Cache.Columns.Counts(); now > before && by == "column" {
					built++
				}
			}
		}
		if built < 2 || built > 20 {
			t.Errorf("%s: %d of 400 searches built a table", what, built)
		}
	}
}

// TestColumnsMade checks that nothing is made of a table that turns out not to fit.
func TestColumnsMade(t *testing.T) {
	s, _ := withColumns(t, 1)
	at := []*schema.AttributeType{s.Schema().Attribute("description")}
	c := columns.NewCache(100_000)
	b := c.NewBuilder(s.At, at)
	for row, err := range s.Reader.Scan(t.Context(), s.Partition.Tree, table.Range{}, b.Select()) {
		must(t, err)
		if !b.Add(row) {
			t.Fatal("a table that is twice as large as the cache was not read")
		}
	}
	if n := testing.AllocsPerRun(1, func() { c.Built(b, at) }); n > 2 {
		t.Errorf("a table that does not fit was made in %v allocations", n)
	}
}

// TestColumnsEnd checks that a search through columns ends with its context, because a filter may have very many tests.
func TestColumnsEnd(t *testing.T) {
	t.Parallel()
	s, find := withColumns(t, 1<<20)
	for range 3 {
		find("(title=*1*)")
	}
	if by := find("(title=*1*)"); by != "column" {
		t.Fatalf("by %q", by)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var err error
	for _, err = range search.Search(ctx, s, partition.Query{Scope: op.WholeSubtree, Filter: filter.Resolve(filter.MustParse("(|(title=*y1)(title=*y2))"), s.Schema())}) {
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context, the search returned %v", err)
	}
}

// A trap is a store on which scans of the whole tree panic while it is set.
type trap struct {
	*tabletest.BatchMem
	set bool
}

type trapTable struct {
	table.Table
	trap *trap
}

func (s *trap) Table(name string) table.Table { return trapTable{s.BatchMem.Table(name), s} }

func (t trapTable) Scan(ctx context.Context, r table.Range, sel table.Select) iter.Seq2[table.Row, error] {
	if t.trap.set && len(r.Start)+len(r.End) == 0 {
		panic("trapped")
	}
	return t.Table.Scan(ctx, r, sel)
}

// TestColumnsPanic checks that columns can be made after making them panicked. The server goes on after a panic of one operation.
func TestColumnsPanic(t *testing.T) {
	t.Parallel()
	store := &trap{BatchMem: tabletest.NewBatchMem()}
	p := server(t, store)
	must(t, onlineschema.SetSuffixes(t.Context(), p, []string{domain}))
	must(t, add(t, p, domain, domainLines...))
	for i := range 20 {
		must(t, addPerson(t, p, fmt.Sprintf("cn=%d,%s", i, domain), fmt.Sprintf("title: t%d", i)))
	}
	s := state.Newest(p)
	defer s.Close()
	find := func() {
		for _, err := range search.Search(t.Context(), s, partition.Query{Scope: op.WholeSubtree, Filter: resolved(p, "(title=t7)")}) {
			must(t, err)
		}
	}
	find()
	panicked := func() (did bool) {
		defer func() { did = recover() != nil }()
		store.set = true
		find()
		return
	}()
	store.set = false
	for range 200 {
		find()
	}
	if _, _, size := s.Catalog.Cache.Columns.Counts(); size == 0 || !panicked {
		t.Errorf("panicked: %v; then the columns have %d octets", panicked, size)
	}
}
