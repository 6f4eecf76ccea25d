package request

import (
	"context"
	"net/netip"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/transaction"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

// Session is one client's connection. Requests may run concurrently, except that a Bind
// must run alone (RFC 4511, 4.2.1).
type Session struct {
	Channel auth.Channel
	Number  uint64 // the number of the connection, for the log
	Who     atomic.Pointer[settings.Identity]
	// Exchange is the SASL exchange in progress. It needs no lock, because binds, StartTLS
	// and the end of the session run alone.
	Exchange *Exchange
	// Layer is the security layer that the Bind has negotiated, until the connection takes it; nil: there is none.
	Layer *layer.Stream
	// Transactions are the open transactions (RFC 5805).
	Transactions transaction.Table
	// Branch is the name of the branch that the session works in, or nil if the session
	// works in no branch. Home is the name of the branch in which the session begins, or
	// "".
	Branch atomic.Pointer[string]
	Home   string

	anonymous access.Who // the anonymous requester, in the form that access rules use
	address   netip.Addr // the address of the client, if it has one
}

// An Exchange is a SASL exchange that has not ended. It is the state between the bind
// requests of a mechanism with several steps (RFC 4513, 5.2.1.2).
type Exchange struct {
	Mechanism string
	Next      func(ctx context.Context, req *Request, message []byte) (*settings.Identity, error)
}

// Open begins an anonymous session on a channel. Home is the branch in which it begins, or "".
func (s *Session) Open(c auth.Channel, number uint64, home string) {
	s.Channel, s.Number, s.Home = c, number, home
	if a, err := netip.ParseAddrPort(c.Remote()); err == nil {
		s.address = a.Addr().Unmap()
	}
	s.Enter("")
}

// Name returns the name of the bound identity, for logs; "" is anonymous.
func (s *Session) Name() string { return s.Who.Load().DN() }

// Forget makes the session anonymous and returns the SASL exchange that was in progress.
// It ends the open transactions without notice (RFC 5805, 3.5).
func (s *Session) Forget() *Exchange {
	x := s.Exchange
	s.Exchange, s.Layer = nil, nil
	s.Who.Store(nil)
	s.Enter("")
	s.Transactions.Abort()
	return x
}

// Enter makes the session work in the named branch. If the name is empty, the session works
// in Home, or in no branch if Home is empty.
func (s *Session) Enter(branch string) {
	if branch == "" {
		branch = s.Home
	}
	if branch == "" {
		s.Branch.Store(nil)
		return
	}
	s.Branch.Store(&branch)
}
