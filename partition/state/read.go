package state

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// Located identifies an entry that was found. Name is its name in the stored spelling.
type Located struct {
	ID     entry.ID
	Parent entry.ID
	Name   *dn.Name
}

// WholeEntry contains the column families from which an item is decoded.
var WholeEntry = []table.Family{master.TreeInfo, master.UpAttributes}

// selectItem selects what an item is decoded from.
var selectItem = table.Select{Families: WholeEntry, MaxCells: MaxColumns}

// MaxColumns is the number of cells of an entry that are read at once. An entry with at least
// that many cells is wide: its attributes are not cached, and a reader may read only some of
// them.
const MaxColumns = 512

// maxItems bounds the number of items that Snapshot.Items remembers.
const maxItems = 1 << 14

// Item returns an entry. It returns the cached item if that item is still valid. It
// returns nil if there is no such entry.
func (s *Snapshot) Item(ctx context.Context, id entry.ID) (*cache.Item, error) {
	if s.Items == nil {
		return s.item(ctx, id)
	}
	if i, ok := s.Items[id]; ok {
		return i, nil
	}
	i, err := s.item(ctx, id)
	if err == nil {
		s.remember(id, i)
	}
	return i, err
}

func (s *Snapshot) remember(id entry.ID, i *cache.Item) {
	if s.Items != nil && !s.Cached && len(s.Items) < maxItems && (i == nil || i.Weight() < cache.LargeEntry) {
		s.Items[id] = i
	}
}

// readTogether is the largest number of entries that ReadItems reads in one round trip.
const readTogether = 128

// ReadItems reads entries in few round trips, so that Item finds them in memory. It reads at most
// as many entries as Items may remember. The snapshot must use the caches or have Items. The caller needs
// the values of the types only.
func (s *Snapshot) ReadItems(ctx context.Context, ids []entry.ID, types []*schema.AttributeType) error {
	without, sel := s.Catalog.Cache.Without(types, nil), selectItem
	without.Narrow(&sel)
	var missing []entry.ID
	for _, id := range ids {
		if _, ok := s.Items[id]; !ok && s.Current(id) == nil {
			missing = append(missing, id)
		}
	}
	missing = missing[:min(len(missing), max(0, maxItems-len(s.Items)))]
	slices.SortFunc(missing, entry.ID.Compare)
	for some := range slices.Chunk(missing, readTogether) {
		keys := make([][]byte, len(some))
		for i, id := range some {
			keys[i] = master.Row(id)
		}
		rows, err := s.Reader.GetMany(ctx, s.Partition.Master, keys, sel)
		if err != nil {
			return err
		}
		for i, id := range some {
			item, err := s.Decode(ctx, id, rows[i], without)
			if err != nil {
				return err
			}
			s.remember(id, item)
		}
	}
	return nil
}

func (s *Snapshot) item(ctx context.Context, id entry.ID) (*cache.Item, error) {
	if s.Cached || s.Written {
		if i, ok := s.Catalog.Cache.Entries.Get(id); ok {
			if s.Unchanged(id, i.AsOf) {
				return i, nil
			}
			if i.Wide() { // the entry was wide before and probably still is
				return s.wideItem(ctx, id)
			}
		}
	}
	return readItem(ctx, s, id)
}

// readItem reads the item of an entry, with all attributes unless the entry is wide.
func readItem(ctx context.Context, s *Snapshot, id entry.ID) (*cache.Item, error) {
	row, err := s.Reader.Get(ctx, s.Partition.Master, master.Row(id), selectItem)
	if err != nil {
		return nil, err
	}
	return s.Decode(ctx, id, row, nil)
}

// Current returns the cached item of an entry, or nil if there is none or it is not
// valid.
func (s *Snapshot) Current(id entry.ID) *cache.Item {
	if s.Cached || s.Written {
		if i, ok := s.Catalog.Cache.Entries.Get(id); ok && s.Unchanged(id, i.AsOf) {
			return i
		}
	}
	return nil
}

