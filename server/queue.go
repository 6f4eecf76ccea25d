package server

import "github.com/seed-4dac0d86/ldapd/op"

// maxWaiting is the largest number of operations of one connection that wait in its
// queue.
const maxWaiting = 1000

// A queue contains the operations of a connection that wait until fewer operations run.
// The waiting operations are outstanding, so they can be abandoned and canceled. The
// reader thus keeps reading, however busy the connection is. conn.mu guards the queue.
type queue struct {
	ops    []*operation
	octets int // total size of their messages
}

// enqueue adds an operation to the queue, or returns an error if the queue is full.
// Together, the queued messages may have only as many octets as one message may have. The
// caller must hold c.mu.
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

// startWaiting starts the waiting operations that may run now. The caller must be a
// worker or the reader, so that the count of workers cannot reach zero meanwhile. The
// caller must hold c.mu.
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

// forgetWaiting drops the operations that have not begun, because nobody waits for their
// answers.
func (c *conn) forgetWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.waiting.ops {
		c.remove(o)
	}
	c.waiting = queue{}
}

// running returns the number of running operations, except persistent operations and
// Cancels. The caller must hold c.mu.
func (c *conn) running() int {
	n := len(c.ops) - len(c.waiting.ops)
	for _, o := range c.ops {
		if o.stays || o.isCancel() {
			n--
		}
	}
	return n
}
