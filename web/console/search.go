package console

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A query is what the form of the search page says.
type query struct {
	Q       string // a part of a name, or a filter
	Base    string
	Scope   string // base, one, sub
	Columns string // attributes, separated by commas or spaces
	Sort    string // an attribute, with - before it for the reverse order
	Format  string // "", ldif, csv, plan, run
	Plan    *searchPlan

	filter filter.Filter
	*found
	Wrong  *filter.Error // nil: the filter is right
	Before string        // the filter up to the error
	After  string
	Error  string // another error
	Asked  bool
}

var scopes = map[string]op.Scope{"base": op.BaseObject, "one": op.SingleLevel, "": op.WholeSubtree, "sub": op.WholeSubtree}

// Common are filters that people ask for.
func (q *query) Common() []struct{ Name, Filter string } {
	return []struct{ Name, Filter string }{
		{"People", "(objectClass=person)"},
		{"Groups", "(|(objectClass=groupOfNames)(objectClass=groupOfUniqueNames)(objectClass=posixGroup))"},
		{"Groups without members", "(&(objectClass=groupOfNames)(!(member=*)))"},
		{"People without mail", "(&(objectClass=person)(!(mail=*)))"},
		{"Disabled accounts", "(pwdAccountLockedTime=000001010000Z)"},
	}
}

// List returns the columns of the table.
func (q *query) List() []string {
	list := strings.FieldsFunc(q.Columns, func(r rune) bool { return r == ',' || r == ' ' || r == ';' })
	return list[:min(len(list), 12)]
}

func (v *visit) query() *query {
	f := v.r.URL.Query()
	q := &query{Q: strings.TrimSpace(f.Get("q")), Base: strings.TrimSpace(f.Get("base")), Scope: f.Get("scope"), Columns: f.Get("columns"),
		Sort: f.Get("sort"), Format: f.Get("format"), Asked: f.Has("q"), found: &found{}}
	if _, ok := scopes[q.Scope]; !ok {
		q.Scope = ""
	}
	if q.Columns == "" {
		q.Columns = "cn, mail, telephoneNumber, title"
	}
	q.filter = namedLike(q.Q)
	if !strings.HasPrefix(q.Q, "(") {
		return q
	}
	var err error
	if q.filter, err = filter.Parse(q.Q); errors.As(err, &q.Wrong) {
		at := min(max(q.Wrong.Offset, 0), len(q.Q))
		q.Before, q.After = q.Q[:at], q.Q[at:]
	} else if err != nil {
		q.Error = err.Error()
	}
	return q
}

// request returns the search and its controls.
func (q *query) request(attributes ...string) (*op.Search, []op.Control) {
	r := &op.Search{Base: q.Base, Scope: scopes[q.Scope], Filter: q.filter, Attributes: attributes}
	if q.Sort == "" {
		return r, nil
	}
	key := control.SortKey{Attribute: strings.TrimPrefix(q.Sort, "-"), Reverse: strings.HasPrefix(q.Sort, "-")}
	return r, []op.Control{{OID: control.OIDSortRequest, Critical: true, Value: control.SortRequest{Keys: []control.SortKey{key}}.Encode()}}
}

func showSearch(v *visit) error {
	q := v.query()
	if !q.Asked || q.Wrong != nil || q.Error != "" {
		if q.Wrong != nil || q.Error != "" {
			v.answer(http.StatusUnprocessableEntity)
		}
		return v.render("search", "Search", q)
	}
	switch q.Format {
	case "csv", "ldif":
		return v.download(q)
	case "plan", "run":
		var err error
		if q.Plan, err = v.planOf(q, q.Format); err != nil {
			return err
		}
		return v.render("search", "Search", q)
	}
	r, cs := q.request(append(q.List(), "entryUUID", "objectClass")...)
	cookie := v.r.URL.Query().Get("cookie")
	var f *found
	var err error
	if strings.HasPrefix(q.Q, "(") {
		f, err = v.search(r, cookie, cs...)
	} else {
		f, err = v.searchNamed(r, q.Q, rows, cookie, cs...)
	}
	if err == nil {
		q.found = f
	} else if !v.problem(err, &q.Error) {
		return err
	}
	return v.render("search", "Search", q)
}

// SortLink returns the address of the results in the order of a column, or in its reverse.
func (p *place) SortLink(q *query, column string) string {
	if q.Sort == column {
		column = "-" + column
	}
	return p.Link("/search", "q", q.Q, "base", q.Base, "scope", q.Scope, "columns", q.Columns, "sort", column)
}

