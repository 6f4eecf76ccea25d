package server_test

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// TestBadInput checks that each of these inputs ends the connection with a Notice of
// Disconnection and one line in the log, and that another client is not affected.
func TestBadInput(t *testing.T) {
	tests := []struct {
		name, hex  string
		closeWrite bool
		want       string
	}{
		{"another protocol", hex.EncodeToString([]byte("GET / HTTP/1.1\r\n\r\n")), false, "expected an LDAPMessage, SEQUENCE (30), found [APPLICATION 7] (47)"},
		{"TLS", "16 03 01 00 c8", false, "found [UNIVERSAL 22] (16)"},
		{"indefinite length", "30 80 02 01 01 42 00 00 00", false, "definite length"},
		{"oversized", "30 84 00 10 00 01", false, "it has 1048583 octets, and the limit is 1048576"},
		{"oversized beyond all bounds", "30 88 7f ff ff ff ff ff ff ff", false, "less than 2 GiB"},
		{"inner lengths that do not fit", "30 0c 02 01 01 60 7f 02 01 03 04 00 80 00", false, "of 127 octets, found only 7"},
		{"no request", "30 0c 02 01 01 61 07 0a 01 00 04 00 04 00", false, "expected a request"},
		{"message ID 0", "30 05 02 01 00 42 00", false, "found 0"},
		{"truncated header", "30 82 01", true, "the connection ends within it"},
		{"truncated", "30 0c 02 01 01 60 07", true, "the connection ends within it"},
		{"truncated after 100 KB", "30 83 02 00 00" + strings.Repeat("00", 100<<10), true, "the connection ends within it"},
		{"endless", "30 82 ff ff 02 01 01", false, "its end did not come within 200ms"},
		{"endless header", "30", false, "its end did not come within 200ms"},
	}
	r := start(t, succeed, server.Options{MaxMessage: 1 << 20, ReadTimeout: 200 * time.Millisecond})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bad, good := r.dial(), r.dial()
			before := r.log.String()
			b, err := hex.DecodeString(strings.ReplaceAll(test.hex, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			bad.Write(b)
			if test.closeWrite {
				bad.Conn.(*net.TCPConn).CloseWrite()
			}
			a := bad.notice(op.ProtocolError)
			if !strings.Contains(a.Response.Diagnostic, test.want) {
				t.Errorf("notice says %q, want %q", a.Response.Diagnostic, test.want)
			}
			log := strings.TrimPrefix(r.log.String(), before)
			if strings.Count(log, "\n") != 1 || !strings.Contains(log, bad.LocalAddr().String()) {
				t.Errorf("log: %q", log)
			}
			good.send(1, compare)
			good.expect(1, op.Success)
		})
	}
}

// TestGoodThenBad sends complete requests, followed by bad octets. The requests must be
// answered before the notice is sent.
func TestGoodThenBad(t *testing.T) {
	c := start(t, succeed, server.Options{}).dial()
	b := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: compare})
	c.Write(append(b, "garbage"...))
	c.expect(1, op.Success)
	c.notice(op.ProtocolError)
}

// TestBadWhileRunning checks that a bad message ends the running operations. The cause of
// their contexts says that the server has ended the connection, and not that they were
// canceled.
func TestBadWhileRunning(t *testing.T) {
	running, ended := make(chan bool), make(chan error, 1)
	c := start(t, func(ctx context.Context, _ *op.Message, _ op.Sink) {
		running <- true
		canceled(ctx)
		ended <- context.Cause(ctx)
	}, server.Options{}).dial()
	c.send(1, search)
	receive(t, running, "the search")
	c.send(1, compare)
	if a := c.notice(op.ProtocolError); !strings.Contains(a.Response.Diagnostic, "message ID 1 is that of an operation still outstanding") {
		t.Errorf("notice says %q", a.Response.Diagnostic)
	}
	var cause *op.Result
	if err := receive(t, ended, "the search's end"); !errors.As(err, &cause) || cause.Code != op.Unavailable {
		t.Errorf("got %v", err)
	}
}

// TestMessageIDAgain checks that a client may use a message ID again as soon as its
// answer has arrived, even if the server has not removed the operation yet.
func TestMessageIDAgain(t *testing.T) {
	var held atomic.Bool
	hold := make(chan bool)
	c := start(t, func(_ context.Context, _ *op.Message, sink op.Sink) {
		sink.Done(&op.Response{})
		if !held.Swap(true) {
			<-hold
		}
	}, server.Options{}).dial()
	defer close(hold)
	c.send(1, search)
	c.expect(1, op.Success)
	c.send(1, search)
	c.expect(1, op.Success)
}

// TestRefusal checks that requests with invalid contents are answered, and that the
// connection continues.
func TestRefusal(t *testing.T) {
	c := start(t, succeed, server.Options{}).dial()
	c.send(1, &op.Compare{Name: "cn=\xff"}, &op.Add{Name: "cn=a", Attributes: []op.PartialAttribute{{Description: "cn"}}}, compare)
	c.expect(1, op.InvalidDNSyntax)
	c.expect(2, op.ProtocolError)
	c.expect(3, op.Success)
}

func TestMaxConnections(t *testing.T) {
	r := start(t, succeed, server.Options{MaxConnections: 2})
	a, b := r.dial(), r.dial()
	for _, c := range []*client{a, b} {
		c.send(1, compare)
		c.expect(1, op.Success)
	}
	for range 3 {
		r.dial().notice(op.Unavailable)
	}
	if n := strings.Count(r.log.String(), "turned away"); n != 1 {
		t.Errorf("%d lines in the log: %s", n, &r.log)
	}
	a.Close()
	eventually(t, "room for another connection", func() bool {
		c := r.dial()
		c.send(1, compare)
		answer, err := wiretest.Read(c.r)
		return err == nil && answer.ID == 1
	})
}

// TestIdleTimeout checks that idle connections are closed. A connection is not idle if an
// operation runs on it, or if a request arrives now and then.
func TestIdleTimeout(t *testing.T) {
	release := make(chan bool)
	r := start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		if _, ok := m.Request.(*op.Search); ok {
			<-release
		}
		sink.Done(&op.Response{})
	}, server.Options{IdleTimeout: 200 * time.Millisecond})
	idle, busy, active := r.dial(), r.dial(), r.dial()
	busy.send(1, search)
	for i := range int32(8) {
		active.send(i+1, compare)
		active.expect(i+1, op.Success)
		time.Sleep(50 * time.Millisecond)
	}
	idle.end()
	close(release)
	busy.expect(1, op.Success)
	active.send(99, compare)
	active.expect(99, op.Success)
}
