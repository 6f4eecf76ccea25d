package acl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Placed is a rule with its place: the name of an entry. The rule is about entries at and
// below the place. If the place is empty, the rule is about the whole directory.
type Placed struct {
	Place dn.DN
	Rule  *Rule
}

// Label returns the name of the rule in messages, such as
// "helpdesk@ou=people,dc=example,dc=com".
func (p Placed) Label() string {
	if len(p.Place) == 0 {
		return p.Rule.Name + "@cn=config"
	}
	return p.Rule.Name + "@" + p.Place.String()
}

// A Set is a list of rules that have been checked against a schema. A Set is immutable.
type Set struct {
	schema  *schema.Schema
	classes *schema.AttributeType // the attribute type objectClass
	rules   []*compiled
	// named are the types that some rule names, with their subtypes. A Decision contains
	// separate rights for each of these types.
	named []*schema.AttributeType
	// reserved are the types that a rule grants only if the rule names them.
	reserved []*schema.AttributeType
	asked    map[ConditionKind]bool
	// looksAt are the types whose values are read by tests of entries.
	looksAt  []*schema.AttributeType
	everyone Rights // see Everyone

	mu       sync.Mutex
	programs map[string]*Program
}

// compiled is a rule whose words have been resolved by a schema.
type compiled struct {
	Placed
	place       []dn.Norm
	who, except []term
	parts       []part
	in, notIn   []target
	// secrets are the rights that the rule grants or denies on secrets that it names.
	secrets Rights
}

type term []subject

type subject struct {
	Subject
	name   pattern
	typ    *schema.AttributeType
	filter filter.Resolved
}

type target struct {
	scope  Scope
	base   pattern      // the whole name of the base, not relative to the place
	name   string       // the name of the base as the rule writes it, followed by the place
	filter *entryFilter // nil: no filter
}

// NewSet checks rules against a schema. contexts are the naming contexts, which are
// directly below the root. The error is a *Problem about the first invalid rule.
func NewSet(sch *schema.Schema, contexts []dn.DN, rules []Placed) (*Set, error) {
	s := &Set{schema: sch, classes: sch.Attribute("objectClass"), programs: map[string]*Program{}}
	for _, r := range rules {
		c, err := compile(sch, contexts, r)
		if err != nil {
			return nil, &Problem{Rule: r, Err: err}
		}
		s.rules = append(s.rules, c)
	}
	for _, t := range sch.Attributes() {
		if Reserved(t) {
			s.reserved = append(s.reserved, t)
		}
	}
	s.asked = conditionsOf(s.rules)
	s.collectNamed()
	s.collectLooksAt()
	s.everyone = s.forEveryone()
	return s, nil
}

// A Problem is an error about an invalid rule.
type Problem struct {
	Rule Placed
	Err  error
}

func (p *Problem) Error() string { return fmt.Sprintf("rule %s: %v", p.Rule.Label(), p.Err) }

func (p *Problem) Unwrap() error { return p.Err }

func conditionsOf(rules []*compiled) map[ConditionKind]bool {
	asked := map[ConditionKind]bool{}
	for _, c := range rules {
		for _, cond := range c.Rule.If {
			asked[cond.Kind] = true
		}
	}
	return asked
}

// Asked returns the fields of a connection that the rules depend on, with all other
// fields zero. The time is truncated to the minute.
func (s *Set) Asked(c Connection) (asked Connection) {
	if len(s.asked) == 0 {
		return asked
	}
	if s.asked[Secure] {
		asked.Secure, asked.Local = c.Secure, c.Local
	}
	if s.asked[Local] {
		asked.Local = c.Local
	}
	if s.asked[Proxied] {
		asked.Proxied = c.Proxied
	}
	if s.asked[SSF] {
		asked.SSF = c.SSF
	}
	if s.asked[Address] {
		asked.Address = c.Address
	}
	if s.asked[Mechanism] {
		asked.Mechanism = c.Mechanism
	}
	if s.asked[TimeOfDay] || s.asked[Weekday] {
		asked.Time = c.Time.Truncate(time.Minute)
	}
	return asked
}

// AsksGroups reports whether a rule depends on the groups that an identity is in.
func (s *Set) AsksGroups() bool {
	return s.anySubject(func(sub *subject) bool { return sub.Kind == Group || sub.Group })
}

// Rules returns the rules in the order in which NewSet received them.
func (s *Set) Rules() []Placed {
	all := make([]Placed, len(s.rules))
	for i, c := range s.rules {
		all[i] = c.Placed
	}
	return all
}

