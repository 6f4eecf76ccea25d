package request

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/internal/wellknown"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

// These functions read the values of controls, in the order in which the variable supported
// lists the controls.

func takePaged(req *Request, _ *op.Message, c *op.Control) error {
	p, err := control.ParsePagedResults(c.Value)
	if err != nil {
		return err
	}
	req.Controls.Paged = &p
	return nil
}

// sortRequest is the parsed sort control of a request (RFC 2891).
type sortRequest struct {
	Critical bool
	Value    []byte // as received, for comparison with the requests of other pages
	Keys     []control.SortKey
}

func takeSort(req *Request, _ *op.Message, c *op.Control) error {
	s, err := control.ParseSortRequest(c.Value)
	if err != nil {
		return err
	}
	req.Controls.Sort = &sortRequest{Critical: c.Critical, Value: c.Value, Keys: s.Keys}
	return nil
}

// takeVLV reads a virtual list view control (draft-ietf-ldapext-ldapv3-vlv-09).
func takeVLV(req *Request, _ *op.Message, c *op.Control) error {
	v, err := control.ParseVLVRequest(c.Value)
	if err != nil {
		return err
	}
	req.Controls.Vlv = &v
	return nil
}

// maxItems bounds the items of a matched values control, each of which is tested on every value,
// and the attributes that a dereference control follows.
const maxItems = 256

// takeMatched reads a matched values control, whose value is a ValuesReturnFilter. The
// search then returns the values that match any item of the filter.
func takeMatched(req *Request, _ *op.Message, c *op.Control) error {
	m, err := control.ParseMatchedValues(c.Value)
	if err != nil {
		return err
	}
	if len(m.Items) > maxItems {
		return op.Errorf(op.AdminLimitExceeded, "matched values control: it has %d items, and at most %d are served", len(m.Items), maxItems)
	}
	req.Controls.Matched = &m
	return nil
}

// takeDereference reads a dereference control (draft-masarati-ldap-deref-00).
func takeDereference(req *Request, _ *op.Message, c *op.Control) error {
	d, err := control.ParseDereference(c.Value)
	if err != nil {
		return err
	}
	if len(d.Specs) > maxItems {
		return op.Errorf(op.AdminLimitExceeded, "dereference control: it has %d attributes to follow, and at most %d are served", len(d.Specs), maxItems)
	}
	for i := range d.Specs {
		text := d.Specs[i].Attribute
		t, options := req.Schema.Describe(text)
		same := func(s control.DerefSpec) bool {
			other, others := req.Schema.Describe(s.Attribute)
			return t != nil && other == t && entry.SortOptions(others) == entry.SortOptions(options)
		}
		switch {
		case slices.ContainsFunc(d.Specs[:i], same):
			return op.Errorf(op.ProtocolError, "dereference control: %s occurs twice", text)
		case c.Critical && (t == nil || !wellknown.IsName(t)):
			return op.Errorf(op.UnavailableCriticalExtension, "dereference control ("+control.OIDDereference+"): %q is not an attribute whose values are names", text)
		}
	}
	req.Controls.Dereference = d.Specs
	return nil
}

// takeAssertion reads an assertion control, whose value is a filter.
func takeAssertion(req *Request, _ *op.Message, c *op.Control) error {
	a, err := control.ParseAssertion(c.Value)
	if err != nil {
		return err
	}
	req.Controls.Assertion = a.Filter
	return nil
}

// takePreRead reads a pre-read control (RFC 4527), which requests the entry as it was
// before the change.
func takePreRead(req *Request, _ *op.Message, c *op.Control) (err error) {
	req.Controls.PreRead, err = selection(c)
	return err
}

// takePostRead reads a post-read control (RFC 4527), which requests the entry as it is
// after the change.
func takePostRead(req *Request, _ *op.Message, c *op.Control) (err error) {
	req.Controls.PostRead, err = selection(c)
	return err
}

// selection returns the attributes that a read entry control requests. The result is
// never nil.
func selection(c *op.Control) ([]string, error) {
	e, err := control.ParseReadEntry(c.Value)
	if err != nil {
		return nil, err
	}
	return e.Attributes, nil
}

func takeNoOp(req *Request, _ *op.Message, c *op.Control) error {
	if req.Controls.NoOp {
		return op.Errorf(op.ProtocolError, "no-op control: it was sent twice, under two OIDs")
	}
	req.Controls.NoOp, req.Controls.Rules.Trial = true, true
	return control.NoValue(c.Value)
}

// takeProxied reads a proxied authorization control, whose value is an authorization
// identity. Clients must make the control critical (RFC 4370, 3). OpenLDAP's slapd does so only
// if it is configured to, so the control counts as critical even if it is not.
func takeProxied(req *Request, m *op.Message, c *op.Control) error {
	if operationsOf(m.Request) == withEndTransaction { // RFC 5805, 4.4
		return op.Errorf(op.ProtocolError, "proxied authorization control: send it with the start of a transaction, not with its end")
	}
	p, err := control.ParseProxiedAuthorization(c.Value)
	if err != nil {
		return err
	}
	req.Controls.Proxied = &p.AuthzID
	return nil
}

