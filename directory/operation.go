package directory

import (
	"time"

	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// An operation is one request under way: who asks, what its controls say, and the state
// that it reads. It is handed on to all that work for it. A copy is the same request on
// another state.
type operation struct {
	server   *server
	session  *session
	id       int32     // of the message
	who      *identity // as whom it runs: the session's, unless a control says otherwise
	controls controls
	limits   *Limits // of who asks

	// s is the state that the request reads, schema that of this state, and known what
	// is known of it; only adopt sets these.
	s      *partition.Snapshot
	schema *schema.Schema
	known  *known

	response *op.Response
	trace    *trace
}

// newOperation returns one to begin requests with, one after the other.
func newOperation(s *server) *operation {
	return &operation{server: s, response: &op.Response{}, trace: &trace{}}
}

// begin makes it a request of a session.
func (o *operation) begin(s *session, id int32) {
	o.session, o.id, o.who = s, id, s.who.Load()
	o.limits = &unlimited
	o.adopt(nil, o.server.part.Schema())
	if o.trace.on = o.server.settings().Access != nil; o.trace.on || o.server.settings().Slow > 0 {
		o.trace.begun = time.Now()
	}
}

// end lets go of everything.
func (o *operation) end() {
	*o.response, *o.trace = op.Response{}, trace{}
	*o = operation{server: o.server, response: o.response, trace: o.trace}
}

// now has the request read the newest state.
func (o *operation) now() *partition.Snapshot { return o.read(o.server.part.Snapshot()) }

// read has the request read a state, which it returns.
func (o *operation) read(s *partition.Snapshot) *partition.Snapshot {
	o.adopt(s, s.Schema())
	return s
}

// adopt makes a state and its schema the request's: entries hold types of the schema of
// the state that they were read from, and match no others.
func (o *operation) adopt(s *partition.Snapshot, sch *schema.Schema) {
	o.s = s
	if sch != o.schema {
		o.known = o.server.knownOf(sch)
		o.schema = sch
	}
}

// on returns the request on another state. Both have one response.
func (o *operation) on(s *partition.Snapshot) *operation {
	x := *o
	x.read(s)
	return &x
}

// apart returns the request for what goes on when it has ended.
func (o *operation) apart() *operation {
	x := *o
	x.response, x.trace = &op.Response{}, &trace{}
	x.adopt(nil, o.schema)
	return &x
}

// respond adds a control to the response.
func (o *operation) respond(oid string, value []byte) {
	o.response.Controls = append(o.response.Controls, op.Control{OID: oid, Value: value})
}

// parse reads a DN and returns the key by which names are compared.
func (o *operation) parse(s string) (string, error) {
	_, key, err := parseName(s, o.server.part.Schema())
	return key, err
}
