package directory

import (
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory/internal/filterprep"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/search"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// PartitionOf returns the partition of a directory.
func PartitionOf(d *Directory) *partition.Partition { return d.server.Part }

// Controls returns the controls that are served, and whether each applies to a request.
func Controls(r op.Request) map[string]bool {
	goes := map[string]bool{}
	for _, oid := range request.SupportedControls() {
		goes[oid] = request.GoesWith(oid, r)
	}
	return goes
}

// ControlText returns the OID and the name of a control.
func ControlText(oid string) string { return request.ControlText(oid) }

// SetListCheap sets search.ListCheap until the test ends. A paged search with more than n
// candidates then sorts by an index, if an index has the order.
func SetListCheap(t testing.TB, n int) {
	old := search.ListCheap
	search.ListCheap = n
	t.Cleanup(func() { search.ListCheap = old })
}

// Settle waits for the background jobs that record the results of binds.
func Settle(d *Directory) { d.server.Ledgers.Settle() }

// AwaitUpgrade waits for the upgrade of a password, if one is running.
func AwaitUpgrade(d *Directory) { d.server.Background.Wait() }

// SetMaxChain sets filters.MaxChain until the test ends.
func SetMaxChain(t testing.TB, n int) {
	old := filterprep.MaxChain
	filterprep.MaxChain = n
	t.Cleanup(func() { filterprep.MaxChain = old })
}