// collectNamed sets the types that rules name, including their subtypes.
func (s *Set) collectNamed() {
	seen := map[*schema.AttributeType]bool{}
	for _, c := range s.rules {
		for i := range c.parts {
			for _, list := range [][]attribute{c.parts[i].in, c.parts[i].except} {
				for _, a := range list {
					for t := range a.types {
						if !seen[t] {
							seen[t] = true
							s.named = append(s.named, t)
						}
					}
				}
			}
		}
	}
	slices.SortFunc(s.named, func(a, b *schema.AttributeType) int { return compareText(a.OID, b.OID) })
}

// collectLooksAt sets the types that tests of entries read: objectClass, the types in
// filters of targets, and the types in subjects.
func (s *Set) collectLooksAt() {
	seen := map[*schema.AttributeType]bool{}
	add := func(types []*schema.AttributeType) {
		for _, t := range types {
			if !seen[t] {
				seen[t] = true
				s.looksAt = append(s.looksAt, t)
			}
		}
	}
	add(s.schema.Subtypes(s.classes))
	for _, c := range s.rules {
		for _, t := range slices.Concat(c.in, c.notIn) {
			if t.filter != nil {
				for test := range filter.Tests(t.filter.filter) {
					add(test.Types)
				}
			}
		}
		for _, t := range slices.Concat(c.who, c.except) {
			for _, sub := range t {
				if sub.typ != nil {
					add(s.schema.Subtypes(sub.typ))
				}
			}
		}
	}
}

func compile(sch *schema.Schema, contexts []dn.DN, r Placed) (c *compiled, err error) {
	c = &compiled{Placed: r}
	if c.place, err = r.Place.Normalize(sch); err != nil {
		return nil, err
	}
	k := compiler{schema: sch, place: r.Place, narrowed: r.Rule.In != nil}
	if c.who, err = each(r.Rule.Who.Any, k.term); err != nil {
		return nil, err
	}
	if c.except, err = each(r.Rule.Who.Except, k.term); err != nil {
		return nil, err
	}
	if c.parts, err = each(r.Rule.Parts, k.part); err != nil {
		return nil, err
	}
	for i := range c.parts {
		if len(c.parts[i].secrets()) > 0 {
			c.secrets |= c.parts[i].rights
		}
	}
	what := r.Rule.In
	if what == nil {
		what = &What{Any: []Target{{Scope: Subtree}}}
	}
	if c.in, err = k.targets(what.Any, contexts); err != nil {
		return nil, err
	}
	if c.notIn, err = k.targets(what.Except, contexts); err != nil {
		return nil, err
	}
	return c, c.checkVariables()
}

func each[T, U any](all []T, f func(T) (U, error)) ([]U, error) {
	out := make([]U, len(all))
	for i, v := range all {
		u, err := f(v)
		if err != nil {
			return nil, err
		}
		out[i] = u
	}
	return out, nil
}

// A compiler resolves the words of one rule.
type compiler struct {
	schema   *schema.Schema
	place    dn.DN
	narrowed bool // the rule applies to some entries only
}

func (k compiler) term(t Term) (term, error) { return each(t, k.subject) }

func (k compiler) subject(s Subject) (out subject, err error) {
	out.Subject = s
	if s.Name != "" {
		if out.name, err = parsePattern(s.Name, k.schema); err != nil {
			return out, err
		}
	}
	if s.Filter != nil {
		if out.filter, err = k.filter(s.Filter); err != nil {
			return out, err
		}
	}
	if s.Attribute == "" {
		return out, nil
	}
	if out.typ = k.schema.Attribute(s.Attribute); out.typ == nil {
		return out, fmt.Errorf("the attribute type %s is not known", s.Attribute)
	}
	switch {
	case s.Kind == Same && (out.typ.Equality == nil || out.typ.Secret()):
		return out, fmt.Errorf("values of %s cannot be compared", s.Attribute)
	case s.Kind != Same && !isName(out.typ):
		return out, fmt.Errorf("values of %s are not names", s.Attribute)
	}
	return out, nil
}

// isName reports whether the values of a type are names of entries.
func isName(t *schema.AttributeType) bool {
	if t.Equality == nil {
		return false
	}
	n := t.Equality.Name()
	return n == "distinguishedNameMatch" || n == "uniqueMemberMatch"
}

