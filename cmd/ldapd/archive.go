package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
)

// archives opens the archive of a store, and opens restored copies of the store.
type archives struct {
	running *archive.Archiver // a server's archiver; nil: the process does not archive
	open    func() (*archive.Archiver, error)
	copy    func(ctx context.Context, folder string) (*directoryStore, error) // opens a restored store
	store   string
	standby *follower // nil: the server is no standby
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

var errStandbyArchives = errors.New("the server is a standby: its primary archives")

var errNoArchive = &config.Error{Text: "no archive given: say archive.to, or --archive-to PLACE"}

// besideRate is the rate in bytes a second at which a server reads the files of a base.
// Each file that the archive lacks is read twice.
const besideRate = 20 << 20

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

// archive archives the store while it is served. It returns an error if the archive belongs to
// another store or if a store in another folder has taken the archive over. In the second case,
// another server may have restored the archive and continued from its state, so clients must not
// change this store.
func (s *serving) archive(ctx context.Context) (stop func() error, err error) {
	a := &s.archives
	*a = s.archivesOf(s.config, s.store)
	if a.standby = s.standby; a.standby != nil {
		a.open = func() (*archive.Archiver, error) { return nil, errStandbyArchives }
	}
	if s.config.Archive.Place == nil || s.standby != nil {
		return each(), nil
	}
	if a.running, err = newArchiver(s.config, s.store, s.log, besideRate); err != nil {
		return nil, err
	}
	a.open = func() (*archive.Archiver, error) { return a.running, nil }
	switch err := a.running.Check(ctx); {
	case errors.Is(err, archive.ErrForeign), errors.Is(err, archive.ErrTakenOver):
		return nil, fmt.Errorf("the store is not served: %w", err)
	case err != nil:
		s.log.Warn("the archive cannot be reached", "place", a.running.String(), "error", err)
	}
	s.fence.archive.Store(a.running)
	stopRunning := inBackground(a.running.Run)
	stopDrills := inBackground(func(ctx context.Context) { runDrills(ctx, s.config, s.store, *a, s.log) })
	return each(stopDrills, stopRunning), nil
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
