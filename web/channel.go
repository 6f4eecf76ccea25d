package web

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"

	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

// Channel is the connection of an HTTP request, as an auth.Channel.
type Channel struct {
	Request *http.Request
	Sent    func() *x509.Certificate // the certificate that the server has sent; nil: none
}

// TLS returns the TLS state of the connection, or nil.
func (c Channel) TLS() *tls.ConnectionState { return c.Request.TLS }

// Certificate returns the certificate that the server has sent, or nil.
func (c Channel) Certificate() *x509.Certificate {
	if c.Sent == nil {
		return nil
	}
	return c.Sent()
}

// Peer returns false: there is no HTTP on Unix sockets.
func (c Channel) Peer() (uid, gid int, ok bool) { return 0, 0, false }

// Remote returns the client's address.
func (c Channel) Remote() string { return c.Request.RemoteAddr }

// Layer returns nil: HTTP has no security layer but TLS.
func (c Channel) Layer() *layer.Stream { return nil }

// ChoosesPlain returns true: see auth.ChoosesPlain.
func (c Channel) ChoosesPlain() bool { return true }
