package onlineschema

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// No two entries in a scope may have the same value of a unique attribute. The
// attribute's index shows whether another entry has the value at the transaction's
// snapshot. A mark on the value's row in the table unique makes concurrent transactions
// that add the same value conflict. The table contains only marks. So it need not be
// filled, cleared or moved with a subtree.

// Unique returns the unique attributes and their scopes.
func Unique(p *catalog.Partition) (us []catalog.Unique, err error) {
	c, err := p.Latest()
	if err != nil {
		return nil, err
	}
	return c.Unique(), nil
}

// SetUnique makes attributes unique in their scopes: all of them, or none. If on is false, the
// attributes are no longer unique in these scopes. When every server enforces the new rules, SetUnique
// examines the existing entries. If two entries have the same value, SetUnique removes the new rules
// and returns an error that names the first such entries.
func SetUnique(ctx context.Context, p *catalog.Partition, us []catalog.Unique, on bool) error {
	end, err := p.Reshape(ctx)
	if err != nil {
		return err
	}
	defer end()
	old, err := p.Latest()
	if err != nil {
		return err
	}
	h := old.Header
	for _, u := range us {
		if h, err = withUnique(old, h, u, on); err != nil {
			return err
		}
	}
	if !on {
		_, err := install(ctx, p, old, h)
		return err
	}
	if err := p.Store.Create(ctx, write.UniqueSpec(old.Schema, us)); err != nil {
		return err
	}
	return installUnless(ctx, p, old, h,
		func() error {
			for _, u := range us {
				if err := findDuplicates(ctx, p, u); err != nil {
					return err
				}
			}
			return nil
		},
		func(ctx context.Context) error { return restoreUnique(ctx, p, old) }, "the new settings stay")
}

// installUnless installs h, waits until all servers apply it, and then calls the function wrong
// to check the entries. If this function returns an error, or the wait fails, installUnless
// calls takeBack. If takeBack fails too, the text of the error contains the parameter stays,
// which says what remains installed.
func installUnless(ctx context.Context, p *catalog.Partition, from *catalog.Catalog, h *catalog.Header, wrong func() error, takeBack func(context.Context) error, stays string) error {
	r, err := install(ctx, p, from, h)
	if err != nil {
		return err
	}
	if err = awaitStep(ctx, p, r); err == nil {
		err = wrong()
	}
	if err == nil {
		return nil
	}
	if e := takeBack(context.WithoutCancel(ctx)); e != nil {
		return fmt.Errorf("%w (and %s from here on: %w)", err, stays, e)
	}
	return err
}

// restoreUnique sets the unique attributes of the newest catalog back to those of an earlier catalog.
func restoreUnique(ctx context.Context, p *catalog.Partition, before *catalog.Catalog) error {
	now, err := p.Latest()
	if err != nil {
		return err
	}
	h := *now.Header
	h.Unique = before.Header.Unique
	_, err = install(ctx, p, now, &h)
	return err
}

// install replaces the settings in force by the settings of a header.
func install(ctx context.Context, p *catalog.Partition, from *catalog.Catalog, h *catalog.Header) (table.Revision, error) {
	return installBy(ctx, p, write.By{}, from, h)
}

// installBy is install on behalf of a user.
func installBy(ctx context.Context, p *catalog.Partition, by write.By, from *catalog.Catalog, h *catalog.Header) (table.Revision, error) {
	c, err := from.With(h)
	if err != nil {
		return 0, err
	}
	return write.Install(ctx, p, by, c)
}

// withUnique returns a copy of a header. If on is set, u is unique in the copy; otherwise it is not.
// The catalog c has the schema and the indexes.
func withUnique(c *catalog.Catalog, from *catalog.Header, u catalog.Unique, on bool) (*catalog.Header, error) {
	t, err := c.Indexable(u.Attribute)
	if err != nil {
		return nil, err
	}
	h := *from
	is := func(o catalog.HeaderUnique) bool {
		return c.Schema.Attribute(o.Attribute) == t && o.Base == u.Base.String()
	}
	there := slices.ContainsFunc(h.Unique, is)
	switch x := c.Indexes[t]; {
	case on && there:
		return nil, catalog.Errorf(catalog.Unwilling, "%s is unique already in this subtree", t.Name())
	case !on && !there:
		return nil, catalog.Errorf(catalog.Unwilling, "%s is not unique in this subtree", t.Name())
	case on && (x == nil || !x.Ready):
		return nil, catalog.Errorf(catalog.Unwilling, "%s has no index, by which equal values are found: index it first", t.Name())
	}
	h.Unique = slices.DeleteFunc(slices.Clone(h.Unique), is)
	if on {
		h.Unique = append(h.Unique, catalog.HeaderUnique{Attribute: t.Name(), Base: u.Base.String()})
	}
	return &h, nil
}

// findDuplicates returns an error if values of the attribute are not unique.
func findDuplicates(ctx context.Context, p *catalog.Partition, u catalog.Unique) error {
	s := state.Newest(p)
	defer s.Close()
	var named []string
	n, err := verify.Duplicates(ctx, s, s.Catalog.Indexes[s.Catalog.Schema.Attribute(u.Attribute)], u.Base, func(a, b entry.ID) error {
		if len(named) == verify.MaxNamed {
			return nil
		}
		first, err := s.Name(ctx, a)
		if err != nil {
			return err
		}
		second, err := s.Name(ctx, b)
		named = append(named, first.String()+" and "+second.String())
		return err
	})
	if err != nil || n == 0 {
		return err
	}
	return catalog.Errorf(catalog.Constraint, "%s is not unique, several entries have the same value (%d values):\n  %s",
		u.Attribute, n, strings.Join(named, "\n  "))
}
