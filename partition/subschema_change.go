package partition

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// UpdateSchema is Update for a function that changes the schema, by a Modify of
// the subschema, and nothing else before it. An entry that the new schema forbids
// cannot slip in between the search for such entries and the commit: where this is
// the only server nobody else writes meanwhile, where there are others the change
// goes in steps, and fn runs once more.
func (p *Partition) UpdateSchema(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	end, err := p.reshape(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	before, err := p.latest()
	if err != nil {
		return 0, err
	}
	r, err := p.updateSchema(ctx, by, fn)
	if err != nil {
		return r, err
	}
	return r, p.dropGone(ctx, before)
}

func (p *Partition) updateSchema(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	if p.db.Shared() {
		return (&schemaSteps{p: p, by: by}).run(ctx, fn)
	}
	return p.update(ctx, by, func(tx *Tx) error {
		tx.alone = true
		return fn(tx)
	})
}

// dropGone drops the indexes of types that the schema does not have any more. They
// are empty, or the types could not have gone.
func (p *Partition) dropGone(ctx context.Context, before *catalog) error {
	now, err := p.latest()
	if err != nil {
		return err
	}
	var gone []string
	for _, x := range before.ordered {
		if now.schema.Attribute(x.typ.OID) == nil {
			gone = append(gone, x.table)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	r, err := p.install(ctx, now) // without them
	if err != nil {
		return err
	}
	if err := p.drain(ctx, r); err != nil {
		p.log.Warn("tables of indexes are left behind", "tables", gone, "error", err)
		return nil
	}
	return p.store.Drop(ctx, gone...)
}

// modifySubschema changes the schema (RFC 4512, 4.4). All that the changes add,
// replace and remove is judged together, against itself and against the entries
// there are.
func (tx *Tx) modifySubschema(ctx context.Context, changes []op.Modification) error {
	e := schemaEdit{from: tx.catalog.schema, permissive: tx.Rules.Permissive}
	for i := range changes {
		if err := e.apply(&changes[i]); err != nil {
			return err
		}
	}
	return tx.ChangeSchema(ctx, e.add, e.remove)
}

// ChangeSchema changes the schema as [schema.Schema.Change] says, in a function
// of UpdateSchema. Errors begin with the Source of the definition.
func (tx *Tx) ChangeSchema(ctx context.Context, add, remove []schema.Definition) error {
	if !tx.alone && tx.steps == nil {
		return problem(Unwilling, "the schema changes by an update of its own")
	}
	next, err := tx.nextCatalog(add, remove)
	if err != nil {
		return err
	}
	if err := tx.become(ctx, next); err != nil {
		return err
	}
	if err := tx.writeSubschema(ctx, next.subschema); err != nil {
		return err
	}
	tx.catalog = next
	tx.record("modify", subschemaDN)
	return nil
}

// nextCatalog makes the catalog of the schema that a change leads to.
func (tx *Tx) nextCatalog(add, remove []schema.Definition) (*catalog, error) {
	s, err := tx.catalog.schema.Change(add, remove)
	if err != nil {
		return nil, wrongDefinition(err)
	}
	if err := tx.catalog.keepsIndexNames(s); err != nil {
		return nil, err
	}
	next, err := tx.catalog.of(subschemaOf(s, tx.p.base))
	if err != nil {
		return nil, wrongDefinition(err)
	}
	next.subschema.since = max(tx.catalog.subschema.since, 1) // what comes behind it finds the entry
	return next, nil
}

// keepsIndexNames refuses a schema in which the type of an index has another
// first name: the index's table is called by it.
func (c *catalog) keepsIndexNames(next *schema.Schema) error {
	for _, x := range c.ordered {
		t := next.Attribute(x.typ.OID)
		if t == nil {
			if err := c.keepsUnique(x.typ); err != nil {
				return err
			}
		} else if t.Name() != x.typ.Name() {
			return problem(Unwilling, "%s has an index, so %s cannot become its first name: drop the index before", x.typ.Name(), t.Name())
		}
	}
	return nil
}

var faults = map[schema.Fault]Problem{
	schema.Malformed: InvalidSyntax,
	schema.Conflict:  Constraint,
	schema.Exists:    ValueExists,
	schema.Missing:   NoSuchAttribute,
	schema.InUse:     Unwilling,
}

// wrongDefinition makes an *Error of a definition's.
func wrongDefinition(err error) error {
	var d *schema.DefinitionError
	if !errors.As(err, &d) {
		return err
	}
	return problem(faults[d.Fault], "%v", d)
}

// A schemaEdit gathers what the changes of a modify come to.
type schemaEdit struct {
	from        *schema.Schema
	add, remove []schema.Definition
	permissive  bool
}

// apply takes one change.
func (e *schemaEdit) apply(c *op.Modification) error {
	i := slices.IndexFunc(definable, func(name string) bool {
		t := e.from.Attribute(c.Description)
		return t != nil && t == e.from.Attribute(name)
	})
	if i < 0 {
		return problem(Unwilling, "%s of %s cannot be changed: only %s can", c.Description, SubschemaName, strings.Join(definable, ", "))
	}
	t := e.from.Attribute(definable[i])
	switch c.Kind {
	case op.ModAdd:
		if len(c.Values) == 0 {
			return problem(BadOperand, "add of %s: no values given", c.Description)
		}
		return e.addAll(t, c.Values)
	case op.ModDelete:
		if len(c.Values) == 0 {
			if !e.clear(t) && !e.permissive {
				return problem(NoSuchAttribute, "%s has no %s to delete", SubschemaName, c.Description)
			}
			return nil
		}
		e.removeAll(t, c.Values)
		return nil
	case op.ModReplace:
		e.clear(t)
		return e.addAll(t, c.Values)
	}
	return problem(Constraint, "%s cannot be incremented", c.Description)
}

func (e *schemaEdit) addAll(t *schema.AttributeType, values [][]byte) error {
	for _, v := range values {
		d := schema.Definition{Attribute: t.Name(), Text: schema.WithoutOrder(string(v))}
		if err := t.Syntax.Validate([]byte(d.Text)); err != nil {
			return problem(InvalidSyntax, "value of %s: %v", t.Name(), err)
		}
		if e.permissive && e.has(d) {
			continue
		}
		e.add = append(e.add, d)
	}
	return nil
}

// has reports whether there is just this definition by now. Another one of its OID
// is none: to overlook that would be no kindness.
func (e *schemaEdit) has(d schema.Definition) bool {
	return e.from.Has(d) && e.indexOf(e.remove, d) < 0
}

func (e *schemaEdit) indexOf(list []schema.Definition, d schema.Definition) int {
	k := keyOfDefinition(d)
	return slices.IndexFunc(list, func(a schema.Definition) bool { return keyOfDefinition(a) == k })
}

// removeAll takes values out, each named by its first component, which may stand
// alone as in an assertion (RFC 4517, 4.2.26).
func (e *schemaEdit) removeAll(t *schema.AttributeType, values [][]byte) {
	for _, v := range values {
		d := schema.Definition{Attribute: t.Name(), Text: schema.WithoutOrder(string(v))}
		if i := e.indexOf(e.add, d); i >= 0 {
			e.add = slices.Delete(e.add, i, i+1) // what this modify brought itself
			continue
		}
		if e.permissive && (!e.from.Defines(d) || e.indexOf(e.remove, d) >= 0) {
			continue
		}
		e.remove = append(e.remove, d)
	}
}

// clear takes all values out, if there are any.
func (e *schemaEdit) clear(t *schema.AttributeType) (any bool) {
	texts := e.from.Definitions(t.Name())
	before := len(texts) + count(e.add, t) - count(e.remove, t)
	e.add = slices.DeleteFunc(e.add, func(d schema.Definition) bool { return d.Attribute == t.Name() })
	e.remove = slices.DeleteFunc(e.remove, func(d schema.Definition) bool { return d.Attribute == t.Name() })
	for _, text := range texts {
		e.remove = append(e.remove, schema.Definition{Attribute: t.Name(), Text: text})
	}
	return before > 0
}

// count is how many definitions are values of an attribute.
func count(list []schema.Definition, t *schema.AttributeType) (n int) {
	for _, d := range list {
		if d.Attribute == t.Name() {
			n++
		}
	}
	return n
}

// writeSubschema writes what the subschema's entry is to hold: a whole entry the
// first time, later a modification of it.
func (tx *Tx) writeSubschema(ctx context.Context, own *subschema) error {
	tx.markShared()
	norms, err := subschemaDN.Normalize(tx.p.base)
	if err != nil {
		return err
	}
	rdn := dn.Norm(dn.Key(norms))
	if tx.catalog.subschema.since == 0 {
		return tx.addSubschema(subschemaDN, rdn, own)
	}
	return tx.replaceSubschema(ctx, place{
		Located: Located{ID: subschemaID, Parent: root, Name: SubschemaName}, rdn: rdn, norms: norms, found: true}, own)
}

func (tx *Tx) addSubschema(name dn.DN, rdn dn.Norm, own *subschema) error {
	as := []op.PartialAttribute{
		{Description: "objectClass", Values: [][]byte{[]byte("top"), []byte("subentry"), []byte("subschema"), []byte("extensibleObject")}},
		{Description: "subtreeSpecification", Values: [][]byte{[]byte("{ }")}},
	}
	for _, a := range written {
		if values := own.values(a); len(values) > 0 {
			as = append(as, op.PartialAttribute{Description: a, Values: values})
		}
	}
	e, err := tx.catalog.prepare(name, as, givenByImport)
	if err != nil {
		return err
	}
	e.id = subschemaID
	tx.stampNew(e)
	tx.tx.Mark(tx.p.tree, tree.Key(root, rdn), txn.Mark{Kind: txn.MarkExclusive})
	tx.tx.Mark(tx.p.master, subschemaID[:], txn.Mark{Kind: txn.MarkExclusive})
	e.write(tx.p, tx.catalog, tx, root, rdn)
	tx.touch(e.id, e.classes)
	return nil
}

func (tx *Tx) replaceSubschema(ctx context.Context, at place, own *subschema) error {
	m, err := tx.modifying(ctx, at)
	if err != nil {
		return err
	}
	var changes []op.Modification
	for _, a := range written {
		m.edit(tx.catalog.schema.Attribute(a))
		changes = append(changes, op.Modification{Kind: op.ModReplace,
			PartialAttribute: op.PartialAttribute{Description: a, Values: own.values(a)}})
	}
	if err := m.read(ctx); err != nil {
		return err
	}
	for i := range changes {
		if err := m.apply(ctx, &changes[i]); err != nil {
			return err
		}
	}
	return m.finish(ctx)
}
