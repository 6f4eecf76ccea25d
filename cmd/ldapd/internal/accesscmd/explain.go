package accesscmd

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// explainArgs are the arguments of the command besides the configuration.
type explainArgs struct {
	As, To, Attribute, Value, Right string
	From, Mechanism                 string
	Secure, Local                   bool
	Format                          cli.Format
}

var explainJob = cli.NewJob("access explain", explainAccess)

func (m commands) explain() *cobra.Command {
	var a explainArgs
	c := m.Command(&cobra.Command{
		Use:   "explain --store STORE [--as DN] --to DN [--attribute ATTR [--value V]] [--right RIGHTS]",
		Short: "Show what somebody may do with an entry, and which rules decide it",
		Example: `  ldapd access explain --store ./data --as uid=lena,ou=people,dc=example,dc=com \
      --to uid=jdoe,ou=people,dc=example,dc=com --attribute mobile --right show,insert --secure`,
		Args: cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		if _, err := a.parse(); err != nil {
			return err
		}
		return explainJob.Run(ctx, m.Main, c, cli.ReadOnly, m.Around(), a)
	})
	f := c.Flags()
	a.connectionFlags(f)
	f.StringVar(&a.To, "to", "", "`DN`, uid or mail of the entry")
	f.StringVar(&a.Attribute, "attribute", "", "`ATTR` to ask about; without it, the entry itself")
	f.StringVar(&a.Value, "value", "", "value `V` of the attribute; without it, all values")
	f.StringVar(&a.Right, "right", "", "`RIGHTS` to ask about, separated by commas; without it, all rights")
	return a.Format.AddTo(c)
}

// connectionFlags adds the flags that describe the requester and the requester's
// connection.
func (a *explainArgs) connectionFlags(f *pflag.FlagSet) {
	f.StringVar(&a.As, "as", "", "`DN`, uid or mail of the user; without it, an anonymous user")
	f.StringVar(&a.From, "from", "", "`ADDRESS` of the client")
	f.StringVar(&a.Mechanism, "mechanism", "simple", "`MECHANISM` of the bind")
	f.BoolVar(&a.Secure, "secure", false, "the client uses TLS")
	f.BoolVar(&a.Local, "local", false, "the client uses ldapi")
}

// question has the parsed arguments.
type question struct {
	who, about dn.DN
	rights     acl.Rights
	connection acl.Connection
}

// connected parses the arguments about the requester and the requester's connection.
func (a *explainArgs) connected() (q question, err error) {
	if q.who, err = cli.CheckName("--as", a.As); err != nil {
		return q, err
	}
	q.connection = acl.Connection{Secure: a.Secure, Local: a.Local, Mechanism: a.Mechanism, Time: time.Now()}
	if a.From != "" {
		if q.connection.Address, err = netip.ParseAddr(a.From); err != nil {
			return q, &config.Error{Where: "--from", Text: err.Error()}
		}
	}
	return q, nil
}

func (a *explainArgs) parse() (q question, err error) {
	if q, err = a.connected(); err != nil {
		return q, err
	}
	if q.about, err = cli.CheckName("--to", a.To); err != nil {
		return q, err
	}
	if a.To == "" {
		return q, &config.Error{Where: "--to", Text: "the name of an entry is needed"}
	}
	q.rights = acl.EntryRights
	if a.Attribute != "" {
		q.rights = acl.AttributeRights
	}
	if a.Right != "" {
		asked, ok := acl.ParseRights(a.Right)
		if !ok || asked&q.rights == 0 {
			return q, &config.Error{Where: "--right", Text: fmt.Sprintf("%q is none of %s", a.Right, q.rights)}
		}
		q.rights &= asked
	}
	return q, nil
}

// find replaces the uid or mail of an entry by the entry's DN.
func (a *explainArgs) find(ctx context.Context, w *cli.Work) error {
	for where, text := range map[string]*string{"--as": &a.As, "--to": &a.To} {
		name, err := w.Name(ctx, where, *text)
		if err != nil {
			return err
		}
		*text = name.String()
	}
	return nil
}

func explainAccess(ctx context.Context, w *cli.Work, a explainArgs) error {
	if err := a.find(ctx, w); err != nil {
		return err
	}
	q, err := a.parse()
	if err != nil {
		return err
	}
	s := state.Newest(w.Partition)
	defer s.Close()
	var t *schema.AttributeType
	options := ""
	if a.Attribute != "" {
		if t, options = s.Schema().Describe(a.Attribute); t == nil {
			return &config.Error{Where: "--attribute", Text: fmt.Sprintf("%q is not in the schema", a.Attribute)}
		}
	}
	c, err := access.NewRules().NewCase(ctx, s, q.who, q.about, q.connection)
	if err != nil {
		return err
	}
	type row struct {
		Right   string   `json:"right"`
		Allowed bool     `json:"allowed"`
		Allow   []string `json:"allow,omitempty"` // rules
		Deny    []string `json:"deny,omitempty"`
		Near    []string `json:"near,omitempty"` // rules that would allow it to others, or on other conditions
	}
	var rows []row
	out := tabwriter.NewWriter(w.Stdout, 0, 8, 2, ' ', 0)
	for _, right := range q.rights.Each() {
		question := acl.Question{Right: right, Type: t, Options: entry.SortOptions(options)}
		if a.Value != "" {
			question.Value = []byte(a.Value)
		}
		answer, err := c.Explain(question)
		if err != nil {
			return err
		}
		rows = append(rows, row{right.String(), answer.Allowed, answer.Allow, answer.Deny, answer.Near})
		fmt.Fprintf(out, "%s\t%s\n", right, reasons(answer))
	}
	if a.Format != cli.Text {
		return cli.Print(w.Stdout, a.Format, rows, nil)
	}
	printWho(w, c)
	return out.Flush()
}

func printWho(w *cli.Work, c *access.Case) {
	who := "the anonymous"
	if len(c.Name) > 0 {
		who = c.Name.String()
	}
	for _, g := range c.Groups {
		who += ", group " + g.Group.String()
	}
	fmt.Fprintln(w.Stdout, who)
}

// reasons returns an answer as text, with the rules that decided it.
func reasons(a acl.Answer) string {
	switch {
	case a.Allowed && len(a.Deny) > 0:
		return "yes\t" + strings.Join(a.Allow, ", ") + "; above the denials by the right manage: " + strings.Join(a.Deny, ", ")
	case a.Allowed:
		return "yes\t" + strings.Join(a.Allow, ", ")
	case len(a.Deny) > 0:
		return "no\tdenied by " + strings.Join(a.Deny, ", ")
	case len(a.Allow) > 0:
		return "no\tof some values or options only: " + strings.Join(a.Allow, ", ")
	case len(a.Near) > 0:
		return "no\tno rule allows it; to others, or on other conditions: " + strings.Join(a.Near, ", ")
	}
	return "no\tno rule allows it"
}
