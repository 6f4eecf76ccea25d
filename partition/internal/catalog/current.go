package catalog

import (
	"context"
	"iter"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition/internal/cache"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// The schema in force is part of what a snapshot shows: the subschema is an
// entry, its changes are commits, and commits name what they touch. So nobody is
// told of a change, and nobody can miss one: whoever takes a snapshot asks
// whether the subschema was touched since the catalog at hand was made, which
// costs as much as asking it of a cached entry, and then makes another catalog.
// Entries point into the schema that they were decoded by, so each schema has
// caches of its own: those of the schema before go with the last snapshot that
// uses them.

// refreshTimeout bounds the reading of a changed subschema.
const refreshTimeout = 10 * time.Second

// CatalogOf returns the catalog that belongs to a current state.
func (p *Keeper) CatalogOf(s *txn.Snapshot) (*Catalog, error) {
	if c := p.Catalog.Load(); s.Unchanged(SubschemaID, c.ordinal) {
		return c, nil
	}
	return p.refresh(s)
}

// refresh looks at the subschema again. It may be as it was: other things than it
// touch it too.
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
	if next.ordinal > c.ordinal { // else s is an older state than c is of
		p.Catalog.Store(next)
		p.DB.SetStep(next.since(), next.ordinal)
	}
	return next, nil
}

// since is the last commit that changed what the catalog is made of.
func (c *Catalog) since() table.Revision { return max(c.Subschema.Since, c.Header.Since) }

// at returns a copy of the catalog, or another one, with the schema and the settings
// of a state.
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

// schemaAt is at for the schema alone.
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

// withSubschema returns a catalog of the same configuration with what a subschema says. If
// that is the same schema, types and caches stay.
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

// expect has what changes entries keep to a schema to come, too.
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

// Of returns a catalog of the same configuration with the schema that a subschema
// makes, and caches of its own.
func (c *Catalog) Of(own *Subschema) (*Catalog, error) {
	s, err := own.over(c.p.Base)
	if err != nil {
		return nil, err
	}
	return c.p.newCatalog(newTypes(s), own, cache.NewCache(c.p.cacheSize), c.Header)
}

// Latest returns the newest catalog. Who changes the configuration begins with it.
func (p *Keeper) Latest() (*Catalog, error) {
	s := p.DB.Snapshot()
	defer s.Close()
	return p.CatalogOf(s)
}

// Past returns the catalog of a state of the past: with the schema of then, and
// those of the present indexes that were complete then.
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

// Unreadable answers every read with the error that keeps the schema of a state
// from being known.
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
