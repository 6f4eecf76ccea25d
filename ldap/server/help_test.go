package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

// patience is the longest wait for an event that must happen. A correct test never waits
// so long.
const patience = 10 * time.Second

// A handler answers all requests of all sessions with one function.
type handler struct {
	serve  func(ctx context.Context, m *op.Message, sink op.Sink)
	panics atomic.Pointer[string]                // the method that panics
	noTLS  atomic.Pointer[op.Result]             // answers StartTLS
	layer  atomic.Pointer[layer.Stream]          // begins after the next Bind
	name   atomic.Pointer[string]                // name of the bound identity
	most   atomic.Int32                          // limit on operations of the bound identity; 0: none
	info   atomic.Pointer[chan *server.ConnInfo] // if not nil, receives the ConnInfo of each session
	opened atomic.Int32
	closed atomic.Int32

	mu       sync.Mutex
	answered []string // IDs and codes that Answered received
}

func (h *handler) NewSession(info *server.ConnInfo) server.Session {
	h.panicIn("NewSession")
	h.opened.Add(1)
	if ch := h.info.Load(); ch != nil {
		*ch <- info
	}
	return session{h}
}

type session struct{ *handler }

func (s session) Serve(ctx context.Context, m *op.Message, sink op.Sink) { s.serve(ctx, m, sink) }
func (s session) Close() {
	s.closed.Add(1)
	s.panicIn("Close")
}

func (s session) StartTLS() *op.Result {
	s.panicIn("StartTLS")
	return s.noTLS.Load()
}

func (s session) Layer() *layer.Stream { return s.layer.Swap(nil) }

func (s session) Outstanding() int {
	s.panicIn("Outstanding")
	return int(s.most.Load())
}

func (h *handler) panicIn(method string) {
	if p := h.panics.Load(); p != nil && *p == method {
		panic("whoops")
	}
}

func (s session) Answered(m *op.Message, r *op.Response) {
	s.panicIn("Answered")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = append(s.answered, fmt.Sprint(m.ID, " ", r.Code))
}

func (s session) Name() string {
	s.panicIn("Name")
	if name := s.name.Load(); name != nil {
		return *name
	}
	return ""
}

// succeed answers every request with success.
func succeed(_ context.Context, _ *op.Message, sink op.Sink) { sink.Done(&op.Response{}) }

// A rig is a server on a TCP port, and the server's log.
type rig struct {
	*server.Server
	t    testing.TB
	h    *handler
	addr string
	log  syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func start(t testing.TB, serve func(context.Context, *op.Message, op.Sink), o server.Options) *rig {
	t.Helper()
	r := &rig{t: t, h: &handler{serve: serve}}
	o.Logger = slog.New(slog.NewTextHandler(&r.log, nil))
	r.Server = server.New(r.h, o)
	l, err := server.Listen("ldap://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if o, c := r.h.opened.Load(), r.h.closed.Load(); o != c {
			t.Errorf("%d sessions were opened and %d closed", o, c)
		}
	})
	return r
}

// infos returns a channel that receives the connection information of all later sessions.
func (r *rig) infos() <-chan *server.ConnInfo {
	ch := make(chan *server.ConnInfo, 1)
	r.h.info.Store(&ch)
	return ch
}

// A client writes and reads messages, and arbitrary octets.
type client struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func (r *rig) dial() *client {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	return newClient(r.t, nc)
}

func newClient(t testing.TB, nc net.Conn) *client {
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return &client{nc, t, bufio.NewReader(nc)}
}

// send writes requests in one piece. Their message IDs are consecutive and begin with id.
func (c *client) send(id int32, rs ...op.Request) {
	c.t.Helper()
	var b []byte
	for i, r := range rs {
		b = wiretest.AppendRequest(b, &op.Message{ID: id + int32(i), Request: r})
	}
	if _, err := c.Write(b); err != nil {
		c.t.Error(err) // not Fatal: tests send from goroutines too
	}
}

func (c *client) read() *wiretest.Answer {
	c.t.Helper()
	a, err := wiretest.Read(c.r)
	if err != nil {
		c.t.Fatalf("reading an answer: %v", err)
	}
	return a
}

// expect reads an answer, which must have the given id and code.
func (c *client) expect(id int32, code op.Code) *wiretest.Answer {
	c.t.Helper()
	a := c.read()
	if a.ID != id || a.Response.Code != code {
		c.t.Fatalf("got the answer to %d with code %d (%s), want %d with %d", a.ID, a.Response.Code, a.Response.Diagnostic, id, code)
	}
	return a
}

// notice reads a Notice of Disconnection and the end of the connection.
func (c *client) notice(code op.Code) *wiretest.Answer {
	c.t.Helper()
	a := c.expect(0, code)
	if a.Response.OID != "1.3.6.1.4.1.1466.20036" {
		c.t.Errorf("notice has the OID %q", a.Response.OID)
	}
	c.end()
	return a
}

func (c *client) end() {
	c.t.Helper()
	if b, err := io.ReadAll(c.r); len(b) > 0 || err != nil {
		c.t.Fatalf("got %x, %v, want the end of the connection", b, err)
	}
}

// gone waits until the connection has ended, in order or not: an end with octets that the server has not read resets it.
func (c *client) gone() {
	c.t.Helper()
	if b, err := io.ReadAll(c.r); len(b) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("got %x, %v, want the end of the connection", b, err)
	}
}

// receive receives a value from a channel. It fails the test if no value arrives in time.
func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// eventually waits until holds returns true. It fails the test if that takes too long.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

var (
	compare = &op.Compare{Name: "cn=a", Description: "cn", Value: []byte("a")}
	search  = &op.Search{Base: "dc=x", Scope: op.WholeSubtree, Filter: &filter.Present{Attribute: "objectClass"}}
	modify  = &op.Modify{Name: "cn=a"}
	bind    = &op.Bind{Version: 3, Password: []byte{}}
)

func person(name string, values ...[]byte) *op.SearchEntry {
	return &op.SearchEntry{Name: name, Attributes: []entry.Attribute{{Type: schema.Core().Attribute("cn"), Values: values}}}
}

var errPatience = errors.New("waited in vain")

// canceled waits until the channel of a context's Done is closed, and returns the
// context's error. It returns errPatience if that takes too long.
func canceled(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return errPatience
	}
}
