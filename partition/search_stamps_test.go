package partition_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

var (
	stampSeed  = flag.Uint64("stamp-seed", 0, "the seed of TestStampsModel")
	stampSteps = flag.Int("stamp-steps", 200, "changes of each history of TestStampsModel")
)

// TestStampsModel makes random histories: changes on the trunk and in branches, imports and copies
// with stamps in the past and in the future, loads, and collections. It compares searches for the
// entries that changed since a time with scans, in the newest state and in states of the past, and
// page by page while the history goes on.
func TestStampsModel(t *testing.T) {
	t.Parallel()
	seed := *stampSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	eachEraseStore(t, func(t *testing.T, s table.Store) {
		t.Logf("again: -stamp-seed %d", seed)
		ctx := context.Background()
		m := &stampModel{t: t, r: rand.New(rand.NewPCG(seed, 1)), second: time.Second}
		o := partition.Options{Format: *storeFormat, Create: true, Schema: tagged, Txn: txn.Options{Poll: time.Millisecond, SecretAge: time.Nanosecond, Now: m.now}}
		steps := *stampSteps
		if _, ok := s.(table.Batcher); !ok {
			steps = steps * 3 / 8
			m.second = time.Millisecond // leases end in real time, so the clock must not be faster
		}
		p, err := partition.Open(ctx, s, o)
		must(t, err)
		t.Cleanup(func() { p.Close(ctx) })
		must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
		must(t, add(t, p, domain, domainLines...))
		for _, ou := range stampUnits {
			must(t, add(t, p, ou, "objectClass: organizationalUnit"))
		}
		m.p = p
		used := func() bool { return m.journal >= 10 && m.past > 0 && m.further > 0 }
		for i := 0; i < steps || i < 10*steps && !used(); i++ {
			m.step(ctx)
			if t.Failed() {
				t.FailNow()
			}
		}
		t.Logf("%d searches, %d by the journal, %d of the past, %d of further pages", m.searches, m.journal, m.past, m.further)
		if !used() {
			t.Error("the journal was hardly used")
		}
	})
}

var stampUnits = []string{"ou=a," + domain, "ou=b," + domain}

type stampModel struct {
	t     *testing.T
	p     *partition.Partition
	r     *rand.Rand
	clock atomic.Int64 // how far the clock is ahead
	// second is what an hour has 3600 of in the history.
	second time.Duration
	open   []*branch.Branch
	kept   []table.Revision // states of the past to search
	pages  []*pagedSearch
	made   int

	searches, journal, past, further int
}

// A pagedSearch has returned some results.
type pagedSearch struct {
	revision table.Revision
	q        func(*partition.Snapshot) partition.Query
	got      []string
	after    []byte
}

// stamp returns a time near the present, often in the future.
func (m *stampModel) stamp() string {
	most := []int{60, 600, 10_000}[m.r.IntN(3)]
	return string(schema.AppendTime(nil, m.now().Add(time.Duration(m.r.IntN(2*most)-most*3/2)*m.second)))
}

func (m *stampModel) now() time.Time { return time.Now().Add(time.Duration(m.clock.Load())) }

// pause lets time pass.
func (m *stampModel) pause() {
	d := time.Duration(m.r.IntN(100)) * m.second
	if m.second < time.Second {
		time.Sleep(d)
		return
	}
	m.clock.Add(int64(d))
}

func (m *stampModel) dn() string {
	return fmt.Sprintf("uid=u%d,%s", m.r.IntN(40), stampUnits[m.r.IntN(2)])
}

func (m *stampModel) step(ctx context.Context) {
	m.pause()
	switch n := m.r.IntN(40); {
	case n < 2 && len(m.open) < 2:
		m.made++
		b, err := branch.Create(ctx, m.p, branch.Options{Name: fmt.Sprint("b", m.made)})
		must(m.t, err)
		m.open = append(m.open, b)
	case n < 4 && len(m.open) > 0:
		i := m.r.IntN(len(m.open))
		if _, err := m.open[i].Merge(ctx, partition.By{}); err != nil {
			must(m.t, m.open[i].Discard(ctx))
		}
		m.open = slices.Delete(m.open, i, i+1)
	case n == 4 && len(m.open) == 0 && m.r.IntN(2) == 0:
		m.load()
	case n == 5 && (m.second == time.Second || len(m.open) == 0): // on a shared store, branches make a collection wait
		m.collect(ctx)
	case n == 6 || n == 7 || len(m.kept) == 0:
		if len(m.kept) == 4 { // every step searches all of them
			i := m.r.IntN(4)
			m.kept = slices.Delete(m.kept, i, i+1)
		}
		m.kept = append(m.kept, state.Newest(m.p).Revision())
	case n < 12 && len(m.open) > 0:
		m.change(ctx, m.open[m.r.IntN(len(m.open))].Update)
	default:
		m.change(ctx, updating(m.p))
	}
	s := state.Newest(m.p)
	m.compare(ctx, s)
	s.Close()
	for i := len(m.kept) - 1; i >= 0; i-- {
		s, err := state.At(ctx, m.p, m.kept[i])
		if passed := new(txn.HorizonError); errors.As(err, &passed) {
			m.kept = slices.Delete(m.kept, i, i+1)
			continue
		}
		must(m.t, err)
		m.past += m.compare(ctx, s)
		s.Close()
	}
	for i := len(m.pages) - 1; i >= 0; i-- {
		if m.r.IntN(3) == 0 && !m.nextPage(ctx, m.pages[i]) {
			m.pages = slices.Delete(m.pages, i, i+1)
		}
	}
}

