package lsm

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/table"
)

// Options specify where a store is and how it uses the machine. Only Path is required.
type Options struct {
	Path string
	// FS is the file system; nil is the machine's. Tests use one in memory: with
	// vfs.NewCrashableMem and its CrashClone, everything above the store can be tested
	// for losses of power.
	FS vfs.FS
	// Cache is the size in bytes of the cache of uncompressed blocks; zero means 128
	// MiB.
	Cache int64
	// MemTable is the size in bytes of the table in memory that takes writes; zero
	// means 32 MiB.
	MemTable uint64
	// ReadOnly opens the store without the right to write. Still no other process may
	// have it open.
	ReadOnly bool
	// Reserve is the space in bytes kept for a full disk, so that deletes, garbage
	// collection and the shutdown can still write; zero means none. On a small disk it
	// is less.
	Reserve int64
	// Logf receives messages for the operator; nil drops them.
	Logf func(format string, args ...any)
	// NoSync acknowledges writes before they are on disk. It is for tests, and for
	// loads that start from nothing after a crash.
	NoSync bool
	// KeepLogs keeps logs that are no longer needed, for ReadLog, until ReleaseLogs or
	// LimitLogs removes them.
	KeepLogs bool

	copied   bool                      // the folder has a copy's files and no header yet
	format   pebble.FormatMajorVersion // of a new store; zero means the newest
	patience time.Duration             // with a Pebble that cannot write; zero means closePatience
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
	if o.patience == 0 {
		o.patience = closePatience
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return o
}

// A Store is a folder of tables. It implements table.Store, table.Batcher and
// table.Bulker.
type Store struct {
	o      Options
	db     *pebble.DB
	popts  *pebble.Options
	lock   io.Closer
	made   bool                      // the header is written
	format pebble.FormatMajorVersion // when it was opened
	disk   *disk
	shut   error         // why a store not opened read-only takes no writes
	ended  chan struct{} // closed when watch has ended
	sync   *pebble.WriteOptions
	cat    atomic.Pointer[catalog]
	iters  iterPool
	m      counters

	// writing is held while reading rows and writing their new state. It is a channel
	// of one token, so that a waiter can give up.
	writing chan struct{}
	w       writer // guarded by writing
	syncs   syncer
	garbage garbage

	ops     atomic.Int64 // operations under way; closedBit
	drained chan struct{}
	close   sync.Once
	bulks   atomic.Int64 // numbers for folders of loads
	copies  atomic.Int64 // numbers for folders of copies
	kept    keptLogs
	damaged sync.Map // paths of damaged files that were logged
}

var (
	_ table.Store   = (*Store)(nil)
	_ table.Batcher = (*Store)(nil)
)

// Open opens or creates the store in a folder.
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

// pebbleOptions returns Pebble's options. It uses bloom filters on every level, because
// a commit looks up each index row that it adds, and nearly always the row is absent.
func (s *Store) pebbleOptions(readOnly bool) *pebble.Options {
	p := &pebble.Options{
		Cache:                       pebble.NewCache(s.o.Cache),
		Comparer:                    comparer,
		FS:                          s.disk,
		FormatMajorVersion:          s.format,
		Logger:                      (*logger)(s),
		EventListener:               s.events(),
		MemTableSize:                s.o.MemTable,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               64 << 20,
		ReadOnly:                    readOnly,
		MaxOpenFiles:                2000,
		// The manifest is replaced when it has more entries than there are tables, see
		// Purge.
		MaxManifestFileSize: 1,
	}
	if s.o.KeepLogs {
		p.Cleaner = pebble.ArchiveCleaner{} // moves logs aside, see disk.Rename
	}
	for i := range p.Levels {
		l := &p.Levels[i]
		l.BlockSize = 8 << 10
		l.IndexBlockSize = 64 << 10
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.FilterType = pebble.TableFilter
	}
	p.Experimental.EnableValueBlocks = func() bool { return true }
	p.EnsureDefaults() // loads use these options too
	return p
}

// String returns the folder's path.
func (s *Store) String() string { return s.o.Path }

const closedBit = 1 << 62

// begin counts an operation, so that Close waits for it.
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
		close(s.drained) // at most once: no operation begins after Close
	}
}

func (s *Store) closed() bool { return s.ops.Load()&closedBit != 0 }

// beginWrite is begin for an operation that changes something: it also takes the right
// to write. An urgent one may use the reserve of a full disk.
func (s *Store) beginWrite(ctx context.Context, urgent bool) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	err := s.acquireWrite(ctx, urgent)
	if err != nil {
		s.end()
	}
	return s.wrap("write", err)
}

// acquireWrite takes the right to write.
func (s *Store) acquireWrite(ctx context.Context, urgent bool) error {
	for {
		if err := s.writable(urgent); err != nil {
			return err
		}
		select {
		case s.writing <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-s.disk.refuses(urgent):
		}
	}
}

// Refuses implements table.Refuser.
func (s *Store) Refuses() error { return s.writable(false) }

// writable returns why the store takes no writes now, or nil.
func (s *Store) writable(urgent bool) error {
	err := s.shut
	switch {
	case s.o.ReadOnly:
		err = fmt.Errorf("%w: opened read-only", table.ErrUnavailable)
	case err == nil:
		err = s.disk.writable(urgent)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", table.ErrRefused, err)
	}
	return nil
}

func (s *Store) endWrite() {
	<-s.writing
	s.end()
}
