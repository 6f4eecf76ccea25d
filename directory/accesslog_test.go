package directory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

type discard struct{}

func (discard) Entry(*op.SearchEntry) error                     { return nil }
func (discard) Reference([]string, []op.Control) error          { return nil }
func (discard) Intermediate(string, []byte, []op.Control) error { return nil }
func (discard) Done(*op.Response) error                         { return nil }

// TestAccessLog checks that the access log has a line for every operation, without values
// of filters, assertions or attributes. A slow search must also log its plan.
func TestAccessLog(t *testing.T) {
	var access, log bytes.Buffer
	d := newDirectory(t, newPartition(t), directory.Options{
		Access: slog.New(slog.NewJSONHandler(&access, nil)),
		Log:    slog.New(slog.NewJSONHandler(&log, nil)),
		Slow:   time.Nanosecond,
	})
	s := d.NewSession(nil)
	serve := func(r op.Request) {
		s.Serve(context.Background(), &op.Message{ID: 7, Request: r}, discard{})
	}
	attribute := func(name, value string) op.PartialAttribute {
		return op.PartialAttribute{Description: name, Values: [][]byte{[]byte(value)}}
	}
	serve(&op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	serve(&op.Add{Name: "dc=example,dc=com", Attributes: []op.PartialAttribute{
		attribute("objectClass", "domain"), attribute("dc", "example"), attribute("description", "hidden")}})
	serve(&op.Modify{Name: "dc=example,dc=com", Changes: []op.Modification{
		{Kind: op.ModReplace, PartialAttribute: attribute("description", "hidden")}}})
	serve(&op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Attributes: []string{"dc"},
		Filter: filter.MustParse("(&(objectClass=domain)(dc=hidden*))")})
	serve(&op.Search{Base: "dc=example,dc=com", Filter: filter.MustParse("(objectClass=*)")})
	serve(&op.Compare{Name: "dc=missing,dc=com", Description: "dc", Value: []byte("hidden")})
	s.Answered(&op.Message{ID: 8, Request: &op.Extended{OID: "1.3.6.1.1.8"}}, &op.Response{Result: op.Result{Code: op.TooLate, Diagnostic: "over"}})
	s.Answered(&op.Message{ID: 9, Request: &op.Search{}}, &op.Response{Result: op.Result{Code: op.ProtocolError}}) // a search whose filter could not be decoded
	s.Close()

	want := []string{
		`{"conn":1,"from":"","op":"connect"}`,
		`{"conn":1,"dn":"cn=admin,dc=example,dc=com","id":7,"op":"bind","result":0,"who":"cn=admin,dc=example,dc=com"}`,
		`{"conn":1,"dn":"dc=example,dc=com","id":7,"op":"add","result":0,"who":"cn=admin,dc=example,dc=com"}`,
		`{"attributes":["=description"],"conn":1,"dn":"dc=example,dc=com","id":7,"op":"modify","result":0,"who":"cn=admin,dc=example,dc=com"}`,
		`{"attributes":["dc"],"candidates":1,"conn":1,"dn":"dc=example,dc=com","entries":0,"filter":"(&(objectClass=?)(dc=?*))","id":7,"index":"objectClass value","op":"search","result":0,"scope":"sub","who":"cn=admin,dc=example,dc=com"}`,
		`{"candidates":1,"conn":1,"dn":"dc=example,dc=com","entries":1,"filter":"(objectClass=*)","id":7,"op":"search","result":0,"scope":"base","who":"cn=admin,dc=example,dc=com"}`,
		`{"attribute":"dc","conn":1,"diagnostic":"no entry dc=missing,dc=com","dn":"dc=missing,dc=com","id":7,"op":"compare","result":32,"who":"cn=admin,dc=example,dc=com"}`,
		`{"conn":1,"diagnostic":"over","id":8,"oid":"1.3.6.1.1.8","op":"extended","result":120,"who":"cn=admin,dc=example,dc=com"}`,
		`{"conn":1,"dn":"","filter":"(?)","id":9,"op":"search","result":2,"scope":"base","who":"cn=admin,dc=example,dc=com"}`,
		`{"conn":1,"op":"disconnect","who":"cn=admin,dc=example,dc=com"}`,
	}
	lines := strings.Split(strings.TrimSpace(access.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), access.String())
	}
	for i := range lines {
		if got := steady(t, lines[i]); got != want[i] {
			t.Errorf("line %d is\n%s, want\n%s", i, got, want[i])
		}
	}
	if strings.Contains(log.String(), "hidden") || !strings.Contains(log.String(), `"plan":"value in index_objectClass`) {
		t.Errorf("the log of slow operations: %s", log.String())
	}
}

