package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// viewCommands are the commands "ldapd view ...".
type viewCommands struct{ *cli.Main }

func (m viewCommands) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "view",
		Short: "Manage views: records that are computed from many entries",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(m.list(), m.show(), m.rebuild())
	return c
}

// viewArgs are the arguments of the commands besides the configuration. Name identifies a
// definition by its cn or its DN.
type viewArgs struct {
	Name   string
	Format cli.Format
}

func (m viewCommands) list() *cobra.Command {
	var a viewArgs
	return a.Format.AddTo(m.Command(&cobra.Command{
		Use:   "list --store STORE [--json | --csv]",
		Short: "List the views",
		Long: `List the views with their states: whether the records are kept, and up to which moment.
What was committed since then is added when records are read. Until a view is kept, its
records are computed from the entries.`,
		Example: `  ldapd view list --store ./data`,
		Args:    cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		return viewListJob.Run(ctx, m.Main, c, cli.ReadOnly, m.Around(), a)
	}))
}

func (m viewCommands) show() *cobra.Command {
	var a viewArgs
	return a.Format.AddTo(m.Command(&cobra.Command{
		Use:     "show --store STORE [--json | --csv] NAME",
		Short:   "Print the records of a view",
		Example: `  ldapd view show --store ./data departments`,
		Args:    cobra.ExactArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a.Name = args[0]
		return viewShowJob.Run(ctx, m.Main, c, cli.ReadOnly, m.Around(), a)
	}))
}

func (m viewCommands) rebuild() *cobra.Command {
	return cli.Accepts(m.Command(&cobra.Command{
		Use:   "rebuild --store STORE NAME",
		Short: "Rebuild the records of a view",
		Long: `Rebuild the records of a view from the entries, in a new table. Until this is done, the
records are computed for each reader.`,
		Example: `  ldapd view rebuild --store ./data departments`,
		Args:    cobra.ExactArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		return viewRebuildJob.Run(ctx, m.Main, c, cli.ReadWrite, m.Around(), viewArgs{Name: args[0]})
	}))
}

var (
	viewListJob    = cli.NewJob("view list", listViews)
	viewShowJob    = cli.NewJob("view show", showView)
	viewRebuildJob = cli.NewJob("view rebuild", rebuildView).Offered("NAME", nil, func(_ *config.Config, a *viewArgs, words []string) error {
		if len(words) != 1 {
			return errors.New("it needs one name")
		}
		a.Name = words[0]
		return nil
	})
)

// viewText is a view in JSON.
type viewText struct {
	Name   string     `json:"name"`
	State  string     `json:"state"`
	Reason string     `json:"reason,omitempty"`
	UpTo   *time.Time `json:"upTo,omitempty"` // the records are those of this moment
}

func (v viewText) String() string {
	text := v.Name + ": " + v.State
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	if v.UpTo != nil {
		text += " up to " + v.UpTo.Format(time.RFC3339Nano)
	}
	return text
}

func listViews(ctx context.Context, w *cli.Work, a viewArgs) error {
	s := state.Newest(w.Partition)
	defer s.Close()
	defs, wrong, err := materialized.Definitions(ctx, s)
	if err != nil {
		return err
	}
	if d, err := materialized.Builtin(ctx, s); err != nil {
		return err
	} else if d != nil {
		defs = append(defs, d)
	}
	var rows, bad []viewText
	for _, d := range defs {
		st, err := materialized.StatusOf(ctx, s, d)
		if err != nil {
			return err
		}
		v := viewText{Name: d.Name.String(), State: st.State, Reason: st.Reason}
		if st.UpTo != 0 {
			at := st.UpTo.Time().UTC()
			v.UpTo = &at
		}
		rows = append(rows, v)
	}
	for id, reason := range wrong {
		name, err := s.Name(ctx, id)
		if err != nil {
			return err
		}
		bad = append(bad, viewText{Name: name.String(), State: "not a view", Reason: reason.Error()})
	}
	slices.SortFunc(bad, func(a, b viewText) int { return strings.Compare(a.Name, b.Name) })
	return cli.Print(w.Stdout, a.Format, append(rows, bad...), viewText.String)
}

