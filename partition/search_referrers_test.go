package partition_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// memberships maps the name of each group in a model to the numbers of the people in the
// group.
type memberships map[string][]int

const (
	mostPeople = 5
	mostGroups = 8
)

// groupName returns the name of the group with the number g, the attribute that contains its
// members, and its object class. Every other group is a groupOfUniqueNames.
func groupName(g int) (group, attribute, class string) {
	if g%2 == 0 {
		return fmt.Sprintf("cn=g%d,%s", g, domain), "member", "groupOfNames"
	}
	return fmt.Sprintf("cn=g%d,%s", g, domain), "uniqueMember", "groupOfUniqueNames"
}

func member(i int) string { return fmt.Sprintf("cn=p%d,%s", i, domain) }

// change makes a random change to a group at p and in the model.
func (m memberships) change(t *testing.T, p *partition.Partition, random *rand.Rand) {
	t.Helper()
	group, attribute, class := groupName(random.IntN(mostGroups))
	members, exists := m[group]
	i := random.IntN(mostPeople)
	value := change(op.ModAdd, attribute, []byte(member(i)))
	switch {
	case !exists:
		must(t, add(t, p, group, "objectClass: "+class, attribute+": cn=nobody", attribute+": "+member(i)))
		m[group] = []int{i}
	case random.IntN(4) == 0:
		must(t, remove(t, p, group))
		delete(m, group)
	case slices.Contains(members, i):
		value.Kind = op.ModDelete
		must(t, modify(t, p, group, value))
		m[group] = slices.DeleteFunc(slices.Clone(members), func(k int) bool { return k == i })
	default:
		must(t, modify(t, p, group, value))
		m[group] = append(slices.Clone(members), i)
	}
}

// want returns the pairs of a group and a member in the model.
func (m memberships) want() (pairs []string) {
	for group, members := range m {
		for _, i := range members {
			pairs = append(pairs, group+" has "+member(i))
		}
	}
	slices.Sort(pairs)
	return pairs
}

// pairs returns the pairs of a group and a member that referrers.Of finds in a state.
func pairs(t *testing.T, s *partition.Snapshot) (pairs []string) {
	t.Helper()
	ctx := context.Background()
	var names []*dn.Name
	for i := range mostPeople {
		names = append(names, dn.NewName(member(i)))
	}
	types := []*schema.AttributeType{s.Schema().Attribute("member"), s.Schema().Attribute("uniqueMember")}
	found, err := search.Referrers(ctx, s, names, types, 0, nil, nil)
	must(t, err)
	if !slices.IsSortedFunc(found, func(a, b search.Referrer) int { return cmp.Or(a.ID.Compare(b.ID), a.Of-b.Of) }) {
		t.Errorf("%v are not sorted", found)
	}
	for _, r := range found {
		group := r.Name
		if stored, err := s.Name(ctx, r.ID); err != nil || stored.String() != group.String() {
			t.Errorf("%s is the name of %s, %v", group, stored, err)
		}
		var g int
		if _, err := fmt.Sscanf(group.String(), "cn=g%d,", &g); err != nil {
			t.Fatal(err)
		}
		if _, attribute, _ := groupName(g); r.Type.Name() != attribute {
			t.Errorf("%s has %s by %s", group, names[r.Of], r.Type.Name())
		}
		pairs = append(pairs, group.String()+" has "+names[r.Of].String())
	}
	slices.Sort(pairs)
	return pairs
}

// TestReferrersFollowCommits checks that referrers in memory include the commits of this
// server and of other servers, even the commit that adds the first group of a class. It also
// checks that a transaction sees its own changes, and checks the states of the past. The test
// runs with each layout of the indexes, and without an index of uniqueMember.
func TestReferrersFollowCommits(t *testing.T) {
	ctx := context.Background()
	for what, layout := range map[string]catalog.Layout{"columns": catalog.ColumnLayout, "rows": catalog.RowLayout, "one without": ""} {
		t.Run(what, func(t *testing.T) {
			s := tabletest.NewMem()
			servers := []*partition.Partition{server(t, s), server(t, s)}
			must(t, onlineschema.SetSuffixes(ctx, servers[0], []string{domain}))
			indexes := []catalog.Index{{Attribute: "member", Layout: cmp.Or(layout, catalog.ColumnLayout)}}
			if layout != "" {
				indexes = append(indexes, catalog.Index{Attribute: "uniqueMember", Layout: layout})
			}
			must(t, onlineschema.SetIndexes(ctx, servers[0], indexes))
			must(t, add(t, servers[0], domain, domainLines...))
			random := rand.New(rand.NewPCG(1, 2))
			model := memberships{}
			then := map[table.Revision][]string{}
			for round := range 150 {
				p := servers[random.IntN(2)]
				must(t, p.CatchUp(ctx))
				model.change(t, p, random)
				want := model.want()
				for n, p := range servers {
					must(t, p.CatchUp(ctx))
					s := state.Newest(p)
					for range 2 { // the second pass reads from memory
						if got := pairs(t, s); !slices.Equal(got, want) {
							t.Fatalf("round %d, server %d: %q, want %q", round, n, got, want)
						}
					}
					then[s.Revision()] = want
					s.Close()
				}
				inTransaction(t, p, maps.Clone(model), random)
			}
			for _, p := range servers { // so that all earlier states are decided
				must(t, p.CatchUp(ctx))
				model.change(t, p, random)
			}
			must(t, servers[0].CatchUp(ctx))
			for r, want := range then {
				moment, err := state.ParsePointInTime(r.String())
				must(t, err)
				s, err := state.AtPoint(ctx, servers[0], moment)
				must(t, err)
				if got := pairs(t, s); !slices.Equal(got, want) {
					t.Errorf("at %s: %q, want %q", r, got, want)
				}
				s.Close()
			}
		})
	}
}

