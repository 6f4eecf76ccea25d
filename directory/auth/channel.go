package auth

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"

	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

// A Channel provides the properties of a client's connection that authentication uses.
type Channel interface {
	// TLS returns the TLS state of the connection, or nil if the connection does not use
	// TLS. The result changes at most once, when StartTLS begins TLS.
	TLS() *tls.ConnectionState
	// Certificate returns the certificate that the server has sent, or nil. The TLS state
	// does not contain this certificate.
	Certificate() *x509.Certificate
	// Peer returns the user and group of the client's process. It returns false if the
	// client is not connected by a Unix socket.
	Peer() (uid, gid int, ok bool)
	// Remote returns the client's address as text.
	Remote() string
	// Layer returns the security layer of SASL that is in use, or nil. It begins at most once.
	Layer() *layer.Stream
}

// Confidential reports whether nobody on the network can read the connection: it uses
// TLS, a security layer that seals, or a socket that does not leave the machine.
func Confidential(c Channel) bool {
	if l := c.Layer(); c.TLS() != nil || l != nil && l.Seals {
		return true
	}
	_, _, local := c.Peer()
	return local
}

// FromThisMachine reports whether the client's address is a loopback address.
func FromThisMachine(c Channel) bool {
	a, err := netip.ParseAddrPort(c.Remote())
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// NoChannel is a Channel without TLS, peer and address.
type NoChannel struct{}

func (NoChannel) TLS() *tls.ConnectionState      { return nil }
func (NoChannel) Certificate() *x509.Certificate { return nil }
func (NoChannel) Peer() (uid, gid int, ok bool)  { return 0, 0, false }
func (NoChannel) Remote() string                 { return "" }
func (NoChannel) Layer() *layer.Stream           { return nil }

// ChoosesPlain reports whether this process itself chooses PLAIN on the connection, because that is
// what a form with a name and a password means. The option PlainInClear is about libraries of clients
// that would choose PLAIN unasked.
func ChoosesPlain(c Channel) bool {
	p, ok := c.(interface{ ChoosesPlain() bool })
	return ok && p.ChoosesPlain()
}
