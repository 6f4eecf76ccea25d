package look

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// A printer prints what a query finds.
type printer struct {
	q      *query
	out    io.Writer
	rows   []*ldap.Entry // of a table or CSV, whose columns are known at the end
	all    int           // entries
	counts map[string]int
}

// entry prints an entry, or keeps or counts it until the end.
func (p *printer) entry(e *ldap.Entry) error {
	p.all++
	switch {
	case p.q.Count != "":
		for _, a := range e.Attributes {
			for _, v := range a.ByteValues {
				p.counts[cli.Readable(v)[0]]++
			}
		}
		return nil
	case p.q.Table || p.q.Format == cli.CSV:
		p.rows = append(p.rows, e)
		return nil
	case p.q.Format == cli.JSON:
		return p.json(e)
	}
	r := &ldif.Record{DN: e.DN}
	for _, a := range e.Attributes {
		r.Attributes = append(r.Attributes, op.PartialAttribute{Description: a.Name, Values: a.ByteValues})
	}
	w := ldif.NewWriter(p.out)
	if err := errors.Join(w.Write(r), w.Flush()); err != nil {
		return err
	}
	_, err := fmt.Fprintln(p.out)
	return err
}

func (p *printer) json(e *ldap.Entry) error {
	type row struct {
		DN         string              `json:"dn"`
		Attributes map[string][]string `json:"attributes"`
	}
	r := row{e.DN, map[string][]string{}}
	for _, a := range e.Attributes {
		r.Attributes[a.Name] = cli.Readable(a.ByteValues...)
	}
	return cli.Print(p.out, cli.JSON, []row{r}, nil)
}

// end prints what was kept.
func (p *printer) end() error {
	switch {
	case p.q.Count != "":
		return p.printCounts()
	case p.q.Explain != "":
		return nil
	case p.q.Table, p.q.Format == cli.CSV:
		return p.printRows()
	}
	return nil
}

// printCounts prints the largest counts first.
func (p *printer) printCounts() error {
	type row struct {
		Value string `json:"value"`
		Count int    `json:"count"`
	}
	if p.q.Count == noAttributes {
		type all struct {
			Count int `json:"count"`
		}
		return cli.Print(p.out, p.q.Format, []all{{p.all}}, func(a all) string { return fmt.Sprint(a.Count) })
	}
	var rows []row
	for _, value := range slices.Sorted(maps.Keys(p.counts)) {
		rows = append(rows, row{value, p.counts[value]})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.Count, a.Count) })
	return cli.Print(p.out, p.q.Format, rows, func(r row) string { return fmt.Sprintf("%7d  %s", r.Count, r.Value) })
}

// printRows prints a column for each attribute that was asked for, or that an entry has, and the entries in
// the order of their names.
func (p *printer) printRows() error {
	columns := slices.DeleteFunc(slices.Clone(p.q.Attributes), func(a string) bool { return strings.ContainsAny(a, "*+") })
	if len(columns) < len(p.q.Attributes) || len(columns) == 0 {
		columns = nil
		for _, e := range p.rows {
			for _, a := range e.Attributes {
				if !slices.Contains(columns, a.Name) {
					columns = append(columns, a.Name)
				}
			}
		}
	}
	slices.SortFunc(p.rows, func(a, b *ldap.Entry) int { return strings.Compare(a.DN, b.DN) })
	var rows []cli.Row
	for _, e := range p.rows {
		row := cli.Row{{Name: "dn", Value: e.DN}}
		for _, column := range columns {
			row = append(row, cli.Field{Name: column, Value: strings.Join(cli.Readable(e.GetEqualFoldRawAttributeValues(column)...), " | ")})
		}
		rows = append(rows, row)
	}
	if p.q.Format == cli.CSV {
		return cli.Print(p.out, cli.CSV, rows, nil)
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(append(columns, "dn"), "\t"))
	plain := strings.NewReplacer("\n", " ", "\t", " ", "\v", " ", "\f", " ") // what would break the lines
	for _, row := range rows {
		var line []string
		for _, f := range row[1:] {
			line = append(line, plain.Replace(f.Value.(string)))
		}
		fmt.Fprintln(w, strings.Join(append(line, row[0].Value.(string)), "\t"))
	}
	return w.Flush()
}

// plan prints the plan of the search from a base, which is in the controls of its response.
func (p *printer) plan(base string, controls []ldap.Control) error {
	c, ok := ldap.FindControl(controls, control.OIDExplain).(*ldap.ControlString)
	if !ok {
		return errors.New("the server does not explain searches")
	}
	x, err := control.ParseExplained([]byte(c.ControlValue))
	if err != nil {
		return err
	}
	type row struct {
		Base         string   `json:"base"`
		Filter       string   `json:"filter"`
		Plan         string   `json:"plan"`
		Candidates   int      `json:"candidates"`
		Rows         int      `json:"rows"`
		Indexes      []string `json:"indexes,omitempty"`
		Microseconds int      `json:"microseconds"`
	}
	r := row{base, p.q.Filter, strings.TrimRight(x.Plan, "\n"), x.Candidates, x.Rows, x.Indexes, x.Microseconds}
	return cli.Print(p.out, p.q.Format, []row{r}, func(r row) string {
		if p.q.Explain == "plan" {
			return r.Plan
		}
		return fmt.Sprintf("%s\n%d entries were examined in %d us", r.Plan, r.Candidates, r.Microseconds)
	})
}
