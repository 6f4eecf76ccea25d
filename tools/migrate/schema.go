package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/tools/schemafile"
)

// definitions reads the server's schema. From OpenLDAP it reads the configuration if it may,
// because the configuration has the definitions as they were written. OpenLDAP's subschema also
// has definitions that modules add.
func (s *Source) definitions(ctx context.Context) ([]schema.Definition, []error, error) {
	f := schemafile.Files{Continue: true}
	if config := s.root.GetEqualFoldAttributeValue("configContext"); config != "" {
		err := s.pages(ctx, "cn=schema,"+config, "(objectClass=olcSchemaConfig)", []string{"*"}, s.controls(), func(e *ldap.Entry) error {
			return s.define(&f, e)
		})
		if err != nil && !ldap.IsErrorAnyOf(err, ldap.LDAPResultNoSuchObject, ldap.LDAPResultInsufficientAccessRights) {
			return nil, nil, err
		}
	}
	if len(f.Definitions) == 0 {
		name := s.root.GetEqualFoldAttributeValue("subschemaSubentry")
		if name == "" {
			return nil, nil, nil
		}
		e, err := s.entry(ctx, name, "(objectClass=*)", "attributeTypes", "objectClasses", "ditContentRules", "nameForms", "ditStructureRules")
		if err != nil || e == nil {
			return nil, nil, err
		}
		if err := s.define(&f, e); err != nil {
			return nil, nil, err
		}
	}
	ds := slices.DeleteFunc(f.Definitions, s.ofServer)
	return ds, f.Mistakes, nil
}

// define adds the definitions in the values of an entry.
func (s *Source) define(f *schemafile.Files, e *ldap.Entry) error {
	before := len(f.Definitions)
	if err := f.Record(e.DN, &ldif.Record{DN: e.DN, Attributes: attributesOf(e)}, nil); err != nil {
		return err
	}
	for i := range f.Definitions[before:] {
		f.Definitions[before+i].Source = e.DN
	}
	return nil
}

// ofServer reports whether a definition is about the configuration of the server itself.
func (s *Source) ofServer(d schema.Definition) bool {
	oid, names := d.Called()
	for _, p := range s.product.schema {
		if strings.HasPrefix(oid, p) {
			return true
		}
	}
	return s.product.schema != nil && slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "olc") })
}

// takeSchema merges the server's definitions into the directory's schema. It leaves out, with
// a note, the definitions that cannot be merged.
func (m *Move) takeSchema(ctx context.Context) error {
	ds, wrong, err := m.link.src.definitions(ctx)
	if err != nil || len(ds) == 0 {
		return err
	}
	var done *schema.Merged
	var bad []error
	merge := func() error {
		_, err := onlineschema.UpdateSchema(ctx, m.p, m.o.By, func(tx *partition.Tx) (err error) {
			if done, bad, err = tx.Schema().MergeGood(ds); err != nil {
				return err
			}
			if len(done.Add)+len(done.Remove) == 0 {
				return errNothing
			}
			return onlineschema.ChangeSchema(ctx, tx, done.Add, done.Remove)
		})
		return err
	}
	err = merge()
	if partition.Is(err, partition.Unwilling) && len(done.Better) > 0 {
		// Entries have values of a type that would get another equality rule.
		ds, _ = done.WithoutBetter(ds, false)
		err = merge()
	}
	wrong = append(wrong, bad...)
	if err != nil && !errors.Is(err, errNothing) {
		return fmt.Errorf("the definitions of the old server cannot be added: %w", err)
	}
	for _, n := range done.Notes {
		m.o.Note(n)
	}
	for _, w := range wrong {
		m.o.Note("definition left out: " + w.Error())
	}
	added, replaced, _ := done.Count()
	m.o.Note(fmt.Sprintf("schema: added %d definitions, replaced %d", added, replaced))
	return nil
}

// errNothing ends a transaction that has nothing to change.
var errNothing = errors.New("nothing to change")

// attributesOf returns the attributes of an entry.
func attributesOf(e *ldap.Entry) []op.PartialAttribute {
	as := make([]op.PartialAttribute, 0, len(e.Attributes))
	for _, a := range e.Attributes {
		if len(a.ByteValues) > 0 {
			as = append(as, op.PartialAttribute{Description: a.Name, Values: a.ByteValues})
		}
	}
	return as
}
