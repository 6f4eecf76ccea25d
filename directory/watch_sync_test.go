package directory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// A tape is a sink whose messages a test reads one by one, as text.
type tape struct {
	messages chan string
	cookie   string // the last cookie
}

func (w *tape) Entry(e *op.SearchEntry) error {
	w.messages <- strings.TrimSpace(e.Name + " " + told(e.Controls))
	return nil
}

func (w *tape) Reference(urls []string, controls []op.Control) error {
	w.messages <- fmt.Sprintf("%v %s", urls, told(controls))
	return nil
}

func (w *tape) Intermediate(oid string, value []byte, _ []op.Control) error {
	names := map[byte]string{0x80: "newCookie", 0xa1: "refreshDelete", 0xa2: "refreshPresent", 0xa3: "syncIdSet"}
	text := names[value[0]]
	if value[0] == 0xa3 {
		text += fmt.Sprintf(" deletes=%v", value[2] == 1)
	}
	w.messages <- text
	return nil
}

func (w *tape) Done(r *op.Response) error {
	for _, c := range r.Controls {
		if c.OID == "1.3.6.1.4.1.4203.1.9.1.3" {
			r := ber.NewReader(c.Value)
			r.Enter(ber.Sequence)
			w.cookie = string(r.Bytes(ber.OctetString))
		}
	}
	w.messages <- fmt.Sprintf("done %d %s", r.Code, told(r.Controls))
	close(w.messages)
	return nil
}

// told returns the controls that report changes, as text.
func told(controls []op.Control) string {
	var b strings.Builder
	for _, c := range controls {
		r := ber.NewReader(c.Value)
		r.Enter(ber.Sequence)
		switch c.OID {
		case "1.3.6.1.4.1.4203.1.9.1.2":
			b.WriteString([]string{"present", "add", "modify", "delete"}[r.Int(ber.Enumerated)])
		case "1.3.6.1.4.1.4203.1.9.1.3":
			fmt.Fprintf(&b, "cookie=%v", len(r.Bytes(ber.OctetString)) > 0)
			fmt.Fprintf(&b, " deletes=%v", r.More() && r.Bool(ber.Boolean))
		case "2.16.840.1.113730.3.4.7":
			fmt.Fprintf(&b, "change %d", r.Int(ber.Enumerated))
			if r.More() {
				fmt.Fprintf(&b, " from %s", r.Bytes(ber.OctetString))
			}
		}
	}
	return b.String()
}

// watching is a search that waits for changes in a directory.
type watching struct {
	t      *testing.T
	s      *directory.Session
	tape   *tape
	cancel context.CancelFunc
	ended  chan bool // closed when the search has ended
}

func watch(t *testing.T, f string, control op.Control) *watching {
	t.Helper()
	return watchWith(t, directory.Options{}, f, control)
}

