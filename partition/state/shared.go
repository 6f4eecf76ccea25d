package state

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Config returns the shared configuration for reads of a state. The result contains only the
// indexes that are complete in the state. For a state of the past, the naming contexts are the
// present ones.
func (s *Snapshot) Config() catalog.Config {
	c := catalog.Config{Suffixes: append([]string(nil), s.Catalog.Header.Suffixes...)}
	for i, x := range s.Catalog.Ordered {
		if x.Ready {
			c.Indexes = append(c.Indexes, catalog.Index{Attribute: x.Typ.Name(), Layout: s.Catalog.Header.Indexes[i].Layout})
		}
	}
	return c
}

// Unique returns the unique attributes of a state and their scopes. For a state of the past, it
// returns the present ones.
func (s *Snapshot) Unique() []catalog.Unique { return Unique(s.Catalog) }

func Unique(c *catalog.Catalog) (us []catalog.Unique) {
	for _, x := range c.Ordered {
		for _, base := range x.Unique {
			us = append(us, catalog.Unique{Attribute: x.Typ.Name(), Base: base})
		}
	}
	return us
}

// Empty reports whether a state has no entries.
func (s *Snapshot) Empty(ctx context.Context) (bool, error) {
	has, err := s.HasChildren(ctx, entry.Root)
	return !has, err
}
