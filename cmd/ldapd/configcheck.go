package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/serving"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
)

func configCheckCommand(m *cli.Main) *cobra.Command {
	var show bool
	c := &cobra.Command{
		Use:   "check [--show]",
		Short: "Check whether serve can run with a configuration",
		Long: `Read the configuration as serve does, and try what it names: certificates and keys, the
folders of the store, the archive and the access log, the addresses to listen on.
Nothing is created or changed. All problems are printed, one per line, each with the
option and the place where it was set:

  error     serve would not start, or clients could not use it
  warning   needs attention, such as a certificate that expires within 30 days
  note      for information

Run the command as the user that the server runs as, because this user may have fewer
permissions than you. With --show, the configuration in force is printed too, without
secrets. The exit status is 1 if there is an error.`,
		Example: `  sudo -u ldapd ldapd config check --config /etc/ldapd/ldapd.yaml`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m.Working = true
			cfg, mistakes := config.Check(m.Sources(c))
			k := checkConfig(cfg, mistakes)
			if show {
				if err := cfg.Print(m.Stdout); err != nil {
					return err
				}
			}
			return k.report(m.Stdout)
		},
	}
	cli.AddKeys(c, cli.AllKeys)
	c.Flags().BoolVar(&show, "show", false, "print the configuration in force")
	return c
}

// A checker collects what it finds in a configuration.
type checker struct {
	*config.Config
	wrong    map[string]bool // keys with a mistake, whose values are not tried
	findings map[level][]string
	held     int // the id of the process that has the store open; 0: none
}

// level is the level of a finding.
type level string

const (
	isError   level = "error"
	isWarning level = "warning"
	isNote    level = "note"
)

func checkConfig(c *config.Config, mistakes []*config.Error) *checker {
	k := &checker{Config: c, wrong: map[string]bool{}, findings: map[level][]string{}}
	for _, e := range mistakes {
		k.findings[isError] = append(k.findings[isError], e.Error())
		key, _, _ := strings.Cut(e.Text, ": ")
		k.wrong[key] = true
	}
	k.store()
	k.certificates(time.Now())
	k.listeners()
	k.archive()
	k.accessLog()
	quiet := slog.New(slog.DiscardHandler)
	_, bearer := serving.Bearer(c, quiet)
	_, kerberos := serving.Kerberos(c, quiet)
	_, known := serving.KnownPasswords(c, quiet)
	_, seal := cli.ReadSeal(c)
	var mail error
	if k.fine("console.reset.relay", "console.reset.from", "console.reset.url", "console.reset.user") {
		_, mail = serving.ResetMail(c)
	}
	for _, err := range []error{bearer, kerberos, known, seal, mail} {
		if err != nil {
			k.findings[isError] = append(k.findings[isError], err.Error())
		}
	}
	if !k.wrong["admin.password-file"] && !k.wrong["admin.password-hash"] {
		serving.Warn(c, slog.New(warnings{k}))
	}
	return k
}

// say adds a finding about a key.
func (k *checker) say(l level, key, format string, args ...any) {
	text := key + ": " + fmt.Sprintf(format, args...)
	if where := k.Origin(key); where != "default" {
		text = where + ": " + text
	}
	k.findings[l] = append(k.findings[l], text)
}

// The method "fine" reports whether none of the keys has a mistake.
func (k *checker) fine(keys ...string) bool {
	for _, key := range keys {
		if k.wrong[key] {
			return false
		}
	}
	return true
}

// report prints the findings. It returns an error if there are findings of the level
// error.
func (k *checker) report(w io.Writer) error {
	for _, l := range []level{isError, isWarning, isNote} {
		for _, text := range k.findings[l] {
			if _, err := fmt.Fprintf(w, "%s: %s\n", l, text); err != nil {
				return err
			}
		}
	}
	switch n := len(k.findings[isError]); n {
	case 0:
		_, err := fmt.Fprintln(w, "the configuration can be used")
		return err
	case 1:
		return errors.New("the configuration has an error")
	default:
		return fmt.Errorf("the configuration has %d errors", n)
	}
}