// Decode decodes a master row into an item. The row was read without some attributes, if the argument
// without is not nil. Decode caches the item if the snapshot fills caches. It returns nil if the row does not
// contain an entry.
func (s *Snapshot) Decode(ctx context.Context, id entry.ID, row table.Row, without *cache.Large) (*cache.Item, error) {
	if len(row.Cells) >= MaxColumns {
		return s.wideItem(ctx, id)
	}
	node, ok := master.DecodeNode(row)
	if !ok {
		return nil, nil
	}
	attributes, err := master.Decode(row, s.Catalog.Schema)
	if err != nil {
		return nil, err
	}
	attributes = withID(s.Catalog, id, attributes)
	node.Order.Arrange(attributes)
	i := s.Catalog.Cache.NewItem(s.At.Ordinal(), node, attributes, without)
	s.keep(id, i)
	return i, nil
}

// wideItem returns the item of a wide entry. The item contains the node but no
// attributes.
func (s *Snapshot) wideItem(ctx context.Context, id entry.ID) (*cache.Item, error) {
	row, err := s.Reader.Get(ctx, s.Partition.Master, master.Row(id), table.Select{Families: []table.Family{master.TreeInfo}})
	if err != nil {
		return nil, err
	}
	node, ok := master.DecodeNode(row)
	if !ok {
		return nil, nil
	}
	i := &cache.Item{AsOf: s.At.Ordinal(), Node: node}
	s.keep(id, i)
	return i, nil
}

func (s *Snapshot) keep(id entry.ID, i *cache.Item) {
	if s.Cached && i.AsOf != 0 {
		s.Catalog.Cache.Keep(id, i)
	}
}

// withID adds entryUUID. This attribute is not stored, because its value is the id.
func withID(c *catalog.Catalog, id entry.ID, as []entry.Attribute) []entry.Attribute {
	return append(as, entry.Attribute{Type: c.EntryUUID, Values: [][]byte{[]byte(id.String())}})
}

// Node returns an entry's node: its parent, its RDN and the order of its attributes. It returns
// nil if there is no such entry.
func (s *Snapshot) Node(ctx context.Context, id entry.ID) (*master.Node, error) {
	i, err := s.Item(ctx, id)
	if err != nil || i == nil {
		return nil, err
	}
	return &i.Node, nil
}

// Child reads the id that a row of the tree contains.
func (s *Snapshot) Child(ctx context.Context, key []byte) (id entry.ID, ok bool, err error) {
	row, err := s.Reader.Get(ctx, s.Partition.Tree, key, table.Select{Families: []table.Family{tree.TreeInfo}})
	if err != nil {
		return id, false, err
	}
	id, ok = tree.ID(row)
	return id, ok, nil
}

// Resolve finds a child of an entry by the child's normalised RDN.
func (s *Snapshot) Resolve(ctx context.Context, parent entry.ID, rdn dn.Norm) (id entry.ID, ok bool, err error) {
	if s.Cached || s.Written {
		key := cache.HintOf(parent, rdn)
		if id, ok := s.Catalog.Cache.Children.Get(key); ok {
			node, err := s.Node(ctx, id)
			if err != nil {
				return id, false, err
			}
			if node != nil && node.Parent == parent && node.NormRDN == rdn {
				return id, true, nil
			}
		}
		defer func() {
			if ok && err == nil && s.Cached {
				s.Catalog.Cache.Children.Set(key, id)
			}
		}()
	}
	return s.Child(ctx, tree.Key(parent, rdn))
}

// A Place is the result of looking up a name. It describes the entry if the entry exists,
// and otherwise the part of the name that exists.
type Place struct {
	Located
	Norms []dn.Norm
	RDN   dn.Norm // the RDN that was looked up last; if the parent exists, this is the first RDN of the name
	Found bool
	depth int      // number of RDNs, from the root on, whose entries exist
	last  entry.ID // the deepest entry that exists
}

