package auth

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
)

// A Channel is what is known of a client by its connection alone.
type Channel interface {
	// TLS is the state of the connection's TLS, nil without one. It changes
	// once, by StartTLS.
	TLS() *tls.ConnectionState
	// Certificate is the one that the server showed in TLS, which its state does
	// not have; nil if there is none.
	Certificate() *x509.Certificate
	// Peer is the client's process on the same machine, by a Unix socket.
	Peer() (uid, gid int, ok bool)
	// Remote is the client's address as text, for logs.
	Remote() string
}

// Confidential reports whether nobody on the way can read along: TLS, or a
// socket that does not leave the machine.
func Confidential(c Channel) bool {
	if c.TLS() != nil {
		return true
	}
	_, _, local := c.Peer()
	return local
}

// FromThisMachine reports whether the client is on this machine, by its address.
func FromThisMachine(c Channel) bool {
	a, err := netip.ParseAddrPort(c.Remote())
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// NoChannel knows nothing.
type NoChannel struct{}

func (NoChannel) TLS() *tls.ConnectionState      { return nil }
func (NoChannel) Certificate() *x509.Certificate { return nil }
func (NoChannel) Peer() (uid, gid int, ok bool)  { return 0, 0, false }
func (NoChannel) Remote() string                 { return "" }
