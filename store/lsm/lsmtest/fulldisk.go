package lsmtest

import (
	"math"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A FullDisk is a file system in memory that becomes full at a chosen operation. Space is
// used when bytes are written or preallocated, and released when files are removed. So a
// program that removes a file can write as many bytes again.
type FullDisk struct {
	vfs.FS
	// Late makes the disk use space for bytes only when they are synced, as file systems
	// with delayed allocation do: writes succeed and syncs fail.
	Late bool

	mu    sync.Mutex
	after int // number of operations until the disk is full; negative if never
	seen  int
	room  int64
	taken map[string]int64
	full  chan struct{} // closed when the disk becomes full for the first time
}

// NewFullDisk returns a disk that becomes full after a number of operations. Creations, writes,
// preallocations, syncs and renames count as operations. If after is negative, the disk never
// becomes full by itself.
func NewFullDisk(after int, late bool) *FullDisk {
	return &FullDisk{FS: vfs.NewMem(), Late: late, after: after, room: math.MaxInt64 / 2, taken: map[string]int64{}, full: make(chan struct{})}
}

// Writes returns the number of operations so far.
func (d *FullDisk) Writes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen
}

// Full returns a channel that is closed when the disk becomes full for the first time.
func (d *FullDisk) Full() <-chan struct{} { return d.full }

// Fill fills the disk except for room bytes.
func (d *FullDisk) Fill(room int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fill(room)
}

func (d *FullDisk) fill(room int64) {
	d.room, d.after = room, -1
	select {
	case <-d.full:
	default:
		close(d.full)
	}
}

// Heal frees space on the disk, so that writes succeed again.
func (d *FullDisk) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room, d.after = math.MaxInt64/2, -1
}

// countWrite counts an operation and uses space for bytes of a file. It returns an error
// if there is too little space.
func (d *FullDisk) countWrite(op, name string, bytes int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen++; d.seen == d.after {
		d.fill(0)
	}
	if bytes > 0 && bytes > d.room {
		return &os.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
	}
	d.room -= bytes
	d.taken[name] += bytes
	return nil
}

// inode is the number of bytes that a new file uses.
const inode = 64

func (d *FullDisk) free(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room += d.taken[name]
	delete(d.taken, name)
}

// Create implements vfs.FS.
func (d *FullDisk) Create(n string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.countWrite("create", n, inode); err != nil {
		return nil, err
	}
	return d.wrap(n, func() (vfs.File, error) { return d.FS.Create(n, c) })
}

// OpenReadWrite implements vfs.FS.
func (d *FullDisk) OpenReadWrite(n string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return d.wrap(n, func() (vfs.File, error) { return d.FS.OpenReadWrite(n, c, o...) })
}

// ReuseForWrite implements vfs.FS.
func (d *FullDisk) ReuseForWrite(a, b string, c vfs.DiskWriteCategory) (vfs.File, error) {
	d.moved(a, b)
	return d.wrap(b, func() (vfs.File, error) { return d.FS.ReuseForWrite(a, b, c) })
}

// Rename implements vfs.FS.
func (d *FullDisk) Rename(a, b string) error {
	if err := d.countWrite("rename", a, 0); err != nil {
		return err
	}
	d.moved(a, b)
	return d.FS.Rename(a, b)
}

func (d *FullDisk) moved(a, b string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.taken[b] += d.taken[a]
	delete(d.taken, a)
}

// Remove implements vfs.FS.
func (d *FullDisk) Remove(n string) error {
	err := d.FS.Remove(n)
	if err == nil {
		d.free(n)
	}
	return err
}

// RemoveAll implements vfs.FS.
func (d *FullDisk) RemoveAll(n string) error {
	d.mu.Lock()
	for name, bytes := range d.taken {
		if strings.HasPrefix(name, n) {
			d.room += bytes
			delete(d.taken, name)
		}
	}
	d.mu.Unlock()
	return d.FS.RemoveAll(n)
}

// GetDiskUsage implements vfs.FS.
func (d *FullDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	const total = 1 << 30
	return vfs.DiskUsage{AvailBytes: uint64(min(d.room, total)), TotalBytes: total}, nil
}

// Unwrap implements vfs.FS.
func (d *FullDisk) Unwrap() vfs.FS { return d.FS }

func (d *FullDisk) wrap(name string, open func() (vfs.File, error)) (vfs.File, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	return &fullFile{File: f, d: d, name: name}, nil
}

// A fullFile is a file open for writing.
type fullFile struct {
	vfs.File
	d     *FullDisk
	name  string
	mu    sync.Mutex
	aside int64 // bytes preallocated and not written yet
	dirty int64 // bytes written for which no space is used yet
}

// Write implements vfs.File.
func (f *fullFile) Write(p []byte) (int, error) {
	n := f.charge(int64(len(p)))
	if f.d.Late {
		f.dirty += n
		n = 0
	}
	if err := f.d.countWrite("write", f.name, n); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// charge reduces the preallocated bytes by up to n, and returns the part of n that was
// not preallocated.
func (f *fullFile) charge(n int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	took := min(n, f.aside)
	f.aside -= took
	return n - took
}

// Preallocate implements vfs.File.
func (f *fullFile) Preallocate(_, n int64) error {
	if err := f.d.countWrite("fallocate", f.name, n); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aside += n
	return nil
}

func (f *fullFile) attempt(sync func() error) error {
	n := f.dirty
	if err := f.d.countWrite("sync", f.name, n); err != nil {
		return err
	}
	f.dirty -= n
	return sync()
}

// Sync implements vfs.File.
func (f *fullFile) Sync() error { return f.attempt(f.File.Sync) }

// SyncData implements vfs.File.
func (f *fullFile) SyncData() error { return f.attempt(f.File.SyncData) }

// SyncTo implements vfs.File.
func (f *fullFile) SyncTo(n int64) (whole bool, err error) {
	err = f.attempt(func() (err error) { whole, err = f.File.SyncTo(n); return err })
	return whole, err
}
