package server

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

// An outstanding contains the outstanding operations of a connection. It decides when each operation
// runs and in which goroutine.
type outstanding struct {
	conn *conn
	// workers counts the operations that run in goroutines other than the reader.
	workers sync.WaitGroup

	ended atomic.Pointer[ending] // the contexts of all operations have ended, because the connection ends

	mu      sync.Mutex
	all     []*operation // searched linearly, because they are few
	waiting queue        // the operations that have not begun
	inline  *operation   // the operation that the reader runs
	seen    *operation   // the value of inline at the last tick
}

// A dispatch is a way to run an operation.
type dispatch int

const (
	// The reader runs the operation. If the operation takes long, tick starts a new reader.
	byReader dispatch = iota
	// A new goroutine runs the operation.
	inGoroutine
	// The operation is not run now. It waits in the queue, or the queue was full and the
	// operation is refused.
	queued
)

// enter makes an operation outstanding and decides how to run it. It returns a refusal if the queue
// is full, and an error if the id of the operation is in use.
func (s *outstanding) enter(o *operation) (dispatch, *op.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unused(o.message.ID); err != nil {
		return 0, nil, err
	}
	if r, ok := s.conn.session.(Receiver); ok {
		r.Receive(o.message)
	}
	how, refusal := s.place(o)
	if refusal == nil {
		s.all = append(s.all, o)
		o.drawn, s.conn.in.drawn = s.conn.in.drawn, 0
	}
	return how, refusal, nil
}

// place decides how to run an operation. The decision depends on the request, on the
// connection's other operations, and on whether more input has arrived. The caller must hold
// s.mu.
func (s *outstanding) place(o *operation) (dispatch, *op.Result) {
	if len(s.all) > 0 {
		switch running := s.running(); {
		case running >= s.most() && o.message.Received == nil:
			return queued, s.enqueue(o)
		case running > 0 && waits(o.message.Request):
			s.workers.Add(1)
			return inGoroutine, nil
		}
	}
	if waits(o.message.Request) && s.conn.in.unread() > 0 {
		s.workers.Add(1)
		return inGoroutine, nil
	}
	s.inline = o
	return byReader, nil
}

// waits reports whether a request most likely waits for something other than a CPU.
func waits(r op.Request) bool {
	switch r.(type) {
	case *op.Search, *op.Compare:
		return false
	}
	return true
}

// enqueue adds an operation to the queue, whose messages together may have MaxMessage octets. It
// returns the result busy if the queue is full. The caller must hold s.mu.
func (s *outstanding) enqueue(o *operation) *op.Result {
	if !s.waiting.add(o, s.conn.server.options().MaxMessage) {
		return op.Errorf(op.Busy, "%d operations run on this connection and %d wait: send this one again when some are answered", s.running(), len(s.waiting.ops))
	}
	s.conn.server.options().Traffic.Queued()
	return nil
}

// most returns how many operations may run at once. A session may have a lower limit than the server.
func (s *outstanding) most() int {
	most := s.conn.server.options().MaxOutstanding
	if n := s.conn.session.Outstanding(); n > 0 && n < most {
		return n
	}
	return most
}

// unused returns an error if an outstanding operation has the id (RFC 4511, 4.1.1.1). An
// answered operation may still be listed for a moment. The client may already have the
// answer and use the id again, so unused ignores answered operations. The caller must
// hold s.mu.
func (s *outstanding) unused(id int32) error {
	if o := s.find(id); o == nil || o.sent.Load() {
		return nil
	}
	return &wire.Error{Err: fmt.Errorf("message ID %d is that of an operation still outstanding", id)}
}

// add makes a Bind outstanding, or returns an error if its id is in use.
func (s *outstanding) add(o *operation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.unused(o.message.ID)
	if err == nil {
		s.all = append(s.all, o)
	}
	return err
}

// remove removes an operation from the outstanding operations. The caller must hold s.mu.
func (s *outstanding) remove(o *operation) {
	i := slices.Index(s.all, o)
	last := len(s.all) - 1
	s.all[i], s.all[last] = s.all[last], nil
	s.all = s.all[:last]
	s.conn.memory.giveBack(o.drawn)
	o.drawn = 0
}

