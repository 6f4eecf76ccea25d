package partition

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// Modify changes an entry as RFC 4511, 4.6 says: in order, all or nothing, the
// schema checked at the end. It reads of the entry only what it changes. Of the
// subschema it changes the schema, in an UpdateSchema.
func (tx *Tx) Modify(ctx context.Context, name dn.DN, changes []op.Modification) error {
	if IsSubschema(name) {
		return tx.modifySubschema(ctx, changes)
	}
	pl, err := tx.existing(ctx, name)
	if err != nil {
		return err
	}
	m, err := tx.modifying(ctx, pl)
	if err != nil {
		return err
	}
	if err := m.load(ctx, changes); err != nil {
		return err
	}
	for i := range changes {
		if err := m.apply(ctx, &changes[i]); err != nil {
			return err
		}
	}
	if err := m.finish(ctx); err != nil {
		return err
	}
	tx.record("modify", name, tx.catalog.secretsIn(changes)...)
	return nil
}

// modification is one entry under change.
type modification struct {
	tx      *Tx
	pl      place
	change  *change
	row     table.Row // the entry's row of the tree, as far as it was read
	types   []*edited
	given   []*schema.AttributeType // of the server's own, that Rules.Relaxed lets the change give
	renames bool                    // the name may lose its old values
	rdn     map[rdnValue]bool
}

// edited is one type under change: what it had, and what it is to have.
type edited struct {
	typ    *schema.AttributeType
	before *typeValues
	lists  []*editedValues
}

// editedValues is one description under change.
type editedValues struct {
	before  *describedValues
	now     []newValue // without what a description with many has and keeps
	removed []*keyed   // of before, that go
	whole   bool       // now says it all: nothing of before stays but by now
	stays   bool       // many: something else stays
	plenty  bool       // many: and more of it than writers could take away at once
}

// newValue is a value of the result: one that was there (old) or a new one.
type newValue struct {
	old   *keyed
	value []byte
	key   []byte
}

type rdnValue struct {
	typ *schema.AttributeType
	key string
}

func (tx *Tx) modifying(ctx context.Context, pl place) (*modification, error) {
	m := &modification{tx: tx, pl: pl}
	m.change = newChange(tx.p, tx.catalog, tx, pl.ID, pl.Parent, pl.rdn)
	return m, nil
}

// load reads the columns of the types that will change, in one read.
func (m *modification) load(ctx context.Context, changes []op.Modification) error {
	for i := range changes {
		read := m.tx.catalog.storable
		if len(changes[i].Values) == 0 || changes[i].Kind == op.ModDelete {
			read = m.tx.catalog.removable
		}
		t, _, err := read(changes[i].Description)
		if err != nil {
			return err
		}
		if err := m.changeable(t); err != nil {
			return err
		}
		m.edit(t)
		if t == m.tx.catalog.objectClass && m.tx.Rules.Relaxed { // see morph
			m.edit(m.tx.catalog.structuralObjectClass)
		}
		if t.NoUserModification {
			m.given = append(m.given, t)
		}
	}
	if len(m.given) > 0 { // what else checkGiven looks at
		m.edit(m.tx.catalog.createTimestamp)
	}
	return m.read(ctx)
}

func (m *modification) changeable(t *schema.AttributeType) error {
	if t.NoUserModification && !(m.tx.Rules.Relaxed && m.tx.catalog.relaxable(t)) || m.tx.catalog.computed(t) {
		return problem(Constraint, "attribute %s is the server's: it cannot be changed", t.Name())
	}
	return nil
}

func (m *modification) edit(t *schema.AttributeType) *edited {
	for _, e := range m.types {
		if e.typ == t {
			return e
		}
	}
	e := &edited{typ: t}
	m.types = append(m.types, e)
	return e
}

// read gets the tree's columns of all types under change, and master's of those
// without keys.
func (m *modification) read(ctx context.Context) error {
	var keyed, plain []table.ColumnRange
	for _, t := range m.types {
		if t.typ.Secret() || t.typ.Equality == nil {
			f := master.Family(t.typ)
			plain = append(plain, master.Columns(t.typ, ""), table.ColumnPrefix(f, []byte(t.typ.Name()+";")))
			continue
		}
		keyed = append(keyed, tree.Columns(t.typ))
	}
	if err := m.readKeyed(ctx, keyed); err != nil {
		return err
	}
	return m.readPlain(ctx, plain)
}

