package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
)

// TestAcceptClock checks which commands have the flag --accept-clock: those that may change an
// embedded store that exists, and branch check.
func TestAcceptClock(t *testing.T) {
	reads := []string{"check", "cluster", "count", "diff", "explain", "export", "index", "log", "list", "show", "profile", "policy", "whoami", "try", "drill", "search", "status"}
	onHBase := []string{"snapshot", "clone", "cut"} // stores on HBase do not record the clock
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		if c.Flags().Lookup("store") == nil || c.Name() == "config" || c.CommandPath() == "ldapd config check" || c.CommandPath() == "ldapd access import" { // access import changes nothing
			return
		}
		opensToWrite := c.CommandPath() == "ldapd branch check"                                                                  // branch check opens the store for writing, as a merge does
		want := (opensToWrite || !slices.Contains(reads, c.Name())) && !slices.Contains(onHBase, c.Name()) && c.Name() != "init" // a new store has recorded no clock
		if got := c.Flags().Lookup("accept-clock") != nil; got != want {
			t.Errorf("%s has --accept-clock: %v", strings.TrimPrefix(c.CommandPath(), "ldapd "), got)
		}
	}
	visit(root(&cli.Main{}))
}
