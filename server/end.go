package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/seed-4dac0d86/ldapd/monitor"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/wire"
)

// An ending is why a connection ends, and how.
type ending struct {
	notice  *op.Result      // for the client; nil: none
	reason  string          // for the log; empty: nothing to log
	failure monitor.Failure // empty: it ends as it should
	grace   grace
}

// A grace says what becomes of the operations that run.
type grace int

const (
	cancelAll grace = iota
	cancelSearches
	finishAll
)

var (
	shutdown   = &ending{notice: op.Errorf(op.Unavailable, "the server is shutting down"), grace: finishAll}
	idleEnd    = &ending{notice: op.Errorf(op.AdminLimitExceeded, "the connection was idle for too long"), failure: monitor.FailedIdle}
	unboundEnd = &ending{notice: op.Errorf(op.AdminLimitExceeded, "nobody has bound on the connection for too long"), failure: monitor.FailedIdle}
	slowEnd    = &ending{reason: "the client does not take its answers", failure: monitor.FailedSlow}
	// clientEnd is Unbind or hanging up. Updates that were asked for before are
	// made; nobody waits for searches any more.
	clientEnd = &ending{grace: cancelSearches}
	// panicEnd was logged where it happened.
	panicEnd = &ending{notice: op.Errorf(op.Other, "internal error, see the server's log"), failure: monitor.FailedPanic}

	errUnbind = errors.New("unbind")
	errEnding = errors.New("conn.ending says why")
)

// stop has the reader end the connection, soon: it is woken if it waits.
func (c *conn) stop(e *ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.CompareAndSwap(nil, e) {
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// end ends the connection; the reader calls it, with what next or handle said.
func (c *conn) end(err error) {
	e := c.ending.Load()
	if e == nil {
		e = endingOf(err)
	}
	if e.reason != "" {
		c.log().Warn("connection closed", "reason", e.reason)
	}
	if e.failure != "" {
		c.server.options().Traffic.Failed(e.failure)
	}
	c.drain(e.grace)
	c.cancel()
	c.out.seal(e.notice)
	if c.tls != nil {
		c.tls.CloseWrite() // close_notify: the client has it all
	}
	if e.notice != nil {
		linger(c.nc.Conn)
	}
	c.nc.Close()
	c.workers.Wait()
	c.closeSession()
	c.server.removeConn(c)
}

func (c *conn) closeSession() {
	defer c.contain(nil)
	if c.session != nil {
		c.session.Close()
	}
}

// drain waits for the operations that are to finish.
func (c *conn) drain(g grace) {
	if g == cancelAll {
		c.forgetWaiting()
		return
	}
	if g == cancelSearches {
		c.mu.Lock()
		for _, o := range c.ops {
			if _, ok := o.message.Request.(*op.Search); ok {
				o.stop(abandoned)
			}
		}
		c.mu.Unlock()
	}
	c.endPersistent()
	c.workers.Wait()
}

// endingOf says what to do about an error of reading.
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

// refuse ends a connection that never became one. A TLS handshake only to say so
// would be too much for a server that has too much to do.
func (c *conn) refuse(notice *op.Result, secure bool) {
	c.cancel()
	if !secure {
		c.nc.SetWriteDeadline(time.Now().Add(lingerFor))
		c.nc.Write(wire.AppendNotice(nil, notice))
		linger(c.nc.Conn)
	}
	c.nc.Close()
}

const lingerFor = 500 * time.Millisecond

// linger lets the client read the last message: closing a TCP connection on
// which there is unread input resets it, and a reset overtakes what was sent.
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
