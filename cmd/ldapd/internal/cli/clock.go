package cli

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/wallclock"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
)

// Clock returns the wall clock, or a wrong clock if a test has configured one.
func Clock(c *config.Config) func() time.Time {
	if c.Test.Clock == 0 {
		return time.Now
	}
	return func() time.Time { return time.Now().Add(c.Test.Clock) }
}

// Accepts adds the flag --accept-clock to a command that changes a store.
func Accepts(c *cobra.Command) *cobra.Command {
	c.Flags().Bool(acceptClock, false, "trust the clock this once, although the embedded store has it in doubt")
	return c
}

const acceptClock = "accept-clock"

// isAccepted reports whether --accept-clock was given.
func isAccepted(c *cobra.Command) bool {
	yes, err := c.Flags().GetBool(acceptClock)
	return err == nil && yes
}

// ReadGuard reads what the folder of an embedded store has recorded about the clock. It returns
// nil for commands that only read, for a standby, and for HBase, whose servers have their own
// clocks.
func ReadGuard(c *config.Config, log *slog.Logger, use Mode) (*wallclock.Guard, error) {
	if c.Test != (config.Test{}) {
		log.Warn("options for tests are in force", "in-flight", c.Test.InFlight, "clock", c.Test.Clock)
	}
	if c.Store == "" || hbase.IsURL(c.Store) || use == ReadOnly || use == Standby {
		return nil, nil
	}
	o := wallclock.Options{Folder: c.Store, Now: Clock(c), Log: log}
	if c.Test.Clock != 0 {
		// The shifted clock of a test counts as not synchronized.
		o.Synchronized = func() bool { return false }
	}
	g, err := wallclock.Read(o)
	if err == nil && c.AcceptClock {
		g.Accept()
	}
	return g, err
}

// newest returns a function that reports the time of the newest commit.
func newest(p *partition.Partition) func() time.Time {
	return func() time.Time {
		s := state.Newest(p)
		defer s.Close()
		return s.Revision().Time()
	}
}