// Locate looks up a name, RDN by RDN, from its naming context down.
func (s *Snapshot) Locate(ctx context.Context, name dn.DN) (pl Place, err error) {
	if pl.Norms, err = name.Normalize(s.Catalog.Schema); err != nil {
		return pl, catalog.Errorf(catalog.InvalidName, "name %s: %v", name, err)
	}
	err = pl.locate(ctx, s, func(entry.ID) {})
	return pl, err
}

// Path returns the ids of the entries from the naming context down to the entry with the
// normalised RDNs norms. The result "found" is false if one of these entries does not exist.
func (s *Snapshot) Path(ctx context.Context, norms []dn.Norm) (ids []entry.ID, found bool, err error) {
	pl := Place{Norms: norms}
	err = pl.locate(ctx, s, func(id entry.ID) { ids = append(ids, id) })
	return ids, pl.Found, err
}

// locate looks up the normalised RDNs pl.Norms from the naming context down. It calls the
// function pass for each entry on the path.
func (pl *Place) locate(ctx context.Context, s *Snapshot, pass func(entry.ID)) error {
	if len(pl.Norms) == 0 {
		pl.Found = true
		return nil
	}
	c := s.Catalog.ContextOf(pl.Norms)
	if c == nil {
		return nil
	}
	id, rdn, left := catalog.Root, c.RDN, len(pl.Norms)-len(c.Norms)
	for {
		child, ok, err := s.Resolve(ctx, id, rdn)
		if err != nil {
			return err
		}
		pl.Parent, pl.RDN = id, rdn
		if !ok {
			return nil
		}
		id = child
		pass(id)
		pl.last, pl.depth = id, len(pl.Norms)-left
		if left == 0 {
			pl.ID, pl.Found = id, true
			return nil
		}
		left--
		rdn = pl.Norms[left]
	}
}

// ParentFound reports whether the parent of the name exists. For the name of a naming
// context it always returns true.
func (pl *Place) ParentFound(c *catalog.Catalog) bool {
	if pl.Found {
		return true
	}
	x := c.ContextOf(pl.Norms)
	return x != nil && (len(x.Norms) == len(pl.Norms) || pl.depth == len(pl.Norms)-1)
}

// Find resolves a name. If there is no such entry, Find returns an *Error with the
// problem NoSuchEntry whose Matched is the deepest existing ancestor. The empty name is
// the name of the root, entry.Root.
func (s *Snapshot) Find(ctx context.Context, name dn.DN) (Located, error) {
	pl, err := s.Locate(ctx, name)
	if err != nil {
		return Located{}, err
	}
	if !pl.Found {
		return Located{}, pl.Missing(ctx, s, name)
	}
	pl.Name, err = s.Name(ctx, pl.ID)
	return pl.Located, err
}

// Missing returns the error of Find for a name whose entry does not exist.
func (pl *Place) Missing(ctx context.Context, s *Snapshot, name dn.DN) error {
	e := catalog.Errorf(catalog.NoSuchEntry, "no entry %s", name)
	switch {
	case len(s.Catalog.Contexts) == 0:
		e.Text = "this directory has no naming context yet"
	case len(name) == 0:
		e.Text = "only naming contexts can be at the root"
	}
	if pl.last != catalog.Root {
		matched, err := s.Name(ctx, pl.last)
		if err != nil {
			return err
		}
		e.Matched = matched.String()
	}
	return e
}

// Name returns an entry's name in its stored spelling.
func (s *Snapshot) Name(ctx context.Context, id entry.ID) (*dn.Name, error) {
	if id == catalog.Root {
		return nil, nil
	}
	i, err := s.Item(ctx, id)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return nil, table.ErrCorrupt
	}
	return s.NameOf(ctx, id, i)
}

func (s *Snapshot) NameOf(ctx context.Context, id entry.ID, i *cache.Item) (*dn.Name, error) {
	if n, asOf := i.Name(); n != nil && (s.Cached || s.Written) && s.Unchanged(cache.Moves, asOf) {
		return n, nil
	}
	name, err := NewName(ctx, s, i)
	if asOf := s.At.Ordinal(); err == nil && s.Cached && asOf != 0 {
		s.Catalog.Cache.SetName(i, name, asOf)
	}
	return name, err
}

