package lsm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	lockFile = "LOCK"      // Pebble's name for the lock file
	pidFile  = "ldapd.pid" // contains the id of the process that holds the lock
)

// A folder has the files of a store that are not Pebble's own.
type folder struct {
	o      *Options
	lock   io.Closer
	made   bool                      // the header exists
	format pebble.FormatMajorVersion // format of the files when the store was opened
}

// acquire acquires the folder's lock. If the store is opened for writing, it also writes this
// process's id into the folder.
func (d *folder) acquire() error {
	fs := d.o.FS
	if err := d.makeFolder(); err != nil {
		return err
	}
	lock, err := fs.Lock(fs.PathJoin(d.o.Path, lockFile))
	switch {
	case err == nil:
		d.lock = lock
	case errors.Is(err, syscall.EROFS) && d.o.ReadOnly:
		// No lock is needed, because no process can write to a read-only file system.
		d.lock = unlocked{}
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the file system is mounted read-only: %w", err)
	case errors.Is(err, os.ErrPermission):
		return d.withoutLock(err)
	case isFull(err):
		return fmt.Errorf("%w: the disk is full: %w", table.ErrUnavailable, err)
	default:
		return fmt.Errorf("%w%s: %w", table.ErrLocked, d.holder(), err)
	}
	if d.o.ReadOnly {
		return nil
	}
	if err := writeFile(fs, fs.PathJoin(d.o.Path, pidFile), strconv.Itoa(os.Getpid())+"\n"); err != nil && !isFull(err) {
		d.release()
		return fmt.Errorf("the folder is not writable: %w", err)
	}
	return nil
}

// withoutLock is called if this process may not write the lock file. If the store is opened
// read-only and no living process seems to have it open, the store is used without the lock.
// Otherwise withoutLock returns an error.
func (d *folder) withoutLock(err error) error {
	if !d.o.ReadOnly {
		return fmt.Errorf("the folder is not writable: %w", err)
	}
	if pid := d.pid(); pid != 0 && alive(pid) {
		return fmt.Errorf("%w%s, and the lock cannot be taken: %w", table.ErrLocked, d.holder(), err)
	}
	d.lock = unlocked{}
	return nil
}

// alive reports whether a process with this id may exist.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

var errFile = errors.New("this is a file, and a store is a folder")

// makeFolder creates the folder of a new store.
func (d *folder) makeFolder() error {
	fs := d.o.FS
	info, err := fs.Stat(d.o.Path)
	switch {
	case err == nil && !info.IsDir():
		return errFile
	case err == nil:
		return nil
	case d.o.ReadOnly || !errors.Is(err, os.ErrNotExist):
		return err
	}
	if err := fs.MkdirAll(d.o.Path, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder: %w", err)
	}
	return syncDir(fs, fs.PathDir(d.o.Path))
}

func (d *folder) holder() string {
	if pid := d.pid(); pid != 0 {
		return fmt.Sprint(" by process ", pid)
	}
	return ""
}

// pid returns the process id that the holder of the lock wrote, or zero if it cannot be
// read.
func (d *folder) pid() int {
	f, err := d.o.FS.Open(d.o.FS.PathJoin(d.o.Path, pidFile))
	if err != nil {
		return 0
	}
	defer f.Close()
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return max(pid, 0)
}

func (d *folder) release() {
	if d.lock == nil {
		return
	}
	if !d.o.ReadOnly {
		d.o.FS.Remove(d.o.FS.PathJoin(d.o.Path, pidFile))
	}
	d.lock.Close()
	d.lock = nil
}

// unlocked is the lock of a folder that needs no lock. Closing it does nothing.
type unlocked struct{}

// Close implements io.Closer.
func (unlocked) Close() error { return nil }

var _ vfs.FS = (*disk)(nil)
