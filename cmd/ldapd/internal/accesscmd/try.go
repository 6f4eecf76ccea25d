package accesscmd

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

type tryArgs struct{ Rules, Log string }

var tryJob = cli.NewJob("access try", tryAccess)

func (m commands) try() *cobra.Command {
	var log string
	c := m.Command(&cobra.Command{
		Use:   "try --store STORE --log ACCESS-LOG FILE",
		Short: "Show which operations in an access log other rules would refuse or permit",
		Long: `Show for which operations in an access log (log.access) the rules in a file would have
decided otherwise: refused them, or shown less or more, and to whom. Nothing is changed.

The operations are tried on the present entries and groups. The log contains no values.
So the command checks rights on all values of an attribute, judges an added entry by its
name and its parent, and tries a search on up to 1,000 entries in its scope, whether or
not they would match. A connection counts as using TLS from its StartTLS on, and as
using ldapi where the log says so.`,
		Example: `  ldapd access try --store ./data --log /var/log/ldapd/access.log rules`,
		Args:    cobra.ExactArgs(1),
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, args []string) error {
		text, err := m.read(args[0])
		if err != nil {
			return err
		}
		if _, err := acl.ReadFile(strings.NewReader(string(text))); err != nil {
			return &config.Error{Where: args[0], Text: err.Error()}
		}
		if log == "" {
			return &config.Error{Where: "--log", Text: "the file of an access log is needed"}
		}
		around := m.Around()
		around.Open = cli.OneOf([]string{log}, os.Open)
		return tryJob.Run(ctx, m.Main, c, cli.ReadOnly, around, tryArgs{string(text), log})
	})
	c.Flags().StringVar(&log, "log", "", "`FILE` with an access log, compressed or not")
	return c
}

// logged is a line of the access log.
type logged struct {
	Op          string
	Conn        uint64
	From        string
	Who         string
	As          *string
	DN          string
	Scope       string
	Filter      string
	Attribute   string
	Attributes  []string
	NewRDN      string
	NewSuperior *string
	OID         string
	Mechanism   string
	Result      *int
}

func tryAccess(ctx context.Context, w *cli.Work, a tryArgs) error {
	rules, err := acl.ReadFile(strings.NewReader(a.Rules))
	if err != nil {
		return err
	}
	s := state.Newest(w.Partition)
	defer s.Close()
	trial, err := access.NewTrial(ctx, s, rules)
	if err != nil {
		return err
	}
	f, err := w.Open(a.Log)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := uncompressed(f)
	if err != nil {
		return err
	}
	t := &logTrial{Trial: trial, admin: w.Signer, connections: map[uint64]*acl.Connection{}, times: map[string]int{}, operations: map[string]*access.Operation{}}
	if err := t.read(in); err != nil {
		return fmt.Errorf("%s: %w", a.Log, err)
	}
	return t.report(ctx, w.Stdout)
}

// uncompressed returns the text of a file that may be compressed by gzip.
func uncompressed(f io.Reader) (io.Reader, error) {
	in := bufio.NewReader(f)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		return gzip.NewReader(in)
	}
	return in, nil
}

// A logTrial tries the operations of an access log. If several operations have the same text,
// it tries only the first of them, as on the connection of that operation.
type logTrial struct {
	*access.Trial
	admin       string
	connections map[uint64]*acl.Connection
	times       map[string]int // number of operations, by the printed text
	operations  map[string]*access.Operation
	order       []string
	// The field "gone" counts the operations whose requester or target does not exist any more.
	// The field "above" counts the operations of the administrator.
	gone, above int
}

// read collects the operations of a log.
func (t *logTrial) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var l logged
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("line %d is not one of an access log: %w", n, err)
		}
		if err := t.take(&l); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

// take takes one line of a log.
func (t *logTrial) take(l *logged) error {
	c := t.connections[l.Conn]
	if c == nil {
		c = &acl.Connection{Mechanism: "simple", Time: time.Now()}
		t.connections[l.Conn] = c
	}
	switch {
	case l.Op == "connect":
		*c = acl.Connection{Mechanism: "simple", Time: time.Now()}
		if a, err := netip.ParseAddrPort(l.From); err == nil {
			c.Address = a.Addr().Unmap()
		} else if l.From != "" {
			c.Local, c.Secure = true, true
		}
		return nil
	case l.Op == "disconnect":
		delete(t.connections, l.Conn)
		return nil
	case l.Op == "extended" && l.OID == "1.3.6.1.4.1.1466.20037" && l.Result != nil && *l.Result == 0:
		c.Secure, c.SSF = true, 128
		return nil
	case l.Op == "bind" && l.Mechanism != "":
		c.Mechanism = strings.ToLower(l.Mechanism)
	}
	o, text, err := t.operation(l, *c)
	if err != nil || o == nil {
		return err
	}
	if t.operations[text] == nil {
		t.operations[text] = o
		t.order = append(t.order, text)
	}
	t.times[text]++
	return nil
}

