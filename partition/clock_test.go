package partition_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// TestTimestampsAreInTheOrderOfCommits checks that timestamps come from the store's
// clock, which never goes back.
func TestTimestampsAreInTheOrderOfCommits(t *testing.T) {
	for kind, store := range stores {
		t.Run(kind, func(t *testing.T) {
			ctx := context.Background()
			now := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
			p, err := partition.Open(ctx, store(t), partition.Options{
				Create: true, Schema: tagged, Txn: txn.Options{Now: func() time.Time { return now }}})
			must(t, err)
			defer p.Close(ctx)
			l, err := load.Load(ctx, p, load.Options{FirstSuffix: true, Folder: t.TempDir()})
			must(t, err)
			must(t, loadAdd(l, domain, domainLines...))
			commit(t, l)
			wantTimes(t, p, domain, "20310102030405Z", "20310102030405Z")

			now = now.Add(time.Hour)
			must(t, add(t, p, "ou=people,"+domain, "objectClass: organizationalUnit"))
			wantTimes(t, p, "ou=people,"+domain, "20310102040405Z", "20310102040405Z")
			// The clock goes back. The store's time must not go back with it.
			now = now.Add(-30 * time.Minute)
			must(t, update(t, p, func(tx *partition.Tx) error {
				return tx.Modify(ctx, name(domain), []op.Modification{{Kind: op.ModReplace, PartialAttribute: attrs("description: x")[0]}})
			}))
			wantTimes(t, p, domain, "20310102030405Z", "20310102040405Z")
			_, err = write.Update(ctx, p, partition.By{Time: now.AddDate(-10, 0, 0)}, func(tx *partition.Tx) error {
				_, err := tx.Add(ctx, name("cn=given,"+domain), attrs("objectClass: device"), false)
				return err
			})
			must(t, err)
			wantTimes(t, p, "cn=given,"+domain, "20210102033405Z", "20210102033405Z")
		})
	}
}

func wantTimes(t *testing.T, p *partition.Partition, dn, created, modified string) {
	t.Helper()
	s := state.Newest(p)
	defer s.Close()
	e, err := s.Entry(context.Background(), idOf(t, p, dn), false)
	must(t, err)
	for i := range e.Attributes {
		a := &e.Attributes[i]
		for typ, want := range map[string]string{"createTimestamp": created, "modifyTimestamp": modified} {
			if a.Type.Name() == typ && string(a.Values[0]) != want {
				t.Errorf("%s: %s is %s, want %s", dn, typ, a.Values[0], want)
			}
		}
	}
}
