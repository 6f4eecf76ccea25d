package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
	"github.com/seed-4dac0d86/ldapd/tools/migrate"
)

// An oldServer describes the server from which a directory is moved. The arguments of a job
// contain it.
type oldServer struct {
	Remote bulk.Remote
	Bases  []string
}

type migrateArgs struct {
	oldServer
	Follow, Finish, Cancel bool
	Different, ReadOnly    bool
}

var (
	migrateJob = cli.NewJob("migrate", migrateStore)
	compareJob = cli.NewJob("compare", compareStore)
)

// migrateCommands is the commands that copy another server.
type migrateCommands struct{ *cli.Main }

func (m migrateCommands) root() *cobra.Command {
	var a migrateArgs
	var from fromFlags
	keys := append([]string{"admin.dn", "access", "password-policy"}, cli.StoreKeys...)
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "migrate --store STORE --from URL [--bind DN --password-file FILE] [--base DN]... [--follow | --finish]",
		Short: "Move a directory here from a running server",
		Long: `Move a directory here from a running server: slapd, 389 Directory Server, ApacheDS,
another ldapd or any other LDAP server. The schema that this directory lacks is added, and the
entries are copied with their ids, times, names and password hashes. Each entry that is left out is
reported, with the reason. Access rules are not copied.

With --follow, the command keeps running and copies the changes that clients make on the
old server. Meanwhile, updates that are sent to this directory get a referral to the old
server. The command may be stopped; when it is started again, it continues where it was.

With --finish, the command catches up, compares the two, and asks you to make the old
server read-only. Then it copies and compares what was changed last, and opens this directory
for updates. If anything differs, it changes nothing.

If a server has the embedded store open, the server does the work.`,
		Example: `  ldapd migrate --store ./data --from ldaps://old.example.com --bind cn=admin,dc=example,dc=com --password-file pw --follow
  ldapd migrate --store ./data --password-file pw --finish`,
		Args: cobra.NoArgs,
	}, keys, func(ctx context.Context, c *config.Config, _ []string) error {
		var err error
		if a.oldServer, err = from.read(); err != nil {
			return err
		}
		if c.Store != "" && a.Follow && a.Finish || a.Cancel && (a.Follow || a.Finish) {
			return &config.Error{Text: "give one of --follow, --finish and --cancel"}
		}
		use := cli.Load
		if a.Finish || a.Cancel {
			use = cli.ReadWrite
		}
		return migrateJob.Run(ctx, m.Main, c, use, m.Around(), a)
	}))
	from.add(c)
	c.Flags().BoolVar(&a.Follow, "follow", false, "keep running, and copy the changes that are made on the old server")
	c.Flags().BoolVar(&a.Finish, "finish", false, "catch up, compare, and open this directory for updates")
	c.Flags().BoolVar(&a.ReadOnly, "read-only", false, "with --finish: the old server is read-only already, so do not ask")
	c.Flags().BoolVar(&a.Different, "accept-differences", false, "with --finish: open this directory for updates although entries differ or were left out")
	c.Flags().BoolVar(&a.Cancel, "cancel", false, "stop following the old server, without a comparison, and open this directory for updates")
	return c
}

func (m migrateCommands) compare() *cobra.Command {
	var from fromFlags
	keys := append([]string{"admin.dn"}, cli.StoreKeys...)
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "compare --store STORE --from URL [--bind DN --password-file FILE] [--base DN]...",
		Short: "Compare a directory with the directory of a running server",
		Long: `Compare a directory with the directory of a running server. Every entry that only one of
them has or that differs is printed, with the names of the attributes that differ, but
never their values. If this directory lacks an entry because it would refuse it, the
reason is printed. The exit status is 1 if anything differs.

Entries are the same if they have the same entryUUID, or the same name if the server
shows no entryUUIDs. Attributes that a server keeps for itself are not compared.`,
		Example: `  ldapd compare --store ./data --from ldaps://old.example.com --bind cn=admin,dc=example,dc=com --password-file pw`,
		Args:    cobra.NoArgs,
	}, keys, func(ctx context.Context, c *config.Config, _ []string) error {
		a, err := from.read()
		if err != nil {
			return err
		}
		return compareJob.Run(ctx, m.Main, c, cli.ReadWrite, m.Around(), a)
	}))
	from.add(c)
	return c
}

// fromFlags are the flags that name the old server.
type fromFlags struct {
	server                  oldServer
	passwordFile, authority string
}

func (f *fromFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.server.Remote.URL, "from", "", "`URL` of the old server: ldap://, ldaps:// or ldapi:// (default the server that the store follows)")
	c.Flags().StringVar(&f.server.Remote.BindDN, "bind", "", "`DN` to bind as at the old server; it must be allowed to read everything, without limits")
	c.Flags().StringVar(&f.passwordFile, "password-file", "", "`FILE` whose first line is the password for --bind")
	c.Flags().BoolVar(&f.server.Remote.StartTLS, "starttls", false, "use StartTLS before binding")
	c.Flags().StringVar(&f.authority, "ca", "", "`FILE` with the CA certificates that the server's certificate must lead to (default those of the system)")
	c.Flags().StringArrayVar(&f.server.Bases, "base", nil, "`DN` of a subtree to read, instead of all naming contexts; may be repeated")
}