func watchWith(t *testing.T, o directory.Options, f string, control op.Control) *watching {
	t.Helper()
	d := newDirectory(t, newPartition(t), o)
	w := &watching{t: t, s: d.NewSession(nil)}
	serve(t, w.s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	w.add("dc=example,dc=com", "domain", "dc: example")
	w.add("ou=a,dc=example,dc=com", "organizationalUnit", "ou: a")
	w.add("ou=b,dc=example,dc=com", "organizationalUnit", "ou: b")
	w.add("cn=1,ou=a,dc=example,dc=com", "device", "cn: 1")
	w.search("ou=a,dc=example,dc=com", f, control)
	t.Cleanup(func() { w.cancel() })
	return w
}

func (w *watching) search(base, f string, controls ...op.Control) {
	w.t.Helper()
	parsed, err := filter.Parse(f)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.tape, w.cancel = &tape{messages: make(chan string, 100)}, cancel
	m := &op.Message{ID: 7, Request: &op.Search{Base: base, Scope: op.WholeSubtree, Filter: parsed}, Controls: controls}
	ended := make(chan bool)
	w.ended = ended
	go func(s *directory.Session, tape *tape) {
		defer close(ended)
		s.Serve(ctx, m, tape)
	}(w.s, w.tape)
}

func (w *watching) do(r op.Request) {
	w.t.Helper()
	serve(w.t, w.s, r)
}

func (w *watching) add(name, class, attribute string) {
	w.t.Helper()
	w.do(&op.Add{Name: name, Attributes: attributes(lines("objectClass: " + class + "\n" + attribute))})
}

// wants reads messages and compares them, in order.
func (w *watching) wants(messages ...string) {
	w.t.Helper()
	var got []string
	for range messages {
		got = append(got, <-w.tape.messages)
	}
	if d := cmp.Diff(messages, got); d != "" {
		w.t.Fatal(d)
	}
}

func syncControl(mode byte) op.Control {
	return op.Control{OID: "1.3.6.1.4.1.4203.1.9.1.1", Critical: true, Value: []byte{0x30, 3, 0x0a, 1, mode}}
}

func TestSyncPersist(t *testing.T) {
	w := watch(t, "(objectClass=*)", syncControl(3))
	w.wants("ou=a,dc=example,dc=com add", "cn=1,ou=a,dc=example,dc=com add", "refreshPresent")
	w.add("cn=2,ou=a,dc=example,dc=com", "device", "cn: 2")
	w.wants("cn=2,ou=a,dc=example,dc=com add", "newCookie")
	w.do(&op.Modify{Name: "cn=2,ou=a,dc=example,dc=com", Changes: changes(lines("replace description: x"))})
	w.wants("cn=2,ou=a,dc=example,dc=com modify", "newCookie")
	w.add("cn=3,ou=b,dc=example,dc=com", "device", "cn: 3")
	w.wants("newCookie") // the new entry is outside the content, so only the cookie changes
	into, away := "ou=a,dc=example,dc=com", "dc=example,dc=com"
	w.do(&op.ModifyDN{Name: "ou=b,dc=example,dc=com", NewRDN: "ou=b", DeleteOldRDN: true, NewSuperior: &into})
	w.wants("ou=b,ou=a,dc=example,dc=com add", "cn=3,ou=b,ou=a,dc=example,dc=com add", "newCookie")
	w.do(&op.ModifyDN{Name: "ou=b,ou=a,dc=example,dc=com", NewRDN: "ou=c", DeleteOldRDN: true})
	w.wants("ou=c,ou=a,dc=example,dc=com modify", "newCookie") // the client derives the new names of the entries below (RFC 4533, 4.1)
	w.do(&op.ModifyDN{Name: "ou=c,ou=a,dc=example,dc=com", NewRDN: "ou=c", DeleteOldRDN: true, NewSuperior: &away})
	w.wants("ou=c,ou=a,dc=example,dc=com delete", "cn=3,ou=c,ou=a,dc=example,dc=com delete", "newCookie")
	w.do(&op.Delete{Name: "cn=1,ou=a,dc=example,dc=com"})
	w.wants("cn=1,ou=a,dc=example,dc=com delete", "newCookie")
	w.do(&op.ModifyDN{Name: "ou=a,dc=example,dc=com", NewRDN: "ou=z", DeleteOldRDN: true})
	w.wants("done 4096 ") // the base is gone (RFC 4533, 3.5.1)
}

// TestSyncOfOthers uses filters that depend on other entries than the tested entry. Entries
// must enter and leave the content when the other entries change.
func TestSyncOfOthers(t *testing.T) {
	const one, two = "cn=1,ou=a,dc=example,dc=com", "cn=2,cn=1,ou=a,dc=example,dc=com"
	for _, f := range []string{"(&(objectClass=device)(hasSubordinates=TRUE))", "(&(cn=1)(numSubordinates>=1))"} {
		w := watch(t, f, syncControl(3))
		w.wants("refreshPresent")
		w.add(two, "device", "cn: 2")
		w.wants(one+" add", "newCookie")
		w.do(&op.Delete{Name: two})
		w.wants(one+" delete", "newCookie")
	}
	w := watch(t, "(manager:1.2.840.113556.1.4.1941:=cn=1,ou=a,dc=example,dc=com)", syncControl(3))
	w.wants("refreshPresent")
	const ann, bob = "cn=ann,ou=b,dc=example,dc=com", "cn=bob,ou=a,dc=example,dc=com"
	w.add(ann, "inetOrgPerson", "sn: ann")
	w.wants("newCookie")
	w.add(bob, "inetOrgPerson", "sn: bob\nmanager: "+ann)
	w.wants("newCookie")
	w.do(&op.Modify{Name: ann, Changes: changes(lines("add manager: " + one))})
	w.wants(bob+" add", "newCookie")
	w.do(&op.Modify{Name: ann, Changes: changes(lines("delete manager"))})
	w.wants(bob+" delete", "newCookie")
}

// TestSyncFilter renames an entry that is outside of the content. The client cannot derive the
// new names of the entries below it, so the server must send these entries again.
func TestSyncFilter(t *testing.T) {
	w := watch(t, "(objectClass=device)", syncControl(3))
	w.wants("cn=1,ou=a,dc=example,dc=com add", "refreshPresent")
	into := "ou=a,dc=example,dc=com"
	w.do(&op.ModifyDN{Name: "ou=b,dc=example,dc=com", NewRDN: "ou=b", DeleteOldRDN: true, NewSuperior: &into})
	w.wants("newCookie")
	w.do(&op.ModifyDN{Name: "cn=1,ou=a,dc=example,dc=com", NewRDN: "cn=1", DeleteOldRDN: true, NewSuperior: ptr("ou=b,ou=a,dc=example,dc=com")})
	w.wants("cn=1,ou=b,ou=a,dc=example,dc=com modify", "newCookie")
	w.do(&op.ModifyDN{Name: "ou=b,ou=a,dc=example,dc=com", NewRDN: "ou=c", DeleteOldRDN: true})
	w.wants("cn=1,ou=c,ou=a,dc=example,dc=com modify", "newCookie")
	w.cancel()
	w.wants("done 118 ")
}

func ptr(s string) *string { return &s }

func TestSyncRefreshOnly(t *testing.T) {
	w := watch(t, "(objectClass=*)", syncControl(1))
	w.wants("ou=a,dc=example,dc=com add", "cn=1,ou=a,dc=example,dc=com add", "done 0 cookie=true deletes=false")
	for cookie, want := range map[string][]string{
		"rid=001": {"ou=a,dc=example,dc=com add", "cn=1,ou=a,dc=example,dc=com add", "done 0 cookie=true deletes=false"},
		"rid=001,csn=20260102030405.678000Z#000000#000#000000": {"done 4096 "}, // a cookie of another server
		"rid=001,csn=20260102030405.678000Z#000100#001#000000": {"ou=a,dc=example,dc=com add", "cn=1,ou=a,dc=example,dc=com add", "done 0 cookie=true deletes=false"},
		"what is this": {"done 4096 "},
	} {
		w.search("ou=a,dc=example,dc=com", "(objectClass=*)", withCookie(1, cookie))
		w.wants(want...)
	}
}

func withCookie(mode int64, cookie string) op.Control {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Enumerated, mode)
	b = ber.AppendString(b, ber.OctetString, cookie)
	return op.Control{OID: "1.3.6.1.4.1.4203.1.9.1.1", Critical: true, Value: ber.Close(b, 0)}
}

