package partition_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/erase"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

const pat = "cn=Pat,ou=people," + domain

// given has attributes with one value and with several, a secret attribute, and a description
// with options. Its order is not the natural order.
var given = []string{"sn: Lee", "uidNumber: 7", "objectClass: inetOrgPerson", "objectClass: posixAccount",
	"cn;lang-de: Patt", "userPassword: secret", "uid: pat", "mail: pat@example.com", "homeDirectory: /home/pat",
	"gidNumber: 7", "cn: Pat", "displayName: Pat Lee"}

const givenOrder = "sn uidNumber objectClass cn;lang-de userPassword uid mail homeDirectory gidNumber cn displayName"

// orderIn returns the descriptions of an entry's user attributes, in the order that a
// state shows.
func orderIn(t testing.TB, s *partition.Snapshot, dn string) string {
	t.Helper()
	ctx := context.Background()
	at, err := s.Find(ctx, name(dn))
	must(t, err)
	e, err := s.Entry(ctx, at.ID, true)
	must(t, err)
	var ds []string
	operational := false
	for i := range e.Attributes {
		a := &e.Attributes[i]
		if a.Type.Operational() {
			operational = true
			continue
		}
		if operational {
			t.Errorf("%s: %s stands behind operational attributes", dn, a.Description())
		}
		ds = append(ds, a.Description())
	}
	return strings.Join(ds, " ")
}

func wantOrder(t testing.TB, p *partition.Partition, dn, want string) {
	t.Helper()
	for range 2 { // the second pass reads from the cache
		s := state.Newest(p)
		got := orderIn(t, s, dn)
		s.Close()
		if got != want {
			t.Errorf("%s:\n%s, want\n%s", dn, got, want)
		}
	}
}

// TestOrderIsKept checks that the attributes with which an entry was added keep their order
// after any kind of change of the entry. Attributes that are added later come last, sorted by
// name.
func TestOrderIsKept(t *testing.T) {
	eachStore(t, func(t *testing.T, p *partition.Partition, _ table.Store) {
		ctx := context.Background()
		loadSample(t, p, 1)
		must(t, add(t, p, pat, given...))
		wantOrder(t, p, pat, givenOrder)
		before := revisionOf(p)
		modify := func(dn string, ms ...op.Modification) {
			t.Helper()
			must(t, update(t, p, func(tx *partition.Tx) error { return tx.Modify(ctx, name(dn), ms) }))
		}
		change := func(kind op.ModKind, line string) op.Modification {
			return op.Modification{Kind: kind, PartialAttribute: attrs(line)[0]}
		}
		modify(pat, change(op.ModAdd, "mail: p@example.com"), change(op.ModReplace, "uidNumber: 8"),
			change(op.ModAdd, "title: Person"), change(op.ModAdd, "description: came later"),
			op.Modification{Kind: op.ModDelete, PartialAttribute: op.PartialAttribute{Description: "displayName"}})
		const since = "sn uidNumber objectClass cn;lang-de userPassword uid mail homeDirectory gidNumber cn description title"
		wantOrder(t, p, pat, since)
		modify(pat, change(op.ModAdd, "displayName: Pat"))
		const back = "sn uidNumber objectClass cn;lang-de userPassword uid mail homeDirectory gidNumber cn displayName description title"
		wantOrder(t, p, pat, back)

		must(t, update(t, p, func(tx *partition.Tx) error {
			return tx.Rename(ctx, name(pat), name("uid=pat")[0], false, new(name(domain)))
		}))
		wantOrder(t, p, "uid=pat,"+domain, back)
		wantSound(t, p)
		then, err := state.At(ctx, p, before)
		must(t, err)
		defer then.Close()
		if got := orderIn(t, then, pat); got != givenOrder {
			t.Errorf("in the past: %s", got)
		}
		must(t, update(t, p, func(tx *partition.Tx) error { return tx.Delete(ctx, name("uid=pat,"+domain)) }))
		must(t, add(t, p, pat, "objectClass: person", "cn: Pat", "sn: Lee"))
		wantOrder(t, p, pat, "objectClass cn sn")
	})
}

// TestOrderOfALoad checks that a load keeps the order of attributes, even if some of them have
// very many values. A rebuild must keep the order too.
func TestOrderOfALoad(t *testing.T) {
	eachStore(t, func(t *testing.T, p *partition.Partition, s table.Store) {
		ctx := context.Background()
		l := begun(t, p)
		must(t, loadAdd(l, domain, domainLines...))
		must(t, loadAdd(l, "ou=people,"+domain, "description: first", "ou: people", "objectClass: organizationalUnit"))
		must(t, loadAdd(l, pat, given...))
		group := []string{"cn: all", "description: of many"}
		for i := range 3000 {
			group = append(group, fmt.Sprintf("member: uid=u%d,ou=people,%s", i, domain))
		}
		must(t, loadAdd(l, "cn=all,"+domain, append(group, "businessCategory: groups", "objectClass: groupOfNames")...))
		commit(t, l)
		check := func() {
			t.Helper()
			wantOrder(t, p, pat, givenOrder)
			wantOrder(t, p, "ou=people,"+domain, "description ou objectClass")
			wantOrder(t, p, "cn=all,"+domain, "cn description member businessCategory objectClass")
			wantSound(t, p)
		}
		check()
		must(t, p.Close(ctx))
		_, err := verify.Rebuild(ctx, s, partition.Options{Schema: tagged}, verify.ReindexOptions{})
		must(t, err)
		p, err = partition.Open(ctx, s, partition.Options{Schema: tagged})
		must(t, err)
		defer p.Close(ctx)
		check()
	})
}

// TestOrderAfterErasing checks that erasing a value keeps the order of the remaining
// attributes.
func TestOrderAfterErasing(t *testing.T) {
	eachErase(t, func(t *testing.T, l *life) {
		must(t, add(t, l.p, "cn=Pat,"+domain, given...))
		l.modify("cn=Pat,"+domain, op.ModDelete, "displayName: Pat Lee")
		l.erase(erase.Options{Value: []byte("Pat Lee")})
		wantOrder(t, l.p, "cn=Pat,"+domain, strings.TrimSuffix(givenOrder, " displayName"))
		wantSound(t, l.p)
	})
}

// TestNaturalOrderCostsNothing checks that an entry without a stored order, as in older
// stores, has the natural order. It also checks that the cell of the order is written
// only if the order is not the natural one.
func TestNaturalOrderCostsNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, p *partition.Partition, s table.Store) {
		loadSample(t, p, 1)
		u0 := "uid=u0,ou=people," + domain
		wantOrder(t, p, u0, "objectClass cn sn userPassword mail uid") // not the natural order
		must(t, add(t, p, "cn=n,"+domain, "objectClass: person", "cn: n", "sn: n", "telephoneNumber: +1 1", "userPassword: n"))
		wantOrder(t, p, "cn=n,"+domain, "objectClass cn sn telephoneNumber userPassword")
		for dn, want := range map[string]bool{u0: true, "cn=n," + domain: false} {
			if got := hasOrder(t, s, idOf(t, p, dn)); got != want {
				t.Errorf("%s has a cell: %v", dn, got)
			}
		}
	})
}

func hasOrder(t *testing.T, s table.Store, id entry.ID) bool {
	row, err := s.Table("master").Get(context.Background(), id[:], table.Select{Families: []table.Family{'t'}})
	must(t, err)
	n, _ := master.DecodeNode(row)
	return n.Order != entry.Order{}
}
