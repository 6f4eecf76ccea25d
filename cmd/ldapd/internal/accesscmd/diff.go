package accesscmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

func (m commands) diff() *cobra.Command {
	var format cli.Format
	return format.AddTo(m.Command(&cobra.Command{
		Use:   "diff --store STORE [--json | --csv] [A] B",
		Short: "Show who gains and loses which rights under other rules",
		Long: `Show who gains (+) and loses (-) which rights, and on which entries, if the rules B
replace the rules A. Both A and B are either a file of rules ("-" means standard input),
or a moment, which stands for the rules that were in force then: now, ` + cli.PointInTimeHelp + `. The default of A is now.

The command compares what the rules mean, not how they are written: rules that say the
same in other words make no difference.`,
		Example: `  ldapd access diff --store ./data rules
  ldapd access diff --store ./data 2026-01-31T12:00:00Z now`,
		Args: cobra.RangeArgs(1, 2),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a := diffArgs{Rules: [2]ruleSource{{When: "now"}}, Format: format}
		for i, text := range args {
			source, err := m.ruleSource(text)
			if err != nil {
				return err
			}
			a.Rules[i+2-len(args)] = source
		}
		return diffJob.Run(ctx, m.Main, c, cli.ReadOnly, m.Around(), a)
	}))
}

// A ruleSource says where rules come from: the text of a file, or a point in time.
type ruleSource struct {
	Text *string
	When string
}

// ruleSource returns the text of the file with the given name. If there is no such
// file, ruleSource returns name as a point in time.
func (m commands) ruleSource(name string) (ruleSource, error) {
	text, err := m.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ruleSource{When: name}, nil
	}
	if err != nil {
		return ruleSource{}, err
	}
	s := string(text)
	if _, err := acl.ReadFile(strings.NewReader(s)); err != nil {
		return ruleSource{}, &config.Error{Where: name, Text: err.Error()}
	}
	return ruleSource{Text: &s}, nil
}

type diffArgs struct {
	Rules  [2]ruleSource
	Format cli.Format
}

var diffJob = cli.NewJob("access diff", diffAccess)

func diffAccess(ctx context.Context, w *cli.Work, a diffArgs) error {
	s := state.Newest(w.Partition)
	defer s.Close()
	var rules [2][]acl.Placed
	for i, source := range a.Rules {
		var err error
		if rules[i], err = source.rules(ctx, w); err != nil {
			return err
		}
	}
	found, err := access.Diff(s, rules[0], rules[1])
	if err != nil {
		return err
	}
	if a.Format == cli.Text {
		return cli.Print(w.Stdout, a.Format, found, acl.Difference.String)
	}
	type row struct {
		Gained bool     `json:"gained"`
		Rights []string `json:"rights"`
		Where  []string `json:"where"`
	}
	var rows []row
	for _, d := range found {
		rows = append(rows, row(d))
	}
	return cli.Print(w.Stdout, a.Format, rows, nil)
}

func (r *ruleSource) rules(ctx context.Context, w *cli.Work) ([]acl.Placed, error) {
	if r.Text != nil {
		return acl.ReadFile(strings.NewReader(*r.Text))
	}
	s, err := cli.StateAt(ctx, w, r.When, r.When)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return placedAt(ctx, s)
}

func placedAt(ctx context.Context, s *partition.Snapshot) ([]acl.Placed, error) {
	rules, err := access.PlacedAt(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("the access rules of revision %s: %w", s.Revision(), err)
	}
	return rules, nil
}
