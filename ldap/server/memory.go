package server

import (
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

// All connections share one budget of memory, [Options.Memory]. It counts what a client can make
// large: its requests, what they become when they are decoded, answers, and what operations
// announce by [op.Drawer]. Requests and answers below smallSize are not counted, so that most
// operations do not touch the counter. A connection may take a quarter of the budget, so that
// one client alone cannot make the others wait.

const (
	smallSize   = 8 << 10
	smallAnswer = 64 << 10
	partSize    = 64 // memory of an element of a decoded message, without its contents
)

// A budget counts memory in octets.
type budget struct{ used atomic.Int64 }

// take takes n octets, unless more than most would then be in use.
func (b *budget) take(n, most int64) bool {
	if b.used.Add(n) <= most {
		return true
	}
	b.used.Add(-n)
	return false
}

// An allowance is what one connection has drawn from the budget of its server.
type allowance struct {
	server *Server
	drawn  budget
}

// draw takes memory from the budget, or returns why it cannot. The caller must call giveBack.
func (a *allowance) draw(n int64) *op.Result {
	o := a.server.options()
	if !a.drawn.take(n, o.share()) {
		return op.Errorf(op.AdminLimitExceeded, "the requests and answers of this connection would take more than %d octets of memory: ask for less, or for one thing after the other", o.share())
	}
	if !a.server.memory.take(n, o.Memory) {
		a.drawn.used.Add(-n)
		return op.Errorf(op.Busy, "the requests and answers of all clients take as much memory as the server has for them: try again later")
	}
	return nil
}

func (a *allowance) giveBack(n int64) {
	if n != 0 {
		a.drawn.used.Add(-n)
		a.server.memory.used.Add(-n)
	}
}

// share returns how much memory one connection may take. A connection can always send the largest
// message.
func (o *Options) share() int64 { return min(o.Memory, max(o.Memory/4, 2*int64(o.MaxMessage))) }

var _ op.Drawer = (*sink)(nil)

// Draw implements op.Drawer.
func (s *sink) Draw(n int64) error {
	if n < 0 {
		s.conn.memory.giveBack(-n)
		s.drawn += n
		return nil
	}
	if r := s.conn.memory.draw(n); r != nil {
		return r
	}
	s.drawn += n
	return nil
}

// room draws memory for an entry that is about to be encoded. The caller must call giveBack with
// the result.
func (s *sink) room(e *op.SearchEntry) (int64, error) {
	n := int64(wire.EntrySize(e))
	if n <= smallAnswer {
		return 0, nil
	}
	if r := s.conn.memory.draw(n); r != nil {
		return 0, r
	}
	return n, nil
}