// change makes a random change. A change that is impossible is no change.
func (m *stampModel) change(ctx context.Context, update func(context.Context, partition.By, func(*partition.Tx) error) (table.Revision, error)) {
	at, other, text, n := name(m.dn()), name(m.dn()), m.stamp(), m.r.IntN(16)
	person := []string{"objectClass: inetOrgPerson", "cn: x", "sn: x"}
	_, _ = update(ctx, partition.By{Name: "cn=model"}, func(tx *partition.Tx) error {
		switch {
		case n < 4:
			_, err := tx.Add(ctx, at, attrs(person...), false)
			return err
		case n < 6:
			_, err := tx.Add(ctx, at, attrs(append(person, "createTimestamp: "+text, "modifyTimestamp: "+text)...), true)
			return err
		case n < 8:
			tx.Rules = partition.Rules{Relaxed: true, Kept: true}
			return tx.Modify(ctx, at, []op.Modification{change(op.ModReplace, []string{"createTimestamp", "modifyTimestamp"}[n-6], []byte(text))})
		case n == 8:
			parent := other.Parent()
			return tx.Rename(ctx, at, other[0], true, &parent)
		case n == 9:
			return tx.Delete(ctx, at)
		}
		return tx.Modify(ctx, at, []op.Modification{change(op.ModReplace, "description", []byte(text))})
	})
}

// collect collects garbage. On a shared store this takes until a commit publishes the new horizon.
func (m *stampModel) collect(ctx context.Context) {
	retention := time.Duration(60+m.r.IntN(7200)) * m.second
	done := make(chan error)
	go func() {
		_, err := m.p.DB.Collect(ctx, txn.CollectOptions{Retention: retention})
		done <- err
	}()
	for {
		select {
		case err := <-done:
			must(m.t, err)
			return
		case <-time.After(10 * time.Millisecond):
			must(m.t, modify(m.t, m.p, domain, change(op.ModReplace, "description", []byte(m.stamp()))))
		}
	}
}

func (m *stampModel) load() {
	l := begun(m.t, m.p)
	text := m.stamp()
	for range 1 + m.r.IntN(3) {
		// An entry that exists is refused.
		_ = loadAdd(l, m.dn(), "objectClass: inetOrgPerson", "cn: x", "sn: x", "createTimestamp: "+text, "modifyTimestamp: "+text)
	}
	commit(m.t, l)
}

// query returns a random search for what changed since a time, and the same search in a form that
// only a scan serves.
func (m *stampModel) query() (q, scan func(*partition.Snapshot) partition.Query) {
	attribute := []string{"modifyTimestamp", "createTimestamp"}[m.r.IntN(2)]
	test := fmt.Sprintf("(%s>=%s)", attribute, m.stamp())
	and := []string{"%s", "(&(objectClass=inetOrgPerson)%s)", "(&%s(" + attribute + "<=" + m.stamp() + "))", "(&(&(sn=x)%s)(uid=*))"}[m.r.IntN(4)]
	base := append(stampUnits, domain, "")[m.r.IntN(4)]
	scope := []op.Scope{op.SingleLevel, op.WholeSubtree, op.WholeSubtree, op.Subordinates}[m.r.IntN(4)]
	of := func(test string) func(*partition.Snapshot) partition.Query {
		return func(s *partition.Snapshot) partition.Query {
			at, err := s.Find(context.Background(), name(base))
			must(m.t, err)
			return partition.Query{Base: at.ID, Scope: scope, Filter: filter.Resolve(filter.MustParse(fmt.Sprintf(and, test)), s.Schema())}
		}
	}
	return of(test), of("(|" + test + "(title=nobody's))")
}

