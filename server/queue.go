package server

import "github.com/seed-4dac0d86/ldapd/op"

// maxWaiting bounds the operations of one connection that wait for their turn.
const maxWaiting = 1000

// A queue has the operations of a connection that wait until fewer run. They are
// outstanding, so they can be abandoned and canceled: the reader goes on reading,
// however busy the connection is. It needs conn.mu.
type queue struct {
	ops    []*operation
	octets int // of their messages
}

// enqueue has an operation wait, or says that too much waits already. What waits
// has no more octets than one message may have. It needs c.mu.
func (c *conn) enqueue(o *operation) *op.Result {
	q := &c.waiting
	if len(q.ops) == maxWaiting || len(q.ops) > 0 && q.octets+o.octets > c.server.options().MaxMessage {
		return op.Errorf(op.Busy, "%d operations run on this connection and %d wait: send it when some are answered", c.running(), len(q.ops))
	}
	q.ops = append(q.ops, o)
	q.octets += o.octets
	c.server.options().Traffic.Queued()
	return nil
}

// startWaiting starts what may run now. The caller is a worker, or the reader, so
// that nobody finds all workers gone meanwhile. It needs c.mu.
func (c *conn) startWaiting() {
	q := &c.waiting
	if len(q.ops) == 0 {
		return
	}
	for most := c.mostOutstanding(); len(q.ops) > 0 && c.running() < most; {
		o := q.ops[0]
		c.leaveQueue(o)
		if o.state.Load() == abandoned {
			c.remove(o)
			continue
		}
		c.workers.Add(1)
		go c.work(o)
	}
}

// leaveQueue ends an operation's waiting, and reports whether it waited. It needs
// c.mu.
func (c *conn) leaveQueue(o *operation) bool {
	q := &c.waiting
	for i := range q.ops {
		if q.ops[i] == o {
			q.ops = append(q.ops[:i], q.ops[i+1:]...)
			q.octets -= o.octets
			return true
		}
	}
	return false
}

// forgetWaiting drops what has not begun; nobody waits for its answer.
func (c *conn) forgetWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.waiting.ops {
		c.remove(o)
	}
	c.waiting = queue{}
}

// running counts the operations that run, except those that stay. It needs c.mu.
func (c *conn) running() int {
	n := len(c.ops) - len(c.waiting.ops)
	for _, o := range c.ops {
		if o.stays || o.isCancel() {
			n--
		}
	}
	return n
}