func (m *modification) readKeyed(ctx context.Context, columns []table.ColumnRange) error {
	// What a change sets by itself may be indexed and is read along.
	for _, s := range m.tx.stamps() {
		if m.tx.catalog.indexes[s.typ] != nil {
			columns = append(columns, tree.Columns(s.typ))
		}
	}
	if len(columns) > 0 {
		row, err := m.tx.r.Get(ctx, m.tx.p.tree, m.change.tree.Row, table.Select{
			Families: []table.Family{tree.NormAttributes}, Columns: columns})
		if err != nil {
			return err
		}
		m.row = row.Clone()
	}
	for _, t := range m.types {
		t.before = valuesOf(m.pl.ID, t.typ, m.row)
	}
	return nil
}

// readPlain lists the values of types without keys by their positions.
func (m *modification) readPlain(ctx context.Context, columns []table.ColumnRange) error {
	if len(columns) == 0 {
		return nil
	}
	row, err := m.tx.r.Get(ctx, m.tx.p.master, m.change.master.Row, table.Select{
		Families: []table.Family{master.UpAttributes, master.Secrets}, Columns: columns})
	if err != nil {
		return err
	}
	for i := range row.Cells {
		q := bytes.Clone(row.Cells[i].Qualifier)
		desc := q[:len(q)-len(master.PositionOf(q))-1]
		name, options := desc, ""
		if k := bytes.IndexByte(desc, ';'); k >= 0 {
			name, options = desc[:k], string(desc[k:])
		}
		for _, t := range m.types {
			if t.typ.Name() != string(name) || t.typ.Equality != nil && !t.typ.Secret() {
				continue
			}
			d := t.before.description(options)
			d.unkeyed = true
			d.list = append(d.list, keyed{position: master.PositionOf(q), key: bytes.Clone(row.Cells[i].Value)})
		}
	}
	return nil
}

// values gives the description under change, as it was at first.
func (e *edited) values(options string) *editedValues {
	for _, v := range e.lists {
		if v.before.options == options {
			return v
		}
	}
	v := &editedValues{before: e.before.description(options)}
	v.stays = v.before.many
	for i := range v.before.list {
		v.now = append(v.now, newValue{old: &v.before.list[i], key: v.before.list[i].key})
	}
	e.lists = append(e.lists, v)
	return v
}

// has reports whether there are values.
func (v *editedValues) has() bool {
	return len(v.now) > 0 || v.before.many && !v.whole
}

// apply makes one change of the request.
func (m *modification) apply(ctx context.Context, c *op.Modification) error {
	t, options, err := m.tx.catalog.describe(c.Description)
	if err != nil {
		return err
	}
	v := m.edit(t).values(options)
	if !v.has() && !m.tx.catalog.recognizes(c.Description) {
		return unrecognized(c.Description)
	}
	if t.Obsolete && !m.tx.Rules.Relaxed && len(c.Values) > 0 && !m.edit(t).before.present() {
		return obsolete("attribute type", t.Name())
	}
	switch c.Kind {
	case op.ModAdd:
		if len(c.Values) == 0 {
			return problem(BadOperand, "add of %s: no values given", c.Description)
		}
		if t.Equality == nil && v.has() {
			return problem(NoMatching, "values cannot be added to those of %s: it has no equality rule; replace all of them", t.Name())
		}
		return m.add(ctx, v, c.Values)
	case op.ModDelete:
		return m.delete(ctx, v, c.Values)
	case op.ModReplace:
		if err := m.clear(ctx, v); err != nil {
			return err
		}
		return m.add(ctx, v, c.Values)
	case op.ModIncrement:
		return m.increment(ctx, v, c.Values)
	}
	return problem(Unwilling, "unknown kind of modification")
}

// add appends values that are not there yet.
func (m *modification) add(ctx context.Context, v *editedValues, values [][]byte) error {
	t := v.before.typ
	for _, b := range values {
		key, err := keyOf(t, b)
		if err != nil {
			return err
		}
		i, old, err := m.find(ctx, v, b, key)
		if err != nil {
			return err
		}
		if (i >= 0 || old != nil) && m.tx.Rules.Permissive {
			continue
		}
		if i >= 0 || old != nil {
			return problem(ValueExists, "attribute %s has the value to be added already", t.Name())
		}
		v.now = append(v.now, newValue{value: b, key: key})
		if t == m.tx.catalog.objectClass && m.tx.catalog.schema.Class(string(b)) == nil {
			return problem(ClassViolation, "object class %q is not in the schema", b)
		}
	}
	return nil
}

