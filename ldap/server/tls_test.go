package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

const startTLSOID = "1.3.6.1.4.1.1466.20037"

var startTLS = &op.Extended{OID: startTLSOID}

// A tlsRig is a server with TLS, which also listens on an ldaps port.
type tlsRig struct {
	*rig
	ca     *certstest.Authority
	config *tls.Config // the server's configuration
	secure *server.Listener
}

func startSecure(t testing.TB, serve func(context.Context, *op.Message, op.Sink), o server.Options, change ...func(*tls.Config, *certstest.Authority)) *tlsRig {
	ca := certstest.New(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.Server()}}
	for _, f := range change {
		f(config, ca)
	}
	o.TLS = func() *tls.Config { return config }
	r := &tlsRig{start(t, serve, o), ca, config, nil}
	var err error
	if r.secure, err = server.Listen("ldaps://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	go r.Serve(r.secure)
	return r
}

// trusting returns the configuration of a client that trusts the server.
func (r *tlsRig) trusting() *tls.Config {
	return &tls.Config{RootCAs: r.ca.Pool(), ServerName: "localhost"}
}

// dialSecure connects to ldaps, without a handshake.
func (r *tlsRig) dialSecure() *client {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.secure.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	return newClient(r.t, nc)
}

// dialTLS connects to ldaps.
func (r *tlsRig) dialTLS() *client {
	r.t.Helper()
	return newClient(r.t, r.over(r.dialSecure().Conn))
}

func (r *tlsRig) over(nc net.Conn) net.Conn {
	r.t.Helper()
	c := tls.Client(nc, r.trusting())
	if err := c.Handshake(); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// secured sends StartTLS and returns a client that uses TLS over the same connection.
func (r *tlsRig) secured(c *client, id int32) *client {
	r.t.Helper()
	c.send(id, startTLS)
	if a := c.expect(id, op.Success); a.Response.OID != startTLSOID || a.Response.Value != nil {
		r.t.Errorf("answer: %+v", a.Response)
	}
	return newClient(r.t, r.over(c.Conn))
}

func TestLDAPS(t *testing.T) {
	r := startSecure(t, succeed, server.Options{})
	infos := r.infos()
	c := r.dialTLS()
	info := receive(t, infos, "the session")
	if info.TLS() == nil || !info.TLS().HandshakeComplete || info.Certificate() != r.config.Certificates[0].Leaf {
		t.Errorf("the session is told %+v", info.TLS())
	}
	c.send(1, compare, startTLS)
	c.expect(1, op.Success)
	c.expect(2, op.OperationsError) // refused, because TLS is on already
	c.send(3, &op.Unbind{})
	c.end() // without a close_notify, reading would end with io.ErrUnexpectedEOF
	if want := "ldaps://127.0.0.1:"; !strings.HasPrefix(r.secure.URL(), want) {
		t.Errorf("URL %s", r.secure.URL())
	}
}

func TestStartTLS(t *testing.T) {
	r := startSecure(t, succeed, server.Options{})
	infos := r.infos()
	c := r.dial()
	info := receive(t, infos, "the session")
	c.send(1, compare)
	c.expect(1, op.Success)
	if info.TLS() != nil || info.Certificate() != nil {
		t.Error("TLS in clear")
	}
	c = r.secured(c, 2)
	c.send(3, compare, compare, startTLS)
	c.expect(3, op.Success)
	c.expect(4, op.Success)
	c.expect(5, op.OperationsError)
	if info.TLS() == nil || info.Certificate() == nil {
		t.Error("no TLS")
	}
	c.Write([]byte("garbage"))
	c.notice(op.ProtocolError)
}

// TestStartTLSRefused checks that a wrong use of StartTLS is answered, and that the
// connection continues in clear.
func TestStartTLSRefused(t *testing.T) {
	r := startSecure(t, func(ctx context.Context, m *op.Message, sink op.Sink) {
		if _, ok := m.Request.(*op.Search); ok {
			canceled(ctx)
		}
		sink.Done(&op.Response{})
	}, server.Options{})
	value := &op.Extended{OID: startTLSOID, Value: []byte{}}
	for _, test := range []struct {
		name string
		send []op.Request
		code op.Code
		text string
	}{
		{"with a value", []op.Request{value}, op.ProtocolError, "takes no value"},
		{"search outstanding", []op.Request{search, startTLS}, op.OperationsError, "other operations are outstanding"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := r.dial()
			c.send(1, test.send...)
			if a := c.expect(int32(len(test.send)), test.code); !strings.Contains(a.Response.Diagnostic, test.text) {
				t.Errorf("says %q", a.Response.Diagnostic)
			}
			c.send(9, compare)
			c.expect(9, op.Success)
		})
	}
	t.Run("controls", func(t *testing.T) {
		c := r.dial()
		for id, critical := range []bool{true, false} {
			m := &op.Message{ID: int32(id + 1), Request: startTLS, Controls: []op.Control{{OID: "1.2.3", Critical: critical}}}
			c.Write(wiretest.AppendRequest(nil, m))
			if critical {
				c.expect(1, op.UnavailableCriticalExtension)
			}
		}
		c.expect(2, op.Success)
	})
	t.Run("the session says no", func(t *testing.T) {
		r := startSecure(t, succeed, server.Options{})
		r.h.noTLS.Store(op.Errorf(op.OperationsError, "a SASL bind is under way"))
		c := r.dial()
		c.send(1, startTLS)
		c.expect(1, op.OperationsError)
		c.send(2, compare)
		c.expect(2, op.Success)
	})
	t.Run("not configured", func(t *testing.T) {
		seen := make(chan *op.Message, 1)
		r := start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
			seen <- m
			sink.Done(&op.Response{Result: *op.Errorf(op.ProtocolError, "unknown")})
		}, server.Options{})
		c := r.dial()
		c.send(1, startTLS)
		c.expect(1, op.ProtocolError)
		receive(t, seen, "the request: the session knows it as little as any other")
	})
}

