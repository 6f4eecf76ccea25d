package lsm

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrForeign: a folder has files and is no store.
var ErrForeign = errors.New("the folder is not empty and is not a store")

// Exists reports whether a folder is a store. A missing folder, an empty one and one
// in which a store was begun and never finished are none; one with other files is
// ErrForeign. The folder is not locked for that.
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
			return true, nil // Open says what is wrong with it
		case !begun(n):
			return false, fmt.Errorf("%s: %w: it has %s", path, ErrForeign, n)
		}
	}
	return false, nil
}

// begun reports whether a file may be there before the store is finished. A file
// system of its own begins with a folder for what is found by fsck.
func begun(name string) bool {
	ours := []string{lockFile, pidFile, reserveFile, headerFile + ".new", "lost+found"}
	return slices.Contains(ours, name) || vital(name) || strings.HasPrefix(name, bulkPrefix) ||
		strings.HasSuffix(name, ".dbtmp")
}
