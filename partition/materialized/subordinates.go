package materialized

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// Subordinates is the kind of a view that no entry defines. For each entry, it counts the
// children and all entries below the entry. The view begins when a reader first asks for a
// number that would have to be counted: see catalog.Partition.WantsSubordinates. Each number of
// the view depends on many entries, so the view has only one lane, even on a shared store.
const Subordinates Kind = "subordinates"

// subordinatesID is the id of the view. Other views have the id of the entry that defines
// them.
var subordinatesID = entry.ID{0xd0, 0x8f, 0x51, 0x3c, 0x8d, 0x0e, 0x4f, 0x35, 0xa4, 0x2c, 0x8d, 0x1f, 0x66, 0x02, 0x5b, 0x11}

func subordinates(c *catalog.Catalog) *Definition {
	return &Definition{ID: subordinatesID, Name: dn.NewName("cn=" + string(Subordinates)), Kind: Subordinates, key: fmt.Sprint("erasures ", erasures(c))}
}

// Builtin returns the view that counts the entries below each entry, or nil if it has not begun.
// No entry defines this view.
func Builtin(ctx context.Context, s *state.Snapshot) (*Definition, error) {
	d := subordinates(s.Catalog)
	if has, err := hasCells(ctx, s.Partition); err != nil || !has {
		return nil, err
	}
	c, err := readCells(ctx, s.Partition, d.ID, lanes(false))
	if err != nil || c.generation.raw == nil {
		return nil, err
	}
	return d, nil
}

// SetUp makes a directory take the numbers of subordinates from package view.
func SetUp(k *catalog.Partition) {
	k.Subordinates = func(ctx context.Context, at *txn.Snapshot, c *catalog.Catalog, ids []entry.ID, exact bool) (ns []catalog.Count, known bool, err error) {
		s := &state.Snapshot{Partition: k, Reader: at, At: at, Catalog: c, Cached: at.Ordinal() != 0}
		d := subordinates(c)
		if exact {
			ns, err = d.countExactly(ctx, s, ids)
		} else {
			ns, err = d.countRoughly(ctx, s, ids)
		}
		if errors.Is(err, errNotKept) {
			k.WantsSubordinates.Store(true)
			return nil, false, nil
		}
		return ns, err == nil, err
	}
}

// countExactly returns the numbers of subordinates that entries have in exactly this
// state.
func (d *Definition) countExactly(ctx context.Context, s *state.Snapshot, ids []entry.ID) (ns []catalog.Count, err error) {
	ls := d.lanes(s.Partition.DB)
	err = d.whileKept(ctx, s, ls, func(name string) error {
		r, err := d.open(ctx, s, name, ls)
		if err != nil {
			return err
		}
		ns, err = r.count(ids...)
		return err
	})
	return ns, err
}

// countRoughly returns the numbers of subordinates that entries had at the end of the newest
// step, which may be before or after the state s. In a branch, these are the numbers of the trunk.
func (d *Definition) countRoughly(ctx context.Context, s *state.Snapshot, ids []entry.ID) ([]catalog.Count, error) {
	c, err := d.keptCells(ctx, s, d.lanes(s.Partition.DB))
	if err != nil {
		return nil, err
	}
	r := &reading{ctx: ctx, d: d, t: s.Partition.DB.Table(c.generation.Table), f: finished{c.cursors[0].W}}
	return r.count(ids...)
}

func (r *reading) count(ids ...entry.ID) ([]catalog.Count, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = countKey(id)
	}
	ps, err := r.parts(keys...)
	if err != nil {
		return nil, err
	}
	ns := make([]catalog.Count, len(ids))
	for i, p := range ps {
		n := catalog.Count{Children: p.n}
		if len(p.sums) > 0 {
			n.All = p.sums[0].Int64()
		}
		if n.Children < 0 || n.All < n.Children {
			return nil, fmt.Errorf("view %s: entry %s has %d children and %d entries below it: %w", r.d.Name, ids[i], n.Children, n.All, table.ErrCorrupt)
		}
		ns[i] = n
	}
	return ns, nil
}

func countKey(id entry.ID) string { return string(countRow) + string(id[:]) }

// wholeTree returns the counts of all entries in a state. It calls meanwhile() after every
// lookEvery entries.
func wholeTree(ctx context.Context, s *state.Snapshot, meanwhile func()) (parts, error) {
	children := map[entry.ID]int64{}
	rows := 0
	for row, err := range s.Reader.Scan(ctx, s.Partition.Tree, table.Range{}, table.Select{Families: []table.Family{tree.TreeInfo}}) {
		if err != nil {
			return nil, err
		}
		if rows++; rows%lookEvery == 0 {
			meanwhile()
		}
		if _, ok := tree.ID(row); ok {
			children[tree.Parent(row.Key)]++
		}
	}
	ps, w := parts{}, ways{s: s}
	for id, n := range children {
		way, err := w.from(ctx, id)
		if err != nil {
			return nil, err
		}
		ps.addCount(way, n, n)
	}
	return ps, nil
}

