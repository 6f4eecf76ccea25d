package server

import (
	"fmt"
	"runtime/debug"

	"github.com/seed-4dac0d86/ldapd/op"
)

// A panic costs the connection that it happened on: what it left of the client's
// session is unknown. No other connection feels it, and the process goes on.

// contain recovers from a panic of the function that defers it, and has the
// connection end. The request, if there is one, is for the log.
func (c *conn) contain(request op.Request) {
	if p := recover(); p != nil {
		c.panicked(p, request)
	}
}

// endAfterPanic is contain for the reader, which ends the connection itself.
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

// recovered calls f and returns a panic of it as an error.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}
