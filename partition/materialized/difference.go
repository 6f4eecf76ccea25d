package materialized

import (
	"context"
	"maps"
	"slices"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// noID is the zero id, which no entry has.
var noID entry.ID

// A span contains the revisions of the first and the last of the commits that touched an entry.
type span struct{ first, last table.Revision }

// touched describes what some commits touched.
type touched struct {
	ids map[entry.ID]span
	// placed contains the ids that were touched by commits with an operation other than
	// modify. An entry that is in ids but not in placed has kept its place in the tree.
	placed map[entry.ID]bool
	all    bool           // a commit, such as a load, does not list what it touched
	moves  bool           // a commit renamed or moved entries
	last   table.Revision // revision of the last of the commits
	cut    bool           // there may be more commits, which touchedAfter has not read
}

func (t *touched) add(c *changestream.Change) {
	if t.ids == nil {
		t.ids, t.placed = map[entry.ID]span{}, map[entry.ID]bool{}
	}
	places := !write.OnlyModifies(c.Message)
	for _, id := range c.IDs {
		by, again := t.ids[id]
		if !again {
			by.first = c.Revision
		}
		t.ids[id] = span{min(by.first, c.Revision), max(by.last, c.Revision)}
		if places {
			t.placed[id] = true
		}
	}
	t.all, t.moves, t.last = t.all || c.All, t.moves || c.Renames, max(t.last, c.Revision)
}

// touchedAfter returns what was touched by the commits that a state shows and that are newer
// than a revision. If most is zero, touchedAfter reads all these commits. Otherwise it stops,
// and sets cut, after the first commit that raises the number of touched entries above most or
// that does not list its entries.
func touchedAfter(ctx context.Context, s *state.Snapshot, r table.Revision, most int) (t touched, err error) {
	for c, err := range changestream.ShownAfter(ctx, s, r) {
		if err != nil {
			return t, err
		}
		t.add(c)
		if t.cut = most > 0 && (len(t.ids) > most || c.All); t.cut {
			break
		}
	}
	return t, nil
}

// touchedAfterEach returns, for each lane, what was touched by the commits that a state
// shows and that are newer than the lane's revision in f. It returns errNotKept if the number
// of entries touched for one lane exceeds most, or if a commit does not list what it touched.
func touchedAfterEach(ctx context.Context, s *state.Snapshot, f finished, most int) ([]touched, error) {
	ts := make([]touched, len(f))
	for c, err := range changestream.AllAfter(ctx, s, f.Low()) {
		if err != nil {
			return nil, err
		}
		for i := range ts {
			if c.Revision > f[i] {
				ts[i].add(c)
			}
			if len(ts[i].ids) > most || ts[i].all {
				return nil, errNotKept
			}
		}
	}
	return ts, nil
}

// difference returns the parts of a lane in the newer state, less the parts of the lane in the
// older state. t describes what was touched by the commits that only the newer state shows. The
// parameter "kept" reads the records as of the older state.
func (l lane) difference(ctx context.Context, d *Definition, older, newer *state.Snapshot, t *touched, kept *reading) (parts, error) {
	if d.Kind == Subordinates {
		return countDifference(ctx, older, newer, t, kept)
	}
	baseOlder, baseNewer, err := kept.bases(ctx, older, newer, t)
	if err != nil {
		return nil, err
	}
	a := affected{ids: map[entry.ID]bool{}}
	if t.all || baseOlder != baseNewer {
		err = a.below(ctx, older, baseOlder)
		if err == nil {
			err = a.below(ctx, newer, baseNewer)
		}
	} else if baseNewer != (entry.ID{}) {
		err = a.touched(ctx, older, newer, baseNewer, t)
	}
	if err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(slices.Collect(maps.Keys(a.ids)), func(id entry.ID) bool { return !l.has(id) })
	if err := older.ReadItems(ctx, ids, d.needs); err != nil {
		return nil, err
	}
	if err := newer.ReadItems(ctx, ids, d.needs); err != nil {
		return nil, err
	}
	ps := parts{}
	for _, id := range ids {
		if !t.all && !t.moves && baseOlder == baseNewer && d.sameIn(older.Items[id], newer.Items[id]) {
			continue
		}
		if err := d.giveBelow(ctx, older, baseOlder, id, -1, ps); err != nil {
			return nil, err
		}
		if err := d.giveBelow(ctx, newer, baseNewer, id, 1, ps); err != nil {
			return nil, err
		}
	}
	return ps, nil
}

// sameIn reports whether the items of an entry show that the entry has the same parts in two
// states: the items have the same parent, attributes in the same order, and the same values of
// the types that the definition needs. An item is nil if it is not in memory.
func (d *Definition) sameIn(a, b *cache.Item) bool {
	if a == nil || b == nil || a.Wide() || b.Wide() || a.Omits().Concerns(d.needs) || b.Omits().Concerns(d.needs) || a.Node.Parent != b.Node.Parent {
		return false
	}
	return a.Packed.Same(b.Packed, func(t *schema.AttributeType) bool { return slices.ContainsFunc(d.needs, t.Is) })
}

// bases returns the ids of the view's base in the older and in the newer state. The base is the
// same in both if no commit between them renamed or moved an entry, or added the base.
func (r *reading) bases(ctx context.Context, older, newer *state.Snapshot, t *touched) (was, is entry.ID, err error) {
	if r.base == nil {
		if is, err = r.d.baseIn(ctx, newer); err != nil {
			return was, is, err
		}
		r.base = &is
	}
	is = *r.base
	if is != (entry.ID{}) && !t.all && !t.moves && !t.placed[is] {
		return is, is, nil
	}
	was, err = r.d.baseIn(ctx, older)
	return was, is, err
}

// baseIn returns the id of the view's base in a state, or the zero ID if the state has no
// such entry.
func (d *Definition) baseIn(ctx context.Context, s *state.Snapshot) (entry.ID, error) {
	pl, err := s.Locate(ctx, d.base)
	if err != nil || !pl.Found {
		return entry.ID{}, err
	}
	return pl.ID, nil
}

// giveBelow is like give, but does nothing if base is the zero id, because the view's base
// does not exist then.
func (d *Definition) giveBelow(ctx context.Context, s *state.Snapshot, base, id entry.ID, sign int64, ps parts) error {
	if base == (entry.ID{}) {
		return nil
	}
	return d.give(ctx, s, base, id, sign, ps)
}

// affected collects the entries whose parts may differ between two states.
type affected struct{ ids map[entry.ID]bool }

// touched adds the touched entries. If an entry was moved into or out of the base's subtree,
// touched also adds all entries below the moved entry. So touched finds every entry that
// entered or left the subtree: either a commit moved and thus touched the entry itself, or the
// entry is below a moved entry.
func (a *affected) touched(ctx context.Context, from, to *state.Snapshot, base entry.ID, t *touched) error {
	for id := range t.ids {
		a.ids[id] = true
		if !t.moves {
			continue
		}
		before, err := from.Node(ctx, id)
		if err != nil {
			return err
		}
		after, err := to.Node(ctx, id)
		if err != nil {
			return err
		}
		if before == nil || after == nil || before.Parent == after.Parent {
			continue
		}
		was, err := from.Within(ctx, id, before.Parent, base)
		if err != nil {
			return err
		}
		is, err := to.Within(ctx, id, after.Parent, base)
		if err != nil {
			return err
		}
		if was == is {
			continue
		}
		if err := a.below(ctx, from, id); err != nil {
			return err
		}
		if err := a.below(ctx, to, id); err != nil {
			return err
		}
	}
	return nil
}

// The method "below" adds an entry and all entries below it.
func (a *affected) below(ctx context.Context, s *state.Snapshot, id entry.ID) error {
	if id == (entry.ID{}) {
		return nil
	}
	q := search.Query{Base: id, Scope: op.WholeSubtree, Filter: filter.Const(filter.True), Only: none}
	for r, err := range search.Search(ctx, s, q) {
		if err != nil {
			return err
		}
		a.ids[r.ID] = true
	}
	return nil
}
