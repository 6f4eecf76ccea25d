package partition_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// TestRecentModifications checks that the entries in Partition.Recent are those of the states
// before and after the commits, while concurrent transactions change a few entries at random.
func TestRecentModifications(t *testing.T) {
	ctx := context.Background()
	p, err := partition.Open(ctx, tabletest.NewBatchMem(), partition.Options{Format: *storeFormat, Create: true})
	must(t, err)
	defer p.Close(ctx)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}))
	k := p
	k.Recent.Want(true)
	const people = 6
	must(t, update(t, p, func(tx *partition.Tx) error {
		_, err := tx.Add(ctx, name("dc=example,dc=com"), attrs("objectClass: organization", "objectClass: dcObject", "o: Example"), false)
		for i := range people {
			if err == nil {
				_, err = tx.Add(ctx, name(fmt.Sprintf("cn=p%d,dc=example,dc=com", i)), attrs("objectClass: inetOrgPerson", "sn: S", "employeeNumber: 1"), false)
			}
		}
		return err
	}))
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			for range 200 {
				attempts := 0
				_ = update(t, p, func(tx *partition.Tx) error {
					attempts++
					if err := changePeople(ctx, tx, r, people); err != nil || attempts > 1 || r.IntN(4) > 0 {
						return err
					}
					// An inner transaction commits before the outer transaction. This happens
					// only in the first attempt: a later attempt may keep other transactions
					// out, so the two transactions would wait for each other.
					_ = update(t, p, func(tx *partition.Tx) error { return changePeople(ctx, tx, r, people) })
					return nil
				})
			}
		})
	}
	writers.Wait()
	checkRecent(t, p)
}

// TestModifiedIsCached checks that the cache has an entry after a modification, and that what it has is what the
// store has, in the same order, while concurrent transactions change a few entries at random.
func TestModifiedIsCached(t *testing.T) {
	ctx := context.Background()
	p, err := partition.Open(ctx, tabletest.NewBatchMem(), partition.Options{Format: *storeFormat, Create: true})
	must(t, err)
	defer p.Close(ctx)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
	must(t, add(t, p, domain, domainLines...))
	const people = 6
	for i := range people {
		must(t, add(t, p, fmt.Sprintf("cn=p%d,%s", i, domain), "sn: S", "objectClass: inetOrgPerson", "employeeNumber: 1"))
	}
	var cached atomic.Int64
	check := func(n int) {
		s := state.Newest(p)
		defer s.Close()
		at, err := s.Find(ctx, name(fmt.Sprintf("cn=p%d,%s", n, domain)))
		if err != nil {
			return // renamed
		}
		i := s.Current(at.ID)
		if i == nil || i.Wide() {
			return
		}
		cached.Add(1)
		then, err := state.At(ctx, p, s.Revision())
		must(t, err)
		defer then.Close()
		want, err := then.Entry(ctx, at.ID, false)
		must(t, err)
		if got := i.Packed.Entry(at.ID); !reflect.DeepEqual(got, want) {
			t.Errorf("%s at %s:\n%v\nwant\n%v", at.Name, s.Revision(), got, want)
		}
	}
	var writers sync.WaitGroup
	for n := range 3 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 2))
			for range 150 {
				_ = update(t, p, func(tx *partition.Tx) error { return changePeople(ctx, tx, r, people) })
				check(r.IntN(people))
			}
		})
	}
	writers.Wait()
	t.Logf("%d of 450 were cached", cached.Load())

	at, s := partition.Located{}, state.Newest(p)
	at, err = s.Find(ctx, name(domain))
	must(t, err)
	_, err = s.Entry(ctx, at.ID, false)
	must(t, err)
	s.Close()
	for _, v := range []string{"first", "second"} {
		must(t, update(t, p, func(tx *partition.Tx) error {
			return tx.Modify(ctx, name(domain), []op.Modification{{Kind: op.ModReplace, PartialAttribute: attrs("description: " + v)[0]}})
		}))
		s := state.Newest(p)
		if i := s.Current(at.ID); i == nil || string(i.Packed.Entry(at.ID).Values(p.Schema().Attribute("description"))[0]) != v {
			t.Errorf("after the %s modification the cache does not have it", v)
		}
		s.Close()
	}
}

