package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/reformat"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

func upgradeCommand(m *cli.Main) *cobra.Command {
	a, to, ahead, back := upgradeArgs{}, "", false, false
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "upgrade --store STORE [--dry-run | --to STORE | --back]",
		Short: "Upgrade a store's files or rows to the format of this version",
		Long: `Upgrade a store's files to the newest format that this version knows. A version of ldapd
reads its own format and the previous one, and leaves a store in the format it has, so
that you can go back to the previous version. Upgrade when you no longer want to go
back; afterwards, older versions refuse the store. Servers continue to serve meanwhile.
--dry-run says which format the store has.

With --to, make a copy of the store whose rows have the newest format, which takes fewer
octets. The copy has the whole history, checkpoints and settings. From then on the store
takes no updates: start the servers on the copy. --back lets the store take updates
again, without what was written to the copy.

On HBase, servers serve meanwhile. The command copies what there is, makes the servers
refuse updates, and copies what was written meanwhile. Then restart the servers on the
copy, one after the other; until then they answer searches from the store. With --ahead,
the command only copies what there is. An embedded store's server must be stopped.`,
		Example: `  ldapd upgrade --store /var/lib/ldapd/store
  ldapd upgrade --store /var/lib/ldapd/store --to /var/lib/ldapd/new
  ldapd upgrade --store hbase://zk1,zk2,zk3/prod --to hbase://zk1,zk2,zk3/prod2`,
		Args: cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		switch {
		case ahead && to == "":
			return &config.Error{Where: "--ahead", Text: "say with --to where the copy is"}
		case to != "":
			return upgradeTo(ctx, m, c, to, ahead)
		case back:
			return upgradeBack(ctx, m, c)
		}
		return upgradeJob.Run(ctx, m, c, cli.ReadWrite, m.Around(), a)
	}))
	c.Flags().BoolVar(&a.Dry, "dry-run", false, "say which format the store has, and change nothing")
	c.Flags().StringVar(&to, "to", "", "`STORE` to make: a folder or a place in HBase, as that of the store")
	c.Flags().BoolVar(&ahead, "ahead", false, "with --to, on HBase: copy what there is, and let servers go on taking updates")
	c.Flags().BoolVar(&back, "back", false, "let a store that was copied take updates again")
	c.MarkFlagsMutuallyExclusive("dry-run", "to", "back")
	c.MarkFlagsMutuallyExclusive("dry-run", "ahead", "back")
	return c
}

