package directory_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/auth/authtest"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

const adminPassword = "{SSHA}y+dX0kZIbVwVNdDNg5T1bjbFH+F/+wKO" // a hash of the password "secret"

// newPartition returns a partition in memory.
func newPartition(t testing.TB) *partition.Partition {
	t.Helper()
	return newPartitionWith(t, partition.Options{})
}

func newPartitionWith(t testing.TB, o partition.Options) *partition.Partition {
	t.Helper()
	ctx := context.Background()
	s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	o.Create, o.Schema = true, schema.Core().WithOptions("x-foobar")
	p, err := partition.Open(ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close(ctx)
		s.Close()
	})
	if err := onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}); err != nil {
		t.Fatal(err)
	}
	return p
}

func newDirectory(t testing.TB, p *partition.Partition, o directory.Options) *directory.Directory {
	t.Helper()
	o.Admin, o.AdminPassword = "cn=admin,dc=example,dc=com", adminPassword
	if o.Passwords == nil {
		o.Passwords = auth.New(0, authtest.Cheap)
	}
	d, err := directory.New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTranscripts runs the transcripts in testdata. Each file has its own directory. The commands
// in a file are requests, and the expected output is the answers. A command's lines are
// "key: value":
//
//	bind       dn, password, version, sasl; without lines it is anonymous
//	search     base, scope, deref, filter, attrs, size, types, control
//	compare    dn, assert (attribute=value)
//	add        dn, then attributes
//	modify     dn, then "add|delete|replace|increment ATTRIBUTE[: VALUE | VALUE ...]"
//	delete     dn
//	modifydn   dn, rdn, keep (old values), superior
//	extended   oid, value (hexadecimal), passwd (identity | old | new, "-" absent)
//	start      a transaction
//	end        a transaction: id, abort
//	restore    dn, moment, subtree, dryRun
//	diff       from, to, base
//	session    a new connection
//	checkpoint of this moment: its name
//	rules      access rules
//	context    a further naming context: its name
//	keep       the records of all views
//
// A line "control" contains controls separated by "; ". Each control is a name of
// namedControls or an OID, followed by its value, and optionally "critical". "paged N" is
// the paged results control with the last cookie, and "paged N new" is the control
// without a cookie.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") || strings.Contains(path, "tripwires") || strings.HasSuffix(path, "branches") || strings.Contains(path, "diagnostics") {
			return
		}
		p := newPartition(t)
		c := &client{t: t, p: p, d: newDirectory(t, p, directory.Options{Version: "test", Limits: directory.Limits{Size: 40}})}
		c.s = c.d.NewSession(nil)
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			c.t = t
			return c.command(td)
		})
	})
}

// A client turns text into requests, and answers into text.
type client struct {
	t      testing.TB
	p      *partition.Partition
	d      *directory.Directory
	s      *directory.Session
	cookie []byte
	token  string // the last token

	id      int32    // ID of the last message
	notices []string // notices since the last answer
	ends    bool     // the last request was an End Transaction
	cmd     string   // the last command
}

type line struct{ key, value string }

func lines(input string) (ls []line) {
	for _, l := range strings.Split(input, "\n") {
		key, value, _ := strings.Cut(l, ":")
		ls = append(ls, line{strings.TrimSpace(key), strings.TrimPrefix(value, " ")})
	}
	return ls
}

// fields separates the lines with the given keys from the rest.
func fields(input string, keys ...string) (map[string]string, []line) {
	m := map[string]string{}
	var rest []line
	for _, l := range lines(input) {
		if slices.Contains(keys, l.key) {
			m[l.key] = unescape(l.value)
		} else if l.key != "" {
			rest = append(rest, l)
		}
	}
	return m, rest
}

// unescape replaces each \xNN by the byte that it denotes, because a text file cannot
// contain all bytes.
func unescape(s string) string {
	return regexp.MustCompile(`\\x[0-9a-f]{2}`).ReplaceAllStringFunc(s, func(m string) string {
		n, _ := strconv.ParseUint(m[2:], 16, 8)
		return string([]byte{byte(n)})
	})
}

