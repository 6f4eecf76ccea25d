package write

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// Modify changes an entry (RFC 4511, 4.6). It applies all changes in order, or none, and checks
// the schema after the last change. Of an entry with very many values, it reads only the parts
// that it needs.
func (tx *Tx) Modify(ctx context.Context, name dn.DN, changes []op.Modification) error {
	tx.readAhead(ctx, name, false, func(pl state.Place) []txn.Read {
		return tx.Modifying(pl).ahead(changes)
	})
	pl, err := tx.existing(ctx, name)
	if err != nil {
		return err
	}
	m := tx.Modifying(pl)
	if err := m.load(ctx, changes); err != nil {
		return err
	}
	for i := range changes {
		if err := m.Apply(ctx, &changes[i]); err != nil {
			return err
		}
	}
	if err := m.Finish(ctx); err != nil {
		return err
	}
	m.remember()
	tx.Record("modify", name, secretsIn(tx.Catalog.Types, changes)...)
	return nil
}

// A modification is a change of one entry.
type modification struct {
	tx     *Tx
	pl     state.Place
	change *change
	row    table.Row // the columns of the entry's tree row that were read
	plain  table.Row // the columns of the entry's row in master that were read
	types  []*edited
	// given contains the types that normally only the server sets, and that the client sets in
	// this change because the Rules permit it. It does not contain account attributes.
	given   []*schema.AttributeType
	before  *cache.Item // the entry before the change, or nil: see remember
	stamped []stamp     // the operational attributes that stamp has set
	renames bool        // values of the RDN may be removed, because the change is a rename
	rdn     map[rdnValue]bool
}

// edited is a type that the modification reads and may change, with its values before and
// after.
type edited struct {
	typ    *schema.AttributeType
	before *state.TypeValues
	lists  []*editedValues
}

type rdnValue struct {
	typ *schema.AttributeType
	key string
}

func (tx *Tx) Modifying(pl state.Place) *modification {
	m := &modification{tx: tx, pl: pl}
	m.change = newChange(tx, pl.ID, pl.Parent, pl.RDN)
	return m
}

// load finds the types that the request changes, and reads their columns.
func (m *modification) load(ctx context.Context, changes []op.Modification) error {
	if err := m.choose(changes); err != nil {
		return err
	}
	return m.Read(ctx)
}

// ahead returns the reads of load.
func (m *modification) ahead(changes []op.Modification) (reads []txn.Read) {
	if m.choose(changes) != nil {
		return nil
	}
	keyed, plain := m.columns()
	if len(keyed.Columns) > 0 {
		reads = append(reads, txn.Read{Table: m.tx.Partition.Tree, Row: m.change.tree.Row, Select: keyed})
	}
	if len(plain.Columns) > 0 && m.pl.ID != catalog.Root {
		reads = append(reads, txn.Read{Table: m.tx.Partition.Master, Row: m.change.master.Row, Select: plain})
	}
	return reads
}

// choose finds the types that the request changes.
func (m *modification) choose(changes []op.Modification) error {
	for i := range changes {
		read := m.tx.Catalog.Storable
		if len(changes[i].Values) == 0 || changes[i].Kind == op.ModDelete {
			read = m.tx.Catalog.Removable
		}
		t, _, err := read(changes[i].Description)
		if err != nil {
			return err
		}
		if err := m.changeable(t); err != nil {
			return err
		}
		m.Edit(t)
		if t == m.tx.Catalog.ObjectClass && m.tx.Rules.Relaxed { // see morph
			m.Edit(m.tx.Catalog.StructuralObjectClass)
		}
		if t.NoUserModification && !OfAccounts(t) {
			m.given = append(m.given, t)
		}
	}
	if len(m.given) > 0 { // checkGiven reads createTimestamp
		m.Edit(m.tx.Catalog.CreateTimestamp)
	}
	return nil
}

func (m *modification) changeable(t *schema.AttributeType) error {
	rules := &m.tx.Rules
	given := rules.Kept || rules.Relaxed && relaxable(m.tx.Catalog.Types, t) || rules.Accounts && OfAccounts(t)
	if t.NoUserModification && !given || computed(m.tx.Catalog.Types, t) {
		return catalog.Errorf(catalog.Constraint, "attribute %s is maintained by the server: it cannot be changed", t.Name())
	}
	return nil
}

