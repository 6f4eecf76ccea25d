package onlineschema

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/partition/write"
)

// References returns the attributes whose values follow the entries that they name.
func References(p *catalog.Partition) ([]catalog.Reference, error) {
	c, err := p.Latest()
	if err != nil {
		return nil, err
	}
	return slices.Clone(c.Header.References), nil
}

// SetReferences makes the values of attributes follow the entries that they name: of all of these
// attributes, or of none. SetReferences returns when every server applies the new settings. If on is
// false, the values no longer follow entries, and SetReferences does not wait for the other servers.
// If MustExist is set and some values name no entry, SetReferences restores the old settings and
// returns an error that lists the first of these values.
func SetReferences(ctx context.Context, p *catalog.Partition, rs []catalog.Reference, on bool) error {
	end, err := p.Reshape(ctx)
	if err != nil {
		return err
	}
	defer end()
	before, err := p.Latest()
	if err != nil {
		return err
	}
	h := before.Header
	for _, r := range rs {
		if h, err = withReference(before, h, r, on); err != nil {
			return err
		}
	}
	if h == before.Header {
		return nil // every attribute has its setting already
	}
	if !on {
		_, err := install(ctx, p, before, h)
		return err
	}
	return installUnless(ctx, p, before, h,
		func() error {
			for _, r := range rs {
				if err := findDangling(ctx, p, r); err != nil {
					return err
				}
			}
			return nil
		},
		func(ctx context.Context) error { return restoreReferences(ctx, p, before) }, "the new settings stay")
}

// restoreReferences sets the references of the newest catalog back to those of an earlier
// catalog.
func restoreReferences(ctx context.Context, p *catalog.Partition, before *catalog.Catalog) error {
	now, err := p.Latest()
	if err != nil {
		return err
	}
	h := *now.Header
	h.References = before.Header.References
	_, err = install(ctx, p, now, &h)
	return err
}

// withReference returns a copy of a header. If on is set, the attribute is a reference in the copy;
// otherwise it is not. The catalog c has the schema and the indexes.
func withReference(c *catalog.Catalog, from *catalog.Header, r catalog.Reference, on bool) (*catalog.Header, error) {
	t, err := c.Indexable(r.Attribute)
	if err != nil {
		return nil, err
	}
	x := c.Indexes[t]
	switch {
	case !t.NamesEntries():
		return nil, catalog.Errorf(catalog.Unwilling, "the values of %s are not names of entries", t.Name())
	case t.NoUserModification:
		return nil, catalog.Errorf(catalog.Unwilling, "%s is maintained by the server, and its values cannot follow entries", t.Name())
	case on && (x == nil || !x.Ready):
		return nil, catalog.Errorf(catalog.Unwilling, "%s has no index, by which its values are found: index it first", t.Name())
	}
	r.Attribute = t.Name()
	h := *from
	h.References = slices.Clone(h.References)
	i := slices.IndexFunc(h.References, func(o catalog.Reference) bool { return c.Schema.Attribute(o.Attribute) == t })
	switch {
	case on && i >= 0 && h.References[i] == r:
		return from, nil
	case !on && i < 0:
		return nil, catalog.Errorf(catalog.Unwilling, "the values of %s do not follow the entries that they name", t.Name())
	case !on:
		h.References = slices.Delete(h.References, i, i+1)
	case i >= 0:
		h.References[i] = r
	default:
		h.References = append(h.References, r)
	}
	return &h, nil
}

// findDangling returns an error if r.MustExist is set and a value of the attribute names
// no entry.
func findDangling(ctx context.Context, p *catalog.Partition, r catalog.Reference) error {
	if !r.MustExist {
		return nil
	}
	s := state.Newest(p)
	defer s.Close()
	var named []string
	n := 0
	for d, err := range verify.Dangling(ctx, s, s.Catalog.Indexes[s.Catalog.Schema.Attribute(r.Attribute)], nil) {
		if err != nil {
			return err
		}
		if n++; n <= verify.MaxNamed {
			name, err := s.Name(ctx, d.ID)
			if err != nil {
				return err
			}
			named = append(named, fmt.Sprintf("%s: %s", name, d.Value))
		}
	}
	if n == 0 {
		return nil
	}
	return catalog.Errorf(catalog.Constraint, "%d values of %s name no entry:\n  %s", n, r.Attribute, strings.Join(named, "\n  "))
}

// repairBatch is the number of values that one commit removes. A commit may remove a few more,
// because it does not split the values at one position of the index.
const repairBatch = 500

// RepairReferences removes the values of a reference attribute that name no entry. It returns
// the number of removed values.
func RepairReferences(ctx context.Context, p *catalog.Partition, attribute string, by write.By) (n int, err error) {
	for after := []byte(nil); ; {
		some, err := repairSome(ctx, p, attribute, by, after)
		if n += len(some); err != nil || len(some) < repairBatch {
			return n, err
		}
		after = some[len(some)-1].Position
	}
}

// repairSome removes dangling values behind a position of the index, in one commit, and returns
// them. If it returns fewer than repairBatch values, there are no more.
func repairSome(ctx context.Context, p *catalog.Partition, attribute string, by write.By, after []byte) (gone []verify.DanglingValue, err error) {
	_, err = write.Update(ctx, p, by, func(tx *write.Tx) error {
		gone = gone[:0]
		x := tx.Catalog.Indexes[tx.Catalog.Schema.Attribute(attribute)]
		if x == nil || x.Reference == nil {
			return catalog.Errorf(catalog.Unwilling, "the values of %s do not follow the entries that they name", attribute)
		}
		for d, err := range verify.Dangling(ctx, &tx.Snapshot, x, after) {
			if err != nil {
				return err
			}
			if n := len(gone); n >= repairBatch && !bytes.Equal(gone[n-1].Position, d.Position) {
				break
			}
			gone = append(gone, *d)
		}
		for _, d := range gone {
			if err := tx.TakeAway(ctx, d.ID, x.Typ, d.Options, d.Value); err != nil {
				return err
			}
		}
		return nil
	})
	return gone, err
}
