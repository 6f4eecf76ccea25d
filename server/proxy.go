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

// proxied reads the header by which a proxy says whose connection it passes on
// (the PROXY protocol, versions 1 and 2). Proxies are known by their address, and
// have to send one: who may leave it out could as well invent one.
func (c *conn) proxied() error {
	if !c.server.isProxy(addressOf(c.info.Addr)) {
		return nil
	}
	c.deadline(time.Now().Add(c.server.options().HandshakeTimeout))
	defer c.deadline(time.Time{})
	if _, err := c.in.Peek(1); errors.Is(err, io.EOF) {
		return err // only a look whether the port is open
	}
	if err := c.readMuch(); err != nil { // a header may be long
		return err
	}
	header, err := proxyproto.Read(c.in)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("it took longer than %v", c.server.options().HandshakeTimeout)
		}
		return fmt.Errorf("PROXY header: %w", err)
	}
	// Of LOCAL, the proxy's own connection, and UNKNOWN nothing can be said.
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

// addressOf returns the IP address of a TCP address; the zero one of others.
func addressOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}
