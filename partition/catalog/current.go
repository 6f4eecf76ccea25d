package catalog

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// The schema in force is part of the state that a snapshot shows. The subschema is an
// entry, its changes are commits, and every commit lists the ids that it touches. So the
// servers need not tell each other about a change of the schema, and no server can miss a
// change. For each snapshot the partition checks whether a commit has touched the
// subschema since the catalog was made. This check costs as much as the check of a cached
// entry. If the subschema was touched, the partition makes a new catalog. Entries refer
// to the schema with which they were decoded, so each schema has its own caches. Old
// caches are freed with the last snapshot that uses them.

// refreshTimeout bounds the time for reading a changed subschema.
const refreshTimeout = 10 * time.Second

var errSlowRefresh = fmt.Errorf("%w: the schema could not be read again within %v", table.ErrUnavailable, refreshTimeout)

// CatalogOf returns the catalog of a current state.
func (p *Partition) CatalogOf(s *txn.Snapshot) (*Catalog, error) {
	if c := p.Catalog.Load(); s.Unchanged(SubschemaID, c.ordinal) {
		return c, nil
	}
	return p.refresh(s)
}

// refresh reads the schema and the settings again. The schema may be unchanged, because
// commits that change the settings touch the id of the subschema too.
func (p *Partition) refresh(s *txn.Snapshot) (*Catalog, error) {
	p.refreshing <- struct{}{}
	defer func() { <-p.refreshing }()
	c := p.Catalog.Load()
	if s.Unchanged(SubschemaID, c.ordinal) {
		return c, nil
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), refreshTimeout, errSlowRefresh)
	defer cancel()
	next, err := c.at(ctx, s)
	if err != nil {
		return nil, err
	}
	next.ordinal = s.Ordinal()
	if next.ordinal > c.ordinal { // otherwise c is from a newer state than s
		p.Catalog.Store(next)
		p.DB.Refuse(next.Header.Writable())
		p.DB.SetStep(next.since(), next.ordinal)
	}
	return next, nil
}

// The method "since" returns the last commit that changed the subschema or the settings of the
// catalog.
func (c *Catalog) since() table.Revision { return max(c.Subschema.Since, c.Header.Since) }

// The method "at" returns a catalog for the schema and the settings of a state. The result is a
// copy of c if c already has this schema and these settings, and a new catalog otherwise.
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

// schemaAt is like at, but reads only the schema.
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

// withSubschema returns a catalog that has the same configuration, but the given subschema. If
// the schema is the same, the new catalog has the same types and caches.
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

// expect makes the catalog require that changes of entries also conform to an announced
// schema.
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

// Of returns a catalog that has the same configuration, but the schema of the given subschema.
// The new catalog has its own caches.
func (c *Catalog) Of(own *Subschema) (*Catalog, error) {
	s, err := own.over(c.p.Base)
	if err != nil {
		return nil, err
	}
	return c.p.newCatalog(newTypes(s), own, cache.NewCache(c.p.cacheSize), c.Header)
}

// Latest returns the newest catalog. A change of the configuration starts from this catalog.
func (p *Partition) Latest() (*Catalog, error) {
	s := p.DB.Snapshot()
	defer s.Close()
	return p.CatalogOf(s)
}

// Past returns the catalog of a state of the past, or of a branch. The catalog has the schema
// of that state. Of the present indexes, it uses those that were complete at that state. A
// branch has the schema of its base.
func (p *Partition) Past(ctx context.Context, s *txn.Snapshot) (*Catalog, error) {
	c, err := p.Latest()
	if err == nil && s.Trunk() < c.Subschema.Since {
		c, err = c.schemaAt(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	if s.InBranch() {
		return c.AsOf(s.Trunk()), nil // all commits up to this revision are decided
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
