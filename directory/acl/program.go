package acl

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// An Entry is an entry that a decision is about.
type Entry struct {
	Name   dn.DN
	Entry  *entry.Entry
	Source filter.Source // values of the same entry
	Others Others
}

// Others answers questions about the parent and the groups of the entry that a decision is
// about. The methods cannot return errors. An implementation must keep the errors, so that the
// caller of the decision can ask for them.
type Others interface {
	// Parent returns the parent entry, or nil if there is none.
	Parent() *entry.Entry
	// InGroup reports whether the entry is a member of the group with a name. If the name is nil,
	// InGroup reports whether the entry is a member of any group. If nested is set, members of
	// groups in the group count as members.
	InGroup(group dn.DN, nested bool) bool
}

// A test is a condition of a rule on an entry.
type test struct {
	holds func(e *Entry) bool
	// ofClasses is set if the result depends only on the object classes of the entry.
	ofClasses bool
	// within is a filter that is True for all entries for which the test holds, and that
	// indexes can make use of. It is nil if there is no such filter.
	within filter.Resolved
}

// A formula is a list of conjunctions and is true if one of them is true. A conjunction
// is a list of the numbers of tests in the program. An empty conjunction is true.
type formula [][]int

// A Program contains the rules of a Set for one identity. Everything in them that does not
// depend on an entry has been evaluated. A Program may be used concurrently.
type Program struct {
	set     *Set
	who     *asker
	clauses []clause

	tests []test
	text  []string // the text of each test

	always   Decision // see Always
	readsAll bool

	once  sync.Once // guards the field print
	print string    // see fingerprint

	onceByName sync.Once // guards the field byName
	byName     *Program  // see ByName
	onceShares sync.Once // guards the field shares
	shares     shares    // see Narrow

	mu      sync.RWMutex
	zones   map[string]*Zone // the keys consist of the reach of every target
	parents map[string]*Zone // the keys are the names of parents

	narrowings map[string]*Narrowing // the keys consist of base and scope
}

// maxParents is the maximum number of parents whose zones a program caches.
const maxParents = 4096

// A clause is a rule that may apply to the identity of the program.
type clause struct {
	rule        *compiled
	who, except formula
	in, notIn   []bound
}

// bound is a target whose variables have been replaced by their values.
type bound struct {
	target
	test int // number of the test for the target's filter; -1: the target has no filter
}

// maxPrograms is the maximum number of identities whose programs a set caches.
const maxPrograms = 4096

// Program returns the program for an identity. It caches the program by the identity and
// by the conditions that the connection of the identity meets.
func (s *Set) Program(id *Identity) (*Program, error) {
	key := s.programKey(id)
	s.mu.Lock()
	p := s.programs[key]
	s.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := s.newProgram(id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.programs) >= maxPrograms {
		clear(s.programs)
	}
	s.programs[key] = p
	return p, nil
}

// programKey returns a key of everything that a program depends on. The key contains the
// address of the identity's entry instead of the content. Entries are immutable, and the
// program keeps a reference to the entry, so no other entry can get the same address.
func (s *Set) programKey(id *Identity) string {
	b := fmt.Appendf(nil, "%p", id.Entry)
	b = appendName(b, id.Name)
	for _, g := range id.Groups {
		b = appendName(append(b, '\n'), g)
	}
	b = append(b, '\n')
	for _, r := range s.rules {
		for i := range r.Rule.If {
			met := byte('0')
			if id.holds(&r.Rule.If[i]) {
				met = '1'
			}
			b = append(b, met)
		}
	}
	return string(b)
}

func (s *Set) newProgram(id *Identity) (*Program, error) {
	who, err := newAsker(s.schema, id)
	if err != nil {
		return nil, err
	}
	p := &Program{set: s, who: who, zones: map[string]*Zone{}, parents: map[string]*Zone{}}
	c := &evaluation{p, map[string]int{}}
	for _, r := range s.rules {
		c.add(r)
	}
	p.always = p.decideAlways()
	p.readsAll = p.decideReadsAll()
	return p, nil
}

// Types returns the attribute types whose values decisions depend on.
func (p *Program) Types() []*schema.AttributeType { return p.set.looksAt }

// Name returns the name of the identity, or an empty name for the anonymous identity.
func (p *Program) Name() dn.DN { return p.who.Name }

// Schema returns the schema of the rules.
func (p *Program) Schema() *schema.Schema { return p.set.schema }

// An evaluation evaluates rules for the identity of a program.
type evaluation struct {
	*Program
	texts map[string]int // the numbers of the tests
}

