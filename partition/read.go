package partition

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

var root = entry.Root

// A Located is where a name was found: the entry's id and its name in stored
// spelling.
type Located struct {
	ID     entry.ID
	Parent entry.ID
	Name   string
}

// wholeEntry selects what an item holds.
var wholeEntry = []table.Family{master.TreeInfo, master.UpAttributes}

// maxColumns is how many cells of an entry are read at once. Entries with more
// are wide: their attributes are read by column ranges, and not kept.
const maxColumns = 512

// item reads an entry, from the cache where it is still right. Nil: there is
// none.
func (s *Snapshot) item(ctx context.Context, id entry.ID) (*item, error) {
	if s.cached {
		if i, ok := s.catalog.cache.entries.GetIfPresent(id); ok {
			if s.at.Unchanged(id, i.asOf) {
				return i, nil
			}
			if i.entry == nil { // was wide, and likely is: do not read it to find out
				return s.wideItem(ctx, id)
			}
		}
	}
	row, err := s.r.Get(ctx, s.p.master, master.Row(id), table.Select{Families: wholeEntry, MaxCells: maxColumns})
	if err != nil {
		return nil, err
	}
	return s.decode(ctx, id, row)
}

// current gives the cached item of an entry if it is right, or nil.
func (s *Snapshot) current(id entry.ID) *item {
	if s.cached {
		if i, ok := s.catalog.cache.entries.GetIfPresent(id); ok && s.at.Unchanged(id, i.asOf) {
			return i
		}
	}
	return nil
}

// decode makes an item of a master row and keeps it.
func (s *Snapshot) decode(ctx context.Context, id entry.ID, row table.Row) (*item, error) {
	if len(row.Cells) >= maxColumns {
		return s.wideItem(ctx, id)
	}
	node, ok := master.DecodeNode(row)
	if !ok {
		return nil, nil
	}
	attributes, err := master.Decode(row, s.catalog.schema)
	if err != nil {
		return nil, err
	}
	i := &item{asOf: s.at.Ordinal(), node: node}
	i.entry = &entry.Entry{ID: id, Attributes: s.withID(id, attributes)}
	s.keep(id, i)
	return i, nil
}

// wideItem reads only where a wide entry stands.
func (s *Snapshot) wideItem(ctx context.Context, id entry.ID) (*item, error) {
	row, err := s.r.Get(ctx, s.p.master, master.Row(id), table.Select{Families: []table.Family{master.TreeInfo}})
	if err != nil {
		return nil, err
	}
	node, ok := master.DecodeNode(row)
	if !ok {
		return nil, nil
	}
	i := &item{asOf: s.at.Ordinal(), node: node}
	s.keep(id, i)
	return i, nil
}

func (s *Snapshot) keep(id entry.ID, i *item) {
	if s.cached && i.asOf != 0 && i.weight() < largeEntry {
		s.catalog.cache.entries.Set(id, i)
	}
}

// withID adds entryUUID, which is not stored: the id is it.
func (s *Snapshot) withID(id entry.ID, as []entry.Attribute) []entry.Attribute {
	return append(as, entry.Attribute{Type: s.catalog.entryUUID, Values: [][]byte{[]byte(id.String())}})
}

// node reads where an entry stands. Nil: there is no such entry.
func (s *Snapshot) node(ctx context.Context, id entry.ID) (*master.Node, error) {
	i, err := s.item(ctx, id)
	if err != nil || i == nil {
		return nil, err
	}
	return &i.node, nil
}

// child reads the id in one row of the tree.
func (s *Snapshot) child(ctx context.Context, key []byte) (id entry.ID, ok bool, err error) {
	row, err := s.r.Get(ctx, s.p.tree, key, table.Select{Families: []table.Family{tree.TreeInfo}})
	if err != nil {
		return id, false, err
	}
	id, ok = tree.ID(row)
	return id, ok, nil
}

