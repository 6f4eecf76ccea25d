package server

import "github.com/seed-4dac0d86/ldapd/ldap/op"

// maxWaiting is the largest number of operations of one connection that wait in its
// queue.
const maxWaiting = 1000

// A queue contains the operations of a connection that wait until fewer operations run.
// The reader does not wait with them: it keeps reading, however busy the connection is.
// The waiting operations are outstanding, so the client can abandon and cancel them.
// conn.mu guards the queue.
type queue struct {
	ops    []*operation
	octets int // total size of the messages of ops
}

// enqueue adds an operation to the queue. It returns the result busy if the queue is
// full. A queue is full if it contains maxWaiting operations, or if its messages and the
// new message together would have more than MaxMessage octets. An empty queue is never
// full. The caller must hold c.mu.
func (c *conn) enqueue(o *operation) *op.Result {
	q := &c.waiting
	if len(q.ops) == maxWaiting || len(q.ops) > 0 && q.octets+o.octets > c.server.options().MaxMessage {
		return op.Errorf(op.Busy, "%d operations run on this connection and %d wait: send this one again when some are answered", c.running(), len(q.ops))
	}
	q.ops = append(q.ops, o)
	q.octets += o.octets
	c.server.options().Traffic.Queued()
	return nil
}

// startWaiting starts waiting operations until the connection runs as many operations as
// it may. It drops operations that were abandoned while they waited. The caller must be
// the reader, or a worker that has not called c.workers.Done yet. Otherwise the reader
// could return from c.workers.Wait before the started operations are counted. The caller
// must hold c.mu.
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

// leaveQueue removes an operation from the queue, and reports whether the operation was
// in the queue. The caller must hold c.mu.
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

// forgetWaiting drops the waiting operations. They are never answered, because their
// connection ends.
func (c *conn) forgetWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.waiting.ops {
		c.remove(o)
	}
	c.waiting = queue{}
}

// running returns the number of running operations, except persistent operations, Cancels, and
// a Bind, which begins when all others have ended. The caller must hold c.mu.
func (c *conn) running() int {
	n := len(c.ops) - len(c.waiting.ops)
	for _, o := range c.ops {
		if _, bind := o.message.Request.(*op.Bind); bind || o.stays || o.isCancel() {
			n--
		}
	}
	return n
}
