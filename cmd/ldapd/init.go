package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/certs"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
)

// packaged is the configuration that the service of a package runs with.
const packaged = "/etc/ldapd/ldapd.yaml"

// Answers to the question about the certificate. Every other answer is the name of a file.
const (
	selfSigned    = config.SelfSigned
	noCertificate = "none"
)

// noStatus is the answer for a server without a status listener.
const noStatus = "none"

// initCommands is the command "ldapd init".
type initCommands struct{ *cli.Main }

func (m initCommands) root() *cobra.Command {
	s := &setup{}
	c := &cobra.Command{
		Use:   "init [--config FILE] [--suffix DN] [--password-file FILE] [--tls-certificate FILE] ...",
		Short: "Set up a new directory: configuration, certificate, store and first entries",
		Long: `Set up a new directory: ask for what cannot be guessed, make the store with the entries
that every directory has, and write the configuration to --config. If the file or the
store exists already, the command changes nothing.

Each question can also be answered by a flag. Without a terminal, all flags that have no
default must be given. If root runs the command, the new files belong to the owner of
the folder in which the store is made.`,
		Example: `  ldapd init
  ldapd init --config ldapd.yaml --suffix dc=example,dc=com --password-file pw --tls-certificate self-signed`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m.Working = true
			s.file, _ = c.Flags().GetString("config")
			if err := m.questions(c).answer(s); err != nil {
				return err
			}
			return m.setUp(c.Context(), s)
		},
	}
	f := c.Flags()
	f.StringVar(&s.suffix, "suffix", "", "`DN` of the topmost entry, which the command adds")
	f.StringVar(&s.admin, "admin-dn", "", "`DN` of the administrator, who needs no entry (default cn=admin below the suffix)")
	f.StringVar(&s.passwordFile, "password-file", "", "`FILE` whose first line is the administrator's password or its hash; - is standard input")
	f.StringVar(&s.store, "store", "", "`FOLDER` of the new store (default /var/lib/ldapd/store for a package's service, else data)")
	f.StringVar(&s.certificate, "tls-certificate", "", "`FILE` with the server's certificate in PEM; "+selfSigned+" makes one, "+noCertificate+" does without")
	f.StringVar(&s.key, "tls-key", "", "`FILE` with the certificate's key in PEM")
	f.StringSliceVar(&s.hosts, "hosts", nil, "`NAMES` in a self-signed certificate (default this machine's names)")
	f.StringVar(&s.listen, "listen", "", "`URLS` to serve, separated by spaces (default: all addresses for root and for a package's service, else the loopback address)")
	f.StringVar(&s.status, "status-listen", "http://127.0.0.1:3892", "`URL` for health, metrics and the list of servers; "+noStatus+" does without")
	f.StringVar(&s.console, "console-listen", "", "`URL`, such as https://0.0.0.0:8443, of pages for a browser (see docs/console.md); without it there are none")
	f.StringVar(&s.folders, "folders", "people,groups", "`NAMES` of the units (ou) below the suffix, separated by commas")
	f.StringVar(&s.access, "access", "staff", "`PROFILE` of the first access rules: "+strings.Join(acl.Profiles, ", "))
	f.StringVar(&s.policy, "password-policy", "default", "first `POLICY` for passwords: default or none")
	return c
}

// A setup has the answers by which a directory is set up.
type setup struct {
	file                 string // the configuration
	suffix, admin, store string
	passwordFile         string
	password             string // in clear or hashed
	certificate, key     string
	hosts                []string
	listen               string // separated by spaces
	status, console      string
	folders              string
	access, policy       string
}

// A question is answered by a flag, by what somebody types, or by its default.
type question struct {
	flag, prompt, text string
	value              *string
	check              func(string) error
}

// questions asks the user for the answers that no flag has given.
type questions struct {
	in    *bufio.Reader // nil: nobody is there to be asked
	out   io.Writer
	hide  func(prompt string) (string, error) // asks for a password and does not show it
	stdin io.Reader
	given func(flag string) bool
}

func (m initCommands) questions(c *cobra.Command) *questions {
	q := &questions{out: m.Stderr, stdin: m.Stdin, given: func(flag string) bool { return c.Flags().Changed(flag) }}
	if m.Interactive() {
		q.in, q.hide = bufio.NewReader(m.Stdin), m.AskHidden
	}
	return q
}

