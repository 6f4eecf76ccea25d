package partition

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Where other servers write, an index comes in steps: first all servers write its
// cells and nobody reads it; then it is filled, below what they write, from a
// snapshot that shows what was committed before; then it is read. It goes at once,
// since no snapshot that shows what was written without it has a catalog with it;
// but its table stays until the last older snapshot is closed.

// reindexBeside is Reindex from old to h, with tables to be dropped and types to be
// filled.
func (p *Partition) reindexBeside(ctx context.Context, old *catalog, h *header, stale []string, fill []*schema.AttributeType, o ReindexOptions) error {
	if len(stale) > 0 {
		less := *old.header
		less.Indexes = slices.DeleteFunc(slices.Clone(less.Indexes), func(x headerIndex) bool {
			t := old.schema.Attribute(x.Attribute)
			return t != nil && slices.Contains(stale, index.TableName(t))
		})
		if _, err := p.turnTo(ctx, old, &less); err != nil {
			return err
		}
	}
	if err := p.newTables(ctx, stale, fill); err != nil || len(fill) == 0 {
		return err
	}
	now, err := p.latest()
	if err != nil {
		return err
	}
	h.since = now.header.since
	r, err := p.turnTo(ctx, now, h)
	if err != nil {
		return err
	}
	if err := p.awaitStep(ctx, r); err != nil {
		return err
	}
	return p.fillBeside(ctx, fill, r, o)
}

// newTables drops tables that nobody reads or writes any more, and makes those that
// are to be filled; of these an earlier attempt may have left some.
func (p *Partition) newTables(ctx context.Context, stale []string, fill []*schema.AttributeType) error {
	names, err := p.store.Names(ctx)
	if err != nil {
		return err
	}
	specs := make([]table.Spec, len(fill))
	for i, t := range fill {
		specs[i] = index.Spec(t)
		if name := specs[i].Name; slices.Contains(names, name) && !slices.Contains(stale, name) {
			stale = append(stale, name)
		}
	}
	if len(stale) > 0 {
		now, err := p.latest()
		if err != nil {
			return err
		}
		if err := p.drain(ctx, now.header.since); err != nil {
			return fmt.Errorf("the index is out of service, but still in use: try again later: %w", err)
		}
		if err := p.store.Drop(ctx, stale...); err != nil {
			return err
		}
	}
	return p.store.Create(ctx, specs...)
}

// fillBeside fills indexes that all servers write since r, and puts them into
// service.
func (p *Partition) fillBeside(ctx context.Context, types []*schema.AttributeType, r table.Revision, o ReindexOptions) error {
	f, err := p.db.Fill(r)
	if err != nil {
		return err
	}
	defer f.Close()
	at := f.Snapshot()
	c, err := p.catalogOf(at)
	if err != nil {
		return err
	}
	for i, t := range types { // of the schema of the snapshot
		if types[i] = c.schema.Attribute(t.OID); c.indexes[types[i]] == nil {
			return errHeaderChanged
		}
	}
	s := &Snapshot{p: p, r: at, at: at, catalog: c}
	if err := fillFrom(ctx, s, f, c, types, o); err != nil {
		return err
	}
	return p.complete(ctx, types, f.Stamp())
}