// add adds the clauses of a rule: one clause for each combination of values of the rule's
// variables.
func (c *evaluation) add(r *compiled) {
	for i := range r.Rule.If {
		if !c.who.holds(&r.Rule.If[i]) {
			return
		}
	}
	except := c.formula(r.except)
	if isTrue(except.formula()) {
		return
	}
	for _, who := range c.formula(r.who).byBindings() {
		x := clause{rule: r, who: who.formula, except: except.formula()}
		x.in = c.bind(r.in, who.bindings)
		x.notIn = c.bind(r.notIn, who.bindings)
		c.clauses = append(c.clauses, x)
	}
}

func (c *evaluation) bind(targets []target, b bindings) []bound {
	out := make([]bound, len(targets))
	for i, t := range targets {
		out[i] = bound{target: t, test: -1}
		out[i].base = t.base.bind(b)
		if t.filter != nil {
			out[i].test = c.filterTest(t.filter)
		}
	}
	return out
}

// An alternative is a conjunction of tests, with the values of variables for which the
// conjunction is valid.
type alternative struct {
	tests    []int
	bindings bindings
}

type alternatives []alternative

// formula evaluates the terms for the identity of the program. It returns the
// alternatives under which one of the terms matches.
func (c *evaluation) formula(terms []term) (all alternatives) {
	for _, t := range terms {
		all = append(all, c.term(t)...)
	}
	return all
}

// formula returns the conjunctions of the alternatives without their bindings.
func (as alternatives) formula() formula {
	var f formula
	for _, a := range as {
		f = append(f, a.tests)
	}
	return f
}

// boundFormula is the formula of all alternatives that have the same bindings.
type boundFormula struct {
	formula  formula
	bindings bindings
}

// byBindings groups the alternatives by their bindings.
func (as alternatives) byBindings() (all []boundFormula) {
	for _, a := range as {
		i := slices.IndexFunc(all, func(b boundFormula) bool { return sameBindings(b.bindings, a.bindings) })
		if i < 0 {
			i = len(all)
			all = append(all, boundFormula{bindings: a.bindings})
		}
		all[i].formula = append(all[i].formula, a.tests)
	}
	return all
}

func sameBindings(a, b bindings) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// term evaluates the conjunction of the subjects of a term.
func (c *evaluation) term(t term) alternatives {
	all := alternatives{{}}
	for i := range t {
		var next alternatives
		for _, a := range all {
			for _, b := range c.subject(&t[i]) {
				if both, ok := merge(a.bindings, b.bindings); ok {
					next = append(next, alternative{slices.Concat(a.tests, b.tests), both})
				}
			}
		}
		all = next
	}
	return all
}

var (
	never = alternatives(nil)
	yes   = alternatives{{}}
)

func when(b bool) alternatives {
	if b {
		return yes
	}
	return never
}

// subject evaluates one subject for the identity of the program. The result is one of the
// variables never and yes, or alternatives with values of variables, or a test of the entry.
func (c *evaluation) subject(s *subject) alternatives {
	who := c.who
	switch s.Kind {
	case Everyone:
		return yes
	case Nobody:
		return never
	case Anonymous:
		return when(who.isAnonymous())
	case Users:
		return when(!who.isAnonymous())
	case Named:
		return c.named(s.name, who.name)
	case Below:
		if s.filter != nil && (who.source == nil || s.filter.Match(who.source) != filter.True) {
			return never
		}
		if len(who.name) <= len(s.name) {
			return never
		}
		return c.named(s.name, who.name[len(who.name)-len(s.name):])
	case Group:
		var all alternatives
		for _, g := range who.groups {
			all = append(all, c.named(s.name, g)...)
		}
		return all
	}
	if who.isAnonymous() || s.Group && len(who.groups) == 0 {
		return never
	}
	return c.ofEntry(s)
}

// named compares a name with a pattern. If the name matches, the result is one alternative
// without tests, with the values of the pattern's variables. Otherwise the result is never.
func (c *evaluation) named(pat pattern, name []dn.Norm) alternatives {
	if len(pat) == 0 || len(pat) != len(name) {
		return never
	}
	b := bindings{}
	if !pat.match(name, b) {
		return never
	}
	return alternatives{{bindings: b}}
}

