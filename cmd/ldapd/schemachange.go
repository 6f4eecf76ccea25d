package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/tools/schemafile"
)

func (m schemaCommands) add() *cobra.Command {
	var a schemaAddArgs
	var derive *pflag.Flag
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "add --store STORE [--dry-run] [--continue] FILE...",
		Short: "Add the definitions of schema files",
		Long: `Add the definitions of schema files: OpenLDAP's .schema and cn=config .ldif, 389
Directory Server's, ApacheDS's, or what ldapsearch prints of a subschema entry. A folder
stands for all *.schema and *.ldif files in it, compressed (.gz) or not; "-" means
standard input. All files are added in one step, or none of them; with --continue, the
definitions that are good are added in one step, and the others are reported.

If there is no store, the command makes one, in a folder that is missing or empty, and says
so. The new store has the access rules of --access and the password policy of
--password-policy.

A definition that exists already stays, and gets the names and matching rules that it
lacks; an object class is also widened. Notes tell where the result differs from the
files.

Some servers derive the matching rules of a type from its syntax if the definition names
none: 389 Directory Server, Active Directory, eDirectory, OpenDJ and others. The types in
their files (of cn=schema or cn=Aggregate) get these rules, because nothing could be found
by the values of a type without rules. With --derive-rules, the types of all files get
them; with --derive-rules=false, none do.`,
		Example: `  ldapd schema add --store ./data /etc/ldap/schema/dyngroup.schema
  ldapd schema add --store ./data --dry-run /usr/share/dirsrv/schema`,
		Args: cobra.MinimumNArgs(1),
	}, append([]string{"access", "password-policy"}, schemaChangeKeys...), func(ctx context.Context, c *config.Config, args []string) error {
		f := &schemafile.Files{Continue: a.Continue}
		if derive.Changed {
			f.Derive = &a.Derive
		}
		if err := m.readSchemaFiles(f, args); err != nil {
			return err
		}
		a.Definitions = f.Definitions
		use := cli.Load
		if a.DryRun {
			use = cli.ReadWrite
		}
		err := schemaAddJob.Run(ctx, m.Main, c, use, m.Around(), a)
		return errors.Join(append(f.Mistakes, err)...)
	}))
	c.Flags().BoolVar(&a.Derive, "derive-rules", false, "give types without matching rules the default rules of their syntax (default: if the server that wrote the file does)")
	derive = c.Flags().Lookup("derive-rules")
	c.Flags().BoolVar(&a.DryRun, "dry-run", false, cli.DryRunHelp)
	c.Flags().BoolVar(&a.Continue, "continue", false, "add the definitions that are good and report the others, with exit status 1")
	return c
}

func (m schemaCommands) remove() *cobra.Command {
	var a schemaRemoveArgs
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "remove --store STORE [--dry-run] [KIND:]NAME...",
		Short: "Remove definitions by name or OID",
		Long: `Remove definitions by name or OID: all of them in one step, or none. Definitions that
other definitions or entries use cannot be removed: the error says which.`,
		Example: `  ldapd schema remove --store ./data groupOfURLs memberURL`,
		Args:    cobra.MinimumNArgs(1),
	}, schemaChangeKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a.Names = args
		return schemaRemoveJob.Run(ctx, m.Main, c, cli.ReadWrite, m.Around(), a)
	}))
	c.Flags().BoolVar(&a.DryRun, "dry-run", false, cli.DryRunHelp)
	return c
}

// A schemaChange has the arguments that the jobs schema add and schema remove share.
type schemaChange struct {
	DryRun bool
}

type schemaAddArgs struct {
	schemaChange
	Continue    bool
	Derive      bool
	Definitions []schema.Definition
}

type schemaRemoveArgs struct {
	schemaChange
	Names []string
}

var (
	schemaAddJob    = cli.NewJob("schema add", addSchema)
	schemaRemoveJob = cli.NewJob("schema remove", removeSchema)
)

