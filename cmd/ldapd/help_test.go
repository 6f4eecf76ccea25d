package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestHelp runs `ldapd help` for every command that is not hidden, and compares the output with
// the file testdata/help.golden. The file shows all help texts in one place.
func TestHelp(t *testing.T) {
	var b bytes.Buffer
	var show func(c *cobra.Command)
	show = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		fmt.Fprintf(&b, "==== %s\n\n", c.CommandPath())
		c.SetOut(&b)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
		for _, sub := range c.Commands() {
			show(sub)
		}
	}
	m := &cli.Main{Stdin: &bytes.Buffer{}, Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}
	show(root(m))
	const golden = "testdata/help.golden"
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("go test ./cmd/ldapd -run TestHelp -update writes it anew (- golden, + now):\n%s", d)
	}
}
