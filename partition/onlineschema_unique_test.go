package partition_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

const (
	inside  = "ou=inside," + domain
	outside = "ou=outside," + domain
)

// units adds two units and returns the id of the first unit.
func units(t *testing.T, p *partition.Partition) entry.ID {
	for _, u := range []string{inside, outside} {
		must(t, add(t, p, u, "objectClass: organizationalUnit"))
	}
	return idOf(t, p, inside)
}

func addPerson(t *testing.T, p *partition.Partition, dn string, lines ...string) error {
	return add(t, p, dn, append([]string{"objectClass: inetOrgPerson", "sn: Person", "cn: Person"}, lines...)...)
}

func move(t *testing.T, p *partition.Partition, from, rdn, to string) error {
	return update(t, p, func(tx *partition.Tx) error {
		above := name(to)
		return tx.Rename(context.Background(), name(from), name(rdn)[0], false, &above)
	})
}

// refusedFor fails unless err is a constraint error that names the attribute but no
// entry.
func refusedFor(t *testing.T, attribute string, err error) {
	t.Helper()
	if expected(t, err, partition.Constraint) {
		t.Error("done, but the value is another entry's")
	} else if text := err.Error(); !strings.Contains(text, attribute) || strings.Contains(text, "cn=") {
		t.Errorf("%q does not name %s, or names an entry", text, attribute)
	}
}

func TestUnique(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		units(t, p)
		must(t, onlineschema.SetUnique(context.Background(), p, []catalog.Unique{catalog.Unique{Attribute: "mail"}}, true))
		a, b := "cn=a,"+inside, "cn=b,"+outside
		must(t, addPerson(t, p, a, "mail: a@example.com", "mail: c@example.com"))
		refusedFor(t, "mail", addPerson(t, p, b, "mail: A@Example.com"))
		must(t, addPerson(t, p, b, "mail: b@example.com"))
		refusedFor(t, "mail", modify(t, p, b, change(op.ModAdd, "mail", []byte("c@example.com"))))
		refusedFor(t, "mail", modify(t, p, b, change(op.ModReplace, "mail", []byte("a@example.com"))))
		refusedFor(t, "mail", move(t, p, b, "mail=C@example.com", inside))
		// The entry has this value in another spelling.
		must(t, modify(t, p, a, change(op.ModReplace, "mail", []byte("A@EXAMPLE.COM"))))
		// The entry a no longer has this value.
		must(t, modify(t, p, b, change(op.ModAdd, "mail", []byte("c@example.com"))))
		must(t, modify(t, p, b, change(op.ModAdd, "sn", []byte("Lee"))))
		must(t, move(t, p, a, "cn=a", outside))
		must(t, remove(t, p, "cn=a,"+outside))
		must(t, modify(t, p, b, change(op.ModAdd, "mail", []byte("a@example.com"))))
		must(t, onlineschema.SetUnique(context.Background(), p, []catalog.Unique{catalog.Unique{Attribute: "mail"}}, false))
		must(t, addPerson(t, p, a, "mail: a@example.com"))
		wantSound(t, p)
	})
}

