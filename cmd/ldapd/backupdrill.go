package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
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

var drillJob = job[drillArgs]{"drill", drillFor, []string{"archive.to", "archive.identity"}}

func drillFor(ctx context.Context, w *work, a drillArgs) error {
	to, err := w.archiver(a.To)
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

// drilled is the result of a drill.
type drilled struct {
	entries int
	at      table.Revision
	took    time.Duration
}

// drill archives the commits that are not archived yet, restores the newest archived state,
// and compares it with the store.
func drill(ctx context.Context, p *partition.Partition, a archives, to *archive.Archiver, keys archive.Keys, folder string) (d drilled, err error) {
	if err := to.Pieces(ctx); err != nil {
		return d, err
	}
	if folder == "" {
		folder = a.store + ".drill"
		if err := os.RemoveAll(folder); err != nil {
			return d, err
		}
	}
	began := time.Now()
	err = restoredElsewhere(ctx, a, to.Place(), keys, folder, 0, func(r *directoryStore, done *archive.Restored) error {
		d.took, d.at = time.Since(began), done.Newest
		if d.entries, err = checkQuietly(ctx, r); err != nil {
			return err
		}
		return equalAt(ctx, p, r.Partition, done.Newest)
	})
	if err == nil {
		to.Drilled()
	}
	return d, err
}

// equalAt returns an error if the directories p and q differ at a revision. It does not
// compare passwords.
func equalAt(ctx context.Context, p, q *partition.Partition, r table.Revision) error {
	at, err := state.ParsePointInTime(r.String())
	if err != nil {
		return err
	}
	a, err := exportSum(ctx, p, at)
	if err != nil {
		return err
	}
	b, err := exportSum(ctx, q, at)
	if err == nil && !bytes.Equal(a, b) {
		err = fmt.Errorf("the restored directory differs from the store at %s: compare exports of both (ldapd export --at %s)", r, r)
	}
	return err
}

func exportSum(ctx context.Context, p *partition.Partition, at state.PointInTime) ([]byte, error) {
	s, err := state.AtPoint(ctx, p, at)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	h := sha256.New()
	_, err = bulk.Export(ctx, p, s, h, bulk.ExportOptions{NoSecrets: true})
	return h.Sum(nil), err
}

// runDrills runs a drill at regular intervals. If the archive is sealed and no identity is
// configured, runDrills runs no drill, because the archive could not be read.
func runDrills(ctx context.Context, c *config.Config, p *directoryStore, a archives, log *slog.Logger) {
	if c.Archive.Drill == 0 || c.Archive.Seal.Seals() && c.Archive.Identity == "" {
		return
	}
	for pause.For(ctx, c.Archive.Drill) == nil {
		keys, err := readKeys(c.Archive.Identity, os.Open)
		var d drilled
		if err == nil {
			d, err = drill(ctx, p.Partition, a, a.running, keys, "")
		}
		switch {
		case err == nil:
			log.Info("a drill restored the archive, and it is equal to the store", "entries", d.entries, "took", d.took)
		case !errors.Is(err, context.Canceled):
			log.Error("a drill failed: the archive could not be restored as the store is", "error", err)
		}
	}
}
