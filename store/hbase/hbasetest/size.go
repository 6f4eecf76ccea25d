package hbasetest

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// Root returns the folder in which HBase stores all its data.
func (i *Instance) Root() string { return filepath.Join(i.c.Dir, "data") }

// Size returns the total size of the files of the tables whose names begin with prefix.
// It counts files in use, and files that a compaction has replaced and HBase has not
// archived yet.
func (i *Instance) Size(prefix string) (n int64, err error) {
	root := filepath.Join(i.Root(), "data", "default")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rest, _ := filepath.Rel(root, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // the file was archived meanwhile
		case err != nil:
			return err
		case d.IsDir() || !strings.HasPrefix(rest, prefix):
			return nil
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n, err
}
