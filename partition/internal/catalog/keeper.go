package catalog

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/internal/cache"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// Options of a partition. The zero Options are good.
type Options struct {
	Schema *schema.Schema // nil: schema.Core()
	// Cache bounds the memory for entries and names in bytes; zero means a quarter of
	// the machine's memory.
	Cache int64
	// Create creates an empty directory in a store without one.
	Create bool
	// Indexes are the indexes of a directory that is created; nil means DefaultIndexes.
	Indexes []Index
	Txn     txn.Options
	Log     *slog.Logger
}

func (o Options) WithDefaults() Options {
	if o.Schema == nil {
		o.Schema = schema.Core()
	}
	if o.Cache == 0 {
		o.Cache = cache.DefaultCache()
	}
	if o.Indexes == nil {
		o.Indexes = DefaultIndexes()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Keeper is an open directory tree.
type Keeper struct {
	Base          *schema.Schema // the built-in schema that the subschema modifies
	cacheSize     int64
	Log           *slog.Logger
	Store         table.Store
	DB            *txn.DB
	Master        table.Table
	Tree          table.Table
	SettingsTable table.Table // nil: an older store, opened for reading
	Origin        *Header     // as written when the directory was created

	// Changing is held shared by updates, and exclusively by loads and changes of
	// schema or indexes.
	Changing   sync.RWMutex
	refreshing chan struct{} // serializes changes of catalog
	// reshaping is held by changes of what all servers share, if updates continue
	// meanwhile.
	reshaping sync.Mutex
	Ended     chan struct{}  // closed by Close
	Following sync.WaitGroup // for follow
	closing   sync.Once
	Catalog   atomic.Pointer[Catalog]
	// KeepToBoth checks the entries that a transaction changed, at its end, while a
	// schema is announced.
	KeepToBoth func(ctx context.Context, r table.Reader, at *txn.Snapshot, c *Catalog, changed []entry.ID) error
}

// Open opens the directory that a header describes.
func Open(ctx context.Context, s table.Store, o Options, h *Header) (*Keeper, error) {
	p := &Keeper{Base: o.Schema, cacheSize: o.Cache, Log: o.Log, Store: s, Origin: h, refreshing: make(chan struct{}, 1), Ended: make(chan struct{})}
	if !o.Txn.ReadOnly {
		if err := s.Create(ctx, master.Spec(), tree.Spec(), settingsSpec); err != nil {
			return nil, fmt.Errorf("making tables: %w", err)
		}
	}
	var err error
	o.Txn.Secrets = map[string][]table.Family{master.Name: {master.Secrets}}
	if p.DB, err = txn.Open(ctx, s, o.Txn); err != nil {
		return nil, err
	}
	p.Master, p.Tree = p.DB.Table(master.Name), p.DB.Table(tree.Name)
	if err := p.begin(ctx, o.Txn.ReadOnly); err != nil {
		p.DB.Close(ctx)
		return nil, err
	}
	return p, nil
}

// begin reads the schema and makes the first catalog.
func (p *Keeper) begin(ctx context.Context, readOnly bool) error {
	names, err := p.Store.Names(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(names, settingsSpec.Name) {
		p.SettingsTable = p.DB.Table(settingsSpec.Name)
	}
	at := p.DB.Snapshot()
	defer at.Close()
	h, err := p.settingsAt(ctx, at, p.Origin)
	if err != nil {
		return err
	}
	own, err := p.readSubschema(ctx, at)
	if err != nil {
		return err
	}
	s, err := own.over(p.Base)
	if err != nil {
		return err
	}
	k := newTypes(s)
	if !readOnly {
		if err := p.Store.Create(ctx, k.Specs(h)...); err != nil {
			return fmt.Errorf("making tables: %w", err)
		}
	}
	c, err := p.newCatalog(k, own, cache.NewCache(p.cacheSize), h)
	if err == nil && own.Pending != nil {
		err = c.expect(own.Pending.Own)
	}
	if err != nil {
		return err
	}
	c.ordinal = at.Ordinal()
	p.Catalog.Store(c)
	p.DB.SetStep(c.since(), c.ordinal)
	return nil
}

// Close ends background work and releases the writer's slot.
func (p *Keeper) Close(ctx context.Context) error {
	p.closing.Do(func() { close(p.Ended) })
	p.Following.Wait()
	return p.DB.Close(ctx)
}

// Schema returns the schema in force: that of the newest snapshot.
func (p *Keeper) Schema() *schema.Schema {
	c, err := p.Latest()
	if err != nil {
		c = p.Catalog.Load() // the snapshot's reads will return the reason
	}
	return c.Schema
}

// CatchUp returns when a Snapshot shows all that any server of the store had
// committed when it was called.
func (p *Keeper) CatchUp(ctx context.Context) error { return p.DB.CatchUp(ctx) }

// AtLeast returns when a Snapshot shows a commit that any server of the store has
// acknowledged.
func (p *Keeper) AtLeast(ctx context.Context, r table.Revision) error { return p.DB.AtLeast(ctx, r) }
