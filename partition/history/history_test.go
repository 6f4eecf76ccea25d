package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, s table.Store) *partition.Partition {
	t.Helper()
	ctx := context.Background()
	p, err := partition.Open(ctx, s, partition.Options{Create: true, Cache: 8 << 20})
	must(t, err)
	t.Cleanup(func() { p.Close(ctx) })
	return p
}

// stores are the kinds of stores. The shared store guarantees only what package table
// requires of every store.
var stores = map[string]func() table.Store{
	"embedded": func() table.Store { return tabletest.NewBatchMem() },
	"shared":   func() table.Store { return tabletest.NewMem() },
}

// newTree returns a directory with a few people.
func newTree(t testing.TB, s table.Store) *partition.Partition {
	t.Helper()
	p := open(t, s)
	must(t, onlineschema.SetSuffixes(context.Background(), p, []string{"dc=example,dc=com"}))
	run(t, p, `dn: dc=example,dc=com
changetype: add
objectClass: domain
dc: example

dn: ou=people,dc=example,dc=com
changetype: add
objectClass: organizationalUnit
ou: people

dn: uid=a,ou=people,dc=example,dc=com
changetype: add
objectClass: inetOrgPerson
uid: a
cn: A
sn: One
userPassword: secret

dn: uid=b,ou=people,dc=example,dc=com
changetype: add
objectClass: inetOrgPerson
uid: b
cn: B
sn: Two
`)
	return p
}

// apply applies changes one by one, as the command ldapmodify does.
func apply(p *partition.Partition, text string) error {
	r := ldif.NewReader(strings.NewReader(text), ldif.Options{})
	for rec, err := range r.Records() {
		if err != nil {
			return err
		}
		if err := applyOne(p, rec.DN, rec.Change); err != nil {
			return fmt.Errorf("%s: %w", rec.DN, err)
		}
	}
	return nil
}

func applyOne(p *partition.Partition, on string, change op.Request) error {
	ctx := context.Background()
	_, err := write.Update(ctx, p, partition.By{Name: "cn=admin", From: "192.0.2.1:5", Request: "3/7"}, func(tx *partition.Tx) error { return do(ctx, tx, on, change) })
	return err
}

func do(ctx context.Context, tx *partition.Tx, on string, change op.Request) error {
	name, err := dn.Parse(on)
	if err != nil {
		return err
	}
	switch c := change.(type) {
	case *op.Add:
		_, err = tx.Add(ctx, name, c.Attributes, false)
	case *op.Delete:
		err = tx.Delete(ctx, name)
	case *op.Modify:
		err = tx.Modify(ctx, name, c.Changes)
	case *op.ModifyDN:
		var superior *dn.DN
		if c.NewSuperior != nil {
			s, err := dn.Parse(*c.NewSuperior)
			if err != nil {
				return err
			}
			superior = &s
		}
		var rdn dn.RDN
		if rdn, err = dn.ParseRDN(c.NewRDN); err == nil {
			err = tx.Rename(ctx, name, rdn, c.DeleteOldRDN, superior)
		}
	}
	return err
}

func run(t testing.TB, p *partition.Partition, text string) {
	t.Helper()
	must(t, apply(p, text))
}

// now returns the newest state, in a snapshot that shows the state at one revision.
func now(t testing.TB, p *partition.Partition) *partition.Snapshot {
	t.Helper()
	s, err := changestream.Settled(context.Background(), p)
	must(t, err)
	latest := state.Newest(p)
	defer latest.Close()
	if s.Revision() < latest.Revision() {
		s.Close()
		s, err = state.At(context.Background(), p, latest.Revision())
		must(t, err)
	}
	t.Cleanup(s.Close)
	return s
}

