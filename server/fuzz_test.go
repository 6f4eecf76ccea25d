package server_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/server"
	"github.com/seed-4dac0d86/ldapd/wire/wiretest"
)

// Whatever octets a connection gets, it ends soon after they do, without a
// panic, and another connection is served.
func FuzzServer(f *testing.F) {
	var all []byte
	for i, r := range []op.Request{bind, search, modify, compare, &op.Abandon{MessageID: 2}, &op.Extended{OID: "1.2"}, &op.Unbind{}} {
		one := wiretest.AppendRequest(nil, &op.Message{ID: int32(i + 1), Request: r})
		f.Add(one)
		all = append(all, one...)
	}
	f.Add(all)
	h := &handler{serve: func(_ context.Context, m *op.Message, sink op.Sink) {
		if _, ok := m.Request.(*op.Search); ok {
			sink.Entry(person("cn=1", []byte("a")))
		}
		sink.Done(&op.Response{})
	}}
	s := server.New(h, server.Options{MaxMessage: 1 << 16, ReadTimeout: time.Second, Logger: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := net.Pipe()
		ended := make(chan bool)
		go func() {
			s.ServeConn(far)
			close(ended)
		}()
		go io.Copy(io.Discard, near)
		near.SetDeadline(time.Now().Add(patience))
		near.Write(b)
		askOther(t, s)
		near.Close()
		receive(t, ended, "the connection's end")
	})
}

func askOther(t *testing.T, s *server.Server) {
	near, far := net.Pipe()
	go s.ServeConn(far)
	c := newClient(t, near)
	defer c.Close()
	c.send(1, compare)
	c.expect(1, op.Success)
}
