package directory

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/wire"
)

// subschema is the schema in force as an entry (RFC 4512, 4.4). What the store
// has of it besides definitions says when and by whom it was changed.
func (o *operation) subschema(ctx context.Context, s *partition.Snapshot) (*virtual, error) {
	v := &virtual{name: partition.SubschemaName}
	add := func(name string, values ...string) { v.add(o.schema, name, values...) }
	add("objectClass", "top", "subentry", "subschema", "extensibleObject")
	add("cn", "Subschema")
	add("structuralObjectClass", "subentry")
	add("subtreeSpecification", "{ }")
	for _, a := range []string{
		"ldapSyntaxes", "matchingRules", "attributeTypes", "objectClasses", "matchingRuleUse",
		"dITContentRules", "nameForms", "dITStructureRules",
	} {
		add(a, o.schema.Definitions(a)...)
	}
	add("entryDN", partition.SubschemaName)
	add("subschemaSubentry", partition.SubschemaName)
	add("hasSubordinates", "FALSE")
	stored, err := s.Subschema(ctx)
	if err != nil || stored == nil {
		return v, err
	}
	for _, a := range stored.Attributes {
		if !slices.ContainsFunc(v.entry.Attributes, func(x entry.Attribute) bool { return x.Type == a.Type }) {
			v.entry.Attributes = append(v.entry.Attributes, a)
		}
	}
	return v, nil
}

// modifySubschema changes the schema (RFC 4512, 4.4: servers may allow it).
func (o *operation) modifySubschema(ctx context.Context, name dn.DN, r *op.Modify) error {
	if !o.who.isAdmin() {
		return errAccess
	}
	return o.update(ctx, &update{name: name, change: func(tx *partition.Tx) error { return tx.Modify(ctx, name, r.Changes) }})
}

// readSubschema responds with the subschema for a read entry control.
func (o *operation) readSubschema(ctx context.Context, s *partition.Snapshot, oid string, attributes []string) error {
	v, err := o.subschema(ctx, s)
	if err != nil {
		return err
	}
	o.selector.resolve(attributes, o.schema)
	e := op.SearchEntry{Name: v.name, Attributes: o.selector.apply(nil, v.entry.Attributes)}
	o.respond(oid, wire.AppendSearchEntry(nil, &e))
	return nil
}
