package directory_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

// namedControls are the controls that have a name in transcripts, and the syntax of their
// values. A transcript may also contain any control by its OID, with its value as "x" and
// hexadecimal octets.
var namedControls = map[string]struct {
	oid   string
	value func(words []string) []byte // nil: no value
}{
	"manageDsaIT": {"2.16.840.1.113730.3.4.2", nil},
	"assertion":   {"1.3.6.1.1.12", filterValue},
	"matched":     {"1.2.826.0.1.3344810.2.3", itemsValue},
	"deref":       {"1.3.6.1.4.1.4203.666.5.16", derefValue},
	"sort":        {"1.2.840.113556.1.4.473", sortValue},
	"vlv":         {"2.16.840.1.113730.3.4.9", viewValue},
	"preRead":     {"1.3.6.1.1.13.1", selectionValue},
	"postRead":    {"1.3.6.1.1.13.2", selectionValue},
	"noOp":        {"1.3.6.1.4.1.4203.666.5.2", nil},
	"proxied":     {"2.16.840.1.113730.3.4.18", textValue},
	"rights":      {"1.3.6.1.4.1.42.2.27.9.5.2", textValue},
	"sunRights":   {"1.3.6.1.4.1.42.2.27.9.5.2", rightsValue},
	"authzID":     {"2.16.840.1.113730.3.4.16", nil},
	"session":     {"1.3.6.1.4.1.21008.108.63.1", selectionValue}, // a SEQUENCE of four strings, like a selection of attributes
	"subentries":  {"1.3.6.1.4.1.4203.1.10.1", booleanValue},
	"permissive":  {"1.2.840.113556.1.4.1413", nil},
	"relax":       {"1.3.6.1.4.1.4203.666.5.12", nil},
	"treeDelete":  {"1.2.840.113556.1.4.805", nil},
	"dontUseCopy": {"1.3.6.1.1.22", nil},
	"branch":      {"2.25.220932908602969335986291669498557466831", textValue},
	"token":       {"2.25.62115083859443682979182002512448271178", textValue},
	"transaction": {"1.3.6.1.1.21.2", textValue},
	"explain":     {"2.25.161827052177923176265677403949057240175", textValue},
	"at":          {"2.25.195980779315780798893398147915016512515", textValue},
}

// TestAccessLogOfControls checks that the access log contains the identity that an
// operation ran as, and the operation's sessions.
func TestAccessLogOfControls(t *testing.T) {
	var access bytes.Buffer
	d := newDirectory(t, newPartition(t), directory.Options{Access: slog.New(slog.NewJSONHandler(&access, nil))})
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	access.Reset()
	s.Serve(t.Context(), &op.Message{
		Request: &op.Extended{OID: "1.3.6.1.4.1.4203.1.11.3"},
		Controls: []op.Control{
			namedControl("session 192.0.2.1 app 1.2.3 one"),
			namedControl("proxied dn: critical"),
			namedControl("session 192.0.2.2 proxy 1.2.4 two"),
		},
	}, discard{})
	for _, want := range []string{
		`"who":"cn=admin,dc=example,dc=com","as":"dn:",`,
		`"sessions":[{"ip":"192.0.2.1","name":"app","format":"1.2.3","identifier":"one"},{"ip":"192.0.2.2","name":"proxy","format":"1.2.4","identifier":"two"}],`,
	} {
		if !strings.Contains(access.String(), want) {
			t.Errorf("no %s in %s", want, access.String())
		}
	}
}

// namedControl parses a control of a transcript: its name or OID, its value, and
// optionally "critical".
func namedControl(text string) op.Control {
	words := strings.Fields(text)
	c := op.Control{OID: words[0]}
	words = words[1:]
	if n := len(words); n > 0 && words[n-1] == "critical" {
		words, c.Critical = words[:n-1], true
	}
	if n := len(words); n > 0 && strings.HasPrefix(words[n-1], "x") {
		if value, err := hex.DecodeString(words[n-1][1:]); err == nil {
			words, c.Value = words[:n-1], value
		}
	}
	if named, ok := namedControls[c.OID]; ok {
		c.OID = named.oid
		if named.value != nil && c.Value == nil {
			c.Value = named.value(words)
		}
	}
	return c
}

func filterValue(words []string) []byte {
	return wire.AppendFilter(nil, filter.MustParse(strings.Join(words, " ")))
}

func textValue(words []string) []byte { return []byte(strings.Join(words, " ")) }

func booleanValue(words []string) []byte {
	return ber.AppendBool(nil, ber.Boolean, words[0] == "TRUE")
}

func selectionValue(words []string) []byte {
	b := ber.Open(nil, ber.Sequence)
	for _, w := range words {
		b = ber.AppendString(b, ber.OctetString, w)
	}
	return ber.Close(b, 0)
}

// rightsValue encodes an identity and attributes.
func rightsValue(words []string) []byte {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendString(b, ber.OctetString, words[0])
	if len(words) > 1 {
		b = append(b, selectionValue(words[1:])...)
	}
	return ber.Close(b, 0)
}

// printEntryControl prints the entry in the response of a read entry control.
func printEntryControl(b *strings.Builder, name string, value []byte) {
	r := ber.NewReader(value)
	r.Enter(0x64) // SearchResultEntry
	fmt.Fprintf(b, "%s: %s\n", name, r.Bytes(ber.OctetString))
	for r.Enter(ber.Sequence); r.More(); {
		attribute := r.Enter(ber.Sequence)
		description := string(r.Bytes(ber.OctetString))
		values := r.Enter(ber.Set)
		for r.More() {
			fmt.Fprintf(b, "  %s: %s\n", description, show(description, r.Bytes(ber.OctetString)))
		}
		r.Leave(values)
		r.Leave(attribute)
	}
	if r.Err() != nil {
		fmt.Fprintf(b, "  %v\n", r.Err())
	}
}

// TestPostReadOfCSN checks that the entryCSN in a post-read control is the final entryCSN of
// the entry, although the server reads the entry before the revision of the commit is known.
func TestPostReadOfCSN(t *testing.T) {
	d := newDirectory(t, newPartition(t), directory.Options{})
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	const name = "dc=example,dc=com"
	for _, r := range []op.Request{
		&op.Add{Name: name, Attributes: attributes(lines("objectClass: domain\ndc: example"))},
		&op.Modify{Name: name, Changes: changes(lines("replace description: x"))},
	} {
		var out answers
		s.Serve(t.Context(), &op.Message{ID: 1, Request: r, Controls: []op.Control{namedControl("postRead entryCSN")}}, &out)
		if out.done.Code != op.Success || len(out.done.Controls) != 1 {
			t.Fatalf("%+v", out.done)
		}
		var kept csnSink
		s.Serve(t.Context(), &op.Message{ID: 2, Request: &op.Search{Base: name, Filter: filter.And{}, Attributes: []string{"entryCSN"}}}, &kept)
		if kept == "" || !strings.Contains(string(out.done.Controls[0].Value), string(kept)) {
			t.Errorf("post-read has %q, the entry %q", out.done.Controls[0].Value, kept)
		}
	}
}

// A csnSink keeps the only value of the only entry.
type csnSink string

func (s *csnSink) Entry(e *op.SearchEntry) error {
	*s = csnSink(e.Attributes[0].Values[0])
	return nil
}
func (*csnSink) Reference([]string, []op.Control) error          { return nil }
func (*csnSink) Intermediate(string, []byte, []op.Control) error { return nil }
func (*csnSink) Done(*op.Response) error                         { return nil }
