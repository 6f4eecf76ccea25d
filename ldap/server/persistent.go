package server

import "github.com/seed-4dac0d86/ldapd/ldap/op"

var _ op.Persister = (*sink)(nil)

var _ op.Ender = (*sink)(nil)

// End implements op.Ender.
func (s *sink) End(notice *op.Result) {
	(*operation)(s).conn.stop(&ending{notice: notice, grace: finishAll})
}

// Persist implements op.Persister. If the reader runs the operation, a new goroutine
// becomes the reader at once. The operation no longer counts towards MaxOutstanding.
// Otherwise persistent operations could use up that limit, and no other operation could
// run. Shutdown stops the operation.
func (s *sink) Persist() error {
	o := (*operation)(s)
	o.context() // makes the context through which Shutdown ends the operation
	c := o.conn
	c.mu.Lock()
	if n := c.persistent(); n >= c.server.options().MaxPersistent {
		c.mu.Unlock()
		return op.Errorf(op.AdminLimitExceeded, "the connection has %d persistent searches, which is the limit", n)
	}
	o.stays = true
	reader := !o.left
	if reader {
		o.left = true
		c.inline = nil
		c.workers.Add(1)
	}
	c.startWaiting()
	c.mu.Unlock()
	if reader {
		go c.read()
	}
	return nil
}

// persistent returns the number of persistent operations. The caller must hold c.mu.
func (c *conn) persistent() (n int) {
	for _, o := range c.ops {
		if o.stays {
			n++
		}
	}
	return n
}

// endPersistent ends the persistent operations, which would not end by themselves. It answers
// each of them with the result.
func (c *conn) endPersistent(answer *op.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.ops {
		if o.stays {
			o.end(answer)
		}
	}
}

// end ends the context of an operation that would not end soon by itself. The operation is
// answered with the notice. The caller must hold conn.mu.
func (o *operation) end(notice *op.Result) {
	if o.state.Load() != wanted {
		return
	}
	o.notice = notice
	if o.state.CompareAndSwap(wanted, stopped) {
		o.release()
	}
}
