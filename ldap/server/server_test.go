package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// TestPipelinedReads checks that requests that arrive together are answered in order if
// they are short.
func TestPipelinedReads(t *testing.T) {
	c := start(t, succeed, server.Options{}).dial()
	const n = 1000
	rs := make([]op.Request, n)
	for i := range rs {
		rs[i] = compare
	}
	go c.send(1, rs...)
	for i := range n {
		c.expect(int32(i+1), op.Success)
	}
}

// TestPipelinedWrites checks that pipelined writes run concurrently. In this test, each
// write waits until all of the writes run.
func TestPipelinedWrites(t *testing.T) {
	const n = 16
	var all sync.WaitGroup
	all.Add(n)
	c := start(t, func(_ context.Context, _ *op.Message, sink op.Sink) {
		all.Done()
		all.Wait()
		sink.Done(&op.Response{})
	}, server.Options{}).dial()
	for i := range n { // each in a separate packet
		c.send(int32(i+1), modify)
	}
	seen := map[int32]bool{}
	for range n {
		seen[c.read().ID] = true
	}
	if len(seen) != n {
		t.Errorf("%d of %d answered", len(seen), n)
	}
}

// TestLongSearch checks that a long search delays nothing else on its connection.
func TestLongSearch(t *testing.T) {
	release := make(chan bool)
	c := start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		if _, ok := m.Request.(*op.Search); ok {
			<-release
		}
		sink.Done(&op.Response{})
	}, server.Options{}).dial()
	// the second and third search are each read by a new reader, because the previous
	// reader still runs its search
	for i := range int32(3) {
		c.send(10*i+1, search, compare)
		c.expect(10*i+2, op.Success)
		c.send(10*i+3, compare)
		c.expect(10*i+3, op.Success)
	}
	close(release)
	for range 3 {
		c.read()
	}
	c.send(99, compare)
	c.expect(99, op.Success)
}

// TestSlowStream checks that entries reach the client while their search still runs.
func TestSlowStream(t *testing.T) {
	release := make(chan bool)
	c := start(t, func(_ context.Context, _ *op.Message, sink op.Sink) {
		sink.Entry(person("cn=1"))
		<-release
		sink.Reference([]string{"ldap://h"}, nil)
		<-release
		sink.Intermediate("1.2", nil, nil)
		<-release
		sink.Done(&op.Response{})
	}, server.Options{}).dial()
	c.send(1, search)
	for _, tag := range []int{0x64, 0x73, 0x79} {
		if a := c.read(); int(a.Tag) != tag {
			t.Errorf("got %v, want %x", a.Tag, tag)
		}
		release <- true
	}
	c.expect(1, op.Success)
}

// TestAbandon checks that an Abandon ends the context and contexts that are derived from it,
// and that the sink sends nothing more.
func TestAbandon(t *testing.T) {
	result := make(chan error)
	running := make(chan bool)
	c := start(t, func(ctx context.Context, m *op.Message, sink op.Sink) {
		if m.ID != 1 {
			sink.Done(&op.Response{})
			return
		}
		derived, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		sink.Entry(person("cn=1"))
		running <- true
		result <- canceled(derived)
		result <- ctx.Err()
		result <- sink.Entry(person("cn=2"))
		result <- sink.Done(&op.Response{})
	}, server.Options{}).dial()
	c.send(1, search)
	receive(t, running, "the search")
	c.send(2, &op.Abandon{MessageID: 77}, &op.Abandon{MessageID: 1})
	for _, what := range []string{"Done", "Err", "Entry", "sink.Done"} {
		if err := receive(t, result, what); err == nil || err == errPatience {
			t.Errorf("%s: %v after Abandon", what, err)
		}
	}
	if a := c.read(); a.Name != "cn=1" {
		t.Errorf("got %q, want the entry from before", a.Name)
	}
	c.send(4, compare)
	c.expect(4, op.Success)
}

