package branch

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// explain converts clashes, which are about rows, to conflicts, which are about entries.
func (b *Branch) explain(ctx context.Context, clashes []txn.Clash) ([]Conflict, error) {
	x, err := b.newExplanation(ctx)
	if err != nil {
		return nil, err
	}
	defer x.close()
	for i := range clashes {
		if err := x.add(ctx, &clashes[i]); err != nil {
			return nil, err
		}
	}
	return x.sorted(), nil
}

// An explanation collects the conflicts of a branch. It reads three states: the base, the
// branch's own state, and the newest state outside of the branch.
type explanation struct {
	base, own, newest *state.Snapshot
	places            map[string]*Conflict // by entry id, or by About
	by                map[table.Revision]write.By
}

func (b *Branch) newExplanation(ctx context.Context) (*explanation, error) {
	base, err := b.Base(ctx)
	if err != nil {
		return nil, err
	}
	own, err := b.Snapshot(ctx)
	if err != nil {
		base.Close()
		return nil, err
	}
	return &explanation{base: base, own: own, newest: state.Newest(b.k), places: map[string]*Conflict{}, by: map[table.Revision]write.By{}}, nil
}

func (x *explanation) close() {
	for _, s := range []*state.Snapshot{x.base, x.own, x.newest} {
		s.Close()
	}
}

// sorted returns the conflicts, sorted by name.
func (x *explanation) sorted() []Conflict {
	all := make([]Conflict, 0, len(x.places))
	for _, c := range x.places {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Conflict) int {
		return strings.Compare(a.Name+"\x00"+a.About, b.Name+"\x00"+b.About)
	})
	return all
}

func (x *explanation) add(ctx context.Context, clash *txn.Clash) error {
	by, ok := x.by[clash.With]
	if !ok {
		rec, err := x.newest.Partition.DB.Record(ctx, clash.With)
		if err != nil {
			return err
		}
		by = write.ParseMessage(rec.Message).By
		x.by[clash.With] = by
	}
	id, about, err := x.subject(ctx, clash)
	if err != nil {
		return err
	}
	key := string(id[:])
	if id == entry.Root {
		key += about
	}
	c := x.places[key]
	if c == nil {
		c = &Conflict{ID: id, About: about}
		if id != entry.Root {
			if err := x.describe(ctx, c); err != nil {
				return err
			}
		}
		x.places[key] = c
	}
	if clash.With > c.With {
		c.With, c.By = clash.With, by
	}
	return nil
}

// subject returns the entry that a clash is about. If the clash is not about an entry, it
// returns entry.Root and a text.
func (x *explanation) subject(ctx context.Context, clash *txn.Clash) (id entry.ID, about string, err error) {
	row := clash.Row
	switch {
	case clash.Table == x.newest.Partition.SettingsTable.Name():
		return id, "the schema or settings of the directory changed, which entries must follow", nil
	case clash.Table == write.UniqueTable:
		return id, x.unique(row), nil
	case len(row) < len(id):
		return id, "rows of " + clash.Table, nil
	}
	copy(id[:], row)
	if clash.Table == tree.Name {
		return x.named(ctx, id, dn.Norm(row[len(id):]))
	}
	if id == cache.Moves {
		return entry.Root, "entries with entries below them were moved on both sides", nil
	}
	return id, "", nil
}

// unique describes a clash in the table of the marks of unique values.
func (x *explanation) unique(row []byte) string {
	if rest := row[min(len(row), len(entry.ID{})):]; len(rest) > 0 {
		oid, _, _ := bytes.Cut(rest, []byte{0})
		name := string(oid)
		if t := x.newest.Schema().Attribute(name); t != nil {
			name = t.Name()
		}
		return fmt.Sprintf("a value of %s, which is unique, was added on both sides", name)
	}
	return "entries moved to where a value must be unique"
}

