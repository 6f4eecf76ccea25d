package cli

import (
	"os"
	"runtime/debug"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

// bulkMemory is the memory limit of a command that works on a store without serving it. It
// includes the block cache and the memtables of an embedded store.
const bulkMemory = 640 << 20

// LowMemory limits the memory of the process, unless GOMEMLIMIT is set, and makes the
// cache small, unless its size is configured. A large cache would be useless for commands that
// read each entry only once. The returned function restores the limit.
func LowMemory(c *config.Config) func() {
	if c.Cache == 0 {
		c.Cache = 32 << 20
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(bulkMemory)
	return func() { debug.SetMemoryLimit(before) }
}
