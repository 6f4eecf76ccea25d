package directory

import (
	"testing"

	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// PartitionOf returns tests the partition below.
func PartitionOf(d *Directory) *partition.Partition { return d.server.part }

// Controls returns the controls that are served, and whether each goes with a
// request.
func Controls(r op.Request) map[string]bool {
	goes := map[string]bool{}
	for _, c := range supported {
		goes[c.oid] = c.with&operationsOf(r) != 0
	}
	return goes
}

// SetListCheap makes sorted searches go by an index sooner, until the test ends.
func SetListCheap(t testing.TB, n int) {
	old := listCheap
	listCheap = n
	t.Cleanup(func() { listCheap = old })
}

// AwaitUpgrade waits for the upgrade of a password that may run.
func AwaitUpgrade(d *Directory) {
	d.server.beside.mu.Lock()
	done := d.server.beside.done
	d.server.beside.mu.Unlock()
	if done != nil {
		<-done
	}
}

// SetMaxChain bounds chains of members until the test ends.
func SetMaxChain(t testing.TB, n int) {
	old := maxChain
	maxChain = n
	t.Cleanup(func() { maxChain = old })
}