// find looks for a value among those of now (i >= 0) and, where there are many,
// among those that stay.
func (m *modification) find(ctx context.Context, v *editedValues, value, key []byte) (int, *keyed, error) {
	t := v.before.typ
	same := key
	if key == nil {
		same = value
	}
	var q []byte
	if key != nil {
		q = tree.Qualifier(t, v.before.options, key)
	}
	for i := range v.now {
		n := &v.now[i]
		switch {
		case n.old != nil && q != nil:
			if n.old.is(key, q) {
				return i, nil, nil
			}
		case n.key != nil && bytes.Equal(n.key, same), n.key == nil && bytes.Equal(n.value, same):
			return i, nil, nil
		}
	}
	if !v.before.many || v.whole || key == nil {
		return -1, nil, nil
	}
	if slices.ContainsFunc(v.removed, func(k *keyed) bool { return bytes.Equal(k.qualifier, q) }) {
		return -1, nil, nil
	}
	old, err := v.before.find(ctx, &m.tx.Snapshot, key)
	return -1, old, err
}

// delete removes the values given, or all.
func (m *modification) delete(ctx context.Context, v *editedValues, values [][]byte) error {
	t := v.before.typ
	if len(values) == 0 {
		if !v.has() && m.tx.Rules.Permissive {
			return nil
		}
		if !v.has() {
			return problem(NoSuchAttribute, "the entry has no %s to delete", t.Name())
		}
		return m.clear(ctx, v)
	}
	if t.Equality == nil {
		return problem(NoMatching, "values of %s cannot be named: it has no equality rule; delete or replace all of it", t.Name())
	}
	for _, b := range values {
		key, err := assertionKey(t, b)
		if err != nil {
			return err
		}
		i, old, err := m.find(ctx, v, b, key)
		switch {
		case err != nil:
			return err
		case i >= 0:
			if n := v.now[i]; n.old != nil {
				v.removed = append(v.removed, n.old)
			}
			v.now = slices.Delete(v.now, i, i+1)
		case old != nil:
			v.removed = append(v.removed, old)
		case !m.tx.Rules.Permissive:
			return problem(NoSuchAttribute, "attribute %s has no such value to delete", t.Name())
		}
	}
	return nil
}

// assertionKey is keyOf for a value that only names another one. Secrets are
// compared as they are.
func assertionKey(t *schema.AttributeType, b []byte) ([]byte, error) {
	if t.Secret() {
		return nil, nil
	}
	key, err := t.Equality.Key(b)
	if err != nil {
		return nil, problem(InvalidSyntax, "value of %s: %v", t.Name(), err)
	}
	return key, nil
}

// clear removes all values.
func (m *modification) clear(ctx context.Context, v *editedValues) error {
	if v.before.many && !v.whole {
		list, err := v.before.all(ctx, &m.tx.Snapshot)
		if err != nil {
			return err
		}
		v.removed = v.removed[:0]
		for i := range list {
			v.removed = append(v.removed, &list[i])
		}
		v.stays = false
	} else {
		for i := range v.now {
			if old := v.now[i].old; old != nil {
				v.removed = append(v.removed, old)
			}
		}
	}
	v.now, v.whole = nil, true
	return nil
}

// finish checks the result against the schema and writes it.
func (m *modification) finish(ctx context.Context) error {
	classes, err := m.settleClasses(ctx)
	if err != nil {
		return err
	}
	for _, t := range m.types {
		for _, v := range t.lists {
			if err := m.check(ctx, t, v); err != nil {
				return err
			}
		}
	}
	if classes == nil {
		if classes, err = m.tx.classesAt(ctx, m.pl.ID); err != nil {
			return err
		}
	}
	if err := m.conform(ctx, classes); err != nil {
		return err
	}
	if err := m.checkGiven(); err != nil {
		return err
	}
	m.mark()
	for _, t := range m.types {
		if err := m.write(ctx, t); err != nil {
			return err
		}
	}
	if err := m.stamp(); err != nil {
		return err
	}
	m.change.settle()
	m.change.flush()
	m.tx.touch(m.pl.ID, classes)
	return m.tx.settleClaims(ctx)
}

