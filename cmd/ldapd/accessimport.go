package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport"
)

// accessImportArgs are the arguments of access import besides the configuration.
type accessImportArgs struct {
	Files           []string
	Server, Zone    string
	Reserved, Check bool
}

var accessImportJob = job[accessImportArgs]{"access import", importAccess, nil}

func (m *Main) accessImportCommand() *cobra.Command {
	var a accessImportArgs
	c := m.command(&cobra.Command{
		Use:   "import [--store STORE] [--check] FILE...",
		Short: "Translate aci, olcAccess and slapd.conf into drafts of rules",
		Long: `Translate the access control of another server into drafts of access rules, and print
them as access apply takes them. The files are LDIF with aci of 389 Directory Server,
OpenDJ or PingDirectory, exports of slapd's cn=config with olcAccess, or slapd.conf
("-": standard input).

Whatever has no exact counterpart is reported on standard error, with file, line and
reason. A table counts how many translations are exact, how many are near (the new rules
allow less), and how many originals are not translated. With --store, identities that
the directory does not have and attributes that its schema does not define are left out,
and rules that it would refuse become comments.

With --check, the command decides for some entries what the originals allow, as the old
server would, and what the new rules allow, and prints each difference. The entries are
those of the store, or without --store those of the files.`,
		Example: `  ldapd access import export.ldif > rules
  ldapd access import --store ./data --check export.ldif > rules
  ldapd access apply --store ./data --dry-run rules`,
		Args: cobra.MinimumNArgs(1),
	}, storeKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a.Files = args
		if a.Server != "" && !slices.Contains(foreign.Servers, a.Server) {
			return &config.Error{Where: "--server", Text: fmt.Sprintf("%q is none of %s", a.Server, strings.Join(foreign.Servers, ", "))}
		}
		if _, err := time.LoadLocation(a.Zone); err != nil || a.Zone == "Local" {
			return &config.Error{Where: "--zone", Text: fmt.Sprintf("the time zone %q is not known", a.Zone)}
		}
		around := m.around()
		around.open = oneOf(a.Files, os.Open)
		if c.Store != "" {
			return accessImportJob.on(ctx, m, c, openReadOnly, around, a)
		}
		im := a.newImport(schema.Core(), nil)
		items, err := a.read(im, &around, a.Check)
		if err != nil {
			return err
		}
		return a.write(im, &around, items)
	})
	c.Flags().BoolVar(&a.Reserved, "reserved", false, "let * include reserved attributes, such as userPassword, as it does on the old server")
	c.Flags().BoolVar(&a.Check, "check", false, "compare what the originals and the rules allow")
	c.Flags().StringVar(&a.Server, "server", "", "the `SERVER` that the aci come from: "+strings.Join(foreign.Servers, ", ")+" (default: guessed from the aci)")
	c.Flags().StringVar(&a.Zone, "zone", "", "the time `ZONE` of the old server, such as Europe/Vienna, for rules that depend on the time")
	return c
}

func (a *accessImportArgs) newImport(sch *schema.Schema, contexts []dn.DN) *foreign.Import {
	im := &foreign.Import{Options: foreign.Options{Schema: sch, Contexts: contexts, Server: a.Server, Reserved: a.Reserved}}
	if a.Zone != "" {
		im.Zone, _ = time.LoadLocation(a.Zone)
	}
	return im
}

// read reads the files. If keep is set, it returns the entries in the files.
func (a *accessImportArgs) read(im *foreign.Import, w *around, keep bool) (items []foreign.Item, err error) {
	var each func(foreign.Item)
	if keep {
		each = func(x foreign.Item) { items = append(items, x) }
	}
	for _, name := range a.Files {
		if err := readForeign(im, w, name, each); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func readForeign(im *foreign.Import, w *around, name string, each func(foreign.Item)) error {
	if name == "-" {
		return im.Read("standard input", w.Stdin, each)
	}
	f, err := w.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := uncompressed(f)
	if err != nil {
		return err
	}
	return im.Read(name, in, each)
}

func importAccess(ctx context.Context, w *work, a accessImportArgs) error {
	s := w.Snapshot()
	defer s.Close()
	im := a.newImport(s.Schema(), s.Contexts())
	if _, err := a.read(im, &w.around, false); err != nil {
		return err
	}
	var items []foreign.Item
	if a.Check {
		var err error
		if items, err = itemsOf(ctx, s); err != nil {
			return err
		}
	}
	im.Exists = func(name dn.DN) (bool, error) {
		_, err := s.Find(ctx, name)
		if partition.Is(err, partition.NoSuchEntry) {
			return false, nil
		}
		return err == nil, err
	}
	im.Accepts = func(r acl.Placed) error {
		_, err := access.Store(ctx, s, []acl.Placed{r})
		return err
	}
	return a.write(im, &w.around, items)
}

// maxChecked is the largest number of entries of a store that a check reads.
const maxChecked = 200000

// itemsOf returns the entries of a state, without their secrets.
func itemsOf(ctx context.Context, s *partition.Snapshot) (items []foreign.Item, err error) {
	for found, err := range s.Search(ctx, partition.Query{Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}) {
		if err != nil {
			return nil, err
		}
		if len(items) == maxChecked {
			return nil, fmt.Errorf("--check reads the whole directory, at most %d entries: export a part of it, and check with that", maxChecked)
		}
		name, err := found.Name.DN()
		if err != nil {
			return nil, err
		}
		if len(name) > 0 {
			items = append(items, foreign.Item{Name: name, Entry: found.Entry})
		}
	}
	return items, nil
}

// write translates the originals, and prints the drafts and the notes. With --check, it
// also compares what the originals and the drafts allow, and prints the differences.
func (a *accessImportArgs) write(im *foreign.Import, w *around, items []foreign.Item) error {
	for _, x := range items {
		im.Names = append(im.Names, x.Name)
	}
	im.Translate()
	if im.Exists != nil {
		if err := im.Fit(); err != nil {
			return err
		}
	}
	if err := im.Minimize(); err != nil {
		return err
	}
	if err := im.WriteRules(w.Stdout); err != nil {
		return err
	}
	if err := im.WriteNotes(w.Stderr); err != nil || !a.Check {
		return err
	}
	if im.Exists == nil {
		im.ExistIn(items)
		if err := im.Fit(); err != nil {
			return err
		}
	}
	c, err := im.Check(items)
	if err != nil {
		return err
	}
	return c.WriteDifferences(w.Stderr)
}
