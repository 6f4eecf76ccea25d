package write

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/directory/internal/assertion"
	"github.com/seed-4dac0d86/ldapd/directory/internal/policies"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/span"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An update is a change of one entry, or the deletion of a tree. In the same transaction,
// it makes the reads and checks that the request's controls ask for.
type update struct {
	name dn.DN // the entry's name before the change, or the name of a new entry
	adds bool  // the entry is new
	// settings means that the update changes access rules or the default password policy.
	settings bool
	// attributes are the attributes of a new entry.
	attributes []op.PartialAttribute
	// allowed returns an error if the access rules do not allow the update. It is not
	// called for an Add, nor for the subschema entry and cn=config.
	allowed func(ctx context.Context, req *request.Request, at partition.Located, d *acl.Decision) error
	// policy means that the entry may be a password policy, which must still be valid
	// after the change.
	policy bool
	// check, if not nil, returns an error if the change is impossible for reasons other
	// than the requester's rights.
	check func() error
	// prepare, if not nil, does slow work. It runs outside of the transaction, so that
	// the transaction does not wait for the work. open, if not nil, reads the state that
	// the work depends on. It is called in a transaction that does not commit, before
	// prepare runs.
	prepare  func() error
	open     func() error
	prepared *preparation
	change   func(*partition.Tx) error
	// ended, if not nil, is called after the commit.
	ended func()
}

// run makes the update in a transaction. The update reads only the transaction's state.
func (u *update) run(ctx context.Context, req *request.Request) error {
	r, err := u.try(ctx, req)
	for again := 0; err == errPrepare || errors.Is(err, errPrepareAgain) && again < maxPrepared; again++ {
		if err == errPrepare {
			if err := u.prepare(); err != nil {
				return err
			}
		}
		u.prepared.done = err == errPrepare
		r, err = u.try(ctx, req)
	}
	if errors.Is(err, partition.ErrReadOnly) {
		if refused := u.refused(ctx, req); refused != nil {
			return refused
		}
	}
	switch {
	case err == nil || isCommitted(err):
		req.Seen.Committed = r
		u.end(req)
	case err != errNoOperation:
		dropEntries(req)
	}
	return err
}

// isCommitted reports whether an error means that a change of the settings is committed,
// although not every server applies the change yet.
func isCommitted(err error) bool {
	var behind *partition.NotEverywhere
	return errors.As(err, &behind)
}

// end calls ended after the commit. It tells the client if the owner of the account must change the
// password that the update has set.
func (u *update) end(req *request.Request) {
	if u.prepared.mustChange() {
		accountcheck.SayReset(req, u.name.String())
	}
	if u.ended != nil {
		u.ended()
	}
}

// dropEntries removes the pre-read and post-read entries of a failed change from the
// response (RFC 4527, 3).
func dropEntries(req *request.Request) {
	req.Response.Controls = slices.DeleteFunc(req.Response.Controls, func(c op.Control) bool {
		return c.OID == control.OIDPreRead || c.OID == control.OIDPostRead
	})
}

// errPrepareAgain ends a transaction if passwords have changed since the update was
// prepared.
var errPrepareAgain = op.Errorf(op.Busy, "the password was changed by others meanwhile: try again")

// maxPrepared is the largest number of times that an update is prepared again because others
// have changed the passwords.
const maxPrepared = 5

// errPrepare ends a transaction in which the update was found to be allowed, but is not
// prepared yet.
var errPrepare = errors.New("to be prepared")

func (u *update) try(ctx context.Context, req *request.Request) (table.Revision, error) {
	run := func(tx *partition.Tx) error {
		ctx, s := span.Start(ctx, "prepare")
		defer s.End()
		req.Read(&tx.Snapshot)
		if err := req.Judged(ctx, &tx.Snapshot); err != nil {
			return err
		}
		if err := checkFollowing(req, u.name); err != nil {
			return err
		}
		if err := u.may(ctx, req); err != nil {
			return err
		}
		if u.prepare != nil && !u.prepared.done {
			return u.begin()
		}
		req.Seen.Attempts++
		req.Response.Controls = nil // drop the controls of a failed attempt
		tx.Rules = rulesOf(req, tx)
		return u.runIn(ctx, req, tx)
	}
	switch {
	case req.Branch != nil: // Update returns an error for a change of the schema or the settings
	case catalog.IsSubschema(u.name):
		return onlineschema.UpdateSchema(ctx, req.Server.Part, by(req), run)
	case u.settings:
		return onlineschema.UpdateSettings(ctx, req.Server.Part, by(req), run)
	}
	return req.Update(ctx, by(req), run)
}

