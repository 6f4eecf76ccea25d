package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// formatVersion is the version of the layout that the package comment describes.
const formatVersion = 1

// headerFile is a file that contains headerText and the format version. It is written
// when the store is complete. If a folder without this file contains no tables, a process
// ended before the store was complete, and there are no data yet.
const (
	headerFile = "ldapd.store"
	headerText = "ldapd store, format "
)

// checkHeader reads the header. If there is none, it removes the files that an
// interrupted creation left behind.
func (d *folder) checkHeader() error {
	fs := d.o.FS
	if d.o.copied {
		d.made = true
		return nil
	}
	f, err := fs.Open(fs.PathJoin(d.o.Path, headerFile))
	if errors.Is(err, os.ErrNotExist) {
		return d.clearHalfMade()
	}
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 100))
	if err != nil {
		return err
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(string(b)), headerText)
	v, err := strconv.Atoi(text)
	switch {
	case !ok || err != nil || v < 1:
		return fmt.Errorf("%w: the file %s is %.40q", table.ErrCorrupt, headerFile, b)
	case v > formatVersion:
		return fmt.Errorf("%w: its format is %d, this program knows formats up to %d: use a newer program",
			table.ErrNewer, v, formatVersion)
	}
	d.made = true
	return nil
}

// clearHalfMade removes Pebble's files of a store that was never completed. If the folder
// contains tables, the header must have been lost, and clearHalfMade returns an error.
func (d *folder) clearHalfMade() error {
	fs := d.o.FS
	if d.o.ReadOnly {
		return fmt.Errorf("no store in the folder: %w", os.ErrNotExist)
	}
	names, err := fs.List(d.o.Path)
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasSuffix(n, ".sst") {
			return fmt.Errorf("%w: there are tables but no file %s", table.ErrCorrupt, headerFile)
		}
	}
	for _, n := range names {
		if vital(n) || n == endingFile {
			err = errors.Join(err, fs.Remove(fs.PathJoin(d.o.Path, n)))
		}
	}
	return err
}

// writeHeader writes the header, which marks the store as complete.
func (d *folder) writeHeader() error {
	if d.made || d.o.ReadOnly {
		return nil
	}
	err := d.putFile(headerFile, fmt.Sprintf("%s%d\n", headerText, formatVersion))
	d.made = err == nil
	return err
}

// putFile writes a file of the folder completely or not at all.
func (d *folder) putFile(name, content string) error {
	fs := d.o.FS
	path := fs.PathJoin(d.o.Path, name)
	if err := writeFile(fs, path+".new", content); err != nil {
		return err
	}
	if err := fs.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(fs, d.o.Path)
}

func writeFile(fs vfs.FS, name, content string) error {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(content))
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(fs vfs.FS, name string) error {
	d, err := fs.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeStale removes the folders of loads that were not finished or aborted, and of copies that
// were not closed.
func (d *folder) removeStale() error {
	if d.o.ReadOnly {
		return nil
	}
	names, err := d.o.FS.List(d.o.Path)
	for _, n := range names {
		if strings.HasPrefix(n, bulkPrefix) || strings.HasPrefix(n, copyPrefix) {
			err = errors.Join(err, d.o.FS.RemoveAll(d.o.FS.PathJoin(d.o.Path, n)))
		}
	}
	return err
}

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
func (d *folder) findFormat() error {
	d.format = newestFormat
	if d.o.format != 0 {
		d.format = d.o.format
	}
	if !d.made {
		return nil
	}
	found, err := pebble.Peek(d.o.Path, d.o.FS)
	if err != nil {
		return newer(err)
	}
	switch d.format = found.FormatMajorVersion; {
	case !found.Exists:
		return errNoManifest // Pebble would make a new database and remove the tables
	case d.format > newestFormat:
		return fmt.Errorf("%w: its files have format %d, this program knows formats up to %d: use a newer program",
			table.ErrNewer, d.format, newestFormat)
	case d.format < oldestFormat:
		return fmt.Errorf("its files have format %d, this program knows formats from %d on: upgrade it with an older version first",
			d.format, oldestFormat)
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
	if s.gate.begin(context.Background()) != nil {
		return int(s.folder.format), int(newestFormat)
	}
	defer s.gate.end()
	return int(s.db.FormatMajorVersion()), int(newestFormat)
}

// Upgrade implements table.Upgrader.
func (s *Store) Upgrade(ctx context.Context) (err error) {
	if err := s.gate.beginWrite(ctx, false); err != nil {
		return err
	}
	defer s.gate.endWrite()
	defer s.caught(&err)
	if s.db.FormatMajorVersion() >= newestFormat {
		return nil
	}
	return s.wrap("upgrade", s.db.RatchetFormatMajorVersion(newestFormat))
}

// ErrForeign: a folder contains files but is not a store.
var ErrForeign = errors.New("the folder is not empty and is not a store")

// Exists reports whether a folder is a store. It returns false if the folder does not
// exist, is empty, or was left by an interrupted creation of a store. It returns true for
// a store that has lost its header, so that Open reports the loss. It returns ErrForeign
// if the folder contains other files. Exists does not lock the folder.
func Exists(path string) (bool, error) { return exists(vfs.Default, path) }

func exists(fs vfs.FS, path string) (bool, error) {
	info, err := fs.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.IsDir():
		return false, fmt.Errorf("%s: %w", path, errFile)
	}
	names, err := fs.List(path)
	if err != nil || slices.Contains(names, headerFile) {
		return err == nil, err
	}
	for _, n := range names {
		switch {
		case strings.HasSuffix(n, ".sst"):
			return true, nil // Open reports that the header is missing
		case !begun(n):
			return false, fmt.Errorf("%s: %w: it has %s", path, ErrForeign, n)
		}
	}
	return false, nil
}

// begun reports whether a file with the given name may be in the folder of a store that
// is not complete yet. The folder lost+found may be there too, because fsck uses it in
// the root folder of a file system.
func begun(name string) bool {
	ours := []string{lockFile, pidFile, reserveFile, headerFile + ".new", endingFile, "lost+found"}
	return slices.Contains(ours, name) || vital(name) || strings.HasPrefix(name, bulkPrefix) ||
		strings.HasSuffix(name, ".dbtmp")
}
