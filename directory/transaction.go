package directory

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/transaction"
	"github.com/seed-4dac0d86/ldapd/directory/internal/write"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// received contains what the method Receive did with a request of an LDAP transaction (RFC
// 5805). Receive handles these requests in the order of their arrival, because requests that
// are served concurrently may overtake each other.
type received struct {
	id  string // identifier of the transaction
	err error

	// The following fields describe an update.
	kept     bool
	response op.Response
	controls request.Controls
	aborted  *transaction.Transaction // the transaction that the update aborted; its client must be notified

	// The following fields describe an End Transaction.
	commit bool
	ended  *transaction.Transaction
}

// Receive implements server.Receiver. It keeps the updates of transactions and ends
// transactions in the order in which the requests arrive.
func (s *Session) Receive(m *op.Message) {
	switch {
	case m.Received != nil:
	case isEnd(m.Request):
		m.Received = s.receiveEnd(m)
	case slices.ContainsFunc(m.Controls, func(c op.Control) bool { return c.OID == control.OIDTransaction }) &&
		request.GoesWith(control.OIDTransaction, m.Request):
		m.Received = s.keep(m)
	}
}

func isEnd(r op.Request) bool {
	x, ok := r.(*op.Extended)
	return ok && x.OID == control.OIDEndTransaction
}

// keep adds an update to the transaction that the update's control names.
func (s *Session) keep(m *op.Message) *received {
	req := s.d.pool.Get().(*request.Request)
	defer s.d.pool.Put(req)
	defer req.End()
	req.Begin(&s.s, m.ID)
	req.Judge.Unrestrict() // access rules are applied when the transaction commits
	o, err := write.Keep(req, m)
	r := &received{kept: true, response: *req.Response, controls: req.Controls, err: err}
	if t := req.Controls.Transaction; t != nil {
		r.id = *t
	}
	if err == nil {
		r.aborted, r.err = s.s.Transactions.Keep(r.id, o)
	}
	if r.err != nil {
		r.response = op.Response{}
	}
	return r
}

// receiveEnd removes a transaction from the session: the transaction that the request ends. The
// transaction then gets no further updates. The transaction commits or aborts when the request
// is served.
func (s *Session) receiveEnd(m *op.Message) *received {
	e, err := control.ParseEndTransaction(m.Request.(*op.Extended).Value)
	if err != nil {
		return &received{err: op.Errorf(op.ProtocolError, "End Transaction: %v", err)}
	}
	r := &received{id: e.ID, commit: e.Commit}
	r.ended, r.err = s.s.Transactions.Take(e.ID)
	return r
}

// answerKept answers an update of a transaction. The server makes and judges the update only
// when the transaction commits.
func (s *Session) answerKept(ctx context.Context, req *request.Request, r *received) error {
	req.Controls, *req.Response = r.controls, r.response
	req.Seen.Transaction = r.id
	if r.aborted != nil {
		r.aborted.Notify(req.Server.Result(ctx, r.err))
	}
	return r.err
}

// startTransaction begins a transaction of the requester (RFC 5805, 3.2).
func (d *Directory) startTransaction(req *request.Request, r *op.Extended, sink op.Sink) error {
	switch {
	case r.Value != nil:
		return op.Errorf(op.ProtocolError, "Start Transaction takes no value")
	case req.Session.Who.Load() == nil:
		return op.Errorf(op.UnwillingToPerform, "bind first")
	}
	client, _ := sink.(op.Notifier)
	t, err := req.Session.Transactions.Start(req.Session.Number, d.server.Settings().Transactions, &d.server.Kept, req.Controls.Proxied, client)
	if err != nil {
		return err
	}
	req.Seen.Transaction = t.ID
	req.Response.Value = []byte(t.ID)
	return nil
}

// endTransaction commits or aborts a transaction (RFC 5805, 3.4).
func (d *Directory) endTransaction(ctx context.Context, req *request.Request, r *received) error {
	req.Seen.Transaction = r.id
	if r.err != nil {
		return r.err
	}
	t := r.ended
	req.Seen.Operations = len(t.Operations)
	if !r.commit {
		return nil
	}
	req.Controls.Proxied = t.As
	// Since the start, the requester may have lost the right to act as t.As.
	if err := identify.Assume(ctx, req); err != nil {
		return err
	}
	if req.Watched {
		req.Seen.Changed = write.Changed(t)
	}
	return write.Commit(ctx, req, t)
}
