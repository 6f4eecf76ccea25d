package acl

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Narrowing is a set of entries in a scope. It contains all those that an identity may see,
// and few others. So a search by the identity needs to look only at the entries of this set.
type Narrowing struct {
	// Filter is True for the entries of the set that are not in Names.
	Filter filter.Resolved
	Names  []dn.DN
}

// A share is a set of entries that a clause may allow the identity to see: the entries of
// a target for which the filter is True. If the filter is nil, the share contains all
// entries of the target.
type share struct {
	target *target
	filter filter.Resolved
}

// maxShares is the largest number of sets that make up a Narrowing. A search looks up each of
// these sets. If there are more sets than maxShares, it is faster to examine the entries that
// the client's own filter selects.
const maxShares = 64

// shares are the shares of all clauses of a program.
type shares struct {
	all  []share
	wide bool   // one of the shares is the whole directory
	text string // see NarrowingText
}

// NarrowingText returns a text. Two programs with the same schema and the same text have the
// same narrowings, unless the text is "". The text is "" if the program has no narrowings,
// and also if no rule lets the identity see any entry.
func (p *Program) NarrowingText() string {
	if s := p.sharesOnce(); !s.wide {
		return s.text
	}
	return ""
}

// Narrow returns the narrowing for the entries in the scope of a base. It returns nil if the
// narrowing would not help, because indexes cannot find its entries, or because it would
// consist of too many sets.
func (p *Program) Narrow(base dn.DN, scope Scope) *Narrowing {
	s := p.sharesOnce()
	if s.wide {
		return nil
	}
	if len(base) == 0 { // the children of the root are the naming contexts
		scope = Subtree
	}
	var room [256]byte
	key := append(appendName(room[:0], base), byte(scope))
	p.mu.RLock()
	n, ok := p.narrowings[string(key)]
	p.mu.RUnlock()
	if ok {
		return n
	}
	norms, err := base.Normalize(p.set.schema)
	if err != nil {
		return nil
	}
	n = s.within(&target{scope: scope, base: literals(norms)})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.narrowings == nil || len(p.narrowings) >= maxParents {
		p.narrowings = map[string]*Narrowing{}
	}
	p.narrowings[string(key)] = n
	return n
}

func literals(norms []dn.Norm) (p pattern) {
	for _, n := range norms {
		p = append(p, rdnPattern{norm: n})
	}
	return p
}

// within returns the narrowing for the entries of a target. It returns nil if this
// narrowing would not help a search.
func (s *shares) within(in *target) *Narrowing {
	n := &Narrowing{}
	var filters []filter.Resolved
	for _, sh := range s.all {
		if sh.target.apart(in) {
			continue
		}
		if len(filters)+len(n.Names) >= maxShares {
			return nil
		}
		if sh.filter != nil {
			filters = append(filters, sh.filter)
			continue
		}
		name := sh.target.only()
		if name == nil {
			return nil
		}
		n.Names = append(n.Names, name)
	}
	n.Filter = filter.MakeOr(filters...)
	return n
}

// The result of only is the name of the entry if the target includes exactly one entry, and
// otherwise nil.
func (t *target) only() dn.DN {
	if t.scope != Only && t.scope != This || t.base.isOpen() {
		return nil
	}
	name, err := dn.Parse(t.name)
	if err != nil || len(name) == 0 {
		return nil
	}
	return name
}

func (p *Program) sharesOnce() *shares {
	p.onceShares.Do(func() { p.shares = p.makeShares() })
	return &p.shares
}

func (p *Program) makeShares() (s shares) {
	var text strings.Builder
	for i := range p.clauses {
		c := &p.clauses[i]
		if c.rule.Rule.Deny || !c.rule.letsSee() {
			continue
		}
		who := p.narrowest(c.who)
		for j := range c.in {
			t := &c.in[j]
			sh := share{target: &t.target, filter: who}
			if t.test >= 0 {
				sh.filter = both(who, p.tests[t.test].within)
			}
			s.wide = s.wide || sh.filter == nil && t.scope == Subtree && len(t.base) == 0
			s.all = append(s.all, sh)
			text.WriteString(scopeWords[t.scope] + " " + t.base.text())
			if sh.filter != nil {
				text.WriteString(" " + sh.filter.String())
			}
			text.WriteByte('\n')
		}
	}
	s.text = text.String()
	return s
}