// upgradeTo copies the configured store to another one, with rows in the newest format.
func upgradeTo(ctx context.Context, m *cli.Main, c *config.Config, to string, ahead bool) (err error) {
	if ahead && !hbase.IsURL(c.Store) {
		return &config.Error{Where: "--ahead", Text: "this is for stores in HBase: the server of an embedded store must be stopped for the whole copy"}
	}
	if hbase.IsURL(c.Store) != hbase.IsURL(to) {
		return &config.Error{Where: "--to", Text: "the copy must be of the same kind as the store, a folder or a place in HBase; to move to the other, export and import"}
	}
	if !hbase.IsURL(to) {
		if to, err = filepath.Abs(to); err != nil { // the store keeps this name
			return err
		}
	}
	from, err := openStopped(ctx, m, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := reformat.Needed(ctx, from); err != nil { // before anything is made
		return err
	}
	there := *c
	there.Store = to
	if _, err := cli.StoreThere(&there, cli.Load); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	target, err := cli.OpenStore(ctx, &there, m.Logger(c), cli.Load, 0)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	begun := time.Now()
	closed, err := reformat.Copy(ctx, from, target, reformat.Options{Ahead: ahead, By: upgrader, Options: partitionOptions(m, c)})
	if err != nil {
		return err
	}
	took := time.Since(begun).Round(100 * time.Millisecond)
	if ahead {
		_, err = fmt.Fprintf(m.Stdout, "%s has the past of %s (%s): run the command without --ahead to copy the rest\n", to, c.Store, took)
		return err
	}
	_, err = fmt.Fprintf(m.Stdout, "%s has everything of %s, with rows in the newest format (%s)\n", to, c.Store, took)
	if err == nil && !closed.IsZero() {
		_, err = fmt.Fprintf(m.Stdout, "%s takes no updates since %s: restart the servers on the copy\n", c.Store, closed.Format(time.RFC3339))
	}
	return err
}

// upgradeBack makes the configured store take updates again.
func upgradeBack(ctx context.Context, m *cli.Main, c *config.Config) (err error) {
	s, err := openStopped(ctx, m, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	o := partitionOptions(m, c)
	o.Moved = true
	p, err := partition.Open(ctx, s, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	now, err := p.Latest()
	if err != nil {
		return err
	}
	to := now.Header.MovedTo
	if to == "" {
		return fmt.Errorf("%s takes updates", c.Store)
	}
	if err := unused(ctx, m, c, to); err != nil {
		return err
	}
	if err := write.SetMoved(ctx, p, upgrader, ""); err != nil {
		return err
	}
	_, err = fmt.Fprintf(m.Stdout, "%s takes updates again, without what was written to %s: remove that copy\n", c.Store, to)
	return err
}

// unused returns an error if servers use a store.
func unused(ctx context.Context, m *cli.Main, c *config.Config, store string) error {
	there := *c
	there.Store = store
	if is, err := cli.StoreThere(&there, cli.Load); err != nil || !is {
		return err
	}
	d, err := cli.Open(ctx, &there, m.Logger(c), cli.ReadWrite)
	switch {
	case errors.Is(err, txn.ErrIncomplete) || errors.Is(err, partition.ErrNoDirectory):
		return nil
	case err != nil:
		return fmt.Errorf("the copy: %w", err)
	}
	if err := errors.Join(d.Partition.DB.Alone(ctx), d.Close(context.WithoutCancel(ctx))); err != nil {
		return fmt.Errorf("the copy: %w: stop its servers first", err)
	}
	return nil
}

// openStopped opens the configured store, of which no server may be running if it is embedded.
func openStopped(ctx context.Context, m *cli.Main, c *config.Config) (table.Store, error) {
	if _, err := cli.StoreThere(c, cli.ReadWrite); err != nil {
		return nil, err
	}
	s, err := cli.OpenStore(ctx, c, m.Logger(c), cli.ReadWrite, 0)
	if errors.Is(err, table.ErrLocked) {
		err = fmt.Errorf("%w: stop the server first", err)
	}
	return s, err
}

// upgrader is the author of commits that say that a store was copied.
var upgrader = write.By{Request: "upgrade"}

func partitionOptions(m *cli.Main, c *config.Config) partition.Options {
	return partition.Options{
		Schema: schema.Core().WithOptions(c.AttributeOptions...),
		Txn:    txn.Options{Lease: c.Lease, Drift: c.Drift, Log: m.Logger(c), Now: cli.Clock(c)},
		Log:    m.Logger(c),
	}
}

// upgradeArgs are the arguments of the command besides the configuration.
type upgradeArgs struct{ Dry bool }

var upgradeJob = cli.NewJob("upgrade", upgrade).Offered("[--dry-run]",
	func(f *pflag.FlagSet, a *upgradeArgs) { f.BoolVar(&a.Dry, "dry-run", false, "") }, cli.NoWords[upgradeArgs])

func resealCommand(m *cli.Main) *cobra.Command {
	return cli.Accepts(m.Command(&cobra.Command{
		Use:   "reseal [--config FILE]",
		Short: "Seal all secrets in HBase with the first key of secrets.seal",
		Long: `Write passwords and other secrets again, so that they are sealed with the first key of the
file that secrets.seal names, or not sealed if its first line is the word plain. Servers
continue to serve meanwhile. Garbage collection removes what was replaced; the command says how
much is left. docs/hbase.md describes how to change keys.`,
		Args: cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		return resealJob.Run(ctx, m, c, cli.ReadWrite, m.Around(), struct{}{})
	}))
}

var resealJob = cli.NewJob("reseal", reseal).Offered("", nil, cli.NoWords[struct{}])

func reseal(ctx context.Context, w *cli.Work, _ struct{}) error {
	done, err := write.Reseal(ctx, w.Partition)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.Stdout, "the secrets of %d entries were written again; %d old values are left until garbage collection removes them and HBase compacts (ldapd gc)\n",
		done.Entries, done.Old)
	return err
}

func upgrade(ctx context.Context, w *cli.Work, a upgradeArgs) error {
	before, newest := w.Partition.Formats()
	if rows, best := w.Partition.RowFormats(); rows < best {
		_, err := fmt.Fprintf(w.Stdout, "the rows have format %d and keep it; new stores have format %d, which takes fewer octets: upgrade --to makes a copy with it\n", rows, best)
		if err != nil {
			return err
		}
	}
	switch {
	case newest == 0:
		_, err := fmt.Fprintln(w.Stdout, "the files of the store have one format only")
		return err
	case a.Dry || before == newest:
		_, err := fmt.Fprintf(w.Stdout, "the store has format %d, the newest is %d\n", before, newest)
		return err
	}
	if err := w.Partition.Upgrade(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w.Stdout, "the store had format %d and has %d now\n", before, newest)
	return err
}
