package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

func checkpointCommand(m *cli.Main) *cobra.Command {
	var a checkpointArgs
	var list bool
	c := a.Format.AddTo(cli.Accepts(m.Command(&cobra.Command{
		Use:   "checkpoint --store STORE [--list | [--delete] NAME]",
		Short: "Keep the present state beyond retention",
		Long: `Give the present state a name, and keep this state until the checkpoint is deleted: it
can be read, compared and restored, however old it is. The name can be given wherever a
moment can be given. It is a letter followed by up to 63 letters, digits, '.', '_' and
'-'.`,
		Example: `  ldapd checkpoint --store ./data before-upgrade
  ldapd checkpoint --store ./data --list
  ldapd checkpoint --store ./data --delete before-upgrade`,
		Args: func(c *cobra.Command, args []string) error {
			if list || len(args) == 0 && !a.Delete {
				return cobra.NoArgs(c, args)
			}
			return cobra.ExactArgs(1)(c, args)
		},
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		use := cli.ReadWrite
		if a.Name = strings.Join(args, ""); a.Name == "" {
			use = cli.ReadOnly
		}
		return checkpointJob.Run(ctx, m, c, use, m.Around(), a)
	})))
	c.Flags().BoolVar(&list, "list", false, "list the checkpoints, as the command does without a name")
	c.Flags().BoolVar(&a.Delete, "delete", false, "delete the checkpoint, so that its state is no longer kept")
	c.MarkFlagsMutuallyExclusive("list", "delete")
	return c
}

type checkpointArgs struct {
	Name   string // "": list all
	Delete bool
	Format cli.Format
}

var checkpointJob = cli.NewJob("checkpoint", checkpoint).Offered("[--delete] NAME",
	func(f *pflag.FlagSet, a *checkpointArgs) { f.BoolVar(&a.Delete, "delete", false, "") },
	func(_ *config.Config, a *checkpointArgs, words []string) error {
		if len(words) != 1 {
			return errors.New("it needs one name")
		}
		a.Name = words[0]
		return nil
	})

func checkpoint(ctx context.Context, w *cli.Work, a checkpointArgs) error {
	switch {
	case a.Name == "":
		return listCheckpoints(ctx, w, a.Format)
	case a.Delete:
		return w.Partition.DB.DeleteCheckpoint(ctx, a.Name)
	}
	c, err := w.Partition.DB.Checkpoint(ctx, a.Name)
	if err == nil {
		_, err = fmt.Fprintf(w.Stdout, "%s is the state at %s\n", c.Name, c.Revision)
	}
	return err
}

// checkpointText is a checkpoint in JSON.
type checkpointText struct {
	Name     string    `json:"name"`
	Made     time.Time `json:"made"`
	Revision string    `json:"revision"`
}

func listCheckpoints(ctx context.Context, w *cli.Work, f cli.Format) error {
	all, err := w.Partition.DB.Checkpoints(ctx)
	if err != nil {
		return err
	}
	var rows []checkpointText
	for _, c := range all {
		rows = append(rows, checkpointText{c.Name, c.Made.UTC(), c.Revision.String()})
	}
	return cli.Print(w.Stdout, f, rows, func(c checkpointText) string {
		return c.Made.Format(time.RFC3339) + " " + c.Revision + " " + c.Name
	})
}
