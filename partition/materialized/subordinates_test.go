package materialized_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
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
