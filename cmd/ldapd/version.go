package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
)

func versionCommand(m *cli.Main) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			m.Working = true
			_, err := fmt.Fprintln(m.Stdout, "ldapd", cli.Version())
			return err
		},
	}
}
