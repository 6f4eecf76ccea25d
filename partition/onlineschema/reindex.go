package onlineschema

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// SetIndexes replaces the set of indexes: the indexed attributes and the layouts. It fills
// indexes that are new or have a new layout, and drops indexes that are not in the list.
// Searches continue during the change. On a store with one server, updates wait. An index
// whose filling was interrupted is not used, and the next call fills it. An index without a layout
// gets the one that suits the present values.
func SetIndexes(ctx context.Context, p *catalog.Partition, indexes []catalog.Index) error {
	return Reindex(ctx, p, indexes, verify.ReindexOptions{})
}

// Reindex replaces the set of indexes, like SetIndexes. It also rebuilds the indexes that o
// selects.
func Reindex(ctx context.Context, p *catalog.Partition, indexes []catalog.Index, o verify.ReindexOptions) error {
	o = o.WithDefaults()
	end, err := p.Reshape(ctx)
	if err != nil {
		return err
	}
	defer end()
	old, err := p.Latest()
	if err != nil {
		return err
	}
	indexes = slices.Clone(indexes)
	if err := chooseLayouts(ctx, p, indexes); err != nil {
		return err
	}
	h, fill, err := newIndexes(old, indexes, o.Again, p.DB.Shared())
	if err != nil {
		return err
	}
	stale := staleTables(old, h)
	if p.DB.Shared() {
		return reindexOnline(ctx, p, old, h, stale, fill, o)
	}
	c, err := old.With(h)
	if err != nil {
		return err
	}
	// After this commit no new snapshot uses the indexes to be filled or dropped.
	if _, err := write.Install(ctx, p, write.By{}, c); err != nil {
		return err
	}
	if len(stale) > 0 {
		if err := drain(ctx, p, 0); err != nil {
			return err
		}
		if err := p.Store.Drop(ctx, stale...); err != nil {
			return err
		}
	}
	if len(fill) == 0 {
		return nil
	}
	return fillIndexes(ctx, p, c, fill, o)
}

// newIndexes returns the header with the wanted indexes. It also returns the types of the
// indexes to be filled. In the header, these indexes have the revision zero. An index that
// references or uniqueness need may be filled again, because changes that need it are refused
// meanwhile. On a shared store it may not, because there it would leave the header first, and
// then nothing would be refused.
func newIndexes(c *catalog.Catalog, indexes []catalog.Index, again []string, shared bool) (*catalog.Header, []*schema.AttributeType, error) {
	h := *c.Header
	h.Indexes = nil
	var fill, seen []*schema.AttributeType
	force := map[*schema.AttributeType]bool{}
	for _, name := range again {
		t, err := c.Indexable(name)
		if err != nil {
			return nil, nil, err
		}
		force[t] = true
	}
	for _, x := range indexes {
		t, err := c.Indexable(x.Attribute)
		switch {
		case err != nil:
			return nil, nil, err
		case !x.Layout.Known():
			return nil, nil, catalog.Errorf(catalog.Unwilling, "index of %s: the layout %q is not one of %q", x.Attribute, x.Layout, catalog.Layouts())
		case slices.Contains(seen, t):
			return nil, nil, catalog.Errorf(catalog.Unwilling, "index of %s: given twice", x.Attribute)
		}
		seen = append(seen, t)
		entry := catalog.HeaderIndex{Attribute: t.Name(), Layout: x.Layout}
		if i := slices.IndexFunc(c.Header.Indexes, func(o catalog.HeaderIndex) bool {
			return c.Schema.Attribute(o.Attribute) == t && o.Layout == x.Layout
		}); i >= 0 && !force[t] {
			entry.Since = c.Header.Indexes[i].Since
		}
		if entry.Since == 0 {
			fill = append(fill, t)
		}
		h.Indexes = append(h.Indexes, entry)
	}
	for _, x := range c.Ordered {
		again := slices.Contains(fill, x.Typ)
		err := c.Needs(x.Typ)
		switch {
		case err == nil || again && !shared:
		case again:
			return nil, nil, catalog.Errorf(catalog.Unwilling, "%v; or rebuild all indexes while no server runs", err)
		case !slices.Contains(seen, x.Typ):
			return nil, nil, err
		}
	}
	return &h, fill, nil
}

// staleTables returns the index tables to be dropped or recreated.
func staleTables(c *catalog.Catalog, h *catalog.Header) (names []string) {
	for _, x := range c.Ordered {
		i := slices.IndexFunc(h.Indexes, func(n catalog.HeaderIndex) bool { return c.Schema.Attribute(n.Attribute) == x.Typ })
		if i < 0 || h.Indexes[i].Since == 0 {
			names = append(names, x.Table().Name())
		}
	}
	return names
}

// DrainTime is the longest time for which a reindex waits for earlier searches to end, on a
// store with one server.
var DrainTime = 30 * time.Second

// drain waits until no snapshot uses a catalog from before r. On a store with one server,
// drain makes an empty commit and waits until all snapshots before this commit are closed. Any
// of these snapshots may use a catalog from before r.
func drain(ctx context.Context, p *catalog.Partition, r table.Revision) error {
	if p.DB.Shared() {
		return errors.Join(awaitStep(ctx, p, r), p.DB.AwaitReaders(ctx, r))
	}
	if _, err := p.DB.Update(ctx, func(tx *txn.Tx) error {
		tx.SetMessage([]byte(`"" ` + "\nreindex"))
		return nil
	}); err != nil {
		return err
	}
	now := p.DB.Snapshot()
	newest := now.Low()
	now.Close()
	for deadline := time.Now().Add(DrainTime); p.DB.Oldest() < newest; {
		if time.Now().After(deadline) {
			return errors.New("searches that use the index are still running: try again later")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// fillIndexes creates the tables of indexes, fills them in one bulk commit, and then lets
// searches use the indexes.
func fillIndexes(ctx context.Context, p *catalog.Partition, c *catalog.Catalog, types []*schema.AttributeType, o verify.ReindexOptions) error {
	specs := make([]table.Spec, len(types))
	for i, t := range types {
		specs[i] = index.Spec(t)
	}
	if err := p.Store.Create(ctx, specs...); err != nil {
		return err
	}
	b, err := p.DB.Bulk(ctx, table.BulkOptions{Memory: load.DefaultLoadMemory})
	if err != nil {
		return err
	}
	defer b.Abort(context.WithoutCancel(ctx))
	s := state.Newest(p)
	defer s.Close()
	if err := verify.FillFrom(ctx, s, b, c, types, o); err != nil {
		return err
	}
	r, err := b.Commit(ctx, []byte(`"" `+"\nreindex"))
	if err != nil {
		return err
	}
	return verify.Complete(ctx, p, types, r)
}
