package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/serving"
)

func serveCommand(m *cli.Main) *cobra.Command {
	use, create := cli.Serve, false
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "serve --store STORE [--create [--access PROFILE] [--password-policy POLICY]] [--accept-clock] [--listen URL]... [--suffix DN]...",
		Short: "Serve the directory in a store",
		Long: `Serve the directory in a store until the process is told to stop. With --create, a
missing store is created as an empty directory: --suffix names its naming contexts,
--access decides who may see what, and --password-policy what passwords must be like.
When clients can connect, a line "ready URL..." is printed.`,
		Example: `  ldapd serve --store ./data --create --suffix dc=example,dc=com --admin-password-file ./admin.pw`,
		Args:    cobra.NoArgs,
	}, cli.AllKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		if create {
			use = cli.Init
		}
		return serving.Serve(ctx, m, c, use, jobs)
	}))
	c.Flags().BoolVar(&create, "create", false, "make the store if there is none")
	return c
}
