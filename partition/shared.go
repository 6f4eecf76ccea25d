package partition

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/entry"
)

// Config is the shared configuration as a state shows it: the indexes are those
// that are complete in it.
func (s *Snapshot) Config() Config {
	c := Config{Suffixes: append([]string(nil), s.catalog.header.Suffixes...)}
	for i, x := range s.catalog.ordered {
		if x.ready {
			c.Indexes = append(c.Indexes, Index{x.typ.Name(), s.catalog.header.Indexes[i].Layout})
		}
	}
	return c
}

// Unique returns which attributes are unique in a state and where.
func (s *Snapshot) Unique() []Unique { return s.catalog.unique() }

func (c *catalog) unique() (us []Unique) {
	for _, x := range c.ordered {
		for _, base := range x.unique {
			us = append(us, Unique{x.typ.Name(), base})
		}
	}
	return us
}

// Empty reports whether a state has no entries.
func (s *Snapshot) Empty(ctx context.Context) (bool, error) {
	has, err := s.HasChildren(ctx, entry.Root)
	return !has, err
}