// resolve finds the child of an entry by its normalised RDN.
func (s *Snapshot) resolve(ctx context.Context, parent entry.ID, rdn dn.Norm) (id entry.ID, ok bool, err error) {
	if s.cached {
		key := childKey{parent, rdn}
		if id, ok := s.catalog.cache.children.GetIfPresent(key); ok {
			node, err := s.node(ctx, id)
			if err != nil {
				return id, false, err
			}
			if node != nil && node.Parent == parent && node.NormRDN == rdn {
				return id, true, nil
			}
		}
		defer func() {
			if ok && err == nil {
				s.catalog.cache.children.Set(key, id)
			}
		}()
	}
	return s.child(ctx, tree.Key(parent, rdn))
}

// place is a name looked up: the entry if it exists, or how far it got.
type place struct {
	Located
	norms []dn.Norm
	rdn   dn.Norm // its own, as a key under its parent
	found bool
	depth int      // RDNs that exist
	last  entry.ID // the deepest entry that exists
}

// locate walks a name down from its naming context.
func (s *Snapshot) locate(ctx context.Context, name dn.DN) (pl place, err error) {
	if pl.norms, err = name.Normalize(s.catalog.schema); err != nil {
		return pl, problem(InvalidName, "name %s: %v", name, err)
	}
	if len(pl.norms) == 0 {
		pl.found = true
		return pl, nil
	}
	c := s.catalog.contextOf(pl.norms)
	if c == nil {
		return pl, nil
	}
	id, rdn, left := root, c.rdn, len(pl.norms)-len(c.norms)
	for {
		child, ok, err := s.resolve(ctx, id, rdn)
		if err != nil {
			return pl, err
		}
		pl.Parent, pl.rdn = id, rdn
		if !ok {
			return pl, nil
		}
		id = child
		pl.last, pl.depth = id, len(pl.norms)-left
		if left == 0 {
			pl.ID, pl.found = id, true
			return pl, nil
		}
		left--
		rdn = pl.norms[left]
	}
}

// parentFound reports whether all but the name's own RDN exists (or the name is
// a naming context's).
func (pl *place) parentFound(c *catalog) bool {
	if pl.found {
		return true
	}
	x := c.contextOf(pl.norms)
	return x != nil && (len(x.norms) == len(pl.norms) || pl.depth == len(pl.norms)-1)
}

// Find resolves a name. A missing one is an *Error with problem NoSuchEntry;
// its Matched is the deepest ancestor that exists. The root (an empty name) is
// entry.Root.
func (s *Snapshot) Find(ctx context.Context, name dn.DN) (Located, error) {
	pl, err := s.locate(ctx, name)
	if err != nil {
		return Located{}, err
	}
	if !pl.found {
		return Located{}, s.missing(ctx, name, &pl)
	}
	pl.Name, err = s.Name(ctx, pl.ID)
	return pl.Located, err
}

func (s *Snapshot) missing(ctx context.Context, name dn.DN, pl *place) error {
	e := problem(NoSuchEntry, "no entry %s", name)
	switch {
	case len(s.catalog.contexts) == 0:
		e.Text = "this directory has no naming context yet: add one with --suffix"
	case len(name) == 0:
		e.Text = "nothing but naming contexts stands at the root"
	}
	if pl.last != root {
		matched, err := s.Name(ctx, pl.last)
		if err != nil {
			return err
		}
		e.Matched = matched
	}
	return e
}

// Name gives an entry's name in stored spelling.
func (s *Snapshot) Name(ctx context.Context, id entry.ID) (string, error) {
	if id == root {
		return "", nil
	}
	i, err := s.item(ctx, id)
	if err != nil {
		return "", err
	}
	if i == nil {
		return "", table.ErrCorrupt
	}
	return s.nameOf(ctx, id, i)
}

func (s *Snapshot) nameOf(ctx context.Context, id entry.ID, i *item) (string, error) {
	if n := i.name.Load(); n != nil && s.cached && s.at.Unchanged(moves, n.asOf) {
		return n.name, nil
	}
	name := i.node.UpRDN
	if i.node.Parent != root {
		above, err := s.Name(ctx, i.node.Parent)
		if err != nil {
			return "", err
		}
		name += "," + above
	}
	if asOf := s.at.Ordinal(); s.cached && asOf != 0 {
		i.name.Store(&cachedName{asOf, name})
	}
	return name, nil
}

