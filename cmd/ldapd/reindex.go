package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

func reindexCommand(m *cli.Main) *cobra.Command {
	var drop []string
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "reindex --store STORE [--drop ATTR]... [ATTR[:row|:column]]...",
		Short: "Rebuild indexes, or everything that is derived from entries",
		Long: `Rebuild the indexes of attributes: in the layout "row", for attributes with few values
that many entries share, or "column", for values that few entries have. An attribute
that has no index gets one (column, unless a layout is given); --drop removes one.

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

var reindexJob = cli.NewJob("reindex", reindex)

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
			indexes = append(indexes, catalog.Index{Attribute: name, Layout: catalog.ColumnLayout})
		}
		if given {
			indexes[i].Layout = catalog.Layout(layout)
		}
		again = append(again, name)
	}
	return indexes, again, nil
}