// NewName returns the name of an entry, as NameOf does, but neither from the cache nor for the cache. For an
// entry that is used seldom, a new name costs less than what the cache keeps of the entry besides the item: that
// is in places of the memory where nothing was used for long.
func NewName(ctx context.Context, s *Snapshot, i *cache.Item) (*dn.Name, error) {
	if i.Node.Parent == catalog.Root {
		return dn.NewName(i.Node.UpRDN), nil
	}
	above, err := s.Name(ctx, i.Node.Parent)
	if err != nil {
		return nil, err
	}
	return dn.NewName(i.Node.UpRDN + "," + above.String()), nil
}

// isCalled reports whether an entry has a name.
func isCalled(ctx context.Context, s *Snapshot, i *cache.Item, name string) (bool, error) {
	rest, ok := strings.CutPrefix(name, i.Node.UpRDN)
	if !ok || i.Node.Parent == catalog.Root {
		return ok && rest == "", nil
	}
	above, err := s.Name(ctx, i.Node.Parent)
	return err == nil && len(rest) > 0 && rest[0] == ',' && rest[1:] == above.String(), err
}

// Entry reads an entry. It returns nil if there is no such entry. The result includes secret
// attributes only if secrets is set. The caller must not change the result, because it is
// shared. The result contains the stored operational attributes and entryUUID. The package
// directory adds the computed attributes, such as entryDN and hasSubordinates.
func (s *Snapshot) Entry(ctx context.Context, id entry.ID, secrets bool) (*entry.Entry, error) {
	i, err := s.Item(ctx, id)
	if err != nil || i == nil {
		return nil, err
	}
	return s.EntryOf(ctx, id, i, secrets, nil)
}

// Some reads an entry for a caller that needs only the attributes of the given types. If the
// entry is wide, Some reads only these attributes, and otherwise all except secret attributes.
// It returns nil if there is no such entry.
func (s *Snapshot) Some(ctx context.Context, id entry.ID, types []*schema.AttributeType) (*entry.Entry, error) {
	i, err := s.Item(ctx, id)
	if err != nil || i == nil {
		return nil, err
	}
	return s.EntryOf(ctx, id, i, false, types)
}

// EntryOf returns the entry of an item. If the entry is wide, EntryOf reads its attributes or,
// if types is not nil, only attributes of these types. If the item omits such attributes, EntryOf reads
// the entry whole. If secrets is set, EntryOf also reads the secret attributes.
func (s *Snapshot) EntryOf(ctx context.Context, id entry.ID, i *cache.Item, secrets bool, types []*schema.AttributeType) (*entry.Entry, error) {
	var e *entry.Entry
	if i.Omits().Concerns(types) {
		var err error
		if i, err = readItem(ctx, s, id); err != nil {
			return nil, err
		}
		if i == nil {
			return nil, table.ErrCorrupt
		}
		s.remember(id, i)
	}
	switch {
	case i.Wide():
		var err error
		if e, err = s.Wide(ctx, id, types); err != nil {
			return nil, err
		}
		i.Node.Order.Arrange(e.Attributes)
	case s.Cached || s.Written:
		e = s.Catalog.Cache.Entry(id, i)
	default:
		e = i.Packed.Entry(id)
	}
	if !secrets {
		return e, nil
	}
	hidden, err := s.Secrets(ctx, id)
	return AddSecrets(e, i, hidden), err
}

// Wide reads an entry with very many values. If types is not nil, Wide reads only attributes of
// these types and of their subtypes. If types is empty but not nil, it reads no attributes.
func (s *Snapshot) Wide(ctx context.Context, id entry.ID, types []*schema.AttributeType) (*entry.Entry, error) {
	sel := table.Select{Families: []table.Family{master.UpAttributes}}
	for _, t := range types {
		for _, sub := range s.Catalog.Schema.Subtypes(t) {
			if !sub.Secret() {
				sel.Columns = append(sel.Columns, master.AnyOptions(sub)...)
			}
		}
	}
	if types != nil && len(sel.Columns) == 0 {
		return &entry.Entry{ID: id, Attributes: withID(s.Catalog, id, nil)}, nil
	}
	row, err := s.Reader.Get(ctx, s.Partition.Master, master.Row(id), sel)
	if err != nil {
		return nil, err
	}
	attributes, err := master.Decode(row, s.Catalog.Schema)
	attributes = withID(s.Catalog, id, attributes)
	entry.Order{}.Arrange(attributes)
	return &entry.Entry{ID: id, Attributes: attributes}, err
}

