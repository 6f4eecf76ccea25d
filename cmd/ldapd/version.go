package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
)

func versionCommand(m *cli.Main) *cobra.Command {
	var f cli.Format
	return f.AddTo(&cobra.Command{
		Use:   "version [--json]",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			m.Working = true
			type version struct {
				Version string `json:"version"`
			}
			return cli.Print(m.Stdout, f, []version{{cli.Version()}}, func(v version) string { return "ldapd " + v.Version })
		},
	})
}
