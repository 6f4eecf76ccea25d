// Package notify has the command notify, which sends the changes of a directory to a program over HTTP.
package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"
	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/remote"
	"github.com/seed-4dac0d86/ldapd/store/pause"
)

const (
	batch   = 100 // changes of a request at most
	patient = 30 * time.Second
	longest = time.Minute // pause after failures
)

// A notifier sends the changes of one server to one receiver.
type notifier struct {
	*remote.Server
	to, cursor, secretFile string
	every                  time.Duration
	once, fromStart        bool

	secret []byte
	client http.Client
	conn   *ldap.Conn
	failed int // failures in a row
}

// Command returns the command "ldapd notify".
func Command(m *cli.Main) *cobra.Command {
	n := &notifier{Server: &remote.Server{Main: m}, client: http.Client{Timeout: patient}}
	c := m.Command(&cobra.Command{
		Use:   "notify --url URL [--bind DN] --to RECEIVER --cursor FILE",
		Short: "Send changes to a program over HTTP, each at least once and in order",
		Long: `Send the changes in cn=changelog to a receiver, as POST requests of at most 100 changes, each a line of
JSON (application/x-ndjson) with the attributes of its entry in cn=changelog. The file of --cursor has the
number of the last change that the receiver has answered with a status of 2xx. After any other answer, or
none, the command tries again, at most a minute later, for as long as it takes: nothing is lost while the
history is kept. A change may come twice, so the receiver remembers the last changeNumber.

The first start begins with the next change, or with --from-start at the oldest one. If changes that were
not sent yet are not kept any more, the command ends with the status 1: the receiver must then compare
everything. With --secret-file, requests have a header Ldapd-Signature: sha256=HMAC, of the body in hex.

Who binds needs the rights to read cn=changelog (docs/access.md).`,
		Example: `  ldapd notify --url ldaps://ldap.example.com --bind uid=notify,ou=services,dc=example,dc=com --password-file pw \
      --to https://hr.example.com/hook --cursor /var/lib/notify/hr`,
		Args: cobra.NoArgs,
	}, []string{"log.level", "log.format"}, func(ctx context.Context, c *config.Config, _ []string) error {
		if err := n.check(c); err != nil {
			return err
		}
		return n.run(ctx)
	})
	n.AddFlags(c)
	f := c.Flags()
	f.StringVar(&n.to, "to", "", "`RECEIVER`: a URL, http:// or https://")
	f.StringVar(&n.cursor, "cursor", "", "`FILE` for the number of the last change that was received")
	f.StringVar(&n.secretFile, "secret-file", "", "`FILE` whose first line is a secret to sign requests with")
	f.DurationVar(&n.every, "every", time.Second, "`TIME` between two looks for changes")
	f.BoolVar(&n.once, "once", false, "end when there are no more changes")
	f.BoolVar(&n.fromStart, "from-start", false, "without a cursor, begin with the oldest change that is kept")
	_ = c.MarkFlagRequired("to")
	_ = c.MarkFlagRequired("cursor")
	return c
}

func (n *notifier) check(c *config.Config) error {
	if !n.Named() {
		return &config.Error{Where: "--url", Text: "say which server's changes to send"}
	}
	u, err := url.Parse(n.to)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return &config.Error{Where: "--to", Text: fmt.Sprintf("%q is not http://HOST/PATH or https://HOST/PATH", n.to)}
	}
	if n.every <= 0 {
		return &config.Error{Where: "--every", Text: "it must be longer than 0"}
	}
	if n.secretFile != "" {
		text, err := os.ReadFile(n.secretFile)
		if err != nil {
			return &config.Error{Where: "--secret-file", Text: err.Error()}
		}
		n.secret, _, _ = bytes.Cut(text, []byte("\n"))
		if n.secret = bytes.TrimRight(n.secret, "\r"); len(n.secret) == 0 {
			return &config.Error{Where: "--secret-file", Text: "the first line is empty"}
		}
	}
	return n.Check(c)
}

// run sends changes until ctx ends, or the changes end.
func (n *notifier) run(ctx context.Context) error {
	last, err := n.readCursor()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		sent, err := n.step(ctx, &last)
		var lost *lostError
		wait := n.every
		switch {
		case errors.As(err, &lost):
			return err
		case ctx.Err() != nil:
			return nil
		case err != nil && n.once:
			return err
		case err != nil:
			n.failed++
			wait = min(longest, time.Second<<min(n.failed-1, 10))
			fmt.Fprintf(n.Stderr, "ldapd: %v: again in %v\n", err, wait)
		case sent:
			continue
		case n.once:
			return nil
		}
		if pause.For(ctx, wait) != nil {
			return nil
		}
	}
	return nil
}

// A lostError says that changes were not sent and are not kept any more.
type lostError struct{ last, first int64 }

func (e *lostError) Error() string {
	return fmt.Sprintf("the changes from %d to %d were not sent and are not kept any more: let the receiver compare everything, and remove the cursor", e.last+1, e.first-1)
}

