package apply

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
)

// SuffixCommand returns the command "ldapd suffix".
func SuffixCommand(m *cli.Main) *cobra.Command {
	var a suffixes
	c := a.Format.AddTo(cli.Accepts(m.Command(&cobra.Command{
		Use:   "suffix --store STORE [--remove] [DN]...",
		Short: "List, add and remove naming contexts",
		Long: `Add naming contexts, which take effect at once at all servers, also while they run. An entry
with the name can then be added. Without names, list the naming contexts. With --remove, remove
naming contexts that have no entries.`,
		Example: `  ldapd suffix --store ./data cn=views dc=example,dc=org`,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		for _, name := range args {
			if _, err := cli.ParseName("DN", name); err != nil {
				return err
			}
		}
		use := cli.ReadWrite
		if a.Names = args; len(args) == 0 {
			use = cli.ReadOnly
		}
		return SuffixJob.Run(ctx, m, c, use, m.Around(), a)
	})))
	c.Flags().BoolVar(&a.Remove, "remove", false, "remove the naming contexts")
	return c
}

type suffixes struct {
	Names  []string
	Remove bool
	Format cli.Format
}

// SuffixJob lists or changes the naming contexts of a store.
var SuffixJob = cli.NewJob("suffix", changeSuffixes)

func changeSuffixes(ctx context.Context, w *cli.Work, a suffixes) error {
	now := w.Config().Suffixes
	switch {
	case len(a.Names) == 0:
		type row struct {
			DN string `json:"dn"`
		}
		var rows []row
		for _, name := range now {
			rows = append(rows, row{name})
		}
		return cli.Print(w.Stdout, a.Format, rows, func(r row) string { return r.DN })
	case !a.Remove:
		return onlineschema.AddSuffixes(ctx, w.Partition, a.Names)
	}
	for _, name := range a.Names {
		i := slices.IndexFunc(now, func(have string) bool { return sameName(w, have, name) })
		if i < 0 {
			return &config.Error{Where: "DN", Text: name + " is no naming context"}
		}
		now = slices.Delete(slices.Clone(now), i, i+1)
	}
	return onlineschema.SetSuffixes(ctx, w.Partition, now)
}
