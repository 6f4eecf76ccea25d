package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

func (m backupCommands) drill() *cobra.Command {
	var a drillArgs
	c := m.command(&cobra.Command{
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
		around := m.around()
		around.open = os.Open
		return drillJob.on(ctx, m.Main, c, openReadWrite, around, a)
	})
	c.Flags().StringVar(&a.Folder, "folder", "", "`FOLDER` to restore to, which must not exist; by default one beside the store")
	c.Flags().StringVar(&a.Identity, "identity", "", "`FILE` with the identity that reads a sealed archive, instead of archive.identity")
	return c
}

// drillArgs are the arguments of the command besides the configuration.
type drillArgs struct{ To, Identity, Folder string }

var drillJob = newJob("drill", drillFor, "archive.to", "archive.identity")

func drillFor(ctx context.Context, w *work, a drillArgs) error {
	to, err := archiverOf(w, a.To)
	if err != nil {
		return err
	}
	keys, err := readKeys(a.Identity, w.open)
	if err != nil {
		return err
	}
	d, err := drill(ctx, w.Partition, w.archive, to, keys, a.Folder)
	if err == nil {
		_, err = fmt.Fprintf(w.Stdout, "the archive and the store are equal: %d entries as of %s, restored in %s\n",
			d.entries, d.at.Time().UTC().Format(time.RFC3339), d.took.Round(time.Millisecond))
	}
	return err
}