// findView returns the definition that a command names.
func findView(ctx context.Context, s *partition.Snapshot, text string) (*materialized.Definition, error) {
	if !strings.Contains(text, "=") {
		text = dn.RDN{{Type: "cn", Value: []byte(text)}}.String() + "," + materialized.Name
	}
	name, err := dn.Parse(text)
	if err != nil {
		return nil, err
	}
	d, err := materialized.Find(ctx, s, name)
	if err == nil && d == nil && text == "cn=subordinates,"+materialized.Name {
		d, err = materialized.Builtin(ctx, s)
	}
	if err == nil && d == nil {
		err = fmt.Errorf("there is no view %s", name)
	}
	return d, err
}

func showView(ctx context.Context, w *cli.Work, a viewArgs) error {
	s := state.Newest(w.Partition)
	defer s.Close()
	d, err := findView(ctx, s, a.Name)
	if err != nil {
		return err
	}
	switch d.Kind {
	case materialized.List:
		return showList(ctx, w, s, d, a.Format)
	case materialized.Totals:
	default:
		return fmt.Errorf("%s has no records to show: it answers numSubordinates and numAllSubordinates", d.Name)
	}
	rs, err := materialized.Read(ctx, s, d, materialized.ReadOptions{})
	if err != nil {
		return err
	}
	if a.Format == cli.Text {
		return cli.Print(w.Stdout, a.Format, rs, func(r materialized.Record) string { return recordText(d, &r) })
	}
	var rows []cli.Row
	for _, r := range rs {
		var row cli.Row
		for i, t := range d.Groups {
			row = append(row, cli.Field{Name: t.Name(), Value: cli.Readable(r.Values[i])[0]})
		}
		for i, t := range d.Totals {
			if n := r.Totals[i]; n != nil {
				row = append(row, cli.Field{Name: totalName(t), Value: json.Number(n.String())})
			}
		}
		rows = append(rows, row)
	}
	return cli.Print(w.Stdout, a.Format, rows, nil)
}

// totalName returns the operation and the attribute of a total, such as "sum uidNumber".
func totalName(t materialized.Total) string {
	return strings.TrimSpace(string(t.Op) + " " + t.Attribute)
}

// showList prints the entries of a list view in the order of the view, each with the
// attributes that the view shows.
func showList(ctx context.Context, w *cli.Work, s *partition.Snapshot, d *materialized.Definition, f cli.Format) error {
	all := func(_ context.Context, _ partition.Located, _ *entry.Entry, as []entry.Attribute) ([]entry.Attribute, error) {
		return as, nil
	}
	var rows []cli.Row
	for x, err := range materialized.Each(ctx, s, d, materialized.ListOptions{}) {
		if err != nil {
			return err
		}
		q := partition.Query{Base: x.ID, Scope: op.BaseObject, Filter: filter.Const(filter.True), Only: d.Only()}
		found, ok, err := search.Lookup(ctx, s, q, x.ID)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%s: there is no entry %s: build the view again", d.Name, x.ID)
		}
		as, err := d.Compose(ctx, s, found.Located, found.Entry, nil, all)
		if err != nil {
			return err
		}
		if f != cli.Text {
			row := cli.Row{{Name: "dn", Value: found.Name.String()}}
			for i := range as {
				row = append(row, cli.Field{Name: as[i].Description(), Value: cli.Readable(as[i].Values...)})
			}
			rows = append(rows, row)
			continue
		}
		var parts []string
		for i := range as {
			for _, v := range as[i].Values {
				parts = append(parts, fmt.Sprintf("%s %q", as[i].Description(), v))
			}
		}
		fmt.Fprintf(w.Stdout, "%s: %s\n", found.Name, strings.Join(parts, ", "))
	}
	if f == cli.Text {
		return nil
	}
	return cli.Print(w.Stdout, f, rows, nil)
}

// recordText returns a record as a line.
func recordText(d *materialized.Definition, r *materialized.Record) string {
	rdn := make(dn.RDN, len(d.Groups))
	for i, t := range d.Groups {
		rdn[i] = dn.AVA{Type: t.Name(), Value: r.Values[i]}
	}
	text := rdn.String() + ":"
	for i, t := range d.Totals {
		if n := r.Totals[i]; n != nil {
			text += " " + totalName(t) + " " + n.String() + ","
		}
	}
	return strings.TrimSuffix(text, ",")
}

func rebuildView(ctx context.Context, w *cli.Work, a viewArgs) error {
	s := state.Newest(w.Partition)
	defer s.Close()
	d, err := findView(ctx, s, a.Name)
	if err != nil {
		return err
	}
	if err := materialized.Rebuild(ctx, w.Partition, d.ID); err != nil || w.Elsewhere {
		return err // if the job runs in a server, the server updates the views itself
	}
	return materialized.Update(ctx, w.Partition)
}
