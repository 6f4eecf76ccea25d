package directory

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// An update is a change of one entry, with what the request's controls put
// around it in the same transaction.
type update struct {
	name dn.DN // of the entry, before the change; of a new one, after it
	adds bool  // there is no entry before
	// allow, if given, refuses the change before anything is told of the entry.
	allow  func(*partition.Tx) error
	change func(*partition.Tx) error
}

// update runs an update in a transaction. Referrals were looked for before it,
// on a snapshot, which is cheaper: one that comes meanwhile comes after this
// change.
func (o *operation) update(ctx context.Context, u *update) error {
	if o.controls.rules.Relaxed && !o.who.isAdmin() {
		return errAccess
	}
	run := o.d.part.Update
	if partition.IsSubschema(u.name) {
		run = o.d.part.UpdateSchema
	}
	r, err := run(ctx, o.by(), func(tx *partition.Tx) error {
		o.trace.attempts++
		o.adopt(&tx.Snapshot)
		o.response.Controls = nil // those of an attempt that lost
		tx.Rules = o.controls.rules
		return o.updateIn(ctx, tx, u)
	})
	if err != nil && err != errNoOperation {
		o.response.Controls = nil // RFC 4527, 3: none with a failure
	}
	if err == nil {
		o.committed = r
	}
	return err
}

// maxSession bounds what clients say of their sessions in every commit of theirs.
const maxSession = 256

// by says who makes a change, for the journal.
func (o *operation) by() partition.By {
	by := partition.By{
		Name:    o.who.dn(),
		From:    o.session.channel.Remote(),
		Request: fmt.Sprintf("%d/%d", o.session.number, o.id),
	}
	if bound := o.session.Name(); bound != by.Name {
		by.Bound = bound
	}
	for _, s := range o.controls.sessions {
		by.Session = strings.TrimSpace(by.Session + " " + s.Identifier)
	}
	by.Session = by.Session[:min(len(by.Session), maxSession)]
	return by
}

func (o *operation) updateIn(ctx context.Context, tx *partition.Tx, u *update) (err error) {
	if u.allow != nil {
		if err := u.allow(tx); err != nil {
			return err
		}
	}
	c, s := &o.controls, &tx.Snapshot
	reads := c.assertion != nil || c.preRead != nil || c.postRead != nil
	var id entry.ID
	if reads && !u.adds {
		if id, err = o.asserted(ctx, s, u.name); err != nil {
			return err
		}
		// These reads and the change are one (RFC 4527, 3; RFC 4528, 3).
		if id != entry.Root {
			tx.Isolate(id)
		}
	}
	if err := o.readEntry(ctx, s, u.name, id, control.OIDPreRead, c.preRead); err != nil {
		return err
	}
	if err := u.change(tx); err != nil {
		return err
	}
	if reads && u.adds { // the entry that an add's assertion is about is the new one
		if id, err = o.asserted(ctx, s, u.name); err != nil {
			return err
		}
	}
	o.adopt(s) // a change of schema is in it
	if err := o.readEntry(ctx, s, u.name, id, control.OIDPostRead, c.postRead); err != nil {
		return err
	}
	if c.postRead != nil {
		tx.SettleCSN(o.response.Controls[len(o.response.Controls)-1].Value)
	}
	if c.noOp {
		return errNoOperation
	}
	return nil
}

// asserted finds the entry that an update is about, and tests the assertion.
func (o *operation) asserted(ctx context.Context, s *partition.Snapshot, name dn.DN) (entry.ID, error) {
	if partition.IsSubschema(name) {
		v, err := o.subschema(ctx, s)
		if err != nil {
			return entry.ID{}, err
		}
		return entry.ID{}, o.assertVirtual(v)
	}
	at, err := s.Find(ctx, name)
	if err != nil {
		return at.ID, err
	}
	return at.ID, o.assert(ctx, s, at.ID)
}

func takeNoOp(o *operation, _ *op.Message, c *op.Control) error {
	o.controls.noOp, o.controls.rules.Trial = true, true
	return noValue("no-op", c)
}

// errNoOperation ends a transaction in which everything went well but that was
// to change nothing.
var errNoOperation = op.Errorf(op.NoOperation, "the operation would have succeeded; nothing was changed")
