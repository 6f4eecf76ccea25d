package accesscmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	foreign "github.com/seed-4dac0d86/ldapd/tools/aclimport"
)

// importArgs are the arguments of access import besides the configuration.
type importArgs struct {
	Files        []string
	Server, Zone string
	Reserved     bool
}

var importJob = cli.NewJob("access import", importAccess)

func (m commands) importRules() *cobra.Command {
	var a importArgs
	c := m.Command(&cobra.Command{
		Use:   "import [--store STORE] FILE...",
		Short: "Translate aci, olcAccess and slapd.conf into drafts of rules",
		Long: `Translate the access control of another server into drafts of access rules, and print
them as access apply takes them. The files are LDIF with aci of 389 Directory Server,
OpenDJ or PingDirectory, exports of slapd's cn=config with olcAccess, or slapd.conf
("-": standard input).

Whatever has no exact counterpart is reported on standard error, with file, line and
reason. A table counts how many translations are exact, how many are near (the new rules
allow less), and how many originals are not translated. With --store, identities that
the directory does not have and attributes that its schema does not define are left out,
and rules that it would refuse become comments.`,
		Example: `  ldapd access import export.ldif > rules
  ldapd access import --store ./data export.ldif > rules
  ldapd access apply --store ./data --dry-run rules`,
		Args: cobra.MinimumNArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a.Files = args
		if a.Server != "" && !slices.Contains(foreign.Servers, a.Server) {
			return &config.Error{Where: "--server", Text: fmt.Sprintf("%q is none of %s", a.Server, strings.Join(foreign.Servers, ", "))}
		}
		if _, err := time.LoadLocation(a.Zone); err != nil || a.Zone == "Local" {
			return &config.Error{Where: "--zone", Text: fmt.Sprintf("the time zone %q is not known", a.Zone)}
		}
		around := m.Around()
		around.Open = cli.OneOf(a.Files, os.Open)
		if c.Store != "" {
			return importJob.Run(ctx, m.Main, c, cli.ReadOnly, around, a)
		}
		im := a.newImport(schema.Core(), nil)
		if err := a.read(im, &around); err != nil {
			return err
		}
		return writeImport(im, &around)
	})
	c.Flags().BoolVar(&a.Reserved, "reserved", false, "let * include reserved attributes, such as userPassword, as it does on the old server")
	c.Flags().StringVar(&a.Server, "server", "", "the `SERVER` that the aci come from: "+strings.Join(foreign.Servers, ", ")+" (default: guessed from the aci)")
	c.Flags().StringVar(&a.Zone, "zone", "", "the time `ZONE` of the old server, such as Europe/Vienna, for rules that depend on the time")
	return c
}

func (a *importArgs) newImport(sch *schema.Schema, contexts []dn.DN) *foreign.Import {
	im := &foreign.Import{Options: foreign.Options{Schema: sch, Contexts: contexts, Server: a.Server, Reserved: a.Reserved}}
	if a.Zone != "" {
		im.Zone, _ = time.LoadLocation(a.Zone)
	}
	return im
}

func (a *importArgs) read(im *foreign.Import, w *cli.Around) error {
	for _, name := range a.Files {
		if err := readForeign(im, w, name); err != nil {
			return err
		}
	}
	return nil
}

func readForeign(im *foreign.Import, w *cli.Around, name string) error {
	if name == "-" {
		return im.Read("standard input", w.Stdin)
	}
	f, err := w.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := uncompressed(f)
	if err != nil {
		return err
	}
	return im.Read(name, in)
}

func importAccess(ctx context.Context, w *cli.Work, a importArgs) error {
	s := state.Newest(w.Partition)
	defer s.Close()
	im := a.newImport(s.Schema(), s.Catalog.ContextNames())
	if err := a.read(im, &w.Around); err != nil {
		return err
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
	return writeImport(im, &w.Around)
}

var errNoAccess = errors.New("there is no aci, no olcAccess and no database of slapd.conf in what was read: searches return aci only if it is named, " +
	"as in ldapsearch ... '*' aci, and slapd has its rules in cn=config (slapcat -n 0)")

// writeImport translates the originals, and prints the drafts and the notes.
func writeImport(im *foreign.Import, w *cli.Around) error {
	if im.Empty() {
		return errNoAccess
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
	return im.WriteNotes(w.Stderr)
}
