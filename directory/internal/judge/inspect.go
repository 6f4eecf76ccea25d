package judge

import (
	"context"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// An Inspection says what an identity may do with an entry, and why.
type Inspection struct {
	program  *acl.Program // nil: access rules do not restrict the identity, or the entry is gone
	zone     *acl.Zone
	asked    access.Entry
	entry    *acl.Entry
	decision *acl.Decision
}

// Inspect is [Judge.DecideAt] with reasons. It also works for an identity whom rules do not
// restrict.
func Inspect(ctx context.Context, j *Judge, at partition.Located) (*Inspection, error) {
	switch {
	case j.unrestricted:
		return &Inspection{decision: acl.Everything}, nil
	case j.program == nil:
		return nil, errNoRules
	case j.program.Schema() != j.schema:
		return nil, errRules
	}
	e, err := j.state.Some(ctx, at.ID, j.program.Types())
	if err != nil || e == nil {
		return &Inspection{decision: acl.Nothing}, err
	}
	name, err := at.Name.DN()
	if err != nil {
		return nil, err
	}
	x := &Inspection{program: j.program}
	if x.zone, err = j.program.Zone(name.Parent()); err != nil {
		return nil, err
	}
	x.entry = x.asked.Set(ctx, j.state, name, e, &filter.EntrySource{Schema: j.schema, Entry: e, Name: name})
	x.decision = x.zone.Decide(x.entry)
	return x, x.asked.Err()
}

// Entry reports whether the identity has a right on the entry.
func (x *Inspection) Entry(r acl.Rights) bool { return x.decision.Entry(r) }

// Attribute reports whether the identity has a right on all values of a description. Nobody
// has the right to write an attribute that only the server writes. To write the access rules
// at an entry, the identity needs the right to manage the entry.
func (x *Inspection) Attribute(t *schema.AttributeType, options string, r acl.Rights) bool {
	return x.writable(t, r) && (x.above() || x.decision.Description(t, options, r))
}

// The method "above" reports whether access rules do not restrict the identity.
func (x *Inspection) above() bool { return x.decision == acl.Everything }

// Some reports whether the identity may have a right on some values of a type.
func (x *Inspection) Some(t *schema.AttributeType, r acl.Rights) bool {
	return x.writable(t, r) && x.decision.Some(t, r)
}

// Value reports whether the identity has a right on one value of a description. It
// returns false if value is nil or the type has no equality rule.
func (x *Inspection) Value(t *schema.AttributeType, options string, value []byte, r acl.Rights) bool {
	return value != nil && x.writable(t, r) && t.Equality != nil && x.decision.Value(t, options, value, r)
}

func (x *Inspection) writable(t *schema.AttributeType, r acl.Rights) bool {
	switch {
	case r&acl.Write == 0:
		return true
	case t.NoUserModification:
		return false
	}
	return t.Name() != "accessRule" || x.decision.Manages()
}

// Reason returns the rules that decide a question, as text.
func (x *Inspection) Reason(q acl.Question) string {
	switch {
	case x.above():
		return "above all rules"
	case x.program == nil:
		return "there is no entry any more"
	}
	a := x.program.Explain(x.zone, x.entry, q)
	switch {
	case a.Allowed:
		return "allowed by " + strings.Join(a.Allow, ", ")
	case len(a.Deny) > 0:
		return "denied by " + strings.Join(a.Deny, ", ")
	case len(a.Allow) > 0:
		return "allowed of some values or options only, by " + strings.Join(a.Allow, ", ")
	}
	return "no rule allows it"
}

// Reasons explains why the identity has or lacks the given rights on a description. It
// returns the reason for the first right that the identity lacks. If the identity has all of
// the rights, Reasons returns the reason for the last right.
func (x *Inspection) Reasons(t *schema.AttributeType, options string, rights acl.Rights) (text string) {
	for _, r := range rights.Each() {
		if text = x.Reason(acl.Question{Right: r, Type: t, Options: options}); !x.decision.Description(t, options, r) {
			break
		}
	}
	return text
}
