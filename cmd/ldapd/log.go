package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// The commands about the past are log, diff and restore. They call package history.

func logCommand(m *cli.Main) *cobra.Command {
	var a logArgs
	c := m.Command(&cobra.Command{
		Use:   "log --store STORE [--since WHEN] [--until WHEN] [--by DN] [--json] [DN]",
		Short: "Show who changed what and when",
		Long: `Show who changed what and when, one change per line, the oldest first. With a DN, show
only the changes of this entry, under all names that it had. With --json each line is an
object with the changes as LDIF. Changes of passwords are mentioned, but passwords are
never shown. Changes older than retention are not shown; if --since is older, a note says
from when on changes are kept.`,
		Example: `  ldapd log --store ./data uid=ann,ou=people,dc=example,dc=com
  ldapd log --store ./data --since 2026-01-31T12:00:00Z --by cn=admin,dc=example,dc=com`,
		Args: cobra.MaximumNArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a.DN = strings.Join(args, "")
		return logJob.Run(ctx, m, c, cli.ReadOnly, m.Around(), a)
	})
	c.Flags().StringVar(&a.Since, "since", "", "show only the changes after `WHEN`: "+cli.PointInTimeHelp)
	c.Flags().StringVar(&a.Until, "until", "now", "show only the changes up to `WHEN`")
	c.Flags().StringVar(&a.By, "by", "", "show only the changes that `DN` made")
	c.Flags().BoolVar(&a.JSON, "json", false, "print changes as JSON")
	return c
}

type logArgs struct {
	DN, Since, Until, By string
	JSON                 bool
}

var logJob = cli.NewJob("log", printLog)

func printLog(ctx context.Context, w *cli.Work, a logArgs) error {
	o := history.LogOptions{JSON: a.JSON}
	var err error
	if o.Name, err = w.Name(ctx, "the name", a.DN); err != nil {
		return err
	}
	if o.By, err = w.Name(ctx, "--by", a.By); err != nil {
		return err
	}
	if o.Until, err = cli.StateAt(ctx, w, "--until", a.Until); err != nil {
		return err
	}
	defer o.Until.Close()
	if a.Since == "" {
		a.Since = w.Partition.DB.Horizon().String()
	}
	if a.Since != table.Revision(0).String() { // at revision 0 there is no state to protect
		s, err := cli.StateSince(ctx, w, "--since", a.Since)
		if err != nil {
			return err
		}
		defer s.Close() // an open snapshot protects later states from collection
		o.Since = s.Revision()
	}
	_, err = history.Log(ctx, w.Partition, w.Stdout, o)
	return err
}