func TestUniqueWithinATransaction(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		must(t, onlineschema.SetUnique(context.Background(), p, []catalog.Unique{catalog.Unique{Attribute: "mail"}}, true))
		both := func(first, second string) error {
			return update(t, p, func(tx *partition.Tx) error {
				for i, m := range []string{first, second} {
					_, err := tx.Add(context.Background(), name(fmt.Sprintf("cn=%d,%s", i, domain)),
						attrs("objectClass: inetOrgPerson", "sn: Person", "mail: "+m), false)
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		refusedFor(t, "mail", both("a@example.com", "A@example.com"))
		must(t, both("a@example.com", "b@example.com"))
	})
}

func TestUniqueInASubtree(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		base := units(t, p)
		must(t, onlineschema.SetUnique(context.Background(), p, []catalog.Unique{catalog.Unique{Attribute: "uid", Base: base}}, true))
		must(t, addPerson(t, p, "cn=a,"+inside, "uid: 1"))
		must(t, addPerson(t, p, "cn=b,"+outside, "uid: 1"))
		must(t, addPerson(t, p, "cn=c,"+outside, "uid: 1"))
		refusedFor(t, "uid", addPerson(t, p, "cn=d,"+inside, "uid: 1"))
		refusedFor(t, "uid", move(t, p, "cn=b,"+outside, "cn=b", inside))

		must(t, add(t, p, "ou=team,"+outside, "objectClass: organizationalUnit"))
		must(t, move(t, p, "cn=b,"+outside, "cn=b", "ou=team,"+outside))
		refusedFor(t, "uid", move(t, p, "ou=team,"+outside, "ou=team", inside))
		must(t, modify(t, p, "cn=b,ou=team,"+outside, change(op.ModReplace, "uid", []byte("2"))))
		must(t, move(t, p, "ou=team,"+outside, "ou=team", inside))
		refusedFor(t, "uid", addPerson(t, p, "cn=d,"+inside, "uid: 2"))
		must(t, move(t, p, "ou=team,"+inside, "ou=crew", outside))
		must(t, addPerson(t, p, "cn=d,"+inside, "uid: 2"))
		wantSound(t, p)
	})
}

func TestUniqueIsRefused(t *testing.T) {
	ctx := context.Background()
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		base := units(t, p)
		for i := range 12 {
			must(t, addPerson(t, p, fmt.Sprintf("cn=a%02d,%s", i, inside), fmt.Sprintf("mail: %d@example.com", i)))
			must(t, addPerson(t, p, fmt.Sprintf("cn=b%02d,%s", i, outside), fmt.Sprintf("mail: %d@example.com", i)))
		}
		mail := catalog.Unique{Attribute: "mail"}
		err := onlineschema.SetUnique(ctx, p, []catalog.Unique{mail}, true)
		if expected(t, err, partition.Constraint) || !strings.Contains(err.Error(), "12 values") ||
			strings.Count(err.Error(), "cn=a") != 10 || !strings.Contains(err.Error(), "cn=b03,"+outside) {
			t.Errorf("duplicates are told as: %v", err)
		}
		// The value is not refused, because the attribute is not unique.
		must(t, addPerson(t, p, "cn=c,"+outside, "mail: 1@example.com"))
		mail.Base = base
		must(t, onlineschema.SetUnique(ctx, p, []catalog.Unique{mail}, true))
		for what, err := range map[string]error{
			"twice":         onlineschema.SetUnique(ctx, p, []catalog.Unique{mail}, true),
			"elsewhere":     onlineschema.SetUnique(ctx, p, []catalog.Unique{catalog.Unique{Attribute: "mail"}}, false),
			"no index":      onlineschema.SetUnique(ctx, p, []catalog.Unique{catalog.Unique{Attribute: "title"}}, true),
			"index dropped": onlineschema.SetIndexes(ctx, p, []catalog.Index{{Attribute: "cn", Layout: catalog.RowLayout}}),
		} {
			if expected(t, err, partition.Unwilling) {
				t.Errorf("%s: done", what)
			}
		}
		us, err := onlineschema.Unique(p)
		must(t, err)
		if !slices.Equal(us, []catalog.Unique{mail}) {
			t.Errorf("unique: %v", us)
		}
	})
}

func TestLoadKeepsValuesUnique(t *testing.T) {
	ctx := context.Background()
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		base := units(t, p)
		must(t, addPerson(t, p, "cn=a,"+inside, "uid: 1"))
		must(t, onlineschema.SetUnique(ctx, p, []catalog.Unique{catalog.Unique{Attribute: "uid", Base: base}}, true))
		l, err := load.Load(ctx, p, load.Options{})
		must(t, err)
		loading := func(dn string, lines ...string) error {
			return l.Add(ctx, name(dn), attrs(append([]string{"objectClass: inetOrgPerson", "sn: Person"}, lines...)...))
		}
		refusedFor(t, "uid", loading("cn=b,"+inside, "uid: 1"))
		must(t, loading("cn=b,"+outside, "uid: 1"))
		must(t, loading("cn=c,"+inside, "uid: 2", "uid;x-a: 2"))
		refusedFor(t, "uid", loading("cn=d,"+inside, "uid: 2"))
		expected(t, loading("cn=c,"+inside, "uid: 2"), partition.EntryExists)
		_, err = l.Commit(ctx)
		must(t, err)
		refusedFor(t, "uid", addPerson(t, p, "cn=e,"+inside, "uid: 2"))
		wantSound(t, p)
	})
}