// ofEntry evaluates a subject whose identities depend on the entry.
func (c *evaluation) ofEntry(s *subject) alternatives {
	p := c.Program // the tests keep the program, and not the evaluation
	var t test
	switch s.Kind {
	case Self:
		t = test{holds: p.isSelf, within: p.isOwn()}
	case Its:
		t = test{holds: func(e *Entry) bool { return p.names(e.Source, s) }, within: p.namesOwn(s)}
	case ItsParent:
		t.holds = func(e *Entry) bool { return p.isParent(e, s.Group) }
	case ItsParents:
		t.holds = func(e *Entry) bool { return p.parentNames(e, s) }
	case ItsSuperior:
		t.holds = p.isBelowSelf
	case Same:
		own := p.ownKeys(s.typ)
		if own == nil {
			return never
		}
		return alternatives{{tests: []int{c.test(fmt.Sprintf("%s %q", s.String(), own), test{holds: p.sharesValue(s.typ, own), within: p.sharesOwn(s.typ)})}}}
	}
	return alternatives{{tests: []int{c.test(s.String(), t)}}}
}

// test returns the number of a test. Tests with the same text have the same number.
func (c *evaluation) test(text string, t test) int {
	n, ok := c.texts[text]
	if !ok {
		n = len(c.tests)
		c.texts[text] = n
		c.tests, c.text = append(c.tests, t), append(c.text, text)
	}
	return n
}

func (c *evaluation) filterTest(f *entryFilter) int {
	return c.test("filter "+f.String(), test{f.holds, f.ofClasses, f.narrow()})
}

func (p *Program) isSelf(e *Entry) bool {
	if p.who.Entry != nil {
		return e.Entry.ID == p.who.Entry.ID
	}
	if len(e.Name) != len(p.who.name) {
		return false
	}
	n, err := e.Name.Normalize(p.set.schema)
	return err == nil && slices.Equal(n, p.who.name)
}

func (p *Program) isBelowSelf(e *Entry) bool {
	above := len(e.Name) - len(p.who.name)
	if above <= 0 {
		return false
	}
	n, err := e.Name[above:].Normalize(p.set.schema)
	return err == nil && slices.Equal(n, p.who.name)
}

func (p *Program) isParent(e *Entry, group bool) bool {
	if len(e.Name) < 2 {
		return false
	}
	n, err := e.Name.Parent().Normalize(p.set.schema)
	if err != nil {
		return false
	}
	if group {
		return p.who.inGroup(string(dn.Key(n)))
	}
	return slices.Equal(n, p.who.name)
}

func (p *Program) parentNames(e *Entry, s *subject) bool {
	if e.Others == nil {
		return false
	}
	parent := e.Others.Parent()
	if parent == nil {
		return false
	}
	return p.names(&filter.EntrySource{Schema: p.set.schema, Entry: parent}, s)
}

// names reports whether an attribute of the entry names the identity, or names a group
// that the identity is in.
func (p *Program) names(e filter.Source, s *subject) bool {
	for _, t := range p.set.schema.Subtypes(s.typ) {
		for k := range e.Keys(t, "") {
			if s.Group && p.who.inGroup(string(withoutUID(t, k))) || !s.Group && p.isOwnName(t, k) {
				return true
			}
		}
	}
	return false
}

// isOwnName reports whether key is the key of the identity's name.
func (p *Program) isOwnName(t *schema.AttributeType, key []byte) bool {
	return !p.who.isAnonymous() && bytes.Equal(withoutUID(t, key), dn.Key(p.who.name))
}

// withoutUID removes the bit string from the key of a value of the syntax Name and
// Optional UID.
func withoutUID(t *schema.AttributeType, key []byte) []byte {
	if t.Equality.Name() != "uniqueMemberMatch" || len(key) == 0 {
		return key
	}
	return schema.NameOfUID(key)
}

// ownKeys returns the keys of the attribute's values in the identity's entry.
func (p *Program) ownKeys(t *schema.AttributeType) (own [][]byte) {
	if p.who.source == nil {
		return nil
	}
	for _, sub := range p.set.schema.Subtypes(t) {
		for k := range p.who.source.Keys(sub, "") {
			own = append(own, bytes.Clone(k))
		}
	}
	return own
}

// sharesValue returns a function that reports whether an entry and the identity's entry have a
// common value of the attribute. The parameter own contains the keys of the values in the
// identity's entry.
func (p *Program) sharesValue(t *schema.AttributeType, own [][]byte) func(*Entry) bool {
	types := p.set.schema.Subtypes(t)
	return func(e *Entry) bool {
		for _, sub := range types {
			for k := range e.Source.Keys(sub, "") {
				if slices.ContainsFunc(own, func(o []byte) bool { return bytes.Equal(o, k) }) {
					return true
				}
			}
		}
		return false
	}
}
