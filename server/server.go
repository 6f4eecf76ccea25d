// Package server speaks LDAP on connections: it listens, cuts the stream into
// messages, hands requests to a [Session] and writes its answers. What the
// requests mean is the Session's business; what is the connection's own business
// is done here: Abandon, Unbind, message ids, Notice of Disconnection, limits.
//
// # Who runs an operation
//
// A connection has one reader at a time. A hand-off to another goroutine costs
// more than most operations do, so the reader itself runs what it reads. Four
// rules keep that from holding anything up:
//
//   - A ticker looks at a connection that is running something. If the reader is
//     still in the operation of one tick (10 ms) ago, a new reader starts, and the
//     old one is a worker with this operation only. So an Abandon, an Unbind or
//     the next request is read while a search runs, some milliseconds later.
//   - Requests that wait for disks and locks (all but searches and compares) get
//     a goroutine each when there is anything else to do on the connection, so
//     that pipelined writes share one commit.
//   - At most [Options.MaxOutstanding] run at once. Up to 1000 more wait for their
//     turn, with as many octets as one message may have; what comes then is
//     refused, busy (51). So the reader always reads, and an Abandon, a Cancel or
//     an Unbind is heard however many operations are outstanding.
//   - An operation that calls Persist ([op.Persister]) is left by the reader at once
//     and not counted; [Options.MaxPersistent] bounds those.
//
// A Bind is alone on its connection (RFC 4511, 4.2.1): searches under way are
// abandoned, the rest is waited for, and nothing is read until it is answered.
// Unbind and hanging up let updates finish too.
//
// # Answers
//
// All operations of a connection append to one buffer. It is written when the
// reader has no whole request left to run, when another goroutine ends its
// operation, when it holds 32 KiB, and by the ticker. Who must write while the
// client does not read waits, and with it whoever else has something to say on
// that connection; after [Options.WriteTimeout] without progress it is closed.
package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/internal/pause"
	"github.com/seed-4dac0d86/ldapd/monitor"
	"github.com/seed-4dac0d86/ldapd/op"
)

// A Handler makes a session for each connection.
type Handler interface {
	NewSession(info *ConnInfo) Session
}

// A Session is what one client is and does on one connection.
type Session interface {
	// Serve runs one request and answers it with exactly one sink.Done, and
	// returns then: the answer may wait for that. It is called concurrently,
	// except that nothing runs beside a Bind. It gets neither Unbind nor
	// Abandon: the latter cancels ctx, as do the end of the connection and a
	// forced shutdown.
	Serve(ctx context.Context, m *op.Message, sink op.Sink)
	// StartTLS is asked when a client wants TLS to begin, while nothing else
	// runs. A result says why it may not now. If it may, the session is
	// anonymous again: who said what before, in clear, is not known.
	StartTLS() *op.Result
	// Answered is told of requests that the connection answers itself: Cancel,
	// StartTLS and what is refused. It is called concurrently.
	Answered(m *op.Message, r *op.Response)
	// Name is who is bound, for limits and logs; "" is the anonymous.
	Name() string
	// Close is called once, when nothing runs any more.
	Close()
}

// ConnInfo is what is known of a client by its connection alone. It is an
// auth.Channel.
type ConnInfo struct {
	Local, Addr net.Addr
	uid, gid    *int // the client's process's on ldapi, else nil
	secured     atomic.Pointer[secured]
}

// secured is what a connection has when it has TLS.
type secured struct {
	state       tls.ConnectionState
	certificate *x509.Certificate // the server's
}

// TLS is the state of the connection's TLS, nil without one.
func (c *ConnInfo) TLS() *tls.ConnectionState {
	if s := c.secured.Load(); s != nil {
		return &s.state
	}
	return nil
}

// Certificate is the one that the server showed, nil without TLS.
func (c *ConnInfo) Certificate() *x509.Certificate {
	if s := c.secured.Load(); s != nil {
		return s.certificate
	}
	return nil
}

// Peer is the client's process, on ldapi.
func (c *ConnInfo) Peer() (uid, gid int, ok bool) {
	if c.uid == nil || c.gid == nil {
		return 0, 0, false
	}
	return *c.uid, *c.gid, true
}

