package partition_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// eachProtocol runs a test with both ways to commit: in one batch, and row by row as on
// HBase.
func eachProtocol(t *testing.T, f func(t *testing.T, p *partition.Partition)) {
	for name, s := range map[string]table.Store{"batches": tabletest.NewBatchMem(), "rows": tabletest.NewMem()} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			p, err := partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged, Txn: txn.Options{Attempts: 100}})
			must(t, err)
			t.Cleanup(func() { p.Close(ctx) })
			must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
			must(t, add(t, p, domain, domainLines...))
			f(t, p)
		})
	}
}

// together calls f in n goroutines.
func together(n int, f func(i int, r *rand.Rand)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	all.Wait()
}

// expected fails a test if err is neither nil nor one of the problems. It reports whether
// err is nil.
func expected(t *testing.T, err error, problems ...partition.Problem) bool {
	t.Helper()
	var e *partition.Error
	if err != nil && (!errors.As(err, &e) || !slices.Contains(problems, e.Problem)) {
		t.Errorf("%v, want one of the problems %d", err, problems)
	}
	return err == nil
}

// changeMembers adds and removes members of a group that only writer i changes, of which there are n. It returns those
// that the group then has.
func changeMembers(t *testing.T, p *partition.Partition, group string, i, n int, r *rand.Rand) (members []string) {
	for range 30 {
		v := fmt.Sprintf("cn=%d-%d", i, r.IntN(n))
		kind, at := op.ModAdd, slices.Index(members, v)
		if at >= 0 {
			kind, members = op.ModDelete, slices.Delete(members, at, at+1)
		} else {
			members = append(members, v)
		}
		expected(t, modify(t, p, group, change(kind, "member", []byte(v))))
	}
	return members
}

// TestMembersTogether runs writers that each add and remove their own members and also
// add one common member. No update may be lost, and the common member must be added once.
func TestMembersTogether(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		group := "cn=group," + domain
		must(t, add(t, p, group, "objectClass: groupOfNames", "member: cn=first"))
		var common atomic.Int32
		want := []string{"cn=first", "cn=common"}
		var mu sync.Mutex
		together(8, func(i int, r *rand.Rand) {
			mine := changeMembers(t, p, group, i, 25, r)
			if expected(t, modify(t, p, group, change(op.ModAdd, "member", []byte("cn=Common"))), partition.ValueExists) {
				common.Add(1)
			}
			mu.Lock()
			defer mu.Unlock()
			want = append(want, mine...)
		})
		if n := common.Load(); n != 1 {
			t.Errorf("the common member was added %d times", n)
		}
		wantMembers(t, p, group, want)
		wantSound(t, p)
	})
}

// TestMembersOfReplacedEntry runs the writers of TestMembersTogether, while another writer deletes the
// group and adds it with the same id and members in one transaction. The new values get positions that
// values of the old entry had, so a change that was planned for a value of the old entry must never
// reach a value of the new one.
func TestMembersOfReplacedEntry(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		ctx := context.Background()
		group := "cn=group," + domain
		must(t, add(t, p, group, "objectClass: groupOfNames", "member: cn=first"))
		id := idOf(t, p, group)
		want := []string{"cn=first"}
		var mu sync.Mutex
		together(5, func(i int, r *rand.Rand) {
			if i == 0 {
				for range 30 {
					expected(t, update(t, p, func(tx *partition.Tx) error {
						e, err := tx.Entry(ctx, id, false)
						if err != nil {
							return err
						}
						lines := []string{"objectClass: groupOfNames", "entryUUID: " + id.String()}
						for _, v := range e.Values(p.Schema().Attribute("member")) {
							lines = append(lines, "member: "+string(v))
						}
						r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
						if err := tx.Delete(ctx, name(group)); err != nil {
							return err
						}
						_, err = tx.Add(ctx, name(group), attrs(lines...), true)
						return err
					}))
				}
				return
			}
			mine := changeMembers(t, p, group, i, 5, r)
			mu.Lock()
			defer mu.Unlock()
			want = append(want, mine...)
		})
		wantMembers(t, p, group, want)
		wantSound(t, p)
	})
}