// warnings is a log handler that turns every record into a warning.
type warnings struct{ *checker }

func (warnings) Enabled(context.Context, slog.Level) bool { return true }
func (w warnings) WithAttrs([]slog.Attr) slog.Handler     { return w }
func (w warnings) WithGroup(string) slog.Handler          { return w }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" (%s %s)", a.Key, a.Value)
		return true
	})
	w.findings[isWarning] = append(w.findings[isWarning], text)
	return nil
}

// store checks the folder of the store, or the URL of the HBase cluster.
func (k *checker) store() {
	switch {
	case k.Store == "":
		k.say(isError, "store", "no store given: say --store FOLDER or --store "+hbase.Form)
		return
	case hbase.IsURL(k.Store):
		if _, err := hbase.Parse(k.Store); err != nil {
			k.say(isError, "store", "%v", err)
		} else {
			k.say(isNote, "store", "HBase has not been asked")
		}
		return
	}
	is, err := lsm.Exists(k.Store)
	switch {
	case err != nil:
		k.say(isError, "store", "%v", err)
	case is:
		k.storeFolder()
	default:
		if err := makeable(k.Store); err == nil && k.Standby.From != nil {
			k.say(isNote, "store", "%s has no store yet: the standby restores one", k.Store)
		} else if err != nil {
			k.say(isError, "store", "there is no store, and none can be made: %v", err)
		} else {
			k.say(isNote, "store", "%s has no store yet: 'ldapd init' and 'ldapd serve --create' make one", k.Store)
		}
	}
}

// storeFolder checks the folder of an existing store.
func (k *checker) storeFolder() {
	if err := writable(k.Store, true); err != nil {
		k.say(isError, "store", "%s cannot be written by this user: %v", k.Store, err)
		return
	}
	info, err := os.Stat(k.Store)
	if err != nil {
		k.say(isError, "store", "%v", err)
		return
	}
	if info.Mode().Perm()&0o077 != 0 {
		k.say(isWarning, "store", "others can look into %s, which has password hashes: chmod 700", k.Store)
	}
	if owner, _, ok := ownerOf(info); ok && owner != os.Geteuid() {
		k.say(isNote, "store", "%s belongs to the user with the id %d, and this is user %d: try the same as that user", k.Store, owner, os.Geteuid())
	}
	if k.held, err = lsm.Holder(k.Store); err != nil {
		k.say(isError, "store", "%v", err)
	} else if k.held != 0 {
		k.say(isNote, "store", "process %d has %s open now", k.held, k.Store)
	}
}

// makeable returns an error if a folder cannot be created or, if it exists, cannot be
// written.
func makeable(folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	for {
		info, err := os.Stat(folder)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is not a folder", folder)
		case err == nil:
			if err := writable(folder, true); err != nil {
				return fmt.Errorf("%s cannot be written by this user: %w", folder, err)
			}
			return nil
		case !errors.Is(err, os.ErrNotExist) || folder == filepath.Dir(folder):
			return err
		}
		folder = filepath.Dir(folder)
	}
}

// renewBefore is how long before the expiry of a certificate a warning is due.
const renewBefore = 30 * 24 * time.Hour

