package request

import (
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Controls are the parsed controls of a request. Attribute names are kept as the client sent
// them. The code that uses a control resolves the names by the schema of the state that it
// reads.
type Controls struct {
	ManageDsaIT bool
	Paged       *control.PagedResults
	Sort        *sortRequest
	Vlv         *control.VLVRequest
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
	At                *state.PointInTime // nil: now
	Token             bool               // the client requests a token
	Rights            *control.EffectiveRights
	Explain           *control.Explain
	AccessDiff        bool           // the client wants to know who gains and loses what
	Transaction       *string        // the identifier of the transaction that the update belongs to
	Branch            *string        // the branch that the operation is in
	atLeast           table.Revision // the commit that the read must show
}

// Waits reports whether the request is a search that waits for changes.
func (c *Controls) Waits() bool { return c.Sync != nil || c.Persistent != nil }

// A servedControl is a control that requests may carry.
type servedControl struct {
	oid  string
	name string
	with operations // the operations that the control applies to
	// take parses the control's value, checks the value against the request, and stores
	// the result in the request's Controls. It returns an error if the control cannot be
	// used. An error that is not an op.Result means that the value is malformed.
	take func(req *Request, m *op.Message, c *op.Control) error
}

// supported are the controls that the server supports. The server serves exactly these
// controls and lists them in supportedControl.
var supported = []servedControl{
	{control.OIDManageDsaIT, "ManageDsaIT", all &^ extended, flag(func(c *Controls) *bool { return &c.ManageDsaIT })},
	{control.OIDPagedResults, "paged results", withSearch, takePaged},
	{control.OIDSortRequest, "sort", withSearch, takeSort},
	{control.OIDVLVRequest, "virtual list view", withSearch, takeVLV},
	{control.OIDMatchedValues, "matched values", withSearch, takeMatched},
	{control.OIDDereference, "dereference", withSearch, takeDereference},
	{control.OIDAssertion, "assertion", all &^ extended, takeAssertion},
	{control.OIDPreRead, "pre-read", withModify | withDelete | withModifyDN, takePreRead},
	{control.OIDPostRead, "post-read", withAdd | withModify | withModifyDN, takePostRead},
	{control.OIDNoOp, "no-op", updates | withPasswordModify | withEndTransaction, takeNoOp},
	{control.OIDNoOp12, "no-op", updates | withPasswordModify | withEndTransaction, takeNoOp},
	{control.OIDProxiedAuthorization, "proxied authorization", all, takeProxied},
	{control.OIDAuthzIDRequest, "authorization identity", withBind, flag(func(c *Controls) *bool { return &c.AuthzID })},
	{control.OIDPasswordPolicy, "password policy", withBind | withAdd | withModify | withCompare | withPasswordModify, flag(func(c *Controls) *bool { return &c.PasswordPolicy })},
	{control.OIDAccountUsable, "account usable", withSearch, flag(func(c *Controls) *bool { return &c.AccountUsable })},
	{control.OIDEffectiveRights, "effective rights", withSearch, takeRights},
	{control.OIDSessionTracking, "session tracking", all | withBind, takeTracking},
	{control.OIDSubentries, "subentries", withSearch, takeSubentries},
	{control.OIDPermissiveModify, "permissive modify", withModify, flag(func(c *Controls) *bool { return &c.Rules.Permissive })},
	{control.OIDRelaxRules, "relax rules", updates, flag(func(c *Controls) *bool { return &c.Rules.Relaxed })},
	{control.OIDTreeDelete, "tree delete", withDelete, flag(func(c *Controls) *bool { return &c.TreeDelete })},
	{control.OIDDontUseCopy, "don't use copy", withSearch | withCompare, flag(func(c *Controls) *bool { return &c.original })},
	{control.OIDSyncRequest, "sync request", withSearch, takeSync},
	{control.OIDPersistentSearch, "persistent search", withSearch, takePersistent},
	{control.OIDAt, "at", withSearch | withCompare, takeAt},
	{control.OIDToken, "token", withSearch | withCompare | updates | withPasswordModify | withEndTransaction, takeToken},
	{control.OIDTransaction, "transaction specification", updates | withPasswordModify, takeTransaction},
	{control.OIDExplain, "explain", withSearch, takeExplain},
	{control.OIDAccessDiff, "access diff", withModify, flag(func(c *Controls) *bool { return &c.AccessDiff })},
	{control.OIDBranch, "branch", withSearch | withCompare | updates | withPasswordModify, takeBranch},
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
	reads    = withBind | withSearch | withCompare
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
// the requester may not use, and in operations that change nothing for a control whose value is
// malformed. If a known control other than session tracking occurs twice, the result is
// protocolError.
func TakeControls(req *Request, m *op.Message) error {
	var taken controlSet
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
			return op.Errorf(op.ProtocolError, "control %s was sent twice", ControlText(c.OID))
		}
		if !req.Judge.MayUse(c.OID) {
			if c.Critical || k.always() {
				return req.Judge.RefuseUse(c.OID, "control "+ControlText(c.OID))
			}
			continue
		}
		if err := k.read(req, m, c); err != nil {
			if c.Critical || k.always() || operationsOf(m.Request)&reads == 0 {
				return err
			}
			continue
		}
		taken |= k.set()
	}
	return taken.check()
}

// read takes a control. The result for a malformed value is protocolError.
func (k *servedControl) read(req *Request, m *op.Message, c *op.Control) error {
	err := k.take(req, m, c)
	var result *op.Result
	if err == nil || errors.As(err, &result) {
		return err
	}
	return op.Errorf(op.ProtocolError, "%s control: %v", k.name, err)
}

// The method "always" reports whether a control is never ignored, because the operation without
// the control is another operation.
func (k *servedControl) always() bool {
	return k.oid == control.OIDProxiedAuthorization || k.oid == control.OIDTransaction || k.oid == control.OIDBranch
}

// A controlSet is a set of controls: bit n is the control supported[n].
type controlSet uint64

func (k *servedControl) set() controlSet {
	return 1 << slices.IndexFunc(supported, func(o servedControl) bool { return o.oid == k.oid })
}

// served returns the control with an OID. It returns nil if the control is unknown, or if
// the control does not apply to the request.
func served(oid string, r op.Request) *servedControl {
	if k := controlOf(oid); k != nil && k.with&operationsOf(r) != 0 {
		return k
	}
	return nil
}

// controlOf returns the control with an OID, or nil.
func controlOf(oid string) *servedControl {
	for i := range supported {
		if k := &supported[i]; k.oid == oid {
			return k
		}
	}
	return nil
}

// GoesWith reports whether the server serves a control with a request.
func GoesWith(oid string, r op.Request) bool { return served(oid, r) != nil }

func unknownControl(oid string) error {
	if controlOf(oid) != nil {
		return op.Errorf(op.UnavailableCriticalExtension, "control %s cannot be used with this operation", ControlText(oid))
	}
	return op.Errorf(op.UnavailableCriticalExtension, "control %s is not supported", ControlText(oid))
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