// dump returns a state as users see it, without secret attributes.
func dump(t testing.TB, s *partition.Snapshot) string {
	t.Helper()
	var all []string
	for r, err := range search.Search(context.Background(), s, partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}) {
		must(t, err)
		var lines []string
		for _, a := range r.Entry.Attributes {
			for _, v := range a.Values {
				if !a.Type.NoUserModification {
					lines = append(lines, fmt.Sprintf("%s: %s", a.Description(), v))
				}
			}
		}
		slices.Sort(lines)
		all = append(all, r.Name.String()+"\n  "+strings.Join(lines, "\n  "))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func diff(t testing.TB, from, to *partition.Snapshot, base string) string {
	t.Helper()
	name, err := dn.Parse(base)
	must(t, err)
	var b bytes.Buffer
	_, err = history.Diff(context.Background(), from, to, name, &b)
	must(t, err)
	return b.String()
}

// TestDiffLeadsBack makes random changes between two states. The difference from the
// later state must lead to the earlier state, and the reverse difference must lead back
// to the later state. The test applies the changes one by one, so a server must accept
// them in their order.
func TestDiffLeadsBack(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 11))
		store := stores["embedded"]
		if seed%8 == 7 {
			store = stores["shared"]
		}
		p := newTree(t, store())
		for range 15 {
			change(p, r)
		}
		a := now(t, p)
		for range 5 + r.IntN(25) {
			change(p, r)
		}
		b := now(t, p)
		for i, way := range [][2]*partition.Snapshot{{b, a}, {a, b}} {
			text := diff(t, way[0], way[1], "")
			if err := apply(p, text); err != nil {
				t.Fatalf("seed %d, way %d: %v\nfrom:\n%s\nto:\n%s\ndiff:\n%s", seed, i, err, dump(t, way[0]), dump(t, way[1]), text)
			}
			if d := cmp.Diff(dump(t, way[1]), dump(t, now(t, p))); d != "" {
				t.Fatalf("seed %d, way %d: %s\ndiff:\n%s", seed, i, d, text)
			}
		}
	}
}

// change makes a random change, or several changes in one commit. Many of them are
// refused.
func change(p *partition.Partition, r *rand.Rand) {
	ctx := context.Background()
	s := state.Newest(p)
	var names []string
	for e, err := range search.Search(ctx, s, partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}) {
		if err == nil {
			names = append(names, e.Name.String())
		}
	}
	s.Close()
	if len(names) == 0 { // all entries are gone
		top, _ := dn.Parse("dc=example,dc=com")
		_, _ = write.Update(ctx, p, partition.By{}, func(tx *partition.Tx) error {
			_, err := tx.Add(ctx, top, []op.PartialAttribute{{Description: "objectClass", Values: [][]byte{[]byte("domain")}}}, false)
			return err
		})
		return
	}
	pick := func() string { return names[r.IntN(len(names))] }
	_, _ = write.Update(ctx, p, partition.By{Name: "cn=r"}, func(tx *partition.Tx) error {
		var err error
		for range 1 + r.IntN(3) {
			on, request := randomRequest(r, pick)
			err = errors.Join(err, do(ctx, tx, on, request))
		}
		return err
	})
}

// randomRequest uses few names and values, so that requests often concern the same
// entries.
func randomRequest(r *rand.Rand, pick func() string) (string, op.Request) {
	rdn := fmt.Sprintf("ou=%c", 'a'+rune(r.IntN(4)))
	value := func() []byte { return fmt.Appendf(nil, "%c", "abcABC"[r.IntN(6)]) }
	switch r.IntN(6) {
	case 0:
		return rdn + "," + pick(), &op.Add{Attributes: []op.PartialAttribute{
			{Description: "objectClass", Values: [][]byte{[]byte("organizationalUnit")}},
			{Description: "description", Values: [][]byte{value()}},
		}}
	case 1:
		return pick(), &op.Delete{}
	case 2:
		return pick(), &op.ModifyDN{NewRDN: rdn, DeleteOldRDN: r.IntN(2) == 0}
	case 3:
		to := pick()
		return pick(), &op.ModifyDN{NewRDN: rdn, DeleteOldRDN: r.IntN(2) == 0, NewSuperior: &to}
	}
	kind := []op.ModKind{op.ModAdd, op.ModDelete, op.ModReplace}[r.IntN(3)]
	what := []string{"description", "description;lang-de", "ou", "street"}[r.IntN(4)]
	m := op.Modification{Kind: kind}
	m.Description = what
	m.Values = [][]byte{value()}
	return pick(), &op.Modify{Changes: []op.Modification{m}}
}