// Entry reads an entry, without secret attributes unless asked for. The entry
// is shared: do not change it. It has the stored operational attributes and
// entryUUID; entryDN, subschemaSubentry, hasSubordinates, numSubordinates are
// the directory's to add. Nil: there is no such entry.
func (s *Snapshot) Entry(ctx context.Context, id entry.ID, secrets bool) (*entry.Entry, error) {
	i, err := s.item(ctx, id)
	if err != nil || i == nil {
		return nil, err
	}
	return s.entryOf(ctx, id, i, secrets, nil)
}

// Some reads an entry of which only the attributes of some types are looked at: of
// one with very many values it has no others. Nil: there is no such entry.
func (s *Snapshot) Some(ctx context.Context, id entry.ID, types []*schema.AttributeType) (*entry.Entry, error) {
	i, err := s.item(ctx, id)
	if err != nil || i == nil {
		return nil, err
	}
	return s.entryOf(ctx, id, i, false, types)
}

// entryOf completes an item: the attributes of a wide one (those of the types
// only, if given), and secrets.
func (s *Snapshot) entryOf(ctx context.Context, id entry.ID, i *item, secrets bool, only []*schema.AttributeType) (*entry.Entry, error) {
	e := i.entry
	if e == nil {
		var err error
		if e, err = s.wide(ctx, id, only); err != nil {
			return nil, err
		}
	}
	if !secrets {
		return e, nil
	}
	hidden, err := s.Secrets(ctx, id)
	if err != nil || len(hidden) == 0 {
		return e, err
	}
	return &entry.Entry{ID: id, Attributes: append(slices.Clip(e.Attributes), hidden...)}, nil
}

// wide reads an entry with very many values; only narrows it to some types.
func (s *Snapshot) wide(ctx context.Context, id entry.ID, only []*schema.AttributeType) (*entry.Entry, error) {
	sel := table.Select{Families: []table.Family{master.UpAttributes}}
	for _, t := range only {
		for _, sub := range s.catalog.schema.Subtypes(t) {
			if !sub.Secret() {
				sel.Columns = append(sel.Columns, master.Columns(sub, ""), table.ColumnPrefix(master.UpAttributes, []byte(sub.Name()+";")))
			}
		}
	}
	row, err := s.r.Get(ctx, s.p.master, master.Row(id), sel)
	if err != nil {
		return nil, err
	}
	attributes, err := master.Decode(row, s.catalog.schema)
	return &entry.Entry{ID: id, Attributes: s.withID(id, attributes)}, err
}

// Secrets reads only the secret attributes of an entry: of userPassword, what a
// bind asks for.
func (s *Snapshot) Secrets(ctx context.Context, id entry.ID) ([]entry.Attribute, error) {
	i := s.current(id)
	if i != nil {
		if hidden := i.secrets.Load(); hidden != nil {
			return *hidden, nil
		}
	}
	row, err := s.r.Get(ctx, s.p.master, master.Row(id), table.Select{Families: []table.Family{master.Secrets}})
	if err != nil {
		return nil, err
	}
	hidden, err := master.Decode(row, s.catalog.schema)
	if err == nil && i != nil {
		i.secrets.Store(&hidden) // the entry did not change since i was read
	}
	return hidden, err
}

// HasChildren looks for one child.
func (s *Snapshot) HasChildren(ctx context.Context, id entry.ID) (bool, error) {
	for _, err := range s.r.Scan(ctx, s.p.tree, tree.Children(id), table.Select{Families: []table.Family{tree.TreeInfo}, MaxRows: 1}) {
		return err == nil, err
	}
	return false, nil
}