// steady returns a line without the fields that differ between runs.
func steady(t *testing.T, line string) string {
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	m["op"] = m["msg"]
	for _, k := range []string{"time", "level", "msg", "us"} {
		delete(m, k)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(m)
	return strings.TrimSpace(b.String())
}

// TestAccessLogOfWatches changes the schema during a persistent search. The access log must
// also count the entries that the search sends after the change.
func TestAccessLogOfWatches(t *testing.T) {
	const one = "cn=1,ou=a,dc=example,dc=com"
	var access bytes.Buffer
	w := watchWith(t, directory.Options{Access: slog.New(slog.NewJSONHandler(&access, nil))}, "(objectClass=device)", psearchControl())
	w.wants(one)
	w.do(&op.Modify{Name: "cn=Subschema", Changes: changes(lines(
		"add attributeTypes: ( 1.3.6.1.4.1.55555.1 NAME 'shelf' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"))})
	w.do(&op.Modify{Name: one, Changes: changes(lines("replace description: x"))})
	w.wants(one + " change 4")
	w.cancel()
	w.wants("done 118 ")
	<-w.ended
	for _, line := range strings.Split(access.String(), "\n") {
		if strings.Contains(line, `"controls":["2.16.840.1.113730.3.4.3"]`) && strings.Contains(line, `"entries":2`) {
			return
		}
	}
	t.Errorf("no line of a search with two entries:\n%s", access.String())
}

// TestAccessLogDenied checks the line of an operation that the access rules refused. The
// line names the rules that denied the operation, or reports that no rule allows it. The
// line also contains the revision of the rules.
func TestAccessLogDenied(t *testing.T) {
	var log bytes.Buffer
	p := newPartition(t)
	d := newDirectory(t, p, directory.Options{Access: slog.New(slog.NewJSONHandler(&log, nil))})
	s := d.NewSession(nil)
	serve := func(r op.Request) {
		s.Serve(t.Context(), &op.Message{ID: 7, Request: r}, discard{})
	}
	serve(&op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	serve(&op.Add{Name: "dc=example,dc=com", Attributes: attributes(lines("objectClass: domain\ndc: example"))})
	setRules(t, p, "read: allow everyone to read, to write l\nnotitle: deny everyone to write description\nnouse: deny everyone to use 1.2.3")
	serve(&op.Bind{Version: 3})
	const name = "dc=example,dc=com"
	modify := func(line string) { serve(&op.Modify{Name: name, Changes: changes(lines(line))}) }
	modify("replace description: x")
	modify("add title: x")
	modify("replace l: x")
	serve(&op.Delete{Name: name})
	serve(&op.Compare{Name: name, Description: "userPassword", Value: []byte("x")})
	serve(&op.Extended{OID: "1.2.3"})
	serve(&op.Extended{OID: "1.2.4"})
	serve(&op.Search{Base: "cn=changelog", Scope: op.SingleLevel, Filter: filter.MustParse("(objectClass=*)")})
	var got []string
	for line := range strings.Lines(log.String()) {
		var m struct {
			Msg           string
			Result        int
			Denied, Rules string
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if (m.Denied == "") != (m.Result != int(op.InsufficientAccessRights)) || (m.Denied == "") != (m.Rules == "") {
			t.Errorf("%s", line)
		}
		if m.Denied != "" {
			got = append(got, m.Msg+": "+m.Denied)
		}
	}
	want := []string{
		"modify: notitle@cn=config", "modify: no rule allows insert title", "delete: no rule allows delete",
		"compare: no rule allows compare userPassword", "extended: nouse@cn=config", "extended: no rule allows use 1.2.4",
		"search: no rule allows see",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
