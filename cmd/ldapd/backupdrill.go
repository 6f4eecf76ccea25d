package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/serving"
)

func (m backupCommands) drill() *cobra.Command {
	var a drillArgs
	c := m.Command(&cobra.Command{
		Use:   "drill --store STORE [--folder FOLDER] [--identity FILE]",
		Short: "Restore the archive elsewhere and compare it with the store",
		Long: `Archive what is not archived yet, restore the newest state to a folder that is removed
afterwards, and check it as "ldapd check" does. Then compare it with the store: all
entries, and the data that servers share. Passwords are not compared. A server does all
this by itself every archive.drill, if the archive is not sealed or archive.identity is
configured.`,
		Args: cobra.NoArgs,
	}, append([]string{"archive.identity"}, archiveKeys...), func(ctx context.Context, c *config.Config, _ []string) error {
		if a.Identity == "" {
			a.Identity = c.Archive.Identity
		}
		if c.Archive.Place != nil {
			a.To = c.Archive.Place.String()
		}
		around := m.Around()
		around.Open = os.Open
		return drillJob.Run(ctx, m.Main, c, cli.ReadWrite, around, a)
	})
	c.Flags().StringVar(&a.Folder, "folder", "", "`FOLDER` to restore to, which must not exist; by default one beside the store")
	c.Flags().StringVar(&a.Identity, "identity", "", "`FILE` with the identity that reads a sealed archive, instead of archive.identity")
	return c
}

// drillArgs are the arguments of the command besides the configuration.
type drillArgs struct{ To, Identity, Folder string }

var drillJob = cli.NewJob("drill", drillFor, "archive.to", "archive.identity")

func drillFor(ctx context.Context, w *cli.Work, a drillArgs) error {
	to, err := archiverOf(w, a.To)
	if err != nil {
		return err
	}
	keys, err := cli.ReadKeys(a.Identity, w.Open)
	if err != nil {
		return err
	}
	d, err := serving.Drill(ctx, w.Partition, w.Archives, to, keys, a.Folder)
	if err == nil {
		_, err = fmt.Fprintf(w.Stdout, "the archive and the store are equal: %d entries as of %s, restored in %s\n",
			d.Entries, d.At.Time().UTC().Format(time.RFC3339), d.Took.Round(time.Millisecond))
	}
	return err
}
