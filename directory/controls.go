package directory

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/table"
)

// controls are a request's, understood. Each has its file, named after it.
type controls struct {
	manageDsaIT bool
	paged       *paged
	sort        *sorting
	vlv         *view
	matched     *matched
	dereference []derefSpec

	assertion         filter.Filter
	preRead, postRead []string // nil: not asked for
	noOp              bool
	proxied           *string // an authorization identity
	authzID           bool
	sessions          []trackedSession
	visible           visibility
	original          bool
	rules             partition.Rules
	treeDelete        bool
	sync              *synced
	persistent        *persistent
	at                *partition.Moment // nil: now
	token             bool              // is asked for
	atLeast           table.Revision    // that is to be shown
}

// A control is one that requests may carry.
type control struct {
	oid  string
	with operations // that it goes with
	// take reads the value into controls. It may refuse what stands in the
	// control (protocolError) or its criticality.
	take func(o *operation, m *op.Message, c *op.Control) error
}

// supported are the controls that work: what stands here is served and
// published, and nothing else.
var supported = []control{
	{manageDsaIT, all &^ extended, takeManageDsaIT},
	{pagedResults, withSearch, takePaged},
	{sortRequest, withSearch, takeSort},
	{viewRequest, withSearch, takeView},
	{matchedValues, withSearch, takeMatched},
	{dereference, withSearch, takeDereference},
	{assertion, all &^ extended, takeAssertion},
	{preRead, withModify | withDelete | withModifyDN, takePreRead},
	{postRead, withAdd | withModify | withModifyDN, takePostRead},
	{noOp, updates | withPasswordModify, takeNoOp},
	{proxiedAuthorization, all, takeProxied},
	{authzIDRequest, withBind, takeAuthzID},
	{sessionTracking, all | withBind, takeTracking},
	{subentries, withSearch, takeSubentries},
	{permissiveModify, withModify, takePermissive},
	{relaxRules, updates, takeRelax},
	{treeDelete, withDelete, takeTreeDelete},
	{dontUseCopy, withSearch | withCompare, takeDontUseCopy},
	{syncRequest, withSearch, takeSync},
	{persistentSearch, withSearch, takePersistent},
	{atControl, withSearch | withCompare, takeAt},
	{tokenControl, withSearch | withCompare | updates | withPasswordModify, takeToken},
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
	withExtended // the others

	updates  = withAdd | withModify | withDelete | withModifyDN
	extended = withPasswordModify | withExtended
	all      = withSearch | withCompare | updates | extended // but Bind
)

// operationsOf gives the kind of one request.
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
		if r.OID == passwordModify {
			return withPasswordModify
		}
		return withExtended
	}
	return 0
}

// takeControls reads the controls of a request. One that does not go with the
// operation counts as unknown: an error if it is critical, else ignored (RFC
// 4511, 4.1.11). One that comes twice is a protocolError, but for session tracking.
func (o *operation) takeControls(m *op.Message) error {
	with := operationsOf(m.Request)
	for i := range m.Controls {
		c := &m.Controls[i]
		known := slices.IndexFunc(supported, func(k control) bool { return k.oid == c.OID })
		if known < 0 || supported[known].with&with == 0 {
			if c.Critical {
				return unknownControl(c.OID)
			}
			continue
		}
		if c.OID != sessionTracking && slices.ContainsFunc(m.Controls[:i], func(d op.Control) bool { return d.OID == c.OID }) {
			return op.Errorf(op.ProtocolError, "control %s comes twice", c.OID)
		}
		if err := supported[known].take(o, m, c); err != nil {
			return err
		}
	}
	return nil
}

func unknownControl(oid string) error {
	return op.Errorf(op.UnavailableCriticalExtension,
		"control %s is not known here or does not go with this operation", oid)
}

// malformed is the answer to a control whose value is not what it should be.
func malformed(control string, err error) error {
	return op.Errorf(op.ProtocolError, "%s control: %v", control, err)
}

// noValue refuses a value in a control that has none. An empty one is what some
// clients send for none.
func noValue(control string, c *op.Control) error {
	if len(c.Value) > 0 {
		return op.Errorf(op.ProtocolError, "%s control: it has a value of %d octets and takes none", control, len(c.Value))
	}
	return nil
}

// respond adds a control to the response.
func (o *operation) respond(oid string, value []byte) {
	o.response.Controls = append(o.response.Controls, op.Control{OID: oid, Value: value})
}

func supportedControls() []string {
	oids := make([]string, len(supported))
	for i := range supported {
		oids[i] = supported[i].oid
	}
	oids = append(oids, authzIDResponse) // published too (RFC 3829, 2)
	slices.Sort(oids)
	return oids
}

const manageDsaIT = "2.16.840.1.113730.3.4.2" // RFC 3296

// takeManageDsaIT reads a ManageDsaIT control, which has no value.
func takeManageDsaIT(o *operation, _ *op.Message, c *op.Control) error {
	o.controls.manageDsaIT = true
	return noValue("ManageDsaIT", c)
}
