package catalog

import (
	"cmp"
	"context"
	"crypto/cipher"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// Options are the options of a partition. The zero Options work.
type Options struct {
	Schema *schema.Schema // nil: schema.Core()
	// Cache is the size of the cache (package cache), in bytes. Zero means a quarter of
	// the machine's memory.
	Cache int64
	// Create creates an empty directory if the store contains none.
	Create bool
	// Format is the format of a directory that is created. Zero means the newest.
	Format int
	// Indexes are the indexes of a directory that is created. Nil means DefaultIndexes.
	Indexes []Index
	// References are the attributes of a directory that is created whose values follow the
	// entries that they name. They need indexes.
	References []Reference
	// Access are the access rules of a directory that is created. Nil means that the
	// directory has no access rules.
	Access []AccessRule
	// Policy is the default password policy of a directory that is created, or nil.
	Policy []PolicyAttribute
	// Moved opens a directory for writing although it was copied to another store (Settings.MovedTo). Otherwise Open
	// returns ErrMoved.
	Moved bool
	Txn   txn.Options
	Log   *slog.Logger
}

func (o Options) WithDefaults() Options {
	if o.Schema == nil {
		o.Schema = schema.Core()
	}
	if o.Format == 0 {
		o.Format = format
	}
	if o.Cache == 0 {
		o.Cache = cache.DefaultCache()
	}
	if o.Indexes == nil {
		o.Indexes = DefaultIndexes()
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// DerivedTables is the prefix of the names of the tables that contain the records of views.
// Package view writes these tables itself. The writes follow the commits and are not a part of
// the commits.
const DerivedTables = "view_"

// A Partition is an open directory tree.
type Partition struct {
	Base          *schema.Schema // the built-in schema that the subschema modifies, with the codes of the store
	cacheSize     int64
	Log           *slog.Logger
	Store         table.Store
	DB            *txn.DB
	Master        table.Table
	Tree          table.Table
	SettingsTable table.Table // nil: an older store without this table, opened read-only
	Origin        *Header     // the header in the table "directory", with the first settings

	// Changing is read-locked by updates and by changes of the naming contexts, and locked by
	// loads. Other changes of the shared configuration lock it on a store of one server, and
	// read-lock it on a shared store.
	Changing   sync.RWMutex
	refreshing chan struct{} // serializes changes of Catalog
	// reshaping is locked on a shared store from Reshape until the end of the change.
	reshaping sync.Mutex
	Ended     chan struct{}  // closed by Close
	Following sync.WaitGroup // counts the goroutines that follow commits
	closing   sync.Once
	Catalog   atomic.Pointer[Catalog]
	// Deriving is locked while views are brought up to date.
	Deriving sync.Mutex
	// HasViews is set when package view has found its table "views" in the store. Nobody
	// drops this table while a server uses the store.
	HasViews atomic.Bool
	// Subordinates returns how many entries are below each of some entries in a state, if that is
	// known without counting them. If exact is not set, the call is faster, but the
	// numbers may be those of another state. Package view sets the field Subordinates.
	Subordinates func(ctx context.Context, at *txn.Snapshot, c *Catalog, ids []entry.ID, exact bool) (ns []Count, known bool, err error)
	// Views records up to which revision package view keeps the views.
	Views Progress
	// Sealer is the key that seals the secrets of deleted entries, once it was needed.
	Sealer atomic.Pointer[cipher.AEAD]
	// Recent is used only on an embedded store, while there are views.
	Recent cache.RecentWrites
	// WantsSubordinates is set when Subordinates was asked for numbers that were not known, or
	// when package view finds that it has kept such numbers before. From then on package view
	// keeps these numbers.
	WantsSubordinates atomic.Bool
	// Ahead is what package search knows about stamps in the future, or nil. While SeekingAhead is
	// set, package search finds it out.
	Ahead        atomic.Pointer[Ahead]
	SeekingAhead atomic.Bool
	// KeepToBoth checks that the entries that a transaction changed also conform to an
	// announced schema. It is called at the end of a transaction while a schema is
	// announced.
	KeepToBoth func(ctx context.Context, r table.Reader, at *txn.Snapshot, c *Catalog, changed []entry.ID) error
}

// Ahead lists the entries whose modifyTimestamp or createTimestamp is in the future of the commit
// that wrote it. Imports and copies of other servers write such stamps.
type Ahead struct {
	// UpTo is the revision up to which all commits are considered.
	UpTo table.Revision
	// Latest contains, for each entry, a time that is not before its latest stamp.
	Latest map[entry.ID]time.Time
	// Entries is about how many entries the directory has.
	Entries int
}

// A Count contains the number of an entry's children and the number of all entries below it.
type Count struct{ Children, All int64 }

// Open opens the directory that a header describes.
func Open(ctx context.Context, s table.Store, o Options, h *Header) (*Partition, error) {
	p := &Partition{Base: o.Schema.WithCodes(h.Codes), cacheSize: o.Cache, Log: o.Log, Store: s, Origin: h, refreshing: make(chan struct{}, 1), Ended: make(chan struct{})}
	if !o.Txn.ReadOnly {
		if err := s.Create(ctx, master.Spec(), tree.Spec(), settingsSpec); err != nil {
			return nil, fmt.Errorf("making tables: %w", err)
		}
	}
	var err error
	o.Txn.Secrets = map[string][]table.Family{master.Name: {master.Secrets}}
	o.Txn.Derived = func(name string) bool { return strings.HasPrefix(name, DerivedTables) }
	if p.DB, err = txn.Open(ctx, s, o.Txn); err != nil {
		return nil, err
	}
	p.Master, p.Tree = p.DB.Table(master.Name), p.DB.Table(tree.Name)
	if err := p.begin(ctx, o.Txn.ReadOnly); err != nil {
		p.DB.Close(ctx)
		return nil, err
	}
	if err := p.Catalog.Load().Header.Writable(); err != nil && !o.Txn.ReadOnly && !o.Moved {
		p.DB.Close(ctx)
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return p, nil
}

// begin reads the schema and the settings and makes the first catalog.
func (p *Partition) begin(ctx context.Context, readOnly bool) error {
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

// Close ends background work and releases this server's slot.
func (p *Partition) Close(ctx context.Context) error {
	p.closing.Do(func() { close(p.Ended) })
	p.Following.Wait()
	return p.DB.Close(ctx)
}

// Schema returns the schema in force, which is the schema of the newest snapshot.
func (p *Partition) Schema() *schema.Schema {
	c, err := p.Latest()
	if err != nil {
		c = p.Catalog.Load() // the next read of a snapshot returns the error
	}
	return c.Schema
}

// CatchUp waits until a new Snapshot shows every commit that any server of the store had
// committed when CatchUp was called.
func (p *Partition) CatchUp(ctx context.Context) error { return p.DB.CatchUp(ctx) }

// AtLeast waits until a new Snapshot shows the commit r. Any server of the store may have
// made this commit.
func (p *Partition) AtLeast(ctx context.Context, r table.Revision) error { return p.DB.AtLeast(ctx, r) }

// Formats returns the present format of the store's files and the newest format that this
// program supports. It returns zeros if the store has no formats.
func (p *Partition) Formats() (now, newest int) {
	if u, ok := p.Store.(table.Upgrader); ok {
		return u.Formats()
	}
	return 0, 0
}

// RowFormats returns the format of the store's rows and the newest format that this program supports.
func (p *Partition) RowFormats() (now, newest int) { return p.Origin.Format, format }

// Upgrade raises the format of the store's files to the newest format.
func (p *Partition) Upgrade(ctx context.Context) error {
	if u, ok := p.Store.(table.Upgrader); ok {
		return u.Upgrade(ctx)
	}
	return nil
}
