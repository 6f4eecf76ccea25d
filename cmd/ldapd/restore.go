package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

func restoreCommand(m *cli.Main) *cobra.Command {
	var a restoreArgs
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "restore --store STORE --at WHEN [--subtree] [--dry-run] [--secrets-from ARCHIVE] DN",
		Short: "Bring an entry or a subtree back as it was",
		Long: `Bring an entry back as it was at a moment, in one commit: it is added again if it was
deleted, with its entryUUID, and moved back if it was moved. With --subtree, all entries
that were below it are restored too, and entries that have been added there since are
removed. With --dry-run, the command writes the changes as LDIF, or says why they cannot
be made, and makes none.

The entry above it must exist. Entries that still exist keep their passwords. Entries
that are added again get the last password that they had, and the values that named them
(groups, managers) name them again if the attribute's values follow renames (see "ldapd
references"). The passwords of deleted entries are kept as long as history is. For older
ones, --secrets-from names an archive, which has the passwords of the moment --at.`,
		Example: `  ldapd restore --store ./data --at 2026-01-31T12:00:00Z uid=ann,ou=people,dc=example,dc=com
  ldapd restore --store ./data --at before-upgrade --subtree --dry-run ou=people,dc=example,dc=com`,
		Args: cobra.ExactArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a.DN = args[0]
		if a.Identity == "" {
			a.Identity = c.Archive.Identity
		}
		around := m.Around()
		around.Open = os.Open
		return restoreJob.Run(ctx, m, c, cli.ReadWrite, around, a)
	}))
	c.Flags().StringVar(&a.At, "at", "", "the state at `WHEN`: "+cli.PointInTimeHelp)
	c.Flags().BoolVar(&a.Subtree, "subtree", false, "include all entries that are or were below it")
	c.Flags().BoolVar(&a.DryRun, "dry-run", false, "write what would be done as LDIF, and do nothing")
	c.Flags().StringVar(&a.SecretsFrom, "secrets-from", "", "take passwords that the store no longer has from the archive at `PLACE`")
	c.Flags().StringVar(&a.Identity, "identity", "", "`FILE` with the identity that reads a sealed archive, instead of archive.identity")
	_ = c.MarkFlagRequired("at")
	return c
}

type restoreArgs struct {
	DN, At                string
	Subtree, DryRun       bool
	SecretsFrom, Identity string
}

var restoreJob = cli.NewJob("restore", restore)

func restore(ctx context.Context, w *cli.Work, a restoreArgs) error {
	then, err := cli.StateAt(ctx, w, "--at", a.At)
	if err != nil {
		return err
	}
	defer then.Close()
	name, err := cli.NameIn(ctx, then, "the name", a.DN)
	if err != nil {
		return err
	}
	var done *history.Restored
	err = withSecrets(ctx, w, a, then.Revision(), func(secrets secretsOf) error {
		done, err = history.Restore(ctx, w.Partition, then, history.RestoreOptions{
			Name: name, Subtree: a.Subtree, DryRun: a.DryRun, By: w.By("restore"), Secrets: secrets,
		})
		return err
	})
	switch {
	case err != nil:
		return err
	case a.DryRun:
		return errors.Join(history.WriteLDIF(w.Stdout, done.Records), printLost(w.Stdout, done, "# "))
	}
	return printRestored(w.Stdout, done)
}

// secretsOf returns the secret attributes of an entry.
type secretsOf = func(ctx context.Context, id entry.ID) ([]entry.Attribute, error)

// withSecrets calls f with the secrets that the archive of a.SecretsFrom has at a revision, or with
// nil if no archive is given.
func withSecrets(ctx context.Context, w *cli.Work, a restoreArgs, at table.Revision, f func(secretsOf) error) error {
	if a.SecretsFrom == "" {
		return f(nil)
	}
	place, err := archive.OpenPlace(a.SecretsFrom)
	if err != nil {
		return &config.Error{Where: "--secrets-from", Text: err.Error()}
	}
	keys, err := cli.ReadKeys(a.Identity, w.Open)
	if err != nil {
		return err
	}
	return cli.RestoredElsewhere(ctx, w.Archives, place, keys, "", at, func(d *cli.Store, _ *archive.Restored) error {
		s := state.Newest(d.Partition)
		defer s.Close()
		return f(s.Secrets)
	})
}

// printRestored prints what was restored and what could not be restored.
func printRestored(w io.Writer, done *history.Restored) error {
	var b strings.Builder
	for _, r := range done.Records {
		fmt.Fprintln(&b, r)
	}
	switch {
	case len(done.Records) == 0:
		fmt.Fprintln(&b, "nothing to restore: it is as it was")
	default:
		fmt.Fprintf(&b, "restored in one commit, %s: %d changes\n", done.Revision, len(done.Records))
	}
	_, err := io.WriteString(w, b.String())
	return errors.Join(err, printLost(w, done, ""))
}

// printLost prints what comes back with the entries and what does not. Each line begins with the
// given text.
func printLost(w io.Writer, done *history.Restored, begin string) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, begin+format+"\n", args...) }
	if done.Kept > 0 {
		line("entries that come back with a password: %d", done.Kept)
	}
	if len(done.Lost) > 0 {
		line("entries that come back without a password, as they had none or it is no longer kept: %d", len(done.Lost))
		for _, name := range done.Lost {
			line("  %q", name)
		}
	}
	for _, text := range done.Unnamed {
		line("%s", text)
	}
	if done.Erased > 0 {
		line("entries that cannot come back, since they were erased: %d", done.Erased)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
