// Package cli has what the commands of the program share: the program with its streams, the
// configuration of a command, the store that it opens, and the jobs that a server does for it.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

// The exit statuses of the program.
const (
	exitDone    = 0
	exitFailure = 1
	exitUsage   = 2
)

// Main is the program, with the streams and the environment of its process.
type Main struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            []string // in the form of os.Environ

	Working bool // a command's work has begun, so the command line was understood
	level   slog.LevelVar
	Reread  func() (*config.Config, error) // reads the configuration of the running command again
}

// Run runs the command line args of the command root, and returns the exit status. When ctx
// ends, the command finishes in an orderly way.
func (m *Main) Run(ctx context.Context, root *cobra.Command, args []string) int {
	m.Working = false
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(m.Stderr, "ldapd: %v%s\n", err, advice(err))
	var mistake *config.Error
	if !m.Working {
		fmt.Fprintln(m.Stderr, "See 'ldapd --help'.")
		return exitUsage
	}
	if errors.As(err, &mistake) {
		return exitUsage
	}
	return exitFailure
}

// Command completes a command that runs fn. It adds flags for those keys of the
// configuration that the command uses, and passes the configuration in force to fn.
func (m *Main) Command(c *cobra.Command, keys []string, fn func(context.Context, *config.Config, []string) error) *cobra.Command {
	AddKeys(c, keys)
	c.RunE = func(c *cobra.Command, args []string) error {
		m.Working = true
		m.Reread = func() (*config.Config, error) { return m.load(c) }
		cfg, err := m.Reread()
		if err != nil {
			return err
		}
		cfg.AcceptClock = isAccepted(c)
		return fn(c.Context(), cfg, args)
	}
	return c
}

// AddKeys adds a flag for each of the keys.
func AddKeys(c *cobra.Command, keys []string) {
	for _, k := range config.Keys {
		if !uses(keys, k.Name) {
			continue
		}
		if k.List {
			c.Flags().StringArray(k.Flag(), nil, k.Help)
		} else {
			c.Flags().String(k.Flag(), "", k.Help)
		}
		c.Flags().Lookup(k.Flag()).Hidden = k.Test
	}
}

// AllKeys are the keys of commands that use the whole configuration.
var AllKeys = []string{"*"}

// StoreKeys are the keys of commands that work on a store without serving it.
var StoreKeys = []string{"store", "cache", "log.level", "log.format", "test.clock"}

func uses(keys []string, name string) bool {
	for _, k := range keys {
		if k == name || k == "*" {
			return true
		}
	}
	return false
}

// load reads the configuration from the file, the environment and the flags.
func (m *Main) load(c *cobra.Command) (*config.Config, error) { return config.Load(m.Sources(c)) }

// Sources returns the places of a command's configuration.
func (m *Main) Sources(c *cobra.Command) config.Sources {
	given := map[string][]string{}
	for _, k := range config.Keys {
		f := c.Flags().Lookup(k.Flag())
		if f == nil || !f.Changed {
			continue
		}
		if k.List {
			given[k.Name], _ = c.Flags().GetStringArray(f.Name)
		} else {
			given[k.Name] = []string{f.Value.String()}
		}
	}
	file, _ := c.Flags().GetString("config")
	return config.Sources{File: cmp.Or(file, config.FileOf(m.Env, given["store"] != nil)), Env: m.Env, Flags: given}
}
