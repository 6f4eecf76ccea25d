package load

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load/spill"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// unique claims the unique values of a loaded entry. If an earlier record has the entry's
// name, unique returns an error and claims nothing.
func (l *Loader) unique(ctx context.Context, x *Loading, name spill.Key) error {
	c := l.catalog.Load()
	if len(c.Header.Unique) == 0 {
		return nil
	}
	if had, found, err := l.names.Get(name); err != nil || found {
		if found {
			err = taken(had)
		}
		return err
	}
	return l.claimUnique(ctx, x)
}

func (l *Loader) claimUnique(ctx context.Context, x *Loading) error {
	c := l.catalog.Load()
	for i := range x.e.Attributes {
		a := &x.e.Attributes[i]
		ix := c.Indexes[a.Typ]
		if ix == nil {
			continue
		}
		for _, base := range ix.Unique {
			if err := l.uniqueIn(ctx, x, a, ix, base); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Loader) uniqueIn(ctx context.Context, x *Loading, a *write.NewAttribute, ix *catalog.Indexed, base entry.ID) error {
	in, err := l.within(ctx, x.norms, base)
	if err != nil || !in {
		return err
	}
	for _, key := range a.Keys {
		if !l.empty {
			if err := ix.Whole(); err != nil {
				return err
			}
			if err := write.Free(ctx, l.s, &write.Claim{X: ix, Key: key, ID: x.e.ID}, base); err != nil {
				return err
			}
		}
		had, found, err := l.ids.Put(hashOf(write.UniqueRow(base, ix.Typ, key)), spill.Value(x.e.ID))
		if err != nil {
			return err
		}
		if found && entry.ID(had) != x.e.ID {
			return catalog.Errorf(catalog.Constraint, "attribute %s: an earlier record has this value, which must be unique", ix.Typ.Name())
		}
	}
	return nil
}

// within reports whether a name is in the subtree of the entry base. The entry base existed
// before the load, or LoadOptions.Scopes contains its name. If the directory was empty and
// Scopes does not contain base, within returns false.
func (l *Loader) within(ctx context.Context, norms []dn.Norm, base entry.ID) (bool, error) {
	if base == catalog.Root {
		return true, nil
	}
	scope, ok := l.o.Scopes[base]
	if !ok && l.empty {
		return false, nil
	}
	if !ok {
		name, err := l.s.Name(ctx, base)
		if err != nil {
			return false, err
		}
		if scope, err = name.DN(); err != nil {
			return false, err
		}
	}
	above, err := scope.Normalize(l.catalog.Load().Schema)
	n := len(norms) - len(above)
	return err == nil && n >= 0 && slices.Equal(norms[n:], above), err
}
