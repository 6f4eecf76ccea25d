package search

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// maxInner bounds the entries with children whose ids a Walk keeps.
const maxInner = 1 << 20

// Walk streams the entries of a query of scope WholeSubtree or Subordinates in the
// order of the tree: depth first, each entry before those below it. Memory is bounded,
// and nothing is sorted.
func Walk(ctx context.Context, s *state.Snapshot, q Query) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		f := &finder{s: s, q: q, yield: yield, size: firstBatch}
		if q.Base == catalog.Root {
			f.q.Scope = op.Subordinates // the root is not an entry
		}
		var err error
		if f.inner, err = inner(ctx, s); err != nil {
			f.fail(err)
			return
		}
		f.walk(ctx)
	}
}

// inner finds the entries that have children, so that a walk reads only their children:
// one scan of the tree instead of a read for each leaf. It returns nil if there are too
// many to keep.
func inner(ctx context.Context, s *state.Snapshot) (map[entry.ID]struct{}, error) {
	inner := map[entry.ID]struct{}{catalog.Root: {}}
	last := catalog.Root
	for row, err := range s.Reader.Scan(ctx, s.Keeper.Tree, table.Range{}, table.Select{Families: []table.Family{tree.TreeInfo}}) {
		if err != nil {
			return nil, err
		}
		if p := tree.Parent(row.Key); p != last {
			inner[p], last = struct{}{}, p
		}
		if len(inner) > maxInner {
			return nil, nil
		}
	}
	return inner, nil
}

// leaf reports whether an entry is known to have no children.
func (f *finder) leaf(id entry.ID) bool {
	if f.inner == nil {
		return false
	}
	_, ok := f.inner[id]
	return !ok
}
