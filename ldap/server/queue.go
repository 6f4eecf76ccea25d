package server

import "slices"

// maxWaiting is the largest number of operations of one connection that wait in its
// queue.
const maxWaiting = 1000

// A queue contains the operations of a connection that wait until fewer operations run.
// The reader does not wait with them: it keeps reading, however busy the connection is.
// The waiting operations are outstanding, so the client can abandon and cancel them.
// The lock of the outstanding guards the queue.
type queue struct {
	ops    []*operation
	octets int // total size of the messages of ops
}

// add adds an operation, unless the queue is full. A queue is full if it contains maxWaiting
// operations, or if its messages and the new message together would have more than most octets.
// An empty queue is never full.
func (q *queue) add(o *operation, most int) bool {
	if len(q.ops) == maxWaiting || len(q.ops) > 0 && q.octets+o.octets > most {
		return false
	}
	q.ops = append(q.ops, o)
	q.octets += o.octets
	return true
}

// remove removes an operation, and reports whether the operation was in the queue.
func (q *queue) remove(o *operation) bool {
	i := slices.Index(q.ops, o)
	if i < 0 {
		return false
	}
	q.ops = append(q.ops[:i], q.ops[i+1:]...)
	q.octets -= o.octets
	return true
}
