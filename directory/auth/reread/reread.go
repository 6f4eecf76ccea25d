// Package reread keeps the contents of a file, and reads the file again when it changes.
package reread

import (
	"os"
	"sync"
	"time"
)

// A File holds the last valid contents of a file. It may be used concurrently.
type File[T any] struct {
	path string
	read func(path string) (T, error)

	mu      sync.Mutex
	last    T
	version version
}

// A version is used to notice changes of a file.
type version struct {
	time time.Time
	size int64
}

// Open reads a file with the given function.
func Open[T any](path string, read func(path string) (T, error)) (*File[T], error) {
	f := &File[T]{path: path, read: read}
	_, err := f.Current()
	return f, err
}

// Current returns the contents of the file. It reads the file if the file has changed. If
// reading fails, Current returns the error and the last valid contents. It returns an
// error of the read function only once for each change of the file.
func (f *File[T]) Current() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		return f.last, err
	}
	now := version{info.ModTime(), info.Size()}
	if now == f.version {
		return f.last, nil
	}
	f.version = now // set before reading, so that an invalid file is reported once
	v, err := f.read(f.path)
	if err == nil {
		f.last = v
	}
	return f.last, err
}
