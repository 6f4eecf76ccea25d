package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

func indexCommand(m *cli.Main) *cobra.Command {
	var a indexArgs
	return a.Format.AddTo(m.Command(&cobra.Command{
		Use:   "index --store STORE [--json | --csv] [ATTR]...",
		Short: "Show how many values and entries indexes have, and the layout that suits them",
		Long: `Show the indexes, or those of some attributes: the layout, the layout that suits the
values, the number of different values, of entries of all values together, and of entries
that share the most frequent value. The layout column suits values that few entries share,
row all others: the entries of one value are one row in the layout column, and HBase
cannot split a row. 'ldapd reindex ATTR' gives an index the layout that suits it, while
servers run.`,
		Example: `  ldapd index --store ./data
  ldapd index --store ./data mail member`,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a.Attributes = args
		return indexJob.Run(ctx, m, c, cli.ReadOnly, m.Around(), a)
	}))
}

type indexArgs struct {
	Attributes []string
	Format     cli.Format
}

// indexText is an index in JSON.
type indexText struct {
	Attribute string         `json:"attribute"`
	Layout    catalog.Layout `json:"layout"`
	Suits     catalog.Layout `json:"suits"`
	Ready     bool           `json:"ready"`
	Values    int64          `json:"values"`
	Entries   int64          `json:"entries"`
	Largest   int64          `json:"largest"` // number of entries of the most frequent value
}

var indexJob = cli.NewJob("index", showIndexes)

// showIndexes writes a line for each index, or for the indexes of the named attributes.
func showIndexes(ctx context.Context, w *cli.Work, a indexArgs) error {
	s := state.Newest(w.Partition)
	defer s.Close()
	shown := s.Catalog.Ordered
	if len(a.Attributes) > 0 {
		shown = nil
		for _, name := range a.Attributes {
			x := s.Catalog.Indexes[s.Schema().Attribute(name)]
			if x == nil {
				return &config.Error{Where: "ATTR", Text: name + " has no index"}
			}
			shown = append(shown, x)
		}
	}
	layouts := map[string]catalog.Layout{}
	for _, x := range w.Partition.Config().Indexes {
		layouts[x.Attribute] = x.Layout
	}
	var rows []indexText
	for _, x := range shown {
		row := indexText{Attribute: x.Typ.Name(), Layout: layouts[x.Typ.Name()], Ready: x.Ready}
		if x.Ready {
			v, err := onlineschema.SurveyIndex(ctx, s, x)
			if err != nil {
				return err
			}
			row.Suits, row.Values, row.Entries, row.Largest = v.Layout(), v.Values, v.Entries, v.Largest
		}
		rows = append(rows, row)
	}
	if a.Format != cli.Text {
		return cli.Print(w.Stdout, a.Format, rows, nil)
	}
	out := tabwriter.NewWriter(w.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "ATTRIBUTE\tLAYOUT\tSUITS\tVALUES\tENTRIES\tLARGEST")
	for _, r := range rows {
		if r.Ready {
			fmt.Fprintf(out, "%s\t%s\t%s\t%d\t%d\t%d\n", r.Attribute, r.Layout, r.Suits, r.Values, r.Entries, r.Largest)
		} else {
			fmt.Fprintf(out, "%s\t%s\tnot filled yet\n", r.Attribute, r.Layout)
		}
	}
	return out.Flush()
}

func reindexCommand(m *cli.Main) *cobra.Command {
	var drop []string
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "reindex --store STORE [--drop ATTR]... [ATTR[:row|:column]]...",
		Short: "Rebuild indexes, or everything that is derived from entries",
		Long: `Rebuild the indexes of attributes: in the layout "row", for attributes with few values
that many entries share, or "column", for values that few entries have. Without a
layout, the index gets the one that suits the present values (see ldapd index). An
attribute that has no index gets one; --drop removes one.

Without attributes, rebuild everything that is derived from the entries: names,
normalised values and all indexes. This repairs what check finds, and is needed when a
new version of ldapd has other rules for normal forms.`,
		Example: `  ldapd reindex --store ./data title:row --drop memberUid
  ldapd reindex --store ./data`,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		if len(args)+len(drop) == 0 {
			return rebuild(ctx, m, c)
		}
		return reindexJob.Run(ctx, m, c, cli.ReadWrite, m.Around(), reindexArgs{args, drop})
	}))
	c.Flags().StringArrayVar(&drop, "drop", nil, "`ATTR` whose index is removed")
	return c
}

