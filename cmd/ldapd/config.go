package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

func configCommand(m *cli.Main) *cobra.Command {
	c := m.Command(&cobra.Command{
		Use:   "config",
		Short: "Print the configuration in force and where each value came from",
		Long: `Print the configuration that serve would run with, as YAML that can be a configuration
file, with the origin of every value: a default, a line of the file, an environment
variable, or a flag. The later of these take precedence.`,
		Args: cobra.NoArgs,
	}, cli.AllKeys, func(_ context.Context, c *config.Config, _ []string) error {
		return c.Print(m.Stdout)
	})
	c.AddCommand(configCheckCommand(m))
	return c
}
