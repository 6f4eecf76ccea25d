package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

const cancelOID = "1.3.6.1.1.8"

// cancelOf returns a Cancel of the operation with the given message ID (RFC 3909, 2.1).
func cancelOf(id int64) *op.Extended {
	b := ber.AppendInt(ber.Open(nil, ber.Sequence), ber.Integer, id)
	return &op.Extended{OID: cancelOID, Value: ber.Close(b, 0)}
}

// yielding returns a handler. A search that the handler serves runs until it is
// canceled, as in a directory. A modify runs until the handler receives from release.
func yielding(release <-chan bool) func(context.Context, *op.Message, op.Sink) {
	return func(ctx context.Context, m *op.Message, sink op.Sink) {
		response := &op.Response{}
		switch m.Request.(type) {
		case *op.Search:
			if canceled(ctx) == context.Canceled {
				response.Code = op.Canceled
			}
		case *op.Modify:
			<-release
		}
		sink.Done(response)
	}
}

// TestCancel checks that the canceled operation is answered before the Cancel.
func TestCancel(t *testing.T) {
	c := start(t, yielding(nil), server.Options{}).dial()
	c.send(1, search, search, cancelOf(1))
	c.expect(1, op.Canceled)
	if a := c.expect(3, op.Success); a.Response.OID != "" || a.Response.Value != nil {
		t.Errorf("answer: %+v", a.Response)
	}
	c.send(4, compare) // the other search continues
	c.expect(4, op.Success)
	c.send(5, cancelOf(2))
	c.expect(2, op.Canceled)
	c.expect(5, op.Success)
}

// TestCancelStopsEntries checks that a canceled search sends no more entries.
func TestCancelStopsEntries(t *testing.T) {
	began, result := make(chan bool), make(chan error, 1)
	c := start(t, func(ctx context.Context, _ *op.Message, sink op.Sink) {
		sink.Entry(person("cn=1"))
		close(began)
		canceled(ctx)
		result <- sink.Entry(person("cn=2"))
		sink.Done(&op.Response{Result: op.Result{Code: op.Canceled}})
	}, server.Options{}).dial()
	c.send(1, search)
	receive(t, began, "the search")
	c.send(2, cancelOf(1))
	if a := c.read(); a.Name != "cn=1" {
		t.Errorf("got %q", a.Name)
	}
	c.expect(1, op.Canceled)
	c.expect(2, op.Success)
	if err := receive(t, result, "the second entry"); err == nil {
		t.Error("an entry was taken after Cancel")
	}
}

// TestCancelTooLate checks that an operation which ends as if it were not canceled keeps its
// result, and that the result of the Cancel is tooLate.
func TestCancelTooLate(t *testing.T) {
	c := start(t, func(ctx context.Context, _ *op.Message, sink op.Sink) {
		canceled(ctx)
		sink.Done(&op.Response{})
	}, server.Options{}).dial()
	c.send(1, modify, cancelOf(1))
	c.expect(1, op.Success)
	c.expect(2, op.TooLate)
}

func TestCancelRefused(t *testing.T) {
	release := make(chan bool)
	c := start(t, yielding(release), server.Options{}).dial()
	c.send(1, search, modify, cancelOf(2))
	for id, test := range []struct {
		request *op.Extended
		code    op.Code
		text    string
	}{
		{cancelOf(77), op.NoSuchOperation, "no operation with message ID 77"},
		{cancelOf(10), op.CannotCancel, "a Cancel cannot be canceled"}, // the Cancel itself
		{cancelOf(3), op.CannotCancel, "a Cancel cannot be canceled"},
		{cancelOf(2), op.CannotCancel, "already"},
		{cancelOf(-1), op.ProtocolError, "Cancel: "},
		{cancelOf(1 << 31), op.ProtocolError, "Cancel: "},
		{&op.Extended{OID: cancelOID}, op.ProtocolError, "Cancel: "},
		{&op.Extended{OID: cancelOID, Value: []byte{}}, op.ProtocolError, "Cancel: "},
		{&op.Extended{OID: cancelOID, Value: []byte("\x30\x03\x04\x01\x01")}, op.ProtocolError, "Cancel: "},
		{&op.Extended{OID: cancelOID, Value: []byte("\x30\x03\x02\x01\x01\x00\x00")}, op.ProtocolError, "Cancel: "},
	} {
		id := int32(9 + id)
		c.send(id, test.request)
		if a := c.expect(id, test.code); !strings.Contains(a.Response.Diagnostic, test.text) {
			t.Errorf("%x: %q", test.request.Value, a.Response.Diagnostic)
		}
	}
	for id, critical := range map[int32]bool{30: true, 31: false} {
		m := &op.Message{ID: id, Request: cancelOf(1), Controls: []op.Control{{OID: "1.2.3", Critical: critical}}}
		c.Write(wiretest.AppendRequest(nil, m))
		if critical {
			c.expect(30, op.UnavailableCriticalExtension)
		} else {
			c.expect(1, op.Canceled)
			c.expect(31, op.Success)
		}
	}
	release <- true
	c.expect(2, op.Success)
	c.expect(3, op.TooLate)
}

// TestCancelAndAbandon checks that a Cancel cannot be abandoned (RFC 3909, 3). If the
// operation to be canceled is abandoned, the Cancel is answered when that operation
// ends. Until then the Cancel is outstanding.
func TestCancelAndAbandon(t *testing.T) {
	release := make(chan bool)
	c := start(t, yielding(release), server.Options{}).dial()
	c.send(1, modify, cancelOf(1), &op.Abandon{MessageID: 2}, &op.Abandon{MessageID: 1}, cancelOf(1))
	c.expect(5, op.NoSuchOperation)
	release <- true
	c.expect(2, op.NoSuchOperation)
	c.send(6, modify, cancelOf(6))
	c.send(7, compare)
	c.notice(op.ProtocolError)
	close(release)
}

// TestCancelAndBind checks that a Bind waits for a Cancel and for the operation to be
// canceled. StartTLS is refused meanwhile.
func TestCancelAndBind(t *testing.T) {
	release := make(chan bool)
	r := startSecure(t, yielding(release), server.Options{})
	c := r.dial()
	c.send(1, modify, cancelOf(1))
	c.send(3, startTLS)
	c.expect(3, op.OperationsError)
	c.send(4, bind)
	release <- true
	c.expect(1, op.Success)
	c.expect(2, op.TooLate)
	c.expect(4, op.Success)
}