func TestPersistentSearch(t *testing.T) {
	control := op.Control{OID: "2.16.840.1.113730.3.4.3", Critical: true, Value: []byte{0x30, 9, 2, 1, 15, 1, 1, 0, 1, 1, 0xff}}
	w := watch(t, "(objectClass=device)", control)
	w.wants("cn=1,ou=a,dc=example,dc=com")
	w.add("cn=2,ou=a,dc=example,dc=com", "device", "cn: 2")
	w.wants("cn=2,ou=a,dc=example,dc=com change 1")
	w.do(&op.Modify{Name: "cn=2,ou=a,dc=example,dc=com", Changes: changes(lines("replace description: x"))})
	w.wants("cn=2,ou=a,dc=example,dc=com change 4")
	w.do(&op.ModifyDN{Name: "cn=2,ou=a,dc=example,dc=com", NewRDN: "cn=3", DeleteOldRDN: true})
	w.wants("cn=3,ou=a,dc=example,dc=com change 8 from cn=2,ou=a,dc=example,dc=com")
	w.do(&op.Delete{Name: "cn=3,ou=a,dc=example,dc=com"})
	w.wants("cn=3,ou=a,dc=example,dc=com change 2")
	w.cancel()
	w.wants("done 118 ")
}

// TestWatchControls checks the results of requests with a control that waits for changes, in
// three cases: the control has a malformed value, another control excludes it, or it does not
// apply to the operation.
func TestWatchControls(t *testing.T) {
	const sync, psearch, paged = "1.3.6.1.4.1.4203.1.9.1.1", "2.16.840.1.113730.3.4.3", "1.2.840.113556.1.4.319"
	good := syncControl(1)
	page := op.Control{OID: paged, Value: []byte{0x30, 5, 2, 1, 1, 4, 0}}
	s := newDirectory(t, newPartition(t), directory.Options{}).NewSession(nil)
	for _, c := range []struct {
		name     string
		request  op.Request
		controls []op.Control
		want     op.Code
	}{
		{"no value", search(), []op.Control{{OID: sync, Critical: true}}, op.ProtocolError},
		{"mode 0", search(), []op.Control{syncControl(0)}, op.ProtocolError},
		{"mode 2", search(), []op.Control{syncControl(2)}, op.ProtocolError},
		{"mode 4", search(), []op.Control{syncControl(4)}, op.ProtocolError},
		{"something behind", search(), []op.Control{{OID: sync, Critical: true, Value: append(syncControl(1).Value, 5, 0)}}, op.ProtocolError},
		{"no changes", search(), []op.Control{{OID: psearch, Critical: true, Value: []byte{0x30, 9, 2, 1, 0, 1, 1, 0, 1, 1, 0}}}, op.ProtocolError},
		{"unknown changes", search(), []op.Control{{OID: psearch, Critical: true, Value: []byte{0x30, 9, 2, 1, 16, 1, 1, 0, 1, 1, 0}}}, op.ProtocolError},
		{"cut short", search(), []op.Control{{OID: psearch, Critical: true, Value: []byte{0x30, 3, 2, 1, 1}}}, op.ProtocolError},
		{"in pages", search(), []op.Control{good, page}, op.UnwillingToPerform},
		{"both", search(), []op.Control{good, {OID: psearch, Value: []byte{0x30, 9, 2, 1, 1, 1, 1, 0, 1, 1, 0}}}, op.UnwillingToPerform},
		{"following aliases", &op.Search{Base: "dc=example,dc=com", Deref: op.DerefAlways, Filter: filter.And{}}, []op.Control{good}, op.ProtocolError},
		{"of the root DSE", &op.Search{Filter: filter.And{}}, []op.Control{good}, op.UnwillingToPerform},
		{"with a compare", &op.Compare{Name: "dc=x", Description: "cn"}, []op.Control{good}, op.UnavailableCriticalExtension},
		{"with a compare, not critical", &op.Compare{Name: "dc=x", Description: "cn"}, []op.Control{{OID: sync}}, op.NoSuchObject},
		{"no base", search(), []op.Control{good}, op.NoSuchObject},
	} {
		w := &tape{messages: make(chan string, 10)}
		s.Serve(t.Context(), &op.Message{Request: c.request, Controls: c.controls}, w)
		if got, want := <-w.messages, fmt.Sprintf("done %d ", c.want); got != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
	}
}

func search() *op.Search { return &op.Search{Base: "dc=example,dc=com", Filter: filter.And{}} }
