package branch

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// The conflicts of an open branch are found by its marks. The marks of a parked branch are not
// kept, but the state at the base is. So the conflicts of a parked branch are found by
// comparing entries in three states: at the base, in the branch, and in the present state of
// the trunk.

// parked is the text of the conflict that every parked branch has.
const parked = "the branch is parked, since the past after its base is not kept any more: rebase or discard it"

// compare returns the conflicts of a parked branch. The first conflict says that the branch is
// parked. The other conflicts are about entries that both sides changed. A rebase would meet
// these other conflicts, too.
func (b *Branch) compare(ctx context.Context) ([]Conflict, error) {
	i, err := b.Info(ctx)
	if err != nil {
		return nil, err
	}
	x, err := b.newExplanation(ctx)
	if err != nil {
		return nil, err
	}
	defer x.close()
	ids := i.IDs
	if i.All {
		if ids, err = b.written(ctx); err != nil {
			return nil, err
		}
	}
	for _, id := range ids {
		if err := x.compare(ctx, id); err != nil {
			return nil, err
		}
	}
	return slices.Insert(x.sorted(), 0, Conflict{ID: entry.Root, About: parked}), nil
}

// written returns the ids of the rows of master that the branch wrote or marked.
func (b *Branch) written(ctx context.Context) (ids []entry.ID, err error) {
	for row, err := range b.b.Rows(ctx, master.Name) {
		var id entry.ID
		if err != nil {
			return nil, failure(err)
		}
		if copy(id[:], row) == len(row) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, entry.ID.Compare)
	return slices.Compact(ids), nil
}

// compare adds a conflict for the entry in two cases: the branch and the trunk changed the
// entry so that neither change can follow the other, or another entry of the trunk has the
// name that the branch gave to the entry.
func (x *explanation) compare(ctx context.Context, id entry.ID) error {
	nodes, entries, err := x.sides(ctx, id)
	if err != nil {
		return err
	}
	if nodes[1] == nil && nodes[2] == nil || !differs(nodes, entries, 1) {
		return nil
	}
	c := &Conflict{ID: id}
	taken, err := x.isTaken(ctx, id, nodes)
	switch {
	case err != nil:
		return err
	case taken:
		c.About = "another entry has its name outside the branch"
	case nodes[0] == nil && nodes[2] == nil || !differs(nodes, entries, 2):
		return nil
	default:
		if c.About = fate(nodes); c.About == "" {
			c.Attributes = slices.DeleteFunc(differing(entries), func(d Differing) bool { return goTogether(entries, d.Description) })
		}
		if c.About == "" && len(c.Attributes) == 0 {
			return nil
		}
	}
	if c.Name, err = x.name(ctx, id); err != nil {
		return err
	}
	if by := valuesOf(entries[2], "modifiersName"); len(by) > 0 {
		c.By = write.By{Name: string(by[0])}
	}
	x.places[string(id[:])] = c
	return nil
}

// differs reports whether a side, 1 or 2, differs from the base, which is side 0.
func differs(n [3]*master.Node, e [3]*entry.Entry, side int) bool {
	if n[0] == nil || n[side] == nil {
		return n[0] != n[side]
	}
	if moved(n[0], n[side]) {
		return true
	}
	for _, list := range [][2]*entry.Entry{{e[0], e[side]}, {e[side], e[0]}} {
		for i := range list[0].Attributes {
			a := &list[0].Attributes[i]
			if (!a.Type.NoUserModification || a.Type.Secret()) && !same(a.Values, valuesOf(list[1], a.Description())) {
				return true
			}
		}
	}
	return false
}

// isTaken reports whether the branch gave the entry a name that another entry now has
// outside of the branch.
func (x *explanation) isTaken(ctx context.Context, id entry.ID, n [3]*master.Node) (bool, error) {
	if n[1] == nil || n[0] != nil && !moved(n[0], n[1]) {
		return false, nil
	}
	other, ok, err := x.newest.Resolve(ctx, n[1].Parent, n[1].NormRDN)
	return ok && other != id, err
}

// goTogether reports whether an attribute can have the changes of both sides. That is so if
// the attribute is multi-valued and not secret, and no value of the base was removed on both
// sides.
func goTogether(e [3]*entry.Entry, description string) bool {
	a := attributeOf(e[1], description)
	if a == nil {
		a = attributeOf(e[2], description)
	}
	if a == nil || a.Type.SingleValue || a.Type.Secret() {
		return false
	}
	base, own, newest := valuesOf(e[0], description), valuesOf(e[1], description), valuesOf(e[2], description)
	for _, v := range base {
		if !has(own, v) && !has(newest, v) {
			return false
		}
	}
	return true
}

func has(values [][]byte, v []byte) bool {
	return slices.ContainsFunc(values, func(x []byte) bool { return bytes.Equal(x, v) })
}

func attributeOf(e *entry.Entry, description string) *entry.Attribute {
	if e == nil {
		return nil
	}
	for i := range e.Attributes {
		if e.Attributes[i].Description() == description {
			return &e.Attributes[i]
		}
	}
	return nil
}

// sides returns an entry and its place in the tree at the base, in the branch and now.
// Both are nil for a state in which the entry does not exist.
func (x *explanation) sides(ctx context.Context, id entry.ID) (nodes [3]*master.Node, entries [3]*entry.Entry, err error) {
	for i, s := range []*state.Snapshot{x.base, x.own, x.newest} {
		item, err := s.Item(ctx, id)
		if err != nil {
			return nodes, entries, err
		}
		if item == nil {
			continue
		}
		nodes[i] = &item.Node
		if entries[i], err = s.EntryOf(ctx, id, item, true, nil); err != nil {
			return nodes, entries, err
		}
	}
	return nodes, entries, nil
}