func (c *client) command(td *datadriven.TestData) string {
	if td.Cmd == "session" {
		c.s = c.d.NewSession(nil)
		return ""
	}
	if td.Cmd == "checkpoint" {
		if _, err := c.p.DB.Checkpoint(c.t.Context(), td.Input); err != nil {
			td.Fatalf(c.t, "%v", err)
		}
		return ""
	}
	if td.Cmd == "rules" {
		c.setRules(td)
		return ""
	}
	if td.Cmd == "context" {
		if err := onlineschema.AddSuffixes(c.t.Context(), c.p, []string{td.Input}); err != nil {
			td.Fatalf(c.t, "%v", err)
		}
		return ""
	}
	if td.Cmd == "keep" {
		if err := materialized.Update(c.t.Context(), c.p); err != nil {
			td.Fatalf(c.t, "%v", err)
		}
		return ""
	}
	f, rest := fields(td.Input, "control")
	c.id++
	m := &op.Message{ID: c.id, Controls: c.controls(f["control"])}
	var input []string
	for _, l := range lines(td.Input) {
		if l.key != "control" {
			input = append(input, l.key+": "+l.value)
		}
	}
	m.Request = c.request(td.Cmd, strings.Join(input, "\n"), rest)
	if m.Request == nil {
		td.Fatalf(c.t, "unknown command %s", td.Cmd)
	}
	c.cmd, c.ends = td.Cmd, td.Cmd == "end"
	out := answers{notify: func(r *op.Response) {
		c.notices = append(c.notices, fmt.Sprintf("notice %s %s: %d (%s)\n", r.OID, r.Value, r.Code, r.Diagnostic))
	}}
	c.s.Serve(c.t.Context(), m, &out)
	return c.print(&out)
}

// setRules sets the access rules in the input.
func (c *client) setRules(td *datadriven.TestData) {
	placed, err := acl.ReadFile(strings.NewReader(td.Input))
	if err != nil {
		td.Fatalf(c.t, "%v", err)
	}
	err = onlineschema.SetAccess(c.t.Context(), c.p, partition.By{}, func(s *partition.Snapshot, _ []partition.AccessRule) ([]partition.AccessRule, error) {
		return access.Store(c.t.Context(), s, placed)
	})
	if err != nil {
		td.Fatalf(c.t, "%v", err)
	}
}

func (c *client) controls(text string) (cs []op.Control) {
	for _, s := range strings.Split(text, "; ") {
		words := strings.Fields(strings.ReplaceAll(s, "LAST", c.token))
		switch {
		case len(words) == 0:
		case words[0] == "paged":
			if len(words) > 2 && words[2] == "new" {
				c.cookie = nil
			}
			size, _ := strconv.Atoi(words[1])
			b := ber.Open(nil, ber.Sequence)
			b = ber.AppendInt(b, ber.Integer, int64(size))
			b = ber.AppendString(b, ber.OctetString, c.cookie)
			cs = append(cs, op.Control{OID: "1.2.840.113556.1.4.319", Critical: true, Value: ber.Close(b, 0)})
		default:
			cs = append(cs, namedControl(strings.Join(words, " ")))
		}
	}
	return cs
}

func (c *client) request(cmd, input string, rest []line) op.Request {
	switch cmd {
	case "bind":
		f, _ := fields(input, "dn", "password", "version", "sasl")
		b := &op.Bind{Version: 3, Name: f["dn"], Password: []byte(f["password"])}
		if v, ok := f["version"]; ok {
			b.Version, _ = strconv.Atoi(v)
		}
		_, b.SASL = f["sasl"]
		b.Mechanism = f["sasl"]
		return b
	case "search":
		return c.search(input)
	case "compare":
		f, _ := fields(input, "dn", "assert")
		a, v, _ := strings.Cut(f["assert"], "=")
		return &op.Compare{Name: f["dn"], Description: a, Value: []byte(v)}
	case "add":
		return &op.Add{Name: rest[0].value, Attributes: attributes(rest[1:])}
	case "modify":
		return &op.Modify{Name: rest[0].value, Changes: changes(rest[1:])}
	case "delete":
		return &op.Delete{Name: rest[0].value}
	case "modifydn":
		f, _ := fields(input, "dn", "rdn", "keep", "superior")
		_, keep := f["keep"]
		r := &op.ModifyDN{Name: f["dn"], NewRDN: f["rdn"], DeleteOldRDN: !keep}
		if s, ok := f["superior"]; ok {
			r.NewSuperior = &s
		}
		return r
	case "extended":
		return extended(input)
	case "restore":
		f, _ := fields(input, "dn", "moment", "subtree", "dryRun", "undo")
		_, subtree := f["subtree"]
		_, dryRun := f["dryRun"]
		_, undo := f["undo"]
		x := control.Restore{Name: f["dn"], Moment: f["moment"], Subtree: subtree, DryRun: dryRun, Undo: undo}
		return &op.Extended{OID: control.OIDRestore, Value: x.Encode()}
	case "diff":
		f, _ := fields(input, "from", "to", "base")
		return &op.Extended{OID: control.OIDDiff, Value: control.Diff{From: f["from"], To: f["to"], Base: f["base"]}.Encode()}
	case "start":
		return &op.Extended{OID: "1.3.6.1.1.21.1"}
	case "end":
		f, _ := fields(input, "id", "abort")
		_, abort := f["abort"]
		return endTransaction(f["id"], !abort)
	}
	return nil
}

