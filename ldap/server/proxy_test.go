package server_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// header2 returns a PROXY header of version 2, as its specification requires: a
// signature, version and command, family and protocol, a length, addresses.
func header2(command byte, from, to netip.AddrPort, more ...byte) []byte {
	b := []byte("\r\n\r\n\x00\r\nQUIT\n")
	family := byte(0x11)
	if from.Addr().Is6() {
		family = 0x21
	}
	body := append(from.Addr().AsSlice(), to.Addr().AsSlice()...)
	body = binary.BigEndian.AppendUint16(body, from.Port())
	body = binary.BigEndian.AppendUint16(body, to.Port())
	body = append(body, more...)
	b = append(b, 0x20|command, family)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	return append(b, body...)
}

var (
	alice    = netip.MustParseAddrPort("192.0.2.7:4711")
	alice6   = netip.MustParseAddrPort("[2001:db8::7]:4711")
	service  = netip.MustParseAddrPort("198.51.100.1:636")
	service6 = netip.MustParseAddrPort("[2001:db8::1]:636")
	loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
)

func TestProxy(t *testing.T) {
	r := startSecure(t, succeed, server.Options{Proxies: loopback})
	infos := r.infos()
	for _, test := range []struct {
		name   string
		header []byte
		want   string // the client's address; empty: the proxy's address
	}{
		{"2", header2(1, alice, service), "192.0.2.7:4711"},
		{"2, IPv6", header2(1, alice6, service6), "[2001:db8::7]:4711"},
		{"2, more after it", header2(1, alice, service, 0x04, 0, 3, 1, 2, 3), "192.0.2.7:4711"},
		{"2, local", header2(0, alice, service), ""},
		{"1", []byte("PROXY TCP4 192.0.2.7 198.51.100.1 4711 636\r\n"), "192.0.2.7:4711"},
		{"1, unknown", []byte("PROXY UNKNOWN\r\n"), ""},
	} {
		request := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: compare})
		check := func(info *server.ConnInfo, local net.Addr) {
			t.Helper()
			want := test.want
			if want == "" {
				want = local.String()
			}
			if got := info.Remote(); got != want {
				t.Errorf("%s: from %s, want %s", test.name, got, want)
			}
		}
		// The header and the first request in one packet.
		c := r.dial()
		c.Write(append(bytes.Clone(test.header), request...))
		check(receive(t, infos, "the session"), c.LocalAddr())
		c.expect(1, op.Success)

		// The same with TLS: the header and the first TLS message in one packet.
		c = r.dialSecure()
		together := &joined{Conn: c.Conn, first: test.header}
		over := tls.Client(together, r.trusting())
		if err := over.Handshake(); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		check(receive(t, infos, "the session"), c.LocalAddr())
		c = newClient(t, over)
		c.Write(request)
		c.expect(1, op.Success)
	}
}

// A joined connection writes some octets together with the first octets of a Write.
type joined struct {
	net.Conn
	first []byte
}

func (j *joined) Write(b []byte) (int, error) {
	n := len(b)
	b = append(j.first, b...)
	j.first = nil
	_, err := j.Conn.Write(b)
	return n, err
}

// TestProxyRefused checks that a connection from a proxy gets no session if its header is
// invalid, and that a PROXY header from a client that is not a proxy is refused.
func TestProxyRefused(t *testing.T) {
	r := start(t, succeed, server.Options{Proxies: loopback, HandshakeTimeout: 100 * time.Millisecond})
	for name, test := range map[string]struct {
		send []byte
		log  string
	}{
		"none":           {wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: compare}), "PROXY header: "},
		"silence":        {nil, "PROXY header: it took longer than 100ms"},
		"a part":         {header2(1, alice, service)[:20], "PROXY header: "},
		"no such family": {append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x13\x00\x0c"), make([]byte, 12)...), "PROXY header: "},
		"too long":       {[]byte("PROXY TCP4 " + strings.Repeat("1", 200) + "\r\n"), "PROXY header: "},
	} {
		before := r.log.String()
		c := r.dial()
		c.Write(test.send)
		if a, err := wiretest.Read(c.r); err == nil {
			t.Errorf("%s: answered %+v", name, a)
		}
		eventually(t, "the log", func() bool { return strings.Contains(strings.TrimPrefix(r.log.String(), before), test.log) })
	}
	if n := r.h.opened.Load(); n != 0 {
		t.Errorf("%d sessions", n)
	}

	others := start(t, succeed, server.Options{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	c := others.dial()
	c.Write(header2(1, alice, service))
	c.notice(op.ProtocolError)
}