// reindexArgs are the arguments of the command besides the configuration.
type reindexArgs struct{ Indexes, Drop []string }

var reindexJob = cli.NewJob("reindex", reindex).Offered("[--drop ATTR]... [ATTR[:row|:column]]...",
	func(f *pflag.FlagSet, a *reindexArgs) { f.StringArrayVar(&a.Drop, "drop", nil, "") },
	func(_ *config.Config, a *reindexArgs, words []string) error {
		if a.Indexes = words; len(words)+len(a.Drop) == 0 {
			return errors.New("a server can rebuild indexes of attributes only: name them, or stop it and run 'ldapd reindex'")
		}
		return nil
	})

// reindex drops and builds the indexes that the arguments name.
func reindex(ctx context.Context, w *cli.Work, a reindexArgs) error {
	indexes, again, err := chosen(w.Partition, a.Indexes, a.Drop)
	if err != nil {
		return err
	}
	return reindexing(ctx, &w.Around, func(o verify.ReindexOptions) error {
		o.Again = again
		return onlineschema.Reindex(ctx, w.Partition, indexes, o)
	})
}

// reindexing calls do and shows the progress of its work.
func reindexing(ctx context.Context, a *cli.Around, do func(verify.ReindexOptions) error) error {
	progress := a.Progress("reindex")
	progress.Begin()
	err := do(verify.ReindexOptions{
		Progress: progress.Entries,
		Found: func(f *verify.Finding) error {
			_, err := fmt.Fprintln(a.Stdout, f)
			return err
		},
	})
	progress.End()
	if ctx.Err() != nil {
		return errors.New("interrupted: indexes that were not finished are not used; run the same command again")
	}
	if err == nil {
		fmt.Fprintln(a.Stdout, "reindexed", progress.Summary())
	}
	return err
}

// rebuild rebuilds everything that the store derives from its entries, such as the
// indexes. No server may have the store open meanwhile.
func rebuild(ctx context.Context, m *cli.Main, c *config.Config) error {
	if _, err := cli.StoreThere(c, cli.ReadWrite); err != nil {
		return err
	}
	defer cli.LowMemory(c)()
	log := m.Logger(c)
	guard, err := cli.ReadGuard(c, log, cli.ReadWrite)
	if err != nil {
		return err
	}
	s, err := cli.OpenStore(ctx, c, log, cli.ReadWrite, 0)
	if errors.Is(err, table.ErrLocked) {
		return fmt.Errorf("%w; to rebuild everything, stop the server first: while it runs, only indexes of attributes can be rebuilt", err)
	}
	if err != nil {
		return err
	}
	a := m.Around()
	err = reindexing(ctx, &a, func(o verify.ReindexOptions) error {
		_, err := verify.Rebuild(ctx, s, partition.Options{Cache: c.Cache, Txn: txn.Options{Lease: c.Lease, Log: log, Now: cli.Clock(c), Doubt: guard.Doubt}, Log: log}, o)
		return err
	})
	return errors.Join(err, s.Close())
}

// chosen returns the indexes that the directory should have, and the names of the attributes
// whose indexes have to be built.
func chosen(p *partition.Partition, args, drop []string) (indexes []catalog.Index, again []string, err error) {
	indexes = p.Config().Indexes
	find := func(name string) int {
		return slices.IndexFunc(indexes, func(x catalog.Index) bool {
			t := p.Schema().Attribute(name)
			return t != nil && t == p.Schema().Attribute(x.Attribute)
		})
	}
	for _, name := range drop {
		i := find(name)
		if i < 0 {
			return nil, nil, &config.Error{Where: "--drop", Text: fmt.Sprintf("%s has no index", name)}
		}
		indexes = slices.Delete(indexes, i, i+1)
	}
	for _, arg := range args {
		name, layout, given := strings.Cut(arg, ":")
		i := find(name)
		if i < 0 {
			i = len(indexes)
			indexes = append(indexes, catalog.Index{Attribute: name})
		}
		if given && !catalog.Layout(layout).Known() {
			return nil, nil, &config.Error{Where: "ATTR", Text: fmt.Sprintf("index of %s: the layout %q is not one of %q", name, layout, catalog.Layouts())}
		}
		indexes[i].Layout = catalog.Layout(layout)
		again = append(again, name)
	}
	return indexes, again, nil
}
