package write

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// Add adds an entry with the attributes that the client sent. If keep is set, as for an
// import, the entry keeps the given entryUUID and the given values of stored
// NO-USER-MODIFICATION attributes, such as timestamps and creatorsName. Otherwise Add refuses
// these values, except those that the transaction's Rules accept.
func (tx *Tx) Add(ctx context.Context, name dn.DN, attributes []op.PartialAttribute, keep bool) (entry.ID, error) {
	g := givenNone
	switch {
	case keep:
		g = GivenByImport
	case tx.Rules.Relaxed:
		g = givenByRelax
	case tx.Rules.Accounts:
		g = givenByServer
	}
	e, err := Prepare(tx.Catalog.Types, name, attributes, g)
	if err != nil {
		return entry.ID{}, err
	}
	tx.readAhead(ctx, name, true, func(state.Place) []txn.Read { return nil })
	pl, err := tx.Locate(ctx, name)
	switch {
	case err != nil:
		return entry.ID{}, err
	case pl.Found:
		return entry.ID{}, catalog.Errorf(catalog.EntryExists, "entry %s exists already", name)
	case !pl.ParentFound(tx.Catalog):
		return entry.ID{}, pl.Missing(ctx, &tx.Snapshot, name.Parent())
	}
	if err := NotAlias(ctx, &tx.Snapshot, pl.Parent); err != nil {
		return entry.ID{}, err
	}
	if _, err := governor(&tx.Snapshot).Govern(ctx, e.Classes, name[0], pl.Parent); err != nil {
		return entry.ID{}, err
	}
	if e.ID != catalog.Root {
		if err := tx.checkUnused(ctx, e.ID); err != nil {
			return entry.ID{}, err
		}
	}
	if e.ID == catalog.Root {
		e.ID = entry.NewID()
	}
	tx.StampNew(e)
	if g == givenByRelax {
		if err := tx.checkTimes(e.key(tx.Catalog.CreateTimestamp), e.key(tx.Catalog.ModifyTimestamp)); err != nil {
			return entry.ID{}, err
		}
	}
	tx.markAdd(pl.Parent, e.ID, pl.RDN)
	tx.Touch(e.ID, e.Classes)
	e.Write(tx.Partition, tx.Catalog, tx, pl.Parent, pl.RDN)
	tx.Record("add", name, e.secrets()...)
	return e.ID, tx.checkNew(ctx)
}

// NotAlias returns an error if a parent is an alias, because an alias cannot have entries
// below it (RFC 4512, 2.6).
func NotAlias(ctx context.Context, s *state.Snapshot, parent entry.ID) error {
	alias := s.Catalog.Schema.Class("alias")
	if parent == catalog.Root || alias == nil {
		return nil
	}
	if some, err := search.HasClass(ctx, s, alias); err != nil || !some {
		return err
	}
	is, err := s.Compare(ctx, parent, s.Catalog.ObjectClass.Name(), []byte(alias.Name()))
	if is {
		err = ErrBelowAlias
	}
	return err
}

var ErrBelowAlias = catalog.Errorf(catalog.BelowAlias, "the entry above is an alias, and an alias cannot have entries below it")

// checkUnused returns an error if an entry with the id exists.
func (tx *Tx) checkUnused(ctx context.Context, id entry.ID) error {
	n, err := tx.Node(ctx, id)
	if err == nil && n != nil {
		err = catalog.Errorf(catalog.EntryExists, "another entry has the entryUUID %s", id)
	}
	return err
}

// markAdd marks the rows of a new entry, and its parent.
func (tx *Tx) markAdd(parent, id entry.ID, rdn dn.Norm) {
	tx.Txn.Mark(tx.Partition.Tree, tree.Key(parent, rdn), txn.Mark{Kind: txn.MarkExclusive})
	tx.Txn.Mark(tx.Partition.Master, master.Row(id), txn.Mark{Kind: txn.MarkExclusive})
	if parent != catalog.Root {
		tx.Txn.Mark(tx.Partition.Master, master.Row(parent), txn.Mark{Kind: txn.MarkChild})
	}
}

// A NewEntry is an entry that passed the schema checks and is ready to be written.
type NewEntry struct {
	ID         entry.ID // zero: the client sent no id
	Name       dn.DN
	upRDN      string
	Classes    *catalog.Classes
	Attributes []NewAttribute
	at         map[description]int // positions in Attributes, while Prepare takes many of them
}

type description struct {
	typ     *schema.AttributeType
	options string
}

type NewAttribute struct {
	Typ     *schema.AttributeType
	options string
	values  [][]byte
	Keys    [][]byte  // parallel to values; the elements are nil for types without keys
	again   *distinct // the values; nil if the attribute came once
}

