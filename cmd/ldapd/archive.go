package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// archives opens the archive of a store, and opens restored copies of the store.
type archives struct {
	open  func() (*archive.Archiver, error)
	copy  func(ctx context.Context, folder string) (*directoryStore, error) // opens a restored store
	store string
	// promote makes the standby that the process serves a primary; nil: it serves no standby
	promote func(ctx context.Context, withoutArchive bool) (archive.Promotion, error)
}

// archivesOf returns the archives of the store p, which this process has open.
func (m *Main) archivesOf(c *config.Config, p *directoryStore) archives {
	log := m.logger(c)
	return archives{
		open: func() (*archive.Archiver, error) { return newArchiver(c, p, log, 0) },
		copy: func(ctx context.Context, folder string) (*directoryStore, error) {
			restored := *c
			restored.Store, restored.Archive = folder, config.Archive{}
			return openPartition(ctx, &restored, log, openReadOnly)
		},
		store: c.Store,
	}
}

var errNoArchive = &config.Error{Text: "no archive given: say archive.to, or --archive-to PLACE"}

func newArchiver(c *config.Config, p *directoryStore, log *slog.Logger, rate int64) (*archive.Archiver, error) {
	s, ok := p.store.(*lsm.Store)
	switch {
	case c.Archive.Place == nil:
		return nil, errNoArchive
	case !ok:
		return nil, &config.Error{Text: "only an embedded store has an archive; HBase has snapshots"}
	}
	return archive.New(archive.Options{
		Store: s, Place: c.Archive.Place, Seal: c.Archive.Seal,
		Every: c.Archive.Every, Lag: c.Archive.Lag, Keep: c.Archive.Keep, Rate: rate, Log: log, Now: clock(c),
	})
}

// readKeys reads a file of identities. If name is "", it returns nil.
func readKeys(name string, open func(string) (*os.File, error)) (archive.Keys, error) {
	if name == "" {
		return nil, nil
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return archive.ReadKeys(name, f)
}

// restoredElsewhere restores an archived state to a folder, calls f with the restored store, and
// removes the folder. If until is 0, it restores the newest archived state.
func restoredElsewhere(ctx context.Context, a archives, p archive.Place, keys archive.Keys, folder string, until table.Revision, f func(*directoryStore, *archive.Restored) error) (err error) {
	if folder == "" {
		folder, err = os.MkdirTemp("", "ldapd-restore-")
	} else {
		err = os.Mkdir(folder, 0o700) // only a folder that was made here may be removed
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	done, err := archive.Restore(ctx, p, archive.RestoreOptions{To: folder, Until: until, Keys: keys, Copy: true})
	if err != nil {
		return err
	}
	d, err := a.copy(ctx, folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close(context.WithoutCancel(ctx))) }()
	return f(d, done)
}

// checkQuietly checks a restored directory. If there are findings, it returns the first
// one as an error.
func checkQuietly(ctx context.Context, d *directoryStore) (entries int, err error) {
	return verify.Verify(ctx, d.Partition, verify.Options{Found: func(f *verify.Finding) error { return fmt.Errorf("the restored directory has a fault: %s", f) }})
}
