package accesscmd

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

var showJob = cli.NewJob("access show", showAccess)

func (m commands) show() *cobra.Command {
	var a showArgs
	return a.Format.AddTo(m.Command(&cobra.Command{
		Use:   "show --store STORE [--json | --csv] DN|RULE",
		Short: "Print the rules at an entry, or one rule, and who changed them last",
		Long: `Print the rules at an entry, or one rule, with the entries that they name and who
changed them last. The rules for the whole directory are at cn=config. The name of a
rule has the form that access explain prints: boss@ou=people,dc=example,dc=com.`,
		Example: `  ldapd access show --store ./data cn=config
  ldapd access show --store ./data boss@ou=people,dc=example,dc=com`,
		Args: cobra.ExactArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		if _, _, err := ruleLabel(args[0]); err != nil {
			return err
		}
		a.Label = args[0]
		return showJob.Run(ctx, m.Main, c, cli.ReadOnly, m.Around(), a)
	}))
}

// showArgs are the arguments of the command besides the configuration.
type showArgs struct {
	Label  string // of a rule or a place
	Format cli.Format
}

// ruleLabel splits the label of a rule, NAME@PLACE, into name and place. If the label
// is only a place, the name is empty. A place without RDNs is the whole directory.
func ruleLabel(text string) (rule string, place dn.DN, err error) {
	if before, after, ok := strings.Cut(text, "@"); ok && !strings.ContainsAny(before, "=,") {
		rule, text = before, after
	}
	if place, err = cli.ParseName(text, text); err != nil {
		return "", nil, err
	}
	if catalog.IsConfig(place) {
		place = nil
	}
	return rule, place, nil
}

func showAccess(ctx context.Context, w *cli.Work, a showArgs) error {
	name, place, err := ruleLabel(a.Label)
	if err != nil {
		return err
	}
	now, err := state.ParsePointInTime("now")
	if err != nil {
		return err
	}
	s, err := history.State(ctx, w.Partition, now)
	if err != nil {
		return err
	}
	defer s.Close()
	at := partition.Located{ID: entry.Root}
	if len(place) > 0 {
		if at, err = s.Find(ctx, place); err != nil {
			return err
		}
	}
	shown, err := access.Show(ctx, w.Partition, s, at.ID, name)
	if err != nil {
		return err
	}
	if len(shown) == 0 && name != "" {
		return fmt.Errorf("there is no rule %s", a.Label)
	}
	if a.Format != cli.Text {
		return printShownAs(w, a.Format, shown)
	}
	return printShown(w, shown)
}

// printShownAs prints rules in JSON or CSV. The time and the author are those of the rule's last change.
func printShownAs(w *cli.Work, f cli.Format, rules []access.Shown) error {
	type row struct {
		ruleText
		Names    []string   `json:"names,omitempty"` // the entries that the rule names
		Changed  *time.Time `json:"changed,omitempty"`
		Revision string     `json:"revision,omitempty"`
		By       string     `json:"by,omitempty"`
	}
	var rows []row
	for _, r := range rules {
		x := row{ruleText: ruleTextOf(r.Placed), By: r.Change.By.Name}
		for _, n := range r.Names {
			x.Names = append(x.Names, entryName(n.Name))
		}
		if r.Change.Revision != 0 {
			at := r.Change.Revision.Time().UTC()
			x.Changed, x.Revision = &at, r.Change.Revision.String()
		}
		rows = append(rows, x)
	}
	return cli.Print(w.Stdout, f, rows, nil)
}

