package server

import (
	"fmt"
	"runtime/debug"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// A panic ends the connection on which it occurred, because the state of the client's
// session is unknown. Other connections and the process continue.

// contain recovers from a panic and makes the connection end. The caller must defer
// contain. The request, if not nil, is logged.
func (c *conn) contain(request op.Request) {
	if p := recover(); p != nil {
		c.panicked(p, request)
	}
}

// endAfterPanic is contain for the reader: it also ends the connection.
func (c *conn) endAfterPanic() {
	if p := recover(); p != nil {
		c.panicked(p, nil)
		c.end(errEnding)
	}
}

func (c *conn) panicked(p any, request op.Request) {
	c.log().Error("panic while serving a connection", "request", fmt.Sprintf("%T", request),
		"panic", p, "stack", string(debug.Stack()))
	c.stop(panicEnd)
}

// recovered calls f and returns its panic as an error.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}