// DownloadLink returns the address of the results in a format.
func (p *place) DownloadLink(q *query, format string) string {
	return p.Link("/search", "q", q.Q, "base", q.Base, "scope", q.Scope, "columns", q.Columns, "sort", q.Sort, "format", format) + emptyQ(q)
}

// emptyQ keeps a search for everything a search: link leaves empty parameters out.
func emptyQ(q *query) string {
	if q.Q == "" {
		return "&q="
	}
	return ""
}

// MoreLink returns the address of the next part of the results.
func (p *place) MoreLink(q *query) string {
	return p.Link("/search", "q", q.Q, "base", q.Base, "scope", q.Scope, "columns", q.Columns, "sort", q.Sort, "cookie", q.Cookie) + emptyQ(q)
}

// A cell is a value of a column of the table.
type cell struct {
	Values []*Value
	More   int // values that are not shown
}

const cellValues = 3

// Cell returns the values of a column, the first ones.
func (v *door) Cell(e *Entry, column string) cell {
	t, options := v.schema().Describe(column)
	if t == nil {
		return cell{}
	}
	var c cell
	for i := range e.Attributes {
		a := &e.Attributes[i]
		if !a.Type.Is(t) || !entry.HasOptions(a.Options, entry.SortOptions(options)) {
			continue
		}
		for j, value := range a.Values {
			if len(c.Values) == cellValues {
				c.More++
				continue
			}
			c.Values = append(c.Values, v.value(e, a, j, value))
		}
	}
	return c
}

// Attributes returns the names of all attributes, for hints in forms.
func (v *door) Attributes() (names []string) {
	for _, t := range v.schema().Attributes() {
		if t.Usage == schema.UserApplications && !t.Obsolete {
			names = append(names, t.Name())
		}
	}
	slices.Sort(names)
	return names
}

// mostDownloaded is how many entries a file has at most.
const mostDownloaded = 10_000

// download sends the results as a file.
func (v *visit) download(q *query) error {
	columns := q.List()
	ask := columns
	if q.Format == "ldif" {
		ask = []string{"*"}
	}
	r, cs := q.request(ask...)
	f, err := v.search(r, "", cs...)
	if err != nil {
		return err
	}
	write, end := v.csv(columns)
	if q.Format == "ldif" {
		write, end = v.ldif()
	}
	for n := len(f.Entries); ; n += len(f.Entries) {
		for _, e := range f.Entries {
			if write(e) != nil {
				return nil // the client is gone
			}
		}
		if f.Cookie == "" || n >= mostDownloaded {
			break
		}
		r, cs := q.request(ask...)
		if f, err = v.search(r, f.Cookie, cs...); err != nil {
			panic(http.ErrAbortHandler) // so that the file does not look whole
		}
	}
	if f.Cookie != "" {
		return end(fmt.Sprintf("only the first %d entries: use ldapsearch or ldapd export for more", mostDownloaded))
	}
	return end(f.Refused)
}

func (v *visit) attach(kind, name string) {
	v.w.Header().Set("Content-Type", kind)
	v.w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	v.w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
}

func (v *visit) csv(columns []string) (write func(*Entry) error, end func(string) error) {
	v.attach("text/csv; charset=utf-8", "search.csv")
	out := csv.NewWriter(v.w)
	first := true
	return func(e *Entry) error {
			if first {
				first = false
				if err := out.Write(append([]string{"dn"}, columns...)); err != nil {
					return err
				}
			}
			line := []string{plainCell(e.DN)}
			for _, column := range columns {
				var texts []string
				t, _ := v.schema().Describe(column)
				for _, value := range e.all(t) {
					texts = append(texts, string(value))
				}
				line = append(line, plainCell(strings.Join(texts, "\n")))
			}
			return out.Write(line)
		}, func(note string) error {
			if note != "" {
				out.Write([]string{"# " + note}) // an error stays, and Error returns it
			}
			out.Flush()
			return nil
		}
}

// plainCell keeps spreadsheets from taking a value for a formula.
func plainCell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

func (v *visit) ldif() (write func(*Entry) error, end func(string) error) {
	v.attach("text/plain; charset=utf-8", "search.ldif")
	out := ldif.NewWriter(v.w)
	return func(e *Entry) error { return out.WriteEntry(e.DN, e.Attributes) }, func(note string) error {
		if note != "" {
			out.WriteComment(note) // an error stays, and Flush returns it
		}
		out.Flush()
		return nil
	}
}
