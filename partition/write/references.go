package write

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A reference is a value that names an entry. A commit that renames the entry also changes the
// value, and a commit that deletes the entry removes the value.
//
// The commit finds the values in the index of their attribute, where the names of a subtree
// are one range of keys. The commit does not miss a value that is added at the same time. A
// transaction that adds a value marks the entry that the value names, and all ancestors of
// that entry, with MarkChild, as if it added a child to each of them. The mark of a rename or
// a deletion conflicts with MarkChild. So if a transaction that adds the value and a
// transaction that renames or deletes the entry do not see each other, one of the two is tried
// again.

// maxReferences is the largest number of values that one commit changes because it
// renames or deletes the entries that the values name.
const maxReferences = 5000

// naming is a new value that names an entry.
type naming struct {
	x          *catalog.Indexed
	key, value []byte
}

// references has the values that the current operation of a transaction adds and that name
// entries, and the entries that the transaction protects for them.
type references struct {
	tx    *Tx
	added []naming
	held  map[entry.ID]bool // entries protected from renames and deletions
}

// Refer implements writer.
func (rs *references) Refer(x *catalog.Indexed, key, value []byte) {
	rs.added = append(rs.added, naming{x, key, value})
}

// check marks the entries that new values name. It returns an error if a value that must
// name an entry names none.
func (rs *references) check(ctx context.Context) error {
	if len(rs.added) == 0 || rs.tx.Rules.Together {
		return nil
	}
	named := rs.added
	rs.added = nil
	r := namedEntries{tx: rs.tx, superiors: map[string]*superior{}}
	for i := range named {
		if err := r.add(ctx, &named[i]); err != nil {
			return err
		}
	}
	return r.hold(ctx)
}

// namedEntries looks up many names with few reads. It looks up each superior once, and
// then all entries together.
type namedEntries struct {
	tx        *Tx
	superiors map[string]*superior // the superiors looked up so far, by name
	rows      [][]byte             // rows of the tree
	of        []found              // value and superior of each row
}

type superior struct {
	path  []entry.ID
	found bool
}

type found struct {
	*naming
	above *superior
}

func (r *namedEntries) add(ctx context.Context, n *naming) error {
	key := n.x.Typ.KeyOfName(n.key)
	if len(key) == 0 {
		return nil // the root's name, or a name with a unique identifier
	}
	norms, err := dn.SplitKey(key)
	if err != nil {
		return err
	}
	c := r.tx.Catalog.ContextOf(norms)
	if c == nil {
		return r.missing(n)
	}
	rest := norms[1:]
	if len(c.Norms) == len(norms) {
		rest = nil
	}
	above := string(dn.Key(rest))
	s := r.superiors[above]
	if s == nil {
		s = &superior{}
		if s.path, s.found, err = r.tx.Path(ctx, rest); err != nil {
			return err
		}
		r.superiors[above] = s
	}
	if !s.found {
		return r.missing(n)
	}
	parent, rdn := catalog.Root, c.RDN
	if len(rest) > 0 {
		parent, rdn = s.path[len(s.path)-1], norms[0]
	}
	r.rows, r.of = append(r.rows, tree.Key(parent, rdn)), append(r.of, found{n, s})
	return nil
}

// hold marks the named entries that exist, and their ancestors.
func (r *namedEntries) hold(ctx context.Context) error {
	if len(r.rows) == 0 {
		return nil
	}
	rows, err := r.tx.Reader.GetMany(ctx, r.tx.Partition.Tree, r.rows, table.Select{Families: []table.Family{tree.TreeInfo}})
	if err != nil {
		return err
	}
	for i, row := range rows {
		id, ok := tree.ID(row)
		if !ok {
			if err := r.missing(r.of[i].naming); err != nil {
				return err
			}
			continue
		}
		if sees := r.tx.Rules.Sees; sees != nil {
			if seen, err := sees(ctx, id); err != nil || !seen {
				return cmp.Or(err, notSeen(r.of[i].naming))
			}
		}
		r.tx.references.hold(id)
		for _, id := range r.of[i].above.path {
			r.tx.references.hold(id)
		}
	}
	return nil
}

// hold marks an entry, so that a concurrent transaction that renames or deletes the entry
// conflicts.
func (rs *references) hold(id entry.ID) {
	if rs.held[id] {
		return
	}
	if rs.held == nil {
		rs.held = map[entry.ID]bool{}
	}
	rs.held[id] = true
	rs.tx.Txn.Mark(rs.tx.Partition.Master, master.Row(id), txn.Mark{Kind: txn.MarkChild})
}

