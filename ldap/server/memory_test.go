package server_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

func large(n int) op.Request {
	return &op.Compare{Name: "cn=a", Description: "cn", Value: make([]byte, n)}
}

// TestMaxUnbound checks that a connection without a bound identity cannot send large requests,
// and that it can after a bind.
func TestMaxUnbound(t *testing.T) {
	r := start(t, succeed, server.Options{MaxUnbound: 100 << 10})
	c := r.dial()
	c.send(1, large(90<<10))
	c.expect(1, op.Success)
	go c.send(2, large(110<<10))
	c.notice(op.ProtocolError)

	name := "cn=someone"
	r.h.name.Store(&name)
	c = r.dial()
	c.send(1, bind)
	c.expect(1, op.Success)
	c.send(2, large(110<<10))
	c.expect(2, op.Success)
}

// TestMaxMessage checks that a limit below what is counted as small holds too.
func TestMaxMessage(t *testing.T) {
	c := start(t, succeed, server.Options{MaxMessage: 2 << 10}).dial()
	c.send(1, large(1<<10))
	c.expect(1, op.Success)
	go c.send(2, large(3<<10))
	c.notice(op.ProtocolError)
}

// TestMemory checks that parts of messages, running operations and large answers together take no
// more than Options.Memory, that what is refused is answered and the connection goes on, and that
// all memory is given back.
func TestMemory(t *testing.T) {
	const size = 1 << 20
	release := make(chan bool)
	var running atomic.Int32
	r := start(t, func(ctx context.Context, m *op.Message, sink op.Sink) {
		defer sink.Done(&op.Response{})
		switch m.Request.(type) {
		case *op.Modify:
			running.Add(1)
			<-release
		case *op.Search:
			if err := sink.(op.Drawer).Draw(size); err != nil {
				t.Error(err)
			}
			if err := sink.Entry(person("cn=a", make([]byte, size))); err != nil {
				t.Error(err)
			}
		}
	}, server.Options{Memory: 6 * size, MaxMessage: 2 * size, MaxUnbound: 2 * size})
	// Three connections with parts of a message take half of the budget.
	var partial []net.Conn
	message := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: large(size)})
	for range 3 {
		c := r.dial()
		partial = append(partial, c)
		c.Write(message[:len(message)-1])
	}
	// Operations take the rest.
	c := r.dial()
	refused := func(code op.Code) bool { return code == op.Busy || code == op.AdminLimitExceeded }
	for id := int32(1); ; id += 2 {
		c.send(id, &op.Modify{Name: "cn=a", Changes: []op.Modification{{PartialAttribute: op.PartialAttribute{Description: "cn", Values: [][]byte{make([]byte, size)}}}}})
		c.send(id+1, large(size))
		a := c.read()
		if a.ID == id && !refused(a.Response.Code) {
			t.Fatalf("%+v", a)
		}
		if refused(a.Response.Code) {
			break
		}
		if id > 20 {
			t.Fatal("nothing is refused")
		}
	}
	c = r.dial()
	c.send(3, compare)
	c.expect(3, op.Success)
	close(release)
	for _, c := range partial {
		c.Write(message[len(message)-1:])
		io.ReadAtLeast(c, make([]byte, 64), 1)
		c.Close()
	}
	eventually(t, "all memory", func() bool {
		c := r.dial()
		c.send(1, large(2*size-100), search)
		for {
			if a := c.read(); a.Tag != 0x64 && a.ID == 2 {
				return a.Response.Code == op.Success
			}
		}
	})
}