// filter resolves a filter of identities or of values. It returns an error if the filter tests
// an attribute that is not stored. Such a test would match nothing, so an exception with this
// filter would except nobody.
func (k compiler) filter(f filter.Filter) (filter.Resolved, error) {
	r, err := k.resolve(f)
	if err != nil {
		return nil, err
	}
	for t := range filter.Tests(r) {
		if err := mustBeStored(t, nil); err != nil {
			return nil, fmt.Errorf("the filter %s %w", f, err)
		}
	}
	return r, nil
}

// resolve resolves a filter of a rule. It returns an error if a part of the filter is
// always Undefined.
func (k compiler) resolve(f filter.Filter) (filter.Resolved, error) {
	r := filter.Resolve(f, k.schema)
	if hasUndefined(r) {
		return nil, fmt.Errorf("the filter %s is never true: an attribute type is not known, has no such matching rule or is secret, or a value breaks its syntax", f)
	}
	return r, nil
}

// mustBeStored returns an error unless at least one type that a test is about is stored. A
// type for which served returns true counts as stored.
func mustBeStored(t *filter.Test, served func(*schema.AttributeType) bool) error {
	for _, typ := range t.Types { // a test that names only a matching rule is about many types
		if isStored(typ) || served != nil && served(typ) {
			return nil
		}
	}
	return errors.New("tests an attribute that is computed and that filters here cannot test")
}

// computed contains attributes that no entry stores, so that filters would not match them.
var computed = []string{"memberOf", "isMemberOf", "entryDN", "subschemaSubentry", "hasSubordinates", "numSubordinates", "numAllSubordinates", "accessRule"}

func isStored(t *schema.AttributeType) bool { return !slices.Contains(computed, t.Name()) }

func hasUndefined(f filter.Resolved) bool {
	switch f := f.(type) {
	case filter.Const:
		return filter.Tri(f) == filter.Undefined
	case *filter.NotNode:
		return hasUndefined(f.Part)
	case *filter.AndNode:
		return slices.ContainsFunc(f.Parts, hasUndefined)
	case *filter.OrNode:
		return slices.ContainsFunc(f.Parts, hasUndefined)
	}
	return false
}

// targets resolves the targets of a rule. If a target includes the children of the root, these
// are the naming contexts, even if the names of the contexts have several RDNs.
func (k compiler) targets(all []Target, contexts []dn.DN) (out []target, err error) {
	for _, t := range all {
		one, err := k.target(t)
		if err != nil {
			return nil, err
		}
		if t.Scope != Children || len(one.base) > 0 {
			out = append(out, one)
			continue
		}
		for _, c := range contexts {
			base, err := k.literal(c)
			if err != nil {
				return nil, err
			}
			out = append(out, target{Only, base, c.String(), one.filter})
		}
	}
	return out, nil
}

// literal returns the pattern that matches only the given name.
func (k compiler) literal(name dn.DN) (p pattern, err error) {
	norms, err := name.Normalize(k.schema)
	for _, n := range norms {
		p = append(p, rdnPattern{norm: n})
	}
	return p, err
}

func (k compiler) target(t Target) (out target, err error) {
	out.scope = t.Scope
	if t.Pattern != "" {
		if out.base, err = parsePattern(t.Pattern, k.schema); err != nil {
			return out, err
		}
	}
	place, err := k.literal(k.place)
	if err != nil {
		return out, err
	}
	out.base = append(out.base, place...)
	out.name = strings.Trim(t.Pattern+","+k.place.String(), ",")
	if t.Filter != nil {
		out.filter, err = k.entryFilter(t.Filter)
	}
	return out, err
}

// checkVariables checks the variables of the rule. Each variable in a target must be in
// every term of the subjects. There, it must stand for values that are compared in the same way
// as the values in the target. No exception of the subjects may contain a variable.
func (c *compiled) checkVariables() error {
	for _, t := range c.except {
		for _, s := range t {
			for v := range s.name.variables() {
				return fmt.Errorf("{%s} cannot stand behind except in whom the rule is for", v)
			}
		}
	}
	for _, list := range [][]target{c.in, c.notIn} {
		for _, t := range list {
			for v, form := range t.base.variables() {
				if err := c.checkBound(v, form); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *compiled) checkBound(v string, form *schema.Form) error {
	for _, t := range c.who {
		bound := false
		for _, s := range t {
			f, ok := s.name.variables()[v]
			if ok && f != form {
				return fmt.Errorf("{%s} is in attributes that are not compared alike", v)
			}
			bound = bound || ok
		}
		if !bound {
			return fmt.Errorf("{%s} is undefined: no name of whom the rule is for contains it", v)
		}
	}
	return nil
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
