package lsm

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A disk is the file system that Pebble sees. Pebble gives up for good when it
// cannot write its log or manifest; so a full disk is not told to it: the write
// waits here until there is space, the store refuses other writes meanwhile and
// reads go on. Sorted tables are another matter: Pebble takes their failure
// well, frees what it wrote and tries again.
//
// After any other failure of the log or manifest nothing is certain about what
// reached the disk (a second fsync may succeed without having written). The
// store then takes no more writes until it is opened anew; reads go on.
type disk struct {
	vfs.FS
	logf func(string, ...any)

	lastFull atomic.Int64 // when a sorted table last did not fit, Unix ns
	renewing atomic.Int32 // logs are not to be written over old ones
	closed   chan struct{}

	mu      sync.Mutex
	waiting int           // writes that wait for space
	stall   chan struct{} // closed while there are any, or after a failure
	broken  error
}

const (
	fullRetry = 100 * time.Millisecond // between attempts to write
	fullPause = time.Second            // writes are refused for so long after a table did not fit
)

func newDisk(fs vfs.FS, logf func(string, ...any)) *disk {
	return &disk{FS: fs, logf: logf, stall: make(chan struct{}), closed: make(chan struct{})}
}

// Unwrap is part of vfs.FS.
func (d *disk) Unwrap() vfs.FS { return d.FS }

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// writable says why the store takes no writes now, or nil.
func (d *disk) writable() error {
	if t := d.lastFull.Load(); t != 0 {
		if time.Since(time.Unix(0, t)) < fullPause {
			return fmt.Errorf("%w: the disk is full", table.ErrUnavailable)
		}
		d.lastFull.CompareAndSwap(t, 0)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.broken != nil:
		return fmt.Errorf("%w: writing failed, start again to recover: %w", table.ErrUnavailable, d.broken)
	case d.waiting > 0:
		return fmt.Errorf("%w: the disk is full", table.ErrUnavailable)
	}
	return nil
}

// stalled gives a channel that is closed while writes are refused.
func (d *disk) stalled() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stall
}

// fail remembers that Pebble can write no more.
func (d *disk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return
	}
	d.broken = err
	d.logf("store takes no more writes: %v", err)
	if d.waiting == 0 {
		close(d.stall)
	}
}

func (d *disk) failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.broken
}

// closing ends the waits for space.
func (d *disk) closing() { close(d.closed) }

// untilFits does a write again as long as the disk is full.
func (d *disk) untilFits(write func() error) error {
	err := write()
	if !isFull(err) {
		return err
	}
	d.wait(1)
	defer d.wait(-1)
	for isFull(err) {
		select {
		case <-d.closed:
			return err
		case <-time.After(fullRetry):
			err = write()
		}
	}
	return err
}

func (d *disk) wait(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.waiting
	d.waiting += n
	switch {
	case d.broken != nil:
	case before == 0:
		close(d.stall)
		d.logf("the disk is full: writes wait")
	case d.waiting == 0:
		d.stall = make(chan struct{})
		d.logf("the disk has space again")
	}
}

// vital reports whether Pebble gives up when the file cannot be written.
func vital(name string) bool {
	b := filepath.Base(name)
	return strings.HasSuffix(b, ".log") || strings.HasPrefix(b, "MANIFEST") ||
		strings.HasPrefix(b, "OPTIONS") || strings.HasPrefix(b, "marker.")
}

// guard wraps a file that was opened for writing by open.
func (d *disk) guard(name string, open func() (vfs.File, error)) (vfs.File, error) {
	if !vital(name) {
		f, err := open()
		return &diskFile{File: f, d: d}, d.noteTable(err)
	}
	var f vfs.File
	err := d.untilFits(func() (err error) { f, err = open(); return err })
	return &diskFile{File: f, d: d, vital: true}, err
}

// noteTable remembers that a sorted table did not fit.
func (d *disk) noteTable(err error) error {
	if isFull(err) {
		d.lastFull.Store(time.Now().UnixNano())
	}
	return err
}