func (m *modification) Edit(t *schema.AttributeType) *edited {
	for _, e := range m.types {
		if e.typ == t {
			return e
		}
	}
	e := &edited{typ: t}
	m.types = append(m.types, e)
	return e
}

// columns selects the columns of all types to be changed: those of types with keys are in the tree, and
// those of other types in master.
func (m *modification) columns() (keyed, plain table.Select) {
	keyed.Families = []table.Family{tree.NormAttributes}
	plain.Families = []table.Family{master.UpAttributes, master.Secrets}
	for _, t := range m.types {
		if !t.typ.Keyed() {
			plain.Columns = append(plain.Columns, master.AnyOptions(t.typ)...)
			continue
		}
		keyed.Columns = append(keyed.Columns, tree.Columns(t.typ))
	}
	// Every change replaces the stamps. If a stamp is indexed, its old value is needed to
	// remove the old index cell.
	for _, t := range m.tx.stampTypes() {
		switch {
		case m.tx.Catalog.Indexes[t] == nil:
		case t.Keyless():
			plain.Columns = append(plain.Columns, master.AnyOptions(t)...)
		default:
			keyed.Columns = append(keyed.Columns, tree.Columns(t))
		}
	}
	return keyed, plain
}

// Read reads the columns of all types to be changed.
func (m *modification) Read(ctx context.Context) error {
	keyed, plain := m.columns()
	if err := m.readKeyed(ctx, keyed); err != nil {
		return err
	}
	return m.readPlain(ctx, plain)
}

func (m *modification) readKeyed(ctx context.Context, sel table.Select) error {
	if len(sel.Columns) > 0 {
		row, err := m.tx.Reader.Get(ctx, m.tx.Partition.Tree, m.change.tree.Row, sel)
		if err != nil {
			return err
		}
		m.row = row.Clone()
	}
	for _, t := range m.types {
		t.before = state.ValuesOf(m.pl.ID, t.typ, m.row)
	}
	return nil
}

// readPlain reads the values of types without keys, and the positions of these values.
func (m *modification) readPlain(ctx context.Context, sel table.Select) error {
	if len(sel.Columns) == 0 {
		return nil
	}
	row, err := m.tx.Reader.Get(ctx, m.tx.Partition.Master, m.change.master.Row, sel)
	if err != nil {
		return err
	}
	m.plain = row.Clone()
	for i := range row.Cells {
		q := bytes.Clone(row.Cells[i].Qualifier)
		typ, options, _ := master.Describe(q, m.tx.Catalog.Schema)
		for _, t := range m.types {
			if t.typ != typ || t.typ.Keyed() {
				continue
			}
			key := bytes.Clone(row.Cells[i].Value)
			if t.typ.Keyless() {
				if key, err = t.typ.Equality.Key(key); err != nil {
					return err
				}
			}
			d := t.before.Description(options)
			d.Unkeyed = true
			d.List = append(d.List, state.Keyed{Position: master.PositionOf(q), Key: key})
		}
	}
	return nil
}

