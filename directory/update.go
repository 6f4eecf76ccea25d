package directory

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// An update is a change of one entry, with what the request's controls put
// around it in the same transaction.
type update struct {
	name dn.DN // of the entry, before the change; of a new one, after it
	adds bool  // there is no entry before
	own  bool  // users may do this to their own entries
	// check, if given, refuses the change for other reasons than who asks.
	check func() error
	// prepare, if given, does once what takes so long that no transaction waits for it.
	prepare func() error
	change  func(*partition.Tx) error
}

// may refuses an update that the requester may not make. It is the only place that does,
// except that users may do less with their passwords than the administrator. A referral
// comes before the refusal, since it is the other server that decides.
func (u *update) may(ctx context.Context, o *operation) error {
	if err := o.checkReferral(ctx, u.name, ""); err != nil {
		return err
	}
	switch {
	case o.who.isAdmin():
		return nil
	case !u.own || o.who == nil:
		return errAccess
	}
	at, err := o.s.Find(ctx, u.name)
	switch {
	case isMissing(err):
		return errAccess
	case err != nil:
		return err
	case at.ID != o.who.id:
		return errAccess
	}
	return nil
}

// run makes the update in a transaction, whose state is all that it reads.
func (u *update) run(ctx context.Context, o *operation) error {
	r, err := u.try(ctx, o)
	if err == errPrepare {
		if err := u.prepare(); err != nil {
			return err
		}
		u.prepare = nil
		r, err = u.try(ctx, o)
	}
	if errors.Is(err, txn.ErrReadOnly) {
		if refused := u.refused(ctx, o); refused != nil {
			return refused
		}
	}
	if err != nil && err != errNoOperation {
		o.response.Controls = nil // RFC 4527, 3: none with a failure
	}
	if err == nil {
		o.trace.committed = r
	}
	return err
}

// errPrepare ends a transaction that has shown that the update may be made.
var errPrepare = errors.New("to be prepared")

func (u *update) try(ctx context.Context, o *operation) (table.Revision, error) {
	run := o.server.part.Update
	if partition.IsSubschema(u.name) {
		run = o.server.part.UpdateSchema
	}
	return run(ctx, by(o), func(tx *partition.Tx) error {
		o.read(&tx.Snapshot)
		if err := u.may(ctx, o); err != nil {
			return err
		}
		if u.prepare != nil {
			return errPrepare
		}
		if o.controls.rules.Relaxed && !o.who.isAdmin() {
			return errAccess
		}
		o.trace.attempts++
		o.response.Controls = nil // those of an attempt that lost
		tx.Rules = o.controls.rules
		return u.runIn(ctx, o, tx)
	})
}

// refused asks whether the update may be made where there are no transactions.
func (u *update) refused(ctx context.Context, o *operation) error {
	defer o.now().Close()
	return u.may(ctx, o)
}

// maxSession bounds what clients say of their sessions in every commit of theirs.
const maxSession = 256

// by says who makes a change, for the journal.
func by(o *operation) partition.By {
	by := partition.By{
		Name:    o.who.dn(),
		From:    o.session.channel.Remote(),
		Request: fmt.Sprintf("%d/%d", o.session.number, o.id),
	}
	if bound := o.session.name(); bound != by.Name {
		by.Bound = bound
	}
	for _, s := range o.controls.sessions {
		by.Session = strings.TrimSpace(by.Session + " " + s.Identifier)
	}
	by.Session = by.Session[:min(len(by.Session), maxSession)]
	return by
}

// runIn makes it in a transaction.
func (u *update) runIn(ctx context.Context, o *operation, tx *partition.Tx) (err error) {
	if u.check != nil {
		if err := u.check(); err != nil {
			return err
		}
	}
	c := &o.controls
	reads := c.assertion != nil || c.preRead != nil || c.postRead != nil
	var id entry.ID
	if reads && !u.adds {
		if id, err = asserted(ctx, o, u.name); err != nil {
			return err
		}
		// These reads and the change are one (RFC 4527, 3; RFC 4528, 3).
		if id != entry.Root {
			tx.Isolate(id)
		}
	}
	if err := readEntry(ctx, o, u.name, id, control.OIDPreRead, c.preRead); err != nil {
		return err
	}
	if err := u.change(tx); err != nil {
		return err
	}
	if reads && u.adds { // the entry that an add's assertion is about is the new one
		if id, err = asserted(ctx, o, u.name); err != nil {
			return err
		}
	}
	o.read(&tx.Snapshot) // a change of schema is in it
	if err := readEntry(ctx, o, u.name, id, control.OIDPostRead, c.postRead); err != nil {
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
func asserted(ctx context.Context, o *operation, name dn.DN) (entry.ID, error) {
	if partition.IsSubschema(name) {
		v, err := subschema(ctx, o)
		if err != nil {
			return entry.ID{}, err
		}
		return entry.ID{}, v.assert(o)
	}
	at, err := o.s.Find(ctx, name)
	if err != nil {
		return at.ID, err
	}
	return at.ID, assert(ctx, o, at.ID)
}

// errNoOperation ends a transaction in which everything went well but that was
// to change nothing.
var errNoOperation = op.Errorf(op.NoOperation, "the operation would have succeeded; nothing was changed")

// tellToken responds with the token of the commit that an update made.
func tellToken(o *operation) {
	if o.controls.token && o.trace.committed != 0 {
		o.respond(control.OIDToken, []byte(o.trace.committed.String()))
	}
}
