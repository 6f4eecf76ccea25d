package request

import (
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// Traced begins the trace span of a request, if the request is sampled. It returns the
// context in which the request runs.
func (req *Request) Traced(ctx context.Context, m *op.Message) context.Context {
	if begin := req.Server.Settings().Trace; begin != nil {
		ctx, req.Seen.Span = begin(ctx, m)
	}
	return ctx
}

// Observed passes the observation of an answered request to the observers.
func (req *Request) Observed(m *op.Message) {
	if !req.Watched {
		return
	}
	set, o := req.Server.Settings(), req.Seen
	o.Conn, o.Who = req.Session.Number, req.Session.Name()
	o.Message, o.Result = m, &req.Response.Result
	o.As, o.Sessions = req.Controls.Proxied, req.Controls.Sessions
	o.Candidates, o.Rows, o.Scans = req.Cost.Candidates, req.Cost.Rows, req.Cost.Scans
	for _, u := range req.Cost.Indexes {
		o.Indexes = append(o.Indexes, monitor.Use(u))
	}
	if o.Result.Code == op.InsufficientAccessRights {
		o.Denied = req.refusal.String()
	}
	o.Took = time.Since(o.Begun)
	o.Slow = set.Slow > 0 && !o.Lasts && o.Took >= set.Slow
	for _, watch := range set.Watchers {
		watch(o)
	}
}

// IsSlow reports whether the request already counts as slow.
func (req *Request) IsSlow() bool {
	limit := req.Server.Settings().Slow
	return req.Watched && limit > 0 && !req.Seen.Lasts && time.Since(req.Seen.Begun) >= limit
}

// Answered passes an observation to the observers. The observed request is one that the
// connection itself has answered.
func (d *Server) Answered(s *Session, m *op.Message, r *op.Result) {
	for _, watch := range d.Settings().Watchers {
		watch(&monitor.Observation{Conn: s.Number, Who: s.Name(), Message: m, Result: r, Answered: true})
	}
}