// The method "missing" returns the error for a value that names no entry, or nil if the value
// need not name an entry.
func (r *namedEntries) missing(n *naming) error {
	switch {
	case r.tx.Rules.Sees != nil:
		return notSeen(n)
	case !n.x.Reference.MustExist:
		return nil
	}
	return NamesNothing(n.x, n.value)
}

// notSeen returns the error for a value that names an entry that the client does not see, or none.
// It is the same in both cases. If the client could write such a value, the value would later show
// the client the new name of an entry that it may not see.
func notSeen(n *naming) error {
	return catalog.Errorf(catalog.Constraint, "attribute %s: you see no entry %s, and the values must name entries that you see", n.x.Typ.Name(), n.value)
}

// NamesNothing returns the error for a value that must name an entry and names none.
func NamesNothing(x *catalog.Indexed, value []byte) error {
	return catalog.Errorf(catalog.Constraint, "attribute %s: there is no entry %s, and the values must name entries", x.Typ.Name(), value)
}

// referrer is an entry with values that name renamed or deleted entries.
type referrer struct {
	id   entry.ID
	of   []*catalog.Indexed
	keys [][]byte // the keys of these values that are whole in the index
	cut  bool     // the index contains cut keys that may belong to such values
}

// referrers returns the entries with values that name an entry in the subtree of the name base.
// It passes the key of the name in each value to the function concerns, and ignores the value
// if the function returns false. If the index contains only a cut key, the function is not
// called, and the entry is included.
func referrers(ctx context.Context, s *state.Snapshot, base []dn.Norm, concerns func(name []byte) bool) ([]*referrer, error) {
	at := map[entry.ID]*referrer{}
	var all []*referrer
	values := 0
	for _, x := range s.Catalog.Ordered {
		if x.Reference == nil {
			continue
		}
		if err := x.Whole(); err != nil {
			return nil, err
		}
		prefix := x.Typ.KeyPrefix(dn.Key(base))
		prefix = prefix[:min(len(prefix), index.MaxKey)] // the index cuts longer keys
		for c, err := range x.Span(ctx, s.Reader, index.Span{Prefix: prefix}, nil) {
			if err != nil {
				return nil, err
			}
			key, cut, _, err := index.CutKey(c.Position)
			if err != nil {
				return nil, err
			}
			if !cut && !concerns(x.Typ.KeyOfName(key)) {
				continue
			}
			if values++; values > maxReferences {
				return nil, catalog.Errorf(catalog.TooMany, "more than %d values name the entries that are renamed or deleted: rename or delete them in parts", maxReferences)
			}
			r := at[c.ID]
			if r == nil {
				r = &referrer{id: c.ID}
				at[c.ID], all = r, append(all, r)
			}
			r.add(x, key, cut)
		}
	}
	return all, nil
}

func (r *referrer) add(x *catalog.Indexed, key []byte, cut bool) {
	if !slices.Contains(r.of, x) {
		r.of = append(r.of, x)
	}
	if cut {
		r.cut = true
		return
	}
	if len(r.of) > 1 && slices.ContainsFunc(r.keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
		return // a value of another type names the same entry
	}
	r.keys = append(r.keys, bytes.Clone(key))
}

// rewriting changes or removes the values that name certain entries.
type rewriting struct {
	tx       *Tx
	base     []dn.Norm
	concerns func(name []byte) bool
	// become returns the new name for an old name, or false if the value must be removed.
	newName func(old dn.DN) (dn.DN, bool)
}

// follow changes or removes all values that the rewriting concerns. The parameter "goes"
// contains the entries that are being deleted: follow does not change their values. In a
// directory that follows another server, follow changes nothing, because the other server
// decides which values change.
func (w *rewriting) follow(ctx context.Context, goes map[entry.ID]bool) error {
	if w.tx.Catalog.Header.Following != nil {
		return nil
	}
	all, err := referrers(ctx, &w.tx.Snapshot, w.base, w.concerns)
	if err != nil {
		return err
	}
	// Values of this transaction that are still to be checked follow, too.
	w.tx.references.added = slices.DeleteFunc(w.tx.references.added, func(n naming) bool {
		name := n.x.Typ.KeyOfName(n.key)
		return len(name) > 0 && w.concerns(name)
	})
	rules := w.tx.Rules
	defer func() { w.tx.Rules = rules }()
	w.tx.Rules = Rules{Together: rules.Together}
	for _, r := range all {
		if goes[r.id] {
			continue
		}
		if err := w.entry(ctx, r); err != nil {
			return explain(err)
		}
	}
	return nil
}

