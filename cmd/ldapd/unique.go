package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

func uniqueCommand(m *cli.Main) *cobra.Command {
	var a uniqueArgs
	c := a.Format.AddTo(cli.Accepts(m.Command(&cobra.Command{
		Use:   "unique --store STORE [--base DN] [--end] [ATTR]...",
		Short: "Make attributes unique, so that no two entries have the same value",
		Long: `Make attributes unique: no two entries, or no two entries in the subtree of --base, can
have the same value, by the attribute's equality rule, whichever servers they are
written at. The attribute needs an index. The entries there are examined first; if two
of them have the same value, they are named and nothing changes.

Without attributes, list the unique attributes. With --end, attributes are unique no
longer.`,
		Example: `  ldapd unique --store ./data uid mail
  ldapd unique --store ./data --base ou=people,dc=example,dc=com uidNumber`,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		use := cli.ReadWrite
		if a.Attributes = args; len(args) == 0 {
			use = cli.ReadOnly
		}
		return uniqueJob.Run(ctx, m, c, use, m.Around(), a)
	})))
	c.Flags().StringVar(&a.Base, "base", "", "`DN` of the subtree in which the values are unique")
	c.Flags().BoolVar(&a.End, "end", false, "allow several entries to have the same value again")
	return c
}

// uniqueArgs are the arguments of the command besides the configuration.
type uniqueArgs struct {
	Attributes []string
	Base       string
	End        bool
	Format     cli.Format
}

var uniqueJob = cli.NewJob("unique", unique)

func unique(ctx context.Context, w *cli.Work, a uniqueArgs) error {
	if len(a.Attributes) == 0 {
		return listUnique(ctx, w, a.Format)
	}
	id, err := baseID(ctx, w.Partition, a.Base)
	if err != nil {
		return err
	}
	us := make([]catalog.Unique, len(a.Attributes))
	for i, name := range a.Attributes {
		us[i] = catalog.Unique{Attribute: name, Base: id}
	}
	return onlineschema.SetUnique(ctx, w.Partition, us, !a.End)
}

func listUnique(ctx context.Context, w *cli.Work, f cli.Format) error {
	us, err := onlineschema.Unique(w.Partition)
	if err != nil {
		return err
	}
	s := state.Newest(w.Partition)
	defer s.Close()
	type row struct {
		Attribute string `json:"attribute"`
		Base      string `json:"base"` // "" is everywhere
		Gone      bool   `json:"gone"` // the base entry was deleted, so the scope contains no entries
	}
	var rows []row
	for _, u := range us {
		r := row{Attribute: u.Attribute}
		if base, err := s.Name(ctx, u.Base); err != nil {
			r.Base, r.Gone = u.Base.String(), true
		} else if u.Base != entry.Root {
			r.Base = base.String()
		}
		rows = append(rows, r)
	}
	return cli.Print(w.Stdout, f, rows, func(r row) string {
		switch {
		case r.Gone:
			return r.Attribute + " below an entry that is gone: " + r.Base
		case r.Base != "":
			return r.Attribute + " from " + r.Base + " down"
		}
		return r.Attribute + " everywhere"
	})
}

// baseID returns the id of the entry that --base names. If base is "", it returns the
// root, which is above all naming contexts.
func baseID(ctx context.Context, p *partition.Partition, base string) (entry.ID, error) {
	if base == "" {
		return entry.Root, nil
	}
	name, err := dn.Parse(base)
	if err != nil {
		return entry.Root, &config.Error{Where: "--base", Text: err.Error()}
	}
	s := state.Newest(p)
	defer s.Close()
	at, err := s.Find(ctx, name)
	if err != nil {
		return entry.Root, fmt.Errorf("--base %s: %w", base, err)
	}
	return at.ID, nil
}
