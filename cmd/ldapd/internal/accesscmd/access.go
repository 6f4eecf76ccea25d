// Package accesscmd has the commands "ldapd access ...".
package accesscmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

// commands are the commands "ldapd access ...".
type commands struct{ *cli.Main }

// Command returns the command "ldapd access", with the commands below it.
func Command(main *cli.Main) *cobra.Command {
	m := commands{main}
	c := &cobra.Command{
		Use:   "access",
		Short: "Say who may see and do what, and why",
		Long: `Say who may see and do what, and why. The rules are sentences, one per line:

  staff: allow users to read cn, sn, mail, telephoneNumber in (objectClass=person)
  own: allow self to write userPassword, telephoneNumber, mobile
  "ou=people,dc=example,dc=com" helpdesk: allow group "cn=helpdesk,ou=groups,dc=example,dc=com"
      to write userPassword if secure

Something is permitted if at least one rule allows it and no rule denies it; the order
of the rules does not matter. A rule that begins with the name of an entry applies to
that entry and everything below it. The manual is docs/access.md.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(m.list(), m.show(), m.profile(), m.apply(),
		m.explain(), m.whoami(), m.check(), m.diff(), m.try(), m.edit(), m.importRules())
	return c
}

func (m commands) list() *cobra.Command {
	var a formatted
	return a.Format.AddTo(m.Command(&cobra.Command{
		Use:   "list --store STORE [--json | --csv]",
		Short: "Print the rules in force, as access apply takes them",
		Args:  cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		return listJob.Run(ctx, m.Main, c, cli.ReadOnly, m.Around(), a)
	}))
}

func (m commands) profile() *cobra.Command {
	return m.Command(&cobra.Command{
		Use:   "profile --store STORE NAME",
		Short: "Print a set of rules to start from: " + strings.Join(acl.Profiles, ", "),
		Long: `Print a set of rules to start from, as access apply takes them:

  staff     users read names, contact data, groups and POSIX attributes, and all of
            their own entries
  private   users read their own entries, and which groups they are in
  public    as staff, for everyone
  services  as staff, for the entries below ou=services
  open      everyone reads everything except secrets; this also applies to a store
            that never had rules

A new store has the rules of staff, or of the profile that --access names (serve,
import).`,
		Example: `  ldapd access profile --store ./data staff > rules
  ldapd access apply --store ./data rules`,
		Args: cobra.ExactArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		if !slices.Contains(acl.Profiles, args[0]) {
			return &config.Error{Text: fmt.Sprintf("%q is none of the profiles %s", args[0], strings.Join(acl.Profiles, ", "))}
		}
		return profileJob.Run(ctx, m.Main, c, cli.ReadOnly, m.Around(), args[0])
	})
}

func (m commands) apply() *cobra.Command {
	var a applyArgs
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "apply --store STORE [--dry-run] FILE",
		Short: "Replace the rules in force with the rules in a file",
		Long: `Replace the rules in force with the rules in a file, all in one step: when the command
is done, every server uses the new rules. "-" means standard input. The command prints
the rules that are added (+) and those that are removed (-).`,
		Args: cobra.ExactArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		text, err := m.read(args[0])
		if err != nil {
			return err
		}
		if _, err := acl.ReadFile(bytes.NewReader(text)); err != nil {
			return &config.Error{Where: args[0], Text: err.Error()}
		}
		a.Text = string(text)
		return applyJob.Run(ctx, m.Main, c, cli.ReadWrite, m.Around(), a)
	}))
	c.Flags().BoolVar(&a.DryRun, "dry-run", false, cli.DryRunHelp)
	return c
}

// read reads the file with the given name; "-" means standard input.
func (m commands) read(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(m.Stdin)
	}
	return os.ReadFile(name)
}

// formatted are the arguments of a job that only prints.
type formatted struct{ Format cli.Format }

// ruleText is a rule in JSON.
type ruleText struct {
	Name  string `json:"name"`
	Place string `json:"place"` // "": the whole directory
	Rule  string `json:"rule"`  // with its name and without its place
}

func ruleTextOf(r acl.Placed) ruleText {
	return ruleText{r.Rule.Name, r.Place.String(), r.Rule.String()}
}

type applyArgs struct {
	Text   string
	DryRun bool
	Was    *string // the printed rules that the user edited into Text
}

// Jobs are the jobs of the commands.
var Jobs = cli.Jobs{
	listJob, showJob, profileJob, applyJob, explainJob,
	whoamiJob, checkJob, diffJob, tryJob, importJob,
}

var (
	listJob    = cli.NewJob("access list", listAccess)
	profileJob = cli.NewJob("access profile", printProfile)
	applyJob   = cli.NewJob("access apply", applyAccess)
)

func listAccess(ctx context.Context, w *cli.Work, a formatted) error {
	s := state.Newest(w.Partition)
	defer s.Close()
	rules, err := access.Placed(ctx, s)
	if err != nil {
		return err
	}
	if a.Format == cli.Text {
		return printRules(w, rules)
	}
	var rows []ruleText
	for _, r := range rules {
		rows = append(rows, ruleTextOf(r))
	}
	return cli.Print(w.Stdout, a.Format, rows, nil)
}

func printRules(w *cli.Work, rules []acl.Placed) error {
	for _, r := range rules {
		if _, err := fmt.Fprintln(w.Stdout, r); err != nil {
			return err
		}
	}
	return nil
}

func printProfile(_ context.Context, w *cli.Work, name string) error {
	rules, err := acl.Profile(name, w.Schema(), w.Config().Suffixes)
	if err != nil {
		return err
	}
	placed := make([]acl.Placed, len(rules))
	for i, r := range rules {
		placed[i].Rule = r
	}
	return printRules(w, placed)
}

func applyAccess(ctx context.Context, w *cli.Work, a applyArgs) error {
	rules, err := acl.ReadFile(strings.NewReader(a.Text))
	if err != nil {
		return err
	}
	var before, after []string
	err = onlineschema.SetAccess(ctx, w.Partition, w.By("ldapd access apply"), func(s *partition.Snapshot, old []partition.AccessRule) ([]partition.AccessRule, error) {
		was, err := access.Placed(ctx, s)
		if err != nil {
			return nil, err
		}
		stored, err := access.Store(ctx, s, rules)
		if err != nil {
			return nil, err
		}
		before, after = ruleTexts(was), ruleTexts(rules)
		if a.Was != nil && *a.Was != strings.Join(before, "\n") {
			return nil, errEdited
		}
		if a.DryRun {
			return nil, cli.ErrDryRun
		}
		return stored, nil
	})
	if err != nil && !errors.Is(err, cli.ErrDryRun) {
		return err
	}
	return printDifference(w, before, after)
}

// errEdited is the error if somebody else changed the rules while the user edited them.
var errEdited = errors.New("the rules were changed meanwhile")

func ruleTexts(rules []acl.Placed) (texts []string) {
	for _, r := range rules {
		texts = append(texts, r.String())
	}
	return texts
}

// printDifference prints each removed line with a minus sign and each added line with a
// plus sign.
func printDifference(w *cli.Work, before, after []string) error {
	for _, s := range before {
		if !slices.Contains(after, s) {
			fmt.Fprintln(w.Stdout, "-", s)
		}
	}
	for _, s := range after {
		if !slices.Contains(before, s) {
			fmt.Fprintln(w.Stdout, "+", s)
		}
	}
	return nil
}
