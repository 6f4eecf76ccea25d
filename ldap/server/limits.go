package server

import (
	"net"
	"net/netip"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// addAddress counts a connection for its client's address. It returns an ending if the
// address has too many connections. When the connection ends, removeAddress reverts the
// count.
func (s *Server) addAddress(c *conn) *ending {
	a := countedAs(addressOf(c.info.Addr))
	if !a.IsValid() || s.options().MaxPerAddress <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addresses[a] >= s.options().MaxPerAddress {
		s.options().Traffic.Refused(monitor.RefusedAddress)
		return &ending{
			notice: op.Errorf(op.Unavailable, "there are %d connections from this address, which is the limit", s.options().MaxPerAddress),
			reason: "too many connections from its address",
		}
	}
	s.addresses[a]++
	c.counted = true
	return nil
}

// removeAddress reverts addAddress. The caller must hold s.mu.
func (s *Server) removeAddress(a netip.Addr) {
	if s.addresses[a]--; s.addresses[a] <= 0 {
		delete(s.addresses, a)
	}
}

// countedAs returns the address for which a client's connections are counted. All
// addresses of an IPv6 network of 64 bits count as one address, because such a network
// usually belongs to one client.
func countedAs(a netip.Addr) netip.Addr {
	if a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().Addr()
	}
	return a
}

// keepAlive makes the system probe a silent connection, so that the connection ends if
// the client's machine is gone.
func keepAlive(nc net.Conn, idle time.Duration) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	// An error means that the connection has ended, which the next read reports.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: idle > 0, Idle: idle, Interval: 15 * time.Second, Count: 4})
}
