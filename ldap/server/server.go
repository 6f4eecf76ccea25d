// Package server serves LDAP on connections: it listens, cuts the stream into messages,
// passes requests to a [Session] and writes the session's answers. It interprets only the
// requests about the connection itself: Abandon, Unbind, Cancel and StartTLS. It also
// checks message IDs, sends the Notice of Disconnection and enforces limits.
//
// # Who runs an operation
//
// A connection has one reader at a time. A hand-off to another goroutine costs more than
// most operations do, so the reader itself runs the requests that it reads. Four rules
// prevent such a request from delaying others:
//
//   - A ticker checks each connection that runs an operation. If the reader is still in
//     the same operation as one tick (10 ms) ago, a new reader starts, and the old reader
//     becomes a worker for this operation only. Thus, while a search runs, an Abandon, an
//     Unbind or the next request waits at most about 20 ms until it is read.
//   - A request other than a search or compare most likely waits for disks and locks. It
//     runs in a separate goroutine if other operations run on its connection, or if more
//     input has arrived. Pipelined writes thus share one commit.
//   - At most [Options.MaxOutstanding] operations run at once. Up to 1000 more operations
//     wait in a queue, if their messages together are not longer than one message may be.
//     Further operations are refused with busy (51). So the reader always reads, and
//     receives an Abandon, a Cancel or an Unbind however many operations are outstanding.
//   - When an operation that the reader runs calls Persist ([op.Persister]), a new reader
//     starts at once. Persistent operations do not count towards MaxOutstanding.
//     [Options.MaxPersistent] limits the number of persistent operations.
//
// A Bind is alone on its connection (RFC 4511, 4.2.1). The server abandons the searches of
// the connection, lets the other operations finish, and reads nothing until the Bind is
// answered. When a client sends an Unbind or hangs up, the server also abandons the
// searches and lets the other operations finish.
//
// # Answers
//
// All operations of a connection append to one buffer. The buffer is written when the
// reader has no complete request left to run, when another goroutine ends its operation,
// when the buffer contains 32 KiB, and by the ticker. If the client does not read, the
// goroutine that writes waits, and so does every other goroutine with answers for the
// connection. The connection is closed after [Options.WriteTimeout] without progress.
package server

import (
	"cmp"
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

	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
	"github.com/seed-4dac0d86/ldapd/store/pause"
)

// A Handler creates a session for each connection.
type Handler interface {
	NewSession(info *ConnInfo) Session
}

// A Session serves the requests of one connection.
type Session interface {
	// Serve runs one request and answers it with exactly one sink.Done. Serve must
	// return right after Done, because the answer may not be written before Serve
	// returns. Callers call Serve concurrently, except that nothing runs beside a Bind.
	// Serve does not receive Unbind, Abandon and Cancel, nor StartTLS if the server has TLS.
	// The context ctx ends on an Abandon or a Cancel of the request, on a forced shutdown, and
	// on an error that ends the connection. If the request is a search, ctx also ends on a Bind
	// or an Unbind, and when the client hangs up. If the request is a Bind, ctx also ends soon
	// after the client hangs up. If the request is persistent or a Bind, ctx also ends on any
	// shutdown.
	Serve(ctx context.Context, m *op.Message, sink op.Sink)
	// StartTLS is called when a client wants to begin TLS, while nothing else runs.
	// StartTLS returns an error if TLS may not begin now. Otherwise the session must
	// become anonymous, because an identity that was bound in clear is not certain.
	StartTLS() *op.Result
	// Layer is called after a Bind. It returns the security layer that the Bind has negotiated, or
	// nil. The layer begins after the answer to the Bind.
	Layer() *layer.Stream
	// Answered receives the requests that the connection itself answers: Cancel, StartTLS,
	// and requests that are refused or are canceled before they begin. Callers call
	// Answered concurrently.
	Answered(m *op.Message, r *op.Response)
	// Name returns the name of the bound identity, for limits and logs; "" is anonymous.
	Name() string
	// Outstanding returns how many operations the client may have running at once; 0 means
	// that only the server's options limit the number.
	Outstanding() int
	// Close is called once, when no operation runs any more.
	Close()
}

// A Receiver is a Session that needs requests in the order of their arrival. Requests
// that run concurrently may overtake each other.
type Receiver interface {
	// The server calls Receive for each request, except a Bind and the requests that
	// Serve does not receive. It calls Receive before Serve, and in the order in which
	// the requests arrived. Receive may set m.Received. The server then calls Serve at
	// once, however many operations run. Receive must not wait, because the whole
	// connection would wait.
	Receive(m *op.Message)
}

