// Package partition is a directory tree in a table store: entries by id
// (package master), names (package tree), indexes and search plans, changed in
// transactions and readable at any revision. It is the seed's partition (seed
// 001) made transactional, and a library of its own: no server is needed.
//
// A [Partition] is an open store. [Partition.Snapshot] reads the newest state,
// [Partition.At] a past one, and [Partition.Update] changes it. Nothing here
// knows LDAP result codes: what can go wrong is an [Error] with a [Problem].
package partition

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// Options of a partition; the zero Options are good.
type Options struct {
	Schema *schema.Schema // nil: schema.Core()
	// Cache bounds in bytes what is kept of entries and names; zero is a
	// quarter of the machine's memory.
	Cache int64
	// Create makes a store that holds no directory yet into an empty one.
	Create bool
	// Indexes are those of a directory that is created; nil: DefaultIndexes.
	Indexes []Index
	Txn     txn.Options
	Log     *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Schema == nil {
		o.Schema = schema.Core()
	}
	if o.Cache == 0 {
		o.Cache = DefaultCache()
	}
	if o.Indexes == nil {
		o.Indexes = DefaultIndexes()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Partition is an open directory tree.
type Partition struct {
	base      *schema.Schema // that the subschema adds to and takes from
	cacheSize int64
	log       *slog.Logger
	store     table.Store
	db        *txn.DB
	master    *txn.Table
	tree      *txn.Table
	config    *txn.Table // nil: an older store, opened for reading
	origin    *header    // as the directory was made

	// changing is held shared by updates, and alone by what changes the schema
	// or the indexes or loads past the usual path.
	changing sync.RWMutex
	turning  chan struct{} // of catalog's changes: one at a time
	// reshaping is held by what changes, beside updates, what all servers share.
	reshaping sync.Mutex
	ended     chan struct{}  // closed by Close
	following sync.WaitGroup // for follow
	closing   sync.Once
	catalog   atomic.Pointer[catalog]
}

// Open opens the directory in a store. The partition does not own the store.
func Open(ctx context.Context, s table.Store, o Options) (*Partition, error) {
	o = o.withDefaults()
	header, err := openHeader(ctx, s, o)
	if err != nil {
		return nil, err
	}
	return open(ctx, s, o, header)
}

// open opens the directory that a header describes.
func open(ctx context.Context, s table.Store, o Options, h *header) (*Partition, error) {
	p := &Partition{base: o.Schema, cacheSize: o.Cache, log: o.Log, store: s, origin: h, turning: make(chan struct{}, 1), ended: make(chan struct{})}
	if !o.Txn.ReadOnly {
		if err := s.Create(ctx, master.Spec(), tree.Spec(), settingsSpec); err != nil {
			return nil, fmt.Errorf("making tables: %w", err)
		}
	}
	var err error
	o.Txn.Secrets = map[string][]table.Family{master.Name: {master.Secrets}}
	if p.db, err = txn.Open(ctx, s, o.Txn); err != nil {
		return nil, err
	}
	p.master, p.tree = p.db.Table(master.Name), p.db.Table(tree.Name)
	if err := p.begin(ctx, o.Txn.ReadOnly); err != nil {
		p.db.Close(ctx)
		return nil, err
	}
	if p.db.Shared() && !o.Txn.ReadOnly {
		p.following.Go(p.follow)
	}
	return p, nil
}

// begin reads the schema and makes the first catalog.
func (p *Partition) begin(ctx context.Context, readOnly bool) error {
	names, err := p.store.Names(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(names, settingsSpec.Name) {
		p.config = p.db.Table(settingsSpec.Name)
	}
	at := p.db.Snapshot()
	defer at.Close()
	h, err := p.settingsAt(ctx, at, p.origin)
	if err != nil {
		return err
	}
	own, err := p.readSubschema(ctx, at)
	if err != nil {
		return err
	}
	s, err := own.over(p.base)
	if err != nil {
		return err
	}
	k := newTypes(s)
	if !readOnly {
		if err := p.store.Create(ctx, k.specs(h)...); err != nil {
			return fmt.Errorf("making tables: %w", err)
		}
	}
	c, err := p.newCatalog(k, own, newCache(p.cacheSize), h)
	if err == nil && own.pending != nil {
		err = c.expect(own.pending.own)
	}
	if err != nil {
		return err
	}
	c.ordinal = at.Ordinal()
	p.catalog.Store(c)
	p.db.SetStep(c.since(), c.ordinal)
	return nil
}

// Close ends background work and gives the writer's slot back.
func (p *Partition) Close(ctx context.Context) error {
	p.closing.Do(func() { close(p.ended) })
	p.following.Wait()
	return p.db.Close(ctx)
}

// Schema gives the schema in force: that of the newest snapshot.
func (p *Partition) Schema() *schema.Schema {
	c, err := p.latest()
	if err != nil {
		c = p.catalog.Load() // the snapshot will say why it cannot be had
	}
	return c.schema
}

// DB gives the transactions below, for those who watch them.
func (p *Partition) DB() *txn.DB { return p.db }

// Snapshot gives the newest state; Close it.
func (p *Partition) Snapshot() *Snapshot {
	s := p.db.Snapshot()
	c, err := p.catalogOf(s)
	if err != nil {
		err = fmt.Errorf("the schema in force: %w", err)
		return &Snapshot{p: p, r: unreadable{err}, at: s, catalog: p.catalog.Load()}
	}
	return &Snapshot{p: p, r: s, at: s, catalog: c.asOf(s.Max()), cached: true}
}

// CatchUp returns when a Snapshot shows all that any server of the store had
// committed when it was called.
func (p *Partition) CatchUp(ctx context.Context) error { return p.db.CatchUp(ctx) }

// AtLeast returns when a Snapshot shows a commit that any server of the store has
// acknowledged.
func (p *Partition) AtLeast(ctx context.Context, r table.Revision) error { return p.db.AtLeast(ctx, r) }

// At gives the state at a past revision; Close it.
func (p *Partition) At(ctx context.Context, r table.Revision) (*Snapshot, error) {
	s, err := p.db.At(ctx, r)
	if err != nil {
		return nil, err
	}
	return p.at(ctx, s)
}

// at reads a state of the past, perhaps of a moment ago.
func (p *Partition) at(ctx context.Context, s *txn.Snapshot) (*Snapshot, error) {
	c, err := p.past(ctx, s)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("the schema of then: %w", err)
	}
	return &Snapshot{p: p, r: s, at: s, catalog: c}, nil
}

// By says who changes the directory, for creatorsName and the journal.
type By struct {
	Name    string    // the requester's DN
	Bound   string    // who bound, if others may be assumed and another was
	From    string    // the client's address
	Request string    // what the access log calls the request
	Session string    // on whose behalf the client says that it asks
	Time    time.Time // zero: now
}

// Snapshot reads one state of the directory.
type Snapshot struct {
	p       *Partition
	r       txn.Reader
	at      *txn.Snapshot
	catalog *catalog
	cached  bool // what is read may come from caches and go there
}

// Close lets go of the state.
func (s *Snapshot) Close() { s.at.Close() }

// Revision is the newest that the snapshot shows.
func (s *Snapshot) Revision() table.Revision { return s.at.Max() }

// Schema is the schema of the state. Filters to search it by and types to look
// for in its entries are this schema's: those of another one match nothing.
func (s *Snapshot) Schema() *schema.Schema { return s.catalog.schema }
