package lsm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Options says where a store is and how it uses the machine. Only Path is
// needed.
type Options struct {
	Path string
	// FS is the file system; nil is the machine's. Tests give one in memory:
	// with vfs.NewCrashableMem and its CrashClone, everything above the store
	// can be tested for power loss.
	FS vfs.FS
	// Cache is the size in bytes of the cache of uncompressed blocks; zero is
	// 128 MiB.
	Cache int64
	// MemTable is the size in bytes of the table in memory that takes writes;
	// zero is 32 MiB.
	MemTable uint64
	// ReadOnly opens without the right to write. Nobody else may have the
	// store open even so.
	ReadOnly bool
	// Logf takes what an operator should know; nil drops it.
	Logf func(format string, args ...any)
	// NoSync acknowledges writes before they are on disk: for tests, and for
	// loads that start again from nothing after a crash.
	NoSync bool
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Cache == 0 {
		o.Cache = 128 << 20
	}
	if o.MemTable == 0 {
		o.MemTable = 32 << 20
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return o
}

// pidFile stands beside Pebble's LOCK and names the process that holds it.
const pidFile = "ldapd.pid"

// A Store is a folder of tables. It implements table.Store, table.Batcher and
// table.Bulker.
type Store struct {
	o     Options
	db    *pebble.DB
	popts *pebble.Options
	lock  *pebble.Lock
	made  bool // the header is written
	disk  *disk
	sync  *pebble.WriteOptions
	cat   atomic.Pointer[catalog]
	iters iterPool
	m     counters

	// writing is held by whoever reads what it then writes: it holds one
	// token. A channel, so that a waiter can give up.
	writing chan struct{}
	w       writer // under writing
	syncs   syncer
	garbage garbage

	ops     atomic.Int64 // operations under way; closedBit
	drained chan struct{}
	close   sync.Once
	bulks   atomic.Int64 // numbers the folders of loads
}

var (
	_ table.Store   = (*Store)(nil)
	_ table.Batcher = (*Store)(nil)
)

// Open opens or makes the store in a folder.
func Open(o Options) (*Store, error) {
	s := &Store{o: o.withDefaults(), writing: make(chan struct{}, 1), drained: make(chan struct{})}
	s.sync = pebble.Sync
	if s.o.NoSync {
		s.sync = pebble.NoSync
	}
	if err := s.open(); err != nil {
		return nil, s.wrap("open", err)
	}
	return s, nil
}

func (s *Store) open() (err error) {
	if s.o.Path == "" {
		return errors.New("no folder given")
	}
	s.disk = newDisk(s.o.FS, s.o.Logf)
	if err := s.acquire(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if err := s.checkHeader(); err != nil {
		return err
	}
	if err := s.sweep(); err != nil {
		return err
	}
	s.popts = s.pebbleOptions()
	if err := s.openPebble(); err != nil {
		return err
	}
	s.iters.init(s.db, &s.m)
	s.w.s = s
	if err := errors.Join(s.loadCatalog(), s.writeHeader()); err != nil {
		return errors.Join(err, s.db.Close())
	}
	s.syncs.start(s)
	return nil
}

// openPebble opens the database; a panic on a bad file is an error.
func (s *Store) openPebble() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", table.ErrCorrupt, p)
		}
	}()
	s.db, err = pebble.Open(s.o.Path, s.popts)
	s.popts.Cache.Unref()
	var newer interface{ FormatMajorVersion() uint64 }
	if err != nil && (errors.As(err, &newer) || strings.Contains(err.Error(), "unknown format major version") ||
		strings.Contains(err.Error(), "written in unsupported format")) {
		return fmt.Errorf("%w: %w", table.ErrNewer, err)
	}
	return err
}

// acquire makes the folder, takes its lock and leaves our process id there.
func (s *Store) acquire() error {
	fs := s.o.FS
	pid := fs.PathJoin(s.o.Path, pidFile)
	if _, err := fs.Stat(s.o.Path); err != nil {
		if s.o.ReadOnly || !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := fs.MkdirAll(s.o.Path, 0o700); err != nil {
			return fmt.Errorf("cannot make the folder: %w", err)
		}
		if err := syncDir(fs, fs.PathDir(s.o.Path)); err != nil {
			return err
		}
	}
	lock, err := pebble.LockDirectory(s.o.Path, fs)
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("the folder is not writable: %w", err)
	}
	if err != nil {
		return fmt.Errorf("%w%s: %w", table.ErrLocked, holder(fs, pid), err)
	}
	s.lock = lock
	if s.o.ReadOnly {
		return nil
	}
	if err := writeFile(fs, pid, strconv.Itoa(os.Getpid())+"\n"); err != nil {
		s.release()
		return fmt.Errorf("the folder is not writable: %w", err)
	}
	return nil
}