func wantMembers(t *testing.T, p *partition.Partition, group string, want []string) {
	t.Helper()
	s := state.Newest(p)
	defer s.Close()
	e, err := s.Entry(context.Background(), idOf(t, p, group), false)
	must(t, err)
	var got []string
	for _, v := range e.Values(p.Schema().Attribute("member")) {
		got = append(got, string(v))
		if string(v) == "cn=Common" {
			got[len(got)-1] = "cn=common"
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("members %q, want %q", got, want)
	}
}

// TestParentsAndChildrenTogether adds children under parents that other writers delete
// and add again. No child may lose its parent. All writers use the same few names, and no
// two entries may have the same name.
func TestParentsAndChildrenTogether(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		together(6, func(_ int, r *rand.Rand) {
			for range 40 {
				parent := fmt.Sprintf("ou=%d,%s", r.IntN(3), domain)
				child := fmt.Sprintf("ou=%d,%s", r.IntN(2), parent)
				at := parent
				if r.IntN(2) == 0 {
					at = child
				}
				if r.IntN(2) == 0 {
					expected(t, add(t, p, at, "objectClass: organizationalUnit"), partition.EntryExists, partition.NoSuchEntry)
				} else {
					expected(t, remove(t, p, at), partition.NoSuchEntry, partition.NotLeaf)
				}
			}
		})
		wantSound(t, p)
	})
}

func remove(t testing.TB, p *partition.Partition, dn string) error {
	t.Helper()
	return update(t, p, func(tx *partition.Tx) error { return tx.Delete(context.Background(), name(dn)) })
}

// TestMovesTogether moves units below one another concurrently. Each move by itself is valid,
// but two concurrent moves could make a circle of units that is not below the root any more.
// The test checks that all units remain below the naming context.
func TestMovesTogether(t *testing.T) {
	const units = 5
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		for i := range units {
			must(t, add(t, p, fmt.Sprintf("ou=%d,%s", i, domain), "objectClass: organizationalUnit"))
		}
		together(5, func(_ int, r *rand.Rand) {
			for range 25 {
				expected(t, moveOne(p, r), partition.Unwilling, partition.EntryExists, partition.NoSuchEntry)
			}
		})
		wantSound(t, p)
		found := searched(t, p, domain, op.Subordinates, "(objectClass=organizationalUnit)")
		if len(found) != units {
			t.Errorf("units left: %q", found)
		}
	})
}

// moveOne moves a random unit below a random entry. It finds both in the transaction.
func moveOne(p *partition.Partition, r *rand.Rand) error {
	ctx := context.Background()
	_, err := write.Update(ctx, p, partition.By{}, func(tx *partition.Tx) error {
		var names []dn.DN
		for e, err := range search.Search(ctx, &tx.Snapshot, partition.Query{Scope: op.WholeSubtree, Filter: resolved(p, "(objectClass=*)")}) {
			if err != nil {
				return err
			}
			names = append(names, name(e.Name.String()))
		}
		from, to := names[r.IntN(len(names))], names[r.IntN(len(names))]
		if len(from) == 2 {
			return nil
		}
		return tx.Rename(ctx, from, from[0], false, &to)
	})
	return err
}

// TestIsolate runs two concurrent transactions that add different values to one entry. It
// checks that they conflict only if one of them has called Tx.Isolate for the entry.
func TestIsolate(t *testing.T) {
	ctx := context.Background()
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		const group = "cn=group," + domain
		must(t, add(t, p, group, "objectClass: groupOfNames", "member: cn=nobody"))
		for i, isolated := range []bool{false, true} {
			tries := 0
			must(t, update(t, p, func(tx *partition.Tx) error {
				at, err := tx.Find(ctx, name(group))
				must(t, err)
				if isolated {
					tx.Isolate(at.ID)
				}
				if tries++; tries == 1 {
					must(t, modify(t, p, group, change(op.ModAdd, "member", fmt.Appendf(nil, "cn=other %d", i))))
				}
				return tx.Modify(ctx, name(group), []op.Modification{change(op.ModAdd, "member", fmt.Appendf(nil, "cn=own %d", i))})
			}))
			if want := i + 1; tries != want {
				t.Errorf("isolated %v: %d tries, want %d", isolated, tries, want)
			}
		}
	})
}