// answer completes s. If nobody can be asked, it returns an error that names the missing
// flags.
func (q *questions) answer(s *setup) error {
	if err := s.place(); err != nil {
		return err
	}
	var missing []string
	ask := func(flag, prompt, text, standard string, value *string, check func(string) error) error {
		found, err := q.one(question{flag, prompt, text, value, check}, standard)
		if err == nil && !found {
			missing = append(missing, "--"+flag)
		}
		return err
	}
	steps := []func() error{
		func() error {
			return ask("suffix", "Name of the topmost entry", "such as dc=example,dc=com", domainSuffix(), &s.suffix, checkSuffix)
		},
		func() error {
			if s.suffix == "" && !q.given("admin-dn") {
				return nil // the default would contain the suffix, which is not known
			}
			return ask("admin-dn", "Name of the administrator", "who needs no entry", "cn=admin,"+s.suffix, &s.admin, checkName)
		},
		func() error { return q.password(s, &missing) },
		func() error {
			return ask("store", "Folder of the store", "", s.storeFolder(), &s.store, checkNewStore)
		},
		func() error {
			standard := ""
			if q.in != nil {
				standard = selfSigned
			}
			return ask("tls-certificate", "Certificate", "a file in PEM, "+selfSigned+" or "+noCertificate, standard, &s.certificate, checkCertificateAnswer)
		},
		func() error {
			if s.certificate == "" || s.certificate == selfSigned || s.certificate == noCertificate {
				return nil
			}
			return ask("tls-key", "Its key", "a file in PEM", "", &s.key, s.checkPair)
		},
		func() error {
			return ask("listen", "Addresses to serve", "separated by spaces", s.addresses(), &s.listen, checkListen)
		},
		func() error { return checkStatus(s.status) },
		func() error {
			return ask("folders", "Units below "+s.suffix, "separated by commas", "people,groups", &s.folders, checkFolders)
		},
		func() error {
			return ask("access", "Access rules", strings.Join(acl.Profiles, ", "), "staff", &s.access, checkProfile)
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return &config.Error{Text: "there is no terminal to ask at: give " + strings.Join(missing, ", ")}
	}
	return nil
}

// The method "one" finds the answer to the question x: from its flag, by asking the user, or
// from the parameter standard. It returns false if there is no answer.
func (q *questions) one(x question, standard string) (bool, error) {
	switch {
	case q.given(x.flag):
		if err := x.check(*x.value); err != nil {
			return false, &config.Error{Where: "--" + x.flag, Text: err.Error()}
		}
		return true, nil
	case q.in == nil:
		*x.value = standard
		if standard == "" {
			return false, nil
		}
		if err := x.check(standard); err != nil {
			return false, &config.Error{Where: "--" + x.flag, Text: err.Error()}
		}
		return true, nil
	}
	if x.text != "" {
		x.prompt += " (" + x.text + ")"
	}
	if standard != "" {
		x.prompt += " [" + standard + "]"
	}
	for {
		fmt.Fprintf(q.out, "%s: ", x.prompt)
		line, err := q.in.ReadString('\n')
		if err != nil {
			return false, fmt.Errorf("no answer: %w", err)
		}
		if *x.value = strings.TrimSpace(line); *x.value == "" {
			*x.value = standard
		}
		if err := x.check(*x.value); err == nil {
			return true, nil
		} else {
			fmt.Fprintln(q.out, err)
		}
	}
}

// password reads the administrator's password from its file, or asks for it twice.
func (q *questions) password(s *setup, missing *[]string) error {
	switch {
	case q.given("password-file"):
		line, err := firstLine(s.passwordFile, q.stdin)
		if err == nil && line == "" {
			err = errors.New("the first line is empty")
		}
		if err != nil {
			return &config.Error{Where: "--password-file", Text: err.Error()}
		}
		s.password = line
		return nil
	case q.in == nil:
		*missing = append(*missing, "--password-file")
		return nil
	}
	for {
		first, err := q.hide("Password of the administrator: ")
		if err != nil {
			return err
		}
		second, err := q.hide("Once more: ")
		if err != nil {
			return err
		}
		switch {
		case first == "":
			fmt.Fprintln(q.out, "the password is empty: nobody could bind with it")
		case first != second:
			fmt.Fprintln(q.out, "these were two different passwords")
		default:
			s.password = first
			return nil
		}
	}
}

// firstLine returns the first line of a file; "-" is stdin.
func firstLine(name string, stdin io.Reader) (string, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		stdin = f
	}
	line, err := bufio.NewReader(stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// place sets the file of the configuration, unless a flag has set it. It returns an error if
// the file of the configuration or admin.hash exists already.
func (s *setup) place() error {
	if s.file == "" {
		s.file = "ldapd.yaml"
		if writable(filepath.Dir(packaged), true) == nil {
			s.file = packaged
		}
	}
	for _, name := range []string{s.file, s.nextTo("admin.hash")} {
		if err := checkMissing(name); err != nil {
			return &config.Error{Where: "--config", Text: err.Error()}
		}
	}
	return nil
}

// The method "beside" returns the path of a file in the folder of the configuration.
func (s *setup) nextTo(name string) string { return filepath.Join(filepath.Dir(s.file), name) }

func checkMissing(name string) error {
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s exists: it is not changed", name)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s *setup) storeFolder() string {
	if s.file == packaged {
		return "/var/lib/ldapd/store"
	}
	return s.nextTo("data")
}

// addresses returns the usual URLs. They have the registered ports if the server may use these:
// as a package's service, or as root.
func (s *setup) addresses() string {
	clear, secure := "ldap://127.0.0.1:3890", "ldaps://127.0.0.1:6360"
	if _, _, handed := s.owner(); os.Geteuid() == 0 && (s.file == packaged || !handed) {
		clear, secure = "ldap://:389", "ldaps://:636"
	}
	if s.certificate == noCertificate {
		return clear
	}
	return clear + " " + secure
}

// owner returns the user and the group that root gives the store to: those of the folder in which
// it is made. It returns false if they are root's, or if the command does not run as root.
func (s *setup) owner() (user, group int, handed bool) {
	folder := filepath.Dir(absolute(s.store))
	for {
		if info, err := os.Stat(folder); err == nil {
			user, group, ok := ownerOf(info)
			return user, group, ok && os.Geteuid() == 0 && user != 0
		}
		up := filepath.Dir(folder)
		if up == folder {
			return 0, 0, false
		}
		folder = up
	}
}

// domainSuffix returns the DN that corresponds to this machine's domain, or "".
func domainSuffix() string {
	host, _ := os.Hostname()
	_, domain, _ := strings.Cut(host, ".")
	if !strings.Contains(domain, ".") {
		return ""
	}
	return "dc=" + strings.ReplaceAll(domain, ".", ",dc=")
}

func checkName(text string) error {
	name, err := dn.Parse(text)
	if err == nil && len(name) == 0 {
		err = errors.New("the name is empty")
	}
	return err
}

func checkSuffix(text string) error {
	if err := checkName(text); err != nil {
		return err
	}
	name, _ := dn.Parse(text)
	if classesOf(name) == nil {
		return fmt.Errorf("%q begins with none of %s: 'ldapd import' loads other entries", text, strings.Join(suffixTypes(), ", "))
	}
	return nil
}

func checkNewStore(folder string) error {
	if hbase.IsURL(folder) {
		return errors.New("only embedded stores are set up: docs/hbase.md has the first steps on HBase")
	}
	is, err := lsm.Exists(folder)
	if err == nil && is {
		err = fmt.Errorf("%s has a store: it is not changed", folder)
	}
	if err == nil {
		err = makeable(folder)
	}
	return err
}

func checkCertificateAnswer(text string) error {
	if text == selfSigned || text == noCertificate {
		return nil
	}
	return checkReadable(text)
}

func checkReadable(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return f.Close()
}

// checkPair returns an error if key does not belong to the certificate.
func (s *setup) checkPair(key string) error {
	if err := checkReadable(key); err != nil {
		return err
	}
	if _, mistakes := (certs.Files{Certificate: s.certificate, Key: key, MinVersion: tls.VersionTLS12}).Check(); len(mistakes) > 0 {
		return mistakes[0]
	}
	return nil
}

func checkListen(text string) error {
	if len(strings.Fields(text)) == 0 {
		return errors.New("nothing to listen on")
	}
	for _, u := range strings.Fields(text) {
		scheme, rest, ok := strings.Cut(u, "://")
		if !ok || rest == "" || !slices.Contains([]string{"ldap", "ldaps", "ldapi"}, scheme) {
			return fmt.Errorf("%q is not ldap://HOST:PORT, ldaps://HOST:PORT or ldapi:///PATH", u)
		}
	}
	return nil
}

func checkStatus(text string) error {
	if text == noStatus {
		return nil
	}
	if u, err := url.Parse(text); err != nil || u.Scheme != "http" || u.Port() == "" || u.Path != "" {
		return &config.Error{Where: "--status-listen", Text: fmt.Sprintf("%q is not http://HOST:PORT or %s", text, noStatus)}
	}
	return nil
}

func checkFolders(text string) error {
	for _, name := range units(text) {
		if strings.ContainsAny(name, `,+"\<>;=#`) {
			return fmt.Errorf("%q is no simple name", name)
		}
	}
	return nil
}

// units returns the names in a list.
func units(text string) (names []string) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func checkProfile(name string) error {
	if !slices.Contains(acl.Profiles, name) {
		return fmt.Errorf("%q is none of %s", name, strings.Join(acl.Profiles, ", "))
	}
	return nil
}

// reachable returns the first of the URLs, in a form to which a client on this machine can
// connect.
func reachable(listen string) string {
	first := strings.Fields(listen)[0]
	u, err := url.Parse(first)
	if err != nil || u.Scheme == "ldapi" {
		return first
	}
	if host := u.Hostname(); host == "" || net.ParseIP(host).IsUnspecified() {
		u.Host = "localhost:" + u.Port()
		u.Host = strings.TrimSuffix(u.Host, ":")
	}
	return u.String()
}

// setUp makes the files and the store, and prints commands to try next.
func (m initCommands) setUp(ctx context.Context, s *setup) (err error) {
	k := &maker{m: m.Main, setup: s}
	defer func() {
		if err != nil {
			k.undo()
		}
	}()
	for _, step := range []func(context.Context) error{k.secrets, k.makeStore, k.configure, k.hand} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return k.say()
}