// named returns the entry that has the given parent and RDN in the branch, or else in the
// newest state, or else at the base.
func (x *explanation) named(ctx context.Context, parent entry.ID, rdn dn.Norm) (id entry.ID, about string, err error) {
	for _, s := range []*state.Snapshot{x.own, x.newest, x.base} {
		id, ok, err := s.Resolve(ctx, parent, rdn)
		if err != nil || ok {
			return id, "", err
		}
	}
	above, err := x.name(ctx, parent)
	return entry.Root, "a name below " + above + " was used for different entries on both sides", err
}

// name returns the name that an entry has in the newest state, or else in the branch, or
// else at the base.
func (x *explanation) name(ctx context.Context, id entry.ID) (string, error) {
	for _, s := range []*state.Snapshot{x.newest, x.own, x.base} {
		node, err := s.Node(ctx, id)
		if err != nil {
			return "", err
		}
		if node != nil {
			name, err := s.Name(ctx, id)
			if err != nil {
				return "", err
			}
			return name.String(), nil
		}
	}
	return id.String(), nil
}

// describe sets the name of the conflict's entry, and what both sides changed.
func (x *explanation) describe(ctx context.Context, c *Conflict) (err error) {
	if c.Name, err = x.name(ctx, c.ID); err != nil {
		return err
	}
	nodes, entries, err := x.sides(ctx, c.ID)
	if err != nil {
		return err
	}
	c.About = fate(nodes)
	if nodes[1] == nil || nodes[2] == nil {
		return nil
	}
	if c.Attributes = differing(entries); len(c.Attributes) == 0 && c.About == "" {
		c.About = "changed on both sides"
	}
	return nil
}

// fate describes how the places of an entry differ at the base, in the branch and now.
func fate(n [3]*master.Node) string {
	base, own, newest := n[0], n[1], n[2]
	switch {
	case own == nil && newest == nil:
		return "deleted on both sides"
	case own == nil:
		return "deleted in the branch and changed outside"
	case newest == nil && base == nil:
		return "another entry was given its name outside"
	case newest == nil:
		return "deleted outside and changed in the branch"
	case base == nil:
		return "added on both sides"
	case moved(base, own) && moved(base, newest):
		return "renamed or moved on both sides"
	case moved(base, own) || moved(base, newest):
		return "renamed or moved on one side and changed on the other"
	}
	return ""
}

func moved(a, b *master.Node) bool { return a.Parent != b.Parent || a.UpRDN != b.UpRDN }

// differing returns the attributes that both sides changed in different ways. e contains the
// entry in three states: at the base (nil if the entry did not exist there), in the branch,
// and now.
func differing(e [3]*entry.Entry) (all []Differing) {
	seen := map[string]bool{}
	for _, x := range e {
		if x == nil {
			continue
		}
		for i := range x.Attributes {
			a := &x.Attributes[i]
			d := a.Description()
			if seen[d] || a.Type.NoUserModification && !a.Type.Secret() {
				continue
			}
			seen[d] = true
			base, own, newest := valuesOf(e[0], d), valuesOf(e[1], d), valuesOf(e[2], d)
			if same(base, own) || same(base, newest) || same(own, newest) {
				continue
			}
			if a.Type.Secret() {
				base, own, newest = nil, nil, nil
			}
			all = append(all, Differing{d, base, own, newest})
		}
	}
	slices.SortFunc(all, func(a, b Differing) int { return strings.Compare(a.Description, b.Description) })
	return all
}

func valuesOf(e *entry.Entry, description string) [][]byte {
	if a := attributeOf(e, description); a != nil {
		return a.Values
	}
	return nil
}

// The function "same" reports whether two attributes have the same values, in any order.
func same(a, b [][]byte) bool {
	if len(a) != len(b) || slices.EqualFunc(a, b, bytes.Equal) {
		return len(a) == len(b)
	}
	a, b = slices.SortedFunc(slices.Values(a), bytes.Compare), slices.SortedFunc(slices.Values(b), bytes.Compare)
	return slices.EqualFunc(a, b, bytes.Equal)
}
