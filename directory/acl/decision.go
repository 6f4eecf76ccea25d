package acl

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Decision contains everything that an identity may do with an entry. Two entries of a
// zone share a Decision if every test of the program has the same result for both. A
// Decision is immutable.
type Decision struct {
	program *Program
	rules   []*compiled // the rules that apply to the entry

	manage bool
	entry  Rights // the rights on the entry itself
	// The rights on types that are not reserved and that no rule names: general[0] on user
	// types, general[1] on operational types.
	general [2]typeRights
	types   map[*schema.AttributeType]*typeRights

	also *Decision // nil, or a second Decision that must grant every right too; see Both
}

// Both returns a decision with the rights that both a and b contain. The decisions may follow
// from different entries, rules and schemas. Callers must pass types of a's schema to the
// methods of the result.
func Both(a, b *Decision) *Decision {
	both := *a
	both.also = b
	return &both
}

// The method "own" returns the type of the decision's schema that corresponds to a type of
// another schema.
func (d *Decision) own(t *schema.AttributeType) *schema.AttributeType {
	if d.program != nil {
		if own := d.program.set.schema.Attribute(t.OID); own != nil {
			return own
		}
	}
	return t
}

// typeRights contains the rights on the values of one attribute type.
type typeRights struct {
	all  Rights // the rights on every value of every description
	some Rights // the rights on at least some values or descriptions
}

// Everything is the decision for requesters that access rules do not restrict. Nothing is
// the decision that grants no rights.
var (
	Everything = &Decision{manage: true, entry: onEntries, general: [2]typeRights{{onAttributes, onAttributes}, {onAttributes, onAttributes}}}
	Nothing    = &Decision{}
)

// decide computes the rights of d from the rules of d.
func (d *Decision) decide() {
	allow, deny := d.onEntry()
	d.manage = allow&Manage != 0 && deny&Manage == 0
	if d.manage {
		d.entry = onEntries
	} else {
		d.entry = allow &^ deny
	}
	d.types = make(map[*schema.AttributeType]*typeRights, len(d.program.set.named))
	for _, t := range d.program.set.named {
		r := d.onType(t)
		d.types[t] = &r
	}
	d.general[0] = d.onType(&schema.AttributeType{})
	d.general[1] = d.onType(&schema.AttributeType{Usage: schema.DirectoryOperation})
}

// onEntry returns the rights that rules allow on the entry, and the rights that rules deny on
// the entry.
func (d *Decision) onEntry() (allow, deny Rights) {
	for _, r := range d.rules {
		for i := range r.parts {
			rights := r.parts[i].withSee(r.Rule.Deny) & onEntries
			if r.Rule.Deny {
				deny |= rights
			} else {
				allow |= rights
			}
		}
	}
	return allow, deny
}

// withSee returns the rights that the part grants or denies. A part that grants a right
// on attributes also grants the right to see the entry. A part that denies rights on
// named attributes does not deny the right to see the entry.
func (p *part) withSee(deny bool) Rights {
	switch {
	case !deny && p.rights&onAttributes != 0:
		return p.rights | See
	case deny && p.named:
		return p.rights &^ See
	}
	return p.rights
}

// onType returns the rights on values of the type t.
func (d *Decision) onType(t *schema.AttributeType) typeRights {
	var allowAll, allowSome, denyAll, denySome Rights
	for _, r := range d.rules {
		for i := range r.parts {
			p := &r.parts[i]
			all, some := p.extent(t)
			switch {
			case r.Rule.Deny:
				denyAll |= only(all, p.rights)
				denySome |= only(some, p.rights)
			default:
				allowAll |= only(all, p.rights)
				allowSome |= only(some, p.rights)
			}
		}
	}
	return typeRights{all: d.balance(t, allowAll, denySome), some: d.balance(t, allowSome, denyAll)}
}

// balance returns the rights on values, given the rights that rules allow and deny. An
// administrator has all rights on values, even rights that rules deny. There is one exception:
// on secrets, an administrator has the rights show and search only if a rule allows them.
func (d *Decision) balance(t *schema.AttributeType, allow, deny Rights) Rights {
	switch {
	case !d.manage:
		return onAttributes & allow &^ deny
	case t.Secret():
		return onAttributes&allow | Insert | Remove | Compare
	}
	return onAttributes
}

func only(b bool, r Rights) Rights {
	if b {
		return r
	}
	return 0
}

// extent returns two results. The result all reports whether the part includes all values of
// the type under all options. The result some reports whether the part includes at least some
// values of the type.
func (p *part) extent(t *schema.AttributeType) (all, some bool) {
	for i := range p.in {
		a := &p.in[i]
		some = some || a.about(t)
		all = all || a.about(t) && !a.partly(t)
	}
	for i := range p.except {
		a := &p.except[i]
		all = all && !a.about(t)
		some = some && !(a.about(t) && !a.partly(t))
	}
	return all, some
}

// The method "about" reports whether the attribute includes descriptions of type t, perhaps only
// descriptions with certain options.
func (a *attribute) about(t *schema.AttributeType) bool {
	if a.types != nil {
		return a.types[t]
	}
	return a.covers(t, "")
}

// Entry reports whether the identity has all rights of r on the entry.
func (d *Decision) Entry(r Rights) bool {
	return d.entry&r == r && (d.also == nil || d.also.Entry(r))
}

// Manages reports whether the identity is an administrator of the entry.
func (d *Decision) Manages() bool { return d.manage && (d.also == nil || d.also.Manages()) }

func (d *Decision) of(t *schema.AttributeType) typeRights {
	if r := d.types[t]; r != nil {
		return *r
	}
	switch {
	case Reserved(t):
		rights := d.balance(t, 0, 0)
		return typeRights{rights, rights}
	case t.Operational():
		return d.general[1]
	}
	return d.general[0]
}

