package onlineschema

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// On a store that several servers write, an index is added in steps. First all servers write
// the cells of the index and no server reads it. Then the index is filled from a snapshot that
// shows all earlier commits. The cells that the servers wrote hide the cells of the fill. Then
// the servers read the index. An index is removed in one step. A commit after this step writes
// no cells of the index. A snapshot that shows such a commit also shows the settings without
// the index, so its readers do not use the index. The table of a removed index is dropped when
// the last older snapshot is closed.

// reindexOnline changes the indexes from old to h while updates continue. The parameter stale
// contains the names of the tables to drop. The parameter fill contains the types whose indexes
// must be filled.
func reindexOnline(ctx context.Context, p *catalog.Partition, old *catalog.Catalog, h *catalog.Header, stale []string, fill []*schema.AttributeType, o verify.ReindexOptions) error {
	if len(stale) > 0 {
		less := *old.Header
		less.Indexes = slices.DeleteFunc(slices.Clone(less.Indexes), func(x catalog.HeaderIndex) bool {
			t := old.Schema.Attribute(x.Attribute)
			return t != nil && slices.Contains(stale, index.TableName(t))
		})
		if _, err := install(ctx, p, old, &less); err != nil {
			return err
		}
	}
	if err := newTables(ctx, p, stale, fill); err != nil || len(fill) == 0 {
		return err
	}
	now, err := p.Latest()
	if err != nil {
		return err
	}
	h.Since = now.Header.Since
	r, err := install(ctx, p, now, h)
	if err != nil {
		return err
	}
	if err := awaitStep(ctx, p, r); err != nil {
		return err
	}
	return fillOnline(ctx, p, fill, r, o)
}

// newTables drops the stale tables and creates the tables to be filled. If an interrupted
// attempt has left tables with the names of the new tables, newTables first drops these
// too.
func newTables(ctx context.Context, p *catalog.Partition, stale []string, fill []*schema.AttributeType) error {
	names, err := p.Store.Names(ctx)
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
		now, err := p.Latest()
		if err != nil {
			return err
		}
		if err := drain(ctx, p, now.Header.Since); err != nil {
			return fmt.Errorf("the index is out of service, but still in use: try again later: %w", err)
		}
		if err := p.Store.Drop(ctx, stale...); err != nil {
			return err
		}
	}
	return p.Store.Create(ctx, specs...)
}

// fillOnline fills indexes that all servers have maintained since r, and then lets
// searches use the indexes.
func fillOnline(ctx context.Context, p *catalog.Partition, types []*schema.AttributeType, r table.Revision, o verify.ReindexOptions) error {
	f, err := p.DB.Fill(r)
	if err != nil {
		return err
	}
	defer f.Close()
	at := f.Snapshot()
	c, err := p.CatalogOf(at)
	if err != nil {
		return err
	}
	for i, t := range types { // find the same types in the snapshot's schema
		if types[i] = c.Schema.Attribute(t.OID); c.Indexes[types[i]] == nil {
			return catalog.ErrHeaderChanged
		}
	}
	s := &state.Snapshot{Partition: p, Reader: at, At: at, Catalog: c}
	if err := verify.FillFrom(ctx, s, f, c, types, o); err != nil {
		return err
	}
	return verify.Complete(ctx, p, types, f.Stamp())
}
