package partition_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

const people = "ou=people,dc=example,dc=com"

// numbered returns n different values.
func numbered(format string, n int) (vs [][]byte) {
	for i := range n {
		vs = append(vs, fmt.Appendf(nil, format, i))
	}
	return vs
}

func change(kind op.ModKind, description string, values ...[]byte) op.Modification {
	return op.Modification{Kind: kind, PartialAttribute: op.PartialAttribute{Description: description, Values: values}}
}

func modify(t testing.TB, p *partition.Partition, dn string, changes ...op.Modification) error {
	t.Helper()
	return update(t, p, func(tx *partition.Tx) error { return tx.Modify(context.Background(), name(dn), changes) })
}

// TestManyValuesUnderOptions uses an option that is a prefix of another option. Both
// descriptions have many values, which are in the table master. Deleting the values with the
// first option must not change those with the second.
func TestManyValuesUnderOptions(t *testing.T) {
	p := sample(t)
	at := "uid=u1," + people
	must(t, modify(t, p, at, change(op.ModAdd, "description;x-a", numbered("a%d", 120)...),
		change(op.ModAdd, "description;x-ab", numbered("ab%d", 120)...)))
	must(t, modify(t, p, at, change(op.ModDelete, "description;x-a")))
	wantSound(t, p)
	s := state.Newest(p)
	defer s.Close()
	e, err := s.Entry(context.Background(), idOf(t, p, at), false)
	must(t, err)
	d := p.Schema().Attribute("description")
	if a, ab := e.Find(d, ";x-a"), e.Find(d, ";x-ab"); a != nil || ab == nil || len(ab.Values) != 120 {
		t.Errorf("after the delete: %v and %v", a, ab)
	}
}

// TestLongNameStays checks that a value of the RDN cannot be removed, even if the column
// of the value contains a cut key.
func TestLongNameStays(t *testing.T) {
	p := sample(t)
	cn := strings.Repeat("x", 600)
	at := "cn=" + cn + "," + people
	must(t, add(t, p, at, "objectClass: inetOrgPerson", "cn: other", "sn: x"))
	wantProblem(t, modify(t, p, at, change(op.ModDelete, "cn", []byte(cn))), partition.NotOnRDN, "")
	wantProblem(t, modify(t, p, at, change(op.ModReplace, "cn", []byte("other"))), partition.NotOnRDN, "")
	must(t, modify(t, p, at, change(op.ModReplace, "cn", []byte("new"), []byte(strings.ToUpper(cn)))))
	wantSound(t, p)
}

// TestUUIDInScope checks that a search for an entryUUID finds the entry only if the entry is
// in the search's scope.
func TestUUIDInScope(t *testing.T) {
	p := sample(t)
	s := state.Newest(p)
	defer s.Close()
	id := idOf(t, p, "uid=u1,"+people)
	f := filter.Resolve(&filter.Equal{Attribute: "entryUUID", Value: []byte(id.String())}, p.Schema())
	for _, c := range []struct {
		base  entry.ID
		scope op.Scope
		want  int
	}{
		{entry.Root, op.SingleLevel, 0}, {entry.Root, op.WholeSubtree, 1}, {entry.Root, op.Subordinates, 1},
		{idOf(t, p, people), op.SingleLevel, 1}, {idOf(t, p, domain), op.SingleLevel, 0}, {id, op.Subordinates, 0},
	} {
		n := 0
		for _, err := range search.Search(context.Background(), s, partition.Query{Base: c.base, Scope: c.scope, Filter: f}) {
			must(t, err)
			n++
		}
		if n != c.want {
			t.Errorf("base %s, scope %d: %d entries, want %d", c.base, c.scope, n, c.want)
		}
	}
}

// TestCompareWide checks that Compare works on an entry with very many values.
func TestCompareWide(t *testing.T) {
	p := sample(t)
	at := "uid=u1," + people
	must(t, modify(t, p, at, change(op.ModAdd, "description;x-a", numbered("a%d", 600)...)))
	s := state.Newest(p)
	defer s.Close()
	id := idOf(t, p, at)
	for _, c := range []struct {
		description, value string
		want               bool
	}{
		{"entryUUID", id.String(), true}, {"entryUUID", entry.NewID().String(), false}, {"uid", "U1", true},
		{"description", "A599", true}, {"description;x-a", "a600", false}, {"name", "person 1", true}, {"structuralObjectClass", "inetOrgPerson", true},
	} {
		got, err := s.Compare(context.Background(), id, c.description, []byte(c.value))
		if err != nil || got != c.want {
			t.Errorf("compare %s: %s: %v, %v", c.description, c.value, got, err)
		}
	}
	_, err := s.Compare(context.Background(), id, "entryUUID;x-a", []byte(id.String()))
	wantProblem(t, err, partition.NoSuchAttribute, "")
}

