package lsm

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

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