// read reads the files that the flags name.
func (f *fromFlags) read() (oldServer, error) {
	if f.passwordFile != "" {
		b, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return f.server, &config.Error{Where: "--password-file", Text: err.Error()}
		}
		line, _, _ := strings.Cut(string(b), "\n")
		f.server.Remote.Password = strings.TrimRight(line, "\r")
	}
	if f.authority != "" {
		b, err := os.ReadFile(f.authority)
		if err != nil {
			return f.server, &config.Error{Where: "--ca", Text: err.Error()}
		}
		f.server.Remote.Authorities = b
	}
	return f.server, nil
}

// open connects to the old server. If the store follows a server, that server's address, user
// and bases are the defaults.
func (o *oldServer) open(w *cli.Work) (*migrate.Move, error) {
	if f := migrate.Followed(w.Partition); f != nil {
		if o.Remote.URL == "" {
			o.Remote.URL, o.Remote.StartTLS = f.URL, f.StartTLS
		}
		if o.Remote.BindDN == "" {
			o.Remote.BindDN = f.BindDN
		}
		if len(o.Bases) == 0 {
			o.Bases = f.Bases
		}
	}
	if o.Remote.URL == "" {
		return nil, &config.Error{Where: "--from", Text: "say which server, for example --from ldaps://old.example.com"}
	}
	if o.Remote.BindDN != "" && o.Remote.Password == "" {
		return nil, &config.Error{Where: "--password-file", Text: "give the password of " + o.Remote.BindDN}
	}
	src, err := migrate.Look(o.Remote, o.Bases)
	if err != nil {
		return nil, err
	}
	m, err := migrate.New(w.Partition, src, migrate.Options{
		By:       w.By(""),
		Note:     func(s string) { fmt.Fprintln(w.Stderr, "note:", s) },
		LeftOut:  func(name, why string) { fmt.Fprintf(w.Stderr, "left out: %s: %s\n", name, why) },
		Progress: w.Progress("migrate"),
	})
	if err != nil {
		src.Close()
	}
	return m, err
}

func migrateStore(ctx context.Context, w *cli.Work, a migrateArgs) error {
	if a.Cancel {
		return migrate.Cancel(ctx, w.Partition, w.By(""))
	}
	following := migrate.Followed(w.Partition) != nil
	m, err := a.open(w)
	if err != nil {
		return err
	}
	defer m.Close()
	switch {
	case !following && a.Finish:
		return errors.New("the store follows no server: `ldapd migrate --follow` copies one and follows it")
	case following:
		err = m.Resume(ctx)
	default:
		err = copyEntries(ctx, w, m, a.Follow)
	}
	switch {
	case err != nil || !a.Follow && !a.Finish && !following:
		return err
	case a.Finish:
		return finishMove(ctx, w, m, a)
	case !a.Follow:
		return m.CatchUp(ctx)
	}
	caught := func() { fmt.Fprintln(w.Stdout, "caught up") }
	if err = m.Follow(ctx, caught); errors.Is(err, migrate.ErrTaken) || errors.Is(err, migrate.ErrEnded) {
		fmt.Fprintln(w.Stderr, "note:", err)
		return nil
	}
	return err
}

// copyEntries copies the entries of the old server.
func copyEntries(ctx context.Context, w *cli.Work, m *migrate.Move, follow bool) error {
	n, rate, err := m.Copy(ctx, follow)
	if err == nil {
		fmt.Fprintln(w.Stdout, "copied", rate)
	}
	if n == 0 && err == nil {
		err = errors.New("nothing was copied")
	}
	return err
}

// finishMove ends a migration.
func finishMove(ctx context.Context, w *cli.Work, m *migrate.Move, a migrateArgs) error {
	quiet := func(ctx context.Context) error {
		if a.ReadOnly {
			return nil
		}
		fmt.Fprintln(w.Stderr, "Make the old server read-only now, or stop what writes there. Then press Enter.")
		return awaitEnter(ctx, w)
	}
	r, err := m.Finish(ctx, migrate.FinishOptions{Quiet: quiet, Different: a.Different})
	if r != nil {
		if e := printReport(w, r); e != nil {
			return e
		}
	}
	if errors.Is(err, migrate.ErrDifferent) {
		return fmt.Errorf("%w, so the store still follows: let clients write there again, or use --accept-differences", err)
	}
	return err
}

// awaitEnter waits until standard input has a line or ends.
func awaitEnter(ctx context.Context, w *cli.Work) error {
	line := make(chan struct{})
	go func() {
		defer close(line)
		_, _ = bufio.NewReader(w.Stdin).ReadString('\n')
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-line:
		return nil
	}
}

func printReport(w *cli.Work, r *migrate.Report) error {
	out := bufio.NewWriter(w.Stdout)
	for _, d := range r.Differences {
		fmt.Fprintln(out, d)
	}
	fmt.Fprintln(out, r)
	return out.Flush()
}

// differingTries is how often an entry that differs is compared again, because clients may
// write while a comparison runs.
const differingTries = 3

func compareStore(ctx context.Context, w *cli.Work, o oldServer) error {
	m, err := o.open(w)
	if err != nil {
		return err
	}
	defer m.Close()
	r, err := m.Compare(ctx, differingTries)
	if err != nil {
		return err
	}
	if err := printReport(w, r); err != nil {
		return err
	}
	if len(r.Differences) > 0 {
		return migrate.ErrDifferent
	}
	return nil
}
