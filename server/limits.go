package server

import (
	"net"
	"net/netip"
	"time"

	"github.com/seed-4dac0d86/ldapd/monitor"
	"github.com/seed-4dac0d86/ldapd/op"
)

// addAddress counts a connection for its client's address, or says that it has
// too many. The end of the connection takes it back.
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
	c.address = a
	return nil
}

// removeAddress undoes addAddress; it needs s.mu.
func (s *Server) removeAddress(a netip.Addr) {
	if s.addresses[a]--; s.addresses[a] <= 0 {
		delete(s.addresses, a)
	}
}

// countedAs returns what stands for a client: all addresses of an IPv6 network of
// 64 bits are usually one client's.
func countedAs(a netip.Addr) netip.Addr {
	if a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().Addr()
	}
	return a
}

// keepAlive has the system ask for signs of life where nothing else is said, so
// that a connection to a machine that is gone ends.
func keepAlive(nc net.Conn, idle time.Duration) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	// An error means that the connection has ended, which reading finds out.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: idle > 0, Idle: idle, Interval: 15 * time.Second, Count: 4})
}
