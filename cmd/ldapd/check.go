package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
)

func (m *Main) checkCommand() *cobra.Command {
	var asJSON bool
	c := m.command(&cobra.Command{
		Use:   "check --store STORE [--json]",
		Short: "Compare every index, name and normalised value of a store with its entries",
		Long: `Compare a store's names, normalised values and indexes with its entries, in both
directions, and look for entries that nothing reaches and for cells that no commit
wrote. Every finding is a line; with --json, an object a line. The exit status is 1
if there are any. The store is only read.`,
		Args: cobra.NoArgs,
	}, storeKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		return m.check(ctx, c, asJSON)
	})
	c.Flags().BoolVar(&asJSON, "json", false, "print findings as JSON")
	return c
}

// storeThere keeps commands that need a directory from making a folder for it.
func storeThere(c *config.Config) error {
	if c.Store == "" || strings.HasPrefix(c.Store, "hbase:") {
		return nil // opening it will say what is wrong
	}
	if _, err := os.Stat(c.Store); err != nil {
		return fmt.Errorf("no store there: %w", err)
	}
	return nil
}

func (m *Main) check(ctx context.Context, c *config.Config, asJSON bool) (err error) {
	if err := storeThere(c); err != nil {
		return err
	}
	defer lowMemory(c)()
	p, err := openPartition(ctx, c, m.logger(c), reading)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	progress := m.progress("check")
	progress.Begin()
	found := 0
	entries, err := p.Verify(ctx, partition.VerifyOptions{
		Progress: progress.Entries,
		Found: func(f *partition.Finding) error {
			found++
			return m.printFinding(f, asJSON)
		},
	})
	progress.End()
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: the check is not complete; run it again")
	case err != nil:
		return err
	case found > 0:
		return fmt.Errorf("%d findings in %d entries: 'ldapd reindex' makes names and indexes anew from the entries; what is wrong with an entry itself must be mended by hand", found, entries)
	}
	if !asJSON {
		_, err = fmt.Fprintf(m.Stdout, "checked %s: nothing found\n", progress.Rate(entries))
	}
	return err
}

func (m *Main) printFinding(f *partition.Finding, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintln(m.Stdout, f)
		return err
	}
	out := struct {
		Fault partition.Fault `json:"fault"`
		Table string          `json:"table"`
		ID    string          `json:"id,omitempty"`
		DN    string          `json:"dn,omitempty"`
		Text  string          `json:"text"`
	}{f.Fault, f.Table, "", f.Name, f.Text}
	if f.ID != entry.Root {
		out.ID = f.ID.String()
	}
	return json.NewEncoder(m.Stdout).Encode(out)
}
