package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

func gcCommand(m *cli.Main) *cobra.Command {
	var a gcArgs
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "gc --store STORE [--retention TIME] [--all] [--dry-run [--budget TIME]]",
		Short: "Remove what retention no longer keeps",
		Long: `Remove what was replaced or deleted longer ago than --retention, and the journal of
these changes, except what checkpoints keep. Servers do the same by themselves. Run the
command to get space back now, or to keep less of the past than is configured. What was
removed cannot be read again.

If a server is reading an older state, the command waits for it, at most for the time of
two leases, and then removes less. With --all, it looks at every row and not only at the
rows that changed. With --dry-run, it counts for the time of --budget at most, and says
"at least" if it did not come to the end.`,
		Example: `  ldapd gc --store ./data --dry-run
  ldapd gc --store ./data --retention 24h`,
		Args: cobra.NoArgs,
	}, append([]string{"retention"}, cli.StoreKeys...), func(ctx context.Context, c *config.Config, _ []string) error {
		if err := a.setRetention(c); err != nil {
			return err
		}
		return gcJob.Run(ctx, m, c, cli.ReadWrite, m.Around(), a)
	}))
	gcFlags(c.Flags(), &a)
	return c
}

func gcFlags(f *pflag.FlagSet, a *gcArgs) {
	f.BoolVar(&a.All, "all", false, "look at every row")
	f.BoolVar(&a.Dry, "dry-run", false, "say what would be removed, and remove nothing")
	f.DurationVar(&a.Budget, "budget", 5*time.Second, "`TIME` that --dry-run may count, 0 for no limit")
}

// setRetention sets the configured retention.
func (a *gcArgs) setRetention(c *config.Config) error {
	if a.Retention = c.Retention; a.Retention == 0 {
		return &config.Error{Where: c.Origin("retention"), Text: "the past is kept without a limit: say how long it should be kept, such as --retention 24h"}
	}
	return nil
}

// gcArgs are the retention, and the arguments of the command besides the configuration.
type gcArgs struct {
	Retention time.Duration
	All, Dry  bool
	Budget    time.Duration
}

var gcJob = cli.NewJob("gc", gc, "retention").Offered("[--dry-run] [--all] [--budget TIME]", gcFlags,
	func(c *config.Config, a *gcArgs, words []string) error {
		return errors.Join(a.setRetention(c), cli.NoWords(c, a, words))
	})

func gc(ctx context.Context, w *cli.Work, a gcArgs) error {
	done, err := w.Partition.DB.Collect(ctx, txn.CollectOptions{Retention: a.Retention, All: a.All, Dry: a.Dry, Budget: a.Budget, Now: true})
	if err != nil {
		return err
	}
	removed, since := "removed", "the past can be read from"
	if a.Dry {
		removed, since = "would remove", "the past could be read from"
	}
	if done.Partial {
		removed += " at least"
	}
	_, err = fmt.Fprintf(w.Stdout, "%s %d versions (%d bytes) in %d rows, and the journal of %d changes\n%s %s on\n",
		removed, done.Removed.Cells, done.Removed.Bytes, done.Rows, done.Commits,
		since, done.Horizon.Time().UTC().Format(time.RFC3339))
	return err
}
