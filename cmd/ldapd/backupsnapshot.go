package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/snapshots"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

func (m backupCommands) snapshot() *cobra.Command {
	var list, remove bool
	var f cli.Format
	c := m.Command(&cobra.Command{
		Use:   "snapshot --store hbase://... [--list | [--delete] NAME]",
		Short: "Take HBase snapshots of a store's tables while servers write",
		Long: `Make a checkpoint of the present state and then an HBase snapshot of each table. Servers
continue to write. The backup contains the state of the checkpoint and its history.
"ldapd backup clone" makes a new store from it. The name is a letter followed by up to
63 letters, digits, '_' and '-'. To keep a backup outside this HBase, copy its snapshots
with HBase's ExportSnapshot.

With --delete, the command deletes the snapshots and the checkpoint.`,
		Example: `  ldapd backup snapshot --store hbase://zk1,zk2,zk3/prod nightly
  ldapd backup snapshot --store hbase://zk1,zk2,zk3/prod --list
  ldapd backup clone --store hbase://zk1,zk2,zk3/prod --to hbase://zk1,zk2,zk3/copy nightly`,
		Args: func(c *cobra.Command, args []string) error {
			if list || len(args) == 0 && !remove {
				return cobra.NoArgs(c, args)
			}
			return cobra.ExactArgs(1)(c, args)
		},
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		name := strings.Join(args, "")
		switch {
		case name == "":
			return m.listSnapshots(ctx, c, f)
		case remove:
			return m.deleteSnapshots(ctx, c, name)
		}
		return m.takeSnapshots(ctx, c, name)
	})
	c.Flags().BoolVar(&list, "list", false, "list the backups, as the command does without a name")
	c.Flags().BoolVar(&remove, "delete", false, "delete the backup")
	c.MarkFlagsMutuallyExclusive("list", "delete")
	return f.AddTo(c)
}

// wantHBase returns an error if the store at url is not in HBase. The parameter "where" is the
// name of the option that has the URL.
func wantHBase(where, url string) error {
	if !hbase.IsURL(url) {
		return &config.Error{Where: where, Text: "this needs a store in HBase, " + hbase.Form + "; an embedded store has \"ldapd backup\""}
	}
	return nil
}

// openSnapshots opens a store for the commands that work on HBase only.
func (m backupCommands) openSnapshots(ctx context.Context, c *config.Config, where, url string) (*hbase.Store, error) {
	if err := wantHBase(where, url); err != nil {
		return nil, err
	}
	return cli.OpenHBase(ctx, c, m.Logger(c), where, url)
}

// withHBase calls f with the configured store. It returns an error if the store is not in
// HBase.
func (m backupCommands) withHBase(ctx context.Context, c *config.Config, f func(*hbase.Store) error) error {
	s, err := m.openSnapshots(ctx, c, c.Origin("store"), c.Store)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// secretsKept is the time for which a store keeps the past of passwords, less a margin for
// a slow clock. If the snapshot of the entries is taken later than secretsKept after the
// checkpoint, it may lack passwords that were replaced after the checkpoint.
const secretsKept = 100 * time.Second

func (m backupCommands) takeSnapshots(ctx context.Context, c *config.Config, name string) (err error) {
	if err := snapshots.CheckName(name); err != nil {
		return &config.Error{Text: err.Error()}
	}
	if err := wantHBase(c.Origin("store"), c.Store); err != nil {
		return err
	}
	d, err := cli.Open(ctx, c, m.Logger(c), cli.ReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close(context.WithoutCancel(ctx))) }()
	s, ok := d.Tables.(*hbase.Store)
	if !ok {
		return fmt.Errorf("%s is a %T", c.Store, d.Tables)
	}
	at, err := d.Partition.DB.Checkpoint(ctx, name)
	if err != nil {
		return err
	}
	b, err := snapshots.Take(ctx, s, at, materialized.IsTable, master.Name)
	if err != nil {
		return err
	}
	if b.Late(master.Name) > secretsKept {
		fmt.Fprintln(m.Stderr, "warning: the snapshot of the entries was taken", b.Late(master.Name).Round(time.Second),
			"after the checkpoint: passwords changed meanwhile may be missing in the backup")
	}
	_, err = fmt.Fprintf(m.Stdout, "%s is the state at %s: %d tables in %s\n", b.Name, at.Revision, len(b.Tables), time.Since(b.Taken).Round(100*time.Millisecond))
	return err
}