// TestStartTLSInjection checks octets that arrive in clear after a StartTLS request. They must
// be answered in clear or not at all, and never count as requests that arrived over TLS.
// Servers with CVE-2011-0411 or a similar vulnerability counted them as such requests.
func TestStartTLSInjection(t *testing.T) {
	served := make(chan *op.Message, 8)
	r := startSecure(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		served <- m
		sink.Done(&op.Response{})
	}, server.Options{HandshakeTimeout: 5 * time.Second})

	t.Run("in one piece", func(t *testing.T) {
		c := r.dial()
		c.send(1, startTLS, bind)
		c.expect(1, op.OperationsError)
		c.expect(2, op.Success) // the bind was read and answered in clear
		receive(t, served, "the bind")
	})
	t.Run("half a message", func(t *testing.T) {
		c := r.dial()
		b := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: startTLS})
		c.Write(append(b, 0x30))
		c.expect(1, op.OperationsError)
	})
	t.Run("after the answer", func(t *testing.T) {
		c := r.dial()
		c.send(1, startTLS)
		c.expect(1, op.Success)
		c.send(2, bind)
		var buf bytes.Buffer
		buf.ReadFrom(c.r) // the server sends an alert, because the bind is no TLS message
		if strings.Contains(buf.String(), "\x02\x01\x02") || len(served) > 0 {
			t.Errorf("served in clear after StartTLS: %x", buf.Bytes())
		}
		eventually(t, "the log", func() bool { return strings.Contains(r.log.String(), "TLS handshake") })
	})
	t.Run("TLS too early", func(t *testing.T) {
		c := r.dial()
		b := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: startTLS})
		c.Write(append(b, 0x16, 0x03, 0x01, 0x00, 0xc8))
		c.expect(1, op.OperationsError)
		c.notice(op.ProtocolError)
	})
}

// TestHandshakeFails checks that a failed handshake ends the connection, with nothing in
// clear except alerts.
func TestHandshakeFails(t *testing.T) {
	r := startSecure(t, succeed, server.Options{HandshakeTimeout: 200 * time.Millisecond},
		func(c *tls.Config, _ *certstest.Authority) { c.MinVersion = tls.VersionTLS13 })
	for _, test := range []struct {
		name, log string
		do        func(c *client)
	}{
		{"garbage", "first record does not look like a TLS handshake", func(c *client) { c.Write([]byte("GET / HTTP/1.1\r\n\r\n")) }},
		{"silence", "TLS handshake: it took longer than 200ms", func(*client) {}},
		{"a few octets", "TLS handshake: it took longer than 200ms", func(c *client) { c.Write([]byte{0x16, 0x03}) }},
		{"old version", "unsupported versions", func(c *client) {
			config := r.trusting()
			config.MaxVersion = tls.VersionTLS12
			if tls.Client(c.Conn, config).Handshake() == nil {
				t.Error("TLS 1.2 is accepted")
			}
		}},
	} {
		for _, where := range []string{"ldaps", "StartTLS"} {
			t.Run(test.name+" "+where, func(t *testing.T) {
				before := r.log.String()
				c := r.dialSecure()
				if where == "StartTLS" {
					c = r.dial()
					c.send(1, startTLS)
					c.expect(1, op.Success)
				}
				test.do(c)
				var rest bytes.Buffer
				rest.ReadFrom(c.Conn)
				if rest.Len() > 0 && rest.Bytes()[0] != 21 {
					t.Errorf("not an alert: %x", rest.Bytes())
				}
				eventually(t, "the log", func() bool { return strings.Contains(strings.TrimPrefix(r.log.String(), before), test.log) })
			})
		}
	}
	// A connection that only checks whether the port is open is not logged.
	before := r.log.String()
	r.dialSecure().Close()
	r.Shutdown(t.Context()) // waits for the connection's end
	if after := strings.TrimPrefix(r.log.String(), before); strings.Contains(after, "EOF") {
		t.Errorf("log: %s", after)
	}
}

