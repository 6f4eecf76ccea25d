package onlineschema

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// UpdateSchema is like Update, for a function fn that changes the schema. fn must change the
// schema before it makes any other change. Existing entries are checked against the new
// schema. Between this check and the commit, no other transaction can add an entry that
// violates the new schema. On a store with one server, other updates wait. On a store with
// several servers, the change may need several steps, and then fn runs once more.
func UpdateSchema(ctx context.Context, p *catalog.Partition, by write.By, fn func(*write.Tx) error) (table.Revision, error) {
	end, err := p.Reshape(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	before, err := p.Latest()
	if err != nil {
		return 0, err
	}
	r, err := updateSchema(ctx, p, by, fn)
	if err != nil {
		return r, err
	}
	return r, dropGone(ctx, p, before)
}

func updateSchema(ctx context.Context, p *catalog.Partition, by write.By, fn func(*write.Tx) error) (table.Revision, error) {
	if p.DB.Shared() {
		return run(ctx, (&write.SchemaSteps{Partition: p, By: by}), fn)
	}
	return write.UpdateLocked(ctx, p, by, func(tx *write.Tx) error {
		tx.Alone = true
		return fn(tx)
	})
}

// dropGone drops the indexes of types that were removed from the schema. These indexes
// are empty, because a type in use cannot be removed.
func dropGone(ctx context.Context, p *catalog.Partition, before *catalog.Catalog) error {
	now, err := p.Latest()
	if err != nil {
		return err
	}
	var gone []string
	for _, x := range before.Ordered {
		if now.Schema.Attribute(x.Typ.OID) == nil {
			gone = append(gone, x.Table().Name())
		}
	}
	if len(gone) == 0 {
		return nil
	}
	r, err := write.Install(ctx, p, write.By{}, now) // a catalog without these indexes
	if err != nil {
		return err
	}
	if err := drain(ctx, p, r); err != nil {
		p.Log.Warn("tables of indexes are left behind", "tables", gone, "error", err)
		return nil
	}
	return p.Store.Drop(ctx, gone...)
}

// Modify changes an entry like [write.Tx.Modify]. If name is the name of the subschema, it
// changes the schema (RFC 4512, 4.4).
func Modify(ctx context.Context, tx *write.Tx, name dn.DN, changes []op.Modification) error {
	if catalog.IsSubschema(name) {
		return modifySubschema(ctx, tx, changes)
	}
	return tx.Modify(ctx, name, changes)
}

// modifySubschema checks all additions,
// replacements and removals together, against each other and against the existing
// entries.
func modifySubschema(ctx context.Context, tx *write.Tx, changes []op.Modification) error {
	e := schemaEdit{from: tx.Catalog.Schema, permissive: tx.Rules.Permissive}
	for i := range changes {
		if err := e.apply(&changes[i]); err != nil {
			return err
		}
	}
	return ChangeSchema(ctx, tx, e.add, e.remove)
}

// ChangeSchema changes the schema like [schema.Schema.Change]. Only a function that runs in
// UpdateSchema may call it. If a definition is wrong, the text of the error begins with the
// definition's Source.
func ChangeSchema(ctx context.Context, tx *write.Tx, add, remove []schema.Definition) error {
	if err := tx.RefuseInBranch(); err != nil {
		return err
	}
	if !tx.Alone && tx.Steps == nil {
		return catalog.Errorf(catalog.Unwilling, "the schema must be changed in an update of its own")
	}
	next, err := nextCatalog(tx, add, remove)
	if err != nil {
		return err
	}
	if err := become(ctx, tx, next); err != nil {
		return err
	}
	binds := !catalog.NewConcern(tx.Catalog.Types, next.Types).Empty()
	if err := writeSubschema(ctx, tx, next.Subschema, binds); err != nil {
		return err
	}
	tx.Catalog = next
	tx.Record("modify", catalog.SubschemaDN)
	return nil
}

// nextCatalog returns the catalog of the schema after a change.
func nextCatalog(tx *write.Tx, add, remove []schema.Definition) (*catalog.Catalog, error) {
	for _, d := range add {
		if err := schema.CheckNew(d); err != nil && !tx.Catalog.Schema.Has(d) {
			return nil, wrongDefinition(err)
		}
	}
	s, err := tx.Catalog.Schema.Change(add, remove)
	if err != nil {
		return nil, wrongDefinition(err)
	}
	if err := keepsIndexNames(tx.Catalog, s); err != nil {
		return nil, err
	}
	next, err := tx.Catalog.Of(catalog.SubschemaOf(s, tx.Partition.Base))
	if err != nil {
		return nil, wrongDefinition(err)
	}
	// If Since remained 0, the next change in this transaction would add the entry again.
	next.Subschema.Since = max(tx.Catalog.Subschema.Since, 1)
	return next, nil
}

// keepsIndexNames returns an error if the type of an index would have another first name,
// because the name of the index's table contains the first name. It also returns an error if
// the type of an index that is needed would be removed (see catalog.Catalog.Needs).
func keepsIndexNames(c *catalog.Catalog, next *schema.Schema) error {
	for _, x := range c.Ordered {
		t := next.Attribute(x.Typ.OID)
		if t == nil {
			if err := c.Needs(x.Typ); err != nil {
				return err
			}
		} else if t.Name() != x.Typ.Name() {
			return catalog.Errorf(catalog.Unwilling, "%s has an index, so %s cannot become its first name: drop the index first", x.Typ.Name(), t.Name())
		}
	}
	return nil
}

var faults = map[schema.Fault]catalog.Problem{
	schema.Malformed: catalog.InvalidSyntax,
	schema.Conflict:  catalog.Constraint,
	schema.Exists:    catalog.ValueExists,
	schema.Missing:   catalog.NoSuchAttribute,
	schema.InUse:     catalog.Unwilling,
}

// wrongDefinition converts the error of a definition to an *Error.
func wrongDefinition(err error) error {
	var d *schema.DefinitionError
	if !errors.As(err, &d) {
		return err
	}
	return catalog.Errorf(faults[d.Fault], "%v", d)
}

// A schemaEdit collects the combined effect of all changes of a modify.
type schemaEdit struct {
	from        *schema.Schema
	add, remove []schema.Definition
	permissive  bool
}

// apply adds the effect of one change.
func (e *schemaEdit) apply(c *op.Modification) error {
	i := slices.IndexFunc(catalog.Definable, func(name string) bool {
		t := e.from.Attribute(c.Description)
		return t != nil && t == e.from.Attribute(name)
	})
	if i < 0 {
		return catalog.Errorf(catalog.Unwilling, "%s of %s cannot be changed: only %s can", c.Description, catalog.SubschemaName, strings.Join(catalog.Definable, ", "))
	}
	t := e.from.Attribute(catalog.Definable[i])
	switch c.Kind {
	case op.ModAdd:
		if len(c.Values) == 0 {
			return catalog.Errorf(catalog.BadOperand, "add of %s: no values given", c.Description)
		}
		return e.addAll(t, c.Values)
	case op.ModDelete:
		if len(c.Values) == 0 {
			if !e.clear(t) && !e.permissive {
				return catalog.Errorf(catalog.NoSuchAttribute, "%s has no %s to delete", catalog.SubschemaName, c.Description)
			}
			return nil
		}
		e.removeAll(t, c.Values)
		return nil
	case op.ModReplace:
		e.clear(t)
		return e.addAll(t, c.Values)
	}
	return catalog.Errorf(catalog.Constraint, "%s cannot be incremented", c.Description)
}

func (e *schemaEdit) addAll(t *schema.AttributeType, values [][]byte) error {
	for _, v := range values {
		d := schema.Definition{Attribute: t.Name(), Text: schema.WithoutOrder(string(v))}
		if err := t.Syntax.Validate([]byte(d.Text)); err != nil {
			return catalog.Errorf(catalog.InvalidSyntax, "value of %s: %v", t.Name(), err)
		}
		if e.permissive && e.has(d) {
			continue
		}
		e.add = append(e.add, d)
	}
	return nil
}

// has reports whether exactly this definition exists after the changes so far. A
// different definition with the same OID does not count, so that the conflict is
// reported.
func (e *schemaEdit) has(d schema.Definition) bool {
	return e.from.Has(d) && e.indexOf(e.remove, d) < 0
}

func (e *schemaEdit) indexOf(list []schema.Definition, d schema.Definition) int {
	k := catalog.KeyOfDefinition(d)
	return slices.IndexFunc(list, func(a schema.Definition) bool { return catalog.KeyOfDefinition(a) == k })
}

// removeAll removes values. A value identifies a definition by its first component. The
// value may consist of this component alone, as in an assertion (RFC 4517, 4.2.26).
func (e *schemaEdit) removeAll(t *schema.AttributeType, values [][]byte) {
	for _, v := range values {
		d := schema.Definition{Attribute: t.Name(), Text: schema.WithoutOrder(string(v))}
		if i := e.indexOf(e.add, d); i >= 0 {
			e.add = slices.Delete(e.add, i, i+1) // this modify added the definition
			continue
		}
		if e.permissive && (!e.from.Defines(d) || e.indexOf(e.remove, d) >= 0) {
			continue
		}
		e.remove = append(e.remove, d)
	}
}

// clear removes all values. It reports whether there were any.
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

// count returns the number of definitions that are values of an attribute.
func count(list []schema.Definition, t *schema.AttributeType) (n int) {
	for _, d := range list {
		if d.Attribute == t.Name() {
			n++
		}
	}
	return n
}

// writeSubschema writes the subschema's entry. The first change of the schema adds the entry,
// and later changes modify it. The parameter binds has the same meaning as in
// [write.Tx.MarkShared].
func writeSubschema(ctx context.Context, tx *write.Tx, own *catalog.Subschema, binds bool) error {
	tx.MarkShared(binds)
	norms, err := catalog.SubschemaDN.Normalize(tx.Partition.Base)
	if err != nil {
		return err
	}
	rdn := dn.Norm(dn.Key(norms))
	if tx.Catalog.Subschema.Since == 0 {
		return addSubschema(tx, catalog.SubschemaDN, rdn, own)
	}
	return replaceSubschema(ctx, tx, state.Place{
		Located: state.Located{ID: catalog.SubschemaID, Parent: catalog.Root, Name: dn.NewName(catalog.SubschemaName)}, RDN: rdn, Norms: norms, Found: true}, own)
}

func addSubschema(tx *write.Tx, name dn.DN, rdn dn.Norm, own *catalog.Subschema) error {
	as := []op.PartialAttribute{
		{Description: "objectClass", Values: [][]byte{[]byte("top"), []byte("subentry"), []byte("subschema"), []byte("extensibleObject")}},
		{Description: "subtreeSpecification", Values: [][]byte{[]byte("{ }")}},
	}
	for _, a := range catalog.Written {
		if values := own.Values(a); len(values) > 0 {
			as = append(as, op.PartialAttribute{Description: a, Values: values})
		}
	}
	e, err := write.Prepare(tx.Catalog.Types, name, as, write.GivenByImport)
	if err != nil {
		return err
	}
	e.ID = catalog.SubschemaID
	tx.StampNew(e)
	tx.Txn.Mark(tx.Partition.Tree, tree.Key(catalog.Root, rdn), txn.Mark{Kind: txn.MarkExclusive})
	tx.Txn.Mark(tx.Partition.Master, catalog.SubschemaID[:], txn.Mark{Kind: txn.MarkExclusive})
	tx.Touch(e.ID, e.Classes)
	e.Write(tx.Partition, tx.Catalog, tx, catalog.Root, rdn)
	return nil
}

func replaceSubschema(ctx context.Context, tx *write.Tx, at state.Place, own *catalog.Subschema) error {
	m := tx.Modifying(at)
	var changes []op.Modification
	for _, a := range catalog.Written {
		m.Edit(tx.Catalog.Schema.Attribute(a))
		changes = append(changes, op.Modification{Kind: op.ModReplace,
			PartialAttribute: op.PartialAttribute{Description: a, Values: own.Values(a)}})
	}
	if err := m.Read(ctx); err != nil {
		return err
	}
	for i := range changes {
		if err := m.Apply(ctx, &changes[i]); err != nil {
			return err
		}
	}
	return m.Finish(ctx)
}