// TestMalformedOptions checks that malformed options are refused, in particular options
// with characters that delimit parts of a column.
func TestMalformedOptions(t *testing.T) {
	p := sample(t)
	for _, d := range []string{"description;a=b", "description;a~", "description;", "description;;a", "description;a\x00", "description;\xff", "description;a b",
		"description;x-" + strings.Repeat("a", 300)} {
		wantProblem(t, add(t, p, "uid=new,"+people, "objectClass: account", d+": x"), partition.UndefinedType, "")
		wantProblem(t, modify(t, p, "uid=u1,"+people, change(op.ModAdd, d, []byte("x"))), partition.UndefinedType, "")
	}
	must(t, modify(t, p, "uid=u1,"+people, change(op.ModAdd, "Description;X-1;lang-de-CH", []byte("x"))))
}

func TestSetSuffixes(t *testing.T) {
	ctx := context.Background()
	p := sample(t)
	wantProblem(t, onlineschema.SetSuffixes(ctx, p, nil), partition.Unwilling, "")
	wantProblem(t, onlineschema.SetSuffixes(ctx, p, []string{domain, people}), partition.Unwilling, "")
	wantProblem(t, onlineschema.SetSuffixes(ctx, p, []string{domain, ""}), partition.Unwilling, "")
	nested := "ou=nested," + domain
	must(t, onlineschema.SetSuffixes(ctx, p, []string{domain, nested}))
	must(t, add(t, p, nested, "objectClass: organizationalUnit"))
	wantProblem(t, onlineschema.SetSuffixes(ctx, p, []string{domain}), partition.Unwilling, "")
	must(t, update(t, p, func(tx *partition.Tx) error { return tx.Delete(ctx, name(nested)) }))
	must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
	wantSound(t, p)
}

// TestStampIndexUnderConcurrency adds two values concurrently. Both changes set
// modifiersName, and only one of the two names may remain in the index of modifiersName.
func TestStampIndexUnderConcurrency(t *testing.T) {
	ctx := context.Background()
	p, err := partition.Open(ctx, tabletest.NewBatchMem(), partition.Options{Format: *storeFormat, Create: true, Schema: tagged,
		Indexes: []catalog.Index{{Attribute: "modifiersName", Layout: catalog.RowLayout}}})
	must(t, err)
	defer p.Close(ctx)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
	must(t, add(t, p, domain, domainLines...))
	// The second transaction begins and commits within the first attempt of the first
	// transaction.
	tries := 0
	_, err = write.Update(ctx, p, partition.By{Name: "cn=first"}, func(tx *partition.Tx) error {
		err := tx.Modify(ctx, name(domain), []op.Modification{change(op.ModAdd, "description", []byte("one"))})
		if tries++; tries == 1 {
			_, other := write.Update(ctx, p, partition.By{Name: "cn=second"}, func(tx *partition.Tx) error {
				return tx.Modify(ctx, name(domain), []op.Modification{change(op.ModAdd, "description", []byte("two"))})
			})
			must(t, other)
		}
		return err
	})
	must(t, err)
	wantSound(t, p)
}

// TestCompareManyValues checks comparisons with attributes of few and of many values, and
// with the same attributes after a change.
func TestCompareManyValues(t *testing.T) {
	ctx := context.Background()
	p := open(t)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
	must(t, add(t, p, domain, domainLines...))
	for _, members := range []int{1, 15, 16, 17, 300} {
		group := fmt.Sprintf("cn=of %d,%s", members, domain)
		var names []string
		for i := range members {
			names = append(names, member(i))
		}
		must(t, addGroup(t, p, group, names...))
		wantMembers := func(first, last int) {
			t.Helper()
			s := state.Newest(p)
			defer s.Close()
			at, err := s.Find(ctx, name(group))
			must(t, err)
			for range 2 { // the second pass reads from memory
				for i := range members + 1 {
					has, err := s.Compare(ctx, at.ID, "member", []byte(strings.ToUpper(member(i))))
					must(t, err)
					if want := first <= i && i < last; has != want {
						t.Errorf("%s has %s: %t, want %t", group, member(i), has, want)
					}
				}
			}
		}
		wantMembers(0, members)
		must(t, modify(t, p, group, change(op.ModAdd, "member", []byte(member(members)))))
		must(t, modify(t, p, group, change(op.ModDelete, "member", []byte(member(0)))))
		wantMembers(1, members+1)
	}
}
