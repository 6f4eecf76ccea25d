// Package people has the commands about users and groups. They are a client of LDAP operations. With
// --url, a running server does the operations. With --store, a directory in the process that has
// the store open does them, for the administrator.
package people

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/remote"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
)

// A task is what one command does.
type task struct {
	Verb   string   // a key of verbs
	Names  []string // the arguments
	People config.People
	Format cli.Format

	// A new user or group.
	CN, Mail, Description, GID string
	Set, Members               []string
	Service, Posix             bool

	Password   string // "": none
	Generated  bool   // the password is printed
	MustChange *bool  // nil: as the password policy says

	Until time.Time // of a token; zero: no end

	// Which users are listed.
	Locked         bool
	Expiring, Idle time.Duration // 0: whenever
}

var verbs = map[string]func(*client) error{
	"user add": (*client).addUser, "user list": (*client).listUsers, "user show": (*client).showUser,
	"user set": (*client).setUser, "user passwd": (*client).setPassword,
	"user lock": (*client).lockUser, "user unlock": (*client).unlockUser, "user delete": (*client).deleteUser,
	"group add": (*client).addGroup, "group list": (*client).listGroups, "group show": (*client).showGroup,
	"token add": addToken, "token list": listTokens, "token revoke": revokeToken,
	"group delete": (*client).deleteGroup, "group member add": (*client).addMembers, "group member remove": (*client).removeMembers,
}

// Job does a task on a store.
var Job = cli.NewJob("people", onStore, "people.base")

// commands are the commands, with the server that they are for.
type commands struct {
	remote.Server
}

// Commands returns the commands "ldapd user ...", "ldapd group ..." and "ldapd token ...".
func Commands(m *cli.Main) []*cobra.Command {
	c := &commands{remote.Server{Main: m}}
	user := c.parent("user", "Add, show and change users", `Add, show and change users, and accounts of services. A user is named by uid, mail or DN. The
manual is docs/people.md.`)
	user.AddCommand(c.userAdd(), c.list("user"), c.show("user"), c.userSet(), c.userPasswd(),
		c.verb("user lock", "lock USER", "Lock an account, so that nobody can bind with it", cli.ReadWrite, 1, nil),
		c.verb("user unlock", "unlock USER", "Unlock an account that was locked by command or by wrong passwords", cli.ReadWrite, 1, nil),
		c.verb("user delete", "delete USER", "Delete a user, who also leaves all groups", cli.ReadWrite, 1, nil))
	group := c.parent("group", "Add, show and change groups", `Add, show and change groups. A group is named by cn or DN, its members as users are, or as
groups are. The manual is docs/people.md.`)
	member := c.parent("member", "Add members to a group, and remove them", "Add members to a group, and remove them.")
	member.AddCommand(
		c.verb("group member add", "add GROUP MEMBER...", "Add members to a group", cli.ReadWrite, 2, nil),
		c.verb("group member remove", "remove GROUP MEMBER...", "Remove members from a group", cli.ReadWrite, 2, nil))
	group.AddCommand(c.groupAdd(), c.list("group"), c.show("group"),
		c.verb("group delete", "delete GROUP", "Delete a group", cli.ReadWrite, 1, nil), member)
	return []*cobra.Command{user, group, c.tokens()}
}

func (m *commands) parent(use, short, long string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
}

// verb returns a command with at least as many arguments as given; exactly one, if that is 1.
// The function prepare, if there is one, adds flags to it and returns what completes the task.
func (m *commands) verb(verb, use, short string, mode cli.Mode, arguments int, prepare func(*cobra.Command, *task) func() error) *cobra.Command {
	t := &task{Verb: verb}
	var complete func() error
	name, rest, _ := strings.Cut(use, " ")
	args := cobra.MinimumNArgs(arguments)
	if arguments < 2 {
		args = cobra.ExactArgs(arguments)
	}
	c := m.Command(&cobra.Command{
		Use:     strings.TrimSpace(name + " (--url URL --bind DN | --store STORE) " + rest),
		Short:   short,
		Example: examples[verb],
		Args:    args,
	}, append([]string{"people.base"}, cli.StoreKeys...), func(ctx context.Context, c *config.Config, args []string) error {
		t.Names, t.People = args, c.People
		if err := m.Check(c); err != nil {
			return err
		}
		if complete != nil {
			if err := complete(); err != nil {
				return err
			}
		}
		return m.run(ctx, c, mode, t)
	})
	m.AddFlags(c)
	if prepare != nil {
		complete = prepare(c, t)
	}
	if mode == cli.ReadWrite {
		return cli.Accepts(c)
	}
	return c
}

// examples are examples of those commands that are used most.
var examples = map[string]string{
	"user add": `  ldapd user add --url ldaps://ldap.example.com --bind cn=admin,dc=example,dc=com --name "Ann Lee" --mail ann@example.com ann
  ldapd user add --store ./data --service mailer`,
	"user list":   `  ldapd user list --store ./data --idle 90d --csv`,
	"user show":   `  ldapd user show --store ./data ann@example.com`,
	"user set":    `  ldapd user set --store ./data ann title=Captain telephoneNumber+=+4130123 mobile=`,
	"user passwd": `  ldapd user passwd --store ./data --password generate --must-change ann`,
	"token add":   `  ldapd token add --store ./data --as provisioner --until 365d --note "the identity provider"`,
	"group add":   `  ldapd group add --store ./data --member ann --member bob staff`,
}

