package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
)

// TestPeoplePage runs the commands of docs/people.md, one after the other.
func TestPeoplePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/people.md")
	if err != nil {
		t.Fatal(err)
	}
	store, first := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "first.ldif")
	if err := os.WriteFile(first, []byte("dn: dc=example,dc=com\nobjectClass: domain\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := 0
	run := func(args ...string) {
		t.Helper()
		var said bytes.Buffer
		m := &cli.Main{Stdin: &bytes.Buffer{}, Stdout: &said, Stderr: &said}
		if status := m.Run(t.Context(), root(m), args); status != 0 {
			t.Errorf("%s: exit status %d\n%s", args, status, said.String())
		}
		ran++
	}
	run("import", "--store", store, "--suffix", "dc=example,dc=com", first)
	for line := range strings.Lines(string(page)) {
		command, ok := strings.CutPrefix(line, "    ldapd ")
		if !ok {
			continue
		}
		var args []string
		for i, part := range strings.Split(strings.ReplaceAll(strings.TrimSpace(command), "--store S", "--store "+store), `"`) {
			if i%2 == 1 {
				args = append(args, part) // in quotes
			} else {
				args = append(args, strings.Fields(part)...)
			}
		}
		run(args...)
	}
	if ran != 11 {
		t.Errorf("%d commands", ran)
	}
}