// Value returns the i-th value. Its key is Keys[i].
func (a *NewAttribute) Value(i int) []byte { return a.values[i] }

// Prepare checks an entry to be added. It does not read the store.
func Prepare(k *catalog.Types, name dn.DN, attributes []op.PartialAttribute, g given) (*NewEntry, error) {
	if len(name) == 0 {
		return nil, catalog.Errorf(catalog.EntryExists, "the root DSE is not an entry that can be added")
	}
	if err := knowsTypes(k, name); err != nil {
		return nil, err
	}
	e := &NewEntry{Name: name, upRDN: name[0].String(), Attributes: make([]NewAttribute, 0, len(attributes)+8)}
	var wrong catalog.Mistakes
	if len(attributes) > fewAttributes {
		e.at = make(map[description]int, len(attributes))
	}
	for i := range attributes {
		if err := take(k, e, &attributes[i], g); !wrong.Add(err) {
			return nil, err
		}
	}
	e.at = nil
	wrong.Add(e.checkDescriptions())
	if err := checkClasses(k, e, g); !wrong.Add(err) {
		return nil, err
	}
	if err := nameValues(k, e, name[0]); !wrong.Add(err) {
		return nil, err
	}
	if e.Classes != nil {
		wrong.Add(e.Classes.Conform(typesOf(k, e, attributes, wrong.Err() != nil)))
	}
	return e, wrong.Err()
}

// typesOf returns the types of the entry's attributes. If all is set, the result also contains
// the types in the entry's RDN, and the types that the request contains and whose values were
// refused.
func typesOf(k *catalog.Types, e *NewEntry, attributes []op.PartialAttribute, all bool) []*schema.AttributeType {
	has := make([]*schema.AttributeType, len(e.Attributes))
	for i := range e.Attributes {
		has[i] = e.Attributes[i].Typ
	}
	if !all {
		return has
	}
	for _, ava := range e.Name[0] {
		if t, err := NamingType(k, ava.Type); err == nil && !slices.Contains(has, t) {
			has = append(has, t)
		}
	}
	for i := range attributes {
		if t, _, err := k.Storable(attributes[i].Description); err == nil && !slices.Contains(has, t) && !computed(k, t) {
			has = append(has, t)
		}
	}
	return has
}

// take adds to the entry an attribute that the client sent.
func take(k *catalog.Types, e *NewEntry, a *op.PartialAttribute, g given) error {
	t, options, err := k.Storable(a.Description)
	if err != nil {
		return err
	}
	if t.NoUserModification && !g.takes(k, t) {
		return catalog.Errorf(catalog.Constraint, "attribute %s is maintained by the server: it cannot be set", t.Name())
	}
	if t.Obsolete && g <= givenByServer {
		return catalog.Obsolete("attribute type", t.Name())
	}
	if computed(k, t) {
		return takeComputed(k, e, t, a)
	}
	if len(a.Values) == 0 {
		return catalog.Errorf(catalog.InvalidSyntax, "attribute %s has no values", a.Description)
	}
	return e.add(t, options, a.Values)
}

// takeComputed sets the id of the entry to the value of entryUUID, and ignores all other
// computed attributes.
func takeComputed(k *catalog.Types, e *NewEntry, t *schema.AttributeType, a *op.PartialAttribute) error {
	if t != k.EntryUUID {
		return nil
	}
	if len(a.Values) != 1 {
		return catalog.Errorf(catalog.Constraint, "entryUUID has %d values: it must have one", len(a.Values))
	}
	id, err := entry.ParseID(string(a.Values[0]))
	if err != nil || id == catalog.Root {
		return catalog.Errorf(catalog.InvalidSyntax, "value of entryUUID: not a UUID")
	}
	e.ID = id
	return nil
}

// add appends the values that are valid and differ. It returns an error if a value is not
// valid, if two values are equal, or if a single-valued type has several.
func (e *NewEntry) add(t *schema.AttributeType, options string, values [][]byte) error {
	a := e.find(t, options)
	if a == nil {
		e.Attributes = append(e.Attributes, NewAttribute{Typ: t, options: options,
			values: make([][]byte, 0, len(values)), Keys: make([][]byte, 0, len(values))})
		a = &e.Attributes[len(e.Attributes)-1]
		if e.at != nil {
			e.at[description{t, options}] = len(e.Attributes) - 1
		}
	} else if a.again == nil {
		a.again = a.seen()
	}
	seen := a.again
	if seen == nil {
		seen = &distinct{}
	}
	seen.expect(len(values))
	var wrong catalog.Mistakes
	for _, v := range values {
		key, err := catalog.KeyOf(t, v)
		if err != nil {
			if !wrong.Add(err) {
				return err
			}
			continue
		}
		same := v
		if key != nil {
			same = key
		}
		if seen.add(same) {
			wrong.Add(catalog.Errorf(catalog.ValueExists, "attribute %s has the same value twice", t.Name()))
			continue
		}
		a.values, a.Keys = append(a.values, v), append(a.Keys, key)
	}
	if t.SingleValue && len(a.values) > 1 {
		wrong.Add(catalog.Errorf(catalog.Constraint, "attribute %s can have one value only", t.Name()))
	}
	return wrong.Err()
}

