package write

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/directory/internal/assertion"
	"github.com/seed-4dac0d86/ldapd/directory/internal/policies"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/subschema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// An update is a change of one entry, with what the request's controls put
// around it in the same transaction.
type update struct {
	name dn.DN // of the entry, before the change; of a new one, after it
	adds bool  // there is no entry before
	// rules says that it changes access rules.
	rules bool
	// attributes are those of a new entry.
	attributes []op.PartialAttribute
	// allowed, of what is no add, refuses a requester for what the access rules say of
	// the entry.
	allowed func(ctx context.Context, req *request.Request, at partition.Located, d *acl.Decision) error
	// policy: the entry may be a password policy, which the change may have made one that
	// cannot be.
	policy bool
	// check, if given, refuses the change for other reasons than who asks.
	check func() error
	// prepare, if given, does once what takes so long that no transaction waits for it.
	prepare func() error
	change  func(*partition.Tx) error
}

// run makes the update in a transaction, whose state is all that it reads.
func (u *update) run(ctx context.Context, req *request.Request) error {
	prepare := u.prepare
	r, err := u.try(ctx, req)
	for again := 0; err == errPrepare || errors.Is(err, errPrepareAgain) && again < maxPrepared; again++ {
		u.prepare = nil
		if err := prepare(); err != nil {
			return err
		}
		r, err = u.try(ctx, req)
	}
	if errors.Is(err, txn.ErrReadOnly) {
		if refused := u.refused(ctx, req); refused != nil {
			return refused
		}
	}
	if err != nil && err != errNoOperation {
		req.Response.Controls = nil // RFC 4527, 3: none with a failure
	}
	if err == nil {
		req.Seen.Committed = r
	}
	return err
}

// errPrepareAgain ends a transaction that has found something else than what the update was
// prepared by.
var errPrepareAgain = op.Errorf(op.Busy, "the password was changed by others meanwhile: try again")

// maxPrepared is how often an update is prepared anew.
const maxPrepared = 5

// errPrepare ends a transaction that has shown that the update may be made.
var errPrepare = errors.New("to be prepared")

func (u *update) try(ctx context.Context, req *request.Request) (table.Revision, error) {
	run := req.Server.Part.Update
	switch {
	case subschema.Is(u.name):
		run = req.Server.Part.UpdateSchema
	case u.rules:
		run = req.Server.Part.UpdateAccess
	}
	return run(ctx, by(req), func(tx *partition.Tx) error {
		req.Read(&tx.Snapshot)
		if err := u.may(ctx, req); err != nil {
			return err
		}
		if u.prepare != nil {
			return errPrepare
		}
		req.Seen.Attempts++
		req.Response.Controls = nil // those of an attempt that lost
		tx.Rules = req.Controls.Rules
		return u.runIn(ctx, req, tx)
	})
}

// refused asks whether the update may be made where there are no transactions.
func (u *update) refused(ctx context.Context, req *request.Request) error {
	defer req.Now().Close()
	return u.may(ctx, req)
}

// maxSession bounds what clients say of their sessions in every commit of theirs.
const maxSession = 256

// by says who makes a change, for the journal.
func by(req *request.Request) partition.By {
	by := partition.By{
		Name:    req.Who.DN(),
		From:    req.Session.Channel.Remote(),
		Request: fmt.Sprintf("%d/%d", req.Session.Number, req.ID),
	}
	if bound := req.Session.Name(); bound != by.Name {
		by.Bound = bound
	}
	for _, s := range req.Controls.Sessions {
		by.Session = strings.TrimSpace(by.Session + " " + s.Identifier)
	}
	by.Session = by.Session[:min(len(by.Session), maxSession)]
	return by
}

// runIn makes it in a transaction.
func (u *update) runIn(ctx context.Context, req *request.Request, tx *partition.Tx) (err error) {
	if u.check != nil {
		if err := u.check(); err != nil {
			return err
		}
	}
	c := &req.Controls
	reads := c.Assertion != nil || c.PreRead != nil || c.PostRead != nil
	var id entry.ID
	if reads && !u.adds {
		if id, err = asserted(ctx, req, u.name); err != nil {
			return err
		}
		// These reads and the change are one (RFC 4527, 3; RFC 4528, 3).
		if id != entry.Root {
			tx.Isolate(id)
		}
	}
	if err := readEntry(ctx, req, u.name, id, control.OIDPreRead, c.PreRead); err != nil {
		return err
	}
	if err := u.change(tx); err != nil {
		return err
	}
	if u.policy {
		if err := checkPolicy(ctx, req, u.name); err != nil {
			return err
		}
	}
	if reads && u.adds { // the entry that an add's assertion is about is the new one
		if id, err = asserted(ctx, req, u.name); err != nil {
			return err
		}
	}
	req.Read(&tx.Snapshot) // a change of schema is in it
	before := len(req.Response.Controls)
	if err := readEntry(ctx, req, u.name, id, control.OIDPostRead, c.PostRead); err != nil {
		return err
	}
	// There is none of an entry that the requester does not see as it is now.
	for i := range req.Response.Controls[before:] {
		tx.ReplaceCSN(req.Response.Controls[before+i].Value)
	}
	if c.NoOp {
		return errNoOperation
	}
	return nil
}

// checkPolicy refuses a change that leaves a password policy which says what cannot be.
func checkPolicy(ctx context.Context, req *request.Request, name dn.DN) error {
	if req.Known.Policy == nil {
		return nil
	}
	at, err := req.Snapshot.Find(ctx, name)
	if request.IsMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := req.Snapshot.Entry(ctx, at.ID, false)
	if err != nil {
		return err
	}
	if err := policies.Check(req.Snapshot, req.Known, at.Name, e); err != nil {
		return op.Errorf(op.ConstraintViolation, "the password policy cannot be: %v", err)
	}
	return nil
}

// ofPolicies reports whether an attribute is one that password policies have.
func ofPolicies(description string) bool {
	name, _, _ := strings.Cut(strings.ToLower(description), ";")
	return strings.HasPrefix(name, "pwd") || name == "objectclass" || name == "subtreespecification" || strings.HasPrefix(name, "1.3.6.1.4.1.42.2.27.8.1.")
}

// asserted finds the entry that an update is about, and tests the assertion.
func asserted(ctx context.Context, req *request.Request, name dn.DN) (entry.ID, error) {
	if v, err := unstored(ctx, req, name); v != nil || err != nil {
		if err != nil {
			return entry.ID{}, err
		}
		return entry.ID{}, v.Assert(ctx, req)
	}
	at, err := req.Snapshot.Find(ctx, name)
	if err != nil {
		return at.ID, err
	}
	return at.ID, assertion.Check(ctx, req, at.ID)
}

// unstored returns the entry of a name that is in no tree and can be changed; nil: it is
// in the tree.
func unstored(ctx context.Context, req *request.Request, name dn.DN) (*virtual.Entry, error) {
	if subschema.Is(name) || virtual.IsConfig(name) {
		return virtual.Named(ctx, req, name)
	}
	return nil, nil
}

// errNoOperation ends a transaction in which everything went well but that was
// to change nothing.
var errNoOperation = op.Errorf(op.NoOperation, "the operation would have succeeded; nothing was changed")

// sendToken responds with the token of the commit that an update made.
func sendToken(req *request.Request) {
	if req.Controls.Token && req.Seen.Committed != 0 {
		req.Respond(control.OIDToken, []byte(req.Seen.Committed.String()))
	}
}
