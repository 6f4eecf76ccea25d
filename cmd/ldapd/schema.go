package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// schemaCommands are the commands "ldapd schema ...".
type schemaCommands struct{ *cli.Main }

func (m schemaCommands) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "schema",
		Short: "List, show, add and remove definitions of a directory's schema",
		Long: `List, show, add and remove definitions of a directory's schema.

Over LDAP, the schema is the entry cn=Subschema, which ldapsearch shows and
ldapmodify changes.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(m.list(), m.show(), m.add(), m.remove())
	return c
}

func (m schemaCommands) list() *cobra.Command {
	var a schemaListArgs
	c := m.Command(&cobra.Command{
		Use:   "list --store STORE [--own] [KIND]",
		Short: "List definitions: kind, OID and names",
		Long: `List definitions, one per line: kind, OID (of a DIT structure rule, its number) and
names. KIND is one of ` + strings.Join(schemaKinds, ", ") + `.`,
		Args: cobra.MaximumNArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		var err error
		if a.Kinds, err = kindsOf(args); err != nil {
			return err
		}
		return schemaListJob.Run(ctx, m.Main, c, cli.ReadOnly, m.Around(), a)
	})
	c.Flags().BoolVar(&a.Own, "own", false, "list only what the directory has besides the built-in schema")
	return a.Format.AddTo(c)
}

func (m schemaCommands) show() *cobra.Command {
	return m.Command(&cobra.Command{
		Use:     "show --store STORE [KIND:]NAME...",
		Short:   "Print definitions by name or OID",
		Example: `  ldapd schema show --store ./data cn objectClasses:person`,
		Args:    cobra.MinimumNArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		return schemaShowJob.Run(ctx, m.Main, c, cli.ReadOnly, m.Around(), args)
	})
}

type schemaListArgs struct {
	Kinds  []string
	Own    bool
	Format cli.Format
}

var (
	schemaListJob = cli.NewJob("schema list", listSchema)
	schemaShowJob = cli.NewJob("schema show", showSchema)
)

func listSchema(_ context.Context, w *cli.Work, a schemaListArgs) error {
	s := state.Newest(w.Partition)
	defer s.Close()
	ds := definitionsIn(s.Schema(), a.Kinds)
	if a.Own {
		added, _ := onlineschema.OwnDefinitions(s)
		ds = nil
		for _, kind := range a.Kinds {
			for _, d := range added {
				if d.Attribute == kind {
					ds = append(ds, d)
				}
			}
		}
	}
	type row struct {
		Kind       string   `json:"kind"`
		OID        string   `json:"oid"` // of a DIT structure rule, its number
		Names      []string `json:"names"`
		Definition string   `json:"definition"`
	}
	var rows []row
	for _, d := range ds {
		oid, names := d.Called()
		rows = append(rows, row{d.Attribute, oid, names, d.Text})
	}
	return cli.Print(w.Stdout, a.Format, rows, func(r row) string {
		return strings.Join(append([]string{r.Kind, r.OID}, r.Names...), " ")
	})
}

func showSchema(_ context.Context, w *cli.Work, names []string) error {
	out := ldif.NewWriter(w.Stdout)
	rec := &ldif.Record{DN: catalog.SubschemaName}
	for _, name := range names {
		found, err := named(w.Schema(), name)
		if err != nil {
			return err
		}
		for _, d := range found {
			rec.Attributes = append(rec.Attributes, op.Attribute(d.Attribute, d.Text))
		}
	}
	return errors.Join(out.Write(rec), out.Flush())
}

// schemaKinds are the attributes of the subschema, one for each kind of definition.
var schemaKinds = []string{
	"ldapSyntaxes", "matchingRules", "attributeTypes", "objectClasses", "dITContentRules", "nameForms", "dITStructureRules",
}

// kindsOf returns the kind that the user named, or all kinds.
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

// named returns the definitions with a name or OID. arg has a form such as "cn" or
// "objectClasses:cn".
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
