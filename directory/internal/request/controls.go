package request

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/past"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Controls are the parsed controls of a request. Attribute names are kept as the client sent
// them. The code that uses a control resolves the names by the schema of the state that it
// reads.
type Controls struct {
	ManageDsaIT bool
	Paged       *control.PagedResults
	Sort        *sortRequest
	Vlv         *control.ViewRequest
	Matched     *control.MatchedValues // nil: all values
	Dereference []control.DerefSpec

	Assertion         filter.Filter
	PreRead, PostRead []string // nil: not requested
	NoOp              bool
	Proxied           *string // an authorization identity
	AuthzID           bool
	PasswordPolicy    bool // the client wants the password policy response
	AccountUsable     bool // the client wants the account usable response
	Sessions          []control.SessionTracking
	Visible           visibility
	original          bool
	Rules             partition.Rules
	TreeDelete        bool
	Sync              *control.SyncRequest
	Persistent        *control.PersistentSearch
	At                *past.PointInTime // nil: now
	Token             bool              // the client requests a token
	Rights            *control.EffectiveRights
	Transaction       *string        // the identifier of the transaction that the update belongs to
	Branch            *string        // the branch that the operation is in
	atLeast           table.Revision // the commit that the read must show
}

// Waits reports whether the request is a search that waits for changes.
func (c *Controls) Waits() bool { return c.Sync != nil || c.Persistent != nil }

// CheckWait refuses controls that cannot be combined with a search that waits for
// changes.
func (c *Controls) CheckWait() error {
	switch {
	case c.At != nil:
		return op.Errorf(op.UnwillingToPerform, "a search that waits for changes cannot read a past state")
	case c.Sync != nil && c.Persistent != nil:
		return op.Errorf(op.UnwillingToPerform, "content synchronization and persistent search exclude each other")
	case c.Rights != nil:
		return op.Errorf(op.UnwillingToPerform, "a search that waits for changes cannot return effective rights")
	case c.Paged != nil || c.Sort != nil:
		return op.Errorf(op.UnwillingToPerform, "a search that waits for changes can be neither paged nor sorted")
	}
	return nil
}

// A servedControl is a control that requests may carry.
type servedControl struct {
	oid  string
	with operations // the operations that the control applies to
	// take parses the control's value, checks the value against the request, and stores
	// the result in the request's Controls. It returns an error if the control cannot be
	// used. The error is protocolError if the value is malformed, or if the control must
	// be critical and is not.
	take func(req *Request, m *op.Message, c *op.Control) error
}

// supported are the controls that the server supports. The server serves exactly these
// controls and lists them in supportedControl.
var supported = []servedControl{
	{control.OIDManageDsaIT, all &^ extended, flag("ManageDsaIT", func(c *Controls) *bool { return &c.ManageDsaIT })},
	{control.OIDPagedResults, withSearch, takePaged},
	{control.OIDSortRequest, withSearch, takeSort},
	{control.OIDViewRequest, withSearch, takeView},
	{control.OIDMatchedValues, withSearch, takeMatched},
	{control.OIDDereference, withSearch, takeDereference},
	{control.OIDAssertion, all &^ extended, takeAssertion},
	{control.OIDPreRead, withModify | withDelete | withModifyDN, takePreRead},
	{control.OIDPostRead, withAdd | withModify | withModifyDN, takePostRead},
	{control.OIDNoOp, updates | withPasswordModify | withEndTransaction, takeNoOp},
	{control.OIDProxiedAuthorization, all, takeProxied},
	{control.OIDAuthzIDRequest, withBind, flag("authorization identity", func(c *Controls) *bool { return &c.AuthzID })},
	{control.OIDPasswordPolicy, withBind | withAdd | withModify | withCompare | withPasswordModify, flag("password policy", func(c *Controls) *bool { return &c.PasswordPolicy })},
	{control.OIDAccountUsable, withSearch, flag("account usable", func(c *Controls) *bool { return &c.AccountUsable })},
	{control.OIDEffectiveRights, withSearch, takeRights},
	{control.OIDSessionTracking, all | withBind, takeTracking},
	{control.OIDSubentries, withSearch, takeSubentries},
	{control.OIDPermissiveModify, withModify, flag("permissive modify", func(c *Controls) *bool { return &c.Rules.Permissive })},
	{control.OIDRelaxRules, updates, flag("relax rules", func(c *Controls) *bool { return &c.Rules.Relaxed })},
	{control.OIDTreeDelete, withDelete, flag("tree delete", func(c *Controls) *bool { return &c.TreeDelete })},
	{control.OIDDontUseCopy, withSearch | withCompare, flag("don't use copy", func(c *Controls) *bool { return &c.original })},
	{control.OIDSyncRequest, withSearch, takeSync},
	{control.OIDPersistentSearch, withSearch, takePersistent},
	{control.OIDAt, withSearch | withCompare, takeAt},
	{control.OIDToken, withSearch | withCompare | updates | withPasswordModify | withEndTransaction, takeToken},
	{control.OIDTransaction, updates | withPasswordModify, takeTransaction},
	{control.OIDBranch, withSearch | withCompare | updates | withPasswordModify, takeBranch},
}

