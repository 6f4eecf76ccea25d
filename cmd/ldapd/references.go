package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
)

func referencesCommand(m *cli.Main) *cobra.Command {
	var a referencesArgs
	c := a.Format.AddTo(cli.Accepts(m.Command(&cobra.Command{
		Use:   "references --store STORE [--must-exist] [--repair] [--end] [ATTR]...",
		Short: "Update values that name entries when these entries are renamed or deleted",
		Long: `Make the values of attributes follow the entries that they name, as those of member,
uniqueMember, manager and owner do in a new directory: when an entry is
renamed or moved, the values that name it are changed, and when it is deleted, they are
removed, in the same commit, whichever servers make the changes. The attributes need
indexes. A value that an object class requires is replaced by the empty name.

A value may name an entry that does not exist, unless --must-exist is given. With
--repair, the values that name no entry are removed. Without attributes, list the
attributes whose values follow. With --end, the values do not follow any more.`,
		Example: `  ldapd references --store ./data member uniqueMember manager
  ldapd references --store ./data --must-exist --repair owner`,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		use := cli.ReadWrite
		if a.Attributes = args; len(args) == 0 {
			use = cli.ReadOnly
		}
		return referencesJob.Run(ctx, m, c, use, m.Around(), a)
	})))
	c.Flags().BoolVar(&a.MustExist, "must-exist", false, "refuse values that name no entry")
	c.Flags().BoolVar(&a.Repair, "repair", false, "remove the values that name no entry")
	c.Flags().BoolVar(&a.End, "end", false, "stop changing the values when entries are renamed or deleted")
	c.MarkFlagsMutuallyExclusive("end", "must-exist")
	c.MarkFlagsMutuallyExclusive("end", "repair")
	return c
}

// referencesArgs are the arguments of the command besides the configuration.
type referencesArgs struct {
	Attributes             []string
	MustExist, Repair, End bool
	Format                 cli.Format
}

var referencesJob = cli.NewJob("references", references)

func references(ctx context.Context, w *cli.Work, a referencesArgs) error {
	if len(a.Attributes) == 0 {
		return listReferences(w, a.Format)
	}
	set := func(names []string, mustExist bool) error {
		if len(names) == 0 {
			return nil
		}
		rs := make([]catalog.Reference, len(names))
		for i, name := range names {
			rs[i] = catalog.Reference{Attribute: name, MustExist: mustExist}
		}
		return onlineschema.SetReferences(ctx, w.Partition, rs, !a.End)
	}
	if !a.Repair {
		return set(a.Attributes, a.MustExist)
	}
	return repair(ctx, w, a, set)
}

// repair changes the settings of attributes in steps. First it makes the values follow their
// entries. Then it removes values that name no entry. With MustExist, it finally requires that
// values name existing entries.
func repair(ctx context.Context, w *cli.Work, a referencesArgs, set func(names []string, mustExist bool) error) error {
	var follow, require []string
	for _, name := range a.Attributes {
		now, err := following(w, name)
		if err != nil {
			return err
		}
		if now == nil {
			follow = append(follow, name)
		}
		if a.MustExist && (now == nil || !now.MustExist) {
			require = append(require, name)
		}
	}
	if err := set(follow, false); err != nil {
		return err
	}
	for _, name := range a.Attributes {
		n, err := onlineschema.RepairReferences(ctx, w.Partition, name, w.By("references"))
		if err != nil {
			return err
		}
		fmt.Fprintf(w.Stdout, "%s: %d values that named no entry were taken away\n", name, n)
	}
	return set(require, true)
}

// following returns the setting of an attribute. It returns nil if the attribute's
// values do not follow entries.
func following(w *cli.Work, name string) (*catalog.Reference, error) {
	all, err := onlineschema.References(w.Partition)
	if err != nil {
		return nil, err
	}
	s := w.Schema()
	for _, r := range all {
		if t := s.Attribute(name); t != nil && s.Attribute(r.Attribute) == t {
			return &r, nil
		}
	}
	return nil, nil
}

func listReferences(w *cli.Work, f cli.Format) error {
	all, err := onlineschema.References(w.Partition)
	if err != nil {
		return err
	}
	type row struct {
		Attribute string `json:"attribute"`
		MustExist bool   `json:"mustExist"`
	}
	var rows []row
	for _, r := range all {
		rows = append(rows, row{r.Attribute, r.MustExist})
	}
	return cli.Print(w.Stdout, f, rows, func(r row) string {
		if r.MustExist {
			return r.Attribute + " (must name entries)"
		}
		return r.Attribute
	})
}
