// Package lsmtest helps to test how programs built on store/lsm behave after a power loss
// and on a full disk.
//
// [PowerLoss] runs a load on a file system in memory. Before and after each sync it records
// the content that the disk would have if power failed at that moment: everything synced,
// and a random part of the rest. For each of these disks it then calls a function of the
// test, which opens and checks the disk.
package lsmtest

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Disk is the content of the file system after a power loss.
type Disk struct {
	vfs.FS
	// Acked is the largest number that the load had reported when power failed.
	// Everything that was durable before that report must exist on the disk.
	Acked int
}

// PowerLoss calls the function load once, and then the function check for every recorded disk.
// load must pass the file system to lsm.Options.FS, call acked(n) when the n-th of its steps is
// durable, and close everything that it opens.
func PowerLoss(t testing.TB, seed uint64, load func(fs vfs.FS, acked func(n int)), check func(d Disk)) {
	t.Helper()
	r := &recorder{mem: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(seed, seed))}
	load(&recordFS{FS: r.mem, r: r}, func(n int) {
		for {
			old := r.acked.Load()
			if int64(n) <= old || r.acked.CompareAndSwap(old, int64(n)) {
				return
			}
		}
	})
	r.record()
	if len(r.disks) < 2 {
		t.Error("the load made nothing durable")
	}
	for _, d := range r.disks {
		if check(d); t.Failed() {
			t.Logf("after a power loss with %d steps acknowledged", d.Acked)
			return
		}
	}
}

type recorder struct {
	mem   *vfs.MemFS
	acked atomic.Int64
	mu    sync.Mutex
	rng   *rand.Rand
	disks []Disk
}

// record records the content that the disk would have now. It reads acked first, because
// steps acknowledged later may or may not be on the disk.
func (r *recorder) record() {
	n := int(r.acked.Load())
	r.mu.Lock()
	defer r.mu.Unlock()
	c := vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[r.rng.IntN(3)], RNG: r.rng}
	r.disks = append(r.disks, Disk{r.mem.CrashClone(c), n})
}

// recordFS calls record before and after each sync.
type recordFS struct {
	vfs.FS
	r *recorder
}

func (f *recordFS) wrap(x vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &recordFile{x, f.r}, nil
}

// Create implements vfs.FS.
func (f *recordFS) Create(n string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(f.FS.Create(n, c))
}

// OpenReadWrite implements vfs.FS.
func (f *recordFS) OpenReadWrite(n string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.wrap(f.FS.OpenReadWrite(n, c, o...))
}

// ReuseForWrite implements vfs.FS.
func (f *recordFS) ReuseForWrite(a, b string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(f.FS.ReuseForWrite(a, b, c))
}

// OpenDir implements vfs.FS.
func (f *recordFS) OpenDir(n string) (vfs.File, error) { return f.wrap(f.FS.OpenDir(n)) }

// Unwrap implements vfs.FS.
func (f *recordFS) Unwrap() vfs.FS { return f.FS }

type recordFile struct {
	vfs.File
	r *recorder
}

func (f *recordFile) around(sync func() error) error {
	f.r.record()
	err := sync()
	f.r.record()
	return err
}

// Sync implements vfs.File.
func (f *recordFile) Sync() error { return f.around(f.File.Sync) }

// SyncData implements vfs.File.
func (f *recordFile) SyncData() error { return f.around(f.File.SyncData) }
