package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/dn"
)

// accountCommands are the commands "ldapd account ...".
type accountCommands struct{ *cli.Main }

func (m accountCommands) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "account",
		Short: "Show and repair accounts: why somebody cannot bind, and until when",
		Long: `Show and repair accounts: why somebody cannot bind, and until when. Password policies
determine what a password must be like and when it expires. The manual is
docs/accounts.md.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, a := range accountActions {
		c.AddCommand(m.action(a.verb, a.short, a.use))
	}
	c.AddCommand(m.totp())
	return c
}

// accountActions are the commands whose only argument is a name.
var accountActions = []struct {
	verb, short string
	use         cli.Mode
	do          func(ctx context.Context, w *cli.Work, a *directory.Accounts, name dn.DN) error // nil: see doAccount
}{
	{"show", "Print the policy, the password's age, failures and state of an account", cli.ReadOnly, nil},
	{"policy", "Print which password policy applies to an entry, and why", cli.ReadOnly, nil},
	{"unlock", "Delete the failures that lock an account", cli.ReadWrite,
		func(ctx context.Context, _ *cli.Work, a *directory.Accounts, name dn.DN) error {
			return a.Unlock(ctx, name)
		}},
	{"disable", "Disable an account, so that nobody can bind with it", cli.ReadWrite,
		func(ctx context.Context, _ *cli.Work, a *directory.Accounts, name dn.DN) error {
			return a.Disable(ctx, name)
		}},
	{"enable", "Enable an account that was disabled", cli.ReadWrite,
		func(ctx context.Context, _ *cli.Work, a *directory.Accounts, name dn.DN) error {
			return a.Enable(ctx, name)
		}},
	{"reset", "Give an account a new password, to be changed at the next bind, and print it", cli.ReadWrite, resetAccount},
}

type accountArgs struct {
	Verb, Name, Issuer string
	End                bool
	Format             cli.Format
}

var accountJob = cli.NewJob("account", doAccount)

func (m accountCommands) action(verb, short string, use cli.Mode) *cobra.Command {
	a := accountArgs{Verb: verb}
	c := m.Command(&cobra.Command{
		Use:     verb + " --store STORE NAME",
		Short:   short,
		Long:    short + ". NAME is a DN, or\nthe uid or mail of the entry.",
		Example: "  ldapd account " + verb + " --store ./data jdoe",
		Args:    cobra.ExactArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a.Name = args[0]
		return m.do(ctx, c, use, a)
	})
	if use == cli.ReadWrite {
		return cli.Accepts(c)
	}
	return a.Format.AddTo(c)
}

func (m accountCommands) totp() *cobra.Command {
	a := accountArgs{Verb: "totp"}
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "totp --store STORE [--issuer NAME] [--end] NAME",
		Short: "Require a time-based code after an account's password (TOTP)",
		Long: `Require a time-based code after an account's password (RFC 6238). The command makes a
