package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

// explainArgs are the arguments of the command besides the configuration.
type explainArgs struct {
	Base, Scope, Filter string
	Run                 bool
	Format              cli.Format
}

var explainJob = cli.NewJob("explain", explain)

func explainCommand(m *cli.Main) *cobra.Command {
	var a explainArgs
	c := a.Format.AddTo(m.Command(&cobra.Command{
		Use:     "explain --store STORE [--base DN] [--scope SCOPE] [--run] FILTER",
		Short:   "Show how a search would be run",
		Example: `  ldapd explain --store ./data --base dc=example,dc=com '(&(objectClass=person)(uid=jdoe))'`,
		Args:    cobra.ExactArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a.Filter = args[0]
		if _, _, _, err := a.parse(); err != nil {
			return err
		}
		return explainJob.Run(ctx, m, c, cli.ReadOnly, m.Around(), a)
	}))
	c.Flags().StringVar(&a.Base, "base", "", "`DN` to search from")
	c.Flags().StringVar(&a.Scope, "scope", "sub", cli.ScopeHelp)
	c.Flags().BoolVar(&a.Run, "run", false, "run the search too, and say what it did")
	return c
}

func (a *explainArgs) parse() (base dn.DN, scope op.Scope, f filter.Filter, err error) {
	if scope, err = cli.ParseScope(a.Scope); err != nil {
		return base, scope, f, err
	}
	if base, err = dn.Parse(a.Base); err != nil {
		return base, scope, f, &config.Error{Where: "--base", Text: err.Error()}
	}
	if f, err = filter.Parse(a.Filter); err != nil {
		return base, scope, f, &config.Error{Where: "FILTER", Text: err.Error()}
	}
	return base, scope, f, nil
}

func explain(ctx context.Context, w *cli.Work, a explainArgs) error {
	base, scope, f, err := a.parse()
	if err != nil {
		return err
	}
	s := state.Newest(w.Partition)
	defer s.Close()
	at, err := s.Find(ctx, base)
	if err != nil {
		return err
	}
	for leaf := range filter.Leaves(f) {
		if t, rule := filter.Unmatchable(leaf, s.Schema()); t != nil {
			fmt.Fprintf(w.Stderr, "note: (%s...) can match nothing: the definition of %s names no %s rule; 'ldapd schema add --derive-rules' can add it\n", t.Name(), t.Name(), rule)
		}
	}
	q := partition.Query{Base: at.ID, Scope: scope, Filter: filter.Resolve(f, s.Schema())}
	if err := search.Learn(ctx, s, q); err != nil {
		return err
	}
	plan, err := search.Explain(ctx, s, q, a.Run)
	if err != nil {
		return err
	}
	type row struct {
		Filter string `json:"filter"`
		Base   string `json:"base"`
		Scope  string `json:"scope"`
		Plan   string `json:"plan"`
	}
	return cli.Print(w.Stdout, a.Format, []row{{f.String(), base.String(), a.Scope, plan}}, func(r row) string { return r.Plan })
}
