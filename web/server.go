package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
)

// Options are the options of a Server.
type Options struct {
	Listen  []string           // http://HOST:PORT or https://HOST:PORT
	TLS     func() *tls.Config // for a new connection, with one certificate; nil: no https
	Names   []string           // hosts that clients may name, besides those of Listen and of the certificate
	Proxies []netip.Prefix     // if not empty, only these connect over http, and name the client's address and scheme
	Idle    time.Duration      // how long a ticket lasts without a request
	Session time.Duration      // how long a ticket lasts at most
	Log     *slog.Logger
}

// The limits of requests. A request beyond a limit gets an answer that says so, if it can get one.
const (
	headerTime = 10 * time.Second
	bodyTime   = 30 * time.Second // for a request
	answerTime = 2 * time.Minute  // for a request and its answer
	maxBody    = 16 << 20
	maxHeader  = 64 << 10
	maxAtOnce  = 256 // requests at once
	maxTicket  = 8   // requests at once with one ticket
)

// A Server serves HTTP. Handlers are added by Handle, between New and Serve.
type Server struct {
	options   Options
	mux       *http.ServeMux
	http      *http.Server
	listeners []listener
	hosts     map[string]bool // in lower case
	slots     chan struct{}   // one for each request that runs
	tickets   counter
	directory *directory.Directory
	running   sync.WaitGroup
}

type listener struct {
	net.Listener
	secure bool
	url    string
}

// Open opens the listeners of a server. The connections wait until Serve is called.
func Open(o Options) (*Server, error) {
	s := &Server{options: o, mux: http.NewServeMux(), hosts: map[string]bool{}, slots: make(chan struct{}, maxAtOnce)}
	for _, name := range o.Names {
		s.hosts[strings.ToLower(name)] = true
	}
	for _, raw := range o.Listen {
		if err := s.listen(raw); err != nil {
			s.closeListeners()
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) closeListeners() {
	for _, l := range s.listeners {
		l.Close()
	}
}

func (s *Server) listen(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", u.Host)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", raw, err)
	}
	s.listeners = append(s.listeners, listener{l, u.Scheme == "https", u.Scheme + "://" + net.JoinHostPort(u.Hostname(), portOf(l))})
	host := strings.ToLower(u.Hostname())
	s.hosts[host] = true
	if IsLoopback(host) {
		s.hosts["localhost"] = true
	}
	return nil
}

// IsLoopback reports whether a host is this machine: localhost, or a loopback address.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String()) // no error is expected: the address has a port
	return port
}

// URLs returns the URLs of the listeners, with the ports that the system has chosen.
func (s *Server) URLs() (urls []string) {
	for _, l := range s.listeners {
		urls = append(urls, l.url)
	}
	return urls
}

// Handle adds a handler for a pattern of http.ServeMux. Every request that the handler gets has passed
// the checks of this package, and is bounded.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// Serve begins to serve requests, which are requests to the directory.
func (s *Server) Serve(d *directory.Directory) {
	s.directory = d
	s.http = &http.Server{
		Handler: s.guard(), ErrorLog: slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, WriteTimeout: answerTime, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxHeader,
		// With the protocols here, HTTP/2 is set up even if a listener without TLS is served first.
		TLSConfig: &tls.Config{NextProtos: protocols, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.tls(), nil }},
	}
	for _, l := range s.listeners {
		s.running.Go(func() {
			serve := s.http.Serve
			if l.secure {
				serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
			}
			if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.options.Log.Error("the console has ended", "url", l.url, "error", err)
			}
		})
	}
}

var protocols = []string{"h2", "http/1.1"}

// tls returns the TLS configuration of a new connection.
func (s *Server) tls() *tls.Config {
	c := s.options.TLS().Clone()
	c.NextProtos = protocols
	return c
}

// Close closes the listeners, and ends the requests that are still running when ctx ends.
func (s *Server) Close(ctx context.Context) {
	if s.http == nil {
		s.closeListeners()
		return
	}
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	s.running.Wait()
}

// Channel returns the connection of a request.
func (s *Server) Channel(r *http.Request) Channel { return Channel{Request: r, Sent: s.certificate} }

// certificate returns the server's certificate, or nil.
func (s *Server) certificate() *x509.Certificate {
	if s.options.TLS == nil {
		return nil
	}
	return s.options.TLS().Certificates[0].Leaf
}

// guard returns the handler of all requests.
func (s *Server) guard() http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "This request came from a page of another site, and was not carried out.", http.StatusForbidden)
	}))
	inner := origins.Handler(http.HandlerFunc(s.bounded))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused := s.trustProxy(r)
		setHeaders(w.Header(), r.TLS != nil)
		if refused != "" {
			http.Error(w, refused, http.StatusForbidden)
			return
		}
		if !s.isOurs(r) {
			http.Error(w, fmt.Sprintf("This server is not called %q. Use a name in its certificate, or add the name to console.names.", hostOf(r)), http.StatusMisdirectedRequest)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// setHeaders sets the headers of every answer. Handlers may replace Cache-Control and the policy.
func setHeaders(h http.Header, secure bool) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// bounded runs a request within the limits.
func (s *Server) bounded(w http.ResponseWriter, r *http.Request) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		busy(w, http.StatusServiceUnavailable, "The server has too many requests at once: try again soon.")
		return
	}
	if c, err := r.Cookie(cookieName(r)); err == nil {
		if !s.tickets.enter(c.Value) {
			busy(w, http.StatusTooManyRequests, fmt.Sprintf("You have %d requests running: wait until one of them has ended.", maxTicket))
			return
		}
		defer s.tickets.leave(c.Value)
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.mux.ServeHTTP(w, r.WithContext(ctx))
}

func busy(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, text, status)
}

// trustProxy replaces the address and the scheme of a request over http by those that a proxy tells. If
// there are proxies, other clients are refused: the result is then the reason, and otherwise "".
func (s *Server) trustProxy(r *http.Request) (refused string) {
	if len(s.options.Proxies) == 0 || r.TLS != nil {
		return ""
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !slices.ContainsFunc(s.options.Proxies, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) }) {
		return "Only the configured proxies connect here: use the address of the proxy."
	}
	chain := r.Header.Values("X-Forwarded-For")
	if len(chain) == 0 {
		return "The proxy does not name its client in X-Forwarded-For: configure the proxy."
	}
	last := chain[len(chain)-1]
	client, err := netip.ParseAddr(strings.TrimSpace(last[strings.LastIndex(last, ",")+1:]))
	if err != nil {
		return "The proxy does not name its client by an address in X-Forwarded-For: configure the proxy."
	}
	r.RemoteAddr = netip.AddrPortFrom(client, 0).String()
	if r.Header.Get("X-Forwarded-Proto") == "https" {
		r.TLS = &tls.ConnectionState{HandshakeComplete: true}
	}
	return ""
}

// hostOf returns the host that a request names, without the port.
func hostOf(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// isOurs reports whether a request names this server. A name of somebody else may have been made to
// lead here, so that a page there can read our answers.
func (s *Server) isOurs(r *http.Request) bool {
	host := hostOf(r)
	if s.hosts[host] {
		return true
	}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if own, err := netip.ParseAddrPort(a.String()); err == nil && own.Addr().Unmap().String() == host {
			return true
		}
	}
	leaf := s.certificate()
	return leaf != nil && leaf.VerifyHostname(host) == nil
}

// A counter counts the requests that run with each ticket.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) enter(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	if c.n[key] >= maxTicket {
		return false
	}
	c.n[key]++
	return true
}

func (c *counter) leave(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[key]--; c.n[key] == 0 {
		delete(c.n, key)
	}
}