// All reports whether the identity has all rights of r on every value of the type, under
// any options.
func (d *Decision) All(t *schema.AttributeType, r Rights) bool {
	return d.of(t).all&r == r && (d.also == nil || d.also.All(d.also.own(t), r))
}

// Some returns false only if there is certainly no value of the type on which the
// identity has all rights of r.
func (d *Decision) Some(t *schema.AttributeType, r Rights) bool {
	return d.of(t).some&r == r && (d.also == nil || d.also.Some(d.also.own(t), r))
}

// Description reports whether the identity has all rights of r on every value of an
// attribute description.
func (d *Decision) Description(t *schema.AttributeType, options string, r Rights) bool {
	return d.has(&subjectValue{typ: t, options: options, program: d.program}, r)
}

// Value reports whether the identity has all rights of r on one value of an attribute
// description.
func (d *Decision) Value(t *schema.AttributeType, options string, value []byte, r Rights) bool {
	return d.has(&subjectValue{typ: t, options: options, value: value, program: d.program}, r)
}

// Assertion reports whether the identity has all rights of r on an asserted value. The
// assertion is about values of the description, and about values of descriptions with
// further options (RFC 4511, 4.1.6).
func (d *Decision) Assertion(t *schema.AttributeType, options string, value []byte, r Rights) bool {
	return d.has(&subjectValue{typ: t, options: options, value: value, program: d.program, more: true}, r)
}

// The method "has" reports whether the identity has all rights of r on the value of v, or on all
// values if v has no value.
func (d *Decision) has(v *subjectValue, r Rights) bool {
	here := d.of(v.typ)
	if here.all&r != r && (here.some&r != r || d.rightsOf(v)&r != r) {
		return false
	}
	if d.also == nil {
		return true
	}
	there := *v
	there.typ, there.program = d.also.own(v.typ), d.also.program
	return d.also.has(&there, r)
}

// rightsOf returns the rights on the value of v. If v has no value, rightsOf returns the
// rights that the identity has on all values.
func (d *Decision) rightsOf(v *subjectValue) Rights {
	var allow, deny Rights
	for _, r := range d.rules {
		for i := range r.parts {
			p := &r.parts[i]
			switch {
			case r.Rule.Deny && p.mayCover(v):
				deny |= p.rights
			case !r.Rule.Deny && p.covers(v):
				allow |= p.rights
			}
		}
	}
	return d.balance(v.typ, allow, deny)
}

// decideAlways computes a decision that contains a right only if the identity has the right on
// every entry. It considers the allow rules that apply to every entry, and all deny rules.
func (p *Program) decideAlways() Decision {
	d := Decision{program: p}
	for i := range p.clauses {
		c := &p.clauses[i]
		if c.rule.Rule.Deny || c.isAlways() {
			d.rules = append(d.rules, c.rule)
		}
	}
	d.decide()
	return d
}

// isAlways reports whether the clause applies to every entry.
func (c *clause) isAlways() bool {
	if !isTrue(c.who) || len(c.except) > 0 || len(c.notIn) > 0 {
		return false
	}
	for i := range c.in {
		t := &c.in[i]
		if t.scope == Subtree && len(t.base) == 0 && t.test < 0 {
			return true
		}
	}
	return false
}

// decideReadsAll computes the result of ReadsAll. All types that are not reserved and
// that no rule names have the same rights: the general rights.
func (p *Program) decideReadsAll() bool {
	const read = Show | Search | Compare
	if p.Secrets()&read != 0 {
		return false // what it reads of secrets depends on the entry
	}
	for _, general := range p.always.general {
		if general.all&read != read {
			return false
		}
	}
	unread := func(t *schema.AttributeType) bool {
		return !t.Secret() && !isRules(t) && !p.always.All(t, read)
	}
	return p.always.Entry(See) && !slices.ContainsFunc(p.set.named, unread) && !slices.ContainsFunc(p.set.reserved, unread)
}

// ReadsAll returns true only if the identity may read every attribute of every entry, except
// the access rules and secrets, and no secret of any entry.
func (p *Program) ReadsAll() bool { return p.readsAll }

// Secrets returns the rights that the identity may have on secrets of some entry. It returns a right
// also if a denial takes it away everywhere.
func (p *Program) Secrets() (r Rights) {
	for i := range p.clauses {
		if rule := p.clauses[i].rule; !rule.Rule.Deny {
			r |= rule.secrets
		}
	}
	return r
}

// Always returns a decision that contains only rights that the identity has on every entry.
func (p *Program) Always() *Decision { return &p.always }

// uses reports whether a rule contains the right to use any of the names. If deny is set,
// it considers the deny rules, and otherwise the allow rules.
func (p *Program) uses(deny bool, names []string) bool {
	for i := range p.clauses {
		c := &p.clauses[i]
		if c.rule.Rule.Deny != deny || !isTrue(c.who) {
			continue
		}
		for j := range c.rule.parts {
			if c.rule.parts[j].use(names) {
				return true
			}
		}
	}
	return false
}

// use reports whether the part contains the right to use one of the names. If the part excepts
// any of the names, use returns false.
func (p *part) use(names []string) bool {
	return listsUse(p.uses, names) && !listsUse(p.usesNot, names)
}

func listsUse(uses, names []string) bool {
	return slices.ContainsFunc(uses, func(u string) bool {
		return u == "*" || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, u) })
	})
}

// MayUse reports whether the identity may use a control, an extended operation or a
// matching rule that has the given names and OIDs.
func (p *Program) MayUse(names ...string) bool {
	return p.uses(false, names) && !p.uses(true, names)
}