// ConnInfo is what the connection itself reveals about a client. A ConnInfo implements
// auth.Channel.
type ConnInfo struct {
	Local, Addr net.Addr
	Branch      string // the branch in which the session begins, or "" for the trunk
	uid, gid    *int   // of the client's process; nil except on ldapi
	remote      string // what Remote returns, once Addr is final
	secured     atomic.Pointer[secured]
	layer       atomic.Pointer[layer.Stream]
}

// secured contains the TLS state of a connection with TLS, and the server's certificate.
type secured struct {
	state       tls.ConnectionState
	certificate *x509.Certificate // the server's certificate
}

// TLS returns the state of the connection's TLS, or nil without TLS.
func (c *ConnInfo) TLS() *tls.ConnectionState {
	if s := c.secured.Load(); s != nil {
		return &s.state
	}
	return nil
}

// Certificate returns the server's certificate, or nil without TLS.
func (c *ConnInfo) Certificate() *x509.Certificate {
	if s := c.secured.Load(); s != nil {
		return s.certificate
	}
	return nil
}

// Peer returns the user and group of the client's process. ok is false unless the
// connection is over ldapi.
func (c *ConnInfo) Peer() (uid, gid int, ok bool) {
	if c.uid == nil || c.gid == nil {
		return 0, 0, false
	}
	return *c.uid, *c.gid, true
}

// Remote returns the client's address. A client of a Unix socket has no address, so
// Remote then returns the socket's path.
func (c *ConnInfo) Remote() string {
	if c.remote != "" {
		return c.remote
	}
	if c.Addr != nil && c.Addr.String() != "" && c.Addr.String() != "@" {
		return c.Addr.String()
	}
	return c.Local.String()
}

// Layer returns the security layer of SASL that is in use, or nil.
func (c *ConnInfo) Layer() *layer.Stream { return c.layer.Load() }

// Options limit what clients may use. A zero field means the field's default.
type Options struct {
	// MaxMessage is the largest LDAPMessage accepted, in octets; default 16 MiB.
	MaxMessage int
	// MaxUnbound is the largest LDAPMessage of a connection without a bound identity; default
	// 256 KiB.
	MaxUnbound int
	// Memory is how much memory the requests and answers of all connections may take together, in
	// octets; default 256 MiB, less than zero means any.
	Memory int64
	// TLS returns the TLS configuration of a connection, for ldaps and StartTLS. The
	// configuration must have exactly one certificate, and the certificate's Leaf must be
	// set. The configuration's VerifyConnection, if set, verifies clients' certificates.
	// If TLS is nil, the server serves neither ldaps nor StartTLS.
	TLS func() *tls.Config
	// Proxies are networks whose connections begin with a PROXY header.
	Proxies []netip.Prefix
	// MaxConnections is the largest number of connections; default 10000. Further
	// connections are refused.
	MaxConnections int
	// MaxPerAddress is the largest number of connections from one address, or from one
	// IPv6 network of 64 bits; zero means no limit.
	MaxPerAddress int
	// MaxOutstanding is the largest number of operations that run at once on one
	// connection; default 64. Further operations wait in a queue.
	MaxOutstanding int
	// BindTimeout is the time after which a connection without a bound identity is
	// closed; zero means never.
	BindTimeout time.Duration
	// MaxPersistent is the largest number of persistent searches of one connection;
	// default 16, less than zero means none. Persistent searches do not count towards
	// MaxOutstanding.
	MaxPersistent int
	// IdleTimeout is the time after which a connection is closed if nothing runs on it
	// and no request arrives; default one hour.
	IdleTimeout time.Duration
	// HandshakeTimeout limits the time for a PROXY header and for a TLS handshake;
	// default 10 seconds.
	HandshakeTimeout time.Duration
	// KeepAlive is the silence after which TCP probes the client's machine; default one
	// minute, less than zero means never.
	KeepAlive time.Duration
	// ReadTimeout limits the time for the rest of a message that has begun; default one
	// minute.
	ReadTimeout time.Duration
	// WriteTimeout is the time after which a connection is closed if its client does not
	// accept 64 KiB of answers; default five minutes. While writes to more than 256
	// clients are in progress, a tenth of this time applies.
	WriteTimeout time.Duration
	// Logger receives errors and warnings, such as one for each connection that ends
	// badly; default slog.Default().
	Logger *slog.Logger
	// Traffic counts connections, messages and octets; by default the counts are not
	// exported.
	Traffic *monitor.Traffic
}