// certificates checks the files of TLS.
func (k *checker) certificates(now time.Time) {
	if k.TLS.Certificate == "" || !k.fine("tls.certificate", "tls.key", "tls.client-certificates", "tls.client-ca", "tls.min-version") {
		return
	}
	if _, err := os.Stat(k.TLS.Certificate); err != nil && k.TLS.SelfSigned {
		return // serve will make it
	}
	leaf, mistakes := serving.CertificateFiles(k.Config).Check()
	for _, e := range mistakes {
		k.findings[isError] = append(k.findings[isError], serving.CertificateError(k.Config, e).Error())
	}
	if info, err := os.Stat(k.TLS.Key); err == nil && serving.ReadableByOthers(info) {
		k.say(isWarning, "tls.key", "others can read %s: chmod 600", k.TLS.Key)
	}
	if leaf == nil {
		return
	}
	ends := leaf.NotAfter.UTC().Format(time.DateOnly)
	switch file := k.TLS.Certificate; {
	case now.After(leaf.NotAfter):
		k.say(isError, "tls.certificate", "%s has ended on %s", file, ends)
	case now.Before(leaf.NotBefore):
		k.say(isError, "tls.certificate", "%s begins on %s", file, leaf.NotBefore.UTC().Format(time.DateOnly))
	case now.Add(renewBefore).After(leaf.NotAfter):
		k.say(isWarning, "tls.certificate", "%s ends on %s, in %d days", file, ends, int(leaf.NotAfter.Sub(now).Hours()/24))
	}
	if len(leaf.DNSNames)+len(leaf.IPAddresses) == 0 {
		k.say(isWarning, "tls.certificate", "%s names no host as a subject alternative name, so most clients refuse it", k.TLS.Certificate)
	}
}

// listeners tries to listen on all addresses at once.
func (k *checker) listeners() {
	if !k.fine("listen") {
		return
	}
	if len(k.Listen) == 0 {
		k.say(isError, "listen", "nothing to listen on")
	}
	for _, url := range k.Listen {
		l, err := server.Listen(url)
		if err == nil {
			defer l.Close()
			continue
		}
		k.taken("listen", err)
	}
	key := "status.listen"
	for _, url := range append([]string{k.Status}, k.Console.Listen...) {
		if _, address, ok := strings.Cut(url, "://"); ok && k.fine(key) {
			l, err := server.Listen("ldap://" + address)
			if err == nil {
				defer l.Close()
			} else {
				k.taken(key, err)
			}
		}
		key = "console.listen"
	}
}

// taken adds a finding about an error of listening on an address.
func (k *checker) taken(key string, err error) {
	l := isError
	switch {
	case k.held != 0 && errors.Is(err, syscall.EADDRINUSE):
		k.say(isNote, key, "%v", errors.Unwrap(err))
		return
	case errors.Is(err, syscall.EACCES):
		l = isWarning // the unit file for systemd grants the server this right
	}
	k.say(l, key, "%v", err)
}

// archive checks the file with the archive's identity. It also checks the place of the archive,
// and the place that a standby follows, if the place is a folder.
func (k *checker) archive() {
	if _, err := cli.ReadKeys(k.Archive.Identity, os.Open); err != nil {
		k.say(isError, "archive.identity", "%v", err)
	}
	if from := k.Standby.From; from != nil && archive.IsFolder(from) && k.fine("standby.from") {
		if within(from.String(), k.Store) {
			k.say(isError, "standby.from", "%s is in the folder of the standby's store", from)
		} else if _, err := os.Stat(from.String()); err != nil {
			k.say(isWarning, "standby.from", "there is no archive to follow: %v", err)
		}
	}
	p := k.Archive.Place
	switch {
	case p == nil || !k.fine("archive.to"):
	case !archive.IsFolder(p):
		k.say(isNote, "archive.to", "%s has not been asked", p)
	case within(p.String(), k.Store):
		k.say(isError, "archive.to", "%s is in the store's folder, and would be lost with it", p)
	default:
		if err := makeable(p.String()); err != nil {
			k.say(isError, "archive.to", "%v", err)
		}
	}
}

// within reports whether a path is the folder or is below it.
func within(path, folder string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return false
	}
	return strings.HasPrefix(path+"/", folder+"/")
}

// accessLog checks whether the access log can be written.
func (k *checker) accessLog() {
	file := k.Access.File
	if file == "" || file == "-" {
		return
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		file = filepath.Dir(file)
		err = writable(file, true)
	case err == nil && info.IsDir():
		err = errors.New("this is a folder")
	case err == nil:
		err = writable(file, false)
	}
	if err != nil {
		k.say(isError, "log.access", "%s: %v", file, err)
	}
}