// TestAbandonedBeforeLooking checks that the context has ended if an operation was
// abandoned before it first used its context.
func TestAbandonedBeforeLooking(t *testing.T) {
	result, look := make(chan error), make(chan bool)
	c := start(t, func(ctx context.Context, m *op.Message, sink op.Sink) {
		if m.ID == 1 {
			<-look
			result <- canceled(ctx)
		}
		sink.Done(&op.Response{})
	}, server.Options{}).dial()
	c.send(1, search, &op.Abandon{MessageID: 1})
	c.send(3, compare)
	c.expect(3, op.Success)
	look <- true
	if err := receive(t, result, "cancellation"); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}

// TestBindAlone checks that a bind abandons searches, waits for other operations, and
// runs alone on the connection (RFC 4511, 4.2.1).
func TestBindAlone(t *testing.T) {
	var running, searches atomic.Int32
	release := make(chan bool)
	c := start(t, func(ctx context.Context, m *op.Message, sink op.Sink) {
		n := running.Add(1)
		defer running.Add(-1)
		switch m.Request.(type) {
		case *op.Search:
			searches.Add(1)
			canceled(ctx)
		case *op.Modify:
			<-release
		case *op.Bind:
			if n != 1 {
				sink.Done(&op.Response{Result: *op.Errorf(op.OperationsError, "%d others run", n-1)})
				return
			}
		}
		sink.Done(&op.Response{})
	}, server.Options{}).dial()
	c.send(1, search, modify, modify, bind)
	eventually(t, "the modifies", func() bool { return running.Load() >= 2 && searches.Load() == 1 })
	release <- true
	release <- true
	got := []int32{c.read().ID, c.read().ID, c.expect(4, op.Success).ID}
	if got[0]+got[1] != 5 { // the sum of 2 and 3: the modifies were answered, and the search was not
		t.Errorf("answered %v", got)
	}
}

// TestBackPressure checks that an endless search fills the buffers of its connection, and
// no more. A client that does not read is disconnected in the end. Other clients are not
// affected.
func TestBackPressure(t *testing.T) {
	var entries atomic.Int64
	ended := make(chan error, 1)
	value := make([]byte, 1000)
	r := start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		if _, ok := m.Request.(*op.Search); ok {
			for {
				if err := sink.Entry(person("cn=1", value)); err != nil {
					ended <- err
					return
				}
				entries.Add(1)
			}
		}
		sink.Done(&op.Response{})
	}, server.Options{WriteTimeout: 300 * time.Millisecond})
	c, other := r.dial(), r.dial()
	c.send(1, search)
	var before int64 = -1
	eventually(t, "the search to be stopped", func() bool {
		now := entries.Load()
		stopped := now == before && now > 0
		before = now
		time.Sleep(10 * time.Millisecond)
		return stopped
	})
	if n := entries.Load(); n > 20000 { // the kernel's buffers hold some megabytes
		t.Errorf("%d entries were taken for a client that does not read", n)
	}
	other.send(1, compare)
	other.expect(1, op.Success)
	if err := receive(t, ended, "the end of the search"); !errors.Is(err, context.Canceled) {
		t.Errorf("the search ended with %v", err)
	}
	eventually(t, "the log", func() bool { return strings.Count(r.log.String(), "does not take its answers") == 1 })
}

// TestLargeResult checks that a large result arrives complete and in order at a client
// that reads slowly.
func TestLargeResult(t *testing.T) {
	const n = 20000
	c := start(t, func(_ context.Context, _ *op.Message, sink op.Sink) {
		for i := range n {
			sink.Entry(person(fmt.Sprint(i), make([]byte, i%500)))
		}
		sink.Entry(person("big", make([]byte, 5<<20)))
		sink.Done(&op.Response{})
	}, server.Options{}).dial()
	c.send(1, search)
	time.Sleep(20 * time.Millisecond)
	for i := range n {
		if a := c.read(); a.Name != fmt.Sprint(i) || len(a.Attributes[0].Values[0]) != i%500 {
			t.Fatalf("entry %d is %q with %d octets", i, a.Name, len(a.Attributes[0].Values[0]))
		}
	}
	if a := c.read(); len(a.Attributes[0].Values[0]) != 5<<20 {
		t.Errorf("the big entry has %d octets", len(a.Attributes[0].Values[0]))
	}
	c.expect(1, op.Success)
}