// snapshotText is a backup by snapshots in JSON.
type snapshotText struct {
	Name     string    `json:"name"`
	Taken    time.Time `json:"taken"`
	Revision string    `json:"revision"`
	Tables   int       `json:"tables"`
	Complete bool      `json:"complete"`
}

func (s snapshotText) String() string {
	text := fmt.Sprintf("%s %s %s %d tables", s.Taken.Format(time.RFC3339), s.Revision, s.Name, s.Tables)
	if !s.Complete {
		text += " (incomplete)"
	}
	return text
}

func (m backupCommands) listSnapshots(ctx context.Context, c *config.Config, f cli.Format) error {
	return m.withHBase(ctx, c, func(s *hbase.Store) error {
		all, err := snapshots.List(ctx, s)
		var rows []snapshotText
		for _, b := range all {
			rows = append(rows, snapshotText{b.Name, b.Taken.UTC(), b.Revision.String(), len(b.Tables), b.Complete})
		}
		return errors.Join(err, cli.Print(m.Stdout, f, rows, snapshotText.String))
	})
}

func (m backupCommands) deleteSnapshots(ctx context.Context, c *config.Config, name string) error {
	return m.withHBase(ctx, c, func(s *hbase.Store) error {
		b, err := snapshots.Find(ctx, s, name)
		if err != nil {
			return err
		}
		return snapshots.Delete(ctx, s, b)
	})
}

func (m backupCommands) cloneCommand() *cobra.Command {
	var to string
	c := m.Command(&cobra.Command{
		Use:   "clone --store hbase://... --to hbase://... NAME",
		Short: "Make a new store from HBase snapshots",
		Long: `Make a new store from a backup that "ldapd backup snapshot" has taken: clone the
snapshots to tables with another prefix and remove all commits after the backup's
checkpoint. The tables share files with the snapshots. An interrupted clone can be
repeated.`,
		Example: `  ldapd backup clone --store hbase://zk1,zk2,zk3/prod --to hbase://zk1,zk2,zk3/copy nightly
  ldapd check --store hbase://zk1,zk2,zk3/copy`,
		Args: cobra.ExactArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		return m.withHBase(ctx, c, func(from *hbase.Store) error {
			target, err := m.openSnapshots(ctx, c, "--to", to)
			if err != nil {
				return err
			}
			defer target.Close()
			return m.clone(ctx, from, target, args[0])
		})
	})
	c.Flags().StringVar(&to, "to", "", "`STORE` to make, in the same HBase")
	return c
}

func (m backupCommands) clone(ctx context.Context, from, to *hbase.Store, name string) error {
	b, err := snapshots.Find(ctx, from, name)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := snapshots.Restore(ctx, from, to, b); err != nil {
		return err
	}
	return m.printCut(to, b.Revision, begun)
}

func (m backupCommands) printCut(s *hbase.Store, r table.Revision, begun time.Time) error {
	_, err := fmt.Fprintf(m.Stdout, "%s is as of %s (%s): made in %s\n", s, r.Time().UTC().Format(time.RFC3339), r,
		time.Since(begun).Round(100*time.Millisecond))
	return err
}

func (m backupCommands) cut() *cobra.Command {
	return m.Command(&cobra.Command{
		Use:   "cut --store hbase://... NAME",
		Short: "Remove all commits after a checkpoint from a copied store",
		Long: `Permanently remove all commits after a checkpoint from a store whose tables were copied,
by hand or with HBase's own tools, while servers wrote to them. "ldapd backup clone"
does this by itself. The command first waits for the time of a lease, and refuses a
store that servers write to.`,
		Example: `  ldapd backup cut --store hbase://zk1,zk2,zk3/copy nightly`,
		Args:    cobra.ExactArgs(1),
	}, append([]string{"lease"}, cli.StoreKeys...), func(ctx context.Context, c *config.Config, args []string) error {
		return m.withHBase(ctx, c, func(s *hbase.Store) error {
			begun := time.Now()
			at, err := snapshots.Cut(ctx, s, args[0], max(c.Lease, minSilence), materialized.IsTable)
			if err != nil {
				return err
			}
			return m.printCut(s, at.Revision, begun)
		})
	})
}

// minSilence is the shortest time without writes after which the command cut may cut a store.
// It is the default lease, because the command does not know the lease that the servers are
// configured with.
const minSilence = 10 * time.Second
