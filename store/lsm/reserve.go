package lsm

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// DefaultReserve is the number of bytes that a server reserves for a full disk.
const DefaultReserve = 8 << 20

const (
	reserveFile = "ldapd.reserve"
	reservePart = 16 // a reserve uses at most 1/reservePart of the disk

	watchGrain = 10 * time.Second       // time between two checks of the free space
	watchFull  = 250 * time.Millisecond // time between two checks while the disk is full

	lowShare = 10 // below this percentage of free space a warning is logged
	lowOver  = 12 // at this percentage of free space the warning ends
)

// A reminder makes a message repeat after growing pauses.
type reminder struct {
	next  time.Time
	pause time.Duration // zero if the reminder is not running
}

func (r *reminder) begin() {
	r.pause = time.Minute
	r.next = time.Now().Add(r.pause)
}

// due reports whether it is time for the next message.
func (r *reminder) due() bool {
	if r.pause == 0 || time.Now().Before(r.next) {
		return false
	}
	r.pause = min(2*r.pause, time.Hour)
	r.next = time.Now().Add(r.pause)
	return true
}

func (x *space) reserveName() string { return x.fs.PathJoin(x.folder, reserveFile) }

// giveUp removes the reserve and reports whether it freed space. The caller holds mu.
func (x *space) giveUp() bool {
	if !x.held {
		return false
	}
	x.held = false
	return x.fs.Remove(x.reserveName()) == nil
}

// find looks for the reserve that an earlier process left behind, and reports whether it
// exists.
func (x *space) find() bool {
	_, err := x.fs.Stat(x.reserveName())
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = err == nil
	return x.held
}

// keep creates the reserve if it does not exist. It returns false if the disk is too full
// for the reserve.
func (x *space) keep() bool {
	if x.reserve == 0 {
		return true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.held {
		return true
	}
	size := x.reserve
	if u, err := x.fs.GetDiskUsage(x.folder); err == nil {
		size = x.wanted(u)
	}
	if err := x.fill(size); err != nil {
		x.fs.Remove(x.reserveName()) // ignore the error: the file might not exist
		return !isFull(err)
	}
	x.held = true
	return true
}

// fill creates the reserve file. It preallocates blocks or, if the file system does not
// support that, writes bytes that cannot be compressed.
func (x *space) fill(size int64) error {
	f, err := x.fs.Create(x.reserveName(), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = f.Preallocate(0, size)
	if err != nil && !isFull(err) {
		err = writeNoise(f, size)
	}
	return errors.Join(err, f.Close())
}

func writeNoise(f vfs.File, size int64) error {
	noise := rand.NewChaCha8([32]byte{1})
	b := make([]byte, 1<<20)
	for ; size > 0; size -= int64(len(b)) {
		b = b[:min(size, int64(len(b)))]
		_, _ = noise.Read(b) // Read never fails
		if _, err := f.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// look checks the free space. It creates the reserve again if there is enough space, and
// warns if there is little space left.
func (x *space) look() {
	x.mu.Lock()
	full, since, waiting := x.full, x.lastFull, x.waiting > 0
	remind := full && x.reminder.due()
	x.mu.Unlock()
	u, err := x.fs.GetDiskUsage(x.folder)
	switch {
	case !full && err == nil:
		x.warn(u)
	case full && !waiting && time.Since(since) > fullPause && (err != nil || enough(u, x.wanted(u))):
		x.recover()
	}
	if remind {
		x.logf("the disk is still full")
	}
}

// wanted returns the size that the reserve should have.
func (x *space) wanted(u vfs.DiskUsage) int64 {
	return min(x.reserve, int64(u.TotalBytes/reservePart))
}

// The function "enough" reports whether a disk that was full has enough space again.
func enough(u vfs.DiskUsage, reserve int64) bool {
	return u.AvailBytes >= uint64(max(2*reserve, 1<<20))
}

func (x *space) recover() {
	if !x.keep() {
		return
	}
	x.mu.Lock()
	x.full, x.reminder = false, reminder{}
	x.setChannels()
	x.mu.Unlock()
	x.logf("the disk has space again")
}

func (x *space) warn(u vfs.DiskUsage) {
	if u.TotalBytes == 0 {
		return
	}
	percent := float64(u.AvailBytes) * 100 / float64(u.TotalBytes)
	switch {
	case percent >= lowOver:
		x.low = reminder{}
	case percent < lowShare && (x.low.pause == 0 || x.low.due()):
		if x.low.pause == 0 {
			x.low.begin()
		}
		x.logf("the disk is nearly full: %.1f%% (%d MB) free", percent, u.AvailBytes>>20)
	}
}

// watch checks the free space until the store is closed.
func (x *space) watch(ended chan<- struct{}) {
	defer close(ended)
	for {
		x.look()
		pause := watchGrain
		if err := x.writable(false); err != nil {
			pause = watchFull
		}
		select {
		case <-x.closed:
			return
		case <-x.changed:
		case <-time.After(pause):
		}
	}
}
