package partition

import (
	"bytes"
	"context"
	"errors"
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

// Add makes an entry. Attributes are as the client sent them. With keep, values
// of NO-USER-MODIFICATION attributes (entryUUID, timestamps, names) are taken
// as given, as an import does; without, they are refused.
func (tx *Tx) Add(ctx context.Context, name dn.DN, attributes []op.PartialAttribute, keep bool) (entry.ID, error) {
	g := givenNone
	switch {
	case keep:
		g = givenByImport
	case tx.Rules.Relaxed:
		g = givenByRelax
	}
	e, err := tx.catalog.prepare(name, attributes, g)
	if err != nil {
		return entry.ID{}, err
	}
	pl, err := tx.locate(ctx, name)
	switch {
	case err != nil:
		return entry.ID{}, err
	case pl.found:
		return entry.ID{}, problem(EntryExists, "entry %s exists already", name)
	case !pl.parentFound(tx.catalog):
		return entry.ID{}, tx.missing(ctx, name.Parent(), &pl)
	}
	if err := tx.notAlias(ctx, pl.Parent); err != nil {
		return entry.ID{}, err
	}
	if _, err := tx.governor().govern(ctx, e.classes, name[0], pl.Parent); err != nil {
		return entry.ID{}, err
	}
	if e.id != root {
		if err := tx.unused(ctx, e.id); err != nil {
			return entry.ID{}, err
		}
	}
	if e.id == root {
		e.id = entry.NewID()
	}
	tx.stampNew(e)
	if g == givenByRelax {
		if err := tx.checkTimes(e.key(tx.catalog.createTimestamp), e.key(tx.catalog.modifyTimestamp)); err != nil {
			return entry.ID{}, err
		}
	}
	tx.markAdd(pl.Parent, e.id, pl.rdn)
	e.write(tx.p, tx.catalog, tx, pl.Parent, pl.rdn)
	tx.touch(e.id, e.classes)
	tx.record("add", name, e.secrets()...)
	return e.id, tx.settleClaims(ctx)
}

// notAlias refuses to put an entry below an alias, which is always a leaf
// (RFC 4512, 2.6).
func (s *Snapshot) notAlias(ctx context.Context, parent entry.ID) error {
	alias := s.catalog.schema.Class("alias")
	if parent == root || alias == nil {
		return nil
	}
	if some, err := s.HasClass(ctx, alias); err != nil || !some {
		return err
	}
	is, err := s.Compare(ctx, parent, s.catalog.objectClass.Name(), []byte(alias.Name()))
	if is {
		err = errBelowAlias
	}
	return err
}

var errBelowAlias = problem(BelowAlias, "the entry above is an alias: nothing can stand below it")

// unused refuses an id that some entry has.
func (tx *Tx) unused(ctx context.Context, id entry.ID) error {
	n, err := tx.node(ctx, id)
	if err == nil && n != nil {
		err = problem(EntryExists, "another entry has the entryUUID %s", id)
	}
	return err
}

// markAdd declares a new name under a parent.
func (tx *Tx) markAdd(parent, id entry.ID, rdn dn.Norm) {
	tx.tx.Mark(tx.p.tree, tree.Key(parent, rdn), txn.Mark{Kind: txn.MarkExclusive})
	tx.tx.Mark(tx.p.master, master.Row(id), txn.Mark{Kind: txn.MarkExclusive})
	if parent != root {
		tx.tx.Mark(tx.p.master, master.Row(parent), txn.Mark{Kind: txn.MarkChild})
	}
}

// newEntry is an entry that passed the schema, ready to be written.
type newEntry struct {
	id         entry.ID // root: not given
	name       dn.DN
	upRDN      string
	classes    *classes
	attributes []newAttribute
}

type newAttribute struct {
	typ     *schema.AttributeType
	options string
	values  [][]byte
	keys    [][]byte // nil for types without keys
}

// prepare checks what a client wants to add, without the store.
func (k *types) prepare(name dn.DN, attributes []op.PartialAttribute, g given) (*newEntry, error) {
	if len(name) == 0 {
		return nil, problem(EntryExists, "the root DSE is not an entry that can be added")
	}
	e := &newEntry{name: name, upRDN: name[0].String(), attributes: make([]newAttribute, 0, len(attributes)+8)}
	var wrong mistakes
	for i := range attributes {
		if err := k.take(e, &attributes[i], g); !wrong.add(err) {
			return nil, err
		}
	}
	if err := k.checkClasses(e, g); !wrong.add(err) {
		return nil, err
	}
	if err := k.nameValues(e, name[0]); !wrong.add(err) {
		return nil, err
	}
	if e.classes != nil {
		wrong.add(e.classes.conform(k.typesOf(e, attributes, len(wrong) > 0)))
	}
	return e, wrong.err()
}

// typesOf are the types that the entry has, with those of attributes that could not
// be taken.
func (k *types) typesOf(e *newEntry, attributes []op.PartialAttribute, all bool) []*schema.AttributeType {
	has := make([]*schema.AttributeType, len(e.attributes))
	for i := range e.attributes {
		has[i] = e.attributes[i].typ
	}
	for i := range attributes {
		if !all {
			break
		}
		if t, _, err := k.storable(attributes[i].Description); err == nil && !slices.Contains(has, t) && !k.computed(t) {
			has = append(has, t)
		}
	}
	return has
}

// take adds a client's attribute to the entry.
func (k *types) take(e *newEntry, a *op.PartialAttribute, g given) error {
	t, options, err := k.storable(a.Description)
	if err != nil {
		return err
	}
	if t.NoUserModification && !g.takes(k, t) {
		return problem(Constraint, "attribute %s is the server's: it cannot be given", t.Name())
	}
	if t.Obsolete && g == givenNone {
		return obsolete("attribute type", t.Name())
	}
	if k.computed(t) {
		return k.takeComputed(e, t, a)
	}
	if len(a.Values) == 0 {
		return problem(InvalidSyntax, "attribute %s has no values", a.Description)
	}
	return e.add(t, options, a.Values)
}

// takeComputed reads entryUUID and drops what is computed anyway.
func (k *types) takeComputed(e *newEntry, t *schema.AttributeType, a *op.PartialAttribute) error {
	if t != k.entryUUID {
		return nil
	}
	if len(a.Values) != 1 {
		return problem(Constraint, "entryUUID has %d values: it must have one", len(a.Values))
	}
	id, err := entry.ParseID(string(a.Values[0]))
	if err != nil || id == root {
		return problem(InvalidSyntax, "value of entryUUID: not a UUID")
	}
	e.id = id
	return nil
}

// add appends values, refusing equal ones.
func (e *newEntry) add(t *schema.AttributeType, options string, values [][]byte) error {
	a := e.find(t, options)
	if a == nil {
		e.attributes = append(e.attributes, newAttribute{typ: t, options: options,
			values: make([][]byte, 0, len(values)), keys: make([][]byte, 0, len(values))})
		a = &e.attributes[len(e.attributes)-1]
	}
	seen := a.seen(len(values))
	var wrong mistakes
	for _, v := range values {
		key, err := keyOf(t, v)
		if err != nil {
			if !wrong.add(err) {
				return err
			}
			continue
		}
		same := v
		if key != nil {
			same = key
		}
		if seen.add(same) {
			wrong.add(problem(ValueExists, "attribute %s has the same value twice", t.Name()))
			continue
		}
		a.values, a.keys = append(a.values, v), append(a.keys, key)
	}
	if t.SingleValue && len(a.values) > 1 {
		wrong.add(problem(Constraint, "attribute %s can have one value only", t.Name()))
	}
	return wrong.err()
}

// distinct finds equal values: by comparing few, by a map where there are many.
type distinct struct {
	few  [][]byte
	many map[string]struct{}
}

const fewValues = 16

func (a *newAttribute) seen(n int) *distinct {
	d := &distinct{}
	if n+len(a.values) > fewValues {
		d.many = make(map[string]struct{}, n+len(a.values))
	}
	for i, v := range a.values {
		if a.keys[i] != nil {
			v = a.keys[i]
		}
		d.add(v)
	}
	return d
}

// add reports whether v was there already.
func (d *distinct) add(v []byte) bool {
	if d.many != nil {
		_, again := d.many[string(v)]
		d.many[string(v)] = struct{}{}
		return again
	}
	for _, f := range d.few {
		if bytes.Equal(f, v) {
			return true
		}
	}
	d.few = append(d.few, v)
	return false
}

func (e *newEntry) find(t *schema.AttributeType, options string) *newAttribute {
	for i := range e.attributes {
		if a := &e.attributes[i]; a.typ == t && a.options == options {
			return a
		}
	}
	return nil
}

// has reports whether the entry has values of exactly type t.
func (e *newEntry) has(t *schema.AttributeType) bool {
	return slices.ContainsFunc(e.attributes, func(a newAttribute) bool { return a.typ == t })
}

// checkClasses looks the classes up, writes superclasses out and sets
// structuralObjectClass.
func (k *types) checkClasses(e *newEntry, g given) error {
	a := e.find(k.objectClass, "")
	if a == nil {
		return problem(ClassViolation, "the entry has no objectClass")
	}
	cs, err := k.classesOf(a.values)
	if err != nil {
		return err
	}
	e.classes = cs
	for _, c := range cs.all {
		if c.Obsolete && g == givenNone {
			return obsolete("object class", c.Name())
		}
		key, err := keyOf(k.objectClass, []byte(c.Name()))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(a.keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			a.values, a.keys = append(a.values, []byte(c.Name())), append(a.keys, key)
		}
	}
	return e.replace(k.structuralObjectClass, []byte(cs.structural.Name()))
}

// replace sets the one value of an attribute.
func (e *newEntry) replace(t *schema.AttributeType, v []byte) error {
	e.attributes = slices.DeleteFunc(e.attributes, func(a newAttribute) bool { return a.typ == t })
	return e.add(t, "", [][]byte{v})
}

// nameValues sees to it that the entry has the values its name gives (RFC 4511,
// 4.7: the client need not send them).
func (k *types) nameValues(e *newEntry, rdn dn.RDN) error {
	for _, ava := range rdn {
		t, key, err := k.namingKey(ava)
		if err != nil {
			return err
		}
		a := e.find(t, "")
		if a != nil && slices.ContainsFunc(a.keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			continue
		}
		if err := e.add(t, "", [][]byte{ava.Value}); err != nil {
			return problem(NamingViolation, "the name's %s is not among the entry's values, which can be one only", t.Name())
		}
	}
	return nil
}

// namingType finds a type that can stand in an RDN.
func (k *types) namingType(name string) (*schema.AttributeType, error) {
	t := k.schema.Attribute(name)
	switch {
	case t == nil:
		return nil, problem(InvalidName, "attribute type %q is not in the schema", name)
	case t.Equality == nil || t.Secret() || t.Operational() || t.Collective:
		return nil, problem(NamingViolation, "attribute %s cannot be in a name", t.Name())
	}
	return t, nil
}

// namingKey reads a part of an RDN. A value that breaks its syntax makes the name
// invalid (RFC 4511, 4.1.2).
func (k *types) namingKey(ava dn.AVA) (*schema.AttributeType, []byte, error) {
	t, err := k.namingType(ava.Type)
	if err != nil {
		return nil, nil, err
	}
	key, err := keyOf(t, ava.Value)
	if e := (*Error)(nil); errors.As(err, &e) && e.Problem == InvalidSyntax {
		return nil, nil, problem(InvalidName, "%s", e.Text)
	}
	return t, key, err
}

// computed reports whether a type's values are made when they are read.
func (k *types) computed(t *schema.AttributeType) bool {
	return t == k.entryUUID || t == k.entryDN || t == k.hasSubordinates || t == k.numSubordinates || t == k.subschema ||
		t == k.governingStructureRule
}

// stampsOf makes the operational attributes of an entry that is made by someone
// now.
func stampsOf(t *types, by string, now, csn []byte) []newAttribute {
	name := []byte(by)
	as := make([]newAttribute, 0, 5)
	for _, s := range []stamp{
		{t.creatorsName, name}, {t.createTimestamp, now},
		{t.modifiersName, name}, {t.modifyTimestamp, now}, {t.entryCSN, csn},
	} {
		key, err := keyOf(s.typ, s.value)
		if err != nil {
			continue // a requester whose name is no DN: nothing to say of who
		}
		as = append(as, newAttribute{s.typ, "", [][]byte{s.value}, [][]byte{key}})
	}
	return as
}

// stamp sets the operational attributes that the entry does not bring along.
func (e *newEntry) stamp(as []newAttribute) {
	for _, a := range as {
		if !e.has(a.typ) {
			e.attributes = append(e.attributes, a)
		}
	}
}

// stampNew stamps an entry that a transaction makes.
func (tx *Tx) stampNew(e *newEntry) {
	own := !e.has(tx.catalog.types.entryCSN)
	e.stamp(stampsOf(tx.catalog.types, tx.by, timestamp(tx.time), csn(tx.tx.Stamp())))
	if a := &e.attributes[len(e.attributes)-1]; own && a.typ == tx.catalog.types.entryCSN {
		tx.finalCSN(a.values[0], a.keys[0])
	}
}

// write gives out all rows of the entry.
func (e *newEntry) write(p *Partition, c *catalog, w writer, parent entry.ID, rdn dn.Norm) {
	ch := newChange(p, c, w, e.id, parent, rdn)
	node := master.Node{Parent: parent, UpRDN: e.upRDN, NormRDN: rdn}
	if parent == root {
		node.UpRDN = e.name.String()
	}
	ch.master.Cells = append(make([]table.Cell, 0, 3+len(e.attributes)*2), node.Cells()...)
	ch.tree.Cells = append(make([]table.Cell, 0, 1+len(e.attributes)*2), tree.Cell(e.id))
	for i := range e.attributes {
		e.attributes[i].write(ch)
	}
	for _, x := range c.ordered {
		if e.has(x.typ) {
			ch.presence(x, false)
		}
	}
	ch.flush()
}

func (a *newAttribute) write(c *change) {
	many := len(a.values) > tree.ManyValues && a.typ.Equality != nil && !a.typ.Secret()
	if many {
		c.note(a.typ, a.options, tree.Many, false)
	}
	x := c.catalog.indexes[a.typ]
	for i, v := range a.values {
		c.put(a.typ, a.options, v, a.keys[i], many)
		if x != nil {
			c.enter(x, a.keys[i], false)
		}
	}
}
