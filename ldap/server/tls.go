package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// Extensions returns the extended operations that a server with these options serves
// itself, without its sessions.
func (o *Options) Extensions() []string {
	if o.TLS == nil {
		return []string{control.OIDCancel}
	}
	return []string{control.OIDCancel, control.OIDStartTLS}
}

// startTLS begins TLS. A StartTLS runs alone on the connection, as a Bind does. The
// answer to StartTLS is the last message in clear. If TLS fails, the connection ends.
func (c *conn) startTLS(m *op.Message) error {
	refusal := c.refuseTLS(m)
	if refusal == nil {
		refusal = c.session.StartTLS()
	}
	response := &op.Response{OID: control.OIDStartTLS}
	if refusal != nil {
		response.Result = *refusal
	}
	c.answer(m, response)
	if refusal != nil {
		return nil
	}
	c.bound.Store(false)
	if err := c.out.flush(); err != nil {
		return err
	}
	return c.handshake()
}

// refuseTLS returns why TLS cannot begin now (RFC 4513, 3.1.1), or nil.
func (c *conn) refuseTLS(m *op.Message) *op.Result {
	for _, have := range m.Controls {
		if have.Critical {
			return op.Errorf(op.UnavailableCriticalExtension, "control %s cannot be used with StartTLS", have.OID)
		}
	}
	switch {
	case m.Request.(*op.Extended).Value != nil:
		return op.Errorf(op.ProtocolError, "StartTLS takes no value")
	case c.tls != nil:
		return op.Errorf(op.OperationsError, "TLS is in use already")
	case c.info.Layer() != nil:
		return op.Errorf(op.OperationsError, "a security layer of SASL is in use already")
	case c.ops.anyWanted():
		return op.Errorf(op.OperationsError, "other operations are outstanding")
	// Octets in clear after the request may come from anybody. If TLS began now, they
	// would count as sent over TLS. So StartTLS is refused, and these octets are read as
	// requests in clear.
	case c.in.unread() > 0:
		return op.Errorf(op.OperationsError, "more data was sent before StartTLS was answered")
	}
	c.ops.workers.Wait() // abandoned operations may still run
	return nil
}

// handshake performs the TLS handshake. Nothing can be written until the handshake is
// complete, because the client would read a notice in clear as a part of TLS.
func (c *conn) handshake() error {
	config := c.server.options().TLS()
	ahead := &readAhead{transport: &c.nc}
	t := tls.Server(ahead, config)
	ahead.octets = c.in.readFrom(t) // octets that follow a PROXY header
	c.out.secure(nil, errNoTLS)
	c.in.deadline(time.Now().Add(c.server.options().HandshakeTimeout))
	if err := onOtherStack(t.Handshake); err != nil {
		return c.handshakeFailed(err)
	}
	c.in.deadline(time.Time{})
	state := stateOf(t, config)
	c.server.options().Traffic.Handshake(tls.VersionName(state.Version), "success")
	c.info.secured.Store(&secured{state, config.Certificates[0].Leaf})
	c.tls = t
	c.out.secure(t, nil)
	return nil
}

// stateOf returns the state after a handshake. If VerifyConnection verifies certificates,
// a certificate that the handshake has accepted counts as verified. Package tls sets
// VerifiedChains only if it has built the chains itself.
func stateOf(t *tls.Conn, config *tls.Config) tls.ConnectionState {
	state := t.ConnectionState()
	if len(state.PeerCertificates) > 0 && config.VerifyConnection != nil && state.VerifiedChains == nil {
		state.VerifiedChains = [][]*x509.Certificate{state.PeerCertificates}
	}
	return state
}

// onOtherStack calls f in a new goroutine. Cryptography needs a large stack. The stack of
// the new goroutine is freed when f returns, but the stack of the reader would stay that
// large.
func onOtherStack(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- recovered(f) }()
	return <-done
}

var (
	errNoTLS     = errors.New("the TLS handshake is not done")
	errHandshake = errors.New("TLS handshake")
)

func (c *conn) handshakeFailed(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("it took longer than %v", c.server.options().HandshakeTimeout)
	}
	c.server.options().Traffic.Handshake("none", "failure")
	return fmt.Errorf("%w: %w", errHandshake, err)
}
