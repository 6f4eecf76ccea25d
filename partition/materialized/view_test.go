package materialized_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A world is the state of a random test: a directory with views, and counters.
type world struct {
	t           *testing.T
	r           *rand.Rand
	store       table.Store
	servers     []*partition.Partition
	p           *partition.Partition // one of the servers
	managers    []*materialized.Manager
	past        []table.Revision
	collections int
	n           int            // number of names given out
	counted     map[bool]int   // checks of an entry, by whether its subordinates were known
	ranges      int            // reads of a list that omitted entries
	kept        map[bool]int   // reads, by whether the records were kept
	lines       map[string]int // how often a manager was ended at each point of a step
}

const base = "ou=people,dc=example,dc=com"

var errCrash = errors.New("the manager ends here")

// open opens the store with two managers. If servers share the store, each manager has its
// own server.
func (w *world) open() {
	w.servers, w.managers = nil, nil
	for len(w.managers) < 2 {
		p, err := partition.Open(context.Background(), w.store, partition.Options{Create: true, Cache: 1 << 20,
			Txn: txn.Options{Poll: time.Millisecond, InFlight: 20 * time.Millisecond}})
		must(w.t, err)
		w.servers = append(w.servers, p)
		w.managers = append(w.managers, materialized.NewManager(p))
		if !p.DB.Shared() {
			w.managers = append(w.managers, materialized.NewManager(p))
		}
		w.managers[len(w.managers)-1].KeepOthersAlways()
		if w.r.IntN(2) == 0 {
			w.managers[len(w.managers)-1].SetStepEntries(1 + w.r.IntN(3))
		}
	}
	w.p = w.servers[0]
}

func (w *world) close() {
	for _, m := range w.managers {
		m.Close()
	}
	for _, p := range w.servers {
		must(w.t, p.Close(context.Background()))
	}
}

func name(text string) dn.DN {
	d, err := dn.Parse(text)
	if err != nil {
		panic(err)
	}
	return d
}

func attributes(lines ...string) (as []op.PartialAttribute) {
	for _, l := range lines {
		description, value, _ := strings.Cut(l, ": ")
		i := slices.IndexFunc(as, func(a op.PartialAttribute) bool { return a.Description == description })
		if i < 0 {
			i, as = len(as), append(as, op.PartialAttribute{Description: description})
		}
		as[i].Values = append(as[i].Values, []byte(value))
	}
	return as
}

// update runs fn in a transaction. Failures that a random operation may have are ignored.
func (w *world) update(fn func(ctx context.Context, tx *partition.Tx) error) {
	w.t.Helper()
	ctx := context.Background()
	r, err := write.Update(ctx, w.p, partition.By{}, func(tx *partition.Tx) error { return fn(ctx, tx) })
	var e *partition.Error
	if errors.As(err, &e) {
		return
	}
	must(w.t, err)
	w.past = append(w.past, r)
}

func (w *world) add(text string, lines ...string) {
	w.t.Helper()
	w.update(func(ctx context.Context, tx *partition.Tx) error {
		_, err := tx.Add(ctx, name(text), attributes(lines...), false)
		return err
	})
}

// definitions are the views of the tests, by name.
var definitions = map[string][]string{
	"cn=departments,cn=views": {"viewBase: " + base, "viewFilter: (!(title=former))", "viewGroup: departmentNumber",
		"viewTotal: count", "viewTotal: sum uidNumber", "viewTotal: min uidNumber", "viewTotal: max uidNumber"},
	"cn=all,cn=views":  {"viewBase: DC=example, DC=com", "viewGroup: l", "viewGroup: departmentNumber", "viewTotal: count"},
	"cn=list,cn=views": {"viewBase: " + base, "viewFilter: (!(title=former))", "viewOrder: departmentNumber uidNumber"},
}

