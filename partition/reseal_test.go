package partition_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A sealing store says that it seals.
type sealing struct{ table.Store }

func (s sealing) Table(name string) table.Table { return sealingTable{s.Store.Table(name)} }

type sealingTable struct{ table.Table }

func (sealingTable) Reseals() bool                                                  { return true }
func (sealingTable) ResealCell(context.Context, []byte, table.Family, []byte) error { return nil }
func (sealingTable) Sealed(context.Context, table.Range, table.Family) (int, int, error) {
	return 0, 0, nil
}

// TestResealBesideChanges checks that secrets that are changed while all are written again keep the changed values.
func TestResealBesideChanges(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		ctx := context.Background()
		if _, err := write.Reseal(ctx, p); err != write.ErrNotSealed {
			t.Errorf("a store that does not seal: %v", err)
		}
		p.Store = sealing{p.Store}
		const people = 3
		dn := func(i int) string { return fmt.Sprintf("cn=p%d,%s", i, domain) }
		for i := range people {
			must(t, add(t, p, dn(i), "objectClass: person", fmt.Sprintf("cn: p%d", i), "sn: x", "userPassword: first"))
		}
		var left atomic.Int32
		left.Store(people)
		together(people+1, func(i int, _ *rand.Rand) {
			if i == people {
				for n := 0; left.Load() > 0; n++ {
					done, err := write.Reseal(ctx, p)
					if err != nil || done.Entries != people {
						t.Errorf("%+v, %v", done, err)
						return
					}
				}
				return
			}
			defer left.Add(-1)
			for n := range 60 {
				want := fmt.Sprintf("password %d", n)
				must(t, modify(t, p, dn(i), change(op.ModReplace, "userPassword", []byte(want))))
				s := state.Newest(p)
				e, err := s.Find(ctx, name(dn(i)))
				must(t, err)
				got, err := s.Secrets(ctx, e.ID)
				s.Close()
				if err != nil || len(got) != 1 || len(got[0].Values) != 1 || string(got[0].Values[0]) != want {
					t.Errorf("the secrets are %v (%v), want %q", got, err, want)
					return
				}
			}
		})
	})
}