// compare runs a random search on a state in both forms. It returns 1 if the journal was used.
func (m *stampModel) compare(ctx context.Context, s *partition.Snapshot) int {
	m.t.Helper()
	q, scan := m.query()
	if m.r.IntN(20) > 0 {
		must(m.t, search.Learn(ctx, s, q(s)))
	}
	var cost, whole partition.Cost
	fast, slow := q(s), scan(s)
	fast.Cost, slow.Cost = &cost, &whole
	got, want := stampNames(m.t, search.Search(ctx, s, fast)), stampNames(m.t, search.Search(ctx, s, slow))
	if !slices.Equal(got, want) {
		m.t.Errorf("at %s, %s from %s: the search finds\n%s\nand a scan finds\n%s", s.Revision(), fast.Filter, fast.Base, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	m.searches++
	byJournal := func(c partition.Cost) bool { return len(c.Indexes) == 1 && c.Indexes[0].Kind == "journal" }
	if byJournal(whole) {
		m.t.Error("the scan used the journal")
	}
	if !byJournal(cost) {
		return 0
	}
	m.journal++
	if len(m.pages) < 5 {
		m.pages = append(m.pages, &pagedSearch{revision: s.Revision(), q: q})
	}
	return 1
}

// nextPage reads another page of a search. It returns false at the end of the search, and compares
// the results then.
func (m *stampModel) nextPage(ctx context.Context, p *pagedSearch) (more bool) {
	s, err := state.At(ctx, m.p, p.revision)
	if passed := new(txn.HorizonError); errors.As(err, &passed) {
		return false
	}
	must(m.t, err)
	defer s.Close()
	q := p.q(s)
	q.After = p.after
	if len(p.after) > 0 {
		m.further++
	}
	size := 1 + m.r.IntN(3)
	for r, err := range search.Search(ctx, s, q) {
		must(m.t, err)
		p.got = append(p.got, r.Name.String())
		p.after = slices.Clone(r.Position)
		if size--; size == 0 {
			return true
		}
	}
	q.After, q.Filter = nil, filter.MakeOr(q.Filter, filter.Resolve(filter.MustParse("(title=nobody's)"), s.Schema()))
	if want := stampNames(m.t, search.Search(ctx, s, q)); !slices.Equal(slices.Sorted(slices.Values(p.got)), want) {
		m.t.Errorf("at %s, %s: the pages have %q, a scan finds %q", s.Revision(), q.Filter, p.got, want)
	}
	return false
}

func stampNames(t *testing.T, found iter.Seq2[*partition.Result, error]) (names []string) {
	for r, err := range found {
		must(t, err)
		names = append(names, r.Name.String())
	}
	slices.Sort(names)
	return names
}

// TestStampsAhead checks that searches find stamps that were in the future when they were written,
// also in a state of the past that a later commit has replaced, and what a load has added.
func TestStampsAhead(t *testing.T) {
	eachUnbranched(t, func(t *testing.T, w *branched) {
		ctx := context.Background()
		at := func(d time.Duration) string { return string(schema.AppendTime(nil, time.Now().Add(d))) }
		also := "(description=*)"
		found := func(s *partition.Snapshot, since time.Duration) (names, by string) {
			var cost partition.Cost
			q := partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Cost: &cost,
				Filter: filter.Resolve(filter.MustParse("(&"+also+"(modifyTimestamp>="+at(since)+"))"), s.Schema())}
			must(t, search.Learn(ctx, s, q))
			names = strings.Join(stampNames(t, search.Search(ctx, s, q)), " ")
			if len(cost.Indexes) > 0 {
				by = cost.Indexes[0].String()
			}
			return names, by
		}
		want := func(s *partition.Snapshot, since time.Duration, want, wantBy string) {
			t.Helper()
			defer s.Close()
			if got, by := found(s, since); got != want || by != wantBy {
				t.Errorf("found %q by %q, want %q by %q", got, by, want, wantBy)
			}
		}
		const byJournal = "modifyTimestamp journal"
		all := fmt.Sprintf("uid=ann,%[1]s uid=bob,%[1]s uid=cid,%[1]s", people)
		want(state.Newest(w.p), -time.Minute, all, byJournal)
		// A load is not in the journal entry by entry.
		l := begun(t, w.p)
		must(t, loadAdd(l, "uid=eve,"+people, "objectClass: inetOrgPerson", "cn: Eve", "sn: E", "description: x", "modifyTimestamp: "+at(0)))
		commit(t, l)
		all += " uid=eve," + people
		want(state.Newest(w.p), -time.Minute, all, "")

		also = "(objectClass=person)"
		// A column in memory or an index with few candidates is cheaper than the journal.
		must(t, update(t, w.p, func(tx *partition.Tx) (err error) {
			for i := 0; i < 300 && err == nil; i++ {
				_, err = tx.Add(ctx, name(fmt.Sprintf("uid=u%d,%s", i, people)), attrs("objectClass: inetOrgPerson", "cn: x", "sn: x", "modifyTimestamp: 20200101000000Z"), true)
			}
			return err
		}))
		want(state.Newest(w.p), time.Minute, "", byJournal)
		cheaper := "modifyTimestamp column"
		if w.p.DB.Shared() {
			cheaper = "objectClass value"
		}
		want(state.Newest(w.p), -time.Minute, all, cheaper)
		must(t, update(t, w.p, func(tx *partition.Tx) error {
			_, err := tx.Add(ctx, name("uid=dan,"+people), attrs("objectClass: inetOrgPerson", "cn: Dan", "sn: D", "modifyTimestamp: "+at(time.Hour)), true)
			return err
		}))
		want(state.Newest(w.p), time.Minute, "uid=dan,"+people, byJournal)
		then := state.Newest(w.p).Revision()
		must(t, modify(t, w.p, "uid=dan,"+people, change(op.ModReplace, "sn", []byte("Dee"))))
		w.p.Ahead.Store(nil)
		want(state.Newest(w.p), time.Minute, "", byJournal)
		past, err := state.At(ctx, w.p, then)
		must(t, err)
		want(past, time.Minute, "uid=dan,"+people, byJournal)
	})
}
