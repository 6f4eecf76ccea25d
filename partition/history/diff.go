package history

import (
	"context"
	"io"
	"iter"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Diff writes the changes from one state to another as LDIF, for the entries that are
// base or below base in at least one of the states. An empty base means all entries. Diff
// returns the number of changes.
func Diff(ctx context.Context, from, to *partition.Snapshot, base dn.DN, w io.Writer) (n int, err error) {
	return writeRecords(w, Between(ctx, from, to, base))
}

// Between yields the changes that [Diff] writes.
func Between(ctx context.Context, from, to *partition.Snapshot, base dn.DN) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		ids, err := mayDiffer(ctx, from, to)
		if err == nil && len(base) > 0 {
			ids, err = idsBelow(ctx, from, to, base, ids)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		d := &Difference{From: from, To: to, IDs: ids}
		d.Records(ctx)(yield)
	}
}

// writeRecords writes records as LDIF and returns their number.
func writeRecords(w io.Writer, records iter.Seq2[*Record, error]) (n int, err error) {
	out := ldif.NewWriter(w)
	if err := out.WriteVersion(); err != nil {
		return 0, err
	}
	for r, err := range records {
		if err != nil {
			return n, err
		}
		if err := out.Write(r.LDIF()); err != nil {
			return n, err
		}
		n++
	}
	return n, out.Flush()
}

// mayDiffer returns the entries that were touched by the commits between two states. If the
// journal does not list all these entries, mayDiffer returns all entries of both states.
func mayDiffer(ctx context.Context, from, to *partition.Snapshot) (ids []entry.ID, err error) {
	early, late := from, to
	if early.Revision() > late.Revision() {
		early, late = late, early
	}
	if !changestream.Known(late, early.Revision()) {
		return entriesOf(ctx, from, to, entry.Root, entry.Root)
	}
	for c, err := range changestream.AllAfter(ctx, late, early.Revision()) {
		if err != nil {
			return nil, err
		}
		if c.All {
			return entriesOf(ctx, from, to, entry.Root, entry.Root)
		}
		ids = append(ids, c.IDs...)
	}
	return ids, nil
}

// entriesOf returns the entries of two trees. One tree has the base a and is in the
// state from. The other tree has the base b and is in the state to. The tree of
// entry.Root is the whole state. A tree whose base does not exist has no entries. The
// result always includes the subschema.
func entriesOf(ctx context.Context, from, to *partition.Snapshot, a, b entry.ID) ([]entry.ID, error) {
	ids := []entry.ID{catalog.SubschemaID}
	for _, tree := range []struct {
		s    *partition.Snapshot
		base entry.ID
	}{{from, a}, {to, b}} {
		q := partition.Query{Base: tree.base, Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}
		for r, err := range search.Search(ctx, tree.s, q) {
			if err != nil {
				return nil, err
			}
			ids = append(ids, r.ID)
		}
	}
	return ids, nil
}

// idsBelow returns the ids that are base or below base in at least one of the states.
func idsBelow(ctx context.Context, from, to *partition.Snapshot, base dn.DN, ids []entry.ID) (in []entry.ID, err error) {
	type tree struct {
		s    *partition.Snapshot
		base entry.ID
	}
	var trees []tree
	var missing error
	for _, s := range []*partition.Snapshot{from, to} {
		at, err := s.Find(ctx, base)
		if err != nil {
			missing = err
			continue
		}
		trees = append(trees, tree{s, at.ID})
	}
	if trees == nil {
		return nil, missing
	}
	for _, id := range ids {
		for _, t := range trees {
			is, err := changestream.Within(ctx, t.s, id, t.base)
			if err != nil {
				return nil, err
			}
			if is {
				in = append(in, id)
				break
			}
		}
	}
	return in, nil
}
