package serving

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// Drilled is the result of a drill.
type Drilled struct {
	Entries int
	At      table.Revision
	Took    time.Duration
}

// Drill archives the commits that are not archived yet, restores the newest archived state,
// and compares it with the store.
func Drill(ctx context.Context, p *partition.Partition, a cli.Archives, to *archive.Archiver, keys archive.Keys, folder string) (d Drilled, err error) {
	if err := to.Pieces(ctx); err != nil {
		return d, err
	}
	if folder == "" {
		folder = a.Store + ".drill"
		if err := os.RemoveAll(folder); err != nil {
			return d, err
		}
	}
	began := time.Now()
	err = cli.RestoredElsewhere(ctx, a, to.Place(), keys, folder, 0, func(r *cli.Store, done *archive.Restored) error {
		d.Took, d.At = time.Since(began), done.Newest
		if d.Entries, err = cli.CheckQuietly(ctx, r); err != nil {
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
func runDrills(ctx context.Context, c *config.Config, p *cli.Store, a cli.Archives, to *archive.Archiver, log *slog.Logger) {
	if c.Archive.Drill == 0 || c.Archive.Seal.Seals() && c.Archive.Identity == "" {
		return
	}
	for pause.For(ctx, c.Archive.Drill) == nil {
		keys, err := cli.ReadKeys(c.Archive.Identity, os.Open)
		var d Drilled
		if err == nil {
			d, err = Drill(ctx, p.Partition, a, to, keys, "")
		}
		switch {
		case err == nil:
			log.Info("a drill restored the archive, and it is equal to the store", "entries", d.Entries, "took", d.Took)
		case !errors.Is(err, context.Canceled):
			log.Error("a drill failed: the archive could not be restored as the store is", "error", err)
		}
	}
}
