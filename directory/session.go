package directory

import (
	"context"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/auth"
)

// Session is one client's connection. Requests may run concurrently, except that a Bind
// runs alone (RFC 4511, 4.2.1).
type session struct {
	channel auth.Channel
	number  uint64 // of the connection, for the log
	who     atomic.Pointer[identity]
	// exchange of SASL under way. Only binds touch it, which run alone.
	exchange *exchange
}

// An exchange is what a session remembers between the binds of a mechanism with
// more than one step (RFC 4513, 5.2.1.2).
type exchange struct {
	mechanism string
	next      func(ctx context.Context, o *operation, message []byte) (*identity, error)
}

// name returns who is bound, for logs; "" is the anonymous.
func (s *session) name() string { return s.who.Load().dn() }

// forget makes the session anonymous and returns the exchange that was under way.
func (s *session) forget() *exchange {
	x := s.exchange
	s.exchange = nil
	s.who.Store(nil)
	return x
}
