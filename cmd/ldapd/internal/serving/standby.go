package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
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
		return nil, cli.ErrNoStoreNamed
	}
	keys, err := cli.ReadKeys(c.Archive.Identity, os.Open)
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
		_, err := PromoteAlone(ctx, c, f.Standby, false, log)
		return nil, err
	}
	return f, nil
}

// purpose returns what the store is opened for.
func (f *follower) purpose(use cli.Mode) cli.Mode {
	if f == nil {
		return use
	}
	return cli.Standby
}

// follow keeps the store up to date until stop is called. Before follow returns, it applies
// everything that the archive contains, or logs why it cannot. It returns errAgain if the server
// has to begin with another base.
func (f *follower) follow(ctx context.Context, p *cli.Store, log *slog.Logger) (stop func(), err error) {
	if f == nil {
		return func() {}, nil
	}
	show := func(ctx context.Context) error { return p.Partition.DB.ShowNewest(ctx) }
	if err := f.Follow(p.Tables.(*lsm.Store), show); err != nil {
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

// promote makes the standby a primary, and starts the server again.
func (f *follower) promote(ctx context.Context, withoutArchive bool) (archive.Promotion, error) {
	done, err := f.Promote(ctx, withoutArchive)
	if err == nil {
		f.again(errAgain)
	}
	return done, err
}

// PromoteAlone promotes the store of a standby that no server has open.
func PromoteAlone(ctx context.Context, c *config.Config, f *archive.Standby, without bool, log *slog.Logger) (p archive.Promotion, err error) {
	s, err := cli.OpenStore(ctx, c, log, cli.Standby, 0)
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