func (w *world) define(text string) {
	rdn, _, _ := strings.Cut(strings.TrimPrefix(text, "cn="), ",")
	kind := materialized.Totals
	if rdn == "list" {
		kind = materialized.List
	}
	w.add(text, append([]string{"objectClass: " + string(kind), "cn: " + rdn}, definitions[text]...)...)
}

func (w *world) set(r *rand.Rand, description string, values ...string) []string {
	var lines []string
	for _, v := range values {
		if r.IntN(2) == 0 {
			lines = append(lines, description+": "+v)
		}
	}
	return lines
}

func (w *world) person() []string {
	lines := []string{"objectClass: inetOrgPerson", "objectClass: extensibleObject", "cn: x", "sn: x"}
	lines = append(lines, w.set(w.r, "departmentNumber", "Sales", "research", "7")...)
	if w.r.IntN(3) == 0 {
		lines = append(lines, "departmentNumber: "+[]string{"SALES", "Research "}[w.r.IntN(2)])
	}
	lines = append(lines, w.set(w.r, "l", "Bonn", "Rome")...)
	lines = append(lines, w.set(w.r, "title", "former")...)
	if w.r.IntN(4) > 0 {
		lines = append(lines, fmt.Sprintf("uidNumber: %d", w.r.IntN(7)*997-2500))
	}
	return lines
}

// change makes a random commit.
func (w *world) change() {
	names := w.names()
	if len(names) < 3 {
		w.add(fmt.Sprintf("ou=more%d,dc=example,dc=com", len(w.past)), "objectClass: organizationalUnit", "ou: more")
		return
	}
	at := func() string { return names[w.r.IntN(len(names))] }
	below := func() string { // a name other than the naming context's
		for {
			if text := at(); text != "dc=example,dc=com" {
				return text
			}
		}
	}
	w.n++
	fresh := fmt.Sprintf("uid=u%d", w.n)
	switch k := w.r.IntN(20); {
	case k < 8:
		w.add(fresh+","+at(), append(w.person(), "uid: "+fresh[4:])...)
	case k < 12:
		w.update(func(ctx context.Context, tx *partition.Tx) error {
			var changes []op.Modification
			for _, d := range []string{"departmentNumber", "l", "title", "uidNumber"} {
				var m op.Modification
				m.Kind, m.Description = op.ModReplace, d
				for _, a := range attributes(w.person()...) {
					if a.Description == d {
						m.Values = a.Values
					}
				}
				changes = append(changes, m)
			}
			return tx.Modify(ctx, name(at()), changes)
		})
	case k < 14:
		w.update(func(ctx context.Context, tx *partition.Tx) error { return tx.Delete(ctx, name(below())) })
	case k < 15:
		w.update(func(ctx context.Context, tx *partition.Tx) error {
			_, _, err := tx.DeleteTree(ctx, name(below()), 5)
			return err
		})
	case k < 18:
		w.update(func(ctx context.Context, tx *partition.Tx) error {
			to := name(at())
			return tx.Rename(ctx, name(below()), name(fresh)[0], false, &to)
		})
	case k < 19: // rename the base to another name, or back
		w.update(func(ctx context.Context, tx *partition.Tx) error {
			if _, err := tx.Find(ctx, name(base)); err != nil {
				return tx.Rename(ctx, name("ou=staff,dc=example,dc=com"), name("ou=people")[0], true, nil)
			}
			return tx.Rename(ctx, name(base), name("ou=staff")[0], true, nil)
		})
	default:
		text := slices.Sorted(maps.Keys(definitions))[w.r.IntN(len(definitions))]
		w.update(func(ctx context.Context, tx *partition.Tx) error { return tx.Delete(ctx, name(text)) })
		if w.r.IntN(3) > 0 {
			w.define(text)
		}
	}
}

// The method "names" returns the names of entries at and below the naming context.
func (w *world) names() (names []string) {
	s := state.Newest(w.p)
	defer s.Close()
	for _, e := range w.people(s) {
		names = append(names, e.name)
	}
	return names
}

type person struct {
	id     entry.ID
	name   string
	values func(attribute string) []string
}