// TestClientCertificate checks that a client certificate is requested, verified, and
// passed to the session.
func TestClientCertificate(t *testing.T) {
	r := startSecure(t, succeed, server.Options{}, func(c *tls.Config, ca *certstest.Authority) {
		c.ClientAuth = tls.RequireAnyClientCert
		c.VerifyConnection = func(s tls.ConnectionState) error {
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
			return err
		}
	})
	infos := r.infos()
	for _, test := range []struct {
		name string
		cert []tls.Certificate
		ok   bool
	}{
		{"right", []tls.Certificate{r.ca.Client(pkix.Name{CommonName: "Ann"}, nil)}, true},
		{"none", nil, false},
		{"of another CA", []tls.Certificate{certstest.New(t).Client(pkix.Name{CommonName: "Ann"}, nil)}, false},
	} {
		config := r.trusting()
		config.Certificates = test.cert
		c, err := ldap.DialURL(r.secure.URL(), ldap.DialWithTLSConfig(config))
		if err == nil {
			_, err = c.Compare("cn=a", "cn", "a")
			c.Close()
		}
		if refused := err != nil && !ldap.IsErrorWithCode(err, 0); refused == test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
		if test.ok {
			state := receive(t, infos, "the session").TLS()
			if got := state.PeerCertificates[0].Subject.CommonName; got != "Ann" || len(state.VerifiedChains) == 0 {
				t.Errorf("%s: %q", test.name, got)
			}
		}
	}
}

// TestGoLDAPStartTLS begins TLS with go-ldap, as clients do.
func TestGoLDAPStartTLS(t *testing.T) {
	rec := &recorder{messages: make(chan *op.Message, 1)}
	r := startSecure(t, rec.serve, server.Options{})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := r.trusting()
		config.MinVersion, config.MaxVersion = version, version
		c, err := ldap.DialURL("ldap://" + r.addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.StartTLS(config); err != nil {
			t.Fatal(err)
		}
		if state, ok := c.TLSConnectionState(); !ok || state.Version != version {
			t.Errorf("%+v", state)
		}
		useGoLDAP(t, c, rec)
		c.Close()
	}
}

// TestTLSStream checks that a large result and a large request arrive complete over TLS. A
// client that does not read must be disconnected.
func TestTLSStream(t *testing.T) {
	const n = 5000
	r := startSecure(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		if c, ok := m.Request.(*op.Compare); ok && len(c.Value) != 3<<20 {
			t.Errorf("%d octets arrived", len(c.Value))
		}
		for range n {
			if sink.Entry(person("cn=1", make([]byte, 500))) != nil {
				return
			}
		}
		sink.Done(&op.Response{})
	}, server.Options{MaxUnbound: 4 << 20, WriteTimeout: 300 * time.Millisecond})
	c := r.dialTLS()
	c.send(1, &op.Compare{Name: "cn=a", Description: "cn", Value: make([]byte, 3<<20)})
	for range n {
		c.read()
	}
	c.expect(1, op.Success)
	for i := range int32(50) {
		c.send(2+i, search)
	}
	eventually(t, "the log", func() bool { return strings.Contains(r.log.String(), "does not take its answers") })
}

// TestShutdownTLS checks that Shutdown closes connections over TLS in order, and ends handshakes.
func TestShutdownTLS(t *testing.T) {
	r := startSecure(t, succeed, server.Options{})
	midway := r.dialSecure() // before idle, so that it is accepted when idle is answered
	idle := r.dialTLS()
	idle.send(1, compare)
	idle.expect(1, op.Success)
	done := make(chan error, 1)
	go func() { done <- r.Shutdown(context.Background()) }()
	idle.end()
	midway.end()
	if err := receive(t, done, "Shutdown"); err != nil {
		t.Error(err)
	}
}
