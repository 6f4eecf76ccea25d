package write

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/transaction"
	"github.com/seed-4dac0d86/ldapd/monitor"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Commit makes the updates of a transaction (RFC 5805, 3.4) in one commit, in their order:
// each is judged by, and sees, what those before it have made. If one fails nothing is
// done. The response value is in the request's response, whatever comes of it.
func Commit(ctx context.Context, req *request.Request, t *transaction.Transaction) error {
	b := newBatch(req, t)
	if len(b.updates) == 0 {
		return nil
	}
	r, err := b.run(ctx)
	var result control.EndTransactionResult
	switch {
	case err == nil:
		b.commit(r)
		result.Updates = controlsOf(b.updates)
		sendToken(req)
	case err == errNoOperation:
		result.Updates = controlsOf(b.updates)
		result.Failed = b.failedID()
	case b.failed != nil && isResult(err):
		dropEntries(b.failed.req)
		result.Updates = controlsOf([]*member{b.failed})
		result.Failed = b.failedID()
		err = elsewhere(req, err)
	}
	req.Response.Value = result.Encode()
	return err
}

// A batch is the updates of a transaction that is to be committed.
type batch struct {
	req     *request.Request // that ends the transaction
	updates []*member
	rules   bool // some change access rules

	// Of an attempt:
	failed  *member   // the one under way, or with the control no-op; nil: none
	waiting []*member // for their preparations
	left    int       // entries of trees that may be deleted
}

// A member is one update of a transaction.
type member struct {
	req      *request.Request
	message  *op.Message
	prepared preparation
	update   *update // of the attempt
}

func newBatch(req *request.Request, t *transaction.Transaction) *batch {
	b := &batch{req: req}
	for _, o := range t.Operations {
		x := *req
		x.ID, x.Controls, x.Watched = o.Message.ID, request.Controls{Proxied: t.As}, false
		x.Response, x.Seen = &op.Response{}, &monitor.Observation{}
		m := &member{req: &x, message: o.Message, prepared: preparation{kept: true, generated: o.Generated, left: &b.left}}
		b.updates = append(b.updates, m)
		b.rules = b.rules || givesRules(req, o.Message.Request)
	}
	return b
}

// givesRules reports whether an update is, or may be, one of access rules.
func givesRules(req *request.Request, r op.Request) bool {
	switch r := r.(type) {
	case *op.Add:
		return slices.ContainsFunc(r.Attributes, func(a op.PartialAttribute) bool { return isRule(req, a.Description) })
	case *op.Modify:
		return slices.ContainsFunc(r.Changes, func(c op.Modification) bool { return isRule(req, c.Description) })
	}
	return false
}

// run tries until all is prepared. Each attempt but the last has found something to be
// prepared, of an update of its own unless others change passwords meanwhile.
func (b *batch) run(ctx context.Context) (table.Revision, error) {
	for range len(b.updates) + maxPrepared {
		r, err := b.try(ctx)
		var behind *partition.NotEverywhere
		switch {
		case errors.As(err, &behind):
			b.req.Response.Diagnostic = behind.Error()
			return r, nil
		case err != errPrepare:
			return r, err
		}
		if err := b.prepare(); err != nil {
			return 0, err
		}
	}
	return 0, errPrepareAgain
}

func (b *batch) try(ctx context.Context) (table.Revision, error) {
	run := b.req.Server.Part.Update
	if b.rules {
		run = b.req.Server.Part.UpdateAccess
	}
	return run(ctx, b.by(), func(tx *partition.Tx) error {
		b.req.Seen.Attempts++
		b.failed, b.waiting, b.left = nil, nil, maxTreeCommit
		for _, m := range b.updates {
			b.failed = m
			if err := b.apply(ctx, tx, m); err != nil {
				if len(b.waiting) > 0 { // perhaps because of what was left out
					return errPrepare
				}
				return err
			}
		}
		b.failed = nil
		if len(b.waiting) > 0 {
			return errPrepare
		}
		return b.trial()
	})
}

// trial ends a transaction in which an update, or its end, has the control no-op.
func (b *batch) trial() error {
	for _, m := range b.updates {
		if m.req.Controls.NoOp {
			b.failed = m
			return errNoOperation
		}
	}
	if b.req.Controls.NoOp {
		return errNoOperation
	}
	return nil
}

// apply makes one update on the state of the transaction.
func (b *batch) apply(ctx context.Context, tx *partition.Tx, m *member) error {
	if err := m.plan(ctx, tx); err != nil {
		return err
	}
	u := m.update
	if err := u.may(ctx, m.req); err != nil {
		return err
	}
	if u.prepare != nil && !m.prepared.done {
		if u.open != nil { // without it the entry's passwords stay as they are for now
			b.waiting = append(b.waiting, m)
			return u.open()
		}
		b.waiting = append(b.waiting, m)
	}
	tx.Rules = m.req.Controls.Rules
	err := u.runIn(ctx, m.req, tx)
	if errors.Is(err, errPrepareAgain) {
		m.prepared.done = false
		b.waiting = append(b.waiting, m)
		return u.open()
	}
	if err == errNoOperation {
		return nil // the others are tried too
	}
	return err
}

