package materialized_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

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
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// crowd returns a directory with a small subtree of six entries, and another subtree with
// n people.
func crowd(t *testing.T, n int) *world {
	t.Helper()
	w := &world{t: t, r: rand.New(rand.NewPCG(1, 1)), store: tabletest.NewBatchMem()}
	w.open()
	t.Cleanup(w.close)
	must(t, onlineschema.SetSuffixes(context.Background(), w.p, []string{"dc=example,dc=com"}))
	w.add("dc=example,dc=com", "objectClass: dcObject", "objectClass: organization", "o: Example", "dc: example")
	w.add(base, "objectClass: organizationalUnit", "ou: people")
	w.add("ou=few,dc=example,dc=com", "objectClass: organizationalUnit", "ou: few")
	w.people1(base, n)
	w.people1("ou=few,dc=example,dc=com", 5)
	return w
}

// people1 adds people in one commit.
func (w *world) people1(above string, n int) {
	w.t.Helper()
	w.update(func(ctx context.Context, tx *partition.Tx) error {
		for i := range n {
			text := fmt.Sprintf("uid=%d,%s", i, above)
			if _, err := tx.Add(ctx, name(text), attributes("objectClass: inetOrgPerson", "cn: x", "sn: x"), false); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestWalk searches a subtree that has far fewer entries than the index has candidates. It
// checks that the search walks the subtree when the number of these entries is known, that the
// walk finds the same entries as the index, and that a search can continue behind a position
// of the walk or of the index.
func TestWalk(t *testing.T) {
	w := crowd(t, 600)
	ctx := context.Background()
	s := state.Newest(w.p)
	defer s.Close()
	at, err := s.Find(ctx, name("ou=few,dc=example,dc=com"))
	must(t, err)
	f, err := filter.Parse("(objectClass=person)")
	must(t, err)
	q := search.Query{Base: at.ID, Scope: op.WholeSubtree, Filter: filter.Resolve(f, s.Schema())}
	find := func(q search.Query) (ids []entry.ID, positions [][]byte) {
		for r, err := range search.Search(ctx, s, q) {
			must(t, err)
			ids, positions = append(ids, r.ID), append(positions, slices.Clone(r.Position))
		}
		slices.SortFunc(ids, entry.ID.Compare)
		return ids, positions
	}
	explain := func() string {
		text, err := search.Explain(ctx, s, q, true)
		must(t, err)
		return text
	}
	want, positions := find(q)
	if text := explain(); !strings.Contains(text, "value in index_objectClass") || strings.Contains(text, "walk") {
		t.Errorf("before the numbers are kept:\n%s", text)
	}
	old := q
	old.After = positions[2]
	rest, _ := find(old)
	must(t, w.managers[0].Step(ctx))
	text := explain()
	if !strings.HasPrefix(text, "walk of the subtree, which is shorter than\n  value in index_objectClass") || !strings.Contains(text, "5 entries found, 6 looked at") {
		t.Errorf("with the numbers:\n%s", text)
	}
	got, positions := find(q)
	if !slices.Equal(got, want) {
		t.Errorf("a walk finds %v, want %v", got, want)
	}
	for i, p := range positions {
		next := q
		next.After = p
		if got, _ := find(next); len(got) != len(want)-i-1 {
			t.Errorf("behind the result %d there are %d", i, len(got))
		}
	}
	if got, _ := find(old); !slices.Equal(got, rest) {
		t.Errorf("a search that began with an index continues with %v, want %v", got, rest)
	}
	q.Base, _ = func() (entry.ID, error) { at, err := s.Find(ctx, name(base)); return at.ID, err }()
	if text := explain(); strings.Contains(text, "walk") {
		t.Errorf("below the large subtree:\n%s", text)
	}
}

// A stalling store holds back writes of rows of the tree whose keys contain "slow".
type stalling struct {
	*tabletest.Mem
	began, end chan struct{}
}

type stallingTable struct {
	table.Table
	table.Versioner
	s *stalling
}

func (s *stalling) Table(name string) table.Table {
	t := s.Mem.Table(name)
	if name != tree.Name {
		return t
	}
	return stallingTable{t, t.(table.Versioner), s}
}

func (t stallingTable) Apply(ctx context.Context, r table.Revision, ms []table.Mutation) error {
	if slices.ContainsFunc(ms, func(m table.Mutation) bool { return strings.Contains(string(m.Row), "slow") }) {
		t.s.began <- struct{}{}
		<-t.s.end
	}
	return t.Table.Apply(ctx, r, ms)
}

// TestCountBehindUndecided counts children in a state that shows a commit, while an earlier commit of
// the same server is still undecided.
func TestCountBehindUndecided(t *testing.T) {
	ctx := context.Background()
	store := &stalling{tabletest.NewMem(), make(chan struct{}), make(chan struct{})}
	p, err := partition.Open(ctx, store, partition.Options{Create: true, Txn: txn.Options{Poll: 10 * time.Millisecond}})
	must(t, err)
	defer p.Close(ctx)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}))
	add := func(dn string, lines ...string) error {
		_, err := write.Update(ctx, p, partition.By{}, func(tx *partition.Tx) error {
			_, err := tx.Add(ctx, name(dn), attributes(lines...), false)
			return err
		})
		return err
	}
	must(t, add("dc=example,dc=com", "objectClass: dcObject", "objectClass: organization", "o: Example", "dc: example"))
	must(t, add("ou=people,dc=example,dc=com", "objectClass: organizationalUnit", "ou: people"))
	count := func() (catalog.Count, bool) {
		s := state.Newest(p)
		defer s.Close()
		at, err := s.Find(ctx, name("ou=people,dc=example,dc=com"))
		must(t, err)
		ns, known, err := s.Subordinates(ctx, true, at.ID)
		must(t, err)
		if !known {
			return catalog.Count{}, false
		}
		return ns[0], true
	}
	count() // asks for the numbers
	must(t, materialized.NewManager(p).Step(ctx))
	if n, known := count(); !known || n != (catalog.Count{}) {
		t.Fatalf("before: %v, known %v", n, known)
	}
	slow := make(chan error)
	go func() {
		slow <- add("ou=slow,ou=people,dc=example,dc=com", "objectClass: organizationalUnit", "ou: slow")
	}()
	<-store.began
	must(t, add("ou=quick,ou=people,dc=example,dc=com", "objectClass: organizationalUnit", "ou: quick"))
	if n, known := count(); !known || n != (catalog.Count{Children: 1, All: 1}) {
		t.Errorf("beside an undecided commit: %v, known %v", n, known)
	}
	close(store.end)
	must(t, <-slow)
	if n, known := count(); !known || n != (catalog.Count{Children: 2, All: 2}) {
		t.Errorf("afterwards: %v, known %v", n, known)
	}
}
