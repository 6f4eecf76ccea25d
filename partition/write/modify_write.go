package write

import (
	"bytes"
	"context"
	"math/big"
	"slices"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// present reports whether the description has values after the change.
func (v *editedValues) present() bool { return len(v.now) > 0 || v.stays }

// presentAfter reports whether the type has values after the change, under any options.
func (e *edited) presentAfter() bool {
	for _, v := range e.lists {
		if v.present() {
			return true
		}
	}
	return slices.ContainsFunc(e.rest(), func(d *state.DescribedValues) bool { return d.Many || d.Unkeyed || len(d.List) > 0 })
}

// rest returns the descriptions that the modification does not change.
func (e *edited) rest() (ds []*state.DescribedValues) {
	for _, d := range e.before.Described {
		if !slices.ContainsFunc(e.lists, func(v *editedValues) bool { return v.before == d }) {
			ds = append(ds, d)
		}
	}
	return ds
}

// enough is the number of values that an attribute must keep so that concurrent writers
// may each remove some of them.
const enough = 1000

// checkRemaining sets stays and plenty. For a description with many values, it counts the
// values that remain.
func (m *modification) checkRemaining(ctx context.Context, v *editedValues) error {
	if !v.before.Many || v.whole || len(v.removed) == 0 {
		return nil
	}
	row, err := m.tx.Reader.Get(ctx, m.tx.Partition.Master, m.change.master.Row, table.Select{
		Families: []table.Family{master.NormAttributes},
		Columns:  v.before.ManyColumns(),
		MaxCells: len(v.removed) + enough,
	})
	if err != nil {
		return err
	}
	left := len(row.Cells) - len(v.removed)
	v.stays, v.plenty = left > 0, left == enough
	return nil
}

// resolveClasses checks a change of objectClass and adds superclasses. Unless the rules
// are relaxed, it returns an error if the structural class changes. It returns the
// classes before and after the change, or nil if objectClass does not change.
func (m *modification) resolveClasses(ctx context.Context) (before, after *catalog.Classes, err error) {
	for _, t := range m.types {
		for _, v := range t.lists {
			if err := m.checkRemaining(ctx, v); err != nil {
				return nil, nil, err
			}
		}
	}
	oc := m.tx.Catalog.ObjectClass
	i := slices.IndexFunc(m.types, func(t *edited) bool { return t.typ == oc && len(t.lists) > 0 })
	if i < 0 {
		return nil, nil, nil
	}
	v := m.types[i].values("")
	before, err = m.tx.ClassesAt(ctx, m.pl.ID)
	if err != nil {
		return nil, nil, err
	}
	keys := make([][]byte, len(v.now))
	for k, n := range v.now {
		keys[k] = n.key
	}
	after, err = m.tx.Catalog.ClassesOfKeys(keys)
	if err != nil {
		return nil, nil, err
	}
	if after.Structural != before.Structural {
		if err := m.morph(ctx, before, after); err != nil {
			return nil, nil, err
		}
	}
	for _, c := range after.All {
		if c.Obsolete && !m.tx.Rules.Relaxed && !before.Has(c) {
			return nil, nil, catalog.Obsolete("object class", c.Name())
		}
	}
	return before, after, m.superclasses(v, before, after)
}

// morph completes a change of the entry's structural class, which only relaxed rules allow
// (draft-zeilenga-ldap-relax, 3.1): it changes structuralObjectClass. It returns an error if,
// with the new class, the DIT structure rules no longer allow the entry or the entries below
// the entry.
func (m *modification) morph(ctx context.Context, before, after *catalog.Classes) error {
	if !m.tx.Rules.Relaxed {
		return catalog.Errorf(catalog.ClassModification, "the structural object class is %s and cannot become %s", before.Structural.Name(), after.Structural.Name())
	}
	rdn, err := lastRDN(ctx, &m.tx.Snapshot, m.pl.ID)
	if err != nil {
		return err
	}
	if err := m.tx.governs(ctx, m.pl.ID, after, rdn, m.pl.Parent); err != nil {
		return err
	}
	return m.Apply(ctx, &op.Modification{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{
		Description: m.tx.Catalog.StructuralObjectClass.Name(), Values: [][]byte{[]byte(after.Structural.Name())}}})
}

// superclasses adds the superclasses of the classes. It returns an error if the client deleted
// a superclass but not a subclass of it. Without the error, superclasses would add the deleted
// superclass again, although the client believes that the superclass is gone. If the client
// replaced all values, a missing superclass is added without an error.
func (m *modification) superclasses(v *editedValues, before, after *catalog.Classes) error {
	for _, c := range after.All {
		key, err := catalog.KeyOf(v.before.Typ, []byte(c.Name()))
		if err != nil {
			return err
		}
		if m.keeps(v, key) {
			continue
		}
		if before.Has(c) && !v.whole {
			return catalog.Errorf(catalog.ClassViolation, "object class %s cannot be removed while the entry has a subclass of it", c.Name())
		}
		v.now = append(v.now, newValue{value: []byte(c.Name()), key: key})
	}
	return nil
}

// conform checks the result against the object classes. The classes must allow the
// attributes that the change adds, and must not require the attributes that it removes.
// If the classes change, conform checks the whole entry.
func (m *modification) conform(ctx context.Context, cs *catalog.Classes) error {
	for _, t := range m.types {
		if t.presentAfter() || t.typ.Collective {
			if !cs.Allows(t.typ) {
				return catalog.NotAllowed(cs, t.typ)
			}
		} else if by := cs.Requires(t.typ); by != "" {
			return catalog.Required(by, t.typ)
		}
	}
	oc := m.tx.Catalog.ObjectClass
	if !slices.ContainsFunc(m.types, func(t *edited) bool { return t.typ == oc }) {
		return nil
	}
	return m.conformWhole(ctx, cs)
}

func (m *modification) conformWhole(ctx context.Context, cs *catalog.Classes) error {
	e, err := m.tx.Entry(ctx, m.pl.ID, true)
	if err != nil {
		return err
	}
	var has []*schema.AttributeType
	for i := range e.Attributes {
		t := e.Attributes[i].Type
		if !slices.Contains(has, t) && !slices.ContainsFunc(m.types, func(x *edited) bool { return x.typ == t }) {
			has = append(has, t)
		}
	}
	for _, t := range m.types {
		if t.presentAfter() {
			has = append(has, t.typ)
		}
	}
	return cs.Conform(has)
}

// Write writes the columns and the index cells of one type.
func (m *modification) Write(ctx context.Context, e *edited) error {
	for _, v := range e.lists {
		if err := m.writeValues(ctx, e, v); err != nil {
			return err
		}
	}
	x := m.tx.Catalog.Indexes[e.typ]
	if x == nil {
		return nil
	}
	if before, after := e.before.Present(), e.presentAfter(); before != after {
		m.change.presence(x, !after)
	}
	return m.index(ctx, e, x)
}

// writeValues writes the columns of one description. If the description now has many
// values, writeValues moves its old columns to master.
func (m *modification) writeValues(ctx context.Context, e *edited, v *editedValues) error {
	c, t, options := m.change, e.typ, v.before.Options
	keyed := t.Keyed()
	was := v.before.Many
	many := keyed && (was && !v.whole || len(v.now) > tree.ManyValues)
	for _, k := range v.removed {
		c.remove(t, options, k, was)
	}
	for _, n := range v.now {
		switch {
		case n.old == nil:
			c.put(t, options, n.value, n.key, many)
		case many && !was:
			m.move(t, options, n.old)
		}
	}
	switch {
	case many != was:
		c.note(t, options, tree.Many, !many)
	case was && !v.present():
		c.note(t, options, tree.Many, true)
	case t.Equality == nil && !v.present() && len(v.removed) > 0:
		c.note(t, options, tree.Unkeyed, true)
	}
	return nil
}

// move moves a value's column from the tree to master.
func (m *modification) move(t *schema.AttributeType, options string, k *state.Keyed) {
	c := m.change
	c.tree.Cells = append(c.tree.Cells, table.Cell{Family: tree.NormAttributes, Qualifier: k.Qualifier, Tombstone: true})
	to := table.Cell{Family: master.NormAttributes, Qualifier: k.Qualifier, Value: k.Position}
	if k.Key != nil { // the column in the tree may contain no key
		to = ManyColumn(t, options, k.Key, k.Position)
	}
	c.master.Cells = append(c.master.Cells, to)
}

// index updates the index of a type. It removes the keys that the type no longer has
// under any options, and adds the new keys.
func (m *modification) index(ctx context.Context, e *edited, x *catalog.Indexed) error {
	rest := e.rest()
	for _, v := range e.lists {
		for _, k := range v.removed {
			key, err := keyAt(ctx, &m.tx.Snapshot, v.before, k)
			if err != nil {
				return err
			}
			held, err := m.holds(ctx, e, rest, key)
			if err != nil {
				return err
			}
			if !held {
				m.change.enter(x, key, true)
			}
		}
		for _, n := range v.now {
			if n.old == nil {
				m.change.enterNew(x, n.key, n.value)
			}
		}
	}
	return nil
}

// holds reports whether the type has a key after the change, under any options. The parameter rest
// is the result of e.rest.
func (m *modification) holds(ctx context.Context, e *edited, rest []*state.DescribedValues, key []byte) (bool, error) {
	for _, v := range e.lists {
		n, old, err := m.find(ctx, v, nil, key)
		if err != nil || n >= 0 || old != nil {
			return err == nil, err
		}
	}
	for _, d := range rest {
		k, err := d.Find(ctx, &m.tx.Snapshot, key)
		if err != nil || k != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// stamp replaces modifiersName, modifyTimestamp and entryCSN, except those that the
// request itself sets.
func (m *modification) stamp() error {
	stamps := m.tx.stamps()
	m.stamped = make([]stamp, 0, len(stamps))
	for _, s := range stamps {
		if m.setsStamp(s.typ) {
			continue
		}
		key, err := catalog.KeyOf(s.typ, s.value)
		if err != nil {
			continue // the modifier's name is not a DN
		}
		if x := m.tx.Catalog.Indexes[s.typ]; x != nil {
			before := state.ValuesOf(m.pl.ID, s.typ, m.row)
			if s.typ.Keyless() {
				if before, err = state.ValuesIn(m.pl.ID, s.typ, m.plain, m.tx.Catalog.Schema); err != nil {
					return err
				}
			}
			for _, k := range before.Description("").List {
				m.change.enter(x, k.Key, true)
			}
			m.change.enter(x, key, false)
			// If the request deleted the stamp, the change has removed the presence cell.
			if !before.Present() || slices.Contains(m.given, s.typ) {
				m.change.presence(x, false)
			}
		}
		m.change.put(s.typ, "", s.value, key, false)
		m.stamped = append(m.stamped, s)
		if s.typ == m.tx.Catalog.Types.EntryCSN {
			m.tx.finalCSN(s.value, key)
		}
	}
	return nil
}

// increment adds an operand to every value of an INTEGER attribute (RFC 4525).
func (m *modification) increment(ctx context.Context, v *editedValues, operands [][]byte) error {
	t := v.before.Typ
	if len(operands) != 1 {
		return catalog.Errorf(catalog.BadOperand, "increment of %s: one operand is needed, %d given", t.Name(), len(operands))
	}
	if t.Syntax.OID != catalog.IntegerSyntax {
		return catalog.Errorf(catalog.Constraint, "increment of %s: only integers can be incremented", t.Name())
	}
	if err := t.Syntax.Validate(operands[0]); err != nil {
		return catalog.Errorf(catalog.Constraint, "increment of %s: the operand is %v", t.Name(), err)
	}
	by, ok := new(big.Int).SetString(string(operands[0]), 10)
	if !ok {
		return catalog.Errorf(catalog.Constraint, "increment of %s: the operand is not an integer", t.Name())
	}
	values, err := m.current(ctx, v)
	if err != nil {
		return err
	}
	if len(values) == 0 {
		return catalog.Errorf(catalog.NoSuchAttribute, "the entry has no %s to increment", t.Name())
	}
	for i, b := range values {
		if err := t.Syntax.Validate(b); err != nil {
			return catalog.Errorf(catalog.Constraint, "increment of %s: a value is %v", t.Name(), err)
		}
		n, ok := new(big.Int).SetString(string(b), 10)
		if !ok {
			return catalog.Errorf(catalog.Constraint, "increment of %s: a value is not an integer", t.Name())
		}
		values[i] = []byte(n.Add(n, by).String())
	}
	if err := m.clear(ctx, v); err != nil {
		return err
	}
	return m.add(ctx, v, values)
}

// maxIncremented is the largest number of values that one change increments. A request may have very many such changes.
const maxIncremented = 100

// current reads the values that a description has after the changes so far.
func (m *modification) current(ctx context.Context, v *editedValues) ([][]byte, error) {
	row, err := m.tx.Reader.Get(ctx, m.tx.Partition.Master, m.change.master.Row, table.Select{
		Families: []table.Family{master.UpAttributes},
		Columns:  []table.ColumnRange{master.Columns(v.before.Typ, v.before.Options)}})
	if err != nil {
		return nil, err
	}
	var values [][]byte
	if v.before.Many && !v.whole || len(v.now)-v.gone > maxIncremented {
		return nil, catalog.Errorf(catalog.Unwilling, "%s has too many values to increment", v.before.Typ.Name())
	}
	for _, n := range v.now {
		if n.old == nil {
			values = append(values, n.value)
			continue
		}
		for i := range row.Cells {
			if bytes.Equal(master.PositionOf(row.Cells[i].Qualifier), n.old.Position) {
				values = append(values, bytes.Clone(row.Cells[i].Value))
			}
		}
	}
	return values, nil
}