// Remote is the client's address as text, or the socket's that it came by:
// clients of Unix sockets have none.
func (c *ConnInfo) Remote() string {
	if c.Addr != nil && c.Addr.String() != "" && c.Addr.String() != "@" {
		return c.Addr.String()
	}
	return c.Local.String()
}

// Options limit what clients may take. The zero value of each means its default.
type Options struct {
	// MaxMessage is the largest LDAPMessage taken, in octets; default 16 MiB.
	MaxMessage int
	// TLS returns the configuration for a connection's TLS: for ldaps and for
	// StartTLS. It has one certificate, with its Leaf; if it has VerifyConnection,
	// that verifies clients' certificates. Nil: neither is served.
	TLS func() *tls.Config
	// Proxies are networks whose connections begin with a PROXY header.
	Proxies []netip.Prefix
	// MaxConnections are served at once; default 10000. More are turned away.
	MaxConnections int
	// MaxPerAddress are served at once from one address, or one IPv6 network of
	// 64 bits; zero is no limit.
	MaxPerAddress int
	// MaxOutstanding operations run at once on one connection, others wait;
	// default 64.
	MaxOutstanding int
	// BindTimeout closes a connection on which nobody has been bound for so
	// long; zero is never.
	BindTimeout time.Duration
	// MaxPersistent searches last on one connection, beside those; default 16,
	// less than zero is none.
	MaxPersistent int
	// IdleTimeout closes a connection on which nothing runs and no request
	// came for so long; default one hour.
	IdleTimeout time.Duration
	// HandshakeTimeout is for what comes before LDAP does; default 10 seconds.
	HandshakeTimeout time.Duration
	// KeepAlive is after how much silence TCP asks whether the client's machine
	// is there; default one minute, less than zero is never.
	KeepAlive time.Duration
	// ReadTimeout is for the rest of a message of which a part is there;
	// default one minute.
	ReadTimeout time.Duration
	// WriteTimeout closes a connection whose client takes no 64 KiB of answers
	// in so long, or in a tenth of it while there are more than 256 such clients;
	// default five minutes.
	WriteTimeout time.Duration
	// Logger gets one line for each connection that ends badly; default
	// slog.Default().
	Logger *slog.Logger
	// Traffic counts what comes and goes; default one that nobody reads.
	Traffic *monitor.Traffic
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxMessage, 16<<20)
	setDefault(&o.MaxConnections, 10000)
	setDefault(&o.MaxOutstanding, 64)
	setDefault(&o.BindTimeout, math.MaxInt64)
	setDefault(&o.MaxPersistent, 16)
	setDefault(&o.IdleTimeout, time.Hour)
	setDefault(&o.KeepAlive, time.Minute)
	setDefault(&o.HandshakeTimeout, 10*time.Second)
	setDefault(&o.ReadTimeout, time.Minute)
	setDefault(&o.WriteTimeout, 5*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Traffic == nil {
		o.Traffic = monitor.NewTraffic(nil)
	}
	return o
}

func setDefault[T ~int | ~int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// ErrClosed is returned by Serve on a server that is shut down already.
var ErrClosed = errors.New("server: shut down")

// A Server serves connections until Shutdown.
type Server struct {
	handler Handler
	opts    atomic.Pointer[Options]
	ctx     context.Context // of all operations
	cancel  context.CancelFunc
	ticks   ticks

	mu        sync.Mutex
	draining  bool // Shutdown was called
	full      bool // MaxConnections was reached and logged
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	addresses map[netip.Addr]int // connections; if there is a limit
	running   sync.WaitGroup     // connections and Serve loops
	reaping   sync.Once
	reaper    sync.WaitGroup
}

// New makes a server that has nothing to listen on yet: see [Listen] and
// [Server.Serve].
func New(h Handler, o Options) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		handler:   h,
		ctx:       ctx,
		cancel:    cancel,
		listeners: make(map[net.Listener]bool),
		conns:     make(map[*conn]bool),
		addresses: make(map[netip.Addr]int),
	}
	o = o.withDefaults()
	s.opts.Store(&o)
	return s
}

