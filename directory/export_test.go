package directory

import (
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory/internal/filters"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/search"
	"github.com/seed-4dac0d86/ldapd/op"
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

// SetListCheap makes paged searches use an index for sorting if they have more than n
// candidates, until the test ends.
func SetListCheap(t testing.TB, n int) {
	old := search.ListCheap
	search.ListCheap = n
	t.Cleanup(func() { search.ListCheap = old })
}

// Settle waits until the records that binds make in the background are written.
func Settle(d *Directory) { d.server.Ledgers.Settle() }

// AwaitUpgrade waits for the upgrade of a password, if one is running.
func AwaitUpgrade(d *Directory) { d.server.Beside.Wait() }

// SetMaxChain sets the largest length of member chains until the test ends.
func SetMaxChain(t testing.TB, n int) {
	old := filters.MaxChain
	filters.MaxChain = n
	t.Cleanup(func() { filters.MaxChain = old })
}
