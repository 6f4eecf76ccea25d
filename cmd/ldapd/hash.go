package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/hasher"
)

// hashCommand returns the command that a server runs in a separate process.
func hashCommand(m *cli.Main) *cobra.Command {
	return &cobra.Command{
		Use:    "hash",
		Short:  "Make password hashes for a server",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			m.Working = true
			return hasher.Serve(m.Stdin, os.Stdout)
		},
	}
}
