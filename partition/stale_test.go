package partition_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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

// shown returns the names and some values of the entries in a state, and the results of a
// search for each title. It checks that each entry is found by its name.
func shown(t *testing.T, s *partition.Snapshot, titles int) string {
	ctx := context.Background()
	var b strings.Builder
	at, err := s.Find(ctx, name(domain))
	if err != nil {
		return err.Error()
	}
	list := func(f string) (ids []entry.ID) {
		fmt.Fprintf(&b, "%s:", f)
		var names []string
		for r, err := range search.Search(ctx, s, partition.Query{Base: at.ID, Scope: op.WholeSubtree, Filter: filter.Resolve(filter.MustParse(f), s.Schema())}) {
			if err != nil {
				t.Error(err)
				return nil
			}
			line := r.Name.String()
			for _, a := range r.Entry.Attributes {
				if slices.Contains([]string{"title", "description", "entryCSN"}, a.Type.Name()) {
					line += fmt.Sprintf(" %q", a.Values)
				}
			}
			names, ids = append(names, line), append(ids, r.Entry.ID)
		}
		slices.Sort(names)
		fmt.Fprintln(&b, strings.Join(names, "; "))
		return ids
	}
	for _, id := range list("(objectClass=*)") {
		n, err := s.Name(ctx, id)
		if err != nil {
			t.Error(err)
			continue
		}
		found, err := s.Find(ctx, name(n.String()))
		if err != nil || found.ID != id {
			t.Errorf("%s leads to %v, not to %v: %v", n, found.ID, id, err)
		}
	}
	for i := range titles {
		list(fmt.Sprintf("(title=%d)", i))
	}
	return b.String()
}

// TestCachesAgreeWithStore checks that cached reads return the same values, names and
// search results as reads of the store at the same snapshot, whatever other servers
// change at the same time.
func TestCachesAgreeWithStore(t *testing.T) {
	ctx := context.Background()
	s := tabletest.NewMem()
	first := server(t, s)
	must(t, onlineschema.SetSuffixes(ctx, first, []string{domain}))
	must(t, add(t, first, domain, domainLines...))
	const units, people, titles, rounds = 2, 4, 3, 25
	for i := range units {
		must(t, add(t, first, fmt.Sprintf("ou=%d,%s", i, domain), "objectClass: organizationalUnit"))
	}
	servers := []*partition.Partition{first, server(t, s), server(t, s)}
	for _, p := range servers {
		must(t, p.CatchUp(ctx))
	}
	var writers sync.WaitGroup
	done := make(chan struct{})
	for i, p := range servers {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(i)))
			for range rounds {
				change := randomChange(r, units, people, titles)
				expected(t, update(t, p, change), partition.NoSuchEntry, partition.EntryExists, partition.NotLeaf)
			}
		})
	}
	go func() { writers.Wait(); close(done) }()
	var readers sync.WaitGroup
	for _, p := range servers {
		readers.Go(func() {
			for last := false; !last; {
				select {
				case <-done:
					last = true
				default:
				}
				at := state.Newest(p)
				if got, want := shown(t, at, titles), shown(t, uncached(at), titles); got != want {
					t.Errorf("cached:\n%s\nin the store:\n%s", got, want)
					last = true
				}
				at.Close()
			}
		})
	}
	readers.Wait()
	<-done
	for _, p := range servers {
		must(t, p.CatchUp(ctx))
		wantSound(t, p)
	}
}

// TestCachesInTransactions checks that a transaction that has made changes reads the same with
// caches as without. It also checks that the caches contain no uncommitted data afterwards.
func TestCachesInTransactions(t *testing.T) {
	ctx := context.Background()
	p := server(t, tabletest.NewMem())
	must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
	must(t, add(t, p, domain, domainLines...))
	const units, people, titles = 2, 4, 3
	for i := range units {
		must(t, add(t, p, fmt.Sprintf("ou=%d,%s", i, domain), "objectClass: organizationalUnit"))
	}
	errAbort := errors.New("abort")
	r := rand.New(rand.NewPCG(3, 5))
	for range 300 {
		changes := make([]func(*partition.Tx) error, 1+r.IntN(6))
		for i := range changes {
			changes[i] = randomChange(r, units, people, titles)
		}
		abort := r.IntN(3) == 0
		err := update(t, p, func(tx *partition.Tx) error {
			for _, change := range changes {
				if err := change(tx); err != nil {
					return err
				}
				if got, want := shown(t, &tx.Snapshot, titles), shown(t, uncached(&tx.Snapshot), titles); got != want {
					t.Fatalf("cached:\n%s\nin the transaction:\n%s", got, want)
				}
			}
			if abort {
				return errAbort
			}
			return nil
		})
		if !errors.Is(err, errAbort) {
			expected(t, err, partition.NoSuchEntry, partition.EntryExists, partition.NotLeaf)
		}
		at := state.Newest(p)
		if got, want := shown(t, at, titles), shown(t, uncached(at), titles); got != want {
			t.Fatalf("cached:\n%s\nin the store:\n%s", got, want)
		}
		at.Close()
	}
	wantSound(t, p)
}

// randomChange returns a function that adds, deletes, moves or modifies a person, or renames a
// unit.
func randomChange(r *rand.Rand, units, people, titles int) func(*partition.Tx) error {
	ctx := context.Background()
	unit, other := r.IntN(units+1), r.IntN(units+1) // the highest number belongs to no unit
	person := fmt.Sprintf("cn=%d,ou=%d,%s", r.IntN(people), unit, domain)
	title := fmt.Sprint(r.IntN(titles))
	above := name(fmt.Sprintf("ou=%d,%s", other, domain))
	kind, next, text := r.IntN(8), r.IntN(units+1), fmt.Sprint(r.IntN(100))
	return func(tx *partition.Tx) error {
		switch kind {
		case 0, 1:
			_, err := tx.Add(ctx, name(person), attrs("objectClass: person", "objectClass: organizationalPerson", "sn: x", "title: "+title), false)
			return err
		case 2:
			return tx.Delete(ctx, name(person))
		case 3:
			return tx.Rename(ctx, name(person), name(person)[0], true, &above)
		case 4: // changes the names of all entries below
			return tx.Rename(ctx, above, name(fmt.Sprintf("ou=%d", next))[0], true, nil)
		default:
			return tx.Modify(ctx, name(person), []op.Modification{
				change(op.ModReplace, "title", []byte(title)),
				change(op.ModReplace, "description", []byte(text)),
			})
		}
	}
}

// uncached returns a snapshot of the same state that reads without caches. Closing s closes
// the result too.
func uncached(s *partition.Snapshot) *partition.Snapshot {
	u := *s
	u.Cached, u.Written = false, false
	return &u
}