// unknown is the cursor of a first start.
const unknown = -1

// step sends the changes after the last one, if there are any.
func (n *notifier) step(ctx context.Context, last *int64) (sent bool, err error) {
	if err := n.connect(); err != nil {
		return false, err
	}
	first, newest, err := n.kept()
	switch {
	case err != nil:
		return false, n.disconnect(err)
	case *last == unknown && n.fromStart:
		*last = first - 1
		return false, n.writeCursor(*last)
	case *last == unknown:
		*last = newest
		return false, n.writeCursor(*last)
	case *last+1 < first:
		return false, &lostError{*last, first}
	case *last >= newest:
		n.failed = 0
		return false, nil
	}
	lines, to, err := n.changes(*last + 1)
	if err != nil || len(lines) == 0 {
		return false, n.disconnect(err)
	}
	if err := n.post(ctx, lines); err != nil {
		return false, err
	}
	n.failed = 0
	*last = to
	return true, n.writeCursor(to)
}

func (n *notifier) connect() (err error) {
	if n.conn == nil {
		n.conn, err = n.Dial()
	}
	return err
}

// disconnect closes the connection after an error, because it may be broken.
func (n *notifier) disconnect(err error) error {
	if err != nil {
		n.conn.Close()
		n.conn = nil
	}
	return err
}

// kept returns the numbers of the first change that is kept and of the newest one.
func (n *notifier) kept() (first, newest int64, err error) {
	r, err := n.conn.Search(ldap.NewSearchRequest("", ldap.ScopeBaseObject, ldap.NeverDerefAliases, 1, 0, false, "(objectClass=*)", []string{"firstChangeNumber", "lastChangeNumber"}, nil))
	if err != nil {
		return 0, 0, fmt.Errorf("the server's change numbers: %w", err)
	}
	numbers := []int64{0, 0}
	for i, name := range []string{"firstChangeNumber", "lastChangeNumber"} {
		if len(r.Entries) > 0 {
			numbers[i], err = strconv.ParseInt(r.Entries[0].GetAttributeValue(name), 10, 64)
		}
		if err != nil || len(r.Entries) == 0 {
			return 0, 0, fmt.Errorf("the server shows no %s: who binds may not read cn=changelog", name)
		}
	}
	return numbers[0], numbers[1], nil
}

// changes returns changes from a number on, as lines of JSON, and the number of the last of them.
func (n *notifier) changes(from int64) (lines []byte, to int64, err error) {
	r := ldap.NewSearchRequest("cn=changelog", ldap.ScopeSingleLevel, ldap.NeverDerefAliases, batch, 0, false, fmt.Sprintf("(changeNumber>=%d)", from), []string{"*", "+"}, nil)
	answer, err := n.conn.Search(r)
	if err != nil && !ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded) {
		return nil, 0, fmt.Errorf("cn=changelog: %w", err)
	}
	for _, e := range answer.Entries {
		number, err := strconv.ParseInt(e.GetAttributeValue("changeNumber"), 10, 64)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: no changeNumber", e.DN)
		}
		line, err := lineOf(e)
		if err != nil {
			return nil, 0, err
		}
		lines, to = append(lines, line...), max(to, number)
	}
	return lines, to, nil
}

// hidden are attributes of every entry, which say nothing about a change.
var hidden = []string{"objectClass", "structuralObjectClass", "entryDN", "subschemaSubentry"}

// lineOf returns a change as a line of JSON.
func lineOf(e *ldap.Entry) ([]byte, error) {
	row := map[string]any{}
	for _, a := range e.Attributes {
		switch values := cli.Readable(a.ByteValues...); {
		case slices.Contains(hidden, a.Name):
		case a.Name == "changeNumber":
			row[a.Name] = json.Number(values[0])
		case len(values) == 1:
			row[a.Name] = values[0]
		default:
			row[a.Name] = values
		}
	}
	line, err := json.Marshal(row)
	return append(line, '\n'), err
}

// post sends lines to the receiver.
func (n *notifier) post(ctx context.Context, lines []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.to, bytes.NewReader(lines))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("User-Agent", "ldapd/"+cli.Version())
	if n.secret != nil {
		mac := hmac.New(sha256.New, n.secret)
		mac.Write(lines)
		r.Header.Set("Ldapd-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	answer, err := n.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection can be used again
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s", n.to, answer.Status)
	}
	return nil
}

func (n *notifier) readCursor() (int64, error) {
	text, err := os.ReadFile(n.cursor)
	if errors.Is(err, fs.ErrNotExist) {
		return unknown, nil
	}
	if err != nil {
		return 0, &config.Error{Where: "--cursor", Text: err.Error()}
	}
	last, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || last < 0 {
		return 0, &config.Error{Where: "--cursor", Text: fmt.Sprintf("%s has no change number but %.20q", n.cursor, text)}
	}
	return last, nil
}

// writeCursor replaces the file of the cursor.
func (n *notifier) writeCursor(last int64) error {
	f, err := os.OpenFile(n.cursor+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, last)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), n.cursor)
}
