package directory

import (
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
)

// An operation is one request under way, with the buffers it works in. They are
// reused by later operations: sinks encode before they return.
type operation struct {
	d        *Directory
	session  *Session
	id       int32          // of the message
	who      *identity      // as whom it runs: the session's, unless a control says otherwise
	schema   *schema.Schema // of the state that the operation reads
	known    *known         // of it
	controls controls
	limits   *Limits // of who asks; nil for a bind
	response op.Response
	exchange *exchange // of SASL, that a bind may go on with

	found    op.SearchEntry
	selected []entry.Attribute
	selector selector
	only     []*schema.AttributeType
	stream   stream
	trace    *trace // own, or that of the operation that this one stands for
	own      trace
	lasts    bool // it waits for what may never come

	committed table.Revision // by an update
}

func (o *operation) begin(s *Session) {
	o.session, o.who = s, s.who.Load()
	o.known = o.d.known.Load()
	o.schema = o.known.schema
	o.response = op.Response{}
	o.trace = &o.own
	if o.trace.on = o.d.settings().Access != nil; o.trace.on || o.d.settings().Slow > 0 {
		o.trace.begun = time.Now()
	}
}

func (o *operation) end() {
	clear(o.selected[:cap(o.selected)]) // let go of entries
	o.session, o.who = nil, nil
	o.schema, o.known = nil, nil
	o.controls = controls{}
	o.limits = nil
	o.response = op.Response{}
	o.exchange = nil
	o.found = op.SearchEntry{}
	o.stream = stream{}
	o.trace, o.own = nil, trace{}
	o.lasts = false
	o.committed = 0
	o.selector.reset()
	o.d.pool.Put(o)
}

// now returns the newest state to read.
func (o *operation) now() *partition.Snapshot {
	s := o.d.part.Snapshot()
	o.adopt(s)
	return s
}

// adopt makes the schema of a state the operation's: entries hold types of the
// schema of the state that they were read from, and match no others.
func (o *operation) adopt(s *partition.Snapshot) {
	if s.Schema() != o.schema {
		o.known = o.d.knownOf(s.Schema())
		o.schema = o.known.schema
	}
}

// run runs the request. What it returns becomes the result; nil leaves the
// response as the operation has made it, success by default.
func (o *operation) run(ctx context.Context, m *op.Message, sink op.Sink) error {
	o.id = m.ID
	bind, isBind := m.Request.(*op.Bind)
	if isBind {
		o.session.who.Store(nil) // anonymous from receipt on (RFC 4513, 4)
		o.exchange, o.session.exchange = o.session.exchange, nil
	}
	if len(m.Controls) > 0 {
		o.known = o.d.knownOf(o.d.part.Schema()) // some name attributes
		o.schema = o.known.schema
		if err := o.takeControls(m); err != nil {
			return err
		}
		if err := o.assume(ctx); err != nil {
			return err
		}
		if err := o.original(ctx); err != nil {
			return err
		}
		if err := o.awaitToken(ctx); err != nil {
			return err
		}
	}
	if isBind {
		err := o.bind(ctx, bind)
		if err == nil {
			o.tellAuthzID()
		}
		return err
	}
	if o.mustChange(m.Request) {
		return errMustChange
	}
	o.limits = o.d.limitsOf(o.who)
	err := o.perform(ctx, m, sink)
	if err == nil {
		o.tellToken()
	}
	return err
}

// perform runs what is no bind.
func (o *operation) perform(ctx context.Context, m *op.Message, sink op.Sink) error {
	switch r := m.Request.(type) {
	case *op.Search:
		return o.search(ctx, r, sink)
	case *op.Compare:
		return o.compare(ctx, r)
	case *op.Add:
		return o.add(ctx, r)
	case *op.Modify:
		return o.modify(ctx, r)
	case *op.Delete:
		return o.delete(ctx, r)
	case *op.ModifyDN:
		return o.modifyDN(ctx, r)
	case *op.Extended:
		return o.extended(ctx, r)
	}
	return op.Errorf(op.ProtocolError, "not an operation that is answered")
}
