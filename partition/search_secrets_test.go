package partition_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// TestSearchOfSecrets checks that a search returns all values of entries with few and with many
// values and secret values. It searches the present with and without the entries in memory, and the
// past.
func TestSearchOfSecrets(t *testing.T) {
	for what, s := range map[string]table.Store{"one server": tabletest.NewBatchMem(), "shared": tabletest.NewMem()} {
		t.Run(what, func(t *testing.T) {
			ctx := context.Background()
			p := server(t, s)
			must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
			must(t, add(t, p, domain, domainLines...))
			type size struct{ values, secrets int }
			sizes := map[string]size{}
			for _, z := range []size{{1, 0}, {1, 1}, {480, 1}, {480, 40}, {500, 600}, {1, 600}, {1, 1100}, {600, 0}, {600, 3}, {1100, 3}, {600, 1100}} {
				dn := fmt.Sprintf("cn=%d-%d,%s", z.values, z.secrets, domain)
				lines := []string{"objectClass: inetOrgPerson", "sn: x"}
				for i := range z.values {
					lines = append(lines, fmt.Sprintf("description: %d", i))
				}
				for i := range z.secrets {
					lines = append(lines, fmt.Sprintf("userPassword: %d", i))
				}
				must(t, add(t, p, dn, lines...))
				sizes[dn] = z
			}
			then := p.DB.Snapshot().Max()
			checkLent := func(when string, s *state.Snapshot, secrets, lent bool) {
				t.Helper()
				at, err := s.Find(ctx, name(domain))
				must(t, err)
				found := 0
				q := partition.Query{Base: at.ID, Scope: op.WholeSubtree, Filter: resolved(p, "(sn=x)"), Secrets: secrets, Lend: lent}
				for r, err := range search.Search(ctx, s, q) {
					must(t, err)
					found++
					got := size{len(r.Entry.Values(p.Schema().Attribute("description"))), len(r.Entry.Values(p.Schema().Attribute("userPassword")))}
					want := sizes[r.Name.String()]
					if !secrets {
						want.secrets = 0
					}
					if got != want {
						t.Errorf("%s: %s has %d", when, r.Name, got)
					}
				}
				if found != len(sizes) {
					t.Errorf("%s: %d found, want %d", when, found, len(sizes))
				}
			}
			check := func(when string, s *state.Snapshot, secrets bool) {
				t.Helper()
				defer s.Close()
				checkLent(when, s, secrets, false)
				checkLent(when+", lent", s, secrets, true)
			}
			check("first", state.Newest(p), true)
			check("from memory", state.Newest(p), true)
			p = server(t, s)
			check("without secrets", state.Newest(p), false)
			check("with the entries in memory", state.Newest(p), true)
			past, err := state.At(ctx, p, then)
			must(t, err)
			check("in the past", past, false)
		})
	}
}