func endTransaction(id string, commit bool) *op.Extended {
	b := ber.Open(nil, ber.Sequence)
	if !commit {
		b = ber.AppendBool(b, ber.Boolean, false)
	}
	b = ber.AppendString(b, ber.OctetString, id)
	return &op.Extended{OID: "1.3.6.1.1.21.3", Value: ber.Close(b, 0)}
}

func (c *client) search(input string) *op.Search {
	f, _ := fields(input, "base", "scope", "deref", "filter", "attrs", "size", "types")
	r := &op.Search{Base: f["base"], Filter: filter.MustParse(cmp.Or(f["filter"], "(objectClass=*)"))}
	r.Scope = op.Scope(slices.Index([]string{"base", "one", "sub", "children"}, cmp.Or(f["scope"], "base")))
	r.Deref = op.Deref(slices.Index([]string{"never", "searching", "finding", "always"}, cmp.Or(f["deref"], "never")))
	r.SizeLimit, _ = strconv.Atoi(f["size"])
	r.Attributes = strings.Fields(f["attrs"])
	_, r.TypesOnly = f["types"]
	return r
}

func attributes(ls []line) (as []op.PartialAttribute) {
	for _, l := range ls {
		i := slices.IndexFunc(as, func(a op.PartialAttribute) bool { return a.Description == l.key })
		if i < 0 {
			i = len(as)
			as = append(as, op.PartialAttribute{Description: l.key})
		}
		as[i].Values = append(as[i].Values, []byte(unescape(l.value)))
	}
	return as
}

func changes(ls []line) (cs []op.Modification) {
	for _, l := range ls {
		kind, name, _ := strings.Cut(l.key, " ")
		m := op.Modification{Kind: op.ModKind(slices.Index([]string{"add", "delete", "replace", "increment"}, kind))}
		m.Description = name
		if l.value != "" {
			for _, v := range strings.Split(l.value, " | ") {
				m.Values = append(m.Values, []byte(unescape(v)))
			}
		}
		cs = append(cs, m)
	}
	return cs
}

func extended(input string) *op.Extended {
	f, _ := fields(input, "oid", "value", "passwd")
	r := &op.Extended{OID: f["oid"]}
	if v, ok := f["value"]; ok {
		r.Value = []byte(v)
	}
	if p, ok := f["passwd"]; ok {
		r.OID = "1.3.6.1.4.1.4203.1.11.1"
		b := ber.Open(nil, ber.Sequence)
		for i, part := range strings.Split(p, " | ") {
			if part != "-" {
				b = ber.AppendString(b, ber.Context(byte(i)), part)
			}
		}
		r.Value = ber.Close(b, 0)
	}
	return r
}

// answers is a sink that keeps answers as text, because the arguments of its methods are
// reused.
type answers struct {
	entries, references []string
	done                *op.Response
	ldif                bytes.Buffer       // the values of intermediate responses
	notify              func(*op.Response) // nil: nobody reads notices
}

func (a *answers) Notify(r *op.Response) error {
	if a.notify != nil {
		a.notify(r)
	}
	return nil
}

func (a *answers) Entry(e *op.SearchEntry) error {
	var b strings.Builder
	fmt.Fprintf(&b, "dn: %s\n", e.Name)
	for i := range e.Attributes {
		at := &e.Attributes[i]
		if e.TypesOnly {
			fmt.Fprintf(&b, "  %s\n", at.Description())
			continue
		}
		for _, v := range at.Values {
			fmt.Fprintf(&b, "  %s: %s\n", at.Description(), show(at.Type.Name(), v))
		}
	}
	for i := range e.Controls {
		printDereferenced(&b, &e.Controls[i])
	}
	a.entries = append(a.entries, b.String())
	return nil
}

// show replaces values that differ between runs, and shortens definitions.
func show(name string, v []byte) string {
	switch {
	case slices.Contains([]string{"entryUUID", "entryCSN", "contextCSN", "createTimestamp", "modifyTimestamp"}, name):
		return "<" + name + ">"
	case bytes.HasPrefix(v, []byte("{ARGON2}$argon2id$")):
		return "{ARGON2}..."
	case slices.Contains([]string{"attributeTypes", "objectClasses", "matchingRules", "matchingRuleUse", "ldapSyntaxes"}, name):
		return string(v[:min(len(v), 30)])
	case !utf8.Valid(v):
		return fmt.Sprintf("%q", v)
	}
	return string(v)
}

