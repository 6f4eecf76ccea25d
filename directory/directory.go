// Package directory runs LDAP operations on a partition. It performs the steps of an
// operation in the order that the RFCs prescribe.
//
// A [Directory] serves one partition. A client's connection is a [Session], which records
// who is bound. [Session.Serve] runs one request, sends entries and references to a sink,
// and ends with one result. An operation
//
//  1. reads its controls, and fails if a critical control is unknown,
//  2. parses the name, and stops at a referral at or above the name unless ManageDsaIT is
//     set (RFC 3296),
//  3. checks that the requester may perform the operation,
//  4. runs on one snapshot, or in one transaction,
//  5. turns an error into a result code by one function, ToResult.
//
// The packages below directory build the root DSE, the subschema entry and the computed
// attributes, such as entryDN, subschemaSubentry, hasSubordinates and numSubordinates.
//
// Package judge applies the access rules. The rules do not restrict the administrator,
// whose name is configured and needs no entry.
package directory

import (
	"context"
	"sync"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accesslog"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/search"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

// Directory runs operations on a partition. Closing the Directory leaves the partition
// open.
type Directory struct {
	server *request.Server
	lists  search.Lists // sorted results of paged searches, for the next pages
	pool   sync.Pool    // contains values of the type *request.Request
}

// New returns a directory over an open partition. It fails if the administrator's name or a
// limit rule cannot be used.
func New(p *partition.Partition, o Options) (*Directory, error) {
	s, err := request.NewServer(p, o)
	if err != nil {
		return nil, err
	}
	return &Directory{server: s, lists: search.NewLists(), pool: sync.Pool{New: func() any { return request.New(s) }}}, nil
}

// Close ends background work. The caller must close all sessions first.
func (d *Directory) Close() { d.server.Close() }

// Admin returns the administrator's DN as currently configured.
func (d *Directory) Admin() string { return d.server.Settings().Options.Admin }

// Schema returns the schema in force, which the subschema entry shows to everyone.
func (d *Directory) Schema() *schema.Schema { return d.server.Part.Schema() }

// Reconfigure replaces the options of a directory that is serving. Operations that begin
// afterwards use the new options. Sessions stay bound. Secret, Passwords, Log, Access,
// Metrics, Health, Observers, Trace, Extensions and Version keep their values. Reconfigure
// fails in the cases in which [New] fails, and then changes nothing.
func (d *Directory) Reconfigure(o Options) error { return d.server.Reconfigure(o) }

// Session is one client's connection. Callers may call Serve concurrently, except that a
// Bind must run alone (RFC 4511, 4.2.1). Package server ensures this.
type Session struct {
	d       *Directory
	s       request.Session
	resumed *resumed // how Resume has bound the session, or nil
}

// NewSession begins an anonymous session on a connection. The channel may be nil.
func (d *Directory) NewSession(c auth.Channel) *Session { return d.NewSessionIn("", c) }

// NewSessionIn is like NewSession, but the session works in a branch, unless the branch is
// "". Only the administrator can read and change entries there.
func (d *Directory) NewSessionIn(branch string, c auth.Channel) *Session {
	if c == nil {
		c = auth.NoChannel{}
	}
	s := &Session{d: d}
	s.s.Open(c, d.server.Sessions.Add(1), branch)
	accesslog.Connect(d.server.Settings().Access, s.s.Number, c.Remote())
	return s
}

// Close ends the session.
func (s *Session) Close() {
	accesslog.Disconnect(s.d.server.Settings().Access, s.s.Number, s.Name())
	s.s.Forget()
}

// StartTLS returns an error if TLS may not begin on the connection now. Otherwise it
// returns nil and makes the session anonymous again, because an identity that was bound
// in clear is not certain (RFC 4513, 4). No operation may run at the same time.
func (s *Session) StartTLS() *op.Result {
	if s.s.Exchange != nil { // RFC 4513, 3.1.1
		return op.Errorf(op.OperationsError, "a SASL bind of several steps is under way")
	}
	s.s.Forget()
	return nil
}

// Layer returns the security layer that the last Bind has negotiated, or nil. The connection begins it after the answer to
// the Bind. Layer returns each layer once.
func (s *Session) Layer() *layer.Stream {
	l := s.s.Layer
	s.s.Layer = nil
	return l
}

// Name returns the name of the bound identity, for logs; "" is anonymous.
func (s *Session) Name() string { return s.s.Name() }

// Outstanding returns how many operations the session's client may have running at once.
// Zero means that the options do not limit this number for the client.
func (s *Session) Outstanding() int { return s.d.server.LimitsOf(s.s.Who.Load()).Outstanding }

// Answered records a request that the connection itself has answered: a Cancel, a
// StartTLS, or a request that was refused, or canceled before it began.
func (s *Session) Answered(m *op.Message, r *op.Response) { s.d.server.Answered(&s.s, m, &r.Result) }

// Serve runs one operation and sends its answers. Serve returns after it has called the
// sink's Done.
func (s *Session) Serve(ctx context.Context, m *op.Message, sink op.Sink) {
	req := s.d.pool.Get().(*request.Request)
	req.Begin(&s.s, m.ID)
	req.Sink = sink
	ctx = req.Traced(ctx, m)
	s.Receive(m)
	if err := s.run(ctx, req, m, sink); err != nil {
		req.Response.Result = req.Server.ToResult(ctx, err)
		s.noteFailure(req, m)
	}
	req.Response.MatchedDN = req.Named(req.Response.MatchedDN)
	// An error of the sink means that the client is gone. There is nothing left to do.
	_ = sink.Done(req.Response)
	req.Observed(m)
	req.End()
	s.d.pool.Put(req)
}

// run serves a request. For an update of an LDAP transaction, run only returns the result:
// Receive has already kept or refused the update.
func (s *Session) run(ctx context.Context, req *request.Request, m *op.Message, sink op.Sink) error {
	r, ok := m.Received.(*received)
	switch {
	case ok && r.kept:
		return s.answerKept(ctx, req, r)
	case ok && r.ended != nil:
		defer r.ended.Release()
	}
	return s.d.run(ctx, req, m, sink)
}

// noteFailure logs a bind that failed because of wrong credentials.
func (s *Session) noteFailure(req *request.Request, m *op.Message) {
	if b, ok := m.Request.(*op.Bind); ok && req.Response.Code == op.InvalidCredentials {
		accesslog.BindFailed(req.Server.Log, s.s.Number, s.s.Channel.Remote(), b)
	}
}