// Apply applies one change of the request.
func (m *modification) Apply(ctx context.Context, c *op.Modification) error {
	t, options, err := m.tx.Catalog.Describe(c.Description)
	if err != nil {
		return err
	}
	e := m.Edit(t)
	if e.crowded(options) {
		return errCrowded(t)
	}
	v := e.values(options)
	if !v.has() && !m.tx.Catalog.Recognizes(c.Description) {
		return catalog.Unrecognized(c.Description)
	}
	if t.Obsolete && !m.tx.Rules.Relaxed && len(c.Values) > 0 && !e.before.Present() {
		return catalog.Obsolete("attribute type", t.Name())
	}
	switch c.Kind {
	case op.ModAdd:
		if len(c.Values) == 0 {
			return catalog.Errorf(catalog.BadOperand, "add of %s: no values given", c.Description)
		}
		if t.Equality == nil && v.has() {
			return catalog.Errorf(catalog.NoMatching, "values cannot be added to the present values of %s: it has no equality rule; replace all values", t.Name())
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
	return catalog.Errorf(catalog.Unwilling, "unknown kind of modification")
}

// add appends values. If the description already has one of the values, add returns an
// error, or ignores the value if the rules are permissive.
func (m *modification) add(ctx context.Context, v *editedValues, values [][]byte) error {
	t := v.before.Typ
	for _, b := range values {
		key, err := catalog.KeyOf(t, b)
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
			return catalog.Errorf(catalog.ValueExists, "attribute %s has the value to be added already", t.Name())
		}
		v.now = append(v.now, newValue{value: b, key: key})
		if t == m.tx.Catalog.ObjectClass && m.tx.Catalog.Schema.Class(string(b)) == nil {
			return catalog.Errorf(catalog.ClassViolation, "object class %q is not in the schema", b)
		}
	}
	return nil
}

// find looks for a value in v.now and returns the value's index, or -1. If the
// description has many values, find also looks for the value in the table master and
// returns the stored value, or nil.
func (m *modification) find(ctx context.Context, v *editedValues, value, key []byte) (int, *state.Keyed, error) {
	t := v.before.Typ
	same := key
	if key == nil {
		same = value
	}
	var q []byte
	if key != nil {
		q = tree.Qualifier(t, v.before.Options, key)
	}
	if i := v.position(same, q); i >= 0 {
		return i, nil, nil
	}
	if !v.before.Many || v.whole || key == nil || v.removes(key, q) {
		return -1, nil, nil
	}
	old, err := v.before.Find(ctx, &m.tx.Snapshot, key)
	return -1, old, err
}

// delete removes the given values. It removes all values if none are given.
func (m *modification) delete(ctx context.Context, v *editedValues, values [][]byte) error {
	t := v.before.Typ
	if len(values) == 0 {
		if !v.has() && m.tx.Rules.Permissive {
			return nil
		}
		if !v.has() {
			return catalog.Errorf(catalog.NoSuchAttribute, "the entry has no %s to delete", t.Name())
		}
		return m.clear(ctx, v)
	}
	if t.Equality == nil {
		return catalog.Errorf(catalog.NoMatching, "single values of %s cannot be deleted: it has no equality rule; delete or replace all values", t.Name())
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
			v.drop(i)
		case old != nil:
			v.removed = append(v.removed, old)
		case !m.tx.Rules.Permissive:
			return catalog.Errorf(catalog.NoSuchAttribute, "attribute %s has no such value to delete", t.Name())
		}
	}
	return nil
}

// assertionKey returns the key of a value that the request contains only to identify a stored
// value. It returns no key for a secret type, because secret values are compared byte by byte.
func assertionKey(t *schema.AttributeType, b []byte) ([]byte, error) {
	if t.Secret() {
		return nil, nil
	}
	key, err := t.Equality.Key(b)
	if err != nil {
		return nil, catalog.Errorf(catalog.InvalidSyntax, "value of %s: %v", t.Name(), err)
	}
	return key, nil
}

// clear removes all values of a description.
func (m *modification) clear(ctx context.Context, v *editedValues) error {
	if v.before.Many && !v.whole {
		list, err := v.before.All(ctx, &m.tx.Snapshot)
		if err != nil {
			return err
		}
		v.removed, v.without = v.removed[:0], positions{}
		for i := range list {
			v.removed = append(v.removed, &list[i])
		}
		v.stays = false
	} else {
		v.settle()
		for i := range v.now {
			if old := v.now[i].old; old != nil {
				v.removed = append(v.removed, old)
			}
		}
	}
	v.now, v.at, v.gone, v.whole = nil, positions{}, 0, true
	return nil
}

// Finish checks the result against the schema and writes it.
func (m *modification) Finish(ctx context.Context) error {
	for _, t := range m.types {
		for _, v := range t.lists {
			v.settle()
		}
	}
	before, classes, err := m.resolveClasses(ctx)
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
		if classes, err = m.tx.ClassesAt(ctx, m.pl.ID); err != nil {
			return err
		}
	}
	if err := m.conform(ctx, classes); err != nil {
		return err
	}
	if err := m.checkGiven(); err != nil {
		return err
	}
	m.before = m.tx.before(m.pl.ID)
	m.mark()
	for _, t := range m.types {
		if err := m.Write(ctx, t); err != nil {
			return err
		}
	}
	if err := m.stamp(); err != nil {
		return err
	}
	m.change.lastOfEach()
	m.tx.Touch(m.pl.ID, classes)
	if before != nil {
		m.tx.touchClasses(before)
	}
	m.change.flush()
	return m.tx.checkNew(ctx)
}

