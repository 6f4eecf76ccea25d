package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/bulk"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/revision"
)

// exportFlags are what the command has besides the configuration.
type exportFlags struct {
	base, filter, at, output string
	noSchema                 bool
}

func (m *Main) exportCommand() *cobra.Command {
	var f exportFlags
	c := m.command(&cobra.Command{
		Use:   "export --store STORE [--base DN] [--filter FILTER] [--at WHEN] [--output FILE]",
		Short: "Write a directory as LDIF",
		Long: `Write a directory as LDIF to standard output or a file, each entry before those
below it, with everything that is stored: operational attributes and passwords
too. Definitions that the directory has besides the built-in schema come first, as
an entry cn=Subschema. Importing it all makes the same directory again.`,
		Example: `  ldapd export --store ./data --output all.ldif.zst
  ldapd export --store ./data --base ou=people,dc=example,dc=com --filter '(l=Oslo)'
  ldapd export --store ./data --at 2026-01-31T12:00:00Z`,
		Args: cobra.NoArgs,
	}, storeKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		return m.export(ctx, c, f)
	})
	c.Flags().StringVar(&f.base, "base", "", "`DN` to begin at")
	c.Flags().StringVar(&f.filter, "filter", "", "`FILTER` that entries must match")
	c.Flags().StringVar(&f.at, "at", "now", "the state at `WHEN`: "+moments)
	c.Flags().StringVarP(&f.output, "output", "o", "", "`FILE` to write, compressed if it ends with .gz or .zst")
	c.Flags().BoolVar(&f.noSchema, "no-schema", false, "leave out the definitions of cn=Subschema")
	return c
}

// moments says what people may write for a moment.
const moments = "a time as 2026-01-31T12:00:00Z, a revision, or the name of a checkpoint"

func (m *Main) export(ctx context.Context, c *config.Config, f exportFlags) (err error) {
	o := bulk.ExportOptions{NoSchema: f.noSchema, Progress: m.progress("export")}
	if o.Base, err = dn.Parse(f.base); err != nil {
		return &config.Error{Where: "--base", Text: err.Error()}
	}
	if f.filter != "" {
		if o.Filter, err = filter.Parse(f.filter); err != nil {
			return &config.Error{Where: "--filter", Text: err.Error()}
		}
	}
	at, err := partition.ParseMoment(f.at)
	if err != nil {
		return &config.Error{Where: "--at", Text: err.Error()}
	}
	if err := storeThere(c); err != nil {
		return err
	}
	defer lowMemory(c)()
	p, err := openPartition(ctx, c, m.logger(c), reading)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	s, err := p.AtMoment(ctx, at)
	if err != nil {
		return err
	}
	defer s.Close()
	return m.exportTo(ctx, p.Partition, s, f.output, o)
}

func (m *Main) exportTo(ctx context.Context, p *partition.Partition, s *partition.Snapshot, file string, o bulk.ExportOptions) error {
	var w io.Writer = m.Stdout
	finish := func(err error) error { return err }
	if file != "" {
		var err error
		if w, finish, err = bulk.CreateFile(file); err != nil {
			return err
		}
	}
	o.Progress.Begin()
	n, err := bulk.Export(ctx, p, s, w, o)
	o.Progress.End()
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err = finish(err); err == nil && file != "" {
		fmt.Fprintln(m.Stderr, "exported", o.Progress.Rate(n), "as of", revision.String(s.Revision()))
	}
	return err
}
