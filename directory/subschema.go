package directory

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// theSubschema serves the schema in force as an entry.
type theSubschema struct{}

func (theSubschema) holds(name dn.DN) bool {
	return len(name) > 0 && partition.IsSubschema(name[len(name)-1:])
}

// serves implements source: a name below it is looked for in the tree, in vain.
func (theSubschema) serves(base dn.DN, _ op.Scope) bool { return partition.IsSubschema(base) }

func (theSubschema) search(ctx context.Context, o *operation, _ dn.DN, r *op.Search, sink op.Sink) error {
	return searchSingle(ctx, o, r, sink, subschema)
}

func (theSubschema) entry(ctx context.Context, o *operation, _ dn.DN) (*virtual, error) {
	return subschema(ctx, o)
}

func (theSubschema) refusal() string {
	return fmt.Sprintf("of %s only the definitions can be changed, by a modify", partition.SubschemaName)
}

// subschema is the schema in force as an entry (RFC 4512, 4.4). What the store
// has of it besides definitions says when and by whom it was changed.
func subschema(ctx context.Context, o *operation) (*virtual, error) {
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
	stored, err := o.s.Subschema(ctx)
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
