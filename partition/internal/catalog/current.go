package catalog

import (
	"context"
	"iter"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition/internal/cache"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// The schema in force is part of what a snapshot shows: the subschema is an entry, its
// changes are commits, and commits name what they touch. So changes need not be
// announced to anybody, and nobody can miss one. For each snapshot the partition checks
// whether the subschema was touched since its catalog was made, which costs as much as
// for a cached entry. If so, it makes a new catalog. Entries refer to the schema that
// they were decoded with, so each schema has caches of its own. Old caches go with the
// last snapshot that uses them.

// refreshTimeout bounds the reading of a changed subschema.
const refreshTimeout = 10 * time.Second

// CatalogOf returns the catalog that belongs to a current state.
func (p *Keeper) CatalogOf(s *txn.Snapshot) (*Catalog, error) {
	if c := p.Catalog.Load(); s.Unchanged(SubschemaID, c.ordinal) {
		return c, nil
	}
	return p.refresh(s)
}

// refresh reads the subschema again. It may be unchanged, since other things touch its
// id too.
func (p *Keeper) refresh(s *txn.Snapshot) (*Catalog, error) {
	p.refreshing <- struct{}{}
	defer func() { <-p.refreshing }()
	c := p.Catalog.Load()
	if s.Unchanged(SubschemaID, c.ordinal) {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
	defer cancel()
	next, err := c.at(ctx, s)
	if err != nil {
		return nil, err
	}
	next.ordinal = s.Ordinal()
	if next.ordinal > c.ordinal { // otherwise s is older than c
		p.Catalog.Store(next)
		p.DB.SetStep(next.since(), next.ordinal)
	}
	return next, nil
}

// since returns the last commit that changed what the catalog is made of.
func (c *Catalog) since() table.Revision { return max(c.Subschema.Since, c.Header.Since) }

// at returns the catalog, or a new one, for the schema and settings of a state. The
// result is a copy.
func (c *Catalog) at(ctx context.Context, s *txn.Snapshot) (*Catalog, error) {
	next, err := c.schemaAt(ctx, s)
	if err != nil {
		return nil, err
	}
	h, err := c.p.settingsAt(ctx, s, c.Header)
	if err != nil || h.Since == c.Header.Since {
		return next, err
	}
	return next.With(h)
}

// schemaAt is at for the schema only.
func (c *Catalog) schemaAt(ctx context.Context, s *txn.Snapshot) (*Catalog, error) {
	since, err := c.p.subschemaSince(ctx, s)
	if err != nil {
		return nil, err
	}
	if since == c.Subschema.Since {
		same := *c
		return &same, nil
	}
	own, err := c.p.readSubschema(ctx, s)
	if err != nil {
		return nil, err
	}
	return c.withSubschema(own)
}

// withSubschema returns a catalog of the same configuration for a subschema. If the
// schema is the same, it keeps types and caches.
func (c *Catalog) withSubschema(own *Subschema) (next *Catalog, err error) {
	if own.SameAs(c.Subschema) {
		same := *c
		next = &same
		next.Subschema, next.ToCome = own, nil
	} else if next, err = c.Of(own); err != nil {
		return nil, err
	}
	if own.Pending != nil {
		err = next.expect(own.Pending.Own)
	}
	return next, err
}

// expect makes changes of entries conform to an announced schema too.
func (c *Catalog) expect(own *Subschema) error {
	s, err := own.over(c.p.Base)
	if err != nil {
		return err
	}
	if concern := NewConcern(c.Types, newTypes(s)); !concern.Empty() {
		c.ToCome = concern
	}
	return nil
}

// Of returns a catalog of the same configuration for the schema of a subschema, with
// caches of its own.
func (c *Catalog) Of(own *Subschema) (*Catalog, error) {
	s, err := own.over(c.p.Base)
	if err != nil {
		return nil, err
	}
	return c.p.newCatalog(newTypes(s), own, cache.NewCache(c.p.cacheSize), c.Header)
}

// Latest returns the newest catalog, from which a change of the configuration starts.
func (p *Keeper) Latest() (*Catalog, error) {
	s := p.DB.Snapshot()
	defer s.Close()
	return p.CatalogOf(s)
}

// Past returns the catalog of a state of the past: with its schema, and with those
// present indexes that were complete then.
func (p *Keeper) Past(ctx context.Context, s *txn.Snapshot) (*Catalog, error) {
	c, err := p.Latest()
	if err == nil && s.Max() < c.Subschema.Since {
		c, err = c.schemaAt(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	return c.AsOf(s.Low()), nil
}

// Unreadable is a Reader whose reads all return the error that occurred when the schema
// of a state was read.
type Unreadable struct{ Err error }

func (u Unreadable) Get(context.Context, table.Table, []byte, table.Select) (table.Row, error) {
	return table.Row{}, u.Err
}

func (u Unreadable) GetMany(context.Context, table.Table, [][]byte, table.Select) ([]table.Row, error) {
	return nil, u.Err
}

func (u Unreadable) Scan(context.Context, table.Table, table.Range, table.Select) iter.Seq2[table.Row, error] {
	return func(yield func(table.Row, error) bool) { yield(table.Row{}, u.Err) }
}