// changePeople makes a few random changes of people. Some of these fail.
func changePeople(ctx context.Context, tx *partition.Tx, r *rand.Rand, people int) error {
	tx.Rules.Permissive = true
	person := func() string { return fmt.Sprintf("cn=p%d,dc=example,dc=com", r.IntN(people)) }
	if r.IntN(20) == 0 {
		from := person()
		if err := tx.Rename(ctx, name(from), name(fmt.Sprintf("cn=p%d", r.IntN(people)))[0], r.IntN(2) == 0, nil); err != nil {
			return err
		}
	}
	who := person()
	for range 1 + r.IntN(5)/4 {
		var ms []op.Modification
		for range 1 + r.IntN(2) {
			ms = append(ms, modifyPerson(r))
		}
		if err := tx.Modify(ctx, name(who), ms); err != nil {
			return err
		}
		if r.IntN(2) == 0 {
			who = person()
		}
	}
	return nil
}

func modifyPerson(r *rand.Rand) op.Modification {
	d := []string{"description", "description;lang-de", "telephoneNumber", "cn", "objectClass", "userPassword", "jpegPhoto", "title", "displayName"}[r.IntN(9)]
	m := op.Modification{Kind: []op.ModKind{op.ModAdd, op.ModDelete, op.ModReplace}[r.IntN(3)]}
	m.Description = d
	values := 1 + r.IntN(3)
	if m.Kind != op.ModAdd {
		values = r.IntN(3)
	}
	for range values {
		v := fmt.Sprintf("%d %s", r.IntN(6), strings.Repeat("X", r.IntN(2)*2000)) // long keys are cut
		switch {
		case d == "objectClass":
			v = []string{"person", "inetOrgPerson", "uidObject", "pkiUser"}[r.IntN(4)]
		case d == "telephoneNumber":
			v = fmt.Sprintf("+%d", r.IntN(200))
		}
		m.Values = append(m.Values, []byte(v))
	}
	if d == "telephoneNumber" && m.Kind == op.ModAdd && r.IntN(4) == 0 { // many values
		for i := range 150 {
			m.Values = append(m.Values, fmt.Appendf(nil, "+%d", 1000+i))
		}
	}
	return m
}

// checkRecent compares all modifications in Partition.Recent with the states before and after
// their commits. It also checks that Forget removes them.
func checkRecent(t *testing.T, p *partition.Partition) {
	ctx := context.Background()
	k := p
	commits, found := 0, 0
	now := state.Newest(k)
	defer now.Close()
	for c, err := range changestream.ShownAfter(ctx, now, 0) {
		must(t, err)
		for _, id := range c.IDs {
			before, after := k.Recent.Find(id, c.Revision, c.Revision)
			commits++
			if before == nil {
				continue
			}
			found++
			if was, want := described(before.Before), stored(t, p, id, c.Revision-1); was != want {
				t.Fatalf("%s before %s:\n%s\nwant\n%s", id, c.Revision, was, want)
			}
			if is, want := described(after.After), stored(t, p, id, c.Revision); is != want {
				t.Fatalf("%s at %s:\n%s\nwant\n%s", id, c.Revision, is, want)
			}
		}
	}
	t.Logf("%d of %d changes are remembered", found, commits)
	if found < commits/4 {
		t.Error("too few changes are remembered")
	}
	k.Recent.Forget(now.Revision())
	for c, err := range changestream.ShownAfter(ctx, now, 0) {
		must(t, err)
		for _, id := range c.IDs {
			if before, after := k.Recent.Find(id, c.Revision, c.Revision); before != nil || after != nil {
				t.Fatal("a modification was not forgotten")
			}
		}
	}
}

// stored describes an entry as the store has it at a revision.
func stored(t *testing.T, p *partition.Partition, id entry.ID, r table.Revision) string {
	s, err := state.At(context.Background(), p, r)
	must(t, err)
	defer s.Close()
	i, err := s.Item(context.Background(), id)
	must(t, err)
	return described(i)
}

// described returns the node and all attributes of an item, sorted by description.
func described(i *cache.Item) string {
	if i == nil {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintln(&b, i.Node.Parent, i.Node.UpRDN, i.Node.NormRDN)
	as := i.Packed.Entry(entry.ID{}).Attributes
	slices.SortFunc(as, func(a, b entry.Attribute) int { return strings.Compare(a.Description(), b.Description()) })
	for _, a := range as {
		fmt.Fprintf(&b, "%s: %q\n", a.Description(), a.Values)
	}
	return b.String()
}