// checkDescriptions checks the number of descriptions of each type.
func (e *NewEntry) checkDescriptions() error {
	if len(e.Attributes) <= maxDescriptions {
		return nil
	}
	counts := map[*schema.AttributeType]int{}
	for i := range e.Attributes {
		t := e.Attributes[i].Typ
		if counts[t]++; counts[t] > maxDescriptions {
			return errCrowded(t)
		}
	}
	return nil
}

// distinct finds equal values. It compares few values with each other, and uses a map for
// many values.
type distinct struct {
	few  [][]byte
	many map[string]struct{}
}

const (
	fewValues     = 16
	fewAttributes = 64
)

// seen returns the values of the attribute.
func (a *NewAttribute) seen() *distinct {
	d := &distinct{}
	d.expect(len(a.values))
	for i, v := range a.values {
		if a.Keys[i] != nil {
			v = a.Keys[i]
		}
		d.add(v)
	}
	return d
}

// expect prepares for n more values.
func (d *distinct) expect(n int) {
	if d.many != nil || n+len(d.few) <= fewValues {
		return
	}
	d.many = make(map[string]struct{}, n+len(d.few))
	for _, f := range d.few {
		d.many[string(f)] = struct{}{}
	}
}

// add adds v and reports whether an equal value was added before.
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

func (e *NewEntry) find(t *schema.AttributeType, options string) *NewAttribute {
	if e.at != nil {
		if i, ok := e.at[description{t, options}]; ok {
			return &e.Attributes[i]
		}
		return nil
	}
	for i := range e.Attributes {
		if a := &e.Attributes[i]; a.Typ == t && a.options == options {
			return a
		}
	}
	return nil
}

// has reports whether the entry has values of exactly type t.
func (e *NewEntry) has(t *schema.AttributeType) bool {
	return slices.ContainsFunc(e.Attributes, func(a NewAttribute) bool { return a.Typ == t })
}

// checkClasses looks up the classes, adds their superclasses and sets
// structuralObjectClass.
func checkClasses(k *catalog.Types, e *NewEntry, g given) error {
	a := e.find(k.ObjectClass, "")
	if a == nil {
		return catalog.Errorf(catalog.ClassViolation, "the entry has no objectClass")
	}
	cs, err := k.ClassesOf(a.values)
	if err != nil {
		return err
	}
	e.Classes = cs
	for _, c := range cs.All {
		if c.Obsolete && g <= givenByServer {
			return catalog.Obsolete("object class", c.Name())
		}
		key, err := catalog.KeyOf(k.ObjectClass, []byte(c.Name()))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(a.Keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			a.values, a.Keys = append(a.values, []byte(c.Name())), append(a.Keys, key)
		}
	}
	return e.replace(k.StructuralObjectClass, []byte(cs.Structural.Name()))
}

// replace makes v the only value of the type t.
func (e *NewEntry) replace(t *schema.AttributeType, v []byte) error {
	e.Attributes = slices.DeleteFunc(e.Attributes, func(a NewAttribute) bool { return a.Typ == t })
	return e.add(t, "", [][]byte{v})
}

// nameValues adds the values of the entry's RDN, because a client need not send them (RFC
// 4511, 4.7).
func nameValues(k *catalog.Types, e *NewEntry, rdn dn.RDN) error {
	for _, ava := range rdn {
		t, key, err := namingKey(k, ava)
		if err != nil {
			return err
		}
		a := e.find(t, "")
		if a != nil && slices.ContainsFunc(a.Keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			continue
		}
		if err := e.add(t, "", [][]byte{ava.Value}); err != nil {
			return catalog.Errorf(catalog.NamingViolation, "the name has a value of %s that the entry does not have, and the attribute can have one value only", t.Name())
		}
	}
	return nil
}

// NamingType returns the type with the given name. It returns an error if the type cannot
// be used in an RDN.
func NamingType(k *catalog.Types, name string) (*schema.AttributeType, error) {
	t := k.Schema.Attribute(name)
	switch {
	case t == nil:
		return nil, catalog.Errorf(catalog.InvalidName, "attribute type %q is not in the schema", name)
	case t.Equality == nil || t.Secret() || t.Operational() || t.Collective:
		return nil, catalog.Errorf(catalog.NamingViolation, "attribute %s cannot be used in a name", t.Name())
	}
	return t, nil
}

