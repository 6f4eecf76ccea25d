package main

import (
	"log/slog"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/hasher"
)

// hashCommand returns the command that a server runs in a separate process.
func (m *Main) hashCommand() *cobra.Command {
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

// newHasher returns a hasher that computes slow password hashes in another process of this
// program. The other process does not inherit the environment.
func (m *Main) newHasher(log *slog.Logger) *hasher.Process {
	return hasher.New(func() *exec.Cmd {
		path, err := hasher.Self()
		return &exec.Cmd{Path: path, Err: err, Args: []string{os.Args[0], "hash"}, Env: []string{}, Stderr: m.Stderr}
	}, log)
}
