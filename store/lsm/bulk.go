package lsm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	defaultBulkMemory = 256 << 20
	tableSize         = 64 << 20 // size of a sorted table that a load writes
	bulkPrefix        = "bulk-"  // prefix of the names of folders of loads
)

// A bulk is a load. It gathers cells in memory, in a shard for each group of each table.
// When the shards grow too large, it writes them to a sorted run. Finish merges the runs
// into sorted tables, which Pebble ingests in one step.
type bulk struct {
	s     *Store
	r     table.Revision
	o     table.BulkOptions
	dir   string
	size  atomic.Int64 // bytes in the shards
	total atomic.Int64 // number of records added
	done  atomic.Int64 // number of records that Finish has written

	// Add holds mu for reading, and a method that empties the shards holds it for
	// writing.
	mu     sync.RWMutex
	ended  bool
	shards map[shardKey]*shard
	runs   []*run

	shardMu  sync.Mutex
	progress sync.Mutex
	over     overwritten
}

type shardKey struct {
	id    uint16
	group table.Family
}

var _ table.Bulker = (*Store)(nil)

// Bulk implements table.Bulker. While Finish runs, commits wait.
func (s *Store) Bulk(ctx context.Context, r table.Revision, o table.BulkOptions) (table.Bulk, error) {
	if err := s.gate.begin(ctx); err != nil {
		return nil, err
	}
	defer s.gate.end()
	if r == 0 || r > maxRevision {
		return nil, s.wrap("load", errRevision)
	}
	if s.o.ReadOnly || s.o.Follow {
		return nil, s.wrap("load", s.gate.writable(false))
	}
	if o.Memory == 0 {
		o.Memory = defaultBulkMemory
	}
	dir := s.o.FS.PathJoin(s.o.Path, bulkPrefix+strconv.FormatInt(s.bulks.Add(1), 10))
	if err := s.o.FS.MkdirAll(dir, 0o700); err != nil {
		return nil, s.wrap("load", err)
	}
	return &bulk{s: s, r: r, o: o, dir: dir, shards: map[shardKey]*shard{}}, nil
}

var errEnded = errors.New("the load has ended")

// Add implements table.Bulk.
func (b *bulk) Add(name string, ms ...table.Mutation) error {
	if err := b.add(name, ms); err != nil {
		return b.s.wrap("load into "+name, err)
	}
	if b.size.Load() < b.o.Memory {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.size.Load() < b.o.Memory {
		return nil
	}
	return b.s.wrap("load into "+name, b.spill())
}

func (b *bulk) add(name string, ms []table.Mutation) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.ended {
		return errEnded
	}
	t, err := b.s.tables.table(name)
	if err != nil {
		return err
	}
	return b.addTo(t, ms)
}

