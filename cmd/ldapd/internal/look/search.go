// Package look has the commands that look at entries: search and count. They are clients of LDAP operations.
package look

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"
	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/remote"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
)

// Commands returns the commands "ldapd search" and "ldapd count".
func Commands(m *cli.Main) []*cobra.Command {
	return []*cobra.Command{searchCommand(m), countCommand(m)}
}

// Job does a query on a store.
var Job = cli.NewJob("look", onStore)

// A query is what one command asks for.
type query struct {
	Base, Scope, Filter string
	Attributes          []string
	At, Branch          string
	Limit               int
	Explain             string // "", plan or run
	Count               string // the attribute whose values are counted; "": none
	Table               bool
	Format              cli.Format
}

func searchCommand(m *cli.Main) *cobra.Command {
	var q query
	c := q.command(m, &cobra.Command{
		Use:   "search (--url URL [--bind DN] | --store STORE) [--at WHEN] [--table | --json | --csv] FILTER [ATTR]...",
		Short: "Search entries, now or in the past",
		Long: `Search entries and print them as LDIF, or with --table, --json or --csv. FILTER is a filter
of RFC 4515, whose outer parentheses may be left out. A word without "=" finds the entries whose uid or mail
it is, or whose cn contains it. Without attributes, all user attributes are printed.

With --at, the directory as it was then is searched. --explain prints how the search would be
run, and with --explain=run also what it cost.`,
		Example: `  ldapd search --store ./data ann
  ldapd search --store ./data --table '(l=Rome)' uid mail
  ldapd search --url ldap://127.0.0.1:3890 --at 7d --json 'memberOf=cn=admins,ou=groups,dc=example,dc=com'
  ldapd search --store ./data --explain=run '(&(objectClass=person)(sn=L*))'`,
		Args: cobra.MinimumNArgs(1),
	}, func(args []string) error {
		q.Filter, q.Attributes = args[0], args[1:]
		return nil
	})
	f := c.Flags()
	f.IntVar(&q.Limit, "limit", 0, "print at most `N` entries (default all)")
	f.StringVar(&q.Explain, "explain", "", "print the plan of the search; with =run, run it and print its cost too")
	f.Lookup("explain").NoOptDefVal = "plan"
	f.BoolVar(&q.Table, "table", false, "print a table")
	c.MarkFlagsMutuallyExclusive("table", "json", "csv")
	return c
}

func countCommand(m *cli.Main) *cobra.Command {
	var q query
	c := q.command(m, &cobra.Command{
		Use:   "count (--url URL [--bind DN] | --store STORE) [--by ATTR] [--at WHEN] [--json | --csv] [FILTER]",
		Short: "Count entries, by the values of an attribute",
		Long: `Count the entries that a filter finds, or all entries. With --by, count them by the values of an
attribute: an entry with two values counts at each. The server reads these entries; a view
(docs/views.md) keeps such numbers.`,
		Example: `  ldapd count --store ./data '(objectClass=person)'
  ldapd count --store ./data --by departmentNumber --at 2026-01-01 --csv`,
		Args: cobra.MaximumNArgs(1),
	}, func(args []string) error {
		if q.Filter = strings.Join(args, ""); q.Filter == "" {
			q.Filter = "(objectClass=*)"
		}
		if q.Attributes = []string{q.Count}; q.Count == "" {
			q.Attributes, q.Count = []string{noAttributes}, noAttributes
		}
		return nil
	})
	c.Flags().StringVar(&q.Count, "by", "", "count by the values of `ATTR`")
	return c
}

// command completes a command. The function arguments takes its arguments.
func (q *query) command(m *cli.Main, c *cobra.Command, arguments func([]string) error) *cobra.Command {
	s := &remote.Server{Main: m}
	c = q.Format.AddTo(m.Command(c, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		if err := s.Check(c); err != nil {
			return err
		}
		if err := arguments(args); err != nil {
			return err
		}
		if err := q.check(); err != nil {
			return err
		}
		if !s.Named() {
			return Job.Run(ctx, m, c, cli.ReadOnly, m.Around(), *q)
		}
		return s.Do(ctx, func(conn *ldap.Conn) error { return q.do(ctx, conn, m.Stdout) })
	}))
	s.AddFlags(c)
	f := c.Flags()
	f.StringVar(&q.Base, "base", "", "`DN` to search from (default all naming contexts)")
	f.StringVar(&q.Scope, "scope", "sub", cli.ScopeHelp)
	f.StringVar(&q.At, "at", "", "the directory at `WHEN`: "+cli.PointInTimeHelp)
	f.StringVar(&q.Branch, "branch", "", "the directory in the branch `NAME`")
	c.MarkFlagsMutuallyExclusive("at", "branch")
	return c
}

