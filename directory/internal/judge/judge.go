// Package judge decides by the access rules what one request may see and do.
package judge

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Judge decides what a requester may see and do with the entries of a state. The
// zero Judge refuses everything.
type Judge struct {
	program      *acl.Program
	unrestricted bool // there is no program: access rules do not restrict the requester
	state        *partition.Snapshot
	schema       *schema.Schema // the schema of the state

	// decision is the last decision, and last is the entry that it is about. A search
	// needs the decision about an entry twice: for the filter, and to show the entry.
	last     *entry.Entry
	id       entry.ID // of the entry when the decision was made
	decision *acl.Decision
	failed   error // why a filter could not make a decision

	past *past // not nil if the state is a past state

	asked  access.Entry       // the entry of the decision that is being made
	values filter.EntrySource // the values of this entry

	refusal *Refusal // records refusals; nil: refusals are not recorded
}

// ErrAccess is the result for an operation that the access rules do not allow.
var ErrAccess = op.Errorf(op.InsufficientAccessRights, "the access rules do not allow this")

// errRules ends a request if the schema of the request's state is not the schema of the
// access rules in force.
var errRules = op.Errorf(op.Busy, "the schema has just been changed: try again")

// errNoRules ends a request that needs a decision before the access rules for the requester
// were set.
var errNoRules = op.Errorf(op.Other, "the request has no access rules: this is an error of the server")

// By makes the Judge decide by p, the access rules for the requester.
func (j *Judge) By(p *acl.Program) {
	*j = Judge{program: p, state: j.state, schema: j.schema, refusal: j.refusal}
}

// Unrestrict makes the Judge allow everything. The administrator and the server itself
// have such a Judge.
func (j *Judge) Unrestrict() {
	*j = Judge{unrestricted: true, state: j.state, schema: j.schema, refusal: j.refusal}
}

// Read makes the Judge decide about the entries of another state.
func (j *Judge) Read(s *partition.Snapshot, sch *schema.Schema) {
	if j.state == s && j.schema == sch && j.past == nil && j.failed == nil {
		return
	}
	*j = Judge{program: j.program, unrestricted: j.unrestricted, state: s, schema: sch, refusal: j.refusal}
}

// ByName makes the Judge decide by [acl.Program.ByName]. A rule that allows something then
// applies only to entries in the parts of the tree that the rule names.
func (j *Judge) ByName() {
	if j.program != nil {
		j.By(j.program.ByName())
	}
}

// Program returns the access rules for the requester. It returns nil if rules do not restrict
// the requester. It also returns nil before By has set the rules.
func (j *Judge) Program() *acl.Program { return j.program }

// Unrestricted reports whether access rules do not restrict the requester.
func (j *Judge) Unrestricted() bool { return j.unrestricted }

// ReadsAll returns true only if the requester reads everything except secrets and the access
// rules.
func (j *Judge) ReadsAll() bool {
	return j.unrestricted || j.program != nil && j.program.ReadsAll() && (j.past == nil || j.past.readsAll())
}

// Secrets reports whether the requester may have the right r on secrets of some entries. Secrets have
// no past.
func (j *Judge) Secrets(r acl.Rights) bool {
	return j.past == nil && (j.unrestricted || j.program != nil && j.program.Secrets()&r != 0)
}

// SeesAll returns true only if the requester sees every entry.
func (j *Judge) SeesAll() bool { return j.Everywhere().Entry(acl.See) }

// Everywhere returns a decision that contains only rights that the requester has on every entry.
func (j *Judge) Everywhere() *acl.Decision {
	switch {
	case j.unrestricted:
		return acl.Everything
	case j.program == nil:
		return acl.Nothing
	case j.past != nil:
		return j.past.always
	}
	return j.program.Always()
}

// MayUse reports whether the requester may use a control or an extended operation.
func (j *Judge) MayUse(oid string) bool {
	return j.unrestricted || j.program != nil && j.program.MayUse(oid)
}

// Decide returns what the requester may do with an entry of the state. Callers must not call
// Decide for a requester whom access rules do not restrict: see Unrestricted.
func (j *Judge) Decide(ctx context.Context, name dn.DN, e *entry.Entry, src filter.Source) (*acl.Decision, error) {
	switch {
	case j.program == nil:
		return nil, errNoRules
	case j.past == nil && j.program.Schema() != j.schema:
		return nil, errRules
	case j.decided(e):
		return j.decision, nil
	}
	var d *acl.Decision
	var err error
	if j.past == nil {
		d, err = j.decide(ctx, j.program, j.state, name, e, src)
	} else {
		d, err = j.past.decide(ctx, j, name, e, src)
	}
	if err != nil {
		return nil, err
	}
	j.last, j.id, j.decision = e, e.ID, d
	return d, nil
}

// decided reports whether the last decision is about an entry. Searches use the memory of an entry again for the
// next one, so the id is compared too.
func (j *Judge) decided(e *entry.Entry) bool { return j.last == e && j.id == e.ID }

