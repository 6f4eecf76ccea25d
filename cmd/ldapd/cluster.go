package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

func clusterCommand(m *cli.Main) *cobra.Command {
	var a clusterArgs
	c := m.Command(&cobra.Command{
		Use:   "cluster --store STORE [--json]",
		Short: "Show the servers of a store and the state of each",
		Long: `Show what the servers of a store publish about themselves. A line is printed for each
slot: its state, its owner, the newest revision that it shows to all servers (the head)
and how old this revision is, undecided and abandoned commits, the oldest state in use,
the configuration in force, and a note where an operator should act. With --json, an
object is printed.

The head of an idle server advances whenever the server renews its lease.`,
		Args: cobra.NoArgs,
	}, append([]string{"lease"}, cli.StoreKeys...), func(ctx context.Context, c *config.Config, _ []string) error {
		return clusterJob.Run(ctx, m, c, cli.ReadOnly, m.Around(), a)
	})
	c.Flags().BoolVar(&a.JSON, "json", false, "print JSON")
	return c
}

// clusterArgs are the arguments of the command besides the configuration.
type clusterArgs struct {
	JSON bool
}

var clusterJob = cli.NewJob("cluster", cluster)

func cluster(ctx context.Context, w *cli.Work, a clusterArgs) error {
	c, err := w.Partition.DB.ReadCluster(ctx, time.Now())
	if err != nil {
		return err
	}
	if a.JSON {
		return json.NewEncoder(w.Stdout).Encode(c)
	}
	return c.Print(w.Stdout)
}
