package partition_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// TestPostingsFollowCommits checks that postings in memory include the commits of this
// server and of other servers. After each commit, searches by one value and by two values
// must find the same entries as the model.
func TestPostingsFollowCommits(t *testing.T) {
	ctx := context.Background()
	s := tabletest.NewMem()
	first := server(t, s)
	must(t, onlineschema.SetSuffixes(ctx, first, []string{domain}))
	must(t, add(t, first, domain, domainLines...))
	servers := []*partition.Partition{first, server(t, s)}
	const people, values, rounds = 60, 3, 200
	random := rand.New(rand.NewPCG(1, 2))
	model := map[int][2]int{} // numbers of each person's department and title
	person := func(i int) string { return fmt.Sprintf("cn=%d,%s", i, domain) }
	for i := range people {
		model[i] = [2]int{i % values, i % 2}
		must(t, add(t, first, person(i), "objectClass: inetOrgPerson", "sn: x", fmt.Sprintf("departmentNumber: d%d", i%values), fmt.Sprintf("title: t%d", i%2)))
	}
	for round := range rounds {
		p, i := servers[random.IntN(2)], random.IntN(people)
		must(t, p.CatchUp(ctx))
		v, known := model[i]
		switch {
		case !known:
			model[i] = v
			must(t, add(t, p, person(i), "objectClass: inetOrgPerson", "sn: x", "departmentNumber: d0", "title: t0"))
		case random.IntN(3) == 0:
			delete(model, i)
			must(t, update(t, p, func(tx *partition.Tx) error { return tx.Delete(ctx, name(person(i))) }))
		default:
			v[0] = random.IntN(values)
			model[i] = v
			must(t, update(t, p, func(tx *partition.Tx) error {
				return tx.Modify(ctx, name(person(i)), []op.Modification{{Kind: op.ModReplace, PartialAttribute: attrs(fmt.Sprintf("departmentNumber: d%d", v[0]))[0]}})
			}))
		}
		for n, p := range servers {
			must(t, p.CatchUp(ctx))
			for d := range values {
				var one, both []string
				for i, v := range model {
					if v[0] == d {
						one = append(one, person(i))
					}
					if v == [2]int{d, 1} {
						both = append(both, person(i))
					}
				}
				isFound(t, fmt.Sprintf("round %d, server %d", round, n), p, fmt.Sprintf("(departmentNumber=d%d)", d), one)
				isFound(t, fmt.Sprintf("round %d, server %d", round, n), p, fmt.Sprintf("(&(departmentNumber=d%d)(title=t1))", d), both)
			}
		}
		if t.Failed() {
			return
		}
	}
}

func isFound(t *testing.T, when string, p *partition.Partition, f string, want []string) {
	t.Helper()
	ctx := context.Background()
	s := state.Newest(p)
	defer s.Close()
	at, err := s.Find(ctx, name(domain))
	must(t, err)
	var got []string
	for r, err := range search.Search(ctx, s, partition.Query{Base: at.ID, Scope: op.WholeSubtree, Filter: filter.Resolve(filter.MustParse(f), s.Schema())}) {
		must(t, err)
		got = append(got, r.Name.String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %s finds %q, want %q", when, f, got, want)
	}
}
