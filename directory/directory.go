// Package directory runs every operation of LDAP in the order its RFC gives,
// over a partition: it is where requests get their meaning.
//
// A [Directory] serves one partition. A client's connection is a [Session]: it
// knows who is bound. [Session.Serve] takes one request, sends its entries and
// references to a sink, and ends it with one result. On the way an operation
//
//  1. reads its controls (an unknown critical one ends it),
//  2. parses the name, and stops at a referral above it unless ManageDsaIT says
//     otherwise (RFC 3296),
//  3. asks whether the requester may,
//  4. runs on one snapshot, or in one transaction,
//  5. has its errors mapped to a result code by one function, ToResult.
//
// The root DSE and the subschema entry are made here from what the server can
// do. So are the attributes that are computed: entryDN, subschemaSubentry,
// hasSubordinates, numSubordinates.
//
// Until there are access rules: everyone reads everything but secret attributes,
// which are neither shown, compared nor filtered on; users change their own
// userPassword; the administrator, who is configured and needs no entry, does
// everything.
package directory

import (
	"context"
	"sync"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accesslog"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/search"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// Directory runs operations on a partition. It does not own it.
type Directory struct {
	server *request.Server
	lists  *search.Lists // orders of sorted searches, to go on with
	pool   sync.Pool     // *request.Request
}

// New makes a directory over an open partition. The error is a name or a
// password of the administrator, or a limit rule, that cannot be used.
func New(p *partition.Partition, o Options) (*Directory, error) {
	s, err := request.NewServer(p, o)
	if err != nil {
		return nil, err
	}
	return &Directory{server: s, lists: search.NewLists(), pool: sync.Pool{New: func() any { return request.New(s) }}}, nil
}

// Close ends what goes on beside operations. Sessions end before it.
func (d *Directory) Close() { d.server.Close() }

// Admin returns the administrator's DN, as it is configured now.
func (d *Directory) Admin() string { return d.server.Settings().Options.Admin }

// Reconfigure replaces the options of a directory that is serving. Operations that
// begin afterwards follow the new ones; sessions stay bound. Secret, Passwords, Log,
// Access, Metrics, Health, Observers, Extensions and Version keep their values. The
// errors are those of [New], and leave everything as it was.
func (d *Directory) Reconfigure(o Options) error { return d.server.Reconfigure(o) }

// Session is one client's connection. Serve may be called concurrently, except
// that a Bind runs alone (RFC 4511, 4.2.1): the server sees to that.
type Session struct {
	d *Directory
	s *request.Session
}

// NewSession begins an anonymous session on a connection; a nil channel tells
// nothing of it.
func (d *Directory) NewSession(c auth.Channel) *Session {
	if c == nil {
		c = auth.NoChannel{}
	}
	s := &Session{d: d, s: &request.Session{Channel: c, Number: d.server.Sessions.Add(1)}}
	accesslog.Connect(d.server.Settings().Access, s.s.Number, c.Remote())
	return s
}

// Close ends the session.
func (s *Session) Close() {
	accesslog.Disconnect(s.d.server.Settings().Access, s.s.Number, s.Name())
	s.s.Who.Store(nil)
}

// StartTLS says whether TLS may begin on the connection now; nil: it may, and the
// session is anonymous again, since who bound in clear is not known for sure (RFC
// 4513, 4). Nothing else runs meanwhile.
func (s *Session) StartTLS() *op.Result {
	if s.s.Exchange != nil { // RFC 4513, 3.1.1
		return op.Errorf(op.OperationsError, "a SASL bind of several steps is under way")
	}
	s.s.Who.Store(nil)
	return nil
}

// Name is who is bound, for logs; "" is the anonymous.
func (s *Session) Name() string { return s.s.Name() }

// Outstanding is how many operations the session's client may have running at
// once, 0 for no limit of its own.
func (s *Session) Outstanding() int { return s.d.server.LimitsOf(s.s.Who.Load()).Outstanding }

// Answered is told of a request that the connection itself has answered: Cancel,
// StartTLS, what is refused.
func (s *Session) Answered(m *op.Message, r *op.Response) { s.d.server.Answered(s.s, m, &r.Result) }

// Serve runs one operation and sends its answers. It returns when Done has been
// called.
func (s *Session) Serve(ctx context.Context, m *op.Message, sink op.Sink) {
	req := s.d.pool.Get().(*request.Request)
	req.Begin(s.s, m.ID)
	if err := s.d.run(ctx, req, m, sink); err != nil {
		req.Response.Result = req.Server.ToResult(err)
		s.noteFailure(req, m)
	}
	// The sink's error means that the client is gone, and we are done anyway.
	_ = sink.Done(req.Response)
	req.Observed(m)
	req.End()
	s.d.pool.Put(req)
}

// noteFailure logs a bind with wrong credentials.
func (s *Session) noteFailure(req *request.Request, m *op.Message) {
	if b, ok := m.Request.(*op.Bind); ok && req.Response.Code == op.InvalidCredentials {
		accesslog.BindFailed(req.Server.Log, s.s.Number, s.s.Channel.Remote(), b)
	}
}
