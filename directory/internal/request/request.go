// Package request has the value that is handed on with an operation: who asks, what the
// controls say, the limits, and the state that is read with its schema. Beside it are
// what all requests share ([Server]), the client's connection ([Session]) and the one
// place where errors become results.
package request

import (
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/internal/judge"
	"github.com/seed-4dac0d86/ldapd/directory/internal/known"
	"github.com/seed-4dac0d86/ldapd/directory/internal/settings"
	"github.com/seed-4dac0d86/ldapd/monitor"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Request is one request under way: who asks, what its controls say, and the state
// that it reads. It is handed on to all that work for it. A copy is the same request on
// another state.
type Request struct {
	Server   *Server
	Session  *Session
	ID       int32              // of the message
	Who      *settings.Identity // as whom it runs: the session's, unless a control says otherwise
	Controls Controls
	Limits   *settings.Limits // of who asks
	Judge    judge.Judge      // decides what they may see and do

	// Snapshot is the state that the request reads, Schema its schema, and Known what
	// is known of it; only adopt sets these.
	Snapshot *partition.Snapshot
	Schema   *schema.Schema
	Known    *known.Elements

	Response *op.Response
	// Seen is what observers are handed at the end; Watched says that there are any.
	Seen    *monitor.Observation
	Watched bool
}

// New returns one to begin requests with, one after the other.
func New(s *Server) *Request {
	return &Request{Server: s, Response: &op.Response{}, Seen: &monitor.Observation{}}
}

// Begin makes it a request of a session.
func (req *Request) Begin(s *Session, id int32) {
	req.Session, req.ID, req.Who = s, id, s.Who.Load()
	req.Limits = &settings.Unlimited
	req.adopt(nil, req.Server.Part.Schema())
	if req.Watched = len(req.Server.Settings().Watchers) > 0; req.Watched {
		req.Seen.Begun = time.Now()
	}
}

// End lets go of everything, whatever fields there are: the next request may be somebody
// else's.
func (req *Request) End() {
	*req.Response = op.Response{}
	req.Seen.Reset()
	*req = Request{Server: req.Server, Response: req.Response, Seen: req.Seen}
}

// Now has the request read the newest state.
func (req *Request) Now() *partition.Snapshot { return req.Read(req.Server.Part.Snapshot()) }

// Read has the request read a state, which it returns.
func (req *Request) Read(s *partition.Snapshot) *partition.Snapshot {
	req.adopt(s, s.Schema())
	return s
}

// adopt makes a state and its schema the request's: entries hold types of the schema of
// the state that they were read from, and match no others.
func (req *Request) adopt(s *partition.Snapshot, sch *schema.Schema) {
	req.Snapshot = s
	req.Judge.Read(s, sch)
	if sch != req.Schema {
		req.Known = req.Server.knownOf(sch)
		req.Schema = sch
	}
}

// On returns the request on another state. Both have one response.
func (req *Request) On(s *partition.Snapshot) *Request {
	x := *req
	x.Read(s)
	return &x
}

// Apart returns the request for what goes on when it has ended.
func (req *Request) Apart() *Request {
	x := *req
	x.Response, x.Seen = &op.Response{}, &monitor.Observation{}
	x.adopt(nil, req.Schema)
	return &x
}

// Respond adds a control to the response.
func (req *Request) Respond(oid string, value []byte) {
	req.Response.Controls = append(req.Response.Controls, op.Control{OID: oid, Value: value})
}

// Parse reads a DN and returns the key by which names are compared.
func (req *Request) Parse(s string) (string, error) {
	_, key, err := settings.ParseName(s, req.Server.Part.Schema())
	return key, err
}
