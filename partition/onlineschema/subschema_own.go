package onlineschema

import (
	"errors"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// RemovedDefinitions is the attribute of the subschema's entry that names the built-in
// definitions that a directory has removed, in the form "attributeTypes 2.5.4.3".
const RemovedDefinitions = catalog.RemovedDefinitions

// OwnDefinitions returns the differences between the schema and the built-in schema. The result
// added contains the definitions that were added or replaced, each definition after its
// superiors. The result removed contains the built-in definitions that were removed, each
// identified by its OID.
func OwnDefinitions(s *state.Snapshot) (added, removed []schema.Definition) {
	own := s.Catalog.Subschema
	removed = slices.Clone(own.Removed)
	slices.SortFunc(removed, func(a, b schema.Definition) int {
		return strings.Compare(a.Attribute+" "+a.Text, b.Attribute+" "+b.Text)
	})
	return schema.SuperiorsFirst(own.Added), removed
}

// Lacking returns the change (for ChangeSchema) that adds the OwnDefinitions of another
// directory to the schema. It omits definitions that this schema has already, with the same
// text. It replaces or removes built-in definitions that the other directory has replaced or
// removed. Lacking returns an error for each definition that this directory itself defines
// differently, and joins these errors. The list remove contains the texts of whole definitions.
// So the caller can undo the change by adding the definitions in this list and removing those
// in the list add.
func Lacking(s *state.Snapshot, added, removed []schema.Definition) (add, remove []schema.Definition, err error) {
	own := map[catalog.DefinitionKey]bool{}
	for _, d := range s.Catalog.Subschema.Added {
		own[catalog.KeyOfDefinition(d)] = true
	}
	return lacking(catalog.DefinitionsOf(s.Catalog.Schema), own, added, removed)
}

// LackingAt is Lacking for another server. The argument subschema is the content of that
// server's subschema.
func LackingAt(subschema []op.PartialAttribute, added, removed []schema.Definition) (add, remove []schema.Definition, err error) {
	builtIn := catalog.DefinitionsOf(schema.Core())
	there, own := map[catalog.DefinitionKey]string{}, map[catalog.DefinitionKey]bool{}
	for _, a := range subschema {
		if !slices.Contains(catalog.Definable, a.Description) {
			continue
		}
		for _, v := range a.Values {
			d := schema.Definition{Attribute: a.Description, Text: string(v)}
			k := catalog.KeyOfDefinition(d)
			there[k], own[k] = d.Text, builtIn[k] != d.Text
		}
	}
	return lacking(there, own, added, removed)
}

func lacking(there map[catalog.DefinitionKey]string, own map[catalog.DefinitionKey]bool, added, removed []schema.Definition) (add, remove []schema.Definition, err error) {
	var errs []error
	replaces := func(d schema.Definition, k catalog.DefinitionKey) {
		if own[k] {
			errs = append(errs, catalog.Errorf(catalog.ValueExists, "%s: %s is defined differently in this directory: %s", d.Source, k.Oid, there[k]))
			return
		}
		remove = append(remove, schema.Definition{Attribute: k.Attribute, Text: there[k]})
	}
	for _, d := range added {
		d, err := schema.Macros{}.Expand(d) // the definition in the spelling that the schema uses
		if err != nil {
			errs = append(errs, wrongDefinition(err))
			continue
		}
		k := catalog.KeyOfDefinition(d)
		if there[k] == d.Text {
			continue
		}
		if there[k] != "" {
			replaces(d, k)
		}
		add = append(add, d)
	}
	for _, d := range removed {
		if k := catalog.KeyOfDefinition(d); there[k] != "" {
			replaces(d, k)
		}
	}
	return add, remove, errors.Join(errs...)
}
