package people

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"
	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// tokens returns the commands "ldapd token ...".
func (m *commands) tokens() *cobra.Command {
	c := m.parent("token", "Give programs tokens for SCIM, list and revoke them", `Give programs tokens for SCIM, list and revoke them. A token is a long random text by which a
program logs in as an account, usually that of a service. The access rules for the
account decide what the program may do. The account's entry has the token's hash. The
manual is docs/scim.md.`)
	c.AddCommand(m.tokenAdd(),
		m.verb("token list", "list", "List tokens: id, account, end and note", cli.ReadOnly, 0, func(c *cobra.Command, t *task) func() error {
			t.Format.AddTo(c)
			return nil
		}),
		m.verb("token revoke", "revoke ID", "Revoke a token, which ends at once at all servers", cli.ReadWrite, 1, nil))
	return c
}

func (m *commands) tokenAdd() *cobra.Command {
	c := m.verb("token add", "add --as NAME", "Give a program a token, and print it once", cli.ReadWrite, 0, func(c *cobra.Command, t *task) func() error {
		var as, until string
		f := c.Flags()
		f.StringVar(&as, "as", "", "`NAME` of the account that the token is for, as users are named")
		f.StringVar(&until, "until", "", "`WHEN` the token ends: a date, a time such as 2027-01-31T12:00:00Z, or a time from now such as 365d (default never)")
		f.StringVar(&t.Description, "note", "", "`TEXT` that says what the token is for")
		return func() (err error) {
			if as == "" {
				return &config.Error{Where: "--as", Text: "say which account the token is for; 'ldapd user add --service' adds one"}
			}
			t.Names = []string{as}
			t.Until, err = end(until, time.Now())
			return err
		}
	})
	c.Long = `Give a program a token, and print it once: only its hash is stored. Whoever has the token is
the account, until the token ends or is revoked, or the account is locked or deleted.`
	return c
}

// end returns the time that a text means, or the zero time for "".
func end(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	d, err := days("--until", text)
	if err != nil {
		return time.Time{}, &config.Error{Where: "--until", Text: fmt.Sprintf("%q is neither a date such as 2027-01-31 nor a time from now such as 365d", text)}
	}
	return now.Add(d), nil
}

func addToken(c *client) error {
	u, err := c.user("entryUUID")
	if err != nil {
		return err
	}
	id, err := entry.ParseID(u.GetAttributeValue("entryUUID"))
	if err != nil {
		return fmt.Errorf("%s: its entryUUID cannot be read: you need the right to", u.DN)
	}
	token, value := auth.NewStoredToken(id, c.Until, c.Description)
	r := ldap.NewModifyRequest(u.DN, []ldap.Control{ldap.NewControlString(control.OIDPermissiveModify, true, "")})
	r.Add("objectClass", []string{tokenClass})
	r.Add("bearerToken", []string{value})
	if err := c.change(r); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s\nid: %s\ntoken: %s\n", u.DN, tokenID(value), token)
	return err
}

// tokenClass is the class of accounts that have had tokens. Secrets cannot be searched.
const tokenClass = "bearerTokenObject"

// tokenID returns the beginning of a token's hash, by which people name it.
func tokenID(value string) string { return value[:min(12, len(value))] }

// eachToken calls f for the values of all tokens below the base.
func eachToken(c *client, f func(account, value string)) error {
	all, err := c.search(c.base, ldap.ScopeWholeSubtree, "(objectClass="+tokenClass+")", "bearerToken")
	if err != nil {
		return c.failed(c.base, err)
	}
	for _, e := range all {
		values := e.GetAttributeValues("bearerToken")
		slices.Sort(values)
		for _, v := range values {
			f(e.DN, v)
		}
	}
	return nil
}

func listTokens(c *client) error {
	names := []string{"id", "account", "until", "note"}
	var rows [][]string
	err := eachToken(c, func(account, value string) {
		parts := append(strings.SplitN(value, " ", 3), "", "")
		rows = append(rows, []string{tokenID(value), account, parts[1], parts[2]})
	})
	if err != nil {
		return err
	}
	if c.out.format != cli.JSON {
		return c.out.table(append([][]string{names}, rows...))
	}
	var all []cli.Row
	for _, values := range rows {
		var r cli.Row
		for i, name := range names {
			r = append(r, cli.Field{Name: name, Value: values[i]})
		}
		all = append(all, r)
	}
	return cli.Print(c.out, cli.JSON, all, nil)
}

func revokeToken(c *client) error {
	var account, token string
	err := eachToken(c, func(a, value string) {
		if tokenID(value) == c.Names[0] {
			account, token = a, value
		}
	})
	if err != nil {
		return err
	}
	if token == "" {
		return fmt.Errorf("no token has the id %s: 'ldapd token list' shows them", c.Names[0])
	}
	r := ldap.NewModifyRequest(account, nil)
	r.Delete("bearerToken", []string{token})
	return c.change(r)
}