// people returns all entries except the views and their container.
func (w *world) people(s *partition.Snapshot) (all []person) {
	ctx := context.Background()
	for r, err := range search.Search(ctx, s, partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}) {
		must(w.t, err)
		e, text := r.Entry, r.Name.String()
		if strings.HasSuffix(text, "cn=views") {
			continue
		}
		all = append(all, person{r.ID, text, func(attribute string) (vs []string) {
			for _, v := range e.Values(s.Schema().Attribute(attribute)) {
				vs = append(vs, string(v))
			}
			return vs
		}})
	}
	return all
}

// fold returns the form in which departments and places are compared.
func fold(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// expected computes the records of a view from its definition.
func (w *world) expected(s *partition.Snapshot, view string) []string {
	type group struct {
		spelling []string
		count    int
		numbers  []int
	}
	groups := map[string]*group{}
	put := func(key, spelling string, numbers []int) {
		g := groups[key]
		if g == nil {
			g = &group{}
			groups[key] = g
		}
		g.count++
		g.spelling, g.numbers = append(g.spelling, spelling), append(g.numbers, numbers...)
	}
	for _, e := range w.people(s) {
		var numbers []int
		for _, v := range e.values("uidNumber") {
			n, err := strconv.Atoi(v)
			must(w.t, err)
			numbers = append(numbers, n)
		}
		if view == "cn=departments,cn=views" {
			if strings.HasSuffix(e.name, base) && len(e.values("title")) == 0 {
				for _, d := range e.values("departmentNumber") {
					put(fold(d), d, numbers)
				}
			}
			continue
		}
		for _, d := range e.values("departmentNumber") {
			for _, l := range e.values("l") {
				put(fold(d)+"+"+fold(l), d+"+"+l, nil)
			}
		}
	}
	var lines []string
	for _, g := range groups {
		sum := 0
		for _, n := range g.numbers {
			sum += n
		}
		// Values are compared as the table stores them: with their lengths before them.
		slices.SortFunc(g.spelling, func(a, b string) int { return strings.Compare(lengths(a), lengths(b)) })
		line := fmt.Sprintf("%s count %d", g.spelling[0], g.count)
		if view == "cn=departments,cn=views" {
			least, most := "-", "-"
			if len(g.numbers) > 0 {
				least, most = strconv.Itoa(slices.Min(g.numbers)), strconv.Itoa(slices.Max(g.numbers))
			}
			line += fmt.Sprintf(" max uidNumber %s min uidNumber %s sum uidNumber %d", most, least, sum)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// lengths returns the values of a group, each with its length before it.
func lengths(group string) (b string) {
	for v := range strings.SplitSeq(group, "+") {
		b += fmt.Sprintf("%03d%s", len(v), v)
	}
	return b
}

// lines formats records in the form that expected returns.
func lines(d *materialized.Definition, rs []materialized.Record) (out []string) {
	for _, r := range rs {
		var values []string
		for _, v := range r.Values {
			values = append(values, string(v))
		}
		line := strings.Join(values, "+")
		for i, t := range d.Totals {
			text := "-"
			if r.Totals[i] != nil {
				text = (*big.Int)(r.Totals[i]).String()
			}
			line += " " + strings.TrimSpace(fmt.Sprintf("%s %s", t.Op, t.Attribute)) + " " + text
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// check compares the views of a state with their definitions.
func (w *world) check(s *partition.Snapshot, when string) {
	w.t.Helper()
	ctx := context.Background()
	w.checkCounts(s, when)
	defs, _, err := materialized.Definitions(ctx, s)
	must(w.t, err)
	for _, d := range defs {
		if d.Kind == materialized.List {
			w.checkList(s, d, when)
			continue
		}
		want := w.expected(s, d.Name.String())
		rs, err := materialized.Read(ctx, s, d, materialized.ReadOptions{})
		must(w.t, err)
		if got := lines(d, rs); !slices.Equal(got, want) {
			w.t.Fatalf("%s at %s %s:\n got %s\nwant %s", d.Name, s.Revision(), when, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
		for _, r := range rs {
			one, err := materialized.Read(ctx, s, d, materialized.ReadOptions{Key: r.Key})
			must(w.t, err)
			if len(one) != 1 || lines(d, one)[0] != lines(d, []materialized.Record{r})[0] {
				w.t.Fatalf("%s: the record %q read alone: %v", d.Name, r.Key, lines(d, one))
			}
		}
		w.kept[materialized.Kept(ctx, s, d)]++
	}
}

// checkCounts compares the numbers of subordinates with the numbers that follow from the
// names of the entries.
func (w *world) checkCounts(s *partition.Snapshot, when string) {
	w.t.Helper()
	all := w.people(s)
	for _, e := range all {
		want := catalog.Count{}
		for _, x := range all {
			if below, ok := strings.CutSuffix(x.name, ","+e.name); ok {
				want.All++
				if !strings.Contains(below, ",") {
					want.Children++
				}
			}
		}
		got, known, err := s.Subordinates(context.Background(), true, e.id)
		must(w.t, err)
		if known && got[0] != want {
			w.t.Fatalf("%s at %s %s has %v, want %v", e.name, s.Revision(), when, got, want)
		}
		w.counted[known]++
	}
}

// checkList compares a list with its definition: the whole list, a part that begins in the
// middle, and a part selected by a filter.
func (w *world) checkList(s *partition.Snapshot, d *materialized.Definition, when string) {
	w.t.Helper()
	want := w.expectedList(s)
	read := func(o materialized.ListOptions) (ids []entry.ID, keys []string) {
		for x, err := range materialized.Each(context.Background(), s, d, o) {
			must(w.t, err)
			ids, keys = append(ids, x.ID), append(keys, x.Key)
		}
		return ids, keys
	}
	got, keys := read(materialized.ListOptions{})
	if !slices.Equal(got, want) {
		w.t.Fatalf("%s at %s %s:\n got %v\nwant %v", d.Name, s.Revision(), when, got, want)
	}
	if len(keys) > 0 {
		i := w.r.IntN(len(keys))
		if rest, _ := read(materialized.ListOptions{After: keys[i]}); !slices.Equal(rest, want[i+1:]) {
			w.t.Fatalf("%s at %s %s behind %q:\n got %v\nwant %v", d.Name, s.Revision(), when, keys[i], rest, want[i+1:])
		}
	}
	f, err := filter.Parse([]string{"(departmentNumber=RESEARCH)", "(&(l=Bonn)(departmentNumber>=sales))", "(departmentNumber<=7)", "(departmentNumber=s*)"}[w.r.IntN(4)])
	must(w.t, err)
	resolved := filter.Resolve(f, s.Schema())
	matching := func(ids []entry.ID) []entry.ID {
		return slices.DeleteFunc(slices.Clone(ids), func(id entry.ID) bool {
			e, err := s.Entry(context.Background(), id, false)
			must(w.t, err)
			return resolved.Match(&filter.EntrySource{Schema: s.Schema(), Entry: e}) != filter.True
		})
	}
	some, _ := read(materialized.ListOptions{Filter: resolved})
	if got, want := matching(some), matching(want); !slices.Equal(got, want) {
		w.t.Fatalf("%s at %s %s with %s:\n got %v\nwant %v", d.Name, s.Revision(), when, f, got, want)
	}
	if len(some) < len(want) {
		w.ranges++
	}
	w.kept[materialized.ListKept(context.Background(), s, d)]++
}

// expectedList computes the entries of the list from its definition.
func (w *world) expectedList(s *partition.Snapshot) (ids []entry.ID) {
	keys := map[entry.ID]string{}
	for _, e := range w.people(s) {
		if !strings.HasSuffix(e.name, base) || len(e.values("title")) > 0 {
			continue
		}
		key := "~" // sorts last
		for i, d := range e.values("departmentNumber") {
			if d = fold(d); i == 0 || d < key {
				key = d
			}
		}
		number := "~"
		for _, v := range e.values("uidNumber") {
			n, err := strconv.Atoi(v)
			must(w.t, err)
			number = fmt.Sprintf("%08d", n+1_000_000)
		}
		keys[e.id] = key + " " + number + string(e.id[:])
		ids = append(ids, e.id)
	}
	slices.SortFunc(ids, func(a, b entry.ID) int { return strings.Compare(keys[a], keys[b]) })
	return ids
}

func (w *world) checkNow() {
	s := state.Newest(w.p)
	defer s.Close()
	w.check(s, "now")
}

func (w *world) checkPast() {
	r := w.past[w.r.IntN(len(w.past))]
	s, err := state.At(context.Background(), w.p, r)
	if errors.Is(err, txn.ErrRevision) {
		return // garbage collection has removed the state
	}
	must(w.t, err)
	defer s.Close()
	w.check(s, "in the past")
}

// step lets a manager work. It may end the manager's work at a random point of a step.
func (w *world) step() {
	i := w.r.IntN(len(w.managers))
	m := w.managers[i]
	left := w.r.IntN(12)
	m.SetPause(func(line string) error {
		if left--; left == 0 {
			w.lines[line]++
			return errCrash
		}
		return nil
	})
	err := m.Step(context.Background())
	m.SetPause(nil)
	if errors.Is(err, errCrash) {
		m.Close()
		w.managers[i] = materialized.NewManager(w.servers[i%len(w.servers)])
		return
	}
	must(w.t, err)
}

var histories = flag.Int("histories", 20, "random histories of TestViews; a quarter of them with two servers")

// TestViews makes random commits, lets managers work and end at random, and compares
// views with their definitions at random states.
func TestViews(t *testing.T) {
	stores := map[string]struct {
		open  func() table.Store
		crash func(w *world)
	}{
		"lsm": {func() table.Store {
			s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem(), NoSync: true})
			must(t, err)
			return s
		}, nil},
		"batches": {func() table.Store { return tabletest.NewBatchMem() }, func(w *world) {
			w.close()
			s := w.store.(*tabletest.BatchMem)
			s.Crash(w.r.IntN(3))
			w.open()
		}},
		"shared": {func() table.Store { return tabletest.NewMem() }, nil},
	}
	for _, kind := range slices.Sorted(maps.Keys(stores)) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			kept, counted, ends, ranges := map[bool]int{}, map[bool]int{}, map[string]int{}, 0
			n := *histories
			if kind == "shared" {
				n = (n + 3) / 4 // servers wait for one another
			}
			for seed := range n {
				w := &world{t: t, r: rand.New(rand.NewPCG(uint64(seed), 1)), store: stores[kind].open(), kept: kept, counted: counted, lines: ends}
				w.run(60, stores[kind].crash)
				ranges += w.ranges
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
				w.store.Close()
			}
			t.Logf("reads of kept records %d, of computed ones %d, of ranges %d; subordinates known of %d entries, unknown of %d; managers ended after %v",
				kept[true], kept[false], ranges, counted[true], counted[false], ends)
			if kept[true] < kept[false]/4 || counted[true] < counted[false]/4 || len(ends) < 2 || ranges == 0 {
				t.Error("the managers did too little")
			}
		})
	}
}

func (w *world) run(n int, crash func(*world)) {
	w.open()
	defer func() { w.close() }()
	must(w.t, onlineschema.SetSuffixes(context.Background(), w.p, []string{"dc=example,dc=com", "cn=views"}))
	w.add("dc=example,dc=com", "objectClass: dcObject", "objectClass: organization", "o: Example", "dc: example")
	w.add(base, "objectClass: organizationalUnit", "ou: people")
	w.add("ou=others,dc=example,dc=com", "objectClass: organizationalUnit", "ou: others")
	w.add("cn=views", "objectClass: viewContainer", "cn: views")
	w.define("cn=departments,cn=views")
	w.define("cn=all,cn=views")
	w.define("cn=list,cn=views")
	for range n {
		w.p = w.servers[w.r.IntN(len(w.servers))]
		switch k := w.r.IntN(10); {
		case k < 5:
			w.change()
		case k < 7:
			w.step()
		case k < 8:
			w.checkPast()
		case k == 8 && crash != nil && w.r.IntN(4) == 0:
			crash(w)
			w.past = slices.DeleteFunc(w.past, func(r table.Revision) bool { return r > w.newest() })
		case k == 8 && !w.p.DB.Shared() && w.r.IntN(4) == 0:
			_, err := w.p.DB.Collect(context.Background(), txn.CollectOptions{All: w.r.IntN(2) == 0})
			must(w.t, err)
			w.collections++
		default:
			w.checkNow()
		}
	}
	w.checkNow()
	for range 5 {
		w.checkPast()
	}
}

func (w *world) newest() table.Revision {
	s := state.Newest(w.p)
	defer s.Close()
	return s.Revision()
}

// TestLag checks that a manager publishes how far views are behind, and that nothing is
// published after the manager was closed.
func TestLag(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]table.Store{"embedded": tabletest.NewBatchMem(), "shared": tabletest.NewMem()} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			w := &world{t: t, r: rand.New(rand.NewPCG(1, 1)), store: store}
			w.open()
			defer w.close()
			must(t, onlineschema.SetSuffixes(ctx, w.p, []string{"dc=example,dc=com", "cn=views"}))
			w.add("dc=example,dc=com", "objectClass: dcObject", "objectClass: organization", "o: Example", "dc: example")
			w.add("cn=views", "objectClass: viewContainer", "cn: views")
			lag := func() uint64 { return w.p.ViewLag(time.Now()).Entries }
			step := func() {
				last := w.newest()
				for begin := time.Now(); time.Since(begin) < 30*time.Second; time.Sleep(time.Millisecond) {
					must(t, w.managers[0].Step(ctx))
					s := state.Newest(w.p)
					defs, _, err := materialized.Definitions(ctx, s)
					must(t, err)
					st, err := materialized.StatusOf(ctx, s, defs[0])
					must(t, err)
					s.Close()
					if st.State == "kept" && st.UpTo >= last {
						return
					}
				}
				t.Error("the view is not kept")
			}
			must(t, w.managers[0].Step(ctx))
			if lag() != 0 {
				t.Errorf("without views: %d", lag())
			}
			w.define("cn=all,cn=views")
			step()
			if lag() != 0 {
				t.Errorf("all is kept: %d", lag())
			}
			steps := &w.p.Views.Steps
			made := steps.Load()
			must(t, w.managers[0].Step(ctx))
			if name == "embedded" && steps.Load() != made {
				t.Error("a step was made although nothing was committed")
			}
			before := w.p.DB.Touched()
			w.people1("dc=example,dc=com", 20)
			if n := lag(); n < 20 || n != w.p.DB.Touched()-before {
				t.Errorf("20 entries more: %d", n)
			}
			step()
			if lag() != 0 {
				t.Errorf("these are kept, too: %d", lag())
			}
			w.people1(w.name("ou=x,dc=example,dc=com"), 2)
			w.managers[0].Close()
			if lag() != 0 {
				t.Errorf("nobody follows: %d", lag())
			}
		})
	}
}