// If an entry that the client did not ask to change causes an error, explain says so in the
// text of the error. It does not name that entry, because the client may not be allowed to see
// it.
func explain(err error) error {
	var e *catalog.Error
	if !errors.As(err, &e) {
		return err
	}
	return catalog.Errorf(e.Problem, "another entry refers to this one, and its reference cannot be updated: %s", e.Text)
}

// entry changes the values of one entry.
func (w *rewriting) entry(ctx context.Context, r *referrer) error {
	m, err := w.tx.references.modifyingID(ctx, r.id)
	if err != nil {
		return err
	}
	for _, x := range r.of {
		m.Edit(x.Typ)
	}
	if err := m.Read(ctx); err != nil {
		return err
	}
	for _, e := range slices.Clone(m.types) {
		for _, d := range slices.Clone(e.before.Described) {
			if err := w.description(ctx, m, e, d, r); err != nil {
				return err
			}
		}
		if err := m.leaveOne(ctx, e); err != nil {
			return err
		}
	}
	return m.Finish(ctx)
}

// description changes the values under one description. The number of reads does not
// depend on the number of values.
func (w *rewriting) description(ctx context.Context, m *modification, e *edited, d *state.DescribedValues, r *referrer) error {
	list, err := candidates(ctx, &w.tx.Snapshot, d, r)
	if err != nil {
		return err
	}
	texts, err := d.Spelled(ctx, &w.tx.Snapshot, list)
	if err != nil {
		return err
	}
	v := e.values(d.Options)
	var become []newValue
	for i, old := range list {
		name, err := w.concerned(texts[i])
		if err != nil {
			return err
		}
		if name == nil {
			continue
		}
		v.take(old)
		now, stays := w.newName(name)
		if !stays {
			continue
		}
		n := newValue{value: []byte(now.String())}
		if n.key, err = catalog.KeyOf(d.Typ, n.value); err != nil {
			return err
		}
		become = append(become, n)
	}
	return m.addMissing(ctx, v, become)
}

// concerned parses a value. It returns the name if the rewriting concerns this name, and nil
// otherwise.
func (w *rewriting) concerned(value []byte) (dn.DN, error) {
	name, err := dn.Parse(string(value))
	if err != nil {
		return nil, nil // the value has a unique identifier
	}
	norms, err := name.Normalize(w.tx.Catalog.Schema)
	if err != nil || !w.concerns(dn.Key(norms)) {
		return nil, err
	}
	return name, nil
}

// take removes a value that existed before the change.
func (v *editedValues) take(old *state.Keyed) {
	v.removed = append(v.removed, old)
	v.now, v.at = slices.DeleteFunc(v.now, func(n newValue) bool { return n.old == old }), positions{}
}

// addMissing adds the given values, except those that the description already has.
func (m *modification) addMissing(ctx context.Context, v *editedValues, more []newValue) error {
	keys := make([][]byte, len(more))
	for i := range more {
		keys[i] = more[i].key
	}
	there, err := v.before.FindAll(ctx, &m.tx.Snapshot, keys)
	if err != nil {
		return err
	}
	for i, n := range more {
		if old := there[i]; old == nil || v.removes(n.key, old.Qualifier) {
			v.now = append(v.now, n)
		}
	}
	return nil
}

// candidates returns the values under a description that the rewriting may have to
// change.
func candidates(ctx context.Context, s *state.Snapshot, d *state.DescribedValues, r *referrer) ([]*state.Keyed, error) {
	var list []*state.Keyed
	if r.cut {
		all, err := d.All(ctx, s)
		for i := range all {
			list = append(list, &all[i])
		}
		return list, err
	}
	found, err := d.FindAll(ctx, s, r.keys)
	return slices.DeleteFunc(found, func(k *state.Keyed) bool { return k == nil }), err
}

// leaveOne adds the empty name if the attribute has no values left and a class or content rule
// requires the attribute. This happens when a group loses its last member.
func (m *modification) leaveOne(ctx context.Context, e *edited) error {
	for _, v := range e.lists {
		if err := m.checkRemaining(ctx, v); err != nil {
			return err
		}
	}
	if e.presentAfter() {
		return nil
	}
	classes, err := m.tx.ClassesAt(ctx, m.pl.ID)
	if err != nil || classes.Requires(e.typ) == "" {
		return err
	}
	return m.add(ctx, e.values(""), [][]byte{{}})
}

// TakeAway removes one value from an entry. If the entry has no other value of the attribute
// and a class or content rule requires the attribute, TakeAway adds the empty name.
func (rs *references) TakeAway(ctx context.Context, id entry.ID, t *schema.AttributeType, options string, value []byte) error {
	m, err := rs.modifyingID(ctx, id)
	if err != nil {
		return err
	}
	e := m.Edit(t)
	if err := m.Read(ctx); err != nil {
		return err
	}
	if err := m.delete(ctx, e.values(options), [][]byte{value}); err != nil {
		return err
	}
	if err := m.leaveOne(ctx, e); err != nil {
		return err
	}
	return m.Finish(ctx)
}