// check checks what can be checked without a server, and completes the filter.
func (q *query) check() error {
	if _, err := cli.ParseScope(q.Scope); err != nil {
		return err
	}
	if !slices.Contains([]string{"", "plan", "run"}, q.Explain) {
		return &config.Error{Where: "--explain", Text: fmt.Sprintf("%q is neither plan nor run", q.Explain)}
	}
	if _, err := cli.ParseName("--base", q.Base); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(q.Filter, "("):
	case strings.Contains(q.Filter, "="):
		q.Filter = "(" + q.Filter + ")"
	default:
		word := ldap.EscapeFilter(q.Filter)
		q.Filter = "(|(uid=" + word + ")(mail=" + word + ")(cn=*" + word + "*))"
	}
	if _, err := filter.Parse(q.Filter); err != nil {
		return &config.Error{Where: "FILTER", Text: err.Error()}
	}
	return nil
}

// onStore does a query on the partition of a job.
func onStore(ctx context.Context, w *cli.Work, q query) error {
	return remote.OnStore(ctx, w, nil, func(conn *ldap.Conn) error { return q.do(ctx, conn, w.Stdout) })
}

func (q *query) do(ctx context.Context, conn *ldap.Conn, out io.Writer) error {
	bases, err := q.bases(conn)
	if err != nil {
		return err
	}
	p := &printer{q: q, out: out, counts: map[string]int{}}
	var none []error
	for _, base := range bases {
		err := q.search(ctx, conn, base, p)
		switch {
		case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject):
			none = append(none, err) // perhaps a naming context whose entry has not been added, or not yet then
		case err != nil:
			return err
		}
	}
	if len(none) == len(bases) {
		return none[0]
	}
	return p.end()
}

// bases returns the base of the search, or all naming contexts.
func (q *query) bases(conn *ldap.Conn) ([]string, error) {
	if q.Base != "" || q.Scope == "base" {
		return []string{q.Base}, nil
	}
	contexts, err := remote.Contexts(conn)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the server's naming contexts: %w", err)
	case len(contexts) == 0:
		return nil, errors.New("the server shows no naming contexts: give --base")
	}
	return contexts, nil
}

// noAttributes asks for no attributes (RFC 4511, 4.5.1.8).
const noAttributes = "1.1"

// pageSize is the number of entries of one page of results.
const pageSize = 500

// search searches from a base, page by page.
func (q *query) search(ctx context.Context, conn *ldap.Conn, base string, p *printer) error {
	scope, err := cli.ParseScope(q.Scope)
	if err != nil {
		return err
	}
	pages := ldap.NewControlPaging(pageSize)
	for left := q.Limit; ; {
		r := ldap.NewSearchRequest(base, int(scope), ldap.NeverDerefAliases, 0, 0, false, q.Filter, q.Attributes, q.controls())
		if q.Explain == "" {
			r.Controls = append(r.Controls, pages)
		}
		if q.Limit > 0 {
			pages.PagingSize = uint32(min(left, pageSize))
		}
		answer, err := conn.Search(r)
		if err != nil {
			return fmt.Errorf("%s: %w", base, err)
		}
		if q.Explain != "" {
			return p.plan(base, answer.Controls)
		}
		for _, e := range answer.Entries {
			if err := p.entry(e); err != nil {
				return err
			}
		}
		next, _ := ldap.FindControl(answer.Controls, ldap.ControlTypePaging).(*ldap.ControlPaging)
		if left -= len(answer.Entries); next == nil || len(next.Cookie) == 0 || q.Limit > 0 && left <= 0 || ctx.Err() != nil {
			return ctx.Err()
		}
		pages.SetCookie(next.Cookie)
	}
}

func (q *query) controls() (all []ldap.Control) {
	for oid, value := range map[string]string{control.OIDAt: q.At, control.OIDBranch: q.Branch, control.OIDExplain: q.Explain} {
		if value != "" {
			all = append(all, ldap.NewControlString(oid, true, value))
		}
	}
	return all
}
