package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/archive"
)

// archiveKeys are the configuration keys of the commands that write to an archive.
var archiveKeys = append([]string{"archive.to", "archive.recipients", "archive.clear", "archive.keep"}, cli.StoreKeys...)

// backupCommands are the commands "ldapd backup ...".
type backupCommands struct{ *cli.Main }

func (m backupCommands) root() *cobra.Command {
	var a backupArgs
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "backup --store STORE --archive-to PLACE [--base] [--take-over]",
		Short: "Archive an embedded store, and restore it",
		Long: `Archive what was committed to an embedded store since the last backup, while a server
has the store open or not. A server with archive.to does the same by itself every
archive.lag. The first backup, and one with --base, takes a base: a copy of the whole
store. Only files that the archive does not have yet are sent. Use --take-over if the
store was moved to another folder: this store then continues the archive, and the
archive refuses the old folder from then on.`,
		Example: `  ldapd backup --store ./data --archive-to /mnt/backup/ldapd
  ldapd backup list --from /mnt/backup/ldapd
  ldapd backup restore --from /mnt/backup/ldapd --to ./restored`,
		Args: cobra.NoArgs,
	}, archiveKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		if c.Archive.Place != nil {
			a.To = c.Archive.Place.String()
		}
		return backupJob.Run(ctx, m.Main, c, cli.ReadWrite, m.Around(), a)
	}))
	c.Flags().BoolVar(&a.Base, "base", false, "take a base, which is a copy of the whole store")
	c.Flags().BoolVar(&a.TakeOver, "take-over", false, "continue an archive that another folder wrote to")
	c.AddCommand(m.list(), m.verify(), m.restore(), m.drill(),
		m.snapshot(), m.cloneCommand(), m.cut())
	return c
}

// backupArgs are the arguments of the command besides the configuration.
type backupArgs struct {
	To             string // the place in the configuration of the tool
	Base, TakeOver bool
}

var backupJob = cli.NewJob("backup", backup, "archive.to").Offered("[--base]",
	func(f *pflag.FlagSet, a *backupArgs) { f.BoolVar(&a.Base, "base", false, "") }, cli.NoWords[backupArgs])

func backup(ctx context.Context, w *cli.Work, a backupArgs) error {
	to, err := archiverOf(w, a.To)
	if err != nil {
		return err
	}
	if a.TakeOver {
		if err := to.TakeOver(); err != nil {
			return err
		}
	}
	if a.Base {
		if err := to.Base(ctx); err != nil {
			return err
		}
		if _, err := to.Thin(ctx); err != nil {
			return err
		}
	}
	if err := to.Pieces(ctx); err != nil {
		return err
	}
	s := state.Newest(w.Partition)
	defer s.Close()
	_, err = fmt.Fprintf(w.Stdout, "archived at %s: %s\n", to, s.Revision().Time().UTC().Format(time.RFC3339))
	return err
}

// archiverOf returns the configured archive. The parameter "meant" is the place in the tool's
// configuration. A server has only one archive, so archiverOf returns an error if meant is not
// the place of that archive.
func archiverOf(w *cli.Work, meant string) (*archive.Archiver, error) {
	a, err := w.Archives.Open()
	if errors.Is(err, cli.ErrNoArchive) && w.Elsewhere {
		err = &config.Error{Where: "archive.to", Text: "the server that has the store archives nowhere: set archive.to in its configuration and restart it, or stop it to archive without it"}
	}
	if err == nil && meant != "" && meant != a.String() {
		err = &config.Error{Where: "archive.to", Text: fmt.Sprintf("the server that has the store archives at %s and nowhere else", a)}
	}
	return a, err
}

// The type "from" selects the archive that a command reads: the archive of --from, or the
// configured archive.
type from struct{ place, identity string }

func (f *from) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.place, "from", "", "`PLACE` of the archive, instead of archive.to")
	c.Flags().StringVar(&f.identity, "identity", "", "`FILE` with the identity that reads a sealed archive, instead of archive.identity")
}

// open returns the place of the selected archive.
func (f *from) open(c *config.Config) (archive.Place, error) {
	if f.place == "" {
		if c.Archive.Place == nil {
			return nil, &config.Error{Text: "no archive given: say --from PLACE"}
		}
		return c.Archive.Place, nil
	}
	p, err := archive.OpenPlace(f.place)
	if err != nil {
		return nil, &config.Error{Where: "--from", Text: err.Error()}
	}
	return p, nil
}

func (f *from) keys(c *config.Config) (archive.Keys, error) {
	name := f.identity
	if name == "" {
		name = c.Archive.Identity
	}
	return cli.ReadKeys(name, os.Open)
}

func (m backupCommands) list() *cobra.Command {
	var f from
	var format cli.Format
	c := m.Command(&cobra.Command{
		Use:   "list --from PLACE [--json | --csv]",
		Short: "List the moments that an archive can restore",
		Long: `List who owns an archive and, for each base, between which moments the store can be
restored from it. No key is needed.`,
		Args: cobra.NoArgs,
	}, nil, func(ctx context.Context, c *config.Config, _ []string) error {
		p, err := f.open(c)
		if err != nil {
			return err
		}
		owner, states, err := archive.List(ctx, p)
		if err != nil {
			return err
		}
		return printStates(m.Stdout, format, owner, states)
	})
	f.flags(c)
	return format.AddTo(c)
}

// stateText is a base of an archive in JSON, with the moments that it can restore.
type stateText struct {
	Epoch  archive.Epoch `json:"epoch"`
	From   time.Time     `json:"from"`
	To     time.Time     `json:"to"`
	Bytes  int64         `json:"bytes"`
	Pieces int           `json:"pieces"`
	Gap    string        `json:"gap,omitempty"`   // why nothing behind To can be restored
	Owner  string        `json:"owner,omitempty"` // the server that owns the archive in this epoch
	Since  *time.Time    `json:"since,omitempty"`
}

func (s stateText) String() string {
	text := fmt.Sprintf("epoch %d: from %s to %s, %d bytes, %d pieces", s.Epoch, s.From.Format(time.RFC3339Nano), s.To.Format(time.RFC3339Nano), s.Bytes, s.Pieces)
	if s.Gap != "" {
		text += "\n  behind that: " + s.Gap
	}
	return text
}

func printStates(w io.Writer, f cli.Format, owner *archive.Owner, states []archive.State) error {
	if owner != nil && f == cli.Text {
		fmt.Fprintf(w, "owner %s, epoch %d, since %s\n", owner.Server, owner.Epoch, owner.Since.Format(time.RFC3339))
	}
	var rows []stateText
	for _, s := range states {
		x := stateText{Epoch: s.Base.Epoch, From: s.Base.Newest.Time().UTC(), To: s.Newest.Time().UTC(), Bytes: s.Bytes, Pieces: s.Pieces}
		if s.Gap != nil {
			x.Gap = s.Gap.Error()
		}
		if owner != nil && owner.Epoch == x.Epoch {
			x.Owner, x.Since = owner.Server, known(owner.Since)
		}
		rows = append(rows, x)
	}
	return cli.Print(w, f, rows, stateText.String)
}
