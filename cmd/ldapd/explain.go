package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// explainFlags are what the command has besides the configuration.
type explainFlags struct {
	base, scope string
	run         bool
}

func (m *Main) explainCommand() *cobra.Command {
	var f explainFlags
	c := m.command(&cobra.Command{
		Use:     "explain --store STORE [--base DN] [--scope SCOPE] [--run] FILTER",
		Short:   "Show how a search would be run",
		Example: `  ldapd explain --store ./data --base dc=example,dc=com '(&(objectClass=person)(uid=jdoe))'`,
		Args:    cobra.ExactArgs(1),
	}, storeKeys, func(ctx context.Context, c *config.Config, args []string) error {
		return m.explain(ctx, c, f, args[0])
	})
	c.Flags().StringVar(&f.base, "base", "", "`DN` to search from")
	c.Flags().StringVar(&f.scope, "scope", "sub", "`SCOPE`: base, one, sub or children")
	c.Flags().BoolVar(&f.run, "run", false, "run the search too, and count")
	return c
}

var scopes = map[string]op.Scope{
	"base": op.BaseObject, "one": op.SingleLevel, "sub": op.WholeSubtree, "children": op.Subordinates,
}

func (m *Main) explain(ctx context.Context, c *config.Config, f explainFlags, text string) error {
	scope, ok := scopes[f.scope]
	if !ok {
		return &config.Error{Where: "--scope", Text: fmt.Sprintf("%q is none of base, one, sub, children", f.scope)}
	}
	base, err := dn.Parse(f.base)
	if err != nil {
		return &config.Error{Where: "--base", Text: err.Error()}
	}
	parsed, err := filter.Parse(text)
	if err != nil {
		return &config.Error{Where: "FILTER", Text: err.Error()}
	}
	p, err := openPartition(ctx, c, m.logger(c), reading)
	if err != nil {
		return err
	}
	defer p.Close(context.WithoutCancel(ctx))
	s := p.Snapshot()
	defer s.Close()
	at, err := s.Find(ctx, base)
	if err != nil {
		return err
	}
	plan, err := s.Explain(ctx, partition.Query{Base: at.ID, Scope: scope, Filter: filter.Resolve(parsed, p.Schema())}, f.run)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(m.Stdout, plan)
	return err
}
