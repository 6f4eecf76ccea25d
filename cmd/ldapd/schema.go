package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/ldif"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

func (m *Main) schemaCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "schema",
		Short: "List, show, add and remove definitions of a directory's schema",
		Long: `List, show, add and remove definitions of a directory's schema.

No server may be running on an embedded store; over LDAP, the schema is the entry
cn=Subschema, which ldapsearch shows and ldapmodify changes.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(m.schemaListCommand(), m.schemaShowCommand(), m.schemaAddCommand(), m.schemaRemoveCommand())
	return c
}

func (m *Main) schemaListCommand() *cobra.Command {
	var own bool
	c := m.command(&cobra.Command{
		Use:   "list --store STORE [--own] [KIND]",
		Short: "List definitions: kind, OID and names",
		Long: `List definitions, a line each: kind, OID (of a DIT structure rule, its number) and
names. KIND is one of ` + strings.Join(schemaKinds, ", ") + `.`,
		Args: cobra.MaximumNArgs(1),
	}, storeKeys, func(ctx context.Context, c *config.Config, args []string) error {
		kinds, err := kindsOf(args)
		if err != nil {
			return err
		}
		return m.withSchema(ctx, c, func(s *partition.Snapshot) error { return m.listSchema(s, kinds, own) })
	})
	c.Flags().BoolVar(&own, "own", false, "only what the directory has besides the built-in schema")
	return c
}

func (m *Main) schemaShowCommand() *cobra.Command {
	return m.command(&cobra.Command{
		Use:     "show --store STORE [KIND:]NAME...",
		Short:   "Print definitions by name or OID",
		Example: `  ldapd schema show --store ./data cn objectClasses:person`,
		Args:    cobra.MinimumNArgs(1),
	}, storeKeys, func(ctx context.Context, c *config.Config, args []string) error {
		return m.withSchema(ctx, c, func(s *partition.Snapshot) error { return m.showSchema(s.Schema(), args) })
	})
}

// withSchema opens a store to look at its schema.
func (m *Main) withSchema(ctx context.Context, c *config.Config, fn func(*partition.Snapshot) error) (err error) {
	if err := storeThere(c); err != nil {
		return err
	}
	p, err := openPartition(ctx, c, m.logger(c), reading)
	if err != nil {
		return overLDAP(err, "ldapsearch -s base -b cn=Subschema + shows it")
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	s := p.Snapshot()
	defer s.Close()
	return fn(s)
}

func (m *Main) listSchema(s *partition.Snapshot, kinds []string, own bool) error {
	ds := definitionsIn(s.Schema(), kinds)
	if own {
		added, _ := s.OwnDefinitions()
		ds = nil
		for _, kind := range kinds {
			for _, d := range added {
				if d.Attribute == kind {
					ds = append(ds, d)
				}
			}
		}
	}
	for _, d := range ds {
		oid, names := d.Called()
		if _, err := fmt.Fprintln(m.Stdout, strings.Join(append([]string{d.Attribute, oid}, names...), " ")); err != nil {
			return err
		}
	}
	return nil
}

func (m *Main) showSchema(s *schema.Schema, args []string) error {
	out := ldif.NewWriter(m.Stdout)
	rec := &ldif.Record{DN: partition.SubschemaName}
	for _, arg := range args {
		found, err := named(s, arg)
		if err != nil {
			return err
		}
		for _, d := range found {
			rec.Attributes = append(rec.Attributes, op.PartialAttribute{Description: d.Attribute, Values: [][]byte{[]byte(d.Text)}})
		}
	}
	return errors.Join(out.Write(rec), out.Flush())
}

// schemaKinds are the attributes of the subschema.
var schemaKinds = []string{
	"ldapSyntaxes", "matchingRules", "attributeTypes", "objectClasses", "dITContentRules", "nameForms", "dITStructureRules",
}

// kindsOf gives the kind that was asked for, or all.
func kindsOf(args []string) ([]string, error) {
	if len(args) == 0 {
		return schemaKinds, nil
	}
	for _, kind := range schemaKinds {
		if strings.EqualFold(kind, args[0]) {
			return []string{kind}, nil
		}
	}
	return nil, &config.Error{Where: "KIND", Text: fmt.Sprintf("%q is none of %s", args[0], strings.Join(schemaKinds, ", "))}
}

func definitionsIn(s *schema.Schema, kinds []string) (ds []schema.Definition) {
	for _, kind := range kinds {
		for _, text := range s.Definitions(kind) {
			ds = append(ds, schema.Definition{Attribute: kind, Text: text})
		}
	}
	return ds
}

// named finds the definitions that have a name or OID: "cn", "objectClasses:cn".
func named(s *schema.Schema, arg string) ([]schema.Definition, error) {
	kinds, name := schemaKinds, arg
	if kind, rest, given := strings.Cut(arg, ":"); given {
		var err error
		if kinds, err = kindsOf([]string{kind}); err != nil {
			return nil, err
		}
		name = rest
	}
	var found []schema.Definition
	for _, d := range definitionsIn(s, kinds) {
		oid, names := d.Called()
		for _, n := range append(names, oid) {
			if strings.EqualFold(n, name) {
				found = append(found, d)
				break
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the schema has no definition of %s", arg)
	}
	return found, nil
}