// addLast adds what Finish's function last returned. The caller holds mu.
func (b *bulk) addLast(ws []table.Write) error {
	for _, w := range ws {
		t, err := b.s.tables.table(w.Table)
		if err == nil && !t.spec.Unversioned {
			err = fmt.Errorf("table %q is versioned: add its rows before", w.Table)
		}
		if err == nil {
			err = b.addTo(t, w.Mutations)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bulk) addTo(t *tableInfo, ms []table.Mutation) error {
	a := adders.Get().(*adder)
	defer adders.Put(a)
	for i := range ms {
		if err := a.add(b, t, &ms[i]); err != nil {
			return err
		}
	}
	return nil
}

// An adder is the scratch memory of one call of Add.
type adder struct {
	key   []byte
	cells []table.Cell
	buf   []byte
}

var adders = sync.Pool{New: func() any { return new(adder) }}

func (a *adder) add(b *bulk, t *tableInfo, m *table.Mutation) error {
	if err := checkCells(t, m.Cells); err != nil {
		return err
	}
	for _, g := range t.groups {
		a.cells = a.cells[:0]
		for i := range m.Cells {
			c := &m.Cells[i]
			if t.byFamily[c.Family] != g {
				continue
			}
			if t.spec.Unversioned && len(c.Value) == 0 && !c.Tombstone {
				return errEmpty
			}
			a.cells = append(a.cells, *c)
		}
		if len(a.cells) == 0 && !m.DeleteRow {
			continue
		}
		a.key = appendImage(a.key[:0], t.id, g.name, m.Row)
		a.put(b, b.shard(t, g), m.DeleteRow)
		clear(a.cells) // clears only the used part: the capacity may be a million cells
	}
	return nil
}

// put stores the adder's cells as one record or as several records.
func (a *adder) put(b *bulk, s *shard, del bool) {
	n := len(a.key)
	if del {
		b.put(s, record{key: a.key, prefix: n})
	}
	for cells := table.LastOfEach(a.cells); len(cells) > 0; {
		a.key = append(append(a.key[:n], byte(cells[0].Family)), cells[0].Qualifier...)
		a.buf = a.buf[:0]
		for len(cells) > 0 && len(a.buf) < maxRecord {
			c := &cells[0]
			if c.Tombstone {
				c.Value = nil
			}
			a.buf = appendRecordCell(a.buf, c)
			cells = cells[1:]
		}
		b.put(s, record{key: a.key, prefix: n, cells: a.buf})
	}
}

func (b *bulk) put(s *shard, r record) {
	b.size.Add(s.add(r))
	b.total.Add(1)
}

func (b *bulk) shard(t *tableInfo, g *group) *shard {
	b.shardMu.Lock()
	defer b.shardMu.Unlock()
	k := shardKey{t.id, g.name}
	s := b.shards[k]
	if s == nil {
		s = &shard{t: t, g: g}
		b.shards[k] = s
	}
	return s
}

// inOrder returns the shards sorted by table and group.
func (b *bulk) inOrder() []*shard {
	return slices.SortedFunc(maps.Values(b.shards), func(x, y *shard) int {
		if x.t.id != y.t.id {
			return int(x.t.id) - int(y.t.id)
		}
		return int(x.g.name) - int(y.g.name)
	})
}

// spill writes the shards to a new run and empties them. The caller holds mu.
func (b *bulk) spill() error {
	shards := b.inOrder()
	each(shards, func(s *shard) error { s.sort(); return nil })
	name := b.s.o.FS.PathJoin(b.dir, fmt.Sprintf("run-%d", len(b.runs)))
	r, err := writeRun(b.s.o.FS, name, shards)
	if err != nil {
		return err
	}
	b.runs = append(b.runs, r)
	b.size.Store(0)
	return nil
}

// The function "each" calls the function work for every shard, large shards first. It uses one
// goroutine for each processor. A goroutine stops after its first error. The result is the
// joined errors of all goroutines.
func each(shards []*shard, work func(*shard) error) error {
	order := slices.Clone(shards)
	slices.SortStableFunc(order, func(a, b *shard) int { return len(b.refs) - len(a.refs) })
	queue := make(chan *shard, len(order))
	for _, s := range order {
		queue <- s
	}
	close(queue)
	var wg sync.WaitGroup
	errs := make([]error, runtime.GOMAXPROCS(0))
	for i := range errs {
		wg.Go(func() {
			for s := range queue {
				if errs[i] = work(s); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Abort implements table.Bulk.
func (b *bulk) Abort() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return nil
	}
	return b.s.wrap("abort a load", b.end())
}

// end closes and removes the files of the load. The caller holds mu.
func (b *bulk) end() error {
	b.ended = true
	var err error
	for _, r := range b.runs {
		err = errors.Join(err, r.file.Close())
	}
	b.runs, b.shards = nil, nil
	return errors.Join(err, b.s.o.FS.RemoveAll(b.dir))
}

// Finish implements table.Bulk.
func (b *bulk) Finish(ctx context.Context, last func(table.Overwritten) []table.Write) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return b.s.wrap("finish a load", errEnded)
	}
	if err := b.s.gate.beginWrite(ctx, false); err != nil {
		return err
	}
	defer b.s.gate.endWrite()
	err := b.finish(ctx, last)
	if e := b.end(); err == nil {
		err = e
	}
	return b.s.wrap("finish a load", err)
}

func (b *bulk) finish(ctx context.Context, last func(table.Overwritten) []table.Write) (err error) {
	defer b.s.caught(&err)
	paths, err := b.writeShards(ctx, false)
	if err != nil {
		return err
	}
	if last != nil {
		if err := b.addLast(last(b.over.sorted())); err != nil {
			return err
		}
	}
	more, err := b.writeShards(ctx, true)
	if paths = append(paths, more...); err != nil || len(paths) == 0 {
		return err
	}
	// Sync the log before and after Ingest. The first sync ensures that the load is not
	// kept if earlier writes in the log are lost. The second sync is needed because the
	// load itself may be only in the unsynced log when Ingest returns.
	db := b.s.db
	if err := db.LogData(nil, b.s.sync); err != nil {
		return err
	}
	if err := db.Ingest(ctx, paths); err != nil {
		return err
	}
	b.s.iters.changed(b.r)
	b.s.iters.swapped()
	// This write also lets ReadLog notice that the log does not contain the load, even if
	// nothing else is written after the load.
	return db.Set(purgeKey, []byte{1}, b.s.sync)
}

// writeShards writes the shards of the versioned or the unversioned tables into sorted tables,
// and returns the paths of these.
func (b *bulk) writeShards(ctx context.Context, unversioned bool) (paths []string, err error) {
	shards := slices.DeleteFunc(b.inOrder(), func(s *shard) bool { return s.t.spec.Unversioned != unversioned })
	var mu sync.Mutex
	err = each(shards, func(s *shard) error {
		if (*b.s.tables.now.Load())[s.t.spec.Name] != s.t {
			return fmt.Errorf("table %q was dropped", s.t.spec.Name)
		}
		s.sort()
		p, err := b.writeShard(ctx, s)
		s.reset()
		mu.Lock()
		defer mu.Unlock()
		paths = append(paths, p...)
		return err
	})
	return paths, err
}

// writeShard merges a shard's records into sorted tables and returns the paths of these
// tables.
func (b *bulk) writeShard(ctx context.Context, s *shard) (paths []string, err error) {
	var sources []source
	for _, r := range b.runs {
		if r.sections[s].n > 0 {
			sources = append(sources, r.source(s))
		}
	}
	m, err := newMerger(append(sources, &memSource{s: s}))
	if err != nil {
		return nil, err
	}
	it, err := b.s.iters.group(s.t, s.g)
	if err != nil {
		return nil, err
	}
	out := &tables{s: b.s, name: b.s.o.FS.PathJoin(b.dir, fmt.Sprintf("%d-%c-", s.t.id, s.g.name))}
	x := &loader{b: b, s: s, m: m, w: writer{s: b.s, rev: b.r, out: out, it: it}, out: out}
	err = x.run(ctx)
	if it != nil {
		b.s.iters.put(it)
	}
	b.s.m.written.Add(x.w.n)
	return out.paths, errors.Join(err, out.finish())
}

// report adds n to the records written and passes the progress of Finish to the caller's
// function.
func (b *bulk) report(n int64) {
	done := b.done.Add(n)
	if b.o.Progress == nil {
		return
	}
	b.progress.Lock()
	defer b.progress.Unlock()
	b.o.Progress(float64(done), float64(b.total.Load()))
}

// The type tables writes keys in ascending order into as many sorted tables as necessary.
type tables struct {
	s     *Store
	name  string
	w     *sstable.Writer
	n     int
	paths []string
}

func (x *tables) writer() (*sstable.Writer, error) {
	if x.w != nil && x.n&0xff == 0 && x.w.Raw().EstimatedSize() >= tableSize {
		if err := x.finish(); err != nil {
			return nil, err
		}
	}
	x.n++
	if x.w != nil {
		return x.w, nil
	}
	path := x.name + strconv.Itoa(len(x.paths)) + ".sst"
	f, err := x.s.o.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	o := x.s.popts.MakeWriterOptions(len(x.s.popts.Levels)-1, x.s.db.TableFormat())
	x.w = sstable.NewWriter(objstorageprovider.NewFileWritable(f), o)
	x.paths = append(x.paths, path)
	return x.w, nil
}

// Set implements sink.
func (x *tables) Set(key, value []byte, _ *pebble.WriteOptions) error {
	w, err := x.writer()
	if err != nil {
		return err
	}
	return w.Set(key, value)
}

// Delete implements sink.
func (x *tables) Delete(key []byte, _ *pebble.WriteOptions) error {
	w, err := x.writer()
	if err != nil {
		return err
	}
	return w.Delete(key)
}

// finish completes and syncs the sorted table that is being written.
func (x *tables) finish() error {
	if x.w == nil {
		return nil
	}
	w := x.w
	x.w = nil
	return w.Close()
}
