package people

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
)

// The attributes that lists and show print.
var (
	userColumns     = []string{"uid", "cn", "mail", "uidNumber"}
	groupColumns    = []string{"cn", "description", "gidNumber"}
	stateAttributes = []string{"pwdChangedTime", "pwdAccountLockedTime", "pwdReset", "pwdLastSuccess", "createTimestamp", "modifyTimestamp"}
	hidden          = []string{"userpassword", "authpassword", "bearertoken"}
)

// An output prints entries.
type output struct {
	io.Writer
	format cli.Format
	users  bool // the entries have accounts
}

// A record is an entry in JSON. Values that are no text are in base64.
type record struct {
	DN         string              `json:"dn"`
	State      string              `json:"state,omitempty"`
	Expires    *time.Time          `json:"expires,omitempty"` // the password
	Attributes map[string][]string `json:"attributes"`
}

// recordOf returns an entry without its secrets and without the empty name of a group that has no members.
func recordOf(e *found) *record {
	r := &record{DN: e.DN, Attributes: map[string][]string{}}
	for _, a := range e.Attributes {
		for _, v := range a.Values {
			if !slices.Contains(hidden, strings.ToLower(a.Name)) && v != "" {
				r.Attributes[a.Name] = append(r.Attributes[a.Name], cli.Readable([]byte(v))...)
			}
		}
	}
	if a := e.account; a != nil {
		switch {
		case a.Usable:
			r.State = "usable"
		case a.Inactive:
			r.State = "locked"
		case a.Expired:
			r.State = "expired"
		case a.Reset:
			r.State = "must change"
		}
		if a.Usable && a.Expires >= 0 {
			at := time.Now().Add(a.Expires).UTC().Truncate(time.Second)
			r.Expires = &at
		}
	}
	return r
}

// value returns what a list shows of an attribute.
func (r *record) value(name string) string {
	for key, values := range r.Attributes {
		if strings.EqualFold(key, name) {
			return strings.Join(values, " | ")
		}
	}
	return ""
}

func (r *record) expires() string {
	if r.Expires == nil {
		return ""
	}
	return r.Expires.Format(time.RFC3339)
}

// print prints those entries that are wanted.
func (o *output) print(all []found, columns []string, wanted func(*found) bool) error {
	var rows [][]string
	for i := range all {
		if !wanted(&all[i]) {
			continue
		}
		r := recordOf(&all[i])
		if o.format == cli.JSON {
			if err := json.NewEncoder(o).Encode(r); err != nil {
				return err
			}
			continue
		}
		var row []string
		for _, name := range columns {
			row = append(row, r.value(name))
		}
		if o.users {
			row = append(row, r.State, r.expires())
		}
		rows = append(rows, append(row, r.DN))
	}
	if o.format == cli.JSON {
		return nil
	}
	head := slices.Clone(columns)
	if o.users {
		head = append(head, "state", "expires")
	}
	return o.table(append([][]string{append(head, "dn")}, rows...))
}

// table prints rows; the first has the names of the columns.
func (o *output) table(rows [][]string) error {
	if o.format == cli.CSV {
		return csv.NewWriter(o).WriteAll(rows)
	}
	w := tabwriter.NewWriter(o, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return w.Flush()
}

// printOne prints all of an entry.
func (o *output) printOne(e *found) error {
	r := recordOf(e)
	if o.format == cli.JSON {
		return json.NewEncoder(o).Encode(r)
	}
	var rows [][]string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	if o.format == cli.CSV {
		add("attribute", "value")
	}
	add("dn", r.DN)
	add("state", r.State)
	add("expires", r.expires())
	slices.SortFunc(e.Attributes, func(a, b *ldap.EntryAttribute) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	for _, a := range e.Attributes {
		for _, v := range r.Attributes[a.Name] {
			add(a.Name, v)
		}
	}
	return o.table(rows)
}
