package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition/write"
)

func upgradeCommand(m *cli.Main) *cobra.Command {
	a := upgradeArgs{}
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "upgrade --store STORE [--dry-run]",
		Short: "Upgrade a store's files to the format of this version",
		Long: `Upgrade a store's files to the newest format that this version knows. A version of ldapd
reads its own format and the previous one, and leaves a store in the format it has, so
that you can go back to the previous version. Upgrade when you no longer want to go
back; afterwards, older versions refuse the store. Servers continue to serve meanwhile.
--dry-run says which format the store has. The format of rows is not converted: the command
says if a new store would have a newer one.`,
		Args: cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		return upgradeJob.Run(ctx, m, c, cli.ReadWrite, m.Around(), a)
	}))
	c.Flags().BoolVar(&a.Dry, "dry-run", false, "say which format the store has, and change nothing")
	return c
}

// upgradeArgs are the arguments of the command besides the configuration.
type upgradeArgs struct{ Dry bool }

var upgradeJob = cli.NewJob("upgrade", upgrade).Offered("[--dry-run]",
	func(f *pflag.FlagSet, a *upgradeArgs) { f.BoolVar(&a.Dry, "dry-run", false, "") }, cli.NoWords[upgradeArgs])

func resealCommand(m *cli.Main) *cobra.Command {
	return cli.Accepts(m.Command(&cobra.Command{
		Use:   "reseal [--config FILE]",
		Short: "Seal all secrets in HBase with the first key of secrets.seal",
		Long: `Write passwords and other secrets again, so that they are sealed with the first key of the
file that secrets.seal names, or not sealed if its first line is the word plain. Servers
continue to serve meanwhile. Garbage collection removes what was replaced; the command says how
much is left. docs/hbase.md describes how to change keys.`,
		Args: cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		return resealJob.Run(ctx, m, c, cli.ReadWrite, m.Around(), struct{}{})
	}))
}

var resealJob = cli.NewJob("reseal", reseal).Offered("", nil, cli.NoWords[struct{}])

func reseal(ctx context.Context, w *cli.Work, _ struct{}) error {
	done, err := write.Reseal(ctx, w.Partition)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.Stdout, "the secrets of %d entries were written again; %d old values are left until garbage collection removes them and HBase compacts (ldapd gc)\n",
		done.Entries, done.Old)
	return err
}

func upgrade(ctx context.Context, w *cli.Work, a upgradeArgs) error {
	before, newest := w.Partition.Formats()
	if rows, best := w.Partition.RowFormats(); rows < best {
		_, err := fmt.Fprintf(w.Stdout, "the rows have format %d and keep it; new stores have format %d, which takes fewer octets: to convert, export and import into a new store\n", rows, best)
		if err != nil {
			return err
		}
	}
	switch {
	case newest == 0:
		_, err := fmt.Fprintln(w.Stdout, "the files of the store have one format only")
		return err
	case a.Dry || before == newest:
		_, err := fmt.Fprintf(w.Stdout, "the store has format %d, the newest is %d\n", before, newest)
		return err
	}
	if err := w.Partition.Upgrade(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w.Stdout, "the store had format %d and has %d now\n", before, newest)
	return err
}