// decide returns the decision of a program about an entry of a state.
func (j *Judge) decide(ctx context.Context, p *acl.Program, s *partition.Snapshot, name dn.DN, e *entry.Entry, src filter.Source) (*acl.Decision, error) {
	zone, err := p.Zone(name.Parent())
	if err != nil {
		return nil, err
	}
	d := zone.Decide(j.asked.Set(ctx, s, name, e, src))
	return d, j.asked.Err()
}

// DecideAt is Decide for an entry that was located by name. It returns nil if the entry
// no longer exists.
func (j *Judge) DecideAt(ctx context.Context, at partition.Located) (*acl.Decision, error) {
	switch {
	case j.program == nil:
		return nil, errNoRules
	case j.past == nil && j.program.Schema() != j.schema:
		return nil, errRules
	}
	e, err := j.state.Some(ctx, at.ID, j.types())
	if err != nil {
		return nil, err
	}
	name, err := at.Name.DN()
	if err != nil || e == nil {
		return nil, err
	}
	return j.Decide(ctx, name, e, j.source(name, e))
}

// types returns the types that decisions about entries of the state depend on.
func (j *Judge) types() []*schema.AttributeType {
	if j.past != nil {
		return j.past.program.Types()
	}
	return j.program.Types()
}

// DecideNew is Decide for an entry that is not stored yet.
func (j *Judge) DecideNew(ctx context.Context, name dn.DN, e *entry.Entry) (*acl.Decision, error) {
	j.last = nil
	return j.Decide(ctx, name, e, j.source(name, e))
}

// source returns the values of an entry. The result is valid until the next call of source.
func (j *Judge) source(name dn.DN, e *entry.Entry) *filter.EntrySource {
	j.values.Schema = j.schema
	j.values.Reset(e, name)
	return &j.values
}

// Sees reports whether the requester may know that an entry exists.
func (j *Judge) Sees(ctx context.Context, at partition.Located) (bool, error) {
	if j.SeesAll() || at.ID == entry.Root {
		return true, nil
	}
	d, err := j.DecideAt(ctx, at)
	return d != nil && d.Entry(acl.See), err
}

// Find returns the location of the entry with a name. If the requester does not see the
// entry, Find returns the error of a missing entry.
func (j *Judge) Find(ctx context.Context, name dn.DN) (partition.Located, error) {
	at, err := j.state.Find(ctx, name)
	if j.SeesAll() {
		return at, err
	}
	switch {
	case err == nil:
		seen, err := j.Sees(ctx, at)
		if seen || err != nil {
			return at, err
		}
	case !partition.Is(err, partition.NoSuchEntry):
		return at, err
	}
	return partition.Located{}, j.missing(ctx, name)
}

// missing returns the error for a name without an entry. The matched name in the error is
// the name of the deepest superior that the requester sees.
func (j *Judge) missing(ctx context.Context, name dn.DN) error {
	missing := &partition.Error{Problem: partition.NoSuchEntry, Text: "no entry " + name.String()}
	for above := name.Parent(); len(above) > 0; above = above.Parent() {
		at, err := j.state.Find(ctx, above)
		if partition.Is(err, partition.NoSuchEntry) {
			continue
		}
		seen := false
		if err == nil {
			seen, err = j.Sees(ctx, at)
		}
		if err != nil {
			return err
		}
		if seen {
			missing.Matched = at.Name.String()
			break
		}
	}
	return missing
}

// MayFollowAt reports whether the requester may follow a referral or an alias. The requester
// must see the entry, and needs the right to read the attribute t, which names the target.
// For other requesters, the referral or alias counts as an ordinary entry.
func (j *Judge) MayFollowAt(ctx context.Context, at partition.Located, t *schema.AttributeType) (bool, error) {
	if j.ReadsAll() {
		return true, nil
	}
	d, err := j.DecideAt(ctx, at)
	return d != nil && d.Entry(acl.See) && d.All(t, acl.Show), err
}

// OnlyLeading restricts a filter to the entries that MayFollowAt allows.
func (j *Judge) OnlyLeading(ctx context.Context, f filter.Resolved, t *schema.AttributeType) filter.Resolved {
	if j.ReadsAll() {
		return f
	}
	decide := j.Decider(ctx)
	return filter.MakeAnd(f, filter.Place(j.NeededTypes(), func(name dn.DN, e filter.Source) bool {
		d := decide(name, e)
		return d != nil && d.Entry(acl.See) && d.All(t, acl.Show)
	}))
}

// Guard restricts a client's filter to tests of attributes and values that the requester
// may search.
func (j *Judge) Guard(ctx context.Context, f filter.Resolved) filter.Resolved {
	switch {
	case j.ReadsAll():
		return f
	case j.program == nil:
		return filter.Const(filter.False)
	}
	return acl.Guard(f, j.Everywhere(), j.NeededTypes(), j.Decider(ctx))
}