// check tests one description by itself.
func (m *modification) check(ctx context.Context, t *edited, v *editedValues) error {
	if t.typ.SingleValue && (len(v.now) > 1 || len(v.now) == 1 && v.stays) {
		return problem(Constraint, "attribute %s can have one value only", t.typ.Name())
	}
	if m.renames || v.before.options != "" || len(v.removed) == 0 {
		return nil
	}
	if m.rdn == nil {
		if err := m.readRDN(ctx); err != nil {
			return err
		}
	}
	for k := range m.rdn {
		if k.typ != t.typ {
			continue
		}
		i, stays, err := m.find(ctx, v, nil, []byte(k.key))
		if err != nil {
			return err
		}
		if i < 0 && stays == nil {
			return problem(NotOnRDN, "a value of %s is in the entry's name: rename the entry to be rid of it", t.typ.Name())
		}
	}
	return nil
}

func (m *modification) keeps(v *editedValues, key []byte) bool {
	return slices.ContainsFunc(v.now, func(n newValue) bool { return bytes.Equal(n.key, key) })
}

// readRDN gives the values that the entry's name consists of.
func (m *modification) readRDN(ctx context.Context) error {
	m.rdn = map[rdnValue]bool{}
	name, err := m.tx.lastRDN(ctx, m.pl.ID)
	if err != nil {
		return err
	}
	for _, ava := range name {
		t := m.tx.catalog.schema.Attribute(ava.Type)
		if t == nil {
			continue
		}
		if key, err := keyOf(t, ava.Value); err == nil {
			m.rdn[rdnValue{t, string(key)}] = true
		}
	}
	return nil
}

// lastRDN is an entry's own RDN, in stored spelling.
func (s *Snapshot) lastRDN(ctx context.Context, id entry.ID) (dn.RDN, error) {
	node, err := s.node(ctx, id)
	if err != nil {
		return nil, err
	}
	if node == nil {
		return nil, table.ErrCorrupt
	}
	name, err := dn.Parse(node.UpRDN)
	if err != nil || len(name) == 0 {
		return nil, table.ErrCorrupt
	}
	return name[0], nil
}

// mark declares the change: to single values of an attribute with others where
// it is no more than that, so that writers of one group do not conflict, else to
// the entry.
func (m *modification) mark() {
	row := m.change.master.Row
	// Of an indexed stamp only one writer can know which cell it replaces; and what
	// commutes by one schema may not by another one.
	whole := m.tx.catalog.toCome != nil || slices.ContainsFunc(m.tx.stamps(), func(s stamp) bool { return m.tx.catalog.indexes[s.typ] != nil })
	var hashes []uint64
	for _, t := range m.types {
		for _, v := range t.lists {
			if whole || !m.commutes(t, v) {
				m.tx.tx.Mark(m.tx.p.master, row, txn.Mark{Kind: txn.MarkUpdate})
				return
			}
			for _, k := range v.removed {
				q := k.qualifier
				if k.key != nil {
					q = tree.Qualifier(t.typ, v.before.options, k.key)
				}
				hashes = append(hashes, valueHash(q))
			}
			for _, n := range v.now {
				if n.old == nil {
					hashes = append(hashes, valueHash(tree.Qualifier(t.typ, v.before.options, n.key)))
				}
			}
		}
	}
	if len(hashes) == 0 {
		// No value changes in the end, but the stamps do.
		m.tx.tx.Mark(m.tx.p.master, row, txn.Mark{Kind: txn.MarkUpdate})
	}
	for _, h := range hashes {
		m.tx.tx.Mark(m.tx.p.master, row, txn.Mark{Kind: txn.MarkValue, Hash: h})
	}
}

// commutes reports whether the change to a description is independent of
// changes to its other values: values added to an attribute of many, or taken
// from one that has plenty left. An attribute that might lose its last value
// must not (it may be required), nor objectClass, on which the rest depends.
func (m *modification) commutes(t *edited, v *editedValues) bool {
	if v.whole || t.typ.SingleValue || t.typ.Equality == nil || t.typ.Secret() || t.typ == m.tx.catalog.objectClass {
		return false
	}
	if v.before.many {
		return v.plenty || len(v.removed) == 0
	}
	return len(v.removed) == 0 && len(v.now) <= tree.ManyValues
}
