package virtual

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// theSubschema serves the schema as an entry.
type theSubschema struct{}

func (theSubschema) holds(name dn.DN) bool {
	return len(name) > 0 && catalog.IsSubschema(name[len(name)-1:])
}

// serves implements Source. A search with a base below the subschema entry runs in the tree,
// and finds no entry there.
func (theSubschema) serves(base dn.DN, _ op.Scope) bool { return catalog.IsSubschema(base) }

func (theSubschema) Search(ctx context.Context, req *request.Request, _ dn.DN, r *op.Search, sink op.Sink) error {
	return searchSingle(ctx, req, r, sink, Subschema)
}

func (theSubschema) find(ctx context.Context, req *request.Request, _ dn.DN) (*Entry, error) {
	return Subschema(ctx, req)
}

func (theSubschema) refusal() string {
	return fmt.Sprintf("only the definitions of %s can be changed, by a modify", catalog.SubschemaName)
}

// Subschema returns the schema of the state that the request reads, as an entry (RFC 4512,
// 4.4). The entry also has stored attributes, which say when and by whom the schema was
// changed.
func Subschema(ctx context.Context, req *request.Request) (*Entry, error) {
	v := &Entry{Name: dn.NewName(catalog.SubschemaName)}
	add := func(name string, values ...string) { v.add(req.Schema, name, values...) }
	add("objectClass", "top", "subentry", "subschema", "extensibleObject")
	add("cn", "Subschema")
	add("structuralObjectClass", "subentry")
	add("subtreeSpecification", "{ }")
	for _, a := range []string{
		"ldapSyntaxes", "matchingRules", "attributeTypes", "objectClasses", "matchingRuleUse",
		"dITContentRules", "nameForms", "dITStructureRules",
	} {
		add(a, req.Schema.Definitions(a)...)
	}
	add("entryDN", catalog.SubschemaName)
	add("subschemaSubentry", catalog.SubschemaName)
	add("hasSubordinates", "FALSE")
	stored, err := state.Subschema(ctx, req.Snapshot)
	if err != nil || stored == nil {
		return v, err
	}
	for _, a := range stored.Attributes {
		if !slices.ContainsFunc(v.Entry.Attributes, func(x entry.Attribute) bool { return x.Type == a.Type }) {
			v.Entry.Attributes = append(v.Entry.Attributes, a)
		}
	}
	return v, nil
}
