package directory_test

import (
	"bufio"
	"fmt"
	"net"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// plainSessions makes sessions for a server.
type plainSessions struct{ *directory.Directory }

func (h plainSessions) NewSession(c *server.ConnInfo) server.Session {
	return h.Directory.NewSession(c)
}

// TestTransactionKeepsOrder checks updates that a client sends without waiting for answers.
// The transaction must make the updates in the order in which the client sent them, although
// the server may run two operations at once. An update that the client sends after the End
// Transaction must be refused.
func TestTransactionKeepsOrder(t *testing.T) {
	c := newTransactions(t, directory.Options{Transactions: directory.TransactionLimits{Operations: 500}})
	s := server.New(plainSessions{c.d}, server.Options{MaxOutstanding: 2})
	t.Cleanup(func() { s.Shutdown(t.Context()) })
	near, far := net.Pipe()
	go s.ServeConn(far)
	answers := bufio.NewReader(near)
	ask := func(m *op.Message) *wiretest.Answer {
		t.Helper()
		go near.Write(wiretest.AppendRequest(nil, m))
		a, err := wiretest.Read(answers)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ask(&op.Message{ID: 1, Request: everyRequest[0].request})
	for round := range 20 {
		id := ask(&op.Message{ID: 2, Request: &op.Extended{OID: control.OIDStartTransaction}}).Response.Value
		in := []op.Control{{OID: control.OIDTransaction, Critical: true, Value: id}}
		const n = 150
		var b []byte
		for i := range n { // each update works only after the update before it
			name := fmt.Sprintf("cn=%d,dc=example,dc=com", i)
			if i%2 == 0 {
				b = wiretest.AppendRequest(b, &op.Message{ID: int32(10 + i), Request: &op.Add{Name: name, Attributes: attributes(lines("objectClass: device"))}, Controls: in})
			} else {
				b = wiretest.AppendRequest(b, &op.Message{ID: int32(10 + i), Request: &op.ModifyDN{Name: fmt.Sprintf("cn=%d,dc=example,dc=com", i-1), NewRDN: fmt.Sprintf("cn=%d", i), DeleteOldRDN: true}, Controls: in})
			}
		}
		b = wiretest.AppendRequest(b, &op.Message{ID: 5000, Request: endTransaction(string(id), true)})
		late := &op.Message{ID: 5001, Request: &op.Delete{Name: "cn=1,dc=example,dc=com"}, Controls: in}
		go near.Write(wiretest.AppendRequest(b, late))
		for range n + 2 {
			a, err := wiretest.Read(answers)
			if err != nil {
				t.Fatal(err)
			}
			if late := a.ID == 5001; a.Response.Code != op.Success && !late || late && a.Response.Code != op.OperationsError {
				t.Fatalf("round %d: message %d: %v", round, a.ID, &a.Response.Result)
			}
		}
		for i := 1; i < n; i += 2 {
			c.must("delete", fmt.Sprintf("dn: cn=%d,dc=example,dc=com", i))
		}
	}
	// A Bind ends open transactions without a notice.
	id := ask(&op.Message{ID: 2, Request: &op.Extended{OID: control.OIDStartTransaction}}).Response.Value
	ask(&op.Message{ID: 3, Request: everyRequest[0].request})
	if a := ask(&op.Message{ID: 4, Request: endTransaction(string(id), true)}); a.ID != 4 || a.Response.Code != op.OperationsError {
		t.Errorf("the end behind a bind: message %d, %v", a.ID, &a.Response.Result)
	}
	// A notice is an unsolicited notification.
	id = ask(&op.Message{ID: 2, Request: &op.Extended{OID: control.OIDStartTransaction}}).Response.Value
	in := []op.Control{{OID: control.OIDTransaction, Critical: true, Value: id}}
	for i := range 500 {
		ask(&op.Message{ID: int32(10 + i), Request: &op.Delete{Name: "dc=x"}, Controls: in})
	}
	a := ask(&op.Message{ID: 4000, Request: &op.Delete{Name: "dc=x"}, Controls: in})
	if a.ID != 0 || a.Response.OID != control.OIDAbortedTransaction || string(a.Response.Value) != string(id) || a.Response.Code != op.AdminLimitExceeded {
		t.Errorf("notice: message %d, %s %q, %v", a.ID, a.Response.OID, a.Response.Value, &a.Response.Result)
	}
	near.Close()
}
