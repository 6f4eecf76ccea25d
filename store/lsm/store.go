package lsm

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Options specify where a store is and how it uses the machine. Only Path is required.
type Options struct {
	Path string
	// FS is the file system. If it is nil, the store uses the machine's file system.
	// Tests use a file system in memory: with vfs.NewCrashableMem and its CrashClone,
	// everything above the store can be tested for power losses.
	FS vfs.FS
	// Cache is the size in bytes of the cache of uncompressed blocks. Zero means 128 MiB.
	Cache int64
	// MemTable is the size in bytes of the table in memory that receives writes. Zero
	// means 32 MiB.
	MemTable uint64
	// ReadOnly opens the store only for reading. Even then no other process may have the
	// store open.
	ReadOnly bool
	// Reserve is the number of bytes reserved for a full disk, so that deletes, garbage
	// collection and the shutdown can still write. Zero means no reserve. On a small disk
	// the reserve is smaller.
	Reserve int64
	// Logf receives messages for the operator. If it is nil, messages are dropped.
	Logf func(format string, args ...any)
	// NoSync acknowledges writes before they are on disk. It is for tests, and for loads
	// that are started again from the beginning after a crash.
	NoSync bool
	// KeepLogs keeps logs that Pebble no longer needs, for ReadLog, until ReleaseLogs or
	// LimitLogs removes them.
	KeepLogs bool
	// Follow opens a store that follows another one (see Increment). Only increments
	// write to it.
	Follow bool

	copied bool                      // the folder contains a copy's files and no header yet
	format pebble.FormatMajorVersion // format of a new store; zero means the newest
	// patience is how long to wait for a Pebble database that cannot write; zero means
	// closePatience.
	patience time.Duration
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	o.Cache = cmp.Or(o.Cache, 128<<20)
	o.MemTable = cmp.Or(o.MemTable, 32<<20)
	o.patience = cmp.Or(o.patience, closePatience)
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return o
}

// A Store is a folder of tables. It implements table.Store, table.Batcher and
// table.Bulker.
type Store struct {
	o       Options
	folder  folder
	endings endings
	kept    keptLogs
	gate    gate
	commits committer
	reports reports
	db      *pebble.DB
	popts   *pebble.Options
	disk    *disk
	tables  tableCatalog
	iters   iterPool
	garbage garbage
	m       counters
	// shut is the reason why a store that was not opened read-only accepts no writes.
	shut   error
	ended  chan struct{} // closed when watch has returned
	sync   *pebble.WriteOptions
	close  sync.Once
	bulks  atomic.Int64 // counter for the folder names of loads
	copies atomic.Int64 // counter for the folder names of copies
}

var (
	_ table.Store   = (*Store)(nil)
	_ table.Batcher = (*Store)(nil)
)

// Open opens or creates the store in a folder.
func Open(o Options) (*Store, error) {
	s := &Store{o: o.withDefaults()}
	s.folder.o, s.kept.o, s.endings.folder = &s.o, &s.o, &s.folder
	s.gate = gate{s: s, writing: make(chan struct{}, 1), drained: make(chan struct{})}
	s.commits.s, s.commits.w.s, s.reports.s = s, s, s
	s.sync = pebble.Sync
	if s.o.NoSync {
		s.sync = pebble.NoSync
	}
	if err := s.open(); err != nil {
		return nil, s.wrap("open", err)
	}
	return s, nil
}

// pebbleOptions returns Pebble's options. The options use bloom filters on every level. A
// commit looks up each index row that it adds, and nearly always the row does not exist.
func (s *Store) pebbleOptions(readOnly bool) *pebble.Options {
	p := &pebble.Options{
		Cache:                       pebble.NewCache(s.o.Cache),
		Comparer:                    comparer,
		FS:                          s.disk,
		FormatMajorVersion:          s.folder.format,
		Logger:                      (*logger)(s),
		EventListener:               s.reports.events(),
		MemTableSize:                s.o.MemTable,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               64 << 20,
		ReadOnly:                    readOnly,
		MaxOpenFiles:                2000,
		// With this size Pebble replaces the manifest as soon as the manifest has more
		// entries than there are tables; see Purge.
		MaxManifestFileSize: 1,
	}
	if s.o.KeepLogs {
		p.Cleaner = pebble.ArchiveCleaner{} // moves obsolete logs aside, see disk.Rename
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
