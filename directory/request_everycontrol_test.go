package directory_test

import (
	"bytes"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	ldapwire "github.com/seed-4dac0d86/ldapd/ldap/wire"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// everyRequest contains a request of each kind that has an answer, and the request's result
// without controls.
var everyRequest = []struct {
	request op.Request
	code    op.Code
}{
	{&op.Bind{Version: 3, Name: admin, Password: []byte("secret")}, op.Success},
	{&op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: &filter.Present{Attribute: "cn"}}, op.Success},
	{&op.Compare{Name: "dc=example,dc=com", Description: "dc", Value: []byte("example")}, op.CompareTrue},
	{&op.Add{Name: "dc=example,dc=com", Attributes: attributes(lines("objectClass: domain\ndc: example"))}, op.EntryAlreadyExists},
	{&op.Modify{Name: "dc=example,dc=com", Changes: changes(lines("replace description: x"))}, op.Success},
	{&op.Delete{Name: "cn=nothing,dc=example,dc=com"}, op.NoSuchObject},
	{&op.ModifyDN{Name: "cn=nothing,dc=example,dc=com", NewRDN: "cn=x"}, op.NoSuchObject},
	{&op.Extended{OID: "1.3.6.1.4.1.4203.1.11.3"}, op.Success},
	{&op.Extended{OID: "1.3.6.1.4.1.4203.1.11.1"}, op.UnwillingToPerform},
}

// TestEveryControl checks the rules for all controls that are served. A control that does
// not apply to an operation counts as unknown (RFC 4511, 4.1.11). A malformed control is
// ignored if it is not critical and the operation changes nothing, and otherwise a protocolError.
// A control that occurs twice is a protocolError.
func TestEveryControl(t *testing.T) {
	d := newDirectory(t, newPartition(t), directory.Options{})
	s := d.NewSession(nil)
	run := func(r op.Request, cs ...op.Control) op.Code {
		t.Helper()
		var out answers
		s.Serve(t.Context(), &op.Message{ID: 1, Request: r, Controls: cs}, &out)
		return out.done.Code
	}
	run(everyRequest[0].request)
	run(everyRequest[3].request) // add dc=example,dc=com
	for _, e := range everyRequest {
		if got := run(e.request); got != e.code {
			t.Fatalf("%T: %d, want %d", e.request, got, e.code)
		}
		for oid, goes := range directory.Controls(e.request) {
			junk := op.Control{OID: oid, Value: []byte{0xff, 0xff}}
			critical := op.Control{OID: oid, Value: junk.Value, Critical: true}
			got, gotCritical, gotTwice := run(e.request, junk), run(e.request, critical), run(e.request, critical, critical)
			switch {
			case !goes:
				if got != e.code || gotCritical != op.UnavailableCriticalExtension {
					t.Errorf("%s on %T: %d, and critical %d", oid, e.request, got, gotCritical)
				}
			case oid == "2.16.840.1.113730.3.4.18": // the value of junk parses as a name, and no entry has the name
				if got != op.AuthorizationDenied || gotCritical != op.AuthorizationDenied {
					t.Errorf("%s on %T, malformed: %d, and critical %d", oid, e.request, got, gotCritical)
				}
			case oid == "1.3.6.1.1.21.2": // the value is an identifier, and the control must be critical
				if got != op.ProtocolError || gotCritical == e.code || gotTwice != op.ProtocolError {
					t.Errorf("%s on %T: %d, critical and of no transaction %d, twice %d", oid, e.request, got, gotCritical, gotTwice)
				}
			case isRead(e.request) && oid != "2.25.220932908602969335986291669498557466831": // a branch is never ignored
				if got != e.code || gotCritical != op.ProtocolError || gotTwice != op.ProtocolError {
					t.Errorf("%s on %T, malformed: %d, critical %d, twice %d", oid, e.request, got, gotCritical, gotTwice)
				}
			case got != op.ProtocolError || gotCritical != op.ProtocolError || gotTwice != op.ProtocolError:
				t.Errorf("%s on %T, malformed: %d, critical %d, twice %d", oid, e.request, got, gotCritical, gotTwice)
			}
			if e.request == everyRequest[0].request {
				run(e.request) // bind again: the failed bind has made the session anonymous
			}
		}
	}
}

// isRead reports whether a request changes nothing.
func isRead(r op.Request) bool {
	switch r.(type) {
	case *op.Bind, *op.Search, *op.Compare:
		return true
	}
	return false
}

// TestControlsOfClients checks what the clients of docs/protocol.md ("Encodings of clients") send,
// on the wire.
func TestControlsOfClients(t *testing.T) {
	w := newPairWorld(t)
	w.do(&op.Add{Name: "ou=tree,dc=example,dc=com", Attributes: attributes(lines("objectClass: organizationalUnit"))})
	w.do(&op.Add{Name: "cn=x,ou=tree,dc=example,dc=com", Attributes: attributes(lines("objectClass: device"))})

	// Ruby's net-ldap sends the controls of a Delete as a SEQUENCE.
	ruby := wiretest.AppendRequest(nil, &op.Message{ID: 9, Request: &op.Delete{Name: "ou=tree,dc=example,dc=com"}, Controls: []op.Control{{OID: control.OIDTreeDelete, Critical: true}}})
	i := bytes.IndexByte(ruby, 0xa0)
	ruby[i] = byte(ber.Sequence)
	m, err := ldapwire.Decode(ruby)
	if err != nil || len(m.Controls) != 1 {
		t.Fatal(m, err)
	}
	w.do(m.Request, m.Controls...)

	// slapd's chain sends proxied authorization that is not critical. It is not ignored.
	if o := w.run(&op.Extended{OID: control.OIDWhoAmI}, op.Control{OID: control.OIDProxiedAuthorization, Value: []byte("dn:")}); string(o.done.Value) != "" || o.done.Code != op.Success {
		t.Errorf("anonymous: %+v", o.done)
	}
	// Mozilla's SDK puts the identity into an OCTET STRING.
	if o := w.run(&op.Extended{OID: control.OIDWhoAmI}, op.Control{OID: control.OIDProxiedAuthorization, Value: []byte("\x04\x1edn:cn=1,ou=a,dc=example,dc=com")}); string(o.done.Value) != "dn:cn=1,ou=a,dc=example,dc=com" {
		t.Errorf("identity in an OCTET STRING: %+v", o.done)
	}
	// UnboundID's SDK knows no-op by another OID.
	if o := w.run(pairRequests[3], op.Control{OID: "1.3.6.1.4.1.4203.1.10.2", Critical: true}); o.done.Code != op.NoOperation {
		t.Errorf("no-op: %+v", o.done)
	}
	// net-ldap's sort control, of which all elements have universal tags.
	sort := op.Control{OID: control.OIDSortRequest, Value: []byte("\x30\x10\x30\x0e\x04\x02cn\x04\x00\x01\x01\xff\x04\x00\x01\x01\xff")}
	if o := w.run(pairRequests[1], sort); !hasControl(o.done.Controls, control.OIDSortResponse) {
		t.Errorf("sort: %+v", o.done)
	}
}