// TestLargeRequest checks that a large request and the request after it arrive complete.
func TestLargeRequest(t *testing.T) {
	got := make(chan int, 1)
	c := start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		if c, ok := m.Request.(*op.Compare); ok && m.ID == 1 {
			got <- len(c.Value)
		}
		sink.Done(&op.Response{})
	}, server.Options{MaxUnbound: 4 << 20}).dial()
	c.send(1, &op.Compare{Name: "cn=a", Description: "cn", Value: make([]byte, 3<<20)}, compare)
	if n := receive(t, got, "the request"); n != 3<<20 {
		t.Errorf("%d octets arrived", n)
	}
	c.expect(1, op.Success)
	c.expect(2, op.Success)
}

// TestTrickle checks that a message may arrive octet by octet.
func TestTrickle(t *testing.T) {
	c := start(t, succeed, server.Options{}).dial()
	b := wiretest.AppendRequest(nil, &op.Message{ID: 5, Request: &op.Compare{Name: strings.Repeat("x", 300)}})
	for i := range b[:20] {
		c.Write(b[i : i+1])
		time.Sleep(time.Millisecond)
	}
	c.Write(b[20:])
	c.expect(5, op.Success)
}

// TestMaxOutstanding checks that no more than MaxOutstanding operations run at once, and
// that all operations are answered.
func TestMaxOutstanding(t *testing.T) {
	var running, most atomic.Int32
	c := start(t, func(_ context.Context, _ *op.Message, sink op.Sink) {
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(2 * time.Millisecond)
		running.Add(-1)
		sink.Done(&op.Response{})
	}, server.Options{MaxOutstanding: 4}).dial()
	rs := make([]op.Request, 64)
	for i := range rs {
		rs[i] = modify
	}
	c.send(1, rs...)
	for range rs {
		c.read()
	}
	if n := most.Load(); n < 2 || n > 4 {
		t.Errorf("%d ran at once", n)
	}
}

// TestPanic checks that a request that panics is answered, that the panic ends only its
// own connection, and that the log contains the stack.
func TestPanic(t *testing.T) {
	r := start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		if _, ok := m.Request.(*op.Search); ok {
			panic("whoops")
		}
		sink.Done(&op.Response{})
	}, server.Options{})
	c, other := r.dial(), r.dial()
	c.send(1, search)
	c.expect(1, op.Other)
	c.notice(op.Other)
	other.send(1, compare)
	other.expect(1, op.Success)
	if log := r.log.String(); !strings.Contains(log, "whoops") || !strings.Contains(log, "server_test.TestPanic") {
		t.Errorf("log: %s", log)
	}
}

// TestPanicAnywhere checks that a panic in any other method of a session, or in the
// creation of a session, ends the connection. The log must contain the panic once, with its
// stack.
func TestPanicAnywhere(t *testing.T) {
	config := &tls.Config{Certificates: []tls.Certificate{certstest.New(t).Server()}}
	for method, requests := range map[string][]op.Request{
		"NewSession":  nil,
		"Answered":    {&op.Compare{Name: "\xff"}},
		"StartTLS":    {startTLS},
		"Outstanding": {search, modify},
		"Name":        {bind},
		"Close":       {&op.Unbind{}},
	} {
		t.Run(method, func(t *testing.T) {
			r := start(t, func(ctx context.Context, m *op.Message, sink op.Sink) {
				if _, ok := m.Request.(*op.Search); ok {
					canceled(ctx)
				}
				sink.Done(&op.Response{})
			}, server.Options{TLS: func() *tls.Config { return config }})
			r.h.panics.Store(&method)
			c := r.dial()
			c.send(1, requests...)
			io.Copy(io.Discard, c)
			eventually(t, "the panic", func() bool { return strings.Contains(r.log.String(), "whoops") })
			if log := r.log.String(); !strings.Contains(log, "handler).panicIn") || strings.Count(log, "whoops") != 1 {
				t.Errorf("log: %s", log)
			}
		})
	}
}

