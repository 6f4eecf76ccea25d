package partition_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// salvage returns the names of the entries that Salvage yields, and what it reports as lost.
func salvage(t *testing.T, p *partition.Partition) (names, lost []string) {
	t.Helper()
	s := state.Newest(p)
	defer s.Close()
	for r, err := range verify.Salvage(context.Background(), s, func(what string, err error) error { lost = append(lost, what); return nil }) {
		must(t, err)
		names = append(names, r.Name.String())
	}
	return names, lost
}

// TestSalvageParents removes rows of entries that have entries below them. If the key of a lost
// entry's row in the tree contains the whole RDN, the entries below the lost entry must keep
// their names, except the spelling of the lost RDN.
func TestSalvageParents(t *testing.T) {
	t.Parallel()
	const several = "cn=Ann+sn=Lee\\+Low"
	for _, c := range []struct {
		name, lost string
		tree       bool // the row in the tree is lost too
		want       string
	}{
		{"a parent", "ou=people," + domain, false, "ou=people," + domain},
		{"a naming context", domain, false, domain},
		{"several values in the RDN", several + ",ou=people," + domain, false, "cn=ann+sn=lee\\+low,ou=people," + domain},
		{"the tree too", "ou=people," + domain, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, p *partition.Partition, s table.Store) {
				loadSample(t, p, 5)
				must(t, add(t, p, several+",ou=people,"+domain, "objectClass: person"))
				must(t, add(t, p, "cn=phone,"+several+",ou=people,"+domain, "objectClass: device"))
				all := []string{domain, "ou=people," + domain, several + ",ou=people," + domain, "cn=phone," + several + ",ou=people," + domain}
				for i := range 5 {
					all = append(all, fmt.Sprintf("uid=u%d,ou=people,%s", i, domain))
				}
				id := idOf(t, p, c.lost)
				lose(t, p, s, "master", string(id[:]))
				if c.tree {
					lose(t, p, s, "tree", " people ")
					c.want = "entryUUID=" + id.String()
				}
				got, lost := salvage(t, reopened(t, p, s))
				if len(got) != len(all)-1 || len(lost) != 1 || lost[0] != c.want {
					t.Errorf("%q, lost %q, want %q", got, lost, c.want)
				}
				for _, n := range all {
					if below, ok := strings.CutSuffix(n, ","+c.lost); ok && !slices.Contains(got, below+","+c.want) {
						t.Errorf("%s,%s is not among %q", below, c.want, got)
					}
				}
			})
		})
	}
}

// reopened closes p, which has entries in its cache, and opens the store again.
func reopened(t *testing.T, p *partition.Partition, s table.Store) *partition.Partition {
	t.Helper()
	ctx := context.Background()
	must(t, p.Close(ctx))
	again, err := partition.Open(ctx, s, partition.Options{Schema: tagged})
	must(t, err)
	t.Cleanup(func() { again.Close(ctx) })
	return again
}

// lose removes those rows of a table whose keys end in suffix.
func lose(t *testing.T, p *partition.Partition, s table.Store, tbl, suffix string) {
	t.Helper()
	b := breakage{
		table: tbl,
		row: func(_ *testing.T, _ *partition.Partition, key []byte) bool {
			return strings.HasSuffix(string(key), suffix)
		},
		cell: func(*partition.Partition, *table.Cell) bool { return true },
	}
	b.apply(t, p, s)
}
