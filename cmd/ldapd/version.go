package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (m *Main) versionCommand() *cobra.Command {
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

// version is the module's version, or the commit that a build from a work tree
// is made of.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "devel"
}