// check checks one description without regard to the entry's other attributes.
func (m *modification) check(ctx context.Context, t *edited, v *editedValues) error {
	if t.typ.SingleValue && (len(v.now) > 1 || len(v.now) == 1 && v.stays) {
		return catalog.Errorf(catalog.Constraint, "attribute %s can have one value only", t.typ.Name())
	}
	if m.renames || v.before.Options != "" || len(v.removed) == 0 {
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
			return catalog.Errorf(catalog.NotOnRDN, "a value of %s is in the entry's name: rename the entry to remove the value", t.typ.Name())
		}
	}
	return nil
}

func (m *modification) keeps(v *editedValues, key []byte) bool {
	return slices.ContainsFunc(v.now, func(n newValue) bool { return bytes.Equal(n.key, key) })
}

// readRDN reads the values in the entry's RDN.
func (m *modification) readRDN(ctx context.Context) error {
	m.rdn = map[rdnValue]bool{}
	name, err := lastRDN(ctx, &m.tx.Snapshot, m.pl.ID)
	if err != nil {
		return err
	}
	for _, ava := range name {
		t := m.tx.Catalog.Schema.Attribute(ava.Type)
		if t == nil {
			continue
		}
		if key, err := catalog.KeyOf(t, ava.Value); err == nil {
			m.rdn[rdnValue{t, string(key)}] = true
		}
	}
	return nil
}

// lastRDN returns an entry's RDN in its stored spelling.
func lastRDN(ctx context.Context, s *state.Snapshot, id entry.ID) (dn.RDN, error) {
	node, err := s.Node(ctx, id)
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

// mark places the marks of the modification. If the modification only adds or removes values in
// a way that commutes with other changes, mark places a mark for each of these values. So
// clients that change different members of one group at the same time do not conflict. In all
// other cases, mark places a mark for the whole entry.
func (m *modification) mark() {
	row := m.change.master.Row
	// In two cases, no change of the entry commutes with other changes. If a stamp is indexed,
	// every change replaces the index cell that the previous change wrote. While a schema is
	// announced, changes that commute under the schema in force may not commute under the
	// announced schema.
	whole := m.tx.Catalog.ToCome != nil || m.tx.indexesStamp()
	var hashes []uint64
	for _, t := range m.types {
		for _, v := range t.lists {
			if whole || !m.commutes(t, v) {
				m.tx.Txn.Mark(m.tx.Partition.Master, row, txn.Mark{Kind: txn.MarkUpdate})
				return
			}
			for _, k := range v.removed {
				q := k.Qualifier
				if k.Key != nil {
					q = tree.Qualifier(t.typ, v.before.Options, k.Key)
				}
				hashes = append(hashes, valueHash(q))
			}
			for _, n := range v.now {
				if n.old == nil {
					hashes = append(hashes, valueHash(tree.Qualifier(t.typ, v.before.Options, n.key)))
				}
			}
		}
	}
	if len(hashes) == 0 {
		// No value changes in the end, but the stamps change.
		m.tx.Txn.Mark(m.tx.Partition.Master, row, txn.Mark{Kind: txn.MarkUpdate})
	}
	for _, h := range hashes {
		m.tx.Txn.Mark(m.tx.Partition.Master, row, txn.Mark{Kind: txn.MarkValue, Hash: h})
	}
}

// commutes reports whether a change of some values of a description commutes with changes of
// other values of the description. An addition of values to a multi-valued attribute commutes,
// except the addition with which the number of values exceeds tree.ManyValues. A removal of
// values commutes only if plenty of values remain (see enough): the attribute may be required,
// so it must not lose its last value. A change of objectClass does not commute, because the
// object classes determine which other attributes are allowed and required.
func (m *modification) commutes(t *edited, v *editedValues) bool {
	if v.whole || t.typ.SingleValue || t.typ.Equality == nil || t.typ.Secret() || t.typ == m.tx.Catalog.ObjectClass {
		return false
	}
	if v.before.Many {
		return v.plenty || len(v.removed) == 0
	}
	return len(v.removed) == 0 && len(v.now) <= tree.ManyValues
}