// rulesOf returns the rules for the changes of a request.
func rulesOf(req *request.Request, tx *partition.Tx) partition.Rules {
	rules := req.Controls.Rules
	if !req.Judge.SeesAll() {
		rules.Sees = func(ctx context.Context, id entry.ID) (bool, error) {
			name, err := tx.Name(ctx, id)
			if err != nil {
				return false, err
			}
			return req.Judge.Sees(ctx, partition.Located{ID: id, Name: name})
		}
	}
	return rules
}

// begin reads the state that the preparation depends on.
func (u *update) begin() error {
	if u.open != nil {
		if err := u.open(); err != nil {
			return err
		}
	}
	return errPrepare
}

// refused returns an error if the requester may not make the update. Usually the update's
// transaction checks the rights. At a server that takes no changes, there is no transaction,
// so run calls refused. A requester without the rights then gets the same error as at other
// servers, and not ErrReadOnly.
func (u *update) refused(ctx context.Context, req *request.Request) error {
	s, err := req.Newest(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return u.may(ctx, req)
}

// maxSession is the maximum length, in octets, of the session identifiers in a commit record.
// These identifiers come from session tracking controls.
const maxSession = 256

// The function "by" returns the author of a change, for the journal.
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

// runIn makes the update in a transaction.
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
		// Isolate makes the reads of the controls atomic with the change (RFC 4527,
		// 3; RFC 4528, 3).
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
	if virtual.IsBelowViews(u.name) {
		if err := materialized.Check(ctx, &tx.Snapshot, u.name); err != nil {
			return err
		}
	}
	if u.policy {
		if err := checkPolicy(ctx, req, u.name); err != nil {
			return err
		}
	}
	if reads && u.adds { // the assertion of an Add is evaluated on the new entry
		if id, err = asserted(ctx, req, u.name); err != nil {
			return err
		}
	}
	req.Read(&tx.Snapshot) // the change may have changed the schema
	before := len(req.Response.Controls)
	if err := readEntry(ctx, req, u.name, id, control.OIDPostRead, c.PostRead); err != nil {
		return err
	}
	// There is no post-read control if the requester does not see the changed entry.
	for i := range req.Response.Controls[before:] {
		tx.ReplaceCSN(req.Response.Controls[before+i].Value)
	}
	if c.NoOp {
		return errNoOperation
	}
	return nil
}

// checkPolicy returns an error if the changed entry is an invalid password policy.
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
		return op.Errorf(op.ConstraintViolation, "the password policy is not valid: %v", err)
	}
	return nil
}

// ofPolicies reports whether a change of an attribute can affect a password policy.
func ofPolicies(description string) bool {
	name, _, _ := strings.Cut(strings.ToLower(description), ";")
	return strings.HasPrefix(name, "pwd") || name == "objectclass" || name == "subtreespecification" || strings.HasPrefix(name, "1.3.6.1.4.1.42.2.27.8.1.")
}

// asserted finds the entry of an update, and evaluates the assertion.
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

// unstored returns cn=config or the subschema entry if the name is that of one of them.
// These entries are not in the tree, but can be changed. For any other name, unstored
// returns nil.
func unstored(ctx context.Context, req *request.Request, name dn.DN) (*virtual.Entry, error) {
	if catalog.IsSubschema(name) || catalog.IsConfig(name) {
		return virtual.Named(ctx, req, name)
	}
	return nil, nil
}

// errNoOperation ends a successful transaction that was requested to change nothing.
var errNoOperation = op.Errorf(op.NoOperation, "the operation would have succeeded; nothing was changed")

// sendToken adds the token of the update's commit to the response.
func sendToken(req *request.Request) {
	if req.Controls.Token && req.Seen.Committed != 0 {
		req.Respond(control.OIDToken, []byte(req.Seen.Committed.String()))
	}
}
