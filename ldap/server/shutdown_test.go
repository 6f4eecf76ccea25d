package server_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
)

// TestShutdown checks that Shutdown lets running operations finish, accepts no new
// operations, and closes connections without a notice.
func TestShutdown(t *testing.T) {
	running, release := make(chan bool, 2), make(chan bool)
	r := start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		if m.ID < 10 {
			running <- true
			<-release
		}
		sink.Done(&op.Response{})
	}, server.Options{})
	idle, busy, writing := r.dial(), r.dial(), r.dial()
	idle.send(10, compare)
	idle.expect(10, op.Success)
	busy.send(1, search)
	writing.send(1, modify)
	receive(t, running, "the search")
	receive(t, running, "the modify")

	done := make(chan error, 1)
	go func() { done <- r.Shutdown(context.Background()) }()
	idle.end()
	if nc, err := net.Dial("tcp", r.addr); err == nil {
		nc.Close()
		t.Error("the server still listens")
	}
	busy.send(11, compare) // too late to be answered
	close(release)
	for _, c := range []*client{busy, writing} {
		c.expect(1, op.Success)
		c.end()
	}
	if err := receive(t, done, "Shutdown"); err != nil {
		t.Error(err)
	}
	if err := r.Serve(listen(t)); err != server.ErrClosed {
		t.Errorf("Serve after Shutdown: %v", err)
	}
	if r.log.String() != "" {
		t.Errorf("log: %s", &r.log)
	}
}

func listen(t *testing.T) net.Listener {
	l, err := server.Listen("ldap://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestShutdownCancels checks that operations that do not end in time are canceled. The cause
// of their contexts must say that the server canceled them.
func TestShutdownCancels(t *testing.T) {
	running, ended := make(chan bool), make(chan error, 1)
	r := start(t, func(ctx context.Context, _ *op.Message, _ op.Sink) {
		running <- true
		canceled(ctx)
		ended <- context.Cause(ctx)
	}, server.Options{})
	c := r.dial()
	c.send(1, search)
	receive(t, running, "the search")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := r.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	var cause *op.Result
	if err := receive(t, ended, "the search's end"); !errors.As(err, &cause) || cause.Code != op.Unavailable {
		t.Errorf("got %v", err)
	}
}

// TestShutdownStuck checks that a client that never reads does not delay Shutdown for
// ever.
func TestShutdownStuck(t *testing.T) {
	running := make(chan bool)
	r := start(t, func(_ context.Context, _ *op.Message, sink op.Sink) {
		running <- true
		for sink.Entry(person("cn=1", make([]byte, 1000))) == nil {
		}
	}, server.Options{})
	r.dial().send(1, search)
	receive(t, running, "the search")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.Shutdown(ctx) }()
	if err := receive(t, done, "Shutdown"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
}

// TestShutdownMidMessage checks that Shutdown does not wait for the rest of a request.
func TestShutdownMidMessage(t *testing.T) {
	r := start(t, succeed, server.Options{})
	c := r.dial()
	c.send(1, compare)
	c.expect(1, op.Success)
	c.Write([]byte{0x30, 0x40, 0x02})
	time.Sleep(20 * time.Millisecond)
	go r.Shutdown(context.Background())
	c.gone()
}

// TestBindEnds checks that the context of a Bind ends when its client is gone, with or without
// input behind the Bind, and at once at a shutdown. A Bind may compute a slow hash.
func TestBindEnds(t *testing.T) {
	running, ended := make(chan bool), make(chan error, 1)
	r := start(t, func(ctx context.Context, m *op.Message, sink op.Sink) {
		if _, ok := m.Request.(*op.Bind); !ok {
			sink.Done(&op.Response{})
			return
		}
		running <- true
		canceled(ctx)
		ended <- context.Cause(ctx)
		sink.Done(&op.Response{Result: *op.Errorf(op.Unavailable, "%v", context.Cause(ctx))})
	}, server.Options{})
	for _, more := range [][]op.Request{nil, {compare, compare}} {
		c := r.dial()
		c.send(1, append([]op.Request{bind}, more...)...)
		receive(t, running, "the bind")
		c.Close()
		if err := receive(t, ended, "the end of the bind"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	c := r.dial()
	c.send(1, bind)
	receive(t, running, "the bind")
	done := make(chan error, 1)
	go func() { done <- r.Shutdown(context.Background()) }()
	var cause *op.Result
	if err := receive(t, ended, "the end of the bind"); !errors.As(err, &cause) || cause.Code != op.Unavailable {
		t.Errorf("got %v", err)
	}
	c.expect(1, op.Unavailable)
	if err := receive(t, done, "Shutdown"); err != nil {
		t.Error(err)
	}
}
