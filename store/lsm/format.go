package lsm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// These are the oldest and the newest format of Pebble's files that this version of the
// program can read: the format of the previous version, and its own. A store keeps its format,
// so that the previous version can still open it. Only Upgrade raises the format. When
// newestFormat is raised, oldestFormat must be set to the previous newestFormat.
const (
	oldestFormat = pebble.FormatTableFormatV6
	newestFormat = pebble.FormatValueSeparation
)

var errNoManifest = fmt.Errorf("%w: no file marker.manifest... names the manifest", table.ErrCorrupt)

var _ table.Upgrader = (*Store)(nil)

// findFormat sets the format with which the store is opened. An existing store keeps its
// format. A new store gets the newest format.
func (s *Store) findFormat() error {
	s.format = newestFormat
	if s.o.format != 0 {
		s.format = s.o.format
	}
	if !s.made {
		return nil
	}
	d, err := pebble.Peek(s.o.Path, s.o.FS)
	if err != nil {
		return newer(err)
	}
	switch s.format = d.FormatMajorVersion; {
	case !d.Exists:
		return errNoManifest // Pebble would make a new database and remove the tables
	case s.format > newestFormat:
		return fmt.Errorf("%w: its files have format %d, this program knows formats up to %d: use a newer program",
			table.ErrNewer, s.format, newestFormat)
	case s.format < oldestFormat:
		return fmt.Errorf("its files have format %d, this program knows formats from %d on: open it once with 'ldapd upgrade' of an older version",
			s.format, oldestFormat)
	}
	return nil
}

// newer converts Pebble's error about an unknown format into a table.ErrNewer.
func newer(err error) error {
	var unknown interface{ FormatMajorVersion() uint64 }
	if err != nil && (errors.As(err, &unknown) || strings.Contains(err.Error(), "unknown format major version") ||
		strings.Contains(err.Error(), "written in unsupported format")) {
		return fmt.Errorf("%w: %w", table.ErrNewer, err)
	}
	return err
}

// Formats implements table.Upgrader.
func (s *Store) Formats() (now, newest int) {
	if s.begin(context.Background()) != nil {
		return int(s.format), int(newestFormat)
	}
	defer s.end()
	return int(s.db.FormatMajorVersion()), int(newestFormat)
}

// Upgrade implements table.Upgrader.
func (s *Store) Upgrade(ctx context.Context) (err error) {
	if err := s.beginWrite(ctx, false); err != nil {
		return err
	}
	defer s.endWrite()
	defer s.caught(&err)
	if s.db.FormatMajorVersion() >= newestFormat {
		return nil
	}
	return s.wrap("upgrade", s.db.RatchetFormatMajorVersion(newestFormat))
}