// TestBuildBeside checks that existing views stay up to date while another view is built.
func TestBuildBeside(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := &world{t: t, r: rand.New(rand.NewPCG(1, 1)), store: tabletest.NewBatchMem()}
	w.open()
	defer w.close()
	must(t, onlineschema.SetSuffixes(ctx, w.p, []string{"dc=example,dc=com", "cn=views"}))
	w.add("dc=example,dc=com", "objectClass: dcObject", "objectClass: organization", "o: Example", "dc: example")
	w.add("ou=people,dc=example,dc=com", "objectClass: organizationalUnit", "ou: people")
	w.add("cn=views", "objectClass: viewContainer", "cn: views")
	w.define("cn=all,cn=views")
	w.people1("ou=people,dc=example,dc=com", materialized.LookEvery)
	m := w.managers[1]
	must(t, m.Step(ctx))
	upTo := func(name string) table.Revision {
		s := state.Newest(w.p)
		defer s.Close()
		defs, _, err := materialized.Definitions(ctx, s)
		must(t, err)
		i := slices.IndexFunc(defs, func(d *materialized.Definition) bool { return d.Name.String() == name })
		st, err := materialized.StatusOf(ctx, s, defs[i])
		must(t, err)
		return st.UpTo
	}
	w.define("cn=list,cn=views")
	announced, beside := false, false
	m.SetPause(func(line string) error {
		switch {
		case line == "announced" && !announced:
			announced = true
			w.people1("dc=example,dc=com", 1)
		case line == "computed" && upTo("cn=list,cn=views") == 0:
			beside = beside || upTo("cn=all,cn=views") >= w.newest()
		}
		return nil
	})
	must(t, m.Step(ctx))
	if !announced || !beside {
		t.Errorf("the list was announced: %v; meanwhile the other view was kept: %v", announced, beside)
	}
	must(t, m.Step(ctx))
	if upTo("cn=list,cn=views") < w.newest() {
		t.Error("the list is not kept")
	}
}

