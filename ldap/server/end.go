package server

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

// An ending describes why and how a connection ends.
//
// A connection that was idle, or whose server shuts down, ends without a Notice of
// Disconnection, as it does in slapd. RFC 4511, 4.4.1 allows a notice there. But libldap hands
// the result code of a notice to whatever request its program makes next, which programs take
// for the answer to that request. After a plain close they connect again.
type ending struct {
	notice  *op.Result      // notice for the client; nil: none
	answer  *op.Result      // answer to persistent operations; nil: the notice
	reason  string          // reason for the log; empty: nothing is logged
	failure monitor.Failure // the failure to count; empty: the ending is no failure
	grace   grace
}

// A grace states what happens to the running operations of a connection that ends.
type grace int

const (
	cancelAll grace = iota
	cancelSearches
	finishAll
)

var (
	shutdown   = &ending{answer: op.Errorf(op.Unavailable, "the server is shutting down"), grace: finishAll}
	idleEnd    = &ending{failure: monitor.FailedIdle}
	unboundEnd = &ending{failure: monitor.FailedIdle}
	slowEnd    = &ending{reason: "the client does not take its answers", failure: monitor.FailedSlow}
	// clientEnd is the ending after an Unbind, or after the client has hung up. Pending
	// updates still finish. Searches are canceled, because nobody waits for their
	// results any more.
	clientEnd = &ending{grace: cancelSearches}
	// panicEnd has no reason, because the panic was logged where it was recovered.
	panicEnd = &ending{notice: op.Errorf(op.Other, "internal error: see the server's log"), failure: monitor.FailedPanic}

	errEnded = op.Errorf(op.Unavailable, "the server has ended the connection")

	errUnbind = errors.New("unbind")
	errEnding = errors.New("input.ending says why")
)

// cause returns the cause with which the contexts of the connection's running operations
// end. The cause is nil if the client has ended the connection.
func (e *ending) cause() error {
	if e == clientEnd {
		return nil
	}
	return errEnded
}

// stop makes the reader end the connection soon. It also ends a Bind, whose hash may take long.
func (c *conn) stop(e *ending) {
	if c.in.stop(e) {
		c.ops.endBind(cmp.Or(e.notice, errEnded))
	}
}

// end ends the connection. The reader calls it with the error of next or handle.
func (c *conn) end(err error) {
	e := c.in.ended(err)
	if e.reason != "" {
		c.log().Warn("connection closed", "reason", e.reason)
	}
	if e.failure != "" {
		c.server.options().Traffic.Failed(e.failure)
	}
	c.ops.drain(e)
	c.ops.end(e)
	c.out.seal(e.notice)
	if c.tls != nil {
		c.tls.CloseWrite() // close_notify shows the client that it has received everything
	}
	if e.notice != nil || e.grace == finishAll {
		linger(c.nc.Conn)
	}
	c.nc.Close()
	c.ops.workers.Wait()
	c.in.forget()
	c.closeSession()
	c.server.removeConn(c)
}

func (c *conn) closeSession() {
	defer c.contain(nil)
	if c.session != nil {
		c.session.Close()
	}
}

// endingOf returns the ending for an error of next or handle.
func endingOf(err error) *ending {
	var broken *wire.Error
	switch {
	case errors.As(err, &broken):
		return &ending{notice: op.Errorf(op.ProtocolError, "%v", err), reason: err.Error(), failure: monitor.FailedProtocol}
	case err == errUnbind, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return clientEnd
	}
	failure := monitor.FailedRead
	if errors.Is(err, errHandshake) {
		failure = monitor.FailedTLS
	}
	return &ending{reason: fmt.Sprintf("reading from it: %v", err), failure: failure}
}

// refuse ends a connection that the server does not accept. A server that shuts down sends no
// notice. On a TLS connection nobody gets one, because a TLS handshake would cost too much for a
// server that may be overloaded.
func (c *conn) refuse(notice *op.Result, secure bool) {
	if !secure && notice != nil {
		c.nc.SetWriteDeadline(time.Now().Add(lingerFor))
		c.nc.Write(wire.AppendNotice(nil, notice))
		linger(c.nc.Conn)
	}
	c.nc.Close()
}

const lingerFor = 500 * time.Millisecond

// linger lets the client read the last message. A TCP connection that is closed with
// unread input is reset, and the reset can overtake the last message.
func linger(nc net.Conn) {
	half, ok := nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	nc.SetReadDeadline(time.Now().Add(lingerFor))
	io.Copy(io.Discard, io.LimitReader(nc, 1<<20))
}

func (c *conn) log() *slog.Logger {
	return c.server.options().Logger.With("remote", c.info.Remote())
}
