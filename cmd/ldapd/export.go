package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/serving"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// exportArgs are the arguments of the command besides the configuration.
type exportArgs struct {
	Base, Filter, At string
	Branch           string
	NoSchema         bool
	NoConfig         bool
	Continue         bool
	Summary          bool // print a summary on standard error
}

var exportJob = cli.NewJob("export", export)

func exportCommand(m *cli.Main) *cobra.Command {
	var a exportArgs
	var output string
	c := m.Command(&cobra.Command{
		Use:   "export --store STORE [--base DN] [--filter FILTER] [--at WHEN | --branch NAME] [--continue] [--output FILE]",
		Short: "Write a directory as LDIF",
		Long: `Write a directory as LDIF to standard output or a file, each entry before those below
it, with everything that is stored, including operational attributes and passwords.
Definitions that the directory has besides the built-in schema come first, as an entry
cn=Subschema; in an export of everything the naming contexts, indexes and unique
attributes follow, as an entry cn=config. Importing such an export makes the same
directory again.

With --continue, an export of everything skips what cannot be read in a damaged store.
What is lost is reported on standard error, and the exit status is 1.`,
		Example: `  ldapd export --store ./data --output all.ldif.zst
  ldapd export --store ./data --base ou=people,dc=example,dc=com --filter '(l=Oslo)'
  ldapd export --store ./data --at 2026-01-31T12:00:00Z`,
		Args: cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		a.Summary = output != ""
		if a.Branch != "" && a.At != "now" {
			return &config.Error{Where: "--branch", Text: "a branch is exported as it is now: leave out --at"}
		}
		if _, _, err := a.parse(); err != nil {
			return err
		}
		if output == "" {
			sayReadable(m.Stdout, m.Stderr)
		}
		// With --continue, the variable lost contains the error of the job, such as an error
		// about parts that could not be read. The file is kept in spite of this error.
		var lost error
		err := writeOutput(m, output, func(w io.Writer) error {
			around := m.Around()
			around.Stdout = w
			err := exportJob.Run(ctx, m, c, cli.ReadOnly, around, a)
			if a.Continue && ctx.Err() == nil {
				lost, err = err, nil
			}
			return err
		})
		return errors.Join(err, lost)
	})
	c.Flags().BoolVar(&a.Continue, "continue", false, "skip what cannot be read in a damaged store")
	c.Flags().StringVar(&a.Base, "base", "", "`DN` of the subtree to export")
	c.Flags().StringVar(&a.Filter, "filter", "", "`FILTER` that entries must match")
	c.Flags().StringVar(&a.At, "at", "now", "the state at `WHEN`: "+cli.PointInTimeHelp)
	c.Flags().StringVar(&a.Branch, "branch", "", "the state of the branch `NAME`")
	c.Flags().StringVarP(&output, "output", "o", "", "`FILE` to write, compressed if it ends with .gz or .zst")
	c.Flags().BoolVar(&a.NoSchema, "no-schema", false, "leave out the definitions of cn=Subschema")
	c.Flags().BoolVar(&a.NoConfig, "no-config", false, "leave out naming contexts, indexes and unique attributes")
	return c
}

// writeOutput calls fn with the file, or with standard output if file is "".
func writeOutput(m *cli.Main, file string, fn func(io.Writer) error) error {
	if file == "" {
		return fn(m.Stdout)
	}
	w, finish, err := bulk.CreateFile(file)
	if err != nil {
		return err
	}
	return finish(fn(w))
}

func (a *exportArgs) parse() (o bulk.ExportOptions, at state.PointInTime, err error) {
	o.NoSchema, o.NoConfig = a.NoSchema, a.NoConfig
	if o.Base, err = dn.Parse(a.Base); err != nil {
		return o, at, &config.Error{Where: "--base", Text: err.Error()}
	}
	if a.Filter != "" {
		if o.Filter, err = filter.Parse(a.Filter); err != nil {
			return o, at, &config.Error{Where: "--filter", Text: err.Error()}
		}
	}
	if a.Continue && (len(o.Base) > 0 || o.Filter != nil) {
		return o, at, &config.Error{Where: "--continue", Text: "it exports everything: leave out --base and --filter"}
	}
	if at, err = state.ParsePointInTime(a.At); err != nil {
		return o, at, &config.Error{Where: "--at", Text: err.Error()}
	}
	return o, at, nil
}

// exported returns the current state of a branch or, if from is "", the state at a point
// in time.
func exported(ctx context.Context, w *cli.Work, from string, at state.PointInTime) (*partition.Snapshot, error) {
	if from == "" {
		return state.AtPoint(ctx, w.Partition, at)
	}
	b, err := branch.Find(w.Partition, from)
	if err != nil {
		return nil, err
	}
	return b.Snapshot(ctx)
}

func export(ctx context.Context, w *cli.Work, a exportArgs) error {
	o, at, err := a.parse()
	if err != nil {
		return err
	}
	s, err := exported(ctx, w, a.Branch, at)
	if err != nil {
		return err
	}
	defer s.Close()
	lost := 0
	if a.Continue {
		o.Lost = func(what string, err error) error {
			lost++
			_, e := fmt.Fprintf(w.Stderr, "lost: %s: %v\n", what, err)
			return e
		}
	}
	o.Progress = w.Progress("export")
	o.Progress.Begin()
	n, err := bulk.Export(ctx, w.Partition, s, w.Stdout, o)
	o.Progress.End()
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err == nil && a.Summary {
		fmt.Fprintln(w.Stderr, "exported", o.Progress.Rate(n), "as of", s.Revision().String())
	}
	if err == nil && lost > 0 {
		err = fmt.Errorf("%d entries were exported; %d things could not be read and are named above", n, lost)
	}
	return err
}

// sayReadable writes a warning to w if out is a file that other users can read.
func sayReadable(out, w io.Writer) {
	f, ok := out.(*os.File)
	if !ok {
		return
	}
	if info, err := f.Stat(); err == nil && serving.ReadableByOthers(info) {
		io.WriteString(w, "ldapd: others can read this output, which has password hashes: its file should have mode 0600\n")
	}
}