// knowsTypes checks that the schema defines all types in a name.
func knowsTypes(k *catalog.Types, name dn.DN) error {
	for _, rdn := range name {
		for _, ava := range rdn {
			if k.Schema.Attribute(ava.Type) == nil {
				return catalog.Errorf(catalog.InvalidName, "name %s: unknown attribute type %q", name, ava.Type)
			}
		}
	}
	return nil
}

// namingKey returns the type and the key of one value of an RDN. For a value with wrong syntax,
// it returns an error with the problem InvalidName (RFC 4511, 4.1.2).
func namingKey(k *catalog.Types, ava dn.AVA) (*schema.AttributeType, []byte, error) {
	t, err := NamingType(k, ava.Type)
	if err != nil {
		return nil, nil, err
	}
	key, err := catalog.KeyOf(t, ava.Value)
	if e := (*catalog.Error)(nil); errors.As(err, &e) && e.Problem == catalog.InvalidSyntax {
		return nil, nil, catalog.Errorf(catalog.InvalidName, "%s", e.Text)
	}
	return t, key, err
}

// computed reports whether a type's values are computed when they are read.
func computed(k *catalog.Types, t *schema.AttributeType) bool {
	return t == k.EntryUUID || t == k.EntryDN || t == k.HasSubordinates || t == k.NumSubordinates || t == k.NumAllSubordinates || t == k.Subschema ||
		t == k.GoverningStructureRule || t == k.AccessRule
}

// StampsOf returns the operational attributes of a new entry: who created and last modified
// it, and when, and its entryCSN.
func StampsOf(t *catalog.Types, by string, now, csn []byte) []NewAttribute {
	name := []byte(by)
	as := make([]NewAttribute, 0, 5)
	for _, s := range []stamp{
		{t.CreatorsName, name}, {t.CreateTimestamp, now},
		{t.ModifiersName, name}, {t.ModifyTimestamp, now}, {t.EntryCSN, csn},
	} {
		key, err := catalog.KeyOf(s.typ, s.value)
		if err != nil {
			continue // the creator's name is not a DN
		}
		as = append(as, NewAttribute{Typ: s.typ, values: [][]byte{s.value}, Keys: [][]byte{key}})
	}
	return as
}

// Stamp adds the given attributes, except those that the entry already has.
func (e *NewEntry) Stamp(as []NewAttribute) {
	for _, a := range as {
		if !e.has(a.Typ) {
			e.Attributes = append(e.Attributes, a)
		}
	}
}

// StampNew adds the operational attributes to an entry that a transaction creates.
func (st *stamper) StampNew(e *NewEntry) {
	own := !e.has(st.tx.Catalog.Types.EntryCSN)
	e.Stamp(StampsOf(st.tx.Catalog.Types, st.by, schema.AppendTime(nil, st.now()), Csn(st.tx.Txn.Stamp())))
	if a := &e.Attributes[len(e.Attributes)-1]; own && a.Typ == st.tx.Catalog.Types.EntryCSN {
		st.finalCSN(a.values[0], a.Keys[0])
	}
}

// Write writes the rows of the entry in master, in the tree and in the indexes.
func (e *NewEntry) Write(p *catalog.Partition, c *catalog.Catalog, w writer, parent entry.ID, rdn dn.Norm) {
	ch := newCreation(p, c, w, e.ID, parent, rdn)
	node := master.Node{Parent: parent, UpRDN: e.upRDN, NormRDN: rdn, Order: entry.OrderOf(e.described)}
	if parent == catalog.Root {
		node.UpRDN = e.Name.String()
	}
	ch.master.Cells = append(make([]table.Cell, 0, 4+len(e.Attributes)*2), node.Cells(c.Schema)...)
	ch.tree.Cells = append(make([]table.Cell, 0, 1+len(e.Attributes)*2), tree.Cell(e.ID))
	for i := range e.Attributes {
		e.Attributes[i].Write(ch)
	}
	for _, x := range c.Ordered {
		if e.has(x.Typ) {
			ch.presence(x, false)
		}
	}
	ch.flush()
}

// described yields the descriptions of the attributes in their order in the entry.
func (e *NewEntry) described(yield func(*schema.AttributeType, string) bool) {
	for i := range e.Attributes {
		if !yield(e.Attributes[i].Typ, e.Attributes[i].options) {
			return
		}
	}
}

func (a *NewAttribute) Write(c *change) {
	many := len(a.values) > tree.ManyValues && a.Typ.Keyed()
	if many {
		c.note(a.Typ, a.options, tree.Many, false)
	}
	x := c.catalog.Indexes[a.Typ]
	for i, v := range a.values {
		c.put(a.Typ, a.options, v, a.Keys[i], many)
		if x != nil {
			c.enterNew(x, a.Keys[i], v)
		}
	}
}
