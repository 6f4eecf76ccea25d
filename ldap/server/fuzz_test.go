package server_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// FuzzServer checks that a connection with arbitrary octets ends soon after the last
// octet, without a panic. Another connection must then be served.
func FuzzServer(f *testing.F) {
	var all []byte
	for i, r := range []op.Request{bind, search, modify, compare, &op.Abandon{MessageID: 2}, cancelOf(3), &op.Extended{OID: "1.2"}, startTLS, &op.Unbind{}} {
		one := wiretest.AppendRequest(nil, &op.Message{ID: int32(i + 1), Request: r})
		f.Add(one)
		all = append(all, one...)
	}
	f.Add(all)
	tooEarly := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: startTLS})
	f.Add(append(tooEarly, 0x16, 0x03, 0x01, 0x00, 0x05, 0x01, 0x00, 0x00, 0x01, 0x03))
	s := fuzzed(f)
	f.Fuzz(func(t *testing.T, b []byte) { feed(t, s, b, func(nc net.Conn) net.Conn { return nc }) })
}

// FuzzProxy checks what FuzzServer checks, for octets after a proxy's header.
func FuzzProxy(f *testing.F) {
	request := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: compare})
	for _, header := range [][]byte{
		header2(1, alice, service), header2(1, alice6, service6), header2(0, alice, service), header2(1, alice, service, 4, 0, 1, 0),
		[]byte("PROXY TCP4 192.0.2.7 198.51.100.1 4711 636\r\n"), []byte("PROXY UNKNOWN\r\n"),
	} {
		f.Add(append(header, request...))
	}
	s := fuzzed(f)
	f.Fuzz(func(t *testing.T, b []byte) { feed(t, s, b, func(nc net.Conn) net.Conn { return fromLoopback{nc} }) })
}

// fromLoopback is a connection with a loopback address as its remote address. To the
// server, it comes from a proxy.
type fromLoopback struct{ net.Conn }

func (fromLoopback) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func fuzzed(f *testing.F) *server.Server {
	h := &handler{serve: func(_ context.Context, m *op.Message, sink op.Sink) {
		if _, ok := m.Request.(*op.Search); ok {
			sink.Entry(person("cn=1", []byte("a")))
		}
		sink.Done(&op.Response{})
	}}
	config := &tls.Config{Certificates: []tls.Certificate{certstest.New(f).Server()}}
	return server.New(h, server.Options{
		MaxMessage: 1 << 16, ReadTimeout: time.Second, HandshakeTimeout: time.Second, MaxPerAddress: 10, Proxies: loopback,
		TLS: func() *tls.Config { return config }, Logger: slog.New(slog.DiscardHandler)})
}

// feed sends octets on a new connection, which it first passes to wrap.
func feed(t *testing.T, s *server.Server, b []byte, wrap func(net.Conn) net.Conn) {
	near, far := net.Pipe()
	ended := make(chan bool)
	go func() {
		s.ServeConn(wrap(far))
		close(ended)
	}()
	go io.Copy(io.Discard, near)
	near.SetDeadline(time.Now().Add(patience))
	near.Write(b)
	askOther(t, s)
	near.Close()
	receive(t, ended, "the connection's end")
}

func askOther(t *testing.T, s *server.Server) {
	near, far := net.Pipe()
	go s.ServeConn(far)
	c := newClient(t, near)
	defer c.Close()
	c.send(1, compare)
	c.expect(1, op.Success)
}
