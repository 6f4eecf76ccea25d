// Package request defines the value that is passed along with an operation: the
// requester, the controls, the limits, the state that the operation reads, and the schema
// of that state. It also defines the part that all requests share ([Server]), the
// client's connection ([Session]), and the function that maps errors to results.
package request

import (
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/internal/judge"
	"github.com/seed-4dac0d86/ldapd/directory/internal/wellknown"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Request is one request being served. A copy of a Request serves the same request on
// another state.
type Request struct {
	Server   *Server
	Session  *Session
	ID       int32              // the message ID of the request
	Who      *settings.Identity // the session's identity, unless a control names another
	Controls Controls
	Limits   *settings.Limits // the limits of the requester
	Judge    judge.Judge      // decides what the requester may see and do
	// Branch is the branch that the request is in, or nil. If the names in the request end
	// in the name of the branch's entry, Suffix is this ending, and is appended to the
	// names in the answers. Otherwise Suffix is "".
	Branch *branch.Branch
	Suffix string

	// Snapshot is the state that the request reads, Schema is the schema of Snapshot,
	// and Known are the elements of Schema. Only the method adopt sets these fields.
	Snapshot *partition.Snapshot
	Schema   *schema.Schema
	Known    *wellknown.Elements

	Response *op.Response
	Sink     op.Sink // the sink of the request's answers; nil for a request of the server's own
	// Seen is the observation that observers receive when the request ends. Watched
	// reports whether there are observers.
	Seen    *monitor.Observation
	Watched bool
	Cost    *partition.Cost // of the request's searches; set only if Watched, or if Controls.Explain is set
	refusal judge.Refusal
	held    []*partition.Snapshot // states to close at the end of the request, because the Judge reads them
	kept    *partition.Snapshot   // see Keep
	judged  uint64                // the ordinal of the state whose access rules the Judge applies
	dynamic *access.DynamicGroups // the dynamic groups of Snapshot; nil: not read yet
}

// New returns a Request that can serve requests one after another.
func New(s *Server) *Request {
	return &Request{Server: s, Response: &op.Response{}, Seen: &monitor.Observation{}, Cost: &partition.Cost{}}
}

// Begin begins a request of a session.
func (req *Request) Begin(s *Session, id int32) {
	req.Session, req.ID, req.Who = s, id, s.Who.Load()
	req.Limits = &settings.Unlimited
	req.adopt(nil, req.Server.Part.Schema())
	if req.Watched = len(req.Server.Settings().Watchers) > 0; req.Watched {
		req.Seen.Begun = time.Now()
		req.Judge.NoteIn(&req.refusal)
	}
}

// End resets everything except Server, because the next request may come from another client.
func (req *Request) End() {
	for _, s := range req.held {
		s.Close()
	}
	if req.kept != nil {
		req.kept.Close()
	}
	*req.Response = op.Response{}
	*req.Seen = monitor.Observation{Indexes: req.Seen.Indexes[:0]}
	*req.Cost = partition.Cost{Indexes: req.Cost.Indexes[:0]}
	*req = Request{Server: req.Server, Response: req.Response, Seen: req.Seen, Cost: req.Cost}
}

// Draw takes n octets of the memory that the requests of all clients share. It returns a *op.Result
// if there is no more. The memory is given back when the request ends, or by Draw(-n).
func (req *Request) Draw(n int64) error {
	if d, ok := req.Sink.(op.Drawer); ok {
		return d.Draw(n)
	}
	return nil
}

// Now sets the request to read the newest state, and returns that state.
func (req *Request) Now() *partition.Snapshot {
	return req.Read(state.Newest(req.Server.Part))
}

// Read sets the request to read a state, and returns that state.
func (req *Request) Read(s *partition.Snapshot) *partition.Snapshot {
	req.adopt(s, s.Schema())
	return s
}

// adopt sets the state and the schema of the request. The schema must be the schema of the
// entries that the request reads, because attribute types of different schemas are never
// equal.
func (req *Request) adopt(s *partition.Snapshot, sch *schema.Schema) {
	req.Snapshot, req.dynamic = s, nil
	req.Judge.Read(s, sch)
	if sch != req.Schema {
		req.Known = req.Server.knownOf(sch)
		req.Schema = sch
	}
}

// On returns a copy of the request that reads another state. The request and the copy
// share one response.
func (req *Request) On(s *partition.Snapshot) *Request {
	x := *req
	x.kept = nil
	x.Read(s)
	return &x
}

// Apart returns a copy of the request for a job that continues after the end of the request.
func (req *Request) Apart() *Request {
	x := *req
	x.Response, x.Seen, x.Cost, x.held, x.kept = &op.Response{}, &monitor.Observation{}, &partition.Cost{}, nil, nil
	x.adopt(nil, req.Schema)
	return &x
}

// Respond adds a control to the response.
func (req *Request) Respond(oid string, value []byte) {
	req.Response.Controls = append(req.Response.Controls, op.Control{OID: oid, Value: value})
}

// Parse parses a DN and returns the key by which names are compared.
func (req *Request) Parse(s string) (string, error) {
	_, key, err := settings.ParseName(s, req.Server.Part.Schema())
	return key, err
}