func (o Options) withDefaults() Options {
	o.MaxMessage = cmp.Or(o.MaxMessage, 16<<20)
	o.MaxUnbound = cmp.Or(o.MaxUnbound, 256<<10)
	o.Memory = cmp.Or(o.Memory, 256<<20)
	if o.Memory < 0 {
		o.Memory = math.MaxInt64
	}
	o.MaxConnections = cmp.Or(o.MaxConnections, 10000)
	o.MaxOutstanding = cmp.Or(o.MaxOutstanding, 64)
	o.BindTimeout = cmp.Or(o.BindTimeout, math.MaxInt64)
	o.MaxPersistent = cmp.Or(o.MaxPersistent, 16)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, time.Hour)
	o.KeepAlive = cmp.Or(o.KeepAlive, time.Minute)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, 10*time.Second)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, time.Minute)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 5*time.Minute)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Traffic == nil {
		o.Traffic = monitor.NewTraffic()
	}
	return o
}

// ErrClosed is the error of Serve if the server has been shut down before the call.
var ErrClosed = errors.New("server: shut down")

// A Server serves connections until Shutdown.
type Server struct {
	handler Handler
	opts    atomic.Pointer[Options]
	ctx     context.Context // context of all operations
	cancel  context.CancelCauseFunc
	ticks   ticks
	memory  budget

	mu        sync.Mutex
	draining  bool // Shutdown was called
	full      bool // MaxConnections was reached, and this was logged
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	addresses map[netip.Addr]int // number of connections from each address, if limited
	running   sync.WaitGroup     // counts connections and Serve loops
	reaping   sync.Once
	reaper    sync.WaitGroup
}

// New returns a server that does not listen yet: see [Listen] and [Server.Serve].
func New(h Handler, o Options) *Server {
	ctx, cancel := context.WithCancelCause(context.Background())
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

// Reconfigure replaces the options, also while the server serves. Open connections follow
// the new limits too, except KeepAlive. TLS, Proxies, Logger and Traffic keep their
// values.
func (s *Server) Reconfigure(o Options) {
	was := s.options()
	o.TLS, o.Proxies, o.Logger, o.Traffic = was.TLS, was.Proxies, was.Logger, was.Traffic
	o = o.withDefaults()
	s.opts.Store(&o)
}

// Serve accepts connections until the server is shut down, and then returns nil. Callers
// may call Serve for several listeners at once. Serve closes the listener.
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
			go s.serveConn(nc, l, traffic)
		case s.isDraining():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("server: listener %s was closed: %w", l.Addr(), err)
		default:
			// Most likely there are no file descriptors left. The end of any connection
			// frees a descriptor.
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

// ServeConn serves one connection and closes it. ServeConn returns when the connection
// has ended, or when another goroutine serves the connection because an operation takes
// long or because the connection is silent.
func (s *Server) ServeConn(nc net.Conn) { s.serveConn(nc, nil, s.options().Traffic.Listener("")) }

// serveConn does what ServeConn does. The parameter from is the listener that accepted the
// connection, or nil. The parameter l counts the traffic.
func (s *Server) serveConn(nc net.Conn, from net.Listener, l *monitor.Listener) {
	secure := isSecure(from)
	c := newConn(s, nc, l)
	c.info.Branch = branchOf(from)
	if why, notice := s.addConn(c); why != "" {
		s.options().Traffic.Refused(why)
		c.refuse(notice, secure)
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

// addConn registers a connection, or returns why the connection is refused and what the client
// is told.
func (s *Server) addConn(c *conn) (monitor.Refusal, *op.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return monitor.RefusedShutdown, nil
	}
	if len(s.conns) >= s.options().MaxConnections {
		if !s.full {
			s.options().Logger.Warn("connections are turned away", "limit", s.options().MaxConnections, "remote", c.info.Remote())
		}
		s.full = true
		return monitor.RefusedLimit, op.Errorf(op.Unavailable, "the server has reached its limit of connections: try again later")
	}
	s.conns[c] = true
	s.running.Add(1)
	s.reaping.Do(func() { s.reaper.Go(s.reap) })
	return "", nil
}

func (s *Server) removeConn(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if c.counted {
		s.removeAddress(countedAs(addressOf(c.info.Addr)))
	}
	s.full = false
	s.running.Done()
}

// Shutdown stops listening, lets running operations finish, sends each client a Notice of
// Disconnection and closes its connection. If ctx ends before that, Shutdown cancels the
// operations that still run and returns ctx's error. In either case no Session is in use
// any more when Shutdown returns, so that the caller can close what Sessions use.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.drain() {
		c.stop(shutdown)
	}
	defer s.reaper.Wait()
	defer s.cancel(shutdown.answer)
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
	s.cancel(shutdown.answer)
	for _, c := range s.open() {
		c.nc.Close()
	}
	<-done
	return ctx.Err()
}

// drain closes the listeners, makes the server refuse new connections, and returns the
// open connections.
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
