package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/history"
	"github.com/seed-4dac0d86/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/revision"
)

// The commands about the past: log, diff and restore. Package history does their
// work.

func (m *Main) logCommand() *cobra.Command {
	var a logArgs
	c := m.command(&cobra.Command{
		Use:   "log --store STORE [--since WHEN] [--until WHEN] [--by DN] [--json] [DN]",
		Short: "Tell who changed what and when",
		Long: `Tell who changed what and when, a line a change, the oldest first: of all entries or
of one, under whatever names it had. With --json an object a line, with the changes
as LDIF. Passwords are named, never shown. What retention let go is not told.`,
		Example: `  ldapd log --store ./data uid=ann,ou=people,dc=example,dc=com
  ldapd log --store ./data --since 2026-01-31T12:00:00Z --by cn=admin,dc=example,dc=com`,
		Args: cobra.MaximumNArgs(1),
	}, storeKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a.DN = strings.Join(args, "")
		return logJob.on(ctx, m, c, reading, m.around(), a)
	})
	c.Flags().StringVar(&a.Since, "since", "", "tell of what came after `WHEN`: "+moments)
	c.Flags().StringVar(&a.Until, "until", "now", "tell of what came up to `WHEN`")
	c.Flags().StringVar(&a.By, "by", "", "tell of the changes that `DN` made")
	c.Flags().BoolVar(&a.JSON, "json", false, "print changes as JSON")
	return c
}

type logArgs struct {
	DN, Since, Until, By string
	JSON                 bool
}

var logJob = job[logArgs]{"log", tellLog}

func tellLog(ctx context.Context, w *work, a logArgs) error {
	o := history.LogOptions{JSON: a.JSON}
	var err error
	if o.Name, err = parseName("the name", a.DN); err != nil {
		return err
	}
	if o.By, err = parseName("--by", a.By); err != nil {
		return err
	}
	if o.Until, err = stateAt(ctx, w, "--until", a.Until); err != nil {
		return err
	}
	defer o.Until.Close()
	since := w.Horizon()
	if a.Since == "" {
		a.Since = revision.String(since)
	}
	if a.Since != revision.String(0) { // else all is kept
		s, err := stateAt(ctx, w, "--since", a.Since)
		if err != nil {
			return err
		}
		defer s.Close() // what comes after it is kept until the end
		o.Since = s.Revision()
	}
	_, err = history.Log(ctx, w.Partition, w.Stdout, o)
	return err
}

// parseName reads a name that a user gave.
func parseName(where, text string) (dn.DN, error) {
	name, err := dn.Parse(text)
	if err != nil {
		return nil, &config.Error{Where: where, Text: err.Error()}
	}
	return name, nil
}

// stateAt gives the state of a moment that a user named.
func stateAt(ctx context.Context, w *work, flag, when string) (*partition.Snapshot, error) {
	m, err := partition.ParseMoment(when)
	if err != nil {
		return nil, &config.Error{Where: flag, Text: err.Error()}
	}
	return history.State(ctx, w.Partition, m)
}

func (m *Main) diffCommand() *cobra.Command {
	var a diffArgs
	c := m.command(&cobra.Command{
		Use:   "diff --store STORE --from WHEN [--to WHEN] [--base DN]",
		Short: "Write what changed between two moments as LDIF",
		Long: `Write the changes that lead from one state of a directory to another as LDIF, in an
order in which ldapmodify can make them. What the server itself keeps of entries is
not in it, and neither are passwords. With --to before --from, it leads back.`,
		Example: `  ldapd diff --store ./data --from before-upgrade
  ldapd diff --store ./data --from now --to 2026-01-31T12:00:00Z --base ou=people,dc=example,dc=com`,
		Args: cobra.NoArgs,
	}, storeKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		return diffJob.on(ctx, m, c, reading, m.around(), a)
	})
	c.Flags().StringVar(&a.From, "from", "", "the state at `WHEN`: "+moments)
	c.Flags().StringVar(&a.To, "to", "now", "the state at `WHEN`")
	c.Flags().StringVar(&a.Base, "base", "", "leave out what is not below `DN` in either state")
	_ = c.MarkFlagRequired("from")
	return c
}