// modifyingID is like Modifying, for a caller that knows only the id of the entry.
func (rs *references) modifyingID(ctx context.Context, id entry.ID) (*modification, error) {
	node, err := rs.tx.Node(ctx, id)
	if err != nil {
		return nil, err
	}
	if node == nil {
		return nil, table.ErrCorrupt
	}
	return rs.tx.Modifying(state.Place{Located: state.Located{ID: id, Parent: node.Parent}, RDN: node.NormRDN, Found: true}), nil
}

// The method "refers" reports whether the directory has a reference attribute.
func (rs *references) exist() bool {
	return slices.ContainsFunc(rs.tx.Catalog.Ordered, func(x *catalog.Indexed) bool { return x.Reference != nil })
}

// forget removes the values that name the deleted entries. The parameter "names" contains the
// keys of the names of the deleted entries. Each of these names is equal to base or below base.
func (rs *references) forget(ctx context.Context, base []dn.Norm, goes map[entry.ID]bool, names map[string]bool) error {
	w := rewriting{
		tx: rs.tx, base: base,
		concerns: func(name []byte) bool { return names[string(name)] },
		newName:  func(dn.DN) (dn.DN, bool) { return nil, false },
	}
	return w.follow(ctx, goes)
}

// repoint changes the values that name a renamed entry or an entry below the renamed entry.
func (rs *references) repoint(ctx context.Context, from []dn.Norm, to dn.DN) error {
	base := dn.Key(from)
	w := rewriting{
		tx: rs.tx, base: from,
		concerns: func(name []byte) bool { return bytes.HasPrefix(name, base) },
		newName: func(old dn.DN) (dn.DN, bool) {
			return slices.Concat(old[:len(old)-len(from)], to), true
		},
	}
	return w.follow(ctx, nil)
}

// A Reference is a value that names an entry.
type Reference struct {
	ID      entry.ID // the entry that has the value
	Type    *schema.AttributeType
	Options string
	Value   []byte
	Name    string // the key of the name in the value
}

// ReferencesTo returns the values that name the given entries, of the attributes whose values
// follow the entries that they name. The keys of names are keys of normalised names.
func ReferencesTo(ctx context.Context, s *state.Snapshot, names map[string]bool) (all []Reference, err error) {
	concerned := func(name []byte) bool { return names[string(name)] }
	base, err := commonBase(names)
	if err != nil {
		return nil, err
	}
	found, err := referrers(ctx, s, base, concerned)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		for _, x := range r.of {
			tv, err := s.ValuesOf(ctx, r.id, x.Typ)
			if err != nil {
				return nil, err
			}
			for _, d := range tv.Described {
				list, err := candidates(ctx, s, d, r)
				if err != nil {
					return nil, err
				}
				texts, err := d.Spelled(ctx, s, list)
				if err != nil {
					return nil, err
				}
				for _, text := range texts {
					if key, err := catalog.KeyOf(x.Typ, text); err == nil && concerned(x.Typ.KeyOfName(key)) {
						all = append(all, Reference{r.id, x.Typ, d.Options, text, string(x.Typ.KeyOfName(key))})
					}
				}
			}
		}
	}
	return all, nil
}

// commonBase returns the name below which all names are.
func commonBase(names map[string]bool) (base []dn.Norm, err error) {
	first := true
	for name := range names {
		norms, err := dn.SplitKey([]byte(name))
		if err != nil {
			return nil, err
		}
		if first {
			base, first = norms, false
		}
		for len(base) > 0 && !slices.Equal(base, norms[max(0, len(norms)-len(base)):]) {
			base = base[1:]
		}
	}
	return base, nil
}

// Holds reports for each value whether an entry has it.
func Holds(ctx context.Context, s *state.Snapshot, id entry.ID, t *schema.AttributeType, options string, values ...[]byte) ([]bool, error) {
	keys := make([][]byte, len(values))
	for i, v := range values {
		var err error
		if keys[i], err = catalog.KeyOf(t, v); err != nil {
			return nil, err
		}
	}
	tv, err := s.ValuesOf(ctx, id, t)
	if err != nil {
		return nil, err
	}
	found, err := tv.Description(options).FindAll(ctx, s, keys)
	has := make([]bool, len(values))
	for i := range found {
		has[i] = found[i] != nil
	}
	return has, err
}