// CountChildren counts an entry's children.
func (s *Snapshot) CountChildren(ctx context.Context, id entry.ID) (n int, err error) {
	for _, err := range s.r.Scan(ctx, s.p.tree, tree.Children(id), table.Select{Families: []table.Family{tree.TreeInfo}}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Compare tests one assertion on an entry without reading more of it than
// that. The error is an *Error (undefined type, no equality rule, bad syntax,
// no such attribute).
func (s *Snapshot) Compare(ctx context.Context, id entry.ID, description string, value []byte) (bool, error) {
	t, options, err := s.catalog.describe(description)
	if err != nil {
		return false, err
	}
	if t.Equality == nil || t.Secret() {
		return false, problem(NoMatching, "%s cannot be compared: it has no equality rule that may be used", t.Name())
	}
	key, err := t.Equality.Assertion(value)
	if err != nil {
		return false, problem(InvalidSyntax, "value of %s: %v", description, err)
	}
	i, err := s.item(ctx, id)
	if err != nil {
		return false, err
	}
	if i == nil {
		return false, problem(NoSuchEntry, "no such entry")
	}
	if i.entry == nil && t == s.catalog.entryUUID && options == "" { // no column has it
		held, err := t.Equality.Key([]byte(id.String()))
		return bytes.Equal(held, key), err
	}
	if i.entry == nil {
		return s.compareWide(ctx, id, t, options, key)
	}
	has := false
	for k := range i.entry.Attributes {
		a := &i.entry.Attributes[k]
		if !a.Type.Is(t) || a.Type.Equality == nil || a.Type.Equality.Form != t.Equality.Form || !entry.HasOptions(a.Options, options) {
			continue
		}
		has = true
		for _, v := range a.Values {
			if held, err := t.Equality.Key(v); err == nil && bytes.Equal(held, key) {
				return true, nil
			}
		}
	}
	if !has {
		return false, problem(NoSuchAttribute, "the entry has no %s", description)
	}
	return false, nil
}

// compareWide asks the columns of normalised values.
func (s *Snapshot) compareWide(ctx context.Context, id entry.ID, t *schema.AttributeType, options string, key []byte) (bool, error) {
	has := false
	for _, sub := range s.catalog.schema.Subtypes(t) {
		if sub.Equality == nil || sub.Equality.Form != t.Equality.Form {
			continue
		}
		st, err := s.values(ctx, id, sub)
		if err != nil {
			return false, err
		}
		for _, d := range st.described {
			if !entry.HasOptions(d.options, options) {
				continue
			}
			has = true
			if p, err := d.find(ctx, s, key); err != nil || p != nil {
				return p != nil, err
			}
		}
	}
	if !has {
		return false, problem(NoSuchAttribute, "the entry has no %s", t.Name())
	}
	return false, nil
}

// classSeen is whether any entry was of a class at an ordinal.
type classSeen struct {
	asOf uint64
	has  bool
}

// HasClass reports whether any entry is of a class; quick for referral and
// alias, which nearly every search asks about: commits that add or remove one
// touch the class.
func (s *Snapshot) HasClass(ctx context.Context, c *schema.ObjectClass) (bool, error) {
	id, watched := s.catalog.watched[c]
	if v, ok := s.catalog.cache.classes.Load(c); ok && s.cached {
		if seen := v.(*classSeen); s.at.Unchanged(id, seen.asOf) {
			return seen.has, nil
		}
	}
	f := filter.Resolve(&filter.Equal{Attribute: s.catalog.objectClass.Name(), Value: []byte(c.Name())}, s.catalog.schema)
	has := false
	for _, err := range s.Search(ctx, Query{Base: root, Scope: op.WholeSubtree, Filter: f}) {
		if err != nil {
			return false, err
		}
		has = true
		break
	}
	if asOf := s.at.Ordinal(); watched && s.cached && asOf != 0 {
		s.catalog.cache.classes.Store(c, &classSeen{asOf, has})
	}
	return has, nil
}

// Recall finds an entry by its name in stored spelling, letter by letter, if
// Remember was told of it: for names that are asked for again and again it
// spares parsing and walking down. The name is right at this snapshot, or not
// found.
func (s *Snapshot) Recall(name string) (Located, bool) {
	id, ok := s.catalog.cache.names.GetIfPresent(name)
	if !ok {
		return Located{}, false
	}
	i := s.current(id)
	if i == nil {
		return Located{}, false
	}
	n := i.name.Load()
	if n == nil || n.name != name || !s.at.Unchanged(moves, n.asOf) {
		return Located{}, false
	}
	return Located{id, i.node.Parent, n.name}, true
}

// Remember keeps for Recall where a name was found, if the client spells it as
// it is stored.
func (s *Snapshot) Remember(name string, at Located) {
	if s.cached && name == at.Name {
		s.catalog.cache.names.Set(at.Name, at.ID)
	}
}
