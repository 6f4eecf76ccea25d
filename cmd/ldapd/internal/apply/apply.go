// Package apply has the command apply, which makes a directory have what a file lists.
package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"
	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/remote"
	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Command returns the command "ldapd apply".
func Command(m *cli.Main) *cobra.Command {
	var a arguments
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "apply --store STORE [--dry-run] [--json | --csv] FILE",
		Short: "Make entries, rules, indexes and references what a file says",
		Long: `Make a directory have what a file in YAML lists, and print what was changed: nothing if all of it is
there. With --dry-run, only print it. What the file does not list stays as it is: nothing is ever
deleted, except values and attributes of listed attributes. "-" means standard input.

  suffixes: ["cn=views"]
  indexes: [mail, "title:row"]
  unique: [{attribute: uid}, {attribute: mail, base: "ou=people,dc=example,dc=com"}]
  references: [{attribute: member, mustExist: true}]
  entries:                      # parents first; policies are entries too
    - dn: ou=people,dc=example,dc=com
      objectClass: organizationalUnit
      description: [one value, another value]
      telephoneNumber: []       # has no value
  rules: |                      # replace rules of the same name at the same place
    staff: allow users to read cn, mail

A password is set when its entry is added, and not compared later. If a step fails, those before it have
been made, and the same command continues.`,
		Example: `  ldapd apply --store ./data --dry-run directory.yaml`,
		Args:    cobra.ExactArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) (err error) {
		if a.File = args[0]; a.File == "-" {
			a.Text, err = io.ReadAll(m.Stdin)
		} else {
			a.Text, err = os.ReadFile(a.File)
		}
		if err != nil {
			return err
		}
		if _, err := parse(a.File, a.Text); err != nil {
			return err
		}
		return Job.Run(ctx, m, c, cli.ReadWrite, m.Around(), a)
	}))
	c.Flags().BoolVar(&a.DryRun, "dry-run", false, cli.DryRunHelp)
	return a.Format.AddTo(c)
}

type arguments struct {
	File   string // its name
	Text   []byte
	DryRun bool
	Format cli.Format
}

// Job applies a file to a store.
var Job = cli.NewJob("apply", apply)

// An applier applies a file.
type applier struct {
	*cli.Work
	arguments
	conn *ldap.Conn
	new  map[string]bool // normalised names of entries that were added, or would be
}

// A change is a change in JSON.
type change struct {
	What   string `json:"what"` // suffix, index, unique, reference, entry or rule
	Name   string `json:"name"`
	Change string `json:"change"`
}

func (c change) String() string { return c.What + " " + c.Name + ": " + c.Change }

func apply(ctx context.Context, w *cli.Work, a arguments) error {
	f, err := parse(a.File, a.Text)
	if err != nil {
		return err
	}
	return remote.OnStore(ctx, w, nil, func(conn *ldap.Conn) error {
		x := &applier{w, a, conn, map[string]bool{}}
		for _, step := range []func(context.Context, *file) error{x.suffixes, x.indexes, x.entries, x.unique, x.references, x.rules} {
			if err := step(ctx, f); err != nil {
				return err
			}
		}
		return nil
	})
}

// say prints a change, and reports whether it is to be made.
func (x *applier) say(what, name, text string) (make bool, err error) {
	err = cli.Print(x.Stdout, x.Format, []change{{what, name, text}}, change.String)
	return !x.DryRun && err == nil, err
}

// attribute returns a type of the schema.
func (x *applier) attribute(name string) (*schema.AttributeType, error) {
	t := x.Schema().Attribute(name)
	if t == nil {
		return nil, fmt.Errorf("%s: attribute %q is not in the schema", x.File, name)
	}
	return t, nil
}

// suffixes adds naming contexts that are missing.
func (x *applier) suffixes(ctx context.Context, f *file) error {
	for _, name := range f.Suffixes {
		if slices.ContainsFunc(x.Config().Suffixes, func(have string) bool { return sameName(x.Work, have, name) }) {
			continue
		}
		make, err := x.say("suffix", name, "add")
		if err != nil {
			return err
		}
		if make {
			if err := onlineschema.AddSuffixes(ctx, x.Partition, []string{name}); err != nil {
				return err
			}
		}
	}
	return nil
}

