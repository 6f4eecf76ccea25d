package passwordlist

import (
	"log/slog"
	"os"
	"sync"
	"time"
)

// A File is a list that is read again when its file changes.
type File struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	list *List
	seen stamp
}

// stamp tells versions of a file apart.
type stamp struct {
	changed time.Time
	size    int64
}

// Open reads a list.
func Open(path string, log *slog.Logger) (*File, error) {
	f := &File{path: path, log: log}
	return f, f.read()
}

// read reads the list if its file has changed. If the new file is invalid, the old list
// stays.
func (f *File) read() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	now := stamp{info.ModTime(), info.Size()}
	if now == f.seen {
		return nil
	}
	f.seen = now // set before reading, so that an invalid file is reported once
	l, err := Read(f.path)
	if err != nil {
		return err
	}
	f.list = l
	f.log.Info("known passwords in force", "file", f.path, "passwords", l.Len())
	return nil
}

// Contains reports whether a password is in the list.
func (f *File) Contains(password []byte) bool {
	f.mu.Lock()
	if err := f.read(); err != nil {
		f.log.Error("the list of known passwords cannot be read, the one before stays in force", "error", err)
	}
	l := f.list
	f.mu.Unlock()
	return l.Contains(password)
}
