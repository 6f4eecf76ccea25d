package lsm

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is the file system that Pebble uses. If Pebble cannot write its log or manifest,
// it stops for good. If Pebble cannot write a sorted table, it retries at once and
// without end. So a full disk is not reported to Pebble at once. First the reserve is
// given up (see space). If that is not enough, disk makes writes of the log wait until
// there is space. It reports failures of sorted tables to Pebble only after pauses, which
// become longer and longer. In the meantime the store refuses other writes, and reads
// continue.
//
// After any other failure of the log or the manifest, it is unknown which writes reached
// the disk: a second fsync may succeed although it has not written the data. The store
// then refuses all writes until it is opened again, and reads continue.
type disk struct {
	vfs.FS
	space
	renewing atomic.Int32 // if not 0, old log files must not be reused
}

func newDisk(fs vfs.FS, folder string, reserve int64, logf func(string, ...any)) *disk {
	d := &disk{FS: fs}
	d.space.init(fs, folder, reserve, logf)
	return d
}

// Unwrap implements vfs.FS.
func (d *disk) Unwrap() vfs.FS { return d.FS }

// Lock implements vfs.FS. It does nothing, because the store itself holds the folder's
// lock.
func (d *disk) Lock(string) (io.Closer, error) { return unlocked{}, nil }

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isVital reports whether a file is vital and belongs to the open database. The files of
// copies do not belong to the open database.
func (d *disk) isVital(name string) bool {
	return vital(name) && !strings.HasPrefix(d.FS.PathBase(d.FS.PathDir(name)), copyPrefix)
}

// vital reports whether Pebble stops for good if it cannot write the file.
func vital(name string) bool {
	b := filepath.Base(name)
	return strings.HasSuffix(b, ".log") || strings.HasPrefix(b, "MANIFEST") ||
		strings.HasPrefix(b, "OPTIONS") || strings.HasPrefix(b, "marker.")
}

// guard opens a file for writing and wraps the file in a diskFile.
func (d *disk) guard(name string, open func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	v := d.isVital(name)
	err := d.fit(v, func() (err error) { f, err = open(); return err })
	if err != nil && v {
		d.lost(v, err)
	}
	return &diskFile{File: f, d: d, vital: v}, err
}

// Create implements vfs.FS. A marker is a file whose name identifies the current
// manifest. Pebble syncs the names of the marker and of the manifest together, by one
// fsync of the folder. So after a power loss the marker could exist and the manifest not.
// Create therefore syncs the folder before it creates a marker.
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

// OpenReadWrite implements vfs.FS.
func (d *disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return d.guard(name, func() (vfs.File, error) { return d.FS.OpenReadWrite(name, c, o...) })
}

// ReuseForWrite implements vfs.FS. A reused file keeps the rest of its old content behind
// the new content. So during Purge ReuseForWrite removes the old file and creates a new
// one.
func (d *disk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if d.renewing.Load() > 0 {
		if err := d.FS.Remove(from); err != nil {
			return nil, err
		}
		return d.Create(to, c)
	}
	return d.guard(to, func() (vfs.File, error) { return d.FS.ReuseForWrite(from, to, c) })
}

// Rename implements vfs.FS.
func (d *disk) Rename(from, to string) error {
	if isAside(d.FS, to) {
		return d.setAside(from, to)
	}
	v := d.isVital(to)
	err := d.fit(v, func() error { return d.FS.Rename(from, to) })
	if err != nil && v {
		d.lost(true, err)
	}
	return err
}

// Remove implements vfs.FS.
func (d *disk) Remove(name string) error {
	return d.fit(false, func() error { return d.FS.Remove(name) })
}

// Link implements vfs.FS.
func (d *disk) Link(from, to string) error {
	return d.fit(false, func() error { return d.FS.Link(from, to) })
}

// A diskFile is a file open for writing.
type diskFile struct {
	vfs.File
	d     *disk
	vital bool
}

// Write implements vfs.File. If only a part of p was written, a retry writes the rest.
func (f *diskFile) Write(p []byte) (int, error) {
	done := 0
	err := f.d.fit(f.vital, func() error {
		n, err := f.File.Write(p[done:])
		done += n
		return err
	})
	return done, f.report(err)
}

// Sync implements vfs.File.
func (f *diskFile) Sync() error { return f.report(f.d.attempt(f.File.Sync)) }

// SyncData implements vfs.File.
func (f *diskFile) SyncData() error { return f.report(f.d.attempt(f.File.SyncData)) }

// SyncTo implements vfs.File.
func (f *diskFile) SyncTo(n int64) (whole bool, err error) {
	err = f.d.attempt(func() (err error) { whole, err = f.File.SyncTo(n); return err })
	return whole, f.report(err)
}

// Preallocate implements vfs.File. It ignores a full disk, because preallocation only
// saves time.
func (f *diskFile) Preallocate(off, n int64) error {
	if err := f.File.Preallocate(off, n); !isFull(err) {
		return err
	}
	return nil
}

// report calls the function lost with every error of a vital file. For other files, it calls
// the function only with the error of a full disk.
func (f *diskFile) report(err error) error {
	if isFull(err) && !f.vital || err != nil && f.vital {
		f.d.lost(f.vital, err)
	}
	return err
}

// reports receives what Pebble reports of its background work.
type reports struct {
	s       *Store
	damaged sync.Map // paths of damaged files that have been logged
}

// events returns the listeners for Pebble's background work.
func (r *reports) events() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: r.logBackground,
		DataCorruption:  r.logDamage,
		WALCreated:      r.s.endings.began,
		DiskSlow:        func(i pebble.DiskSlowInfo) { r.s.o.Logf("%s", i) },
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			r.s.m.stalls.Add(1)
			r.s.o.Logf("writes wait for compaction: %s", i.Reason)
		},
		FlushEnd:      func(pebble.FlushInfo) { r.s.iters.refresh() },
		CompactionEnd: func(pebble.CompactionInfo) { r.s.iters.refresh() },
	}
}

// logDamage logs that a file is damaged. It logs each file once, because many reads may
// find the same damage.
func (r *reports) logDamage(i pebble.DataCorruptionInfo) {
	if _, again := r.damaged.LoadOrStore(i.Path, true); !again {
		r.s.o.Logf("the file %s is damaged: %v", i.Path, i.Details)
	}
}

// logBackground logs errors of work that Pebble retries. It does not log a full disk,
// which has a message of its own.
func (r *reports) logBackground(err error) {
	if !isFull(err) {
		r.s.o.Logf("background: %v", err)
	}
}

// A logger receives Pebble's messages. It passes only errors to Options.Logf.
type logger Store

func (l *logger) Infof(string, ...any) {}

func (l *logger) Errorf(format string, a ...any) { l.o.Logf(format, a...) }

// Fatalf must not return. If a function of this package is on the stack, Fatalf panics,
// so that this function can recover and return an error. Otherwise it ends the goroutine,
// which belongs to Pebble.
func (l *logger) Fatalf(format string, a ...any) {
	err := fmt.Errorf(format, a...)
	l.disk.fail(err)
	if ours() {
		panic(err)
	}
	runtime.Goexit()
}

// The function "ours" reports whether a function of this package is on the stack. If so, the
// goroutine was not started by Pebble.
func ours() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, "/store/lsm.") {
			return true
		}
		if !more {
			return false
		}
	}
}