// TestReferrersAfterRenames checks that all servers return the new names after one server has
// renamed a group or an entry above a group.
func TestReferrersAfterRenames(t *testing.T) {
	ctx := context.Background()
	s := tabletest.NewMem()
	servers := []*partition.Partition{server(t, s), server(t, s)}
	must(t, onlineschema.SetSuffixes(ctx, servers[0], []string{domain}))
	must(t, add(t, servers[0], domain, domainLines...))
	must(t, add(t, servers[0], "ou=a,"+domain, "objectClass: organizationalUnit"))
	must(t, add(t, servers[0], "cn=g0,ou=a,"+domain, "objectClass: groupOfNames", "member: "+member(0)))
	is := func(group string) {
		t.Helper()
		for n, p := range servers {
			must(t, p.CatchUp(ctx))
			s := state.Newest(p)
			if got, want := pairs(t, s), []string{group + " has " + member(0)}; !slices.Equal(got, want) {
				t.Errorf("server %d: %q, want %q", n, got, want)
			}
			s.Close()
		}
	}
	rename := func(p *partition.Partition, entry, rdn string) {
		t.Helper()
		must(t, update(t, p, func(tx *partition.Tx) error { return tx.Rename(ctx, name(entry), name(rdn)[0], true, nil) }))
	}
	is("cn=g0,ou=a," + domain)
	rename(servers[1], "cn=g0,ou=a,"+domain, "cn=g2")
	is("cn=g2,ou=a," + domain)
	rename(servers[0], "ou=a,"+domain, "ou=b")
	is("cn=g2,ou=b," + domain)
}

// inTransaction adds a group in a transaction that does not commit, and checks that the
// transaction sees the group.
func inTransaction(t *testing.T, p *partition.Partition, model memberships, random *rand.Rand) {
	t.Helper()
	group, attribute, class := groupName(mostGroups + random.IntN(2))
	i := random.IntN(mostPeople)
	model[group] = []int{i}
	err := update(t, p, func(tx *partition.Tx) error {
		if _, err := tx.Add(context.Background(), name(group), attrs("objectClass: "+class, attribute+": "+member(i)), false); err != nil {
			return err
		}
		if got, want := pairs(t, &tx.Snapshot), model.want(); !slices.Equal(got, want) {
			t.Errorf("in a transaction: %q, want %q", got, want)
		}
		return context.Canceled
	})
	if err != context.Canceled {
		t.Errorf("the transaction ended with %v", err)
	}
}

// TestReferrersOfManyGroups checks that all groups of a member are found, even if they are more
// than one page of an index.
func TestReferrersOfManyGroups(t *testing.T) {
	const groups = 1100
	p := open(t)
	must(t, add(t, p, domain, domainLines...))
	must(t, update(t, p, func(tx *partition.Tx) error {
		for g := range groups {
			if _, err := tx.Add(context.Background(), name(fmt.Sprintf("cn=%d,%s", g, domain)), attrs("objectClass: groupOfNames", "member: "+member(0)), false); err != nil {
				return err
			}
		}
		return nil
	}))
	s := state.Newest(p)
	defer s.Close()
	for _, when := range []string{"from the store", "from memory"} {
		found, err := search.Referrers(context.Background(), s, []*dn.Name{dn.NewName(member(1)), dn.NewName(member(0))}, []*schema.AttributeType{s.Schema().Attribute("member")}, 0, nil, nil)
		must(t, err)
		if len(found) != groups || slices.ContainsFunc(found, func(r search.Referrer) bool { return r.Of != 1 }) {
			t.Errorf("%s: %d groups, want %d", when, len(found), groups)
		}
	}
}

// TestReferrersAhead checks that a look-up of many names ahead leaves nothing to read for single
// look-ups, and changes no result.
func TestReferrersAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		p := openDistant(t)
		defer p.Close(ctx)
		s := state.Newest(p)
		defer s.Close()
		var names []*dn.Name
		for i := range 200 {
			names = append(names, dn.NewName(member(i)))
		}
		types := []*schema.AttributeType{s.Schema().Attribute("member"), s.Schema().Attribute("uniqueMember")}
		var known search.Names
		began := time.Now()
		must(t, search.Ahead(ctx, s, names, types, &known))
		if n := time.Since(began) / roundTrip; n != 2 { // the two indexes
			t.Errorf("%d round trips, want 2", n)
		}
		for _, name := range names {
			began := time.Now()
			got, err := search.Referrers(ctx, s, []*dn.Name{name}, types, 0, nil, &known)
			must(t, err)
			if n := time.Since(began) / roundTrip; n != 0 {
				t.Fatalf("%s: %d round trips, want 0", name, n)
			}
			want, err := search.Referrers(ctx, s, []*dn.Name{name}, types, 0, nil, nil)
			must(t, err)
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %v, want %v", name, got, want)
			}
		}
	})
}

// TestReferrersRoundTrips checks that the number of round trips does not grow with the number
// of names.
func TestReferrersRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		p := openDistant(t)
		defer p.Close(ctx)
		s := state.Newest(p)
		defer s.Close()
		var names []*dn.Name
		for i := range 200 {
			names = append(names, dn.NewName(member(i)))
		}
		types := []*schema.AttributeType{s.Schema().Attribute("member"), s.Schema().Attribute("uniqueMember")}
		for _, want := range []time.Duration{2, 0} { // from the two indexes, then from memory
			began := time.Now()
			_, err := search.Referrers(ctx, s, names, types, 0, nil, nil)
			must(t, err)
			if n := time.Since(began) / roundTrip; n != want {
				t.Errorf("%d round trips, want %d", n, want)
			}
		}
	})
}