// TestUnanswered checks that an operation without an answer is detected, and that the
// client receives an answer.
func TestUnanswered(t *testing.T) {
	r := start(t, func(context.Context, *op.Message, op.Sink) {}, server.Options{})
	c := r.dial()
	c.send(1, compare)
	c.expect(1, op.Other)
	if !strings.Contains(r.log.String(), "not answered") {
		t.Errorf("log: %s", &r.log)
	}
}

// TestAnsweredTwice checks that an operation is answered only once.
func TestAnsweredTwice(t *testing.T) {
	second := make(chan error, 1)
	c := start(t, func(_ context.Context, _ *op.Message, sink op.Sink) {
		sink.Done(&op.Response{})
		second <- sink.Done(&op.Response{})
	}, server.Options{}).dial()
	c.send(1, compare)
	c.expect(1, op.Success)
	if receive(t, second, "the second answer") == nil {
		t.Error("the second answer was taken")
	}
	c.send(2, compare)
	c.expect(2, op.Success)
}

func TestUnbind(t *testing.T) {
	ended := make(chan error, 1)
	r := start(t, func(ctx context.Context, _ *op.Message, _ op.Sink) { ended <- canceled(ctx) }, server.Options{})
	c := r.dial()
	c.send(1, search)
	c.send(2, &op.Unbind{})
	if err := receive(t, ended, "the search's end"); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	c.end()
	if r.log.String() != "" {
		t.Errorf("log: %s", &r.log)
	}
}

// TestDisconnect checks that a client's operations end when the client disconnects.
func TestDisconnect(t *testing.T) {
	ended, running := make(chan error, 1), make(chan bool)
	r := start(t, func(ctx context.Context, _ *op.Message, _ op.Sink) {
		running <- true
		ended <- canceled(ctx)
	}, server.Options{})
	c := r.dial()
	c.send(1, search)
	receive(t, running, "the search")
	c.Close()
	if err := receive(t, ended, "the search's end"); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}

// TestUnbindFinishesUpdates checks that pending updates finish even if the client does
// not wait for the answers.
func TestUnbindFinishesUpdates(t *testing.T) {
	release, result := make(chan bool), make(chan error, 2)
	c := start(t, func(ctx context.Context, _ *op.Message, sink op.Sink) {
		<-release
		result <- ctx.Err()
		sink.Done(&op.Response{})
	}, server.Options{}).dial()
	c.send(1, modify, modify, &op.Unbind{})
	time.Sleep(20 * time.Millisecond) // time for the Unbind to be read
	for range 2 {
		release <- true
		if err := receive(t, result, "a modify"); err != nil {
			t.Errorf("the modify was ended: %v", err)
		}
	}
	c.read()
	c.read()
	c.end()
}

// TestManySlowReaders checks that each slow client has less time to read its answers
// while there are many slow clients.
func TestManySlowReaders(t *testing.T) {
	value := make([]byte, 1000)
	r := start(t, func(_ context.Context, _ *op.Message, sink op.Sink) {
		for sink.Entry(person("cn=1", value)) == nil {
		}
	}, server.Options{WriteTimeout: 2 * patience})
	request := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: search})
	for range 257 {
		near, far := net.Pipe()
		defer near.Close()
		go r.ServeConn(far)
		near.Write(request)
	}
	eventually(t, "the end of slow connections", func() bool {
		return strings.Contains(r.log.String(), "does not take its answers")
	})
}