type diffArgs struct{ From, To, Base string }

var diffJob = job[diffArgs]{"diff", diff}

func diff(ctx context.Context, w *work, a diffArgs) error {
	base, err := parseName("--base", a.Base)
	if err != nil {
		return err
	}
	from, err := stateAt(ctx, w, "--from", a.From)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := stateAt(ctx, w, "--to", a.To)
	if err != nil {
		return err
	}
	defer to.Close()
	_, err = history.Diff(ctx, from, to, base, w.Stdout)
	return err
}

func (m *Main) restoreCommand() *cobra.Command {
	var a restoreArgs
	c := m.command(&cobra.Command{
		Use:   "restore --store STORE --at WHEN [--subtree] [--dry-run] DN",
		Short: "Make an entry, or a tree, what it was",
		Long: `Make an entry what it was at a moment, in one commit: it comes back if it was deleted,
with its entryUUID, and moves back if it was moved. With --subtree also all that was
below it; what came there since is removed. --dry-run writes the changes as LDIF
and makes none.

The entry above must exist. Passwords have no history: entries that are still there
keep theirs, and those that come back have one only while it is kept.`,
		Example: `  ldapd restore --store ./data --at 2026-01-31T12:00:00Z uid=ann,ou=people,dc=example,dc=com
  ldapd restore --store ./data --at before-upgrade --subtree --dry-run ou=people,dc=example,dc=com`,
		Args: cobra.ExactArgs(1),
	}, storeKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a.DN = args[0]
		return restoreJob.on(ctx, m, c, changing, m.around(), a)
	})
	c.Flags().StringVar(&a.At, "at", "", "the state at `WHEN`: "+moments)
	c.Flags().BoolVar(&a.Subtree, "subtree", false, "with all that is or was below it")
	c.Flags().BoolVar(&a.DryRun, "dry-run", false, "write what would be done as LDIF, and do nothing")
	_ = c.MarkFlagRequired("at")
	return c
}

type restoreArgs struct {
	DN, At          string
	Subtree, DryRun bool
}

var restoreJob = job[restoreArgs]{"restore", restore}

func restore(ctx context.Context, w *work, a restoreArgs) error {
	name, err := parseName("the name", a.DN)
	if err != nil {
		return err
	}
	then, err := stateAt(ctx, w, "--at", a.At)
	if err != nil {
		return err
	}
	defer then.Close()
	done, err := history.Restore(ctx, w.Partition, then, history.RestoreOptions{
		Name: name, Subtree: a.Subtree, DryRun: a.DryRun, By: w.by("restore"),
	})
	switch {
	case err != nil:
		return err
	case a.DryRun:
		return history.WriteLDIF(w.Stdout, done.Records)
	}
	return tellRestored(w.Stdout, done)
}

// tellRestored says what was done, and what could not be.
func tellRestored(w io.Writer, done *history.Restored) error {
	var b strings.Builder
	for _, r := range done.Records {
		fmt.Fprintln(&b, r)
	}
	switch {
	case len(done.Records) == 0:
		fmt.Fprintln(&b, "nothing to restore: it is as it was")
	default:
		fmt.Fprintf(&b, "restored in one commit, %s: %d changes\n", revision.String(done.Revision), len(done.Records))
	}
	if done.Kept > 0 {
		fmt.Fprintf(&b, "entries that came back with a password: %d\n", done.Kept)
	}
	if done.Lost > 0 {
		fmt.Fprintf(&b, "entries that came back without a password, as they had none or it is no longer kept: %d\n", done.Lost)
	}
	if done.Erased > 0 {
		fmt.Fprintf(&b, "entries that cannot come back, since they were erased: %d\n", done.Erased)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
