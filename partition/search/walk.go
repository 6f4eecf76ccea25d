package search

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// maxInner bounds the number of ids that a Walk keeps in memory: the ids of the entries that
// have children.
const maxInner = 1 << 20

// Walk streams the entries that match a query with the scope WholeSubtree or
// Subordinates. It streams them in the order of the tree: depth first, each entry before
// the entries below it. It uses bounded memory and sorts nothing.
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

// inner returns the ids of all entries that have children. With these ids, a walk scans the
// children of these entries only. To find the ids, the tree is scanned once. The walk then
// saves one read for each leaf. inner returns nil if there are too many ids to keep.
func inner(ctx context.Context, s *state.Snapshot) (map[entry.ID]struct{}, error) {
	inner := map[entry.ID]struct{}{catalog.Root: {}}
	last := catalog.Root
	for row, err := range s.Reader.Scan(ctx, s.Partition.Tree, table.Range{}, table.Select{Families: []table.Family{tree.TreeInfo}}) {
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
