package partition_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// addTree adds a tree of devices below an entry. The tree has the given number of levels,
// and each device above the last level has the given number of children. addTree returns
// the number of devices.
func addTree(ctx context.Context, tx *partition.Tx, below string, children, levels int) (n int, err error) {
	if levels == 0 {
		return 0, nil
	}
	for i := range children {
		at := fmt.Sprintf("cn=%d,%s", i, below)
		if _, err := tx.Add(ctx, name(at), attrs("objectClass: device", "description: one"), false); err != nil {
			return n, err
		}
		more, err := addTree(ctx, tx, at, children, levels-1)
		if n += 1 + more; err != nil {
			return n, err
		}
	}
	return n, nil
}

// TestDeleteTree deletes a tree with different limits on the number of entries in one commit.
// After each commit, the directory must be sound.
func TestDeleteTree(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, most := range []int{1, 2, 3, 7, 40, 41, 42, 1000} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			eachStore(t, func(t *testing.T, p *partition.Partition, _ table.Store) {
				must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
				must(t, add(t, p, domain, domainLines...))
				must(t, add(t, p, "ou=stays,"+domain, "objectClass: organizationalUnit"))
				must(t, add(t, p, "ou=goes,"+domain, "objectClass: organizationalUnit"))
				must(t, update(t, p, func(tx *partition.Tx) error {
					n, err := addTree(ctx, tx, "ou=goes,"+domain, 3, 3)
					if n != 39 {
						t.Errorf("made %d entries", n)
					}
					return err
				}))
				total, whole := 0, false
				for !whole {
					n := 0
					must(t, update(t, p, func(tx *partition.Tx) (err error) {
						n, whole, err = tx.DeleteTree(ctx, name("ou=goes,"+domain), most)
						return err
					}))
					if total += n; n > most || n == 0 {
						t.Fatalf("%d entries in one commit, %d are the most", n, most)
					}
					wantSound(t, p)
				}
				if total != 40 {
					t.Errorf("deleted %d entries", total)
				}
				left := searched(t, p, domain, op.WholeSubtree, "(objectClass=*)")
				if want := []string{domain, "ou=stays," + domain}; !slices.Equal(left, want) {
					t.Errorf("left: %q", left)
				}
			})
		})
	}
}

// TestDeleteTreeOfWatchedClasses deletes a tree that contains the only alias. It checks that
// HasClass then reports no alias, although the cache recorded before that there was one.
func TestDeleteTreeOfWatchedClasses(t *testing.T) {
	ctx := context.Background()
	p := sample(t)
	must(t, add(t, p, "cn=alias,"+people, "objectClass: alias", "objectClass: extensibleObject", "aliasedObjectName: "+domain))
	alias := p.Schema().Class("alias")
	has := func() bool {
		s := state.Newest(p)
		defer s.Close()
		has, err := search.HasClass(ctx, s, alias)
		must(t, err)
		return has
	}
	if !has() {
		t.Error("no alias before")
	}
	must(t, update(t, p, func(tx *partition.Tx) error {
		_, _, err := tx.DeleteTree(ctx, name(people), 1000)
		return err
	}))
	if has() {
		t.Error("an alias is left")
	}
}

// TestDeleteTreeBesideAdd checks that DeleteTree also deletes an entry that is added to
// the tree concurrently, so that no entry loses its parent.
func TestDeleteTreeBesideAdd(t *testing.T) {
	ctx := context.Background()
	p := sample(t)
	tries, n := 0, 0
	must(t, update(t, p, func(tx *partition.Tx) (err error) {
		n, _, err = tx.DeleteTree(ctx, name(people), 1000)
		if tries++; tries == 1 {
			must(t, add(t, p, "cn=late,uid=u1,"+people, "objectClass: device"))
		}
		return err
	}))
	if tries != 2 || n != 7 {
		t.Errorf("%d tries, the last deleted %d entries", tries, n)
	}
	wantSound(t, p)
	err := update(t, p, func(tx *partition.Tx) error {
		_, _, err := tx.DeleteTree(ctx, name(people), 1000)
		return err
	})
	var problem *partition.Error
	if !errors.As(err, &problem) || problem.Problem != partition.NoSuchEntry || problem.Matched != domain {
		t.Errorf("again: %v", err)
	}
}

// TestDeleteTreeReadsNoValues checks that the cost of deleting a tree does not depend on
// the values of attributes without an index.
func TestDeleteTreeReadsNoValues(t *testing.T) {
	ctx := context.Background()
	cost := func(values int) int64 {
		c := newCounted(t, noCache)
		must(t, add(t, c.p, "ou=x,"+domain, "objectClass: organizationalUnit"))
		for i := range 20 {
			lines := []string{"objectClass: device"}
			for k := range values {
				lines = append(lines, fmt.Sprintf("description: %d", k))
			}
			must(t, add(t, c.p, fmt.Sprintf("cn=%d,ou=x,%s", i, domain), lines...))
		}
		return c.touched(func() {
			must(t, update(t, c.p, func(tx *partition.Tx) error {
				_, _, err := tx.DeleteTree(ctx, name("ou=x,"+domain), 1000)
				return err
			}))
		})
	}
	small, large := cost(1), cost(300)
	newCounted(t, noCache).within("deleting a tree", small, large)
}
