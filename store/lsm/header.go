package lsm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

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
func (s *Store) checkHeader() error {
	fs := s.o.FS
	if s.o.copied {
		s.made = true
		return nil
	}
	f, err := fs.Open(fs.PathJoin(s.o.Path, headerFile))
	if errors.Is(err, os.ErrNotExist) {
		return s.clearHalfMade()
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
	s.made = true
	return nil
}

// clearHalfMade removes Pebble's files of a store that was never completed. If the folder
// contains tables, the header must have been lost, and clearHalfMade returns an error.
func (s *Store) clearHalfMade() error {
	fs := s.o.FS
	if s.o.ReadOnly {
		return fmt.Errorf("no store in the folder: %w", os.ErrNotExist)
	}
	names, err := fs.List(s.o.Path)
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
			err = errors.Join(err, fs.Remove(fs.PathJoin(s.o.Path, n)))
		}
	}
	return err
}

// writeHeader writes the header, which marks the store as complete.
func (s *Store) writeHeader() error {
	if s.made || s.o.ReadOnly {
		return nil
	}
	err := s.putFile(headerFile, fmt.Sprintf("%s%d\n", headerText, formatVersion))
	s.made = err == nil
	return err
}

// putFile writes a file of the folder completely or not at all.
func (s *Store) putFile(name, content string) error {
	fs := s.o.FS
	path := fs.PathJoin(s.o.Path, name)
	if err := writeFile(fs, path+".new", content); err != nil {
		return err
	}
	if err := fs.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(fs, s.o.Path)
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