func (m *commands) userAdd() *cobra.Command {
	c := m.verb("user add", "add NAME", "Add a user, or the account of a service", cli.ReadWrite, 1, func(c *cobra.Command, t *task) func() error {
		f := c.Flags()
		f.StringVar(&t.CN, "name", "", "full `NAME`, such as \"Ann Lee\" (default the argument)")
		f.StringVar(&t.Mail, "mail", "", "`ADDRESS`")
		f.StringArrayVar(&t.Set, "set", nil, "`ATTR=VALUE` of the new entry; may be repeated")
		f.BoolVar(&t.Service, "service", false, "add the account of a service, whose password need never be changed because somebody else set it")
		f.BoolVar(&t.Posix, "posix", false, "give numbers, a home directory and a shell for Unix machines")
		f.StringVar(&t.GID, "gid", "", "with --posix: `NUMBER` or name of the main group (default a number of the user's own)")
		return m.password(c, t, "generate")
	})
	c.Long = `Add a user, or the account of a service. The keys people.* of the configuration say where,
and with which classes. The password is generated and printed once; with --password type
it is typed, or read from the first line of standard input.

With --posix, the numbers come from the entry cn=numbers below people.base, which gives
each out once, at whichever server, even if a user is deleted. Numbers that users and
groups have already are passed over.`
	return c
}

func (m *commands) userPasswd() *cobra.Command {
	return m.verb("user passwd", "passwd USER", "Set the password of a user", cli.ReadWrite, 1, func(c *cobra.Command, t *task) func() error {
		return m.password(c, t, "type")
	})
}

// password adds the flags for a new password. The function that it returns asks for the password,
// or generates it.
func (m *commands) password(c *cobra.Command, t *task, standard string) func() error {
	var how string
	var must bool
	c.Flags().StringVar(&how, "password", standard, "`HOW` the password is found: type, generate or none")
	c.Flags().BoolVar(&must, "must-change", false, "the password must be changed at its first use; with =false, it need not be (default: as the password policy says)")
	return func() (err error) {
		if c.Flags().Changed("must-change") {
			t.MustChange = &must
		}
		if t.Service && t.MustChange != nil && must {
			return &config.Error{Where: "--must-change", Text: "a service cannot change its password: leave out --service or --must-change"}
		}
		switch how {
		case "generate":
			t.Password, t.Generated = string(auth.Generate()), true
		case "type":
			if t.Password, err = m.NewPassword(); err == nil && t.Password == "" {
				err = &config.Error{Where: "--password", Text: "the password is empty: nobody could bind with it"}
			}
		case "none":
			if t.Verb == "user passwd" {
				err = &config.Error{Where: "--password", Text: "'ldapd user lock' makes an account unusable"}
			}
		default:
			err = &config.Error{Where: "--password", Text: fmt.Sprintf("%q is none of type, generate and none", how)}
		}
		return err
	}
}

func (m *commands) userSet() *cobra.Command {
	c := m.verb("user set", "set USER ATTR=VALUE...", "Change attributes of a user", cli.ReadWrite, 2, func(_ *cobra.Command, t *task) func() error {
		return func() error { t.Names, t.Set = t.Names[:1], t.Names[1:]; return nil }
	})
	c.Long = `Change attributes of a user, all at once: ATTR=VALUE replaces all values, ATTR= removes
them, ATTR+=VALUE adds a value and ATTR-=VALUE removes one. A new value of the attribute
in the entry's name then renames the entry, and groups follow.`
	return c
}

func (m *commands) groupAdd() *cobra.Command {
	c := m.verb("group add", "add NAME", "Add a group", cli.ReadWrite, 1, func(c *cobra.Command, t *task) func() error {
		f := c.Flags()
		f.StringArrayVar(&t.Members, "member", nil, "`USER` or group that is a member; may be repeated")
		f.StringVar(&t.Description, "description", "", "`TEXT`")
		f.BoolVar(&t.Posix, "posix", false, "make a group for Unix machines (posixGroup, memberUid), with a number")
		return nil
	})
	c.Long = `Add a group. If its class requires a member and none is given, the empty name takes that
place, which the first member that is added replaces.`
	return c
}

func (m *commands) list(kind string) *cobra.Command {
	return m.verb(kind+" list", "list", "List "+kind+"s", cli.ReadOnly, 0, func(c *cobra.Command, t *task) func() error {
		t.Format.AddTo(c)
		if kind == "group" {
			return nil
		}
		var expiring, idle string
		f := c.Flags()
		f.BoolVar(&t.Locked, "locked", false, "only users whose account is locked")
		f.StringVar(&expiring, "expiring", "", "only users whose password expires within this `TIME`, such as 14d, or has expired")
		f.StringVar(&idle, "idle", "", "only users who have not bound for this `TIME`, such as 90d")
		return func() (err error) {
			if t.Expiring, err = days("--expiring", expiring); err != nil {
				return err
			}
			t.Idle, err = days("--idle", idle)
			return err
		}
	})
}

func (m *commands) show(kind string) *cobra.Command {
	return m.verb(kind+" show", "show "+strings.ToUpper(kind), "Show a "+kind, cli.ReadOnly, 1, func(c *cobra.Command, t *task) func() error {
		t.Format.AddTo(c)
		return nil
	})
}

// days parses a duration, which may be a number of days.
func days(where, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(number); err == nil && n > 0 && n < 1e5 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	return 0, &config.Error{Where: where, Text: fmt.Sprintf("%q is not a time such as 14d or 12h", text)}
}
