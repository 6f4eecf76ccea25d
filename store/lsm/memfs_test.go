package lsm

import (
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A memFS is a vfs.MemFS whose renames and listings exclude each other. Rename of a vfs.MemFS (Pebble 2.1.7) takes the
// file away and then puts it to its new name, so a listing of both folders may find it in neither. In a real file system
// a file always has a name (findings/pebble-memfs-rename.sh).
type memFS struct {
	vfs.FS
	mu sync.RWMutex
}

func newMemFS() *memFS { return &memFS{FS: vfs.NewMem()} }

func (m *memFS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.FS.Rename(from, to)
}

func (m *memFS) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.FS.List(dir)
}
