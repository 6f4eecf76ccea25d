package partition

import (
	"errors"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// RemovedDefinitions is the attribute of the subschema's entry that names what a
// directory has not of the built-in schema, as "attributeTypes 2.5.4.3".
const RemovedDefinitions = removedDefinitions

// OwnDefinitions tells how the schema differs from the built-in one: what was
// added or replaced, each after what it is derived from, and what was removed, by
// OID.
func (s *Snapshot) OwnDefinitions() (added, removed []schema.Definition) {
	own := s.catalog.subschema
	removed = slices.Clone(own.removed)
	slices.SortFunc(removed, func(a, b schema.Definition) int {
		return strings.Compare(a.Attribute+" "+a.Text, b.Attribute+" "+b.Text)
	})
	return schema.SuperiorsFirst(own.added), removed
}

// Lacking tells what to change (Tx.ChangeSchema) so that the schema has what
// another directory has of its own (OwnDefinitions). What is there already is
// passed over, the built-in schema gives way, and what this directory itself
// defines otherwise is an error, all of which are joined. What is to be removed
// has its text, so that adding it and removing the rest undoes the change.
func (s *Snapshot) Lacking(added, removed []schema.Definition) (add, remove []schema.Definition, err error) {
	own := map[definitionKey]bool{}
	for _, d := range s.catalog.subschema.added {
		own[keyOfDefinition(d)] = true
	}
	return lacking(definitionsOf(s.catalog.schema), own, added, removed)
}

// LackingAt is Lacking at another server, given what its subschema shows.
func LackingAt(subschema []op.PartialAttribute, added, removed []schema.Definition) (add, remove []schema.Definition, err error) {
	builtIn := definitionsOf(schema.Core())
	there, own := map[definitionKey]string{}, map[definitionKey]bool{}
	for _, a := range subschema {
		if !slices.Contains(definable, a.Description) {
			continue
		}
		for _, v := range a.Values {
			d := schema.Definition{Attribute: a.Description, Text: string(v)}
			k := keyOfDefinition(d)
			there[k], own[k] = d.Text, builtIn[k] != d.Text
		}
	}
	return lacking(there, own, added, removed)
}

func lacking(there map[definitionKey]string, own map[definitionKey]bool, added, removed []schema.Definition) (add, remove []schema.Definition, err error) {
	var errs []error
	replaces := func(d schema.Definition, k definitionKey) {
		if own[k] {
			errs = append(errs, problem(ValueExists, "%s: %s is defined otherwise in this directory: %s", d.Source, k.oid, there[k]))
			return
		}
		remove = append(remove, schema.Definition{Attribute: k.attribute, Text: there[k]})
	}
	for _, d := range added {
		d, err := schema.Macros{}.Expand(d) // written as the schema writes it
		if err != nil {
			errs = append(errs, wrongDefinition(err))
			continue
		}
		k := keyOfDefinition(d)
		if there[k] == d.Text {
			continue
		}
		if there[k] != "" {
			replaces(d, k)
		}
		add = append(add, d)
	}
	for _, d := range removed {
		if k := keyOfDefinition(d); there[k] != "" {
			replaces(d, k)
		}
	}
	return add, remove, errors.Join(errs...)
}
