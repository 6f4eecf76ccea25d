package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/txn"
)

func (m *Main) reindexCommand() *cobra.Command {
	var drop []string
	c := m.command(&cobra.Command{
		Use:   "reindex --store STORE [--drop ATTR]... [ATTR[:row|:column]]...",
		Short: "Make indexes, or everything that follows from entries, anew",
		Long: `Make the indexes of attributes anew: in the layout "row", for attributes with few
values that many entries share, or "column", for values that few entries have. An
attribute that has no index gets one (column, if nothing else is said); --drop
takes one away.

Without attributes, make everything anew that follows from the entries: names,
normalised values and all indexes. This mends what check finds, and is needed when
a version of ldapd has other rules for normal forms.`,
		Example: `  ldapd reindex --store ./data title:row --drop memberUid
  ldapd reindex --store ./data`,
	}, storeKeys, func(ctx context.Context, c *config.Config, args []string) error {
		return m.reindex(ctx, c, args, drop)
	})
	c.Flags().StringArrayVar(&drop, "drop", nil, "`ATTR` whose index is taken away")
	return c
}

func (m *Main) reindex(ctx context.Context, c *config.Config, args, drop []string) error {
	if err := storeThere(c); err != nil {
		return err
	}
	defer lowMemory(c)()
	progress := m.progress("reindex")
	progress.Begin()
	o := partition.ReindexOptions{
		Progress: progress.Entries,
		Found: func(f *partition.Finding) error {
			_, err := fmt.Fprintln(m.Stdout, f)
			return err
		},
	}
	var err error
	if len(args)+len(drop) == 0 {
		err = m.rebuild(ctx, c, o)
	} else {
		err = m.reindexSome(ctx, c, args, drop, o)
	}
	progress.End()
	if ctx.Err() != nil {
		return errors.New("interrupted: indexes that were not finished are not used; run the same command again")
	}
	if err == nil {
		fmt.Fprintln(m.Stdout, "reindexed", progress.Summary())
	}
	return err
}

func (m *Main) rebuild(ctx context.Context, c *config.Config, o partition.ReindexOptions) error {
	s, err := openStore(ctx, c, m.logger(c), 0)
	if err != nil {
		return err
	}
	_, err = partition.Rebuild(ctx, s, m.offline(c), o)
	return errors.Join(err, s.Close())
}

// offline is how a command that changes a store without serving it opens it.
func (m *Main) offline(c *config.Config) partition.Options {
	log := m.logger(c)
	return partition.Options{Cache: c.Cache, Txn: txn.Options{Lease: c.Lease, Log: log}, Log: log}
}

func (m *Main) reindexSome(ctx context.Context, c *config.Config, args, drop []string, o partition.ReindexOptions) (err error) {
	s, err := openStore(ctx, c, m.logger(c), 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	p, err := partition.Open(ctx, s, m.offline(c))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	indexes, again, err := chosen(p, args, drop)
	if err != nil {
		return err
	}
	o.Again = again
	return p.Reindex(ctx, indexes, o)
}

// chosen gives the indexes that there are to be, and those to be filled.
func chosen(p *partition.Partition, args, drop []string) (indexes []partition.Index, again []string, err error) {
	indexes = p.Config().Indexes
	find := func(name string) int {
		return slices.IndexFunc(indexes, func(x partition.Index) bool {
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
			indexes = append(indexes, partition.Index{Attribute: name, Layout: partition.ColumnLayout})
		}
		if given {
			indexes[i].Layout = partition.Layout(layout)
		}
		again = append(again, name)
	}
	return indexes, again, nil
}
