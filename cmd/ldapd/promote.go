package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/handoff"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/serving"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// promoteKeys are the configuration keys of promote.
var promoteKeys = append([]string{"standby.from", "archive.identity"}, cli.StoreKeys...)

// promoteCommands is the command "ldapd promote".
type promoteCommands struct{ *cli.Main }

func (m promoteCommands) root() *cobra.Command {
	var a promoteArgs
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "promote --store STORE --standby-from PLACE [--without-archive]",
		Short: "Make a standby the primary",
		Long: `Make a standby the primary: its folder becomes the owner of the archive, it applies what
the old primary archived, and it takes changes from then on. A running server restarts
in the same process, which ends its connections; without a server, start one afterwards.
The old primary finds out when it next archives, or when it starts: it then refuses
changes, and reports how many commits were not taken over. These are the commits that it
had not archived.

With --without-archive the archive is not asked, because it cannot be reached. Make sure that
the old primary does not run any more: nothing else stops it.`,
		Example: `  ldapd promote --config /etc/ldapd/ldapd.yaml`,
		Args:    cobra.NoArgs,
	}, promoteKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		return m.run(ctx, c, a)
	}))
	c.Flags().BoolVar(&a.WithoutArchive, "without-archive", false, "do not ask the archive, which cannot be reached")
	return c
}

// promoteArgs are the arguments of the command besides the configuration.
type promoteArgs struct{ WithoutArchive bool }

var promoteJob = cli.NewJob("promote", promoteServed, "standby.from", "archive.identity")

// promoteServed promotes the standby that this process serves.
func promoteServed(ctx context.Context, w *cli.Work, a promoteArgs) error {
	if w.Archives.Promote == nil {
		return errNotStandby
	}
	done, err := w.Archives.Promote(ctx, a.WithoutArchive)
	if err != nil {
		return err
	}
	return printPromotion(w.Around, done)
}

var errNotStandby = errors.New("the server is not a standby: it takes changes already")

func printPromotion(a cli.Around, p archive.Promotion) error {
	if p.Newest == 0 {
		_, err := fmt.Fprintln(a.Stdout, "promoted: an earlier promotion was interrupted near its end")
		return err
	}
	epoch := "the archive was not asked"
	if p.Epoch > 0 {
		epoch = fmt.Sprintf("epoch %d of the archive", p.Epoch)
	}
	_, err := fmt.Fprintf(a.Stdout, "promoted: %s, the newest commit is of %s (%s)\n", epoch, p.Newest.Time().UTC().Format(time.RFC3339Nano), p.Newest)
	return err
}

// run promotes a standby: in the server's process if a server has the standby's store
// open, and otherwise in this process.
func (m promoteCommands) run(ctx context.Context, c *config.Config, a promoteArgs) error {
	if c.Store == "" || hbase.IsURL(c.Store) {
		return &config.Error{Text: "only an embedded store has a standby: say --store FOLDER"}
	}
	is, err := archive.IsStandby(c.Store)
	if err == nil && !is {
		err = fmt.Errorf("%s: %w", c.Store, archive.ErrNoStandby)
	}
	if err != nil {
		return err
	}
	err = promoteJob.Ask(ctx, c, m.Around(), a, table.ErrLocked)
	if !errors.Is(err, handoff.ErrNobody) {
		return err
	}
	if c.Standby.From == nil {
		return &config.Error{Text: "no archive given: say --standby-from PLACE"}
	}
	log := m.Logger(c)
	keys, err := cli.ReadKeys(c.Archive.Identity, os.Open)
	if err != nil {
		return err
	}
	f := archive.NewStandby(archive.StandbyOptions{Folder: c.Store, Place: c.Standby.From, Keys: keys, Log: log})
	if _, err := f.Prepare(ctx); err != nil {
		return err
	}
	done, err := serving.PromoteAlone(ctx, c, f, a.WithoutArchive, log)
	if err != nil {
		return err
	}
	return printPromotion(m.Around(), done)
}