// operations is a set of kinds of requests.
type operations uint

const (
	withBind operations = 1 << iota
	withSearch
	withCompare
	withAdd
	withModify
	withDelete
	withModifyDN
	withPasswordModify
	withEndTransaction
	withExtended // all other extended operations

	updates  = withAdd | withModify | withDelete | withModifyDN
	extended = withPasswordModify | withEndTransaction | withExtended
	all      = withSearch | withCompare | updates | extended // all operations except Bind
)

// operationsOf returns the kind of one request.
func operationsOf(r op.Request) operations {
	switch r := r.(type) {
	case *op.Bind:
		return withBind
	case *op.Search:
		return withSearch
	case *op.Compare:
		return withCompare
	case *op.Add:
		return withAdd
	case *op.Modify:
		return withModify
	case *op.Delete:
		return withDelete
	case *op.ModifyDN:
		return withModifyDN
	case *op.Extended:
		switch r.OID {
		case control.OIDPasswordModify:
			return withPasswordModify
		case control.OIDEndTransaction:
			return withEndTransaction
		}
		return withExtended
	}
	return 0
}

// TakeControls reads the controls of a request. A control that does not apply to the
// operation counts as unknown. If an unknown control is critical, TakeControls returns an
// error. Otherwise it ignores the control (RFC 4511, 4.1.11). The same holds for a control that
// the requester may not use. If a known control other than session tracking occurs twice, the
// result is protocolError.
func TakeControls(req *Request, m *op.Message) error {
	for i := range m.Controls {
		c := &m.Controls[i]
		k := served(c.OID, m.Request)
		if k == nil {
			if c.Critical {
				return unknownControl(c.OID)
			}
			continue
		}
		if c.OID != control.OIDSessionTracking && slices.ContainsFunc(m.Controls[:i], func(d op.Control) bool { return d.OID == c.OID }) {
			return op.Errorf(op.ProtocolError, "control %s was sent twice", c.OID)
		}
		if !req.Judge.MayUse(c.OID) {
			if c.Critical {
				return req.Judge.RefuseUse(c.OID)
			}
			continue
		}
		if err := k.take(req, m, c); err != nil {
			return err
		}
	}
	return nil
}

// served returns the control with an OID. It returns nil if the control is unknown, or if
// the control does not apply to the request.
func served(oid string, r op.Request) *servedControl {
	for i := range supported {
		if k := &supported[i]; k.oid == oid && k.with&operationsOf(r) != 0 {
			return k
		}
	}
	return nil
}

// GoesWith reports whether the server serves a control with a request.
func GoesWith(oid string, r op.Request) bool { return served(oid, r) != nil }

func unknownControl(oid string) error {
	return op.Errorf(op.UnavailableCriticalExtension,
		"control %s is not supported, or cannot be used with this operation", oid)
}

// SupportedControls returns the OIDs that are the values of supportedControl.
func SupportedControls() []string {
	oids := make([]string, len(supported))
	for i := range supported {
		oids[i] = supported[i].oid
	}
	oids = append(oids, control.OIDAuthzIDResponse) // the response control is published too (RFC 3829, 2)
	slices.Sort(oids)
	return oids
}
