package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/partition/history"
)

func diffCommand(m *cli.Main) *cobra.Command {
	var a diffArgs
	c := m.Command(&cobra.Command{
		Use:   "diff --store STORE --from WHEN [--to WHEN] [--base DN] [--json]",
		Short: "Write what changed between two moments as LDIF",
		Long: `Write the changes that lead from one state of a directory to another as LDIF, in an
order in which ldapmodify can make them. Attributes that the server itself maintains are
left out, and so are passwords. If --to is earlier than --from, the changes lead back to
the earlier state.`,
		Example: `  ldapd diff --store ./data --from before-upgrade
  ldapd diff --store ./data --from now --to 2026-01-31T12:00:00Z --base ou=people,dc=example,dc=com`,
		Args: cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		return diffJob.Run(ctx, m, c, cli.ReadOnly, m.Around(), a)
	})
	c.Flags().StringVar(&a.From, "from", "", "the state at `WHEN`: "+cli.PointInTimeHelp)
	c.Flags().StringVar(&a.To, "to", "now", "the state at `WHEN`")
	c.Flags().StringVar(&a.Base, "base", "", "leave out what is not below `DN` in either state")
	c.Flags().BoolVar(&a.JSON, "json", false, "print changes as JSON")
	_ = c.MarkFlagRequired("from")
	return c
}

type diffArgs struct {
	From, To, Base string
	JSON           bool
}

var diffJob = cli.NewJob("diff", diff)

func diff(ctx context.Context, w *cli.Work, a diffArgs) error {
	base, err := cli.ParseName("--base", a.Base)
	if err != nil {
		return err
	}
	from, err := cli.StateSince(ctx, w, "--from", a.From)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := cli.StateAt(ctx, w, "--to", a.To)
	if err != nil {
		return err
	}
	defer to.Close()
	if !a.JSON {
		_, err = history.Diff(ctx, from, to, base, w.Stdout)
		return err
	}
	for r, err := range history.Between(ctx, from, to, base) {
		if err == nil {
			err = printRecord(w, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printRecord prints a change in the form of 'ldapd log --json'.
func printRecord(w *cli.Work, r *history.Record) error {
	type row struct {
		Op        string `json:"op"`
		DN        string `json:"dn"`
		EntryUUID string `json:"entryUUID"`
		Changes   string `json:"changes"` // as LDIF
	}
	var text strings.Builder
	out := ldif.NewWriter(&text)
	if err := errors.Join(out.Write(r.LDIF()), out.Flush()); err != nil {
		return err
	}
	return cli.Print(w.Stdout, cli.JSON, []row{{monitor.OperationOf(r.Request).String(), r.Name, r.ID.String(), text.String()}}, nil)
}
