package history

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/erase"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// ForReader returns what a reader may see of a state.
type ForReader func(ctx context.Context, s *partition.Snapshot) (Visible, error)

// Visible returns what a reader may see of an entry of one state. It returns nil if there
// is no such entry, or if the reader does not see the entry.
type Visible func(ctx context.Context, id entry.ID) (*VisibleEntry, error)

// A VisibleEntry is what a reader may see of an entry.
type VisibleEntry struct {
	Name       dn.DN
	Attributes []entry.Attribute // without secret attributes
	// Secret reports whether the reader may learn that a secret attribute has changed.
	Secret func(attribute string) (bool, error)

	id   entry.ID
	node string // the parent and the RDN, as bytes
}

// ChangesSeen is [Changes] for a reader who may not see everything. A change is the
// difference between what the reader may see before the commit and what the reader may
// see after the commit. So a change shows nothing that the reader could not find out by
// comparing the two states. An entry that becomes visible appears as an add, and an
// entry that becomes invisible appears as a delete. If the reader may see no difference,
// there is no change.
func ChangesSeen(ctx context.Context, p *partition.Partition, commits iter.Seq2[*changestream.Change, error], lens ForReader) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for c, err := range commits {
			var all []*Change
			if err == nil {
				all, err = seenOf(ctx, p, c, lens)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for i, x := range all {
				x.Commit, x.Number = c, i
				if !yield(x, nil) {
					return
				}
			}
		}
	}
}

// seenOf returns what a reader may see of the changes of one commit. The states before and
// after an erasure are equal, because an erasure only changes the past. So no reader sees a
// change.
func seenOf(ctx context.Context, p *partition.Partition, c *changestream.Change, lens ForReader) ([]*Change, error) {
	note := write.ParseMessage(c.Message)
	if slices.ContainsFunc(note.Operations, func(o write.Operation) bool { return o.Kind == erase.Erasure }) {
		return nil, nil
	}
	w := &seenWalk{commit: c, note: &note}
	for _, side := range []struct {
		at   table.Revision
		s    **partition.Snapshot
		look *Visible
	}{{c.Revision - 1, &w.before, &w.was}, {c.Revision, &w.after, &w.is}} {
		s, err := state.At(ctx, p, side.at)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		*side.s = s
		if *side.look, err = lens(ctx, s); err != nil {
			return nil, err
		}
	}
	if c.All {
		return w.unlisted(ctx)
	}
	err := w.run(ctx)
	return w.out, err
}

// A seenWalk produces what a reader may see of the changes of one commit.
type seenWalk struct {
	commit        *changestream.Change
	note          *write.Message
	before, after *partition.Snapshot
	was, is       Visible
	renames       [][2]dn.DN // the renames that out contains, as old and new names
	out           []*Change
}

// A glance is what a reader may see of an entry before and after a commit. It contains nil
// for a state in which the reader sees no such entry.
type glance struct{ was, is *VisibleEntry }

func (w *seenWalk) run(ctx context.Context) error {
	var gone, others, late []glance
	for _, id := range unique(w.commit.IDs) {
		if id == catalog.SubschemaID {
			if err := w.subschema(ctx); err != nil {
				return err
			}
			continue
		}
		g, err := w.glance(ctx, id)
		switch {
		case err != nil:
			return err
		case g.is != nil:
			others = append(others, g)
		case g.was != nil:
			gone = append(gone, g)
		}
	}
	// The order depends only on names that the reader sees.
	slices.SortFunc(gone, func(a, b glance) int { return byDepth(b.was, a.was, w.before.Schema()) })
	slices.SortFunc(others, func(a, b glance) int { return byDepth(a.is, b.is, w.after.Schema()) })
	for _, g := range gone {
		if w.emptied(g.was, others) { // the entries below this entry must be moved away first
			late = append(late, g)
			continue
		}
		w.emit(g.was, &op.Delete{})
	}
	for _, g := range others {
		if err := w.change(g); err != nil {
			return err
		}
	}
	for _, g := range late {
		w.emit(g.was, &op.Delete{})
	}
	return nil
}

func unique(ids []entry.ID) (once []entry.ID) {
	seen := map[entry.ID]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once
}

func byDepth(a, b *VisibleEntry, s *schema.Schema) int {
	return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(Key(a.Name.String(), s), Key(b.Name.String(), s)))
}

// emptied reports whether an entry that exists after the commit was below the given
// entry before the commit.
func (w *seenWalk) emptied(above *VisibleEntry, others []glance) bool {
	return slices.ContainsFunc(others, func(g glance) bool {
		return g.was != nil && len(g.was.Name) > len(above.Name) && w.ends(g.was.Name, above.Name)
	})
}

// ends reports whether name equals the parameter end or is below it.
func (w *seenWalk) ends(name, end dn.DN) bool {
	n := len(name) - len(end)
	return n >= 0 && Key(name[n:].String(), w.before.Schema()) == Key(end.String(), w.before.Schema())
}

// glance looks at an entry before and after the commit.
func (w *seenWalk) glance(ctx context.Context, id entry.ID) (g glance, err error) {
	if g.was, err = look(ctx, w.before, w.was, id); err != nil {
		return g, err
	}
	g.is, err = look(ctx, w.after, w.is, id)
	return g, err
}