func (a *answers) Reference(urls []string, controls []op.Control) error {
	a.references = append(a.references, "ref: "+strings.Join(urls, " ")+"\n")
	return nil
}

func (a *answers) Intermediate(_ string, value []byte, _ []op.Control) error {
	a.ldif.Write(value)
	return nil
}

func (a *answers) Done(r *op.Response) error {
	copied := *r
	a.done = &copied
	return nil
}

// print sorts entries, because the directory does not promise an order unless the client
// requests one.
func (c *client) print(a *answers) string {
	if !inOrder(a.done) {
		slices.Sort(a.entries)
	}
	slices.Sort(a.references)
	var b strings.Builder
	b.WriteString(strings.Join(a.entries, ""))
	b.WriteString(strings.Join(a.references, ""))
	for line := range strings.Lines(a.ldif.String()) {
		b.WriteString(strings.TrimRight("| "+line, " \n") + "\n")
	}
	r := a.done
	fmt.Fprintf(&b, "%d", r.Code)
	if r.MatchedDN != "" {
		fmt.Fprintf(&b, " matched=%s", r.MatchedDN)
	}
	for _, url := range r.Referrals {
		fmt.Fprintf(&b, " %s", url)
	}
	if r.Diagnostic != "" {
		fmt.Fprintf(&b, " (%s)", r.Diagnostic)
	}
	b.WriteByte('\n')
	switch {
	case c.ends:
		c.printEnd(&b, r.Value)
	case c.cmd == "diff" && r.Code == op.Success:
		x, err := control.ParseDifferences(r.Value)
		fmt.Fprintf(&b, "%+v %v\n", x, err)
	case c.cmd == "restore" && r.Code == op.Success:
		x, err := control.ParseRestored(r.Value)
		revision := x.Revision != ""
		x.Revision = ""
		fmt.Fprintf(&b, "%+v committed=%v %v\n", x, revision, err)
	case r.Value != nil:
		fmt.Fprintf(&b, "value: %s\n", show("", r.Value))
	}
	b.WriteString(strings.Join(c.notices, ""))
	c.notices = nil
	for i := range r.Controls {
		c.printControl(&b, &r.Controls[i])
	}
	return b.String()
}

// printEnd prints the value of an End Transaction's response.
func (c *client) printEnd(b *strings.Builder, value []byte) {
	e, err := control.ParseEndTransactionResult(value)
	if err != nil {
		fmt.Fprintf(b, "value: %v\n", err)
	}
	if e.Failed != 0 {
		fmt.Fprintf(b, "failed: message %d\n", e.Failed)
	}
	for _, u := range e.Updates {
		fmt.Fprintf(b, "of message %d:\n", u.Message)
		for i := range u.Controls {
			c.printControl(b, &u.Controls[i])
		}
	}
}

// printExplained prints the value of an explain control, without its time.
func printExplained(b *strings.Builder, value []byte) {
	x, err := control.ParseExplained(value)
	if err != nil {
		fmt.Fprintf(b, "explain: %v\n", err)
		return
	}
	fmt.Fprintf(b, "explain: candidates=%d rows=%d scans=%d indexes=%q timed=%v\n%s", x.Candidates, x.Rows, x.Scans, x.Indexes, x.Microseconds > 0, x.Plan)
}

func (c *client) printControl(b *strings.Builder, control *op.Control) {
	if printOrderControl(b, control) {
		return
	}
	if control.OID == namedControls["token"].oid {
		c.token = string(control.Value)
		r, err := revision.Parse(c.token)
		now := state.Newest(c.p)
		defer now.Close()
		fmt.Fprintf(b, "token: of the newest commit %v, %v\n", r == now.Revision(), err)
		return
	}
	if control.OID == "2.16.840.1.113730.3.4.15" {
		fmt.Fprintf(b, "authzId: %q\n", control.Value)
		return
	}
	if control.OID == namedControls["explain"].oid {
		printExplained(b, control.Value)
		return
	}
	for _, name := range []string{"preRead", "postRead"} {
		if control.OID == namedControls[name].oid {
			printEntryControl(b, name, control.Value)
			return
		}
	}
	r := ber.NewReader(control.Value)
	r.Enter(ber.Sequence)
	r.Int(ber.Integer)
	c.cookie = bytes.Clone(r.Bytes(ber.OctetString))
	if r.Err() != nil {
		fmt.Fprintf(b, "control %s: %v\n", control.OID, r.Err())
	} else {
		fmt.Fprintf(b, "page: more=%v\n", len(c.cookie) > 0)
	}
}