// maxRights bounds the attributes that a Get Effective Rights control names. The rights on each are
// part of every entry found.
const maxRights = 2048

// takeRights reads a Get Effective Rights control.
func takeRights(req *Request, _ *op.Message, c *op.Control) error {
	r, err := control.ParseEffectiveRights(c.Value)
	if err != nil {
		return err
	}
	if len(r.Attributes) > maxRights {
		return op.Errorf(op.AdminLimitExceeded, "effective rights control: it names %d attributes, and at most %d are served: ask for *", len(r.Attributes), maxRights)
	}
	req.Controls.Rights = &r
	return nil
}

// takeExplain reads the control that asks how a search is run.
func takeExplain(req *Request, _ *op.Message, c *op.Control) error {
	x, err := control.ParseExplain(c.Value)
	if err != nil {
		return err
	}
	req.Controls.Explain = &x
	return nil
}

// takeTracking reads a session tracking control, which the access log and the journal
// record. A request may have several of these controls, one for each system through which
// the request has passed, in the order in which it has passed through them.
func takeTracking(req *Request, _ *op.Message, c *op.Control) error {
	s, err := control.ParseSessionTracking(c.Value)
	if err != nil {
		return err
	}
	req.Controls.Sessions = append(req.Controls.Sessions, s)
	return nil
}

// visibility states which entries a search shows.
type visibility uint8

const (
	byScope        visibility = iota // the request has no such control: only base searches show subentries
	EntriesOnly                      // the control's value is FALSE
	SubentriesOnly                   // the control's value is TRUE
)

// Hides reports whether a base search leaves out an entry because of the subentries control.
func (v visibility) Hides(k *wellknown.Elements, e *entry.Entry) bool {
	return v != byScope && (v == SubentriesOnly) != k.Is(e, k.Subentry)
}

// takeSubentries reads a subentries control (RFC 3672, 3).
func takeSubentries(req *Request, _ *op.Message, c *op.Control) error {
	s, err := control.ParseSubentries(c.Value)
	if err != nil {
		return err
	}
	req.Controls.Visible = EntriesOnly
	if s.Visible {
		req.Controls.Visible = SubentriesOnly
	}
	return nil
}

func takeSync(req *Request, _ *op.Message, c *op.Control) error {
	s, err := control.ParseSyncRequest(c.Value)
	if err != nil {
		return err
	}
	req.Controls.Sync = &s
	return nil
}

// takePersistent reads a persistent search control (draft-ietf-ldapext-psearch-03).
func takePersistent(req *Request, _ *op.Message, c *op.Control) error {
	p, err := control.ParsePersistentSearch(c.Value)
	if err != nil {
		return err
	}
	req.Controls.Persistent = &p
	return nil
}

// takeAt reads the control that requests a state of the past.
func takeAt(req *Request, _ *op.Message, c *op.Control) error {
	m, err := state.ParsePointInTime(string(c.Value))
	if err != nil {
		return err
	}
	req.Controls.At = &m
	return nil
}

// takeToken reads a token control. In an update, the control requests the token of the
// update's commit. In a read, the value of the control is a token. The state that the read
// sees then shows the token's commit, and every commit that was visible to the update.
func takeToken(req *Request, m *op.Message, c *op.Control) (err error) {
	if operationsOf(m.Request)&(withSearch|withCompare) == 0 {
		req.Controls.Token = true
		return control.NoValue(c.Value)
	}
	if req.Controls.atLeast, err = revision.Parse(string(c.Value)); err != nil {
		return err
	}
	return nil
}

// takeTransaction reads a transaction specification control. The control must be critical
// (RFC 5805, 2.2), because a server that does not know the control would otherwise make
// the update at once.
func takeTransaction(req *Request, _ *op.Message, c *op.Control) error {
	if !c.Critical {
		return op.Errorf(op.ProtocolError, "transaction specification control: it must be critical")
	}
	t, err := control.ParseTransaction(c.Value)
	if err != nil {
		return err
	}
	req.Controls.Transaction = &t.ID
	return nil
}

// takeBranch reads a branch control. The control must be critical, because a server that
// does not know the control would otherwise read and change the directory itself.
func takeBranch(req *Request, _ *op.Message, c *op.Control) error {
	if !c.Critical {
		return op.Errorf(op.ProtocolError, "branch control: it must be critical")
	}
	b, err := control.ParseBranch(c.Value)
	if err != nil {
		return err
	}
	req.Controls.Branch = &b.Name
	return nil
}

// flag returns a function that reads a control without a value. The function sets a field
// of the request's controls.
func flag(field func(*Controls) *bool) func(*Request, *op.Message, *op.Control) error {
	return func(req *Request, _ *op.Message, c *op.Control) error {
		if err := control.NoValue(c.Value); err != nil {
			return err
		}
		*field(&req.Controls) = true
		return nil
	}
}