// addSchema adds definitions, or with --continue those that can be added, and returns the errors
// of the rest.
func addSchema(ctx context.Context, w *cli.Work, a schemaAddArgs) error {
	var done *schema.Merged
	var wrong []error
	merge := func() error {
		return changeSchema(ctx, w, a.schemaChange, func(s *schema.Schema) (_ *schema.Merged, err error) {
			if !a.Continue {
				done, err = s.Merge(a.Definitions)
				return done, err
			}
			done, wrong, err = s.MergeGood(a.Definitions)
			return done, err
		})
	}
	err := merge()
	if partition.Is(err, partition.Unwilling) && done != nil && len(done.Better) > 0 {
		// Entries have values of a type that would get another equality rule.
		rest, kept := done.WithoutBetter(a.Definitions, !a.Continue)
		if len(kept) == 0 {
			return err
		}
		fmt.Fprintf(w.Stderr, "note: the matching rules of %s stay as they are: %v\n", strings.Join(kept, ", "), err)
		a.Definitions = rest
		err = merge()
	}
	return errors.Join(append(wrong, err)...)
}

func removeSchema(ctx context.Context, w *cli.Work, a schemaRemoveArgs) error {
	return changeSchema(ctx, w, a.schemaChange, func(s *schema.Schema) (*schema.Merged, error) { return removal(s, a.Names) })
}

// schemaChangeKeys are StoreKeys and admin.dn, which is the author of the change.
var schemaChangeKeys = append([]string{"admin.dn"}, cli.StoreKeys...)

// readSchemaFiles reads the named files, and the schema files in the named folders.
func (m schemaCommands) readSchemaFiles(f *schemafile.Files, names []string) error {
	for _, name := range names {
		if err := m.readSchemaFile(f, name); err != nil {
			return err
		}
	}
	if len(f.Definitions) == 0 {
		none := fmt.Errorf("there are no definitions in %s", strings.Join(names, ", "))
		return errors.Join(append(f.Mistakes, f.Object, none)...)
	}
	return nil
}

func (m schemaCommands) readSchemaFile(f *schemafile.Files, name string) error {
	if name == "-" {
		return f.Read("standard input", m.Stdin)
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return f.ReadPath(os.DirFS(name), ".")
	}
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	return f.Read(name, in)
}

// removal returns the change of the schema that removes the named definitions.
func removal(s *schema.Schema, args []string) (*schema.Merged, error) {
	out := &schema.Merged{}
	for _, arg := range args {
		found, err := named(s, arg)
		switch {
		case err != nil:
			return nil, err
		case len(found) > 1:
			return nil, &config.Error{Where: "NAME", Text: fmt.Sprintf("%s is the name of several: say %s:%s or %[3]s:%[2]s", arg, found[0].Attribute, arg, found[1].Attribute)}
		}
		out.Remove = append(out.Remove, found[0])
	}
	return out, nil
}

// changeSchema changes the schema in force, in one commit.
func changeSchema(ctx context.Context, w *cli.Work, a schemaChange, change func(*schema.Schema) (*schema.Merged, error)) error {
	var done *schema.Merged
	_, err := onlineschema.UpdateSchema(ctx, w.Partition, w.By(""), func(tx *partition.Tx) (err error) {
		if done, err = change(tx.Schema()); err != nil || len(done.Add)+len(done.Remove) == 0 {
			return err
		}
		tx.Rules.Trial = a.DryRun
		if err := onlineschema.ChangeSchema(ctx, tx, done.Add, done.Remove); err != nil || !a.DryRun {
			return err
		}
		return cli.ErrDryRun
	})
	if err != nil && !errors.Is(err, cli.ErrDryRun) {
		return err
	}
	return printChange(w, done, a.DryRun)
}

// printChange prints what was changed or, in a dry run, what would be changed.
func printChange(w *cli.Work, done *schema.Merged, dryRun bool) error {
	for _, n := range done.Notes {
		fmt.Fprintln(w.Stderr, "note:", n)
	}
	verbs := []string{"added", "replaced", "removed"}
	if dryRun {
		verbs = []string{"would add", "would replace", "would remove"}
	}
	added, replaced, removed := done.Count()
	_, err := fmt.Fprintf(w.Stdout, "%s %d definitions, %s %d, %s %d\n", verbs[0], added, verbs[1], replaced, verbs[2], removed)
	return err
}
