package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
)

func (m *Main) uniqueCommand() *cobra.Command {
	var base string
	var end bool
	c := m.command(&cobra.Command{
		Use:   "unique --store STORE [--base DN] [--end] [ATTR]...",
		Short: "Say which attributes have values that no two entries share",
		Long: `Make attributes unique: no two entries, or no two from --base down, can have the same
value, by the attribute's equality rule, whichever servers they are written at. The
attribute needs an index. The entries there are looked through first; where two have
the same value, they are named and nothing changes.

Without attributes, list what is unique. --end ends it.`,
		Example: `  ldapd unique --store ./data uid mail
  ldapd unique --store ./data --base ou=people,dc=example,dc=com uidNumber`,
	}, storeKeys, func(ctx context.Context, c *config.Config, args []string) error {
		return m.unique(ctx, c, args, base, !end)
	})
	c.Flags().StringVar(&base, "base", "", "`DN` of the entry from which down the values are unique")
	c.Flags().BoolVar(&end, "end", false, "let values be shared again")
	return c
}

func (m *Main) unique(ctx context.Context, c *config.Config, attributes []string, base string, on bool) (err error) {
	if err := storeThere(c); err != nil {
		return err
	}
	use := writing
	if len(attributes) == 0 {
		use = reading
	}
	p, err := openPartition(ctx, c, m.logger(c), use)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	if use == reading {
		return m.listUnique(ctx, p.Partition)
	}
	id, err := baseID(ctx, p.Partition, base)
	if err != nil {
		return err
	}
	for _, a := range attributes {
		if err := p.SetUnique(ctx, partition.Unique{Attribute: a, Base: id}, on); err != nil {
			return err
		}
	}
	return nil
}

func (m *Main) listUnique(ctx context.Context, p *partition.Partition) error {
	us, err := p.Unique()
	if err != nil {
		return err
	}
	s := p.Snapshot()
	defer s.Close()
	for _, u := range us {
		where, err := s.Name(ctx, u.Base)
		switch {
		case err != nil: // names nothing any more, and nothing comes below it
			where = "below an entry that is gone: " + u.Base.String()
		case u.Base == entry.Root:
			where = "everywhere"
		default:
			where = "from " + where + " down"
		}
		fmt.Fprintln(m.Stdout, u.Attribute, where)
	}
	return nil
}

// baseID finds the entry of a --base; none is above all naming contexts.
func baseID(ctx context.Context, p *partition.Partition, base string) (entry.ID, error) {
	if base == "" {
		return entry.Root, nil
	}
	name, err := dn.Parse(base)
	if err != nil {
		return entry.Root, &config.Error{Where: "--base", Text: err.Error()}
	}
	s := p.Snapshot()
	defer s.Close()
	at, err := s.Find(ctx, name)
	if err != nil {
		return entry.Root, fmt.Errorf("--base %s: %w", base, err)
	}
	return at.ID, nil
}
