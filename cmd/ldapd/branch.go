package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition/history"
)

// branchCommands are the commands "ldapd branch ...".
type branchCommands struct{ *cli.Main }

func (m branchCommands) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "branch",
		Short: "Work with branches: changes that nobody sees until they are merged",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(
		m.create(), m.list(), m.show(), m.diff(),
		m.check(), m.merge(), m.rebase(), m.park(), m.discard(),
	)
	return c
}

// branchArgs are the arguments of the commands besides the configuration.
type branchArgs struct {
	Do          string // name of the command
	Name        string
	Description string
	Format      cli.Format
	Keep        history.Side
}

// act completes a command for the branch that its argument names.
func (m branchCommands) act(c *cobra.Command, use cli.Mode, a *branchArgs) *cobra.Command {
	if c.Args == nil {
		c.Args = cobra.ExactArgs(1)
	}
	c = m.Command(c, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		if len(args) > 0 {
			a.Name = args[0]
		}
		return branchJob.Run(ctx, m.Main, c, use, m.Around(), *a)
	})
	if use == cli.ReadWrite {
		return cli.Accepts(c)
	}
	return c
}

func (m branchCommands) create() *cobra.Command {
	a := &branchArgs{Do: "create"}
	c := m.act(&cobra.Command{
		Use:   "create --store STORE [--description TEXT] NAME",
		Short: "Make a branch from the present state",
		Long: `Make a branch from the present state. Changes in the branch are seen nowhere else until
they are merged, and later changes of the directory are not seen in the branch. LDAP
clients work in it after a bind as NAME,cn=BRANCH,cn=branches, and import and export
work in it with --branch.`,
		Example: `  ldapd branch create --store ./data --description 'new departments' staging`,
	}, cli.ReadWrite, a)
	c.Flags().StringVar(&a.Description, "description", "", "`TEXT` that says what the branch is for")
	return c
}

func (m branchCommands) list() *cobra.Command {
	a := &branchArgs{Do: "list"}
	c := m.act(&cobra.Command{
		Use:     "list --store STORE [--json | --csv]",
		Short:   "List the branches",
		Example: `  ldapd branch list --store ./data`,
		Args:    cobra.NoArgs,
	}, cli.ReadOnly, a)
	return a.Format.AddTo(c)
}

func (m branchCommands) show() *cobra.Command {
	a := &branchArgs{Do: "show"}
	c := m.act(&cobra.Command{
		Use:     "show --store STORE [--json | --csv] NAME",
		Short:   "Describe a branch",
		Example: `  ldapd branch show --store ./data staging`,
	}, cli.ReadOnly, a)
	return a.Format.AddTo(c)
}

func (m branchCommands) diff() *cobra.Command {
	return m.act(&cobra.Command{
		Use:   "diff --store STORE NAME",
		Short: "Write the changes of a branch as LDIF",
		Long: `Write the changes of a branch since the state at which it began as LDIF, in an order in
which ldapmodify can make them. Passwords are left out.`,
		Example: `  ldapd branch diff --store ./data staging > what.ldif`,
	}, cli.ReadOnly, &branchArgs{Do: "diff"})
}

func (m branchCommands) check() *cobra.Command {
	a := &branchArgs{Do: "check"}
	c := m.act(&cobra.Command{
		Use:   "check --store STORE [--json | --csv] NAME",
		Short: "Print what keeps a branch from being merged",
		Long: `Print what keeps a branch from being merged: entries that others have changed since the
branch began, in conflict with the changes in the branch. Nothing is changed. The exit
status is 1 if there is a conflict.`,
		Example: `  ldapd branch check --store ./data staging`,
	}, cli.ReadWrite, a) // only a store that is open for changes can find conflicts
	return a.Format.AddTo(c)
}

func (m branchCommands) merge() *cobra.Command {
	return m.act(&cobra.Command{
		Use:   "merge --store STORE NAME",
		Short: "Make the changes of a branch visible, by one commit",
		Long: `Make all changes of a branch visible by one commit, and end the branch. If there are
conflicts, nothing happens; 'ldapd branch check' prints them.`,
		Example: `  ldapd branch merge --store ./data staging`,
	}, cli.ReadWrite, &branchArgs{Do: "merge"})
}

func (m branchCommands) rebase() *cobra.Command {
	a := &branchArgs{Do: "rebase"}
	var ours, theirs bool
	c := m.act(&cobra.Command{
		Use:   "rebase --store STORE [--ours | --theirs] NAME",
		Short: "Apply the changes of a branch to the present state",
		Long: `Apply the changes of a branch to a new branch from the present state, which then takes
the name of the old one. If entries are in conflict, they are printed and the branch
stays as it is, unless --ours or --theirs says whose changes of these entries are kept.
If a rebase is interrupted, run the same command again.`,
		Example: `  ldapd branch rebase --store ./data --theirs staging`,
	}, cli.ReadWrite, a)
	c.Flags().BoolVar(&ours, "ours", false, "in a conflict, keep what the branch did")
	c.Flags().BoolVar(&theirs, "theirs", false, "in a conflict, keep what others did")
	c.MarkFlagsMutuallyExclusive("ours", "theirs")
	c.PreRun = func(*cobra.Command, []string) {
		switch {
		case ours:
			a.Keep = history.Ours
		case theirs:
			a.Keep = history.Theirs
		}
	}
	return c
}

func (m branchCommands) park() *cobra.Command {
	return m.act(&cobra.Command{
		Use:   "park --store STORE NAME",
		Short: "Keep a branch, but not the past since it began",
		Long: `Park a branch: the past since it began is not kept for it any more. A parked branch can
be read, rebased and discarded, but it takes no changes and cannot be merged as it is.
Servers park branches that are older than branches.age.`,
		Example: `  ldapd branch park --store ./data staging`,
	}, cli.ReadWrite, &branchArgs{Do: "park"})
}

func (m branchCommands) discard() *cobra.Command {
	return m.act(&cobra.Command{
		Use:     "discard --store STORE NAME",
		Short:   "End a branch and discard its changes",
		Example: `  ldapd branch discard --store ./data staging`,
	}, cli.ReadWrite, &branchArgs{Do: "discard"})
}
