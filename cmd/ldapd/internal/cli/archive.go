package cli

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

// Archives opens the archive of a store, and opens restored copies of the store.
type Archives struct {
	Open  func() (*archive.Archiver, error)
	Store string                                                   // the folder of the store
	copy  func(ctx context.Context, folder string) (*Store, error) // opens a restored store
	// Promote makes the standby that the process serves a primary. It is nil if the process serves
	// no standby.
	Promote func(ctx context.Context, withoutArchive bool) (archive.Promotion, error)
}

// ArchivesOf returns the archives of the store p, which this process has open.
func (m *Main) ArchivesOf(c *config.Config, p *Store) Archives {
	log := m.Logger(c)
	return Archives{
		Open: func() (*archive.Archiver, error) { return NewArchiver(c, p, log, 0) },
		copy: func(ctx context.Context, folder string) (*Store, error) {
			restored := *c
			restored.Store, restored.Archive = folder, config.Archive{}
			return Open(ctx, &restored, log, ReadOnly)
		},
		Store: c.Store,
	}
}

// ErrNoArchive is the error if the configuration names no archive.
var ErrNoArchive = &config.Error{Text: "no archive given: say archive.to, or --archive-to PLACE"}

// NewArchiver returns the configured archive of the store p. The rate is the bytes a second at
// which the files of a base are read; 0: no bound.
func NewArchiver(c *config.Config, p *Store, log *slog.Logger, rate int64) (*archive.Archiver, error) {
	s, ok := p.Tables.(*lsm.Store)
	switch {
	case c.Archive.Place == nil:
		return nil, ErrNoArchive
	case !ok:
		return nil, &config.Error{Text: "only an embedded store has an archive; HBase has snapshots"}
	}
	return archive.New(archive.Options{
		Store: s, Place: c.Archive.Place, Seal: c.Archive.Seal,
		Every: c.Archive.Every, Lag: c.Archive.Lag, Keep: c.Archive.Keep, Rate: rate, Log: log, Now: Clock(c),
	})
}

// ReadKeys reads a file of identities. If name is "", it returns nil.
func ReadKeys(name string, open func(string) (*os.File, error)) (archive.Keys, error) {
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

// RestoredElsewhere restores an archived state to a folder, calls f with the restored store, and
// removes the folder. If until is 0, it restores the newest archived state.
func RestoredElsewhere(ctx context.Context, a Archives, p archive.Place, keys archive.Keys, folder string, until table.Revision, f func(*Store, *archive.Restored) error) (err error) {
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

// CheckQuietly checks a restored directory. If there are findings, it returns the first
// one as an error.
func CheckQuietly(ctx context.Context, d *Store) (entries int, err error) {
	return verify.Verify(ctx, d.Partition, verify.Options{Found: func(f *verify.Finding) error { return fmt.Errorf("the restored directory has a fault: %s", f) }})
}
