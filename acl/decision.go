package acl

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Decision is what an identity may do with an entry. It holds for all entries of
// a zone that meet the same tests, and does not change.
type Decision struct {
	program *Program
	rules   []*compiled // that hold for the entry

	manage  bool
	entry   Rights        // on the entry itself
	general [2]typeRights // of types that no rule names: user and operational ones
	types   map[*schema.AttributeType]*typeRights
}

// typeRights are the rights on values of one attribute type.
type typeRights struct {
	all  Rights // on every value of every description
	some Rights // on some values or descriptions, at most
}

// Everything is the decision for those above rules, Nothing the one without any.
var (
	Everything = &Decision{manage: true, entry: onEntries, general: [2]typeRights{{onAttributes, onAttributes}, {onAttributes, onAttributes}}}
	Nothing    = &Decision{}
)

// decide makes the decision from the rules that hold.
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

// onEntry returns the rights on the entry that rules allow and deny.
func (d *Decision) onEntry() (allow, deny Rights) {
	for _, r := range d.rules {
		for i := range r.parts {
			rights := r.parts[i].rights
			switch {
			case !r.Rule.Deny:
				if rights&onAttributes != 0 {
					rights |= See
				}
				allow |= rights & onEntries
			case r.parts[i].named:
				deny |= rights & onEntries &^ See
			default:
				deny |= rights & onEntries
			}
		}
	}
	return allow, deny
}

// onType returns the rights on values of a type.
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

// balance returns the rights on values that are allowed and denied by rules. An
// administrator has all and minds no denial, except that what is secret is shown
// only as far as a rule names it.
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

// extent reports whether the part is about all values of a type under all
// options, and whether it is about any.
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

// about reports whether descriptions of a type are meant, with some options at
// least.
func (a *attribute) about(t *schema.AttributeType) bool {
	if a.types != nil {
		return a.types[t]
	}
	return a.covers(t, "")
}

// Entry reports whether all of the rights on the entry are there.
func (d *Decision) Entry(r Rights) bool { return d.entry&r == r }

// Manages reports whether the identity is the entry's administrator.
func (d *Decision) Manages() bool { return d.manage }

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

// All reports whether all of the rights are there on every value of a type, under
// any options.
func (d *Decision) All(t *schema.AttributeType, r Rights) bool { return d.of(t).all&r == r }

// Some reports whether all of the rights may be there on some values of a type.
func (d *Decision) Some(t *schema.AttributeType, r Rights) bool { return d.of(t).some&r == r }

// Description reports whether all of the rights are there on every value of a
// description.
func (d *Decision) Description(t *schema.AttributeType, options string, r Rights) bool {
	return d.All(t, r) || d.Some(t, r) && d.rightsOf(&subjectValue{typ: t, options: options, program: d.program})&r == r
}

// Value reports whether all of the rights are there on one value of a description.
func (d *Decision) Value(t *schema.AttributeType, options string, value []byte, r Rights) bool {
	return d.All(t, r) || d.Some(t, r) && d.rightsOf(&subjectValue{typ: t, options: options, value: value, program: d.program})&r == r
}

// Assertion reports whether all of the rights are there on a value that is asserted of
// a description, and so of those with more options too (RFC 4511, 4.1.6).
func (d *Decision) Assertion(t *schema.AttributeType, options string, value []byte, r Rights) bool {
	v := &subjectValue{typ: t, options: options, value: value, program: d.program, more: true}
	return d.All(t, r) || d.Some(t, r) && d.rightsOf(v)&r == r
}

// rightsOf returns the rights on a value; without one, those on all values.
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

// decideAlways makes the decision that holds of every entry: of what rules allow
// here and there nothing, of what they deny all.
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

// isAlways reports whether the clause holds for every entry.
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

// decideReadsAll decides ReadsAll. Types that no rule names and that are not reserved
// are all alike.
func (p *Program) decideReadsAll() bool {
	const read = Show | Search | Compare
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

// ReadsAll reports whether the identity reads every attribute of every entry, except
// those that are secret, and the access rules.
func (p *Program) ReadsAll() bool { return p.readsAll }

// Always is a decision with the rights that the identity has on every entry, at
// least.
func (p *Program) Always() *Decision { return &p.always }

// uses reports whether a rule of the kind names one of the names.
func (p *Program) uses(deny bool, names []string) bool {
	for i := range p.clauses {
		c := &p.clauses[i]
		if c.rule.Rule.Deny != deny || !isTrue(c.who) {
			continue
		}
		for j := range c.rule.parts {
			part := &c.rule.parts[j]
			if listsUse(part.uses, names) && !listsUse(part.usesNot, names) {
				return true
			}
		}
	}
	return false
}

func listsUse(uses, names []string) bool {
	return slices.ContainsFunc(uses, func(u string) bool {
		return u == "*" || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, u) })
	})
}

// MayUse reports whether a control, an extended operation or a matching rule may be
// used: by a name or an OID of it.
func (p *Program) MayUse(names ...string) bool {
	return p.uses(false, names) && !p.uses(true, names)
}
