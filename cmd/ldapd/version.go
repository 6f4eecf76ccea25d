package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func versionCommand(m *Main) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			m.working = true
			_, err := fmt.Fprintln(m.Stdout, "ldapd", version())
			return err
		},
	}
}