// operation returns the operation that a line describes, and the operation's text. It returns
// nil for operations that are not tried: operations for which asks returns false, operations of
// the administrator, operations on the root DSE, and operations whose names cannot be parsed.
func (t *logTrial) operation(l *logged, c acl.Connection) (*access.Operation, string, error) {
	who := l.Who
	if l.As != nil {
		who, c.Proxied = strings.TrimPrefix(*l.As, "dn:"), true
	}
	if l.Op == "bind" {
		who = l.DN
	}
	o := &access.Operation{Connection: c}
	var err error
	if o.Name, err = dn.Parse(l.DN); err != nil || len(o.Name) == 0 {
		return nil, "", nil // the server refused the operation, or the operation is about the root DSE
	}
	if o.Who, err = dn.Parse(who); err != nil {
		t.gone++
		return nil, "", nil
	}
	if t.isAdmin(o.Who) {
		t.above++
		return nil, "", nil
	}
	if !asks(o, l) {
		return nil, "", nil
	}
	text := fmt.Sprintf("%s: %s %s", cmp.Or(who, "the anonymous"), l.Op, l.DN)
	for _, more := range []string{l.Scope, l.Filter, l.Attribute, strings.Join(l.Attributes, " "), l.NewRDN} {
		if more != "" {
			text += " " + more
		}
	}
	if l.NewSuperior != nil {
		text += " to " + *l.NewSuperior
	}
	return o, text, nil
}

func (t *logTrial) isAdmin(name dn.DN) bool {
	return len(name) > 0 && strings.EqualFold(name.String(), t.admin)
}

var loggedScopes = map[string]op.Scope{"base": op.BaseObject, "one": op.SingleLevel, "sub": op.WholeSubtree, "subordinates": op.Subordinates}

// asks sets the rights that an operation needs. It returns false if the operation needs no
// right to an entry, such as an extended operation, or if the line does not show which rights.
func asks(o *access.Operation, l *logged) bool {
	on := func(r acl.Rights) { o.Questions = append(o.Questions, access.Asked{Rights: r}) }
	switch l.Op {
	case "search":
		scope, ok := loggedScopes[l.Scope]
		o.Scope, o.Attributes = &scope, l.Attributes
		o.Filter, _ = filter.Parse(l.Filter)
		return ok
	case "bind":
		on(acl.Bind)
	case "delete":
		on(acl.Delete)
	case "compare":
		o.Questions = []access.Asked{{Rights: acl.Compare, Description: l.Attribute}}
	case "modify":
		for _, a := range l.Attributes {
			o.Questions = append(o.Questions, asksModification(a)...)
		}
	case "modifydn":
		return asksRename(o, l)
	case "add":
		o.Questions = []access.Asked{{Rights: acl.Add, New: o.Name, Empty: true}}
		o.Name = o.Name.Parent()
		return len(o.Name) > 0
	default:
		return false
	}
	return true
}

// asksModification returns the rights that a change of an attribute needs. In the access
// log, a sign before the attribute says what kind of change it is.
func asksModification(text string) []access.Asked {
	if len(text) < 2 {
		return nil
	}
	rights := acl.Write
	switch text[0] {
	case '+':
		rights = acl.Insert
	case '-':
		rights = acl.Remove
	}
	return []access.Asked{{Rights: rights, Description: text[1:]}}
}

func asksRename(o *access.Operation, l *logged) bool {
	o.Questions = []access.Asked{{Rights: acl.Rename}}
	if l.NewSuperior == nil {
		return true
	}
	rdn, err := dn.Parse(l.NewRDN)
	to, err2 := dn.Parse(*l.NewSuperior)
	if err != nil || err2 != nil || len(rdn) != 1 {
		return false
	}
	o.Questions = append(o.Questions, access.Asked{Rights: acl.Move}, access.Asked{Rights: acl.Receive, New: append(rdn, to...)})
	return true
}

// report tries the operations. It prints each operation whose outcome under the new rules
// differs from the outcome under the old rules.
func (t *logTrial) report(ctx context.Context, out io.Writer) error {
	tried := 0
	for _, text := range t.order {
		o, err := t.Try(ctx, t.operations[text])
		if partition.Is(err, partition.NoSuchEntry) {
			t.gone += t.times[text]
			continue
		}
		if err != nil {
			return err
		}
		tried += t.times[text]
		if o.Same() {
			continue
		}
		if _, err := fmt.Fprintf(out, "%dx %s\n", t.times[text], text); err != nil {
			return err
		}
		printOutcome(out, o)
	}
	_, err := fmt.Fprintf(out, "%d operations tried; %d by or on entries that are not there now; %d of the administrator\n", tried, t.gone, t.above)
	return err
}

func printOutcome(out io.Writer, o *access.Outcome) {
	for _, r := range o.Refused {
		fmt.Fprintf(out, "  refused: %s\n", why(r.Question, r.After))
	}
	for _, r := range o.Granted {
		fmt.Fprintf(out, "  let through: %s\n", why(r.Question, r.After))
	}
	for _, part := range []struct {
		what string
		of   map[string]int
	}{{"shown less", o.Less}, {"shown more", o.More}, {"finds less by", o.Unfound}, {"finds more by", o.Found}} {
		var texts []string
		for _, name := range slices.Sorted(maps.Keys(part.of)) {
			if name == "" {
				texts = append(texts, fmt.Sprintf("%d entries", part.of[name]))
			} else {
				texts = append(texts, fmt.Sprintf("%s of %d", name, part.of[name]))
			}
		}
		if len(texts) > 0 {
			fmt.Fprintf(out, "  %s: %s\n", part.what, strings.Join(texts, ", "))
		}
	}
}

func why(q acl.Question, a acl.Answer) string {
	_, text, _ := strings.Cut(reasons(a), "\t")
	return q.String() + ": " + text
}