func holder(fs vfs.FS, name string) string {
	f, err := fs.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	pid := strings.TrimSpace(string(b[:n]))
	if _, err := strconv.Atoi(pid); err != nil {
		return ""
	}
	return " by process " + pid
}

func (s *Store) release() {
	if s.lock == nil {
		return
	}
	if !s.o.ReadOnly {
		s.o.FS.Remove(s.o.FS.PathJoin(s.o.Path, pidFile))
	}
	s.lock.Close()
	s.lock = nil
}

// pebbleOptions: bloom filters on every level, because each index row that a
// commit adds is looked up first and is nearly always absent.
func (s *Store) pebbleOptions() *pebble.Options {
	p := &pebble.Options{
		Cache:                       pebble.NewCache(s.o.Cache),
		Comparer:                    comparer,
		FS:                          s.disk,
		FormatMajorVersion:          pebble.FormatNewest,
		Lock:                        s.lock,
		Logger:                      (*logger)(s),
		EventListener:               s.events(),
		MemTableSize:                s.o.MemTable,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               64 << 20,
		ReadOnly:                    s.o.ReadOnly,
		MaxOpenFiles:                2000,
		// It is changed for a new one when more was noted than there are tables,
		// see Purge.
		MaxManifestFileSize: 1,
	}
	for i := range p.Levels {
		l := &p.Levels[i]
		l.BlockSize = 8 << 10
		l.IndexBlockSize = 64 << 10
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.FilterType = pebble.TableFilter
	}
	p.Experimental.EnableValueBlocks = func() bool { return true }
	p.EnsureDefaults() // loads take their options from here too
	return p
}

// String gives the folder.
func (s *Store) String() string { return s.o.Path }

const closedBit = 1 << 62

// begin counts an operation, so that Close waits for its end.
func (s *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		n := s.ops.Load()
		if n&closedBit != 0 {
			return fmt.Errorf("store %s: %w", s, table.ErrClosed)
		}
		if s.ops.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

func (s *Store) end() {
	if s.ops.Add(-1) == closedBit {
		close(s.drained)
	}
}

func (s *Store) closed() bool { return s.ops.Load()&closedBit != 0 }

// beginWrite is begin for an operation that changes something: it also takes
// the right to write.
func (s *Store) beginWrite(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	err := s.disk.writable()
	if err == nil && s.o.ReadOnly {
		err = fmt.Errorf("%w: opened read-only", table.ErrUnavailable)
	}
	if err == nil {
		select {
		case s.writing <- struct{}{}:
			return nil
		case <-ctx.Done():
			s.end()
			return ctx.Err()
		case <-s.disk.stalled():
			err = s.disk.writable()
		}
	}
	s.end()
	return s.wrap("write", err)
}

func (s *Store) endWrite() {
	<-s.writing
	s.end()
}

// Close waits for what is under way and closes the store. Scans end with
// ErrClosed at their next row.
func (s *Store) Close() error {
	var err error
	s.close.Do(func() {
		if s.ops.Add(closedBit) != closedBit {
			<-s.drained
		}
		err = s.closeAll()
	})
	return err
}

func (s *Store) closeAll() (err error) {
	defer s.release()
	defer func() {
		if p := recover(); p != nil {
			err = s.wrap("close", fmt.Errorf("%v", p))
		}
	}()
	s.disk.closing()
	s.syncs.stop()
	s.iters.drain()
	if s.disk.failed() == nil {
		return s.wrap("close", s.db.Close())
	}
	// Pebble may wait for goroutines that ended in a failure. What is on disk
	// is what counts.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }()
		_ = s.db.Close()
	}()
	select {
	case <-ended:
	case <-time.After(closePatience):
	}
	return nil
}

// closePatience bounds the wait for a Pebble that has failed.
const closePatience = 2 * time.Second
