package onlineschema

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// Open opens the directory in a store. Closing the Partition does not close the store.
func Open(ctx context.Context, s table.Store, o catalog.Options) (*catalog.Partition, error) {
	o = o.WithDefaults()
	header, err := catalog.OpenHeader(ctx, s, o)
	if err != nil {
		return nil, err
	}
	p, err := catalog.Open(ctx, s, o, header)
	if err != nil {
		return nil, err
	}
	p.KeepToBoth = func(ctx context.Context, r table.Reader, at *txn.Snapshot, c *catalog.Catalog, changed []entry.ID) error {
		return conformsToBoth(ctx, p, r, at, c, changed)
	}
	if p.DB.Shared() && !o.Txn.ReadOnly {
		p.Following.Go(func() { follow(p) })
	}
	return p, nil
}