// addCount changes the counts of the entries on a way (see ways). It adds the parameter
// children to the number of children of the first entry. It adds the parameter total to the
// number of entries below each entry on the way.
func (ps parts) addCount(way []entry.ID, children, total int64) {
	for i, id := range way {
		p := &part{sums: []*big.Int{big.NewInt(total)}}
		if i == 0 {
			p.n = children
		}
		ps.add(countKey(id), p, 1)
	}
}

// ways finds the way from an entry up to the root, and remembers the parents that it has
// read.
type ways struct {
	s     *state.Snapshot
	above map[entry.ID]entry.ID
}

// The method "from" returns an entry and all entries above it.
func (w *ways) from(ctx context.Context, id entry.ID) (way []entry.ID, err error) {
	for {
		way = append(way, id)
		if id == catalog.Root {
			return way, nil
		}
		above, ok := w.above[id]
		if !ok {
			node, err := w.s.Node(ctx, id)
			if err == nil && node == nil {
				err = fmt.Errorf("entry %s has entries below it and does not exist: %w", id, table.ErrCorrupt)
			}
			if err != nil {
				return nil, err
			}
			if w.above == nil {
				w.above = map[entry.ID]entry.ID{}
			}
			above = node.Parent
			w.above[id] = above
		}
		id = above
	}
}

// The type placed is an entry that was added, deleted or moved to another parent.
type placed struct {
	id           entry.ID
	before, then []entry.ID // the way from the entry's parent up to the root, in the older and the newer state; nil: the entry does not exist there
	weight       int64      // number of entries in the subtree that is added, deleted or moved
}

// countDifference returns the counts in the newer state, less the counts in the older state.
// First it subtracts each deleted or moved subtree from the counts of the old superiors, the
// deepest subtree first. A subtree does not include entries that were subtracted before. Then
// countDifference adds each moved subtree and each added entry to the counts of the new
// superiors. The number of entries in a subtree is read from the table, as of the older state.
// So the cost of moving a subtree depends on its depth, and not on the number of its entries.
func countDifference(ctx context.Context, older, newer *state.Snapshot, t *touched, kept *reading) (parts, error) {
	if t.all {
		before, err := wholeTree(ctx, older, func() {})
		if err != nil {
			return nil, err
		}
		ps, err := wholeTree(ctx, newer, func() {})
		for key, p := range before {
			ps.add(key, p, -1)
		}
		return ps, err
	}
	all, err := findPlaced(ctx, older, newer, t)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(len(b.before), len(a.before)) })
	ps, taken := parts{}, map[entry.ID]int64{}
	for i := range all {
		x := &all[i]
		x.weight = 1
		if x.before == nil {
			continue
		}
		// If x was deleted, every other entry of the subtree was deleted or moved too, and is
		// itself an element of the slice all.
		if x.then != nil {
			n, err := kept.count(x.id)
			if err != nil {
				return nil, err
			}
			x.weight += n[0].All - taken[x.id]
		}
		for _, id := range x.before {
			taken[id] += x.weight
		}
		ps.addCount(x.before, -1, -x.weight)
	}
	for i := range all {
		ps.addCount(all[i].then, 1, all[i].weight)
	}
	return ps, nil
}

// findPlaced returns the entries that exist in only one of the two states, or have
// different parents in them.
func findPlaced(ctx context.Context, from, to *state.Snapshot, t *touched) (all []placed, err error) {
	before, then := ways{s: from}, ways{s: to}
	ids := slices.Collect(maps.Keys(t.placed))
	if err := from.ReadItems(ctx, ids, none); err != nil {
		return nil, err
	}
	if err := to.ReadItems(ctx, ids, none); err != nil {
		return nil, err
	}
	for _, id := range ids {
		a, err := from.Node(ctx, id)
		if err != nil {
			return nil, err
		}
		b, err := to.Node(ctx, id)
		if err != nil {
			return nil, err
		}
		x := placed{id: id}
		switch {
		case a == nil && b == nil || a != nil && b != nil && a.Parent == b.Parent:
			continue
		case a != nil:
			if x.before, err = before.from(ctx, a.Parent); err != nil {
				return nil, err
			}
		}
		if b != nil {
			if x.then, err = then.from(ctx, b.Parent); err != nil {
				return nil, err
			}
		}
		all = append(all, x)
	}
	return all, nil
}
