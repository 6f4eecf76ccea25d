package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

var branchJob = cli.NewJob("branch", doBranch)

// doBranch does the work of the branch commands.
func doBranch(ctx context.Context, w *cli.Work, a branchArgs) error {
	switch a.Do {
	case "create":
		_, err := branch.Create(ctx, w.Partition, branch.Options{Name: a.Name, Description: a.Description, By: w.By("")})
		return err
	case "list":
		return listBranches(ctx, w, a.Format)
	case "rebase":
		return rebaseBranch(ctx, w, a)
	}
	b, err := branch.Find(w.Partition, a.Name)
	if err != nil {
		return err
	}
	switch a.Do {
	case "show":
		return showBranch(ctx, w, b, a.Format)
	case "diff":
		_, err := history.DiffBranch(ctx, b, w.Stdout)
		return err
	case "check":
		all, err := b.Conflicts(ctx)
		if err != nil {
			return err
		}
		return printConflicts(w.Stdout, b.Name(), all, a.Format)
	case "merge":
		r, err := b.Merge(ctx, w.By(""))
		if err == nil {
			fmt.Fprintf(w.Stdout, "%s is merged by %s\n", b.Name(), r)
		}
		return explainConflicts(w, err)
	case "park":
		return b.Park(ctx)
	case "discard":
		return b.Discard(ctx)
	}
	return fmt.Errorf("this version of the server does not do %q with branches", a.Do)
}

// explainConflicts prints the conflicts if err is a ConflictError, and returns a shorter
// error in place of err.
func explainConflicts(w *cli.Work, err error) error {
	var refused *branch.ConflictError
	if errors.As(err, &refused) {
		return printConflicts(w.Stdout, refused.Branch, refused.Conflicts, cli.Text)
	}
	return err
}

// A branchText is what list and show print of a branch.
type branchText struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	State       string    `json:"state"`
	Base        string    `json:"base"`
	Made        time.Time `json:"made"`
	By          string    `json:"by,omitempty"`
	Commits     int       `json:"commits"`
	Entries     int       `json:"entries"`
}

func describeBranch(ctx context.Context, b *branch.Branch) (*branchText, error) {
	i, err := b.Info(ctx)
	if err != nil {
		return nil, err
	}
	n, err := b.Changed(ctx, i)
	if err != nil {
		return nil, err
	}
	t := &branchText{i.Name, i.Description, i.State(), i.Base.String(), i.Made.UTC(), i.By.Name, i.Commits, n}
	return t, nil
}

func listBranches(ctx context.Context, w *cli.Work, f cli.Format) error {
	var rows []*branchText
	for _, b := range branch.All(w.Partition) {
		t, err := describeBranch(ctx, b)
		if partition.Is(err, partition.NoSuchEntry) {
			continue // the branch has ended since it was listed
		}
		if err != nil {
			return err
		}
		rows = append(rows, t)
	}
	return cli.Print(w.Stdout, f, rows, func(t *branchText) string {
		return fmt.Sprintf("%s: %s, %d entries in %d commits since %s", t.Name, t.State, t.Entries, t.Commits, t.Made.Format(time.RFC3339))
	})
}

func showBranch(ctx context.Context, w *cli.Work, b *branch.Branch, f cli.Format) error {
	t, err := describeBranch(ctx, b)
	if err != nil {
		return err
	}
	return cli.Print(w.Stdout, f, []*branchText{t}, (*branchText).lines)
}

// lines returns what show prints of a branch as text.
func (t *branchText) lines() string {
	var said []string
	for _, line := range [][2]string{
		{"name", t.Name}, {"description", t.Description}, {"state", t.State}, {"made", t.Made.Format(time.RFC3339)}, {"by", t.By},
		{"base", t.Base}, {"commits", fmt.Sprint(t.Commits)}, {"entries", fmt.Sprint(t.Entries)},
	} {
		if line[1] != "" {
			said = append(said, line[0]+": "+line[1])
		}
	}
	return strings.Join(said, "\n")
}

// printConflicts prints conflicts, and returns an error if there are any.
func printConflicts(w io.Writer, branch string, all []branch.Conflict, f cli.Format) error {
	rows := make([]conflictText, len(all))
	for i := range all {
		c := &all[i]
		rows[i] = conflictText{DN: c.Name, Texts: c.Texts(), By: c.By.Name}
		if c.With != 0 {
			rows[i].Since = c.With.String()
		}
		if c.ID != entry.Root {
			rows[i].EntryUUID = c.ID.String()
		}
	}
	if err := cli.Print(w, f, rows, conflictText.lines); err != nil || len(all) == 0 {
		return err
	}
	return fmt.Errorf("the branch %s cannot be merged: %d conflicts", branch, len(all))
}

// conflictText is a conflict in JSON.
type conflictText struct {
	DN        string   `json:"dn,omitempty"`
	EntryUUID string   `json:"entryUUID,omitempty"`
	Texts     []string `json:"conflicts"`
	Since     string   `json:"since,omitempty"`
	By        string   `json:"by,omitempty"`
}

// lines returns the conflict as text, a line for each of its texts.
func (c conflictText) lines() string {
	var said []string
	for _, text := range c.Texts {
		if c.DN != "" {
			text = c.DN + ": " + text
		}
		if c.Since != "" {
			text += " since " + c.Since
		}
		if c.By != "" {
			text += " by " + c.By
		}
		said = append(said, text)
	}
	return strings.Join(said, "\n")
}

func rebaseBranch(ctx context.Context, w *cli.Work, a branchArgs) error {
	done, err := history.Rebase(ctx, w.Partition, a.Name, history.RebaseOptions{Keep: a.Keep, By: w.By("")})
	if err != nil {
		return explainConflicts(w, err)
	}
	for _, d := range done.Dropped {
		if _, err := fmt.Fprintln(w.Stdout, "left out:", d); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w.Stdout, "%s has %d changes above the present state\n", a.Name, done.Changes)
	return err
}
