package server_test

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// soon are options by which connections are parked after a fifth of a second.
var soon = server.Options{WriteTimeout: 800 * time.Millisecond}

// parked waits until n connections of all servers are parked.
func parked(t testing.TB, n int) {
	t.Helper()
	b, got := make([]byte, 1<<20), 0
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = strings.Count(string(b[:runtime.Stack(b, true)]), "peer.Await("); got == n {
			return
		}
	}
	t.Fatalf("%d connections are parked, want %d", got, n)
}

// TestParked checks that a parked connection goes on wherever its client pauses, in clear and with TLS.
func TestParked(t *testing.T) {
	name := "cn=someone"
	for _, secure := range []bool{false, true} {
		r := startSecure(t, succeed, soon)
		r.h.name.Store(&name)
		dial := r.dial
		if secure {
			dial = r.dialTLS
		}
		c := dial()
		parked(t, 1) // it has sent nothing yet
		c.send(1, compare)
		c.expect(1, op.Success)
		parked(t, 1)
		c.send(2, compare, search, modify) // in one piece
		for range 3 {
			c.read()
		}
		parked(t, 1)
		for _, b := range wiretest.AppendRequest(nil, &op.Message{ID: 5, Request: compare})[:5] {
			c.Write([]byte{b})
			time.Sleep(300 * time.Millisecond) // a message that has begun is not parked
		}
		parked(t, 0)
		c.Write(wiretest.AppendRequest(nil, &op.Message{ID: 5, Request: compare})[5:])
		c.expect(5, op.Success)
		parked(t, 1)
		c.send(6, bind)
		c.expect(6, op.Success)
		parked(t, 1)
		c.send(7, large(1<<20))
		c.expect(7, op.Success)
		parked(t, 1)
		c.send(8, &op.Unbind{})
		c.end()
		parked(t, 0)
	}
}

// TestParkedStartTLS checks that a connection can begin TLS after it was parked, and is parked with it.
func TestParkedStartTLS(t *testing.T) {
	r := startSecure(t, succeed, soon)
	c := r.dial()
	parked(t, 1)
	c = r.secured(c, 1)
	parked(t, 1)
	c.send(2, compare)
	c.expect(2, op.Success)
}

// A halting is a connection that writes three octets, and the others after a rest.
type halting struct {
	net.Conn
	rest func()
}

func (h *halting) Write(b []byte) (int, error) {
	if _, err := h.Conn.Write(b[:3]); err != nil {
		return 0, err
	}
	h.rest()
	n, err := h.Conn.Write(b[3:])
	return n + 3, err
}

// TestParkedRecord checks that a connection is parked, and goes on, within a record of TLS.
func TestParkedRecord(t *testing.T) {
	r := startSecure(t, succeed, soon)
	h := &halting{r.dialSecure().Conn, func() {}}
	c := newClient(t, r.over(h))
	parked(t, 1)
	h.rest = func() {
		time.Sleep(400 * time.Millisecond) // it is read at once, and parked again
		parked(t, 1)
	}
	for id := range int32(2) {
		c.send(id+1, compare)
		c.expect(id+1, op.Success)
		parked(t, 1)
	}
}

// TestParkedNot checks that a connection on which an operation runs is not parked, that the operation can be
// abandoned, and that the connection is parked after it.
func TestParkedNot(t *testing.T) {
	began, ended := make(chan bool, 1), make(chan error, 1)
	r := start(t, func(ctx context.Context, m *op.Message, sink op.Sink) {
		if _, ok := m.Request.(*op.Search); ok {
			began <- true
			ended <- canceled(ctx)
		}
		sink.Done(&op.Response{})
	}, soon)
	c := r.dial()
	parked(t, 1)
	c.send(1, search)
	receive(t, began, "the search")
	time.Sleep(500 * time.Millisecond)
	parked(t, 0)
	c.send(2, &op.Abandon{MessageID: 1})
	if err := receive(t, ended, "the search's end"); err != context.Canceled {
		t.Error(err)
	}
	parked(t, 1)
	c.send(3, compare)
	c.expect(3, op.Success)
}

// TestParkedNotice checks that a client reads what its session sends while its connection is parked.
func TestParkedNotice(t *testing.T) {
	sinks := make(chan op.Sink, 1)
	c := start(t, func(_ context.Context, _ *op.Message, sink op.Sink) {
		sinks <- sink
		sink.Done(&op.Response{})
	}, soon).dial()
	c.send(1, compare)
	c.expect(1, op.Success)
	parked(t, 1)
	(<-sinks).(op.Notifier).Notify(&op.Response{OID: "1.2.3"})
	if a := c.expect(0, op.Success); a.Response.OID != "1.2.3" {
		t.Errorf("%+v", a)
	}
	parked(t, 1)
}

// TestParkedEnds checks that parked connections end when they must: they are idle for too long, their client
// hangs up or sends nonsense, or the server shuts down.
func TestParkedEnds(t *testing.T) {
	idle := start(t, succeed, server.Options{IdleTimeout: time.Second}).dial()
	parked(t, 1)
	idle.end()
	parked(t, 0)

	r := start(t, succeed, soon)
	gone, bad, open := r.dial(), r.dial(), r.dial()
	parked(t, 3)
	gone.Close()
	bad.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	bad.notice(op.ProtocolError)
	parked(t, 1)
	done := make(chan error, 1)
	go func() { done <- r.Shutdown(context.Background()) }()
	open.end()
	if err := receive(t, done, "Shutdown"); err != nil {
		t.Error(err)
	}
}