// find returns the outstanding operation with the given id, or nil. If there are two, it
// returns the one that is not yet answered. The caller must hold s.mu.
func (s *outstanding) find(id int32) (found *operation) {
	for _, o := range s.all {
		if o.message.ID == id && (found == nil || found.sent.Load()) {
			found = o
		}
	}
	return found
}

// binding returns the Bind that is outstanding, or nil. The caller must hold s.mu.
func (s *outstanding) binding() *operation {
	for _, o := range s.all {
		if _, bind := o.message.Request.(*op.Bind); bind {
			return o
		}
	}
	return nil
}

// running returns the number of running operations, except persistent operations, Cancels, and
// a Bind, which begins when all others have ended. The caller must hold s.mu.
func (s *outstanding) running() int {
	n := len(s.all) - len(s.waiting.ops)
	for _, o := range s.all {
		if _, bind := o.message.Request.(*op.Bind); bind || o.stays || o.isCancel() {
			n--
		}
	}
	return n
}

// startWaiting starts waiting operations until the connection runs as many operations as
// it may. It drops operations that were abandoned while they waited. The caller must be
// the reader, or a worker that has not called s.workers.Done yet. Otherwise the reader
// could return from s.workers.Wait before the started operations are counted. The caller
// must hold s.mu.
func (s *outstanding) startWaiting() {
	if len(s.waiting.ops) == 0 {
		return
	}
	for most := s.most(); len(s.waiting.ops) > 0 && s.running() < most; {
		o := s.waiting.ops[0]
		s.waiting.remove(o)
		if o.state.Load() == abandoned {
			s.remove(o)
			continue
		}
		s.workers.Add(1)
		go s.conn.work(o)
	}
}

// leave removes an operation from the outstanding operations, and also the Cancel that
// waits for it, if any. Then it starts waiting operations. It reports whether the
// calling goroutine, which ran the operation, is still the reader.
func (s *outstanding) leave(o *operation) (reader bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(o)
	if o.canceler != nil {
		s.remove(o.canceler)
	}
	if s.inline == o {
		s.inline = nil
	}
	s.startWaiting()
	return !o.left
}

// abandon abandons an operation. A Cancel cannot be abandoned (RFC 3909, 3). Bind and
// StartTLS cannot be abandoned either (RFC 4511, 4.11). abandon does not check for them,
// because the reader reads nothing while a Bind or StartTLS is outstanding.
func (s *outstanding) abandon(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.find(id); o != nil && !o.isCancel() {
		o.stop(abandoned)
		if s.waiting.remove(o) {
			s.remove(o)
		}
	}
}

