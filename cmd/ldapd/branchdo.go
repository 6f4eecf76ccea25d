package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
		return listBranches(ctx, w, a.JSON)
	case "rebase":
		return rebaseBranch(ctx, w, a)
	}
	b, err := branch.Find(w.Partition, a.Name)
	if err != nil {
		return err
	}
	switch a.Do {
	case "show":
		return showBranch(ctx, w, b, a.JSON)
	case "diff":
		_, err := history.DiffBranch(ctx, b, w.Stdout)
		return err
	case "check":
		all, err := b.Conflicts(ctx)
		if err != nil {
			return err
		}
		return printConflicts(w.Stdout, b.Name(), all, a.JSON)
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
		return printConflicts(w.Stdout, refused.Branch, refused.Conflicts, false)
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

func listBranches(ctx context.Context, w *cli.Work, asJSON bool) error {
	for _, b := range branch.All(w.Partition) {
		t, err := describeBranch(ctx, b)
		if partition.Is(err, partition.NoSuchEntry) {
			continue // the branch has ended since it was listed
		}
		if err != nil {
			return err
		}
		if asJSON {
			err = json.NewEncoder(w.Stdout).Encode(t)
		} else {
			_, err = fmt.Fprintf(w.Stdout, "%s: %s, %d entries in %d commits since %s\n", t.Name, t.State, t.Entries, t.Commits, t.Made.Format(time.RFC3339))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func showBranch(ctx context.Context, w *cli.Work, b *branch.Branch, asJSON bool) error {
	t, err := describeBranch(ctx, b)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(w.Stdout).Encode(t)
	}
	for _, line := range [][2]string{
		{"name", t.Name}, {"description", t.Description}, {"state", t.State}, {"made", t.Made.Format(time.RFC3339)}, {"by", t.By},
		{"base", t.Base}, {"commits", fmt.Sprint(t.Commits)}, {"entries", fmt.Sprint(t.Entries)},
	} {
		if line[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w.Stdout, "%s: %s\n", line[0], line[1]); err != nil {
			return err
		}
	}
	return nil
}

// printConflicts prints conflicts, and returns an error if there are any.
func printConflicts(w io.Writer, branch string, all []branch.Conflict, asJSON bool) error {
	for i := range all {
		if err := printConflict(w, &all[i], asJSON); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("the branch %s cannot be merged: %d conflicts", branch, len(all))
}

func printConflict(w io.Writer, c *branch.Conflict, asJSON bool) error {
	if asJSON {
		out := struct {
			DN        string   `json:"dn,omitempty"`
			EntryUUID string   `json:"entryUUID,omitempty"`
			Texts     []string `json:"conflicts"`
			Since     string   `json:"since,omitempty"`
			By        string   `json:"by,omitempty"`
		}{DN: c.Name, Texts: c.Texts(), By: c.By.Name}
		if c.With != 0 {
			out.Since = c.With.String()
		}
		if c.ID != entry.Root {
			out.EntryUUID = c.ID.String()
		}
		return json.NewEncoder(w).Encode(out)
	}
	for _, text := range c.Texts() {
		if c.Name != "" {
			text = c.Name + ": " + text
		}
		if c.With != 0 {
			text += " since " + c.With.String()
		}
		if c.By.Name != "" {
			text += " by " + c.By.Name
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
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