// name adds an entry and returns its name.
func (w *world) name(text string) string {
	w.t.Helper()
	w.add(text, "objectClass: organizationalUnit", "ou: x")
	return text
}

// TestShare has three servers keep the views of a store. It checks that views reach the
// newest commit while all servers work, while one of them does no work, and after another
// server has left.
func TestShare(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := &world{t: t, r: rand.New(rand.NewPCG(1, 1)), store: tabletest.NewMem()}
	var stop []func()
	for i := range 3 {
		p, err := partition.Open(ctx, w.store, partition.Options{Create: true, Txn: txn.Options{Poll: 10 * time.Millisecond}})
		must(t, err)
		w.servers, w.p = append(w.servers, p), p
		m := materialized.NewManager(p)
		m.Share()
		runs, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer m.Close()
			m.Run(runs, func(err error) { t.Logf("server %d: %v", i, err) })
		}()
		stop = append(stop, func() { cancel(); <-done })
	}
	must(t, onlineschema.SetSuffixes(ctx, w.p, []string{"dc=example,dc=com", "cn=views"}))
	w.add("dc=example,dc=com", "objectClass: dcObject", "objectClass: organization", "o: Example", "dc: example")
	w.add("cn=views", "objectClass: viewContainer", "cn: views")
	w.define("cn=all,cn=views")
	w.awaitKept("three servers")
	stop[0]()
	w.awaitKept("one of three managers does nothing")
	stop[1]()
	must(t, w.servers[1].Close(ctx))
	w.awaitKept("one of two servers is gone")
	stop[2]()
	must(t, w.servers[0].Close(ctx))
	must(t, w.servers[2].Close(ctx))
}

// awaitKept makes a commit and waits until the first view shows it.
func (w *world) awaitKept(when string) {
	w.t.Helper()
	ctx := context.Background()
	w.n++
	w.add(fmt.Sprintf("l=l%d,dc=example,dc=com", w.n), "objectClass: locality", "l: l"+strconv.Itoa(w.n))
	last := w.newest()
	begin := time.Now()
	for time.Since(begin) < 30*time.Second {
		s := state.Newest(w.p)
		defs, _, err := materialized.Definitions(ctx, s)
		must(w.t, err)
		st, err := materialized.StatusOf(ctx, s, defs[0])
		must(w.t, err)
		s.Close()
		if st.State == "kept" && st.UpTo >= last {
			w.t.Logf("%s: kept after %v", when, time.Since(begin).Round(100*time.Millisecond))
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.t.Fatalf("%s: the views are not kept after %v", when, time.Since(begin))
}