// Create is part of vfs.FS. The name of a marker says which file is the manifest,
// and Pebble makes sure of both names at once, by one fsync of the folder: after a
// loss of power the marker could be there and the manifest not. So whatever a marker
// may name is made sure of before it.
func (d *disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.guard(name, func() (vfs.File, error) {
		if strings.HasPrefix(filepath.Base(name), "marker.") {
			if err := d.syncFolder(filepath.Dir(name)); err != nil {
				return nil, err
			}
		}
		return d.FS.Create(name, c)
	})
}

func (d *disk) syncFolder(name string) error {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// OpenReadWrite is part of vfs.FS.
func (d *disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return d.guard(name, func() (vfs.File, error) { return d.FS.OpenReadWrite(name, c, o...) })
}

// ReuseForWrite is part of vfs.FS. Behind what is written there would be the rest
// of the old file.
func (d *disk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if d.renewing.Load() > 0 {
		if err := d.FS.Remove(from); err != nil {
			return nil, err
		}
		return d.Create(to, c)
	}
	return d.guard(to, func() (vfs.File, error) { return d.FS.ReuseForWrite(from, to, c) })
}

// Rename is part of vfs.FS.
func (d *disk) Rename(from, to string) error {
	if !vital(to) {
		return d.FS.Rename(from, to)
	}
	return d.untilFits(func() error { return d.FS.Rename(from, to) })
}

// A diskFile is a file open for writing.
type diskFile struct {
	vfs.File
	d     *disk
	vital bool
}

// Write is part of vfs.File. What did not fit is written later.
func (f *diskFile) Write(p []byte) (int, error) {
	if !f.vital {
		n, err := f.File.Write(p)
		return n, f.d.noteTable(err)
	}
	done := 0
	err := f.d.untilFits(func() error {
		n, err := f.File.Write(p[done:])
		done += n
		return err
	})
	return done, f.report(err)
}

// Sync is part of vfs.File.
func (f *diskFile) Sync() error { return f.report(f.File.Sync()) }

// SyncData is part of vfs.File.
func (f *diskFile) SyncData() error { return f.report(f.File.SyncData()) }

// Preallocate is part of vfs.File. It only saves time.
func (f *diskFile) Preallocate(off, n int64) error {
	if err := f.File.Preallocate(off, n); !isFull(err) {
		return err
	}
	return nil
}

// report remembers failures that Pebble does not survive.
func (f *diskFile) report(err error) error {
	if err != nil && f.vital {
		f.d.fail(err)
	} else if err != nil {
		f.d.noteTable(err)
	}
	return err
}

// events watches what Pebble does in the background.
func (s *Store) events() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) { s.o.Logf("background: %v", err) },
		DataCorruption:  func(i pebble.DataCorruptionInfo) { s.o.Logf("%s", i) },
		DiskSlow:        func(i pebble.DiskSlowInfo) { s.o.Logf("%s", i) },
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) { s.o.Logf("writes wait for compaction: %s", i.Reason) },
		FlushEnd:        func(pebble.FlushInfo) { s.iters.refresh() },
		CompactionEnd:   func(pebble.CompactionInfo) { s.iters.refresh() },
	}
}

// A logger takes Pebble's messages. Only failures are worth an operator's time.
type logger Store

func (l *logger) Infof(string, ...any)           {}
func (l *logger) Errorf(format string, a ...any) { l.o.Logf(format, a...) }

// Fatalf must not return. If a call of ours is on the stack, a panic takes it
// there to be turned into an error; a goroutine of Pebble's just ends.
func (l *logger) Fatalf(format string, a ...any) {
	err := fmt.Errorf(format, a...)
	l.disk.fail(err)
	if ours() {
		panic(err)
	}
	runtime.Goexit()
}

// ours reports whether the goroutine came from the store and not from Pebble.
func ours() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, "/table/lsm.") {
			return true
		}
		if !more {
			return false
		}
	}
}
