package server_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
)

// endedSearch reports how a persistent operation ended.
type endedSearch struct {
	id    int32
	cause error
}

// persistentHandler serves searches that last until their context ends, as persistent
// searches do. It answers all other requests at once. A Delete makes the connection end.
// A search sends its message ID to the channel began, and a description of its end to the
// channel ended.
func persistentHandler(began chan<- int32, ended chan<- endedSearch) func(context.Context, *op.Message, op.Sink) {
	return func(ctx context.Context, m *op.Message, sink op.Sink) {
		response := &op.Response{}
		defer func() { sink.Done(response) }()
		switch m.Request.(type) {
		case *op.Search:
		case *op.Delete:
			sink.(op.Ender).End(op.Errorf(op.StrongerAuthRequired, "the account has ended"))
			return
		default:
			return
		}
		var result *op.Result
		if err := sink.(op.Persister).Persist(); errors.As(err, &result) {
			response.Result = *result
			return
		}
		began <- m.ID
		<-ctx.Done()
		cause := context.Cause(ctx)
		if response.Code = op.Canceled; errors.As(cause, &result) {
			response.Result = *result
		}
		ended <- endedSearch{m.ID, cause}
	}
}

// persistentRig returns a server with persistentHandler, and a client with one search.
func persistentRig(t *testing.T, o server.Options) (*rig, *client, chan int32, chan endedSearch) {
	t.Helper()
	began, ended := make(chan int32, 1000), make(chan endedSearch, 1000)
	r := start(t, persistentHandler(began, ended), o)
	c := r.dial()
	c.send(1, search)
	receive(t, began, "the search")
	return r, c, began, ended
}

// TestStayEnds checks what ends a persistent operation, and what its client receives.
func TestStayEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(r *rig, c *client)
		tell func(c *client)
	}{
		{"Abandon", func(_ *rig, c *client) { c.send(2, &op.Abandon{MessageID: 1}, compare) },
			func(c *client) { c.expect(3, op.Success) }},
		{"Cancel", func(_ *rig, c *client) { c.send(2, cancelOf(1)) },
			func(c *client) { c.expect(1, op.Canceled); c.expect(2, op.Success) }},
		{"Bind", func(_ *rig, c *client) { c.send(2, bind) },
			func(c *client) { c.expect(2, op.Success) }},
		{"Unbind", func(_ *rig, c *client) { c.send(2, &op.Unbind{}) },
			func(c *client) { c.end() }},
		{"the end of the connection", func(_ *rig, c *client) { c.Close() },
			func(*client) {}},
		{"the end of the account", func(_ *rig, c *client) { c.send(2, &op.Delete{Name: "dc=example"}) },
			func(c *client) {
				c.expect(2, op.Success)
				c.expect(1, op.StrongerAuthRequired)
				c.notice(op.StrongerAuthRequired)
			}},
		{"Shutdown", func(r *rig, _ *client) { go r.Shutdown(context.Background()) },
			func(c *client) { c.expect(1, op.Unavailable); c.end() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, c, _, ended := persistentRig(t, server.Options{})
			test.end(r, c)
			if e := receive(t, ended, "the search's end"); e.cause == nil {
				t.Error("it has ended without a cause")
			}
			test.tell(c)
			if log := r.log.String(); log != "" {
				t.Errorf("log: %s", log)
			}
		})
	}
}

// TestStayLimit checks that persistent operations beyond MaxPersistent are refused, and that
// the connection continues. When a persistent operation ends, another one may begin.
func TestStayLimit(t *testing.T) {
	_, c, began, ended := persistentRig(t, server.Options{MaxPersistent: 2})
	c.send(2, search)
	receive(t, began, "the second search")
	c.send(3, search)
	if a := c.expect(3, op.AdminLimitExceeded); !strings.Contains(a.Response.Diagnostic, "has 2 persistent searches") {
		t.Errorf("diagnostic: %q", a.Response.Diagnostic)
	}
	c.send(4, compare, cancelOf(1))
	c.expect(4, op.Success)
	c.expect(1, op.Canceled)
	c.expect(5, op.Success)
	receive(t, ended, "the first search's end")
	c.send(6, search)
	if id := receive(t, began, "another search"); id != 6 {
		t.Errorf("search %d stays", id)
	}
}

// TestStayIsNotOutstanding checks that persistent operations do not count towards
// MaxOutstanding. Even if only one operation may run at once, another operation runs
// beside persistent operations, and the connection still reads a Cancel.
func TestStayIsNotOutstanding(t *testing.T) {
	began, release := make(chan int32, 1), make(chan bool)
	serve := persistentHandler(make(chan int32, 10), make(chan endedSearch, 10))
	c := start(t, func(ctx context.Context, m *op.Message, sink op.Sink) {
		if _, ok := m.Request.(*op.Modify); ok {
			began <- m.ID
			select {
			case <-ctx.Done():
			case <-release:
			}
		}
		serve(ctx, m, sink)
	}, server.Options{MaxOutstanding: 1}).dial()
	c.send(1, search, search, search)
	c.send(4, modify)
	receive(t, began, "the modify")
	c.send(5, cancelOf(1)) // the Cancel is read, so the reader is free
	c.expect(1, op.Canceled)
	c.expect(5, op.Success)
	c.send(6, cancelOf(4))
	c.expect(4, op.Success)
	c.expect(6, op.TooLate)
	close(release)
}

// TestStayGoroutines checks that a persistent operation costs one goroutine, whatever
// contexts are derived from the operation's context.
func TestStayGoroutines(t *testing.T) {
	const connections, each = 20, 5
	began, ended := make(chan int32, connections*each), make(chan endedSearch, connections*each)
	serve := persistentHandler(began, ended)
	r := start(t, func(ctx context.Context, m *op.Message, sink op.Sink) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		serve(ctx, m, sink)
	}, server.Options{})
	var clients []*client
	for range connections {
		c := r.dial()
		c.send(1, compare)
		c.expect(1, op.Success)
		clients = append(clients, c)
	}
	before := runtime.NumGoroutine()
	for _, c := range clients {
		c.send(2, search, search, search, search, search)
	}
	for range connections * each {
		receive(t, began, "the searches")
	}
	eventually(t, "one goroutine for each", func() bool { return runtime.NumGoroutine() <= before+connections*each })
}

// TestStaySlowClient checks that the output for a client that does not read is bounded,
// that other clients are not delayed, and that the client's connection is closed in the
// end.
func TestStaySlowClient(t *testing.T) {
	const size = 10 << 10
	var sent atomic.Int64
	ended := make(chan error, 1)
	r := start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		response := &op.Response{}
		if _, ok := m.Request.(*op.Search); ok {
			sink.(op.Persister).Persist()
			e := person("cn=1", make([]byte, size))
			var err error
			for err = sink.Entry(e); err == nil; err = sink.Entry(e) {
				sent.Add(size)
			}
			ended <- err
		}
		sink.Done(response)
	}, server.Options{WriteTimeout: 500 * time.Millisecond})
	r.dial().send(1, search)
	other := r.dial()
	for id := int32(1); ; id++ {
		other.send(id, compare)
		other.expect(id, op.Success)
		select {
		case <-ended:
		default:
			continue
		}
		break
	}
	// The limit most is larger than the buffers of the sockets.
	if most := int64(64 << 20); sent.Load() > most {
		t.Errorf("%d octets were taken for a client that reads none", sent.Load())
	}
	eventually(t, "a line in the log", func() bool { return strings.Contains(r.log.String(), "does not take its answers") })
}