// HasChildren reports whether an entry has a child.
func (s *Snapshot) HasChildren(ctx context.Context, id entry.ID) (bool, error) {
	r := ReadOfChild(s, id)
	for _, err := range s.Reader.Scan(ctx, r.Table, r.Range, r.Select) {
		return err == nil, err
	}
	return false, nil
}

// ReadOfChild returns the read of HasChildren.
func ReadOfChild(s *Snapshot, id entry.ID) txn.Read {
	return txn.Read{Table: s.Partition.Tree, Range: tree.Children(id), Select: table.Select{Families: []table.Family{tree.TreeInfo}, MaxRows: 1}}
}

// few is the number of children up to which reading all of them is the fastest way to count.
const few = 128

// CountChildren counts an entry's children.
func (s *Snapshot) CountChildren(ctx context.Context, id entry.ID) (int, error) {
	n, err := s.countRows(ctx, id, few)
	if err != nil || n < few {
		return n, err
	}
	if c, known, err := s.Subordinates(ctx, true, id); known || err != nil {
		return int(c[0].Children), err
	}
	return s.countRows(ctx, id, 0)
}

// countRows counts children by reading them. If most is not zero, countRows counts at most
// this many children.
func (s *Snapshot) countRows(ctx context.Context, id entry.ID, most int) (n int, err error) {
	sel := table.Select{Families: []table.Family{tree.TreeInfo}, MaxRows: most}
	for _, err := range s.Reader.Scan(ctx, s.Partition.Tree, tree.Children(id), sel) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Subordinates returns how many entries are below each of some entries, if that is known without
// counting them. If exact is not set, the numbers may be those of another state. In a transaction
// and in a branch, the exact numbers are not known.
func (s *Snapshot) Subordinates(ctx context.Context, exact bool, ids ...entry.ID) (ns []catalog.Count, known bool, err error) {
	if s.Partition.Subordinates == nil || exact && (s.Reader != table.Reader(s.At) || s.At.InBranch()) {
		return nil, false, nil
	}
	return s.Partition.Subordinates(ctx, s.At, s.Catalog, ids, exact)
}

// Compare evaluates one assertion on an entry. It reads no more of a wide entry than it needs.
// It returns an *Error if the type is undefined or secret or has no equality rule, if the value
// has bad syntax, or if there is no such entry or attribute.
func (s *Snapshot) Compare(ctx context.Context, id entry.ID, description string, value []byte) (bool, error) {
	t, options, err := s.Catalog.Describe(description)
	if err != nil {
		return false, err
	}
	if t.Equality == nil || t.Secret() {
		return false, catalog.Errorf(catalog.NoMatching, "%s cannot be compared: it has no equality rule that may be used", t.Name())
	}
	key, err := t.Equality.Assertion(value)
	if err != nil {
		return false, catalog.Errorf(catalog.InvalidSyntax, "value of %s: %v", description, err)
	}
	i, err := s.Item(ctx, id)
	if err != nil {
		return false, err
	}
	if i == nil {
		return false, catalog.Errorf(catalog.NoSuchEntry, "no such entry")
	}
	has, held, err := assertion{id, i, t, options, key}.test(ctx, s)
	if err == nil && !has {
		err = catalog.Errorf(catalog.NoSuchAttribute, "the entry has no %s", description)
	}
	return held, err
}

// Holds reports whether an entry, of which i is the item, has a name as a value of a type, under
// any options. The type must have an equality rule. Unlike Compare, Holds returns no error if the
// attribute does not exist, or if the value has bad syntax. It normalises the value only if the
// entry has the attribute.
func (s *Snapshot) Holds(ctx context.Context, id entry.ID, i *cache.Item, t *schema.AttributeType, name *dn.Name) (bool, error) {
	if !i.Wide() && i.Omits() == nil && !i.HasType(t) {
		return false, nil
	}
	key, err := t.Equality.NameAssertion(name)
	if err != nil {
		return false, nil
	}
	_, held, err := assertion{id, i, t, "", key}.test(ctx, s)
	return held, err
}

// An assertion is that an entry has a value.
type assertion struct {
	id      entry.ID
	item    *cache.Item
	typ     *schema.AttributeType
	options string
	key     []byte // key of the value
}

// test reports whether the entry has values of the type, and whether it has the value.
func (a assertion) test(ctx context.Context, s *Snapshot) (has, held bool, err error) {
	// No column contains entryUUID.
	if a.item.Wide() && a.typ == s.Catalog.EntryUUID && a.options == "" {
		own, err := a.typ.Equality.Key([]byte(a.id.String()))
		return true, bytes.Equal(own, a.key), err
	}
	if a.item.Wide() || a.item.Omits().Concerns([]*schema.AttributeType{a.typ}) {
		return a.testWide(ctx, s)
	}
	hash := cache.HashKey(a.key)
	p := a.item.Packed
	for k := range p.Len() {
		t, options := p.Description(k)
		if !t.Is(a.typ) || t.Equality == nil || t.Equality.Form != a.typ.Equality.Form || !entry.HasOptions(options, a.options) {
			continue
		}
		has = true
		hashes := a.item.KeyHashes(k)
		from, to := p.Numbers(k)
		for n := from; n < to; n++ {
			if hashes != nil && hashes[n-from] != hash {
				continue
			}
			if own, err := a.typ.Equality.Key(p.Value(n)); err == nil && bytes.Equal(own, a.key) {
				return true, true, nil
			}
		}
	}
	return has, false, nil
}

// testWide is test for a wide entry. It looks at the columns that contain keys.
func (a assertion) testWide(ctx context.Context, s *Snapshot) (has, held bool, err error) {
	for _, sub := range s.Catalog.Schema.Subtypes(a.typ) {
		if sub.Equality == nil || sub.Equality.Form != a.typ.Equality.Form {
			continue
		}
		some, held, err := HoldsKey(ctx, s, a.id, sub, a.options, a.key)
		if has = has || some; held || err != nil {
			return has, held, err
		}
	}
	return has, false, nil
}

// HoldsKey reports whether an entry has values of exactly a type under descriptions that contain the
// options, and whether one of them has the key. It reads the columns that contain keys, and no more of a
// wide entry than it needs.
func HoldsKey(ctx context.Context, s *Snapshot, id entry.ID, t *schema.AttributeType, options string, key []byte) (has, held bool, err error) {
	st, err := s.ValuesOf(ctx, id, t)
	if err != nil {
		return false, false, err
	}
	for _, d := range st.Described {
		if !entry.HasOptions(d.Options, options) {
			continue
		}
		has = true
		if p, err := d.Find(ctx, s, key); err != nil || p != nil {
			return true, p != nil, err
		}
	}
	return has, false, nil
}

// Recall returns the entry of a name that was passed to Remember. The name must have exactly
// the stored spelling. For frequent names this saves parsing the name and looking up its RDNs.
// Recall returns false if the cache does not contain the name or the entry, if the entry may
// have changed, or if an entry may have been renamed since.
func (s *Snapshot) Recall(ctx context.Context, name string) (Located, bool) {
	return s.recall(ctx, cache.HintOf(entry.Root, name), name)
}

// RecallBase is Recall for a scope and a name that were passed to RememberBase.
func RecallBase(ctx context.Context, s *Snapshot, scope op.Scope, name string) (Located, bool) {
	return s.recall(ctx, cache.BaseHint(scope, name), name)
}

// RecallBelow is Recall for a name that was passed to RememberBelow with the same id, which no entry has.
func RecallBelow(ctx context.Context, s *Snapshot, id entry.ID, name string) (Located, bool) {
	return s.recall(ctx, cache.HintOf(id, name), name)
}

// RememberBelow is Remember for a use of its own, which the id stands for.
func RememberBelow(s *Snapshot, id entry.ID, name string, at Located) {
	s.rememberName(cache.HintOf(id, name), name, at)
}

// KnowsBase reports whether RecallBase could return an entry in some state.
func KnowsBase(p *catalog.Partition, scope op.Scope, name string) bool {
	_, ok := p.Catalog.Load().Cache.Names.Get(cache.BaseHint(scope, name))
	return ok
}

func (s *Snapshot) recall(ctx context.Context, k cache.Hint, name string) (Located, bool) {
	id, ok := s.Catalog.Cache.Names.Get(k)
	if !ok {
		return Located{}, false
	}
	i := s.Current(id)
	if i == nil {
		return Located{}, false
	}
	if is, err := isCalled(ctx, s, i, name); err != nil || !is {
		return Located{}, false
	}
	return Located{id, i.Node.Parent, dn.NewName(name)}, true
}

// Remember caches the entry of a name for Recall, if the name has the stored spelling.
func (s *Snapshot) Remember(name string, at Located) {
	s.rememberName(cache.HintOf(entry.Root, name), name, at)
}

// RememberBase is Remember for a name at which a search of the tree with this scope began.
func RememberBase(s *Snapshot, scope op.Scope, name string, at Located) {
	s.rememberName(cache.BaseHint(scope, name), name, at)
}

func (s *Snapshot) rememberName(k cache.Hint, name string, at Located) {
	if s.Cached && name == at.Name.String() {
		s.Catalog.Cache.Names.Set(k, at.ID)
	}
}

// ClassesAt reads an entry's classes.
func (s *Snapshot) ClassesAt(ctx context.Context, id entry.ID) (*catalog.Classes, error) {
	values, err := s.ClassValues(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.Catalog.ClassesOf(values)
}

// ClassValues reads an entry's objectClass values. If the entry is wide, ClassValues
// reads no other attribute.
func (s *Snapshot) ClassValues(ctx context.Context, id entry.ID) ([][]byte, error) {
	i, err := s.Item(ctx, id)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return nil, table.ErrCorrupt
	}
	oc := s.Catalog.ObjectClass
	e, err := s.EntryOf(ctx, id, i, false, []*schema.AttributeType{oc})
	if err != nil {
		return nil, err
	}
	return e.Values(oc), nil
}

// Below reports whether an entry with the given parent is below the entry base: whether
// base is the parent or an ancestor of the parent.
func (s *Snapshot) Below(ctx context.Context, parent, base entry.ID) (bool, error) {
	for parent != base && base != catalog.Root {
		if parent == catalog.Root {
			return false, nil
		}
		node, err := s.Node(ctx, parent)
		if err != nil {
			return false, err
		}
		if node == nil {
			return false, table.ErrCorrupt
		}
		parent = node.Parent
	}
	return true, nil
}

// Within reports whether an entry is in the subtree of the entry base. The caller passes the
// entry's id and the id of its parent.
func (s *Snapshot) Within(ctx context.Context, id, parent, base entry.ID) (bool, error) {
	if id == base {
		return true, nil
	}
	return s.Below(ctx, parent, base)
}

// Deleted returns the revision of the last deletion of an entry that s shows. It returns 0 if the
// entry was never deleted, or if the history of the deletion has been collected. It reads everything
// stored for the entry.
func (s *Snapshot) Deleted(ctx context.Context, id entry.ID) (last table.Revision, err error) {
	t, ok := s.Partition.Master.(table.Redactor)
	if !ok {
		return 0, nil
	}
	row := master.Row(id)
	for past, err := range t.History(ctx, table.Range{Start: row, End: append(bytes.Clone(row), 0)}) {
		if err != nil {
			return 0, err
		}
		for _, r := range past.Deletes {
			if r > last && s.At.Visible(r) {
				last = r
			}
		}
	}
	return last, nil
}
