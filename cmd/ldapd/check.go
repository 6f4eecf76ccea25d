package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/tree"
)

func checkCommand(m *cli.Main) *cobra.Command {
	var a checkArgs
	c := m.Command(&cobra.Command{
		Use:   "check --store STORE [--json]",
		Short: "Compare every index, name and normalised value of a store with its entries",
		Long: `Compare a store's names, normalised values and indexes with its entries, in both
directions, and look for entries that cannot be reached and for cells that no commit
wrote. Each finding is printed on a line, or with --json as an object. The exit status
is 1 if there is a finding. The store is only read.`,
		Args: cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		return checkJob.Run(ctx, m, c, cli.ReadOnly, m.Around(), a)
	})
	c.Flags().BoolVar(&a.JSON, "json", false, "print findings as JSON")
	return c
}

// checkArgs are the arguments of the command besides the configuration.
type checkArgs struct{ JSON bool }

var checkJob = cli.NewJob("check", check).Offered("", nil, cli.NoWords[checkArgs])

func check(ctx context.Context, w *cli.Work, a checkArgs) error {
	progress := w.Progress("check")
	progress.Begin()
	found, damaged := 0, map[string]bool{}
	entries, err := verify.Verify(ctx, w.Partition, verify.Options{Progress: progress.Part, Found: func(f *verify.Finding) error {
		found++
		if f.Fault == verify.FaultDamage {
			damaged[f.Table] = true
		}
		return printFinding(w, f, a.JSON)
	}})
	progress.End()
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: the check is not complete; run it again")
	case err != nil:
		return err
	case found > 0:
		return fmt.Errorf("%d findings in %d entries: %s", found, entries, remedy(damaged))
	}
	if !a.JSON {
		_, err = fmt.Fprintf(w.Stdout, "checked %s: nothing found\n", progress.Rate(entries))
	}
	return err
}

// remedy returns advice on which command repairs the findings. The parameter damaged contains
// the names of the tables that cannot be read completely.
func remedy(damaged map[string]bool) string {
	switch {
	case len(damaged) == 0:
		return "'ldapd reindex' rebuilds names and indexes from the entries; what is wrong with an entry itself must be repaired by hand"
	case damaged[master.Name] || damaged[journal.Table]:
		return "entries themselves cannot be read: go back to a backup, or save what can be read by 'ldapd export --continue' and import it into a new store (docs/disaster.md)"
	case damaged[tree.Name]:
		return "no entry is damaged, but the table that finds them by name is: 'ldapd export --continue' has all of them; import it into a new store (docs/disaster.md)"
	}
	return "no entry is damaged: 'ldapd reindex' rebuilds names and indexes from the entries (docs/disaster.md)"
}

func printFinding(w *cli.Work, f *verify.Finding, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintln(w.Stdout, f)
		return err
	}
	out := struct {
		Fault verify.Fault `json:"fault"`
		Table string       `json:"table"`
		ID    string       `json:"id,omitempty"`
		DN    string       `json:"dn,omitempty"`
		Text  string       `json:"text"`
	}{f.Fault, f.Table, "", f.Name, f.Text}
	if f.ID != entry.Root {
		out.ID = f.ID.String()
	}
	return json.NewEncoder(w.Stdout).Encode(out)
}