func (s *Server) options() *Options { return s.opts.Load() }

// Reconfigure replaces the options of a server that may be serving. Open connections
// follow the new limits too, except KeepAlive. TLS, Proxies, Logger and Traffic keep
// their values.
func (s *Server) Reconfigure(o Options) {
	was := s.options()
	o.TLS, o.Proxies, o.Logger, o.Traffic = was.TLS, was.Proxies, was.Logger, was.Traffic
	o = o.withDefaults()
	s.opts.Store(&o)
}

// Serve accepts connections until the server is shut down, and returns nil then.
// It may be called for several listeners at once, and closes them.
func (s *Server) Serve(l net.Listener) error {
	if isSecure(l) && s.options().TLS == nil {
		l.Close()
		return fmt.Errorf("server: %s needs a certificate", l.Addr())
	}
	if !s.addListener(l) {
		l.Close()
		return ErrClosed
	}
	defer s.running.Done()
	defer l.Close()
	traffic := s.options().Traffic.Listener(urlOf(l))
	for delay := time.Duration(0); ; {
		nc, err := l.Accept()
		switch {
		case err == nil:
			delay = 0
			go s.serveConn(nc, isSecure(l), traffic)
		case s.isDraining():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("server: listener %s was closed: %w", l.Addr(), err)
		default:
			// Most likely out of file descriptors, which the end of any
			// connection mends.
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			s.options().Logger.Error("cannot accept connections, will try again", "address", l.Addr(), "error", err, "after", delay)
			pause.For(s.ctx, delay)
		}
	}
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.listeners[l] = true
	s.running.Add(1)
	return true
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// ServeConn serves one connection and closes it. It returns when the connection
// is done with, or goes on elsewhere because its first operations take long.
func (s *Server) ServeConn(nc net.Conn) { s.serveConn(nc, false, s.options().Traffic.Listener("")) }

// serveConn is ServeConn; a secure connection begins with TLS.
func (s *Server) serveConn(nc net.Conn, secure bool, l *monitor.Listener) {
	c := newConn(s, nc, l)
	if refusal, why := s.addConn(c); refusal != nil {
		s.options().Traffic.Refused(why)
		c.refuse(refusal, secure)
		return
	}
	l.Connections.Inc()
	defer c.endAfterPanic()
	if err := c.open(secure); err != nil {
		c.end(err)
		return
	}
	c.read()
}

// addConn takes a connection in, or says why not.
func (s *Server) addConn(c *conn) (*op.Result, monitor.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return shutdown.notice, monitor.RefusedShutdown
	}
	if len(s.conns) >= s.options().MaxConnections {
		if !s.full {
			s.options().Logger.Warn("connections are turned away", "limit", s.options().MaxConnections, "remote", c.info.Remote())
		}
		s.full = true
		return op.Errorf(op.Unavailable, "the server has all the connections that it takes, try again later"), monitor.RefusedLimit
	}
	s.conns[c] = true
	s.running.Add(1)
	s.reaping.Do(func() { s.reaper.Go(s.reap) })
	return nil, ""
}

func (s *Server) removeConn(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if c.address.IsValid() {
		s.removeAddress(c.address)
	}
	s.full = false
	s.running.Done()
}

// Shutdown stops listening, lets the operations under way finish, sends each
// client a Notice of Disconnection and closes its connection. When ctx ends
// before that, the rest is cancelled, and ctx's error returned. Either way no
// Session is at work any more when Shutdown returns: what they stand on can be
// closed.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.drain() {
		c.stop(shutdown)
	}
	defer s.reaper.Wait()
	defer s.cancel()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.cancel()
	for _, c := range s.open() {
		c.nc.Close()
	}
	<-done
	return ctx.Err()
}

// drain stops what brings new work and returns the connections there are.
func (s *Server) drain() []*conn {
	s.mu.Lock()
	s.draining = true
	for l := range s.listeners {
		l.Close()
	}
	s.mu.Unlock()
	return s.open()
}

func (s *Server) open() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	cs := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		cs = append(cs, c)
	}
	return cs
}
