package serving

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/store/archive"
)

var errStandbyArchives = errors.New("the server is a standby: its primary archives")

// besideRate is the rate in bytes a second at which a server reads the files of a base.
// Each file that the archive lacks is read twice.
const besideRate = 20 << 20

// archive archives the store while it is served. It returns an error if the archive belongs to
// another store or if a store in another folder has taken the archive over. In the second case,
// another server may have restored the archive and continued from its state, so clients must not
// change this store.
func (s *serving) archive(ctx context.Context) (stop func() error, err error) {
	a := &s.archives
	*a = s.ArchivesOf(s.config, s.store)
	if s.standby != nil {
		a.Promote = s.standby.promote
		a.Open = func() (*archive.Archiver, error) { return nil, errStandbyArchives }
	}
	if s.config.Archive.Place == nil || s.standby != nil {
		return each(), nil
	}
	if s.archiver, err = cli.NewArchiver(s.config, s.store, s.log, besideRate); err != nil {
		return nil, err
	}
	a.Open = func() (*archive.Archiver, error) { return s.archiver, nil }
	switch err := s.archiver.Check(ctx); {
	case errors.Is(err, archive.ErrForeign), errors.Is(err, archive.ErrTakenOver):
		return nil, fmt.Errorf("the store is not served: %w", err)
	case err != nil:
		s.log.Warn("the archive cannot be reached", "place", s.archiver.String(), "error", err)
	}
	s.fence.archive.Store(s.archiver)
	stopRunning := inBackground(s.archiver.Run)
	stopDrills := inBackground(func(ctx context.Context) { runDrills(ctx, s.config, s.store, *a, s.archiver, s.log) })
	return each(stopDrills, stopRunning), nil
}
