package integration

import (
	"encoding/hex"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// The tests in this file are about the trip-wires of docs/design/tripwires.md that need a
// connection. The tests of package server are about the same trip-wires, with operations that
// a test can block at chosen points.

const startTLS = "1.3.6.1.4.1.1466.20037"

// cancel returns a request that cancels the operation with the given message ID (RFC
// 3909, 2.1).
func cancel(id int32) *op.Extended {
	b := ber.AppendInt(ber.Open(nil, ber.Sequence), ber.Integer, int64(id))
	return &op.Extended{OID: "1.3.6.1.1.8", Value: ber.Close(b, 0)}
}

// TestTripwire39 checks trip-wire 39. Abandon has no response and ignores unknown IDs.
// Cancel of an operation that is not running returns noSuchOperation (119). After a
// malformed message, the server sends a Notice of Disconnection (ID 0, code 2) and closes
// the connection.
func TestTripwire39(t *testing.T) {
	p := serveExample(t)
	c := dialRaw(t, p)
	done := c.id + 1
	c.want(t, "bind", administrator, nil, "0")
	c.send(t, &op.Abandon{MessageID: done})
	c.send(t, &op.Abandon{MessageID: 1 << 30})
	c.want(t, "after Abandon", whoami, nil, `0 "dn:`+adminDN+`"`)
	c.want(t, "Cancel of what is done", cancel(done), nil, "119")
	c.want(t, "Cancel of nothing", cancel(1<<30), nil, "119")
	c.want(t, "Cancel without a value", &op.Extended{OID: "1.3.6.1.1.8"}, nil, "2")
	for _, message := range []string{
		"4745540a",            // another protocol
		"3005020100" + "4200", // message ID 0
		"300502010142" + "01", // cut short inside the message
		"3084ffffffff",        // a length beyond all bounds
		"300c020101" + "6507" + "0a0100" + "04000400", // a response
		"3080020101" + "42000000",                     // an indefinite length
	} {
		wantNotice(t, p, message)
	}
	p.stop()
}

// wantNotice sends octets that are not a message, and expects a Notice of
// Disconnection.
func wantNotice(t *testing.T, p *process, message string) {
	t.Helper()
	octets, err := hex.DecodeString(message)
	if err != nil {
		t.Fatal(err)
	}
	c := dialRaw(t, p)
	c.want(t, "bind", administrator, nil, "0")
	c.Write(octets)
	c.Conn.(interface{ CloseWrite() error }).CloseWrite()
	a, err := wiretest.Read(c.r)
	if err != nil || a.ID != 0 || a.Response.Code != op.ProtocolError || a.Response.OID != "1.3.6.1.4.1.1466.20036" {
		t.Errorf("%s: %+v, %v", message, a, err)
	}
	if b, err := c.r.ReadByte(); err == nil {
		t.Errorf("%s: octet %x after the notice", message, b)
	}
}

// TestTripwire40 checks trip-wire 40. StartTLS returns operationsError (1) if the
// connection has TLS already, and protocolError (2) if the request has a value or if the
// server has no certificate.
func TestTripwire40(t *testing.T) {
	p := serveSecured(t)
	for _, url := range p.urls {
		c := dialTLS(t, url, p.trusting())
		_, err := c.Extended(ldap.NewExtendedRequest(startTLS, nil))
		wantCode(t, "StartTLS once more on "+url, err, 1)
	}
	c := dialRaw(t, p.process)
	c.want(t, "StartTLS with a value", &op.Extended{OID: startTLS, Value: []byte("x")}, nil, "2")
	p.stop()
	clear := serveExample(t)
	dialRaw(t, clear).want(t, "StartTLS without a certificate", &op.Extended{OID: startTLS}, nil, "2")
	clear.stop()
}