// plan reads the controls of an update and what it asks for, by the rules and the schema
// of the transaction's state.
func (m *member) plan(ctx context.Context, tx *partition.Tx) (err error) {
	as := m.req.Controls.Proxied
	m.req.Controls, m.req.Response.Controls = request.Controls{Proxied: as}, nil
	m.req.Read(&tx.Snapshot)
	if err := m.req.Judged(ctx, &tx.Snapshot); err != nil {
		return err
	}
	if err := request.TakeControls(m.req, m.message); err != nil {
		return err
	}
	m.update, err = plan(ctx, m.req, m.message.Request, &m.prepared)
	return err
}

// prepare does what takes long for those that wait for it. The first of them was opened on
// the very state that it will change. The others go by a state without what those before
// them will have made: what fails of them is tried again when they are the first, and so
// are verifications of passwords, which are counted.
func (b *batch) prepare() error {
	for i, m := range b.waiting {
		if i > 0 && m.verifies() {
			return nil
		}
		b.failed = m
		err := m.update.prepare()
		if err != nil && i > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		m.prepared.done = true
	}
	return nil
}

// verifies reports whether an update's preparation may verify a password that its client
// has given.
func (m *member) verifies() bool {
	switch r := m.message.Request.(type) {
	case *op.Modify:
		return slices.ContainsFunc(passwordChanges(m.req, r.Changes), func(c op.Modification) bool { return c.Kind == op.ModDelete && len(c.Values) > 0 })
	case *op.Extended:
		p, err := control.ParsePasswordModify(r.Value)
		return err == nil && p.Old != nil
	}
	return false
}

// by says who makes the commit, for the journal.
func (b *batch) by() partition.By {
	by := by(b.req)
	for _, m := range b.updates {
		for _, s := range m.req.Controls.Sessions {
			if len(by.Session) < maxSession && !strings.Contains(by.Session, s.Identifier) {
				by.Session = strings.TrimSpace(by.Session + " " + s.Identifier)
			}
		}
	}
	by.Session = by.Session[:min(len(by.Session), maxSession)]
	return by
}

// commit does what follows the commit.
func (b *batch) commit(r table.Revision) {
	b.req.Seen.Committed = r
	for _, m := range b.updates {
		m.req.Seen.Committed = r
		m.update.end()
		sendToken(m.req)
	}
}

// failedID is the message of the update that the result is about, 0 if it is about none.
func (b *batch) failedID() int32 {
	if b.failed == nil {
		return 0
	}
	return b.failed.message.ID
}

// controlsOf are the response controls of updates.
func controlsOf(members []*member) (all []control.UpdateControls) {
	for _, m := range members {
		if len(m.req.Response.Controls) > 0 {
			all = append(all, control.UpdateControls{Message: m.message.ID, Controls: m.req.Response.Controls})
		}
	}
	return all
}

// isResult reports whether an error is what an update comes to, and not of the store or of
// the transaction as a whole.
func isResult(err error) bool {
	var result *op.Result
	var problem *partition.Error
	return errors.As(err, &result) || errors.As(err, &problem)
}

// elsewhere returns the result of an update that another server would have to make: a
// client cannot go there with one update of a transaction (RFC 5805, 5).
func elsewhere(req *request.Request, err error) error {
	r := req.Server.ToResult(err)
	if r.Code != op.Referral {
		return err
	}
	return op.Errorf(op.AffectsMultipleDSAs, "another server holds the entry (%s): a transaction is of one server", strings.Join(r.Referrals, ", "))
}

// Changed says what the updates of a transaction are, the first few by name.
func Changed(t *transaction.Transaction) (changed []string) {
	for i, o := range t.Operations {
		if i == mostNamed {
			return append(changed, fmt.Sprintf("and %d more", len(t.Operations)-mostNamed))
		}
		changed = append(changed, strings.TrimSpace(monitor.OperationOf(o.Message.Request).String()+" "+nameOf(o.Message.Request)))
	}
	return changed
}

// mostNamed is how many updates of a transaction the access log names at its end. It has a
// line for each of them anyway.
const mostNamed = 20

func nameOf(r op.Request) string {
	switch r := r.(type) {
	case *op.Add:
		return r.Name
	case *op.Modify:
		return r.Name
	case *op.Delete:
		return r.Name
	case *op.ModifyDN:
		return r.Name
	}
	return ""
}
