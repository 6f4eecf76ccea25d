package server_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

// turned is a protection that turns the bits of octets and adds one octet before them.
type turned byte

func (p turned) Wrap(payload []byte) ([]byte, error) {
	token := append([]byte{byte(p)}, payload...)
	for i := range token {
		token[i] = ^token[i]
	}
	return token, nil
}

func (p turned) Unwrap(token []byte) ([]byte, error) {
	if len(token) == 0 || ^token[0] != byte(p) {
		return nil, errors.New("forged")
	}
	payload := bytes.Clone(token[1:])
	for i := range payload {
		payload[i] = ^payload[i]
	}
	return payload, nil
}

// A layered connection is a client's side of the layer.
type layered struct {
	net.Conn
	s *layer.Stream
}

func (l layered) Read(b []byte) (int, error)  { return l.s.Read(b) }
func (l layered) Write(b []byte) (int, error) { return l.s.Write(b) }

// protect returns the client with the layer, after a bind that has negotiated it.
func (c *client) protect(piece int) *client {
	c.t.Helper()
	c.send(1, saslBind)
	c.expect(1, op.Success)
	return newClient(c.t, layered{c.Conn, &layer.Stream{R: c.r, W: c.Conn, P: turned('p'), Room: piece, Most: 11}})
}

var saslBind = &op.Bind{Version: 3, SASL: true, Mechanism: "X"}

// startLayer starts a server whose SASL binds negotiate a layer that turns bits, for a client that accepts 11 octets.
func startLayer(t *testing.T, o server.Options) *tlsRig {
	var r *tlsRig
	r = startSecure(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		if b, ok := m.Request.(*op.Bind); ok && b.SASL {
			r.h.layer.Store(&layer.Stream{P: turned('p'), Seals: true, Room: 10})
			name := "cn=somebody"
			r.h.name.Store(&name)
		}
		sink.Done(&op.Response{Result: op.Result{Diagnostic: "an answer that is longer than one token"}})
	}, o)
	return r
}

// TestLayer checks that what follows a bind passes through the security layer that it has negotiated, in clear and over TLS,
// however messages are divided into tokens.
func TestLayer(t *testing.T) {
	r := startLayer(t, server.Options{})
	infos := make(chan *server.ConnInfo, 1)
	r.h.info.Store(&infos)
	for _, dial := range []func() *client{r.dial, r.dialTLS} {
		for _, piece := range []int{1, 7, 1000} {
			c := dial().protect(piece)
			info := receive(t, infos, "the session")
			c.send(2, &op.Delete{Name: "dc=example"}, &op.Delete{Name: "dc=example,dc=com"})
			if a, b := c.read(), c.read(); a.ID+b.ID != 5 || a.Response.Code != op.Success || b.Response.Code != op.Success {
				t.Errorf("answers %+v and %+v", a, b)
			}
			if l := info.Layer(); l == nil || !l.Seals {
				t.Error("the connection does not count as sealed")
			}
			c.send(4, startTLS)
			c.expect(4, op.OperationsError)
		}
	}
	// A second bind without a layer leaves the first one in use.
	c := r.dial().protect(1000)
	receive(t, infos, "the session")
	c.send(5, &op.Bind{Version: 3})
	c.expect(5, op.Success)
	c.send(6, &op.Delete{Name: "dc=example"})
	c.expect(6, op.Success)
}

// TestLayerRefuses checks that a token that is forged, too long or cut ends the connection, and that no client can make
// the server keep memory for it.
func TestLayerRefuses(t *testing.T) {
	r := startLayer(t, server.Options{MaxMessage: 1 << 20, Memory: 3 << 20})
	for name, octets := range map[string][]byte{
		"forged":        {0, 0, 0, 2, 1, 2},
		"in clear":      {0x30, 12, 2, 1, 2, 0x42, 0},
		"too long":      {0, 0x20, 0, 0, 1},
		"cut":           {0, 0, 0, 9, 1, 2},
		"empty":         {0, 0, 0, 0},
		"as allowed":    {0, 0x0f, 0, 0, 1},
		"of the budget": {0, 0x10, 0x80, 0, 1},
	} {
		c := r.dial()
		c.protect(1000)
		if _, err := c.Write(octets); err != nil {
			t.Fatal(name, err)
		}
		if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
			w.CloseWrite()
		}
		if _, err := io.ReadAll(c.r); errors.Is(err, os.ErrDeadlineExceeded) { // a notice, sealed, or a reset
			t.Errorf("%s: %v", name, err)
		}
	}
	c := r.dial().protect(1 << 10)
	c.send(2, &op.Delete{Name: strings.Repeat("x", 100_000)})
	c.expect(2, op.Success)
}