// cancel begins a Cancel. If the operation to be canceled still waits in the queue, cancel removes
// and returns the operation. It returns an error if the id of the Cancel is in use.
func (s *outstanding) cancel(m *op.Message) (notBegun *operation, refusal *op.Result, err error) {
	id, refusal := cancelID(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = s.unused(m.ID); err == nil && refusal == nil {
		notBegun, refusal = s.giveUp(id, m)
	}
	return notBegun, refusal, err
}

// giveUp begins the Cancel m of the operation with the given message ID. If the
// operation cannot be canceled, giveUp returns the refusal. If the operation still waits
// in the queue, giveUp removes and returns the operation. Otherwise it ends the
// operation's context and makes m the operation's canceler. The caller must hold s.mu.
func (s *outstanding) giveUp(id int32, m *op.Message) (notBegun *operation, refusal *op.Result) {
	o := s.find(id)
	switch {
	case id == m.ID || o != nil && o.isCancel():
		return nil, op.Errorf(op.CannotCancel, "a Cancel cannot be canceled")
	case o == nil || o.state.Load() == abandoned:
		return nil, op.Errorf(op.NoSuchOperation, "no operation with message ID %d is outstanding", id)
	case o.canceler != nil:
		return nil, op.Errorf(op.CannotCancel, "operation %d is being canceled already", id)
	case s.waiting.remove(o):
		s.remove(o)
		return o, nil
	}
	o.canceler = &operation{conn: s.conn, message: m}
	s.all = append(s.all, o.canceler)
	o.stop(canceled)
	return nil, nil
}

// persist makes a running operation persistent, or returns why it cannot. It reports whether the
// calling goroutine, which runs the operation, was the reader until now. Then the caller must start
// a new reader.
func (s *outstanding) persist(o *operation) (reader bool, refusal *op.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.persistent(); n >= s.conn.server.options().MaxPersistent {
		return false, op.Errorf(op.AdminLimitExceeded, "the connection has %d persistent searches, which is the limit", n)
	}
	o.stays = true
	if reader = !o.left; reader {
		s.detach(o)
	}
	s.startWaiting()
	return reader, nil
}

// detach makes the goroutine of the operation that the reader runs a worker. The caller must hold
// s.mu, and must start a new reader.
func (s *outstanding) detach(o *operation) {
	o.left = true
	s.inline = nil
	s.workers.Add(1)
}

// persistent returns the number of persistent operations. The caller must hold s.mu.
func (s *outstanding) persistent() (n int) {
	for _, o := range s.all {
		if o.stays {
			n++
		}
	}
	return n
}

// endPersistent ends the persistent operations, which would not end by themselves. It answers
// each of them with the result.
func (s *outstanding) endPersistent(answer *op.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.all {
		if o.stays {
			o.end(answer)
		}
	}
}

// drain waits for the running and waiting operations that the ending allows to finish. With
// cancelSearches, it first abandons the searches. With cancelAll, it waits for nothing
// and drops the waiting operations. With finishAll, it answers each persistent operation.
func (s *outstanding) drain(e *ending) {
	if e.grace == cancelAll {
		s.forgetWaiting()
		return
	}
	if e.grace == cancelSearches {
		s.mu.Lock()
		for _, o := range s.all {
			if _, ok := o.message.Request.(*op.Search); ok {
				o.stop(abandoned)
			}
		}
		s.mu.Unlock()
	}
	s.endPersistent(cmp.Or(e.answer, e.notice))
	s.workers.Wait()
}

// end ends the contexts of all operations.
func (s *outstanding) end(e *ending) {
	s.ended.Store(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.all {
		o.release()
	}
}

// forgetWaiting drops the waiting operations. They are never answered, because their
// connection ends.
func (s *outstanding) forgetWaiting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.waiting.ops {
		s.remove(o)
	}
	s.waiting = queue{}
}

// busy reports whether any operation is outstanding. It also returns the outstanding Bind, or nil.
func (s *outstanding) busy() (bool, *operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all) > 0, s.binding()
}

// anyWanted reports whether the client waits for any operation.
func (s *outstanding) anyWanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.all {
		if o.state.Load() != abandoned {
			return true
		}
	}
	return false
}

// endBind ends the Bind that is outstanding, if any. It is answered with the notice.
func (s *outstanding) endBind(notice *op.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.binding(); o != nil {
		o.end(notice)
	}
}

// tick reports whether the reader is in the same operation as at the last tick. Then that goroutine
// is a worker from now on, and the caller must start a new reader. If again is true, the reader
// runs another operation, which needs another tick.
func (s *outstanding) tick() (stuck, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stuck = s.inline != nil && s.inline == s.seen; stuck {
		s.detach(s.inline)
	}
	s.seen = s.inline
	return stuck, s.inline != nil
}

// addTo adds the operations to the load.
func (s *outstanding) addTo(l *monitor.Load, of *monitor.ListenerLoad) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) > 0 {
		l.Busy++
	}
	if len(s.waiting.ops) > 0 {
		l.Blocked++
	}
	for _, o := range s.all {
		k := monitor.OperationOf(o.message.Request)
		switch {
		case o.stays:
			of.Persistent++
		case slices.Contains(s.waiting.ops, o):
			l.Waiting[k]++
		default:
			l.Running[k]++
		}
	}
}