// letsSee reports whether the rule lets somebody see entries. The rule must not be a deny
// rule.
func (c *compiled) letsSee() bool {
	return slices.ContainsFunc(c.parts, func(p part) bool { return p.withSee(false)&(See|Manage) != 0 })
}

// narrowest returns a filter that is True wherever the formula is true. It returns nil if
// it knows no such filter that indexes can make use of.
func (p *Program) narrowest(f formula) filter.Resolved {
	var any []filter.Resolved
	for _, tests := range f {
		var all filter.Resolved
		for _, t := range tests {
			all = both(all, p.tests[t].within)
		}
		if all == nil {
			return nil
		}
		any = append(any, all)
	}
	return filter.MakeOr(any...)
}

// The function "both" returns the conjunction of two filters. A nil filter is always True.
func both(a, b filter.Resolved) filter.Resolved {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return filter.MakeAnd(a, b)
}

// maxNames is the largest number of values for which anyOf makes a filter.
const maxNames = 16

// isOwn returns a filter that is True for the identity's own entry. It returns nil if the
// identity has no entry.
func (p *Program) isOwn() filter.Resolved {
	id := p.set.schema.Attribute("entryUUID")
	if p.who.Entry == nil || p.who.Entry.ID == entry.Root || id == nil {
		return nil
	}
	return p.anyOf(id, []string{p.who.Entry.ID.String()})
}

// namesOwn returns a filter for a subject that begins with "its". The filter is True for the
// entries whose attribute s.typ names the identity or, if s.Group is set, one of the
// identity's groups. namesOwn returns nil if it knows no such filter.
func (p *Program) namesOwn(s *subject) filter.Resolved {
	names := []dn.DN{p.who.Name}
	if s.Group {
		names = p.who.Groups
	}
	for _, t := range p.set.schema.Subtypes(s.typ) {
		if t.Equality == nil || t.Equality.Name() != "distinguishedNameMatch" {
			return nil // values may contain a bit string beside the name
		}
	}
	values := make([]string, len(names))
	for i, n := range names {
		values[i] = n.String()
	}
	return p.anyOf(s.typ, values)
}

// sharesOwn returns a filter that is True for each entry that has a value of an attribute
// in common with the identity's entry. It returns nil if it knows no such filter.
func (p *Program) sharesOwn(t *schema.AttributeType) filter.Resolved {
	if len(p.set.schema.Subtypes(t)) != 1 {
		return nil // a subtype may have another equality rule
	}
	var values []string
	for v := range p.who.source.Values(t, "") {
		values = append(values, string(v))
	}
	return p.anyOf(t, values)
}

// anyOf returns a filter that is True for the entries that have at least one of the
// values. It returns nil if it knows no such filter.
func (p *Program) anyOf(t *schema.AttributeType, values []string) filter.Resolved {
	if len(values) == 0 || len(values) > maxNames {
		return nil
	}
	var any []filter.Resolved
	for _, v := range values {
		f := filter.Resolve(filter.EqualTo(t.OID, v), p.set.schema)
		if !isNarrow(f) {
			return nil
		}
		any = append(any, f)
	}
	return filter.MakeOr(any...)
}

// narrow returns the filter of a target if indexes can make use of it, and otherwise nil.
func (f *entryFilter) narrow() filter.Resolved {
	if f.asksGroups || !isNarrow(f.filter) {
		return nil
	}
	return f.filter
}

// isNarrow reports whether equality indexes, if there are any, can find the entries that match
// a filter. Tests of object classes do not count, because most classes have very many entries.
func isNarrow(f filter.Resolved) bool {
	switch f := f.(type) {
	case *filter.AndNode:
		return slices.ContainsFunc(f.Parts, isNarrow)
	case *filter.OrNode:
		return !slices.ContainsFunc(f.Parts, func(p filter.Resolved) bool { return !isNarrow(p) })
	case *filter.Test:
		return f.Op == filter.TestEqual && f.ByKey && !f.DNAttrs && len(f.Types) > 0 && f.Types[0].OID != objectClassOID
	}
	return false
}

const objectClassOID = "2.5.4.0"
