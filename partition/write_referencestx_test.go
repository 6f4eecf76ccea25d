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
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// TestReferencesInOneTransaction makes random updates of people, units and groups, several in
// each transaction. If a transaction succeeds, the test makes the same updates one by one in
// another directory. Then both directories must have the same entries and the same references,
// and the directory with the transactions must be sound.
func TestReferencesInOneTransaction(t *testing.T) {
	made := 0
	for seed := range uint64(*referenceSteps / 5) {
		r := rand.New(rand.NewPCG(seed, 3))
		mustExist := r.IntN(2) == 0
		whole, single := referring(t, mustExist), referring(t, mustExist)
		for n := 0; n < 20 && !t.Failed(); n++ {
			var changes []func(*partition.Tx) error
			var said []string
			for range 2 + r.IntN(4) {
				c, text := randomReferring(r)
				changes, said = append(changes, c), append(said, text)
			}
			err := update(t, whole, func(tx *partition.Tx) error {
				for _, c := range changes {
					if err := c(tx); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				continue
			}
			made++
			for i, c := range changes {
				if err := update(t, single, c); err != nil {
					t.Errorf("seed %d: %s: %v alone, but not in a transaction of %q", seed, said[i], err, said)
				}
			}
			if a, b := referredBy(t, whole), referredBy(t, single); !slices.Equal(a, b) {
				t.Errorf("seed %d: after a transaction of\n  %q\n%q, one by one\n%q", seed, said, a, b)
			}
			wantSound(t, whole)
		}
	}
	if t.Logf("%d transactions", made); made < 10 {
		t.Error("so few mean little")
	}
}

// referring returns a directory with units, and with groups whose members are references.
func referring(t *testing.T, mustExist bool) *partition.Partition {
	p := open(t)
	must(t, add(t, p, domain, domainLines...))
	units(t, p)
	for i := range 3 {
		must(t, addGroup(t, p, fmt.Sprintf("cn=group %d,%s", i, domain), domain))
	}
	must(t, add(t, p, "ou=team,"+inside, "objectClass: organizationalUnit"))
	for i := range 3 {
		for _, above := range []string{inside, "ou=team," + inside} {
			must(t, addPerson(t, p, fmt.Sprintf("cn=p%d,%s", i, above)))
		}
	}
	follow(t, p, mustExist, "member")
	return p
}

// randomReferring returns a random update and a description of it.
func randomReferring(r *rand.Rand) (func(*partition.Tx) error, string) {
	ctx := context.Background()
	above := []string{inside, inside, outside, "ou=team," + inside, "ou=team," + inside, "ou=team," + outside}
	place := func() string { return above[r.IntN(len(above))] }
	person := func() string { return fmt.Sprintf("cn=p%d,%s", r.IntN(3), place()) }
	group, who, at, rdn := fmt.Sprintf("cn=group %d,%s", r.IntN(3), domain), person(), place(), fmt.Sprintf("cn=p%d", r.IntN(3))
	member := func(kind op.ModKind) func(*partition.Tx) error {
		return func(tx *partition.Tx) error {
			return tx.Modify(ctx, name(group), []op.Modification{change(kind, "member", []byte(who))})
		}
	}
	rename := func(from, rdn, to string) func(*partition.Tx) error {
		return func(tx *partition.Tx) error {
			above := name(to)
			return tx.Rename(ctx, name(from), name(rdn)[0], true, &above)
		}
	}
	switch r.IntN(8) {
	case 0:
		return func(tx *partition.Tx) error {
			_, err := tx.Add(ctx, name("ou=team,"+at), attrs("objectClass: organizationalUnit"), false)
			return err
		}, "add ou=team," + at
	case 1:
		return rename("ou=team,"+inside, "ou=team", outside), "move ou=team outside"
	case 2:
		return rename(who, rdn, at), "move " + who + " to " + rdn + "," + at
	case 3:
		return func(tx *partition.Tx) error { return tx.Delete(ctx, name(who)) }, "delete " + who
	case 4:
		return member(op.ModDelete), "remove " + who + " from " + group
	case 5, 6:
		return member(op.ModAdd), "add " + who + " to " + group
	}
	return func(tx *partition.Tx) error {
		_, err := tx.Add(ctx, name(who), attrs("objectClass: inetOrgPerson", "sn: x"), false)
		return err
	}, "add " + who
}

// referredBy returns the names of all entries, with their members.
func referredBy(t *testing.T, p *partition.Partition) (all []string) {
	ctx := context.Background()
	s := state.Newest(p)
	defer s.Close()
	for found, err := range search.Search(ctx, s, partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}) {
		must(t, err)
		var members []string
		for _, v := range found.Entry.Values(s.Schema().Attribute("member")) {
			members = append(members, string(v))
		}
		slices.Sort(members)
		all = append(all, fmt.Sprintf("%s %q", found.Name, members))
	}
	slices.Sort(all)
	return all
}
