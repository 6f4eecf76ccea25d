package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

func (m backupCommands) restore() *cobra.Command {
	var f from
	var to, until string
	c := m.Command(&cobra.Command{
		Use:   "restore --from PLACE --to FOLDER [--until WHEN] [--identity FILE]",
		Short: "Make a new store from an archive",
		Long: `Make a new store, with its history, from an archive: from all of it, or from what was
committed up to a moment. The first server that serves the new store with the same
archive.to takes the archive over, and from then on the archive refuses the server that
wrote to it before.`,
		Example: `  ldapd backup restore --from /mnt/backup/ldapd --to /var/lib/ldapd/store
  ldapd backup restore --from /mnt/backup/ldapd --to ./then --until 2026-01-31T12:00:00Z`,
		Args: cobra.NoArgs,
	}, nil, func(ctx context.Context, c *config.Config, _ []string) error {
		if to == "" {
			return &config.Error{Where: "--to", Text: "say which folder is to be the store"}
		}
		o := archive.RestoreOptions{To: to}
		var err error
		if o.Until, err = parseUntil(until); err != nil {
			return err
		}
		p, err := f.open(c)
		if err != nil {
			return err
		}
		if o.Keys, err = f.keys(c); err != nil {
			return err
		}
		done, err := archive.Restore(ctx, p, o)
		if err != nil {
			return err
		}
		return m.printRestored(done, to)
	})
	f.flags(c)
	c.Flags().StringVar(&to, "to", "", "`FOLDER` of the new store")
	c.Flags().StringVar(&until, "until", "now", "restore what was committed up to `WHEN`: a time such as 2026-01-31T12:00:00Z, or a revision")
	return c
}

func parseUntil(text string) (table.Revision, error) {
	at, err := state.ParsePointInTime(text)
	if err != nil {
		return 0, &config.Error{Where: "--until", Text: err.Error()}
	}
	r, known := at.Newest()
	if !known && !at.IsNow() {
		return 0, &config.Error{Where: "--until", Text: fmt.Sprintf("%q is a checkpoint, and these are in the store: say a time or a revision, or restore all and export --at %s", text, text)}
	}
	return r, nil
}

func (m backupCommands) printRestored(done *archive.Restored, to string) error {
	for _, w := range done.Warnings {
		fmt.Fprintln(m.Stderr, "warning:", w)
	}
	_, err := fmt.Fprintf(m.Stdout, "restored %s as of %s (%s): a base of %s and %d commits\n", to,
		done.Newest.Time().UTC().Format(time.RFC3339), done.Newest, done.Base.Taken.Format(time.RFC3339), done.Commits)
	return err
}

func (m backupCommands) verify() *cobra.Command {
	var f from
	var deep bool
	var folder string
	c := m.Command(&cobra.Command{
		Use:   "verify --from PLACE [--deep --folder FOLDER [--identity FILE]]",
		Short: "Read an archive and compare it with its hashes",
		Long: `Read all objects of an archive and compare them with their hashes. If objects are
missing or damaged, each is printed on a line, and the exit status is 1. No key is
needed. With --deep, the command then restores the newest state to a folder that is
removed afterwards, and checks it as "ldapd check" does.`,
		Args: cobra.NoArgs,
	}, nil, func(ctx context.Context, c *config.Config, _ []string) error {
		p, err := f.open(c)
		if err != nil {
			return err
		}
		if err := m.verifyArchive(ctx, p); err != nil || !deep {
			return err
		}
		keys, err := f.keys(c)
		if err != nil {
			return err
		}
		return m.verifyDeep(ctx, c, p, keys, folder)
	})
	f.flags(c)
	c.Flags().BoolVar(&deep, "deep", false, "restore the newest state and check it")
	c.Flags().StringVar(&folder, "folder", "", "`FOLDER` to restore to, which must not exist; a temporary one by default")
	return c
}

func (m backupCommands) verifyArchive(ctx context.Context, p archive.Place) error {
	faults := 0
	v, err := archive.Verify(ctx, p, func(err error) {
		faults++
		fmt.Fprintln(m.Stdout, err)
	})
	switch {
	case err != nil:
		return err
	case faults > 0:
		return fmt.Errorf("%d faults in %d objects", faults, v.Objects)
	}
	_, err = fmt.Fprintf(m.Stdout, "verified %d objects (%d bytes) of %d bases: from %s to %s\n", v.Objects, v.Bytes, v.Bases,
		v.Since.UTC().Format(time.RFC3339), v.Newest.Time().UTC().Format(time.RFC3339))
	return err
}

func (m backupCommands) verifyDeep(ctx context.Context, c *config.Config, p archive.Place, keys archive.Keys, folder string) error {
	a := m.ArchivesOf(c, nil)
	return cli.RestoredElsewhere(ctx, a, p, keys, folder, 0, func(d *cli.Store, done *archive.Restored) error {
		n, err := cli.CheckQuietly(ctx, d)
		if err == nil {
			_, err = fmt.Fprintf(m.Stdout, "restored and checked %d entries as of %s\n", n, done.Newest.Time().UTC().Format(time.RFC3339))
		}
		return err
	})
}
