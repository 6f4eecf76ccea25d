package partition

import (
	"context"
	"iter"
	"time"

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

// turnTime bounds the reading of a changed subschema.
const turnTime = 10 * time.Second

// catalogOf gives the catalog that belongs to a current state.
func (p *Partition) catalogOf(s *txn.Snapshot) (*catalog, error) {
	if c := p.catalog.Load(); s.Unchanged(subschemaID, c.ordinal) {
		return c, nil
	}
	return p.turn(s)
}

// turn looks at the subschema again. It may be as it was: other things than it
// touch it too.
func (p *Partition) turn(s *txn.Snapshot) (*catalog, error) {
	p.turning <- struct{}{}
	defer func() { <-p.turning }()
	c := p.catalog.Load()
	if s.Unchanged(subschemaID, c.ordinal) {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), turnTime)
	defer cancel()
	next, err := c.at(ctx, s)
	if err != nil {
		return nil, err
	}
	next.ordinal = s.Ordinal()
	if next.ordinal > c.ordinal { // else s is an older state than c is of
		p.catalog.Store(next)
		p.db.SetStep(next.since(), next.ordinal)
	}
	return next, nil
}

// since is the last commit that changed what the catalog is made of.
func (c *catalog) since() table.Revision { return max(c.subschema.since, c.header.since) }

// at gives a copy of the catalog, or another one, with the schema and the settings
// of a state.
func (c *catalog) at(ctx context.Context, s *txn.Snapshot) (*catalog, error) {
	next, err := c.schemaAt(ctx, s)
	if err != nil {
		return nil, err
	}
	h, err := c.p.settingsAt(ctx, s, c.header)
	if err != nil || h.since == c.header.since {
		return next, err
	}
	return next.with(h)
}

// schemaAt is at for the schema alone.
func (c *catalog) schemaAt(ctx context.Context, s *txn.Snapshot) (*catalog, error) {
	since, err := c.p.subschemaSince(ctx, s)
	if err != nil {
		return nil, err
	}
	if since == c.subschema.since {
		same := *c
		return &same, nil
	}
	own, err := c.p.readSubschema(ctx, s)
	if err != nil {
		return nil, err
	}
	return c.turnTo(own)
}

// turnTo gives a catalog of the same configuration with what a subschema says. If
// that is the same schema, types and caches stay.
func (c *catalog) turnTo(own *subschema) (next *catalog, err error) {
	if own.sameAs(c.subschema) {
		same := *c
		next = &same
		next.subschema, next.toCome = own, nil
	} else if next, err = c.of(own); err != nil {
		return nil, err
	}
	if own.pending != nil {
		err = next.expect(own.pending.own)
	}
	return next, err
}

// expect has what changes entries keep to a schema to come, too.
func (c *catalog) expect(own *subschema) error {
	s, err := own.over(c.p.base)
	if err != nil {
		return err
	}
	if concern := newConcern(c.types, newTypes(s)); !concern.empty() {
		c.toCome = concern
	}
	return nil
}

// of gives a catalog of the same configuration with the schema that a subschema
// makes, and caches of its own.
func (c *catalog) of(own *subschema) (*catalog, error) {
	s, err := own.over(c.p.base)
	if err != nil {
		return nil, err
	}
	return c.p.newCatalog(newTypes(s), own, newCache(c.p.cacheSize), c.header)
}

// latest gives the newest catalog. Who changes the configuration begins with it.
func (p *Partition) latest() (*catalog, error) {
	s := p.db.Snapshot()
	defer s.Close()
	return p.catalogOf(s)
}

// past gives the catalog of a state of the past: with the schema of then, and
// those of the present indexes that were complete then.
func (p *Partition) past(ctx context.Context, s *txn.Snapshot) (*catalog, error) {
	c, err := p.latest()
	if err == nil && s.Max() < c.subschema.since {
		c, err = c.schemaAt(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	return c.asOf(s.Low()), nil
}

// unreadable answers every read with the error that keeps the schema of a state
// from being known.
type unreadable struct{ err error }

func (u unreadable) Get(context.Context, *txn.Table, []byte, table.Select) (table.Row, error) {
	return table.Row{}, u.err
}

func (u unreadable) GetMany(context.Context, *txn.Table, [][]byte, table.Select) ([]table.Row, error) {
	return nil, u.err
}

func (u unreadable) Scan(context.Context, *txn.Table, table.Range, table.Select) iter.Seq2[table.Row, error] {
	return func(yield func(table.Row, error) bool) { yield(table.Row{}, u.err) }
}
