package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/pires/go-proxyproto"
)

// proxied reads the header in which a proxy names the client (the PROXY protocol,
// versions 1 and 2). Proxies are recognized by their addresses. A connection from a
// proxy is refused if it does not begin with a header. Otherwise a client behind a proxy
// that sends no header could forge one.
func (c *conn) proxied() error {
	if !c.server.isProxy(addressOf(c.info.Addr)) {
		return nil
	}
	c.in.deadline(time.Now().Add(c.server.options().HandshakeTimeout))
	defer c.in.deadline(time.Time{})
	if _, err := c.in.from.Peek(1); errors.Is(err, io.EOF) {
		return err // only a check whether the port is open
	}
	if err := c.in.readMuch(); err != nil { // a header may be long
		return err
	}
	header, err := proxyproto.Read(c.in.from)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("it took longer than %v", c.server.options().HandshakeTimeout)
		}
		return fmt.Errorf("PROXY header: %w", err)
	}
	// The header LOCAL is for the proxy's own connection. The headers LOCAL and UNKNOWN
	// name no client.
	if source, target, ok := header.TCPAddrs(); ok && header.Command.IsProxy() {
		c.info.Addr, c.info.Local = source, target
	}
	return nil
}

func (s *Server) isProxy(a netip.Addr) bool {
	for _, network := range s.options().Proxies {
		if network.Contains(a) {
			return true
		}
	}
	return false
}

// addressOf returns the IP address of a TCP address, or the zero Addr for any other
// address.
func addressOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}