func printShown(w *cli.Work, rules []access.Shown) error {
	for i, r := range rules {
		if i > 0 {
			fmt.Fprintln(w.Stdout)
		}
		fmt.Fprintln(w.Stdout, r.Placed)
		out := tabwriter.NewWriter(w.Stdout, 0, 8, 2, ' ', 0)
		for _, n := range append([]access.NamedEntry{{Name: r.Place.String(), ID: r.At, What: "place"}}, r.Names...) {
			fmt.Fprintf(out, "  %s\t%s\t%s\n", n.What, entryName(n.Name), entryID(n.ID))
		}
		fmt.Fprintf(out, "  changed\t%s\n", changeText(r.Change))
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func entryName(name string) string {
	if name == "" {
		return catalog.ConfigName
	}
	return name
}

func entryID(id entry.ID) string {
	if id == entry.Root {
		return ""
	}
	return id.String()
}

// changeText returns a text that says who made a change, and when.
func changeText(c access.Change) string {
	if c.Revision == 0 {
		return "before what the history has"
	}
	text := c.Revision.Time().UTC().Format(time.RFC3339) + ", revision " + c.Revision.String()
	if c.By.Name != "" {
		text += ", by " + c.By.Name
	}
	if c.By.From != "" {
		text += " from " + c.By.From
	}
	if c.By.Request != "" {
		text += ", request " + c.By.Request
	}
	return text
}

var whoamiJob = cli.NewJob("access whoami", whoamiAccess)

func (m commands) whoami() *cobra.Command {
	var a explainArgs
	c := m.Command(&cobra.Command{
		Use:   "whoami --store STORE [--as DN]",
		Short: "Print the groups of somebody, and the rules that apply to them",
		Long: `Print the groups of somebody, with the groups through which they are members, and the
rules that apply to them: on this connection, for some entries only (such as their own),
or only on another kind of connection.`,
		Example: `  ldapd access whoami --store ./data --as uid=lena,ou=people,dc=example,dc=com --secure`,
		Args:    cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		if _, err := a.connected(); err != nil {
			return err
		}
		return whoamiJob.Run(ctx, m.Main, c, cli.ReadOnly, m.Around(), a)
	})
	a.connectionFlags(c.Flags())
	return c
}

func whoamiAccess(ctx context.Context, w *cli.Work, a explainArgs) error {
	if err := a.find(ctx, w); err != nil {
		return err
	}
	q, err := a.connected()
	if err != nil {
		return err
	}
	s := state.Newest(w.Partition)
	defer s.Close()
	rules := access.NewRules()
	x, err := rules.Somebody(ctx, s, q.who, q.connection)
	if partition.Is(err, partition.NoSuchEntry) {
		return &config.Error{Where: "--as", Text: err.Error()}
	}
	if err != nil {
		return err
	}
	set, err := rules.Set(ctx, s)
	if err != nil {
		return err
	}
	printSomebody(w, x)
	return printStandings(w, set.Rules(), x.Program.Standings())
}

func printSomebody(w *cli.Work, x *access.Somebody) {
	if x.ID == entry.Root {
		fmt.Fprintln(w.Stdout, "the anonymous")
		return
	}
	fmt.Fprintf(w.Stdout, "%s, entryUUID %s\n", x.Name, x.ID)
	for _, g := range x.Groups {
		text := "group " + g.Group.String()
		for i, t := range g.Through {
			text += []string{" through ", ", then "}[min(i, 1)] + t.String()
		}
		fmt.Fprintln(w.Stdout, text)
	}
}

// standings has the headings under which whoami prints rules.
var standings = map[acl.Standing]string{
	acl.For:     "for them",
	acl.ByEntry: "for them, of some entries",
	acl.Unmet:   "on other conditions only",
}

func printStandings(w *cli.Work, rules []acl.Placed, how []acl.Standing) error {
	for _, standing := range []acl.Standing{acl.For, acl.ByEntry, acl.Unmet} {
		heading := standings[standing] + ":\n"
		for i, r := range rules {
			if how[i] != standing {
				continue
			}
			if _, err := fmt.Fprintf(w.Stdout, "%s  %s\n", heading, r); err != nil {
				return err
			}
			heading = ""
		}
	}
	return nil
}

var checkJob = cli.NewJob("access check", checkAccess)

func (m commands) check() *cobra.Command {
	var a formatted
	return a.Format.AddTo(m.Command(&cobra.Command{
		Use:   "check --store STORE [--json | --csv]",
		Short: "Find rules that have no effect, or that let somebody give themselves rights",
		Long: `Find rules that never apply, that change nothing because another rule says the same, or
that name somebody whose entry was deleted. Also find rules that let somebody write what
another rule depends on: the members of a group, an attribute in a filter, the password
of an account. Not every rule that is found is wrong. The exit status is 0.`,
		Args: cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		return checkJob.Run(ctx, m.Main, c, cli.ReadOnly, m.Around(), a)
	}))
}

func checkAccess(ctx context.Context, w *cli.Work, a formatted) error {
	s := state.Newest(w.Partition)
	defer s.Close()
	found, err := access.Check(ctx, s)
	if err != nil {
		return err
	}
	type row struct {
		Rule string `json:"rule"`
		Text string `json:"text"`
	}
	var rows []row
	for _, f := range found {
		rows = append(rows, row{f.Rule.Label(), f.Text})
	}
	return cli.Print(w.Stdout, a.Format, rows, func(r row) string { return r.Rule + " " + r.Text })
}
