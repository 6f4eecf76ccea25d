package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/hasher"
)

// hashCommand returns the command that a server runs in a separate process.
func hashCommand(m *Main) *cobra.Command {
	return &cobra.Command{
		Use:    "hash",
		Short:  "Make password hashes for a server",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			m.working = true
			return hasher.Serve(m.Stdin, os.Stdout)
		},
	}
}
