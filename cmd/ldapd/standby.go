package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/handoff"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// errAgain is the cause with which a server stops in order to start again in the same process.
// After a promotion the server starts as a primary. Otherwise it starts on the next base.
var errAgain = fmt.Errorf("the server starts again: %w", context.Canceled)

// A follower is the part of a server that makes it a standby. In any other server the follower
// is nil.
type follower struct {
	*archive.Standby
	again context.CancelCauseFunc
}

// openFollower prepares the store of a standby. It returns nil if the server is no standby or
// has been promoted. If a promotion was interrupted, openFollower completes it and returns nil.
func openFollower(ctx context.Context, c *config.Config, log *slog.Logger, again context.CancelCauseFunc) (*follower, error) {
	if c.Standby.From == nil {
		return nil, nil
	}
	if c.Store == "" {
		return nil, errNoStoreNamed
	}
	keys, err := readKeys(c.Archive.Identity, os.Open)
	if err != nil {
		return nil, err
	}
	f := &follower{archive.NewStandby(archive.StandbyOptions{Folder: c.Store, Place: c.Standby.From, Keys: keys, Log: log}), again}
	role, err := f.Prepare(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("standby of %s: %w", f, err)
	case role == archive.Promoted:
		log.Warn("this server was promoted: it serves for writing, and standby.from is ignored", "standby.from", f.String())
		return nil, nil
	case role == archive.Promoting:
		log.Warn("a promotion was interrupted: it is completed now")
		_, err := promoteAlone(ctx, c, f, false, log)
		return nil, err
	}
	return f, nil
}

// purpose returns what the store is opened for.
func (f *follower) purpose(use openMode) openMode {
	if f == nil {
		return use
	}
	return openStandby
}

// follow keeps the store up to date until stop is called. Before follow returns, it applies
// everything that the archive contains, or logs why it cannot. It returns errAgain if the server
// has to begin with another base.
func (f *follower) follow(ctx context.Context, p *directoryStore, log *slog.Logger) (stop func(), err error) {
	if f == nil {
		return func() {}, nil
	}
	show := func(ctx context.Context) error { return p.Partition.DB.ShowNewest(ctx) }
	if err := f.Follow(p.store.(*lsm.Store), show); err != nil {
		return nil, err
	}
	if err := f.Poll(ctx); errors.Is(err, archive.ErrNextBase) {
		return nil, errAgain
	} else if err != nil {
		log.Error("the standby cannot follow its archive; it serves what it has", "place", f.String(), "error", err)
	}
	log.Info("this server is a standby", "of", f.String(), "newest", f.Status().Newest.Time().UTC())
	return inBackground(func(ctx context.Context) {
		if err := f.Run(ctx); err != nil {
			log.Info("the server starts again on another base", "reason", err)
			f.again(errAgain)
		}
	}), nil
}

// promoteKeys are the configuration keys of promote.
var promoteKeys = append([]string{"standby.from", "archive.identity"}, storeKeys...)

// promoteCommands is the command "ldapd promote".
type promoteCommands struct{ *Main }

func (m promoteCommands) root() *cobra.Command {
	var a promoteArgs
	c := accepts(m.command(&cobra.Command{
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

var promoteJob = job[promoteArgs]{"promote", promoteServed, []string{"standby.from", "archive.identity"}}

// promoteServed promotes the standby that this process serves.
func promoteServed(ctx context.Context, w *work, a promoteArgs) error {
	f := w.archive.standby
	if f == nil {
		return errNotStandby
	}
	done, err := f.Promote(ctx, a.WithoutArchive)
	if err != nil {
		return err
	}
	f.again(errAgain)
	return printPromotion(w.around, done)
}

var errNotStandby = errors.New("the server is not a standby: it takes changes already")

func printPromotion(a around, p archive.Promotion) error {
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
	if c.Store == "" || strings.HasPrefix(c.Store, "hbase:") {
		return &config.Error{Text: "only an embedded store has a standby: say --store FOLDER"}
	}
	is, err := archive.IsStandby(c.Store)
	if err == nil && !is {
		err = fmt.Errorf("%s: %w", c.Store, archive.ErrNoStandby)
	}
	if err != nil {
		return err
	}
	err = promoteJob.ask(ctx, c, m.around(), a, table.ErrLocked)
	if !errors.Is(err, handoff.ErrNobody) {
		return err
	}
	if c.Standby.From == nil {
		return &config.Error{Text: "no archive given: say --standby-from PLACE"}
	}
	log := m.logger(c)
	keys, err := readKeys(c.Archive.Identity, os.Open)
	if err != nil {
		return err
	}
	f := &follower{Standby: archive.NewStandby(archive.StandbyOptions{Folder: c.Store, Place: c.Standby.From, Keys: keys, Log: log})}
	if _, err := f.Prepare(ctx); err != nil {
		return err
	}
	done, err := promoteAlone(ctx, c, f, a.WithoutArchive, log)
	if err != nil {
		return err
	}
	return printPromotion(m.around(), done)
}

// promoteAlone promotes the store of a standby that no server has open.
func promoteAlone(ctx context.Context, c *config.Config, f *follower, without bool, log *slog.Logger) (p archive.Promotion, err error) {
	s, err := openStore(ctx, c, log, openStandby, 0)
	if errors.Is(err, lsm.ErrFollowsNone) {
		return p, f.Finish()
	}
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	store := s.(*lsm.Store)
	if err := f.Follow(store, func(context.Context) error { return nil }); err != nil {
		return p, err
	}
	return f.Promote(ctx, without)
}