secret and prints it as an otpauth URI, which an authenticator application reads. The
secret cannot be shown again. With --end, the password needs no code any more.`,
		Example: "  ldapd account totp --store ./data jdoe | qrencode -t ansi",
		Args:    cobra.ExactArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		a.Name = args[0]
		return m.do(ctx, c, cli.ReadWrite, a)
	}))
	c.Flags().StringVar(&a.Issuer, "issuer", "ldapd", "`NAME` of the directory that the application shows")
	c.Flags().BoolVar(&a.End, "end", false, "require no codes any more")
	return c
}

func (m accountCommands) do(ctx context.Context, c *config.Config, use cli.Mode, a accountArgs) error {
	if _, err := cli.CheckName("NAME", a.Name); err != nil {
		return err
	}
	return accountJob.Run(ctx, m.Main, c, use, m.Around(), a)
}

func doAccount(ctx context.Context, w *cli.Work, args accountArgs) error {
	name, err := w.Name(ctx, "NAME", args.Name)
	if err != nil {
		return err
	}
	a, err := directory.NewAccounts(w.Partition, w.Signer)
	if err != nil {
		return err
	}
	defer a.Close()
	switch args.Verb {
	case "totp":
		return totpOf(ctx, w, a, name, args)
	case "show", "policy":
		return showAccount(ctx, w, a, name, args)
	}
	for _, action := range accountActions {
		if action.verb == args.Verb {
			return action.do(ctx, w, a, name)
		}
	}
	return fmt.Errorf("this version does not do account %s", args.Verb)
}

func totpOf(ctx context.Context, w *cli.Work, a *directory.Accounts, name dn.DN, args accountArgs) error {
	if args.End {
		return a.EndTOTP(ctx, name)
	}
	uri, err := a.StartTOTP(ctx, name, args.Issuer)
	if err == nil {
		_, err = fmt.Fprintln(w.Stdout, uri)
	}
	return err
}

func resetAccount(ctx context.Context, w *cli.Work, a *directory.Accounts, name dn.DN) error {
	password, err := a.Reset(ctx, name)
	if err == nil {
		_, err = fmt.Fprintln(w.Stdout, password)
	}
	return err
}

// accountText is an account in JSON. Times that are not known are absent.
type accountText struct {
	DN          string      `json:"dn"`
	Policy      string      `json:"policy,omitempty"` // its name
	Why         string      `json:"policyWhy,omitempty"`
	State       string      `json:"state,omitempty"`
	HasPassword bool        `json:"hasPassword"`
	Scheme      string      `json:"scheme,omitempty"`
	Changed     *time.Time  `json:"passwordChanged,omitempty"`
	Expires     *time.Time  `json:"passwordExpires,omitempty"`
	Failures    []time.Time `json:"failures,omitempty"`
	Locked      bool        `json:"locked"`
	LockedUntil *time.Time  `json:"lockedUntil,omitempty"` // absent for a locked account: until it is unlocked
	Disabled    bool        `json:"disabled"`
	Success     *time.Time  `json:"lastSuccess,omitempty"`
	NeedsCode   bool        `json:"needsCode"`
	text        string
}

// known returns a time in UTC, or nil for the zero time.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func showAccount(ctx context.Context, w *cli.Work, a *directory.Accounts, name dn.DN, args accountArgs) error {
	r, err := a.Report(ctx, name)
	if err != nil {
		return err
	}
	now := time.Now()
	x := accountText{DN: name.String(), Why: r.Why, State: stateLine(r, now), HasPassword: r.HasPassword, Scheme: strings.Trim(r.Scheme, "{}"),
		Changed: known(r.State.Changed), Expires: known(r.Expires), Locked: r.Lock.Locked, LockedUntil: known(r.Lock.Until),
		Disabled: r.State.Disabled, Success: known(r.State.Success), NeedsCode: r.NeedsCode, text: policyLine(r)}
	if r.Policy != nil {
		x.Policy = r.Policy.Name
	}
	for _, t := range r.Lock.Kept {
		x.Failures = append(x.Failures, t.UTC())
	}
	if args.Verb == "show" {
		x.text = fmt.Sprintf("policy    %s\npassword  %s\nfailures  %s\nstate     %s", x.text, passwordLine(r, now), failureLine(r), x.State)
	}
	return cli.Print(w.Stdout, args.Format, []accountText{x}, func(x accountText) string { return x.text })
}

func policyLine(r *directory.AccountReport) string {
	if r.Policy == nil {
		return "none"
	}
	return r.Policy.Name + ": " + r.Why
}

func passwordLine(r *directory.AccountReport, now time.Time) string {
	if !r.HasPassword {
		return "none"
	}
	said := []string{"of unknown age"}
	if !r.State.Changed.IsZero() {
		said[0] = "set " + r.State.Changed.UTC().Format(time.RFC3339)
	}
	if r.Scheme != "" {
		said = append(said, strings.Trim(r.Scheme, "{}"))
	}
	switch {
	case r.Expires.IsZero():
	case now.Before(r.Expires):
		said = append(said, "expires "+r.Expires.UTC().Format(time.RFC3339))
	default:
		said = append(said, "expired "+r.Expires.UTC().Format(time.RFC3339))
	}
	if r.Old > 0 {
		said = append(said, fmt.Sprintf("%d old ones kept", r.Old))
	}
	return strings.Join(said, ", ")
}

func failureLine(r *directory.AccountReport) string {
	if !r.Policy.Counts() {
		return "not counted"
	}
	if len(r.Lock.Kept) == 0 {
		return "none"
	}
	var times []string
	for _, t := range r.Lock.Kept {
		times = append(times, t.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%d of %d: %s", len(times), r.Policy.MaxFailure, strings.Join(times, ", "))
}

func stateLine(r *directory.AccountReport, now time.Time) string {
	var said []string
	switch o := r.Policy.AfterPassword(&r.State, now); {
	case r.Lock.Locked && r.Lock.Until.IsZero():
		said = append(said, "locked by failures until it is unlocked")
	case r.Lock.Locked:
		said = append(said, "locked by failures until "+r.Lock.Until.UTC().Format(time.RFC3339))
	case r.State.Disabled:
		said = append(said, "disabled")
	case !r.Usable:
		said = append(said, "not valid now")
	case o.Refused == account.Unusable:
		said = append(said, "idle for too long")
	case o.Refused != account.None:
		said = append(said, "the password lets nobody in any more")
	case o.MustChange:
		said = append(said, "the password must be changed")
	default:
		said = append(said, "usable")
	}
	if !r.State.Success.IsZero() {
		said = append(said, "last success "+r.State.Success.UTC().Format(time.RFC3339))
	}
	if r.NeedsCode {
		said = append(said, "a code is needed")
	}
	return strings.Join(said, "; ")
}