func look(ctx context.Context, s *partition.Snapshot, l Visible, id entry.ID) (*VisibleEntry, error) {
	node, err := changestream.Node(ctx, s, id)
	if err != nil || node == nil {
		return nil, err
	}
	sight, err := l(ctx, id)
	if err != nil || sight == nil {
		return nil, err
	}
	sight.id, sight.node = id, string(node.Parent[:])+node.UpRDN
	return sight, nil
}

// emit adds a change of an entry, with the name that the entry has at this point of the walk.
// emit also sets that name in the request.
func (w *seenWalk) emit(at *VisibleEntry, r op.Request) *Change {
	name := at.Name
	if _, ok := r.(*op.Add); !ok {
		for _, renamed := range w.renames {
			if w.ends(name, renamed[0]) {
				name = slices.Concat(name[:len(name)-len(renamed[0])], renamed[1])
			}
		}
	}
	text := name.String()
	*op.NameOf(r) = text
	x := &Change{Revision: w.commit.Revision, By: w.note.By, Record: Record{ID: at.id, Name: text, Request: r}, Kind: kindOf(r)}
	w.out = append(w.out, x)
	return x
}

// change adds the changes of an entry that the reader sees after the commit.
func (w *seenWalk) change(g glance) error {
	if g.was == nil {
		x := w.emit(g.is, &op.Add{Attributes: userAttributes(g.is.Attributes)})
		return w.secrets(x, g.is)
	}
	before, moved := g.was.Attributes, g.was.node != g.is.node && g.was.Name.String() != g.is.Name.String()
	if moved {
		before = w.rename(g)
	}
	modified := &op.Modify{Changes: delta(before, g.is.Attributes)}
	x := w.emit(g.was, modified)
	if err := w.secrets(x, g.is); err != nil {
		return err
	}
	touched := !moved && !slices.EqualFunc(before, g.is.Attributes, equalAttributes)
	if len(modified.Changes) == 0 && len(x.Secrets) == 0 && !touched {
		w.out = w.out[:len(w.out)-1]
	}
	return nil
}

// rename adds a rename, and returns the attributes that the entry has after the rename, as
// far as the reader sees them.
func (w *seenWalk) rename(g glance) []entry.Attribute {
	old, new := g.was.Name, g.is.Name
	r := &op.ModifyDN{NewRDN: new[0].String(), DeleteOldRDN: keepsNone(g.is.Attributes, w.after.Schema(), old[0], new[0])}
	if old.Parent().String() != new.Parent().String() {
		superior := new.Parent().String()
		r.NewSuperior = &superior
	}
	x := w.emit(g.was, r)
	if from, err := dn.Parse(x.Name); err == nil {
		w.renames = append(w.renames, [2]dn.DN{from, new})
	}
	shown := slices.DeleteFunc(slices.Clone(new[0]), func(v dn.AVA) bool {
		t := w.after.Schema().Attribute(v.Type)
		a := find(g.is.Attributes, &entry.Attribute{Type: t})
		return t == nil || a == nil || !has(a, v.Value)
	})
	return renamed(g.was.Attributes, w.before.Schema(), old[0], shown, r.DeleteOldRDN)
}

func equalAttributes(a, b entry.Attribute) bool {
	return a.Type.OID == b.Type.OID && a.Options == b.Options && slices.EqualFunc(a.Values, b.Values, bytes.Equal)
}

// secrets sets x.Secrets to the changed secret attributes that the reader may learn of.
func (w *seenWalk) secrets(x *Change, is *VisibleEntry) error {
	for _, name := range secretsOf(w.note, x, w.after.Schema()) {
		shown, err := is.Secret(name)
		if err != nil {
			return err
		}
		if shown {
			x.Secrets = append(x.Secrets, name)
		}
	}
	return nil
}

// subschema adds the change of the schema, which everybody may read.
func (w *seenWalk) subschema(ctx context.Context) error {
	d := &Difference{From: w.before, To: w.after, IDs: []entry.ID{catalog.SubschemaID}, Touched: true}
	for r, err := range d.Records(ctx) {
		if err != nil {
			return err
		}
		w.out = append(w.out, &Change{Revision: w.commit.Revision, By: w.note.By, Record: *r, Kind: kindOf(r.Request)})
	}
	return nil
}

// unlisted is for a commit that changed too many entries to list. If the reader sees a
// difference, unlisted returns one change without a name.
func (w *seenWalk) unlisted(ctx context.Context) ([]*Change, error) {
	for _, s := range []*partition.Snapshot{w.after, w.before} {
		all := partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}
		for found, err := range search.Search(ctx, s, all) {
			if err != nil {
				return nil, err
			}
			differs, err := w.differs(ctx, found.ID)
			if err != nil {
				return nil, err
			}
			if differs {
				x := &Change{Revision: w.commit.Revision, By: w.note.By}
				if len(w.note.Operations) > 0 {
					x.Kind = w.note.Operations[0].Kind
				}
				return []*Change{x}, nil
			}
		}
	}
	return nil, nil
}

// differs reports whether the reader sees that the commit changed an entry.
func (w *seenWalk) differs(ctx context.Context, id entry.ID) (bool, error) {
	last, err := changestream.Written(ctx, w.after, id)
	if err != nil || last != 0 && last != w.commit.Revision {
		return false, err
	}
	g, err := w.glance(ctx, id)
	switch {
	case err != nil:
		return false, err
	case g.was == nil || g.is == nil:
		return g.was != g.is, nil
	}
	return g.was.node != g.is.node || !slices.EqualFunc(g.was.Attributes, g.is.Attributes, equalAttributes), nil
}