// OnlySeen restricts a filter to the entries that the requester sees.
func (j *Judge) OnlySeen(ctx context.Context, f filter.Resolved) filter.Resolved {
	if seen := j.Children(ctx); seen != nil {
		return filter.MakeAnd(f, seen)
	}
	return f
}

// Children returns a filter that selects the entries that the requester sees. If a client's
// filter tests the children of an entry, only the children that Children selects count.
// Children returns nil if the requester sees every entry.
func (j *Judge) Children(ctx context.Context) filter.Resolved {
	if j.SeesAll() {
		return nil
	}
	return acl.Visible(j.NeededTypes(), j.Decider(ctx))
}

// Restrict restricts a query to the entries that the requester sees. Tests of children in
// the query then consider only children that the requester sees.
func (j *Judge) Restrict(ctx context.Context, q *partition.Query) {
	if q.Children = j.Children(ctx); q.Children != nil {
		q.Filter = filter.MakeAnd(q.Filter, q.Children)
	}
}

// Narrow makes a search look at few entries that the requester does not see. It adds a test
// to the filter, if there is a suitable test that indexes can answer. The test is True for
// all entries that the requester sees in the scope, and for few other entries: see
// acl.Narrowing.
func (j *Judge) Narrow(ctx context.Context, f filter.Resolved, base entry.ID, scope op.Scope) (filter.Resolved, error) {
	if scope == op.BaseObject || j.program == nil || j.past != nil || j.SeesAll() || j.program.Schema() != j.schema {
		return f, nil
	}
	name, err := nameOf(ctx, j.state, base)
	if err != nil {
		return nil, err
	}
	seen := j.program.Narrow(name, scopes[scope])
	if seen == nil {
		return f, nil
	}
	parts := []filter.Resolved{seen.Filter}
	for _, name := range seen.Names {
		at, err := j.state.Find(ctx, name)
		switch {
		case err == nil:
			parts = append(parts, filter.Resolve(filter.EqualTo("entryUUID", at.ID.String()), j.schema))
		case !partition.Is(err, partition.NoSuchEntry):
			return nil, err
		}
	}
	return filter.MakeAnd(f, filter.MakeOr(parts...)), nil
}

// scopes maps the scopes of searches to the scopes of package acl.
var scopes = map[op.Scope]acl.Scope{op.SingleLevel: acl.Children, op.WholeSubtree: acl.Subtree, op.Subordinates: acl.Under}

// NarrowingText returns a text that identifies the tests that Narrow adds to searches. Two
// requesters with the same text get the same test for the same search, unless the text is "".
// The text is "" for a requester whose searches get no tests, and for a requester who can see
// no entry.
func (j *Judge) NarrowingText() string {
	if j.program == nil || j.SeesAll() {
		return ""
	}
	return j.program.NarrowingText()
}

// Decider returns a function that makes decisions for filters. Filters cannot return errors,
// so callers must call Failure after they have used a filter.
func (j *Judge) Decider(ctx context.Context) acl.Decider {
	return func(name dn.DN, src filter.Source) *acl.Decision {
		s, ok := src.(*filter.EntrySource)
		if !ok {
			return nil
		}
		d, err := j.Decide(ctx, name, s.Entry, src)
		if err != nil {
			j.failed = err
		}
		return d
	}
}

// Failure returns the error of a filter that could not decide.
func (j *Judge) Failure() error { return j.failed }

// Fail records why a filter could not decide.
func (j *Judge) Fail(err error) { j.failed = err }

// NeededTypes returns the types that decisions need. A search must read these types even from an
// entry with very many values.
func (j *Judge) NeededTypes() []*schema.AttributeType {
	if j.ReadsAll() || j.program == nil {
		return nil
	}
	return j.types()
}

// Values returns a function that reports whether the requester has a right on a value of
// an entry.
func (j *Judge) Values(ctx context.Context, at partition.Located, r acl.Rights) (func(t *schema.AttributeType, value []byte) bool, error) {
	if j.ReadsAll() {
		return func(*schema.AttributeType, []byte) bool { return true }, nil
	}
	d, err := j.DecideAt(ctx, at)
	if err != nil {
		return nil, err
	}
	return func(t *schema.AttributeType, value []byte) bool { return d != nil && d.Value(t, "", value, r) }, nil
}

// showsAlways reports whether the requester may be shown all values of the attributes,
// whichever entry has them.
func (j *Judge) showsAlways(attributes []entry.Attribute) bool {
	if j.program == nil || j.past != nil || j.program.Schema() != j.schema {
		return false
	}
	always := j.program.Always()
	return !slices.ContainsFunc(attributes, func(a entry.Attribute) bool { return !always.All(a.Type, acl.Show) })
}

// SortsAll reports whether the requester may search the sort keys in all entries.
func (j *Judge) SortsAll(keys []partition.SortKey) bool {
	if j.ReadsAll() {
		return true
	}
	for i := range keys {
		for _, t := range j.schema.Subtypes(keys[i].Type) {
			if !j.Everywhere().All(t, acl.Search) {
				return false
			}
		}
	}
	return true
}
