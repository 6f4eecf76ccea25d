// Package glance has the command "ldapd status", which shows on one screen how a server and its store are. It is a client
// of LDAP: it reads cn=monitor. Package status serves the same state over HTTP.
package glance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-ldap/ldap/v3"
	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/remote"
	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
)

// A Line is one line of the screen.
type Line struct {
	What string `json:"what"`
	OK   bool   `json:"ok"` // nothing needs to be done
	Text string `json:"text"`
}

func (l Line) String() string {
	mark := "  "
	if !l.OK {
		mark = "! "
	}
	return fmt.Sprintf("%s%-13s %s", mark, l.What, l.Text)
}

// errAttention is the error if a line is not OK.
var errAttention = errors.New("lines with an exclamation mark need attention")

// Job shows how a store is, and the server that does the job.
var Job = cli.NewJob("status", onStore)

// Command returns the command "ldapd status".
func Command(m *cli.Main) *cobra.Command {
	var f cli.Format
	s := &remote.Server{Main: m}
	c := m.Command(&cobra.Command{
		Use:   "status (--url URL --bind DN | --store STORE)",
		Short: "Show on one screen how a server and its store are",
		Long: `Show on one screen how a server and its store are: whether it takes requests and changes,
the disk, the servers of the store, views, archive, certificates, locked accounts, and the
newest warning of its log. A line with an exclamation mark needs attention, and the exit
status is then 1. With --store, the server that has the store open is asked; a store in
HBase, and a store that no server has open, says nothing of a server.`,
		Example: `  ldapd status --store /var/lib/ldapd/store
  ldapd status --url ldaps://ldap.example.com --bind cn=admin,dc=example,dc=com --json`,
		Args: cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		if err := s.Check(c); err != nil {
			return err
		}
		if !s.Named() {
			return Job.Run(ctx, m, c, cli.ReadOnly, m.Around(), f)
		}
		return s.Do(ctx, func(conn *ldap.Conn) error { return show(conn, m.Stdout, f) })
	})
	s.AddFlags(c)
	return f.AddTo(c)
}

func onStore(ctx context.Context, w *cli.Work, f cli.Format) error {
	return remote.OnStore(ctx, w, func(o *directory.Options) {
		o.Metrics, o.Version = w.Metrics, cli.Version()
	}, func(conn *ldap.Conn) error { return show(conn, w.Stdout, f) })
}

// show prints the lines of the server at the other end of a connection.
func show(conn *ldap.Conn, out io.Writer, f cli.Format) error {
	m, err := read(conn)
	if err != nil {
		return err
	}
	locked, err := countLocked(conn)
	if err != nil {
		return err
	}
	lines := append(m.lines(), locked, m.warning())
	if err := cli.Print(out, f, lines, Line.String); err != nil {
		return err
	}
	for _, l := range lines {
		if !l.OK {
			return errAttention
		}
	}
	return nil
}

// read reads cn=monitor.
func read(conn *ldap.Conn) (*report, error) {
	r, err := conn.Search(ldap.NewSearchRequest("cn=monitor", ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", []string{"*", "+"}, nil))
	switch {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject), ldap.IsErrorWithCode(err, ldap.LDAPResultInsufficientAccessRights):
		return nil, errors.New("cn=monitor may not be read: bind as the administrator, or let an access rule name cn=monitor")
	case err != nil:
		return nil, fmt.Errorf("cn=monitor: %w", err)
	}
	m := &report{entries: map[string]*ldap.Entry{}}
	for _, e := range r.Entries {
		m.entries[strings.ToLower(e.DN)] = e
	}
	for _, line := range m.entry("cn=metrics").GetAttributeValues("monitoredInfo") {
		f, err := monitor.ParseFigure(line)
		if err != nil {
			return nil, fmt.Errorf("cn=Metrics,cn=monitor: %q: %w", line, err)
		}
		m.figures = append(m.figures, f)
	}
	return m, nil
}

// mostLocked bounds the number of locked accounts that are counted.
const mostLocked = 1000

// countLocked counts the accounts that are locked now.
func countLocked(conn *ldap.Conn) (Line, error) {
	bases, err := remote.PlainContexts(conn)
	if err != nil {
		return Line{}, fmt.Errorf("the server's naming contexts: %w", err)
	}
	n := 0
	for _, base := range bases {
		r, err := conn.Search(ldap.NewSearchRequest(base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, mostLocked, 0, false, "(pwdAccountLockedTime=*)", []string{"1.1"}, nil))
		if err != nil && !ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded) {
			return Line{}, fmt.Errorf("locked accounts below %s: %w", base, err)
		}
		n += len(r.Entries)
	}
	text := "none is locked"
	if n > 0 {
		text = fmt.Sprintf("%d locked: 'ldapd user list --locked' names them", n)
	}
	if n >= mostLocked {
		text = "at least " + text
	}
	return Line{"accounts", true, text}, nil
}
