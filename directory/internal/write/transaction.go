package write

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/transaction"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/span"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Commit makes the updates of a transaction (RFC 5805, 3.4) in one commit, in their order.
// Each update reads the state that the earlier updates have made, and is judged by the
// access rules of that state. If one update fails, no update is made. Commit sets the
// response value even if it returns an error. If there are no updates, it does nothing.
func Commit(ctx context.Context, req *request.Request, t *transaction.Transaction) error {
	b := newBatch(req, t)
	if len(b.updates) == 0 {
		return nil
	}
	r, err := b.run(ctx)
	var result control.EndTransactionResult
	switch {
	case err == nil || isCommitted(err):
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
		err = elsewhere(ctx, req, err)
	}
	req.Response.Value = result.Encode()
	return err
}

// A batch contains the updates of a transaction that commits.
type batch struct {
	req      *request.Request // the request that ends the transaction
	updates  []*member
	settings bool // an update may change access rules or the default password policy

	// The following fields belong to one attempt.
	failed  *member   // the update that failed, or the first update with the control no-op; nil: none
	waiting []*member // updates whose slow work must be done before the next attempt
	left    int       // how many entries the tree deletions may still delete
}

// A member is one update of a transaction.
type member struct {
	req      *request.Request
	message  *op.Message
	prepared preparation
	update   *update // the update of the current attempt
}

func newBatch(req *request.Request, t *transaction.Transaction) *batch {
	b := &batch{req: req}
	for _, o := range t.Operations {
		x := *req
		x.ID, x.Controls, x.Watched = o.Message.ID, request.Controls{Proxied: t.As}, false
		x.Response, x.Seen = &op.Response{}, &monitor.Observation{}
		m := &member{req: &x, message: o.Message, prepared: preparation{kept: true, generated: o.Generated, left: &b.left}}
		b.updates = append(b.updates, m)
		b.settings = b.settings || changesSettings(req, o.Message.Request)
	}
	return b
}

// changesSettings reports whether an update may change access rules or the default
// password policy.
func changesSettings(req *request.Request, r op.Request) bool {
	switch r := r.(type) {
	case *op.Add:
		return slices.ContainsFunc(r.Attributes, func(a op.PartialAttribute) bool { return isRule(req, a.Description) })
	case *op.Modify:
		name, err := dn.Parse(r.Name)
		return err == nil && catalog.IsConfig(name) ||
			slices.ContainsFunc(r.Changes, func(c op.Modification) bool { return isRule(req, c.Description) })
	}
	return false
}

// run repeats the transaction until every update is prepared; after len(b.updates) +
// maxPrepared attempts, run returns errPrepareAgain. An attempt that finds unprepared updates
// is followed by the preparation of at least one more update, unless other clients change
// the same passwords meanwhile.
func (b *batch) run(ctx context.Context) (table.Revision, error) {
	for range len(b.updates) + maxPrepared {
		r, err := b.try(ctx)
		if err != errPrepare {
			return r, err
		}
		if err := b.prepare(); err != nil {
			return 0, err
		}
	}
	return 0, errPrepareAgain
}

func (b *batch) try(ctx context.Context) (table.Revision, error) {
	run := func(tx *partition.Tx) error {
		ctx, s := span.Start(ctx, "prepare")
		defer s.End()
		b.req.Seen.Attempts++
		b.failed, b.waiting, b.left = nil, nil, maxTreeCommit
		for _, m := range b.updates {
			b.failed = m
			if err := b.apply(ctx, tx, m); err != nil {
				// The update may have failed only because this attempt has
				// not made the changes of the waiting updates.
				if len(b.waiting) > 0 {
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
	}
	if b.settings && b.req.Branch == nil {
		return onlineschema.UpdateSettings(ctx, b.req.Server.Part, b.by(), run)
	}
	return b.req.Update(ctx, b.by(), run)
}

// trial returns errNoOperation if an update, or the request that ends the transaction, has
// the control no-op.
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
	if err := checkFollowing(m.req, u.name); err != nil {
		return err
	}
	if err := u.may(ctx, m.req); err != nil {
		return err
	}
	if u.prepare != nil && !m.prepared.done {
		if u.open != nil { // this attempt does not make the change of the passwords
			b.waiting = append(b.waiting, m)
			return u.open()
		}
		b.waiting = append(b.waiting, m)
	}
	tx.Rules = rulesOf(m.req, tx)
	err := u.runIn(ctx, m.req, tx)
	if errors.Is(err, errPrepareAgain) {
		m.prepared.done = false
		b.waiting = append(b.waiting, m)
		return u.open()
	}
	if err == errNoOperation {
		return nil // the other updates are tried too
	}
	return err
}

// plan reads the controls of an update and plans the update. It uses the access rules and
// the schema of the transaction's state.
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

// prepare prepares the waiting updates in order. The state that the first waiting update was
// opened on is complete. The states of the other waiting updates lack the changes of the
// waiting updates before them. So if the preparation of any update but the first fails, prepare
// ignores the error and stops. That preparation is repeated when the update has become the
// first waiting update. An update that verifies a password is prepared only when it is the
// first, because every failed verification counts.
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

// verifies reports whether an update's preparation may verify a password that the client
// has sent.
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

// The method "by" returns the author of the commit, for the journal.
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

// commit completes the updates after the commit.
func (b *batch) commit(r table.Revision) {
	b.req.Seen.Committed = r
	for _, m := range b.updates {
		m.req.Seen.Committed = r
		m.update.end(m.req)
		sendToken(m.req)
	}
}

// failedID returns the message ID of the update that the result of the transaction refers
// to, or 0 if there is none.
func (b *batch) failedID() int32 {
	if b.failed == nil {
		return 0
	}
	return b.failed.message.ID
}

// controlsOf returns the response controls of updates.
func controlsOf(members []*member) (all []control.UpdateControls) {
	for _, m := range members {
		if len(m.req.Response.Controls) > 0 {
			all = append(all, control.UpdateControls{Message: m.message.ID, Controls: m.req.Response.Controls})
		}
	}
	return all
}

// isResult reports whether an error is the result of one update. An error of the store, or
// of the transaction as a whole, is not the result of one update.
func isResult(err error) bool {
	var result *op.Result
	var problem *partition.Error
	return errors.As(err, &result) || errors.As(err, &problem)
}

// elsewhere turns the referral of an update into the error affectsMultipleDSAs. A client
// cannot send a single update of a transaction to another server (RFC 5805, 5).
func elsewhere(ctx context.Context, req *request.Request, err error) error {
	r := req.Server.ToResult(ctx, err)
	if r.Code != op.Referral {
		return err
	}
	return op.Errorf(op.AffectsMultipleDSAs, "another server holds the entry (%s): all updates of a transaction must go to one server", strings.Join(r.Referrals, ", "))
}

// Changed describes the updates of a transaction, one text for each. After mostNamed
// updates, one last text contains the number of the remaining updates.
func Changed(t *transaction.Transaction) (changed []string) {
	for i, o := range t.Operations {
		if i == mostNamed {
			return append(changed, fmt.Sprintf("and %d more", len(t.Operations)-mostNamed))
		}
		text := monitor.OperationOf(o.Message.Request).String()
		if name := op.NameOf(o.Message.Request); name != nil && *name != "" {
			text += " " + *name
		}
		changed = append(changed, text)
	}
	return changed
}

// mostNamed is the largest number of updates that the access log names in the line for the
// end of a transaction. The access log also has a separate line for each update.
const mostNamed = 20