// TestUniqueOnTwoServers adds the same value to two entries of the scope, concurrently on two
// servers of one store and in several ways. Both transactions see that no entry of the scope
// has the value. Afterwards at most one entry of the scope may have it.
func TestUniqueOnTwoServers(t *testing.T) {
	type step = func(tx *partition.Tx) error
	ctx := context.Background()
	adds := func(dn string) step {
		return func(tx *partition.Tx) error {
			_, err := tx.Add(ctx, name(dn), attrs("objectClass: inetOrgPerson", "sn: Person", "uid: 1"), false)
			return err
		}
	}
	moves := func(dn string) step {
		return func(tx *partition.Tx) error {
			above := name(inside)
			return tx.Rename(ctx, name(dn), name(dn)[0], false, &above)
		}
	}
	gives := func(tx *partition.Tx) error {
		return tx.Modify(ctx, name("cn=plain,"+inside), []op.Modification{change(op.ModAdd, "uid", []byte("1"))})
	}
	team := "ou=team," + outside
	for what, race := range map[string][2]step{
		"two adds":                           {adds("cn=a," + inside), adds("cn=b," + inside)},
		"an add and a modify":                {adds("cn=a," + inside), gives},
		"a modify and a move":                {gives, moves("cn=had," + outside)},
		"a modify and a move of one above":   {gives, moves("ou=crew," + outside)},
		"two moves":                          {moves("ou=crew," + outside), moves("cn=had," + outside)},
		"a move in and an add in what moves": {func(tx *partition.Tx) error { return errors.Join(gives(tx), moves(team)(tx)) }, adds("cn=a," + team)},
	} {
		t.Run(what, func(t *testing.T) {
			s := tabletest.NewMem()
			first := server(t, s)
			must(t, onlineschema.SetSuffixes(ctx, first, []string{domain}))
			must(t, add(t, first, domain, domainLines...))
			base := units(t, first)
			must(t, addPerson(t, first, "cn=plain,"+inside))
			must(t, addPerson(t, first, "cn=had,"+outside, "uid: 1"))
			for _, u := range []string{team, "ou=crew," + outside} {
				must(t, add(t, first, u, "objectClass: organizationalUnit"))
			}
			must(t, addPerson(t, first, "cn=member,ou=crew,"+outside, "uid: 1"))
			must(t, onlineschema.SetUnique(ctx, first, []catalog.Unique{catalog.Unique{Attribute: "uid", Base: base}}, true))
			second := server(t, s)
			must(t, second.CatchUp(ctx))

			var ready sync.WaitGroup // neither transaction commits before both have read
			ready.Add(2)
			var done atomic.Int32
			together(2, func(i int, _ *rand.Rand) {
				var met sync.Once
				_, err := write.Update(ctx, []*partition.Partition{first, second}[i], partition.By{}, func(tx *partition.Tx) error {
					err := race[i](tx)
					met.Do(func() { ready.Done(); ready.Wait() })
					return err
				})
				if expected(t, err, partition.Constraint, partition.NoSuchEntry) {
					done.Add(1)
				}
			})
			must(t, first.CatchUp(ctx))
			had := searched(t, first, inside, op.WholeSubtree, "(uid=1)")
			if len(had) > 1 || done.Load() == 0 {
				t.Errorf("%d of two were done, and the value is had by %q", done.Load(), had)
			}
			wantSound(t, first)
		})
	}
}

func server(t *testing.T, s table.Store) *partition.Partition {
	p, err := partition.Open(context.Background(), s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged, Txn: txn.Options{Attempts: 100}})
	must(t, err)
	t.Cleanup(func() { p.Close(context.Background()) })
	return p
}