// indexes builds indexes that are missing or have another layout than a given one.
func (x *applier) indexes(ctx context.Context, f *file) error {
	for _, text := range f.Indexes {
		name, layout, _ := strings.Cut(text, ":")
		t, err := x.attribute(name)
		if err != nil {
			return err
		}
		all := slices.Clone(x.Config().Indexes)
		i := slices.IndexFunc(all, func(have catalog.Index) bool { return x.Schema().Attribute(have.Attribute) == t })
		switch {
		case i < 0:
			i, all = len(all), append(all, catalog.Index{Attribute: name})
		case layout == "" || all[i].Layout == catalog.Layout(layout):
			continue
		}
		all[i].Layout = catalog.Layout(layout)
		make, err := x.say("index", name, "build"+strings.TrimSuffix(" in the layout "+layout, " in the layout "))
		if err != nil || !make {
			return err
		}
		if err := onlineschema.Reindex(ctx, x.Partition, all, verify.ReindexOptions{Again: []string{name}}); err != nil {
			return err
		}
	}
	return nil
}

func (x *applier) unique(ctx context.Context, f *file) error {
	have, err := onlineschema.Unique(x.Partition)
	if err != nil {
		return err
	}
	for _, u := range f.Unique {
		t, err := x.attribute(u.Attribute)
		if err != nil {
			return err
		}
		name, err := cli.ParseName(x.File, u.Base)
		if err != nil {
			return err
		}
		base := entry.Root
		if len(name) > 0 && !x.isNew(name) {
			s := state.Newest(x.Partition)
			at, err := s.Find(ctx, name)
			s.Close()
			if err != nil {
				return fmt.Errorf("unique: %s: %w", u.Base, err)
			}
			base = at.ID
		}
		is := func(h catalog.Unique) bool { return x.Schema().Attribute(h.Attribute) == t && h.Base == base }
		if !x.isNew(name) && slices.ContainsFunc(have, is) {
			continue
		}
		make, err := x.say("unique", u.Attribute, strings.TrimSuffix("no two entries have the same value below "+u.Base, " below "))
		if err != nil {
			return err
		}
		if make {
			if err := onlineschema.SetUnique(ctx, x.Partition, []catalog.Unique{{Attribute: u.Attribute, Base: base}}, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// isNew reports whether a dry run would add the entry.
func (x *applier) isNew(name dn.DN) bool { return x.DryRun && x.new[x.normal(name)] }

func (x *applier) normal(name dn.DN) string { return normal(x.Work, name) }

// normal returns the same text for equal names.
func normal(w *cli.Work, name dn.DN) string {
	n, err := name.Normalize(w.Schema())
	if err != nil {
		return name.String()
	}
	return fmt.Sprintf("%q", n)
}

// sameName reports whether two texts are the same name.
func sameName(w *cli.Work, a, b string) bool {
	x, err := dn.Parse(a)
	if err != nil {
		return false
	}
	y, err := dn.Parse(b)
	return err == nil && normal(w, x) == normal(w, y)
}

func (x *applier) references(ctx context.Context, f *file) error {
	have, err := onlineschema.References(x.Partition)
	if err != nil {
		return err
	}
	for _, r := range f.References {
		t, err := x.attribute(r.Attribute)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(have, func(h catalog.Reference) bool {
			return x.Schema().Attribute(h.Attribute) == t && (h.MustExist || !r.MustExist)
		}) {
			continue
		}
		text := "values follow the entries that they name"
		if r.MustExist {
			text += ", which must exist"
		}
		make, err := x.say("reference", r.Attribute, text)
		if err != nil {
			return err
		}
		if make {
			if err := onlineschema.SetReferences(ctx, x.Partition, []catalog.Reference{{Attribute: r.Attribute, MustExist: r.MustExist}}, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// rules replaces the rules that have the name and the place of a listed one, and adds the others.
func (x *applier) rules(ctx context.Context, f *file) error {
	listed, err := f.rules()
	if err != nil || len(listed) == 0 {
		return err
	}
	err = onlineschema.SetAccess(ctx, x.Partition, x.By("ldapd apply"), func(s *partition.Snapshot, _ []partition.AccessRule) ([]partition.AccessRule, error) {
		all, err := access.Placed(ctx, s)
		if err != nil {
			return nil, err
		}
		changed := false
		for _, r := range listed {
			i := slices.IndexFunc(all, func(have acl.Placed) bool { return have.Label() == r.Label() })
			text := "+ " + r.Rule.String()
			switch {
			case i < 0:
				all = append(all, r)
			case all[i].Rule.String() == r.Rule.String():
				continue
			default:
				text = "- " + all[i].Rule.String() + "\n  " + text
				all[i] = r
			}
			changed = true
			if _, err := x.say("rule", r.Label(), text); err != nil {
				return nil, err
			}
		}
		if !changed || x.DryRun {
			return nil, cli.ErrDryRun
		}
		return access.Store(ctx, s, all)
	})
	if errors.Is(err, cli.ErrDryRun) {
		return nil
	}
	return err
}
