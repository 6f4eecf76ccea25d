package people

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/remote"
	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
)

// A client does a task over a connection.
type client struct {
	*ldap.Conn
	*task
	ctx   context.Context
	base  string
	out   *output
	notes io.Writer
}

func (m *commands) run(ctx context.Context, c *config.Config, mode cli.Mode, t *task) error {
	if !m.Named() {
		return Job.Run(ctx, m.Main, c, mode, m.Around(), *t)
	}
	return m.Do(ctx, func(conn *ldap.Conn) error { return t.do(ctx, conn, m.Stdout, m.Stderr) })
}

// onStore does a task on the partition of a job.
func onStore(ctx context.Context, w *cli.Work, t task) error {
	return remote.OnStore(ctx, w, func(o *directory.Options) {
		if t.Generated {
			o.Listed = func([]byte) bool { return false } // a random password is in no list of known passwords
		}
	}, func(conn *ldap.Conn) error { return t.do(ctx, conn, w.Stdout, w.Stderr) })
}

func (t *task) do(ctx context.Context, conn *ldap.Conn, out, notes io.Writer) error {
	c := &client{conn, t, ctx, t.People.Base, &output{out, t.Format, strings.HasPrefix(t.Verb, "user")}, notes}
	if err := c.findBase(); err != nil {
		return err
	}
	verb := verbs[t.Verb]
	if verb == nil {
		return fmt.Errorf("this version does not do %q", t.Verb)
	}
	return verb(c)
}

// findBase sets base to the naming context of the server, unless it is configured.
func (c *client) findBase() error {
	if c.base != "" {
		return nil
	}
	contexts, err := remote.PlainContexts(c.Conn)
	if err != nil {
		return c.failed("the server's naming contexts", err)
	}
	if len(contexts) != 1 {
		return &config.Error{Where: "--people-base", Text: fmt.Sprintf("the server has %d naming contexts (%s): say which DN users and groups are below", len(contexts), strings.Join(contexts, ", "))}
	}
	c.base = contexts[0]
	return nil
}

// below returns the name of a place, which is relative to the base.
func (c *client) below(place string) string {
	if place == "" {
		return c.base
	}
	return place + "," + c.base
}

// A found entry has the state of its account, if the server has said it.
type found struct {
	*ldap.Entry
	account *control.AccountUsable
}

// search returns the entries that a search finds, in the order of their names.
func (c *client) search(base string, scope int, filter string, attributes ...string) (all []found, err error) {
	r := c.SearchAsync(c.ctx, ldap.NewSearchRequest(base, scope, ldap.NeverDerefAliases, 0, 0, false, filter, attributes,
		[]ldap.Control{ldap.NewControlString(control.OIDAccountUsable, false, "")}), 64)
	for r.Next() {
		if r.Entry() == nil {
			continue
		}
		f := found{Entry: r.Entry()}
		for _, x := range r.Controls() {
			if x, ok := x.(*ldap.ControlString); ok && x.ControlType == control.OIDAccountUsable {
				a, err := control.ParseAccountUsable([]byte(x.ControlValue))
				if err != nil {
					return nil, err
				}
				f.account = &a
			}
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b found) int { return strings.Compare(a.DN, b.DN) })
	return all, r.Err()
}

// exists reports whether an entry below the base matches a filter.
func (c *client) exists(filter string) (bool, error) {
	r, err := c.Search(ldap.NewSearchRequest(c.base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 1, 0, false, filter, []string{"1.1"}, nil))
	if ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded) {
		return true, nil
	}
	if err != nil {
		return false, c.failed(c.base, err)
	}
	return len(r.Entries) > 0, nil
}

// errNone is the error for a name that no entry has.
var errNone = errors.New("no entry has this name")

// one returns the only entry that a name means: a DN, or what one of the filters finds below the
// base. In a filter, $1 is the name.
func (c *client) one(name, filter string, attributes ...string) (*found, error) {
	base, scope := c.base, ldap.ScopeWholeSubtree
	if strings.Contains(name, "=") {
		base, scope, filter = name, ldap.ScopeBaseObject, "(objectClass=*)"
	}
	all, err := c.search(base, scope, strings.ReplaceAll(filter, "$1", ldap.EscapeFilter(name)), attributes...)
	switch {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject), err == nil && len(all) == 0:
		return nil, fmt.Errorf("%s: %w", name, errNone)
	case err != nil:
		return nil, c.failed(name, err)
	case len(all) > 1:
		names := []string{name + " is the name of several entries; say which by the DN:"}
		for _, e := range all {
			names = append(names, e.DN)
		}
		return nil, errors.New(strings.Join(names, "\n  "))
	}
	return &all[0], nil
}

// userFilter and groupFilter find users and groups by their names.
func (c *client) userFilter() string {
	return "(|(" + c.People.UserName + "=$1)(uid=$1)(mail=$1))"
}

func (c *client) groupFilter() string { return "(&" + c.isGroup() + "(cn=$1))" }

// isGroup returns a filter of groups.
func (c *client) isGroup() string {
	return "(|(objectClass=groupOfNames)(objectClass=groupOfUniqueNames)(objectClass=posixGroup)(objectClass=" + c.People.GroupClass[0] + "))"
}

// add adds an entry. If the entry above it is a missing unit, add makes the unit.
func (c *client) add(r *ldap.AddRequest, place string) error {
	err := c.Add(r)
	kind, unit, _ := strings.Cut(place, "=")
	if ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject) && strings.EqualFold(kind, "ou") && !strings.ContainsAny(unit, ",+\\") {
		above := ldap.NewAddRequest(c.below(place), nil)
		above.Attribute("objectClass", []string{"organizationalUnit"})
		above.Attribute("ou", []string{unit})
		if err := c.Add(above); err != nil && !ldap.IsErrorWithCode(err, ldap.LDAPResultEntryAlreadyExists) {
			return c.failed(above.DN, err)
		}
		fmt.Fprintln(c.notes, "note: added", above.DN)
		err = c.Add(r)
	}
	return err
}

// failed returns the error for an operation that the server refused.
func (c *client) failed(what string, err error) error {
	var e *ldap.Error
	if !errors.As(err, &e) || e.ResultCode >= ldap.ErrorNetwork {
		return fmt.Errorf("%s: %w", what, err)
	}
	text := e.Err.Error()
	if text == "" {
		text = ldap.LDAPResultCodeMap[e.ResultCode]
	}
	switch e.ResultCode {
	case ldap.LDAPResultInsufficientAccessRights:
		text += "; bind as somebody who may do this ('ldapd access explain' says who)"
	case ldap.LDAPResultEntryAlreadyExists:
		text = "an entry with this name exists already"
	}
	return fmt.Errorf("%s: %s", what, text)
}
