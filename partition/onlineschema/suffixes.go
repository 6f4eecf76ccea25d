package onlineschema

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// ReplaceSuffixes replaces the naming contexts, in a transaction. It returns an error if a naming
// context that would be removed contains entries.
func ReplaceSuffixes(ctx context.Context, tx *write.Tx, suffixes []string) error {
	h := *tx.Catalog.Header
	h.Suffixes = suffixes
	after, err := tx.Catalog.With(&h)
	if err != nil {
		return err
	}
	if err := replaces(ctx, tx, after); err != nil {
		return err
	}
	if err := tx.Configure(&h); err != nil {
		return err
	}
	tx.Catalog = after
	return nil
}

// errUnchanged ends a transaction that changes nothing.
var errUnchanged = errors.New("nothing changes")

// SetSuffixes replaces the naming contexts. It returns an error if a naming context that
// would be removed contains entries.
func SetSuffixes(ctx context.Context, p *catalog.Partition, suffixes []string) error {
	return changeSuffixes(ctx, p, func(c *catalog.Catalog) (*catalog.Catalog, error) {
		h := *c.Header
		h.Suffixes = slices.Clone(suffixes)
		return c.With(&h)
	})
}

// AddSuffixes adds those naming contexts that do not exist yet. If all of them exist,
// AddSuffixes writes nothing and succeeds even on a read-only server.
func AddSuffixes(ctx context.Context, p *catalog.Partition, suffixes []string) error {
	if now, err := p.Latest(); err == nil {
		if after, err := now.WithSuffixes(suffixes); err == nil && after == now {
			return nil
		}
	}
	return changeSuffixes(ctx, p, func(c *catalog.Catalog) (*catalog.Catalog, error) { return c.WithSuffixes(suffixes) })
}

func changeSuffixes(ctx context.Context, p *catalog.Partition, change func(*catalog.Catalog) (*catalog.Catalog, error)) error {
	p.Changing.RLock()
	defer p.Changing.RUnlock()
	_, err := write.Reconfigure(ctx, p, write.By{}, func(tx *write.Tx) (*catalog.Header, error) {
		after, err := change(tx.Catalog)
		if err != nil {
			return nil, err
		}
		if after == tx.Catalog {
			return nil, errUnchanged
		}
		return after.Header, replaces(ctx, tx, after)
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// replaces returns an error if a removed naming context has entries, or if an entry has the
// name of a new naming context. It marks the rows of these names in the tree, so that a
// concurrent transaction that adds an entry with one of the names conflicts.
func replaces(ctx context.Context, tx *write.Tx, now *catalog.Catalog) error {
	for _, x := range tx.Catalog.Contexts {
		if now.HasContext(x.RDN) {
			continue
		}
		key := tree.Key(catalog.Root, x.RDN)
		if _, ok, err := tx.Child(ctx, key); err != nil || ok {
			if err == nil {
				err = catalog.Errorf(catalog.Unwilling, "naming context %s has entries: delete them first", x.Name)
			}
			return err
		}
		tx.Txn.Mark(tx.Partition.Tree, key, txn.Mark{Kind: txn.MarkExclusive})
	}
	for _, x := range now.Contexts {
		if tx.Catalog.HasContext(x.RDN) {
			continue
		}
		pl, err := tx.Locate(ctx, x.Name)
		if err == nil && pl.Found {
			err = catalog.Errorf(catalog.Unwilling, "%q cannot become a naming context: it is an entry of the directory already", x.Name)
		}
		if err != nil {
			return err
		}
		if pl.RDN != "" { // an entry of another context could have the name
			tx.Txn.Mark(tx.Partition.Tree, tree.Key(pl.Parent, pl.RDN), txn.Mark{Kind: txn.MarkExclusive})
		}
	}
	return nil
}
