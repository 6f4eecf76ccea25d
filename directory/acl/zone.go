package acl

import (
	"encoding/binary"
	"slices"
	"strconv"
	"sync"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// A Zone is the set of all entries to which the same clauses may apply. Whether a clause
// may apply to an entry depends only on the entry's parent, so all children of one parent
// are in one zone.
type Zone struct {
	program *Program
	clauses []zoneClause
	tests   []zoneTest
	// byClasses is set if there are tests that depend only on an entry's object classes.
	byClasses bool

	mu        sync.RWMutex
	decisions map[string]*Decision // the keys are the results of all tests
	// known contains the same decisions under other keys. In these keys, the values of
	// objectClass replace the results of tests of object classes. Many entries have the same
	// values of objectClass. So a lookup in known usually succeeds and saves these tests,
	// for which the values would have to be normalised.
	known map[string]*Decision
}

// A zoneClause is a clause that may apply in a zone. Its formulas contain numbers of
// tests in the zone.
type zoneClause struct {
	rule        *compiled
	who, except formula
	in, notIn   formula
}

// A zoneTest is a test of the program, or a test of the entry's RDN.
type zoneTest struct {
	test test
	rdn  *rdnPattern
	text string
}

// reach says which entries of a zone a target includes, without regard to the target's
// filter.
type reach uint8

const (
	nothing reach = iota
	whole         // every entry
	byRDN         // the entries whose RDN matches the first RDN of the base
)

// Zone returns the zone of the entries directly below a parent.
func (p *Program) Zone(parent dn.DN) (*Zone, error) {
	var room [256]byte
	text := appendName(room[:0], parent)
	p.mu.RLock()
	z := p.parents[string(text)]
	p.mu.RUnlock()
	if z != nil {
		return z, nil
	}
	name, err := parent.Normalize(p.set.schema)
	if err != nil {
		return nil, err
	}
	return p.makeZone(string(text), name), nil
}

// appendName appends to b a text that is equal for names with the same spelling.
func appendName(b []byte, name dn.DN) []byte {
	for _, r := range name {
		for _, a := range r {
			b = append(b, a.Type...)
			b = append(b, '=')
			b = strconv.AppendInt(b, int64(len(a.Value)), 10)
			b = append(b, ':')
			b = append(b, a.Value...)
		}
		b = append(b, ',')
	}
	return b
}

func (p *Program) makeZone(text string, parent []dn.Norm) *Zone {
	reaches := make([]reach, 0, 64)
	for i := range p.clauses {
		for _, list := range [][]bound{p.clauses[i].in, p.clauses[i].notIn} {
			for j := range list {
				reaches = append(reaches, list[j].reach(parent))
			}
		}
	}
	key := signature(reaches)
	p.mu.Lock()
	defer p.mu.Unlock()
	z := p.zones[key]
	if z == nil {
		z = p.newZone(reaches)
		p.zones[key] = z
	}
	if len(p.parents) >= maxParents {
		clear(p.parents)
	}
	p.parents[text] = z
	return z
}

func signature(reaches []reach) string {
	b := make([]byte, len(reaches))
	for i, r := range reaches {
		b[i] = byte(r)
	}
	return string(b)
}

// reach returns the set of children of a parent that the target includes.
func (t *bound) reach(parent []dn.Norm) reach {
	depth, base := len(parent)+1, len(t.base) // depths of the children of parent, and of the base
	above := func() bool {                    // above reports whether the base is the parent or an entry above it
		return base <= len(parent) && t.base.match(parent[len(parent)-base:], nil)
	}
	// itself returns the reach byRDN if the base may be a child of parent, and otherwise the
	// reach nothing.
	itself := func() reach {
		switch {
		case base != depth || base == 0 || !t.base[1:].match(parent, nil):
			return nothing
		}
		return byRDN
	}
	switch t.scope {
	case This, Only:
		return itself()
	case Children:
		if base == len(parent) && above() {
			return whole
		}
	case Under:
		if above() {
			return whole
		}
	case Subtree:
		if above() {
			return whole
		}
		return itself()
	}
	return nothing
}

func (p *Program) newZone(reaches []reach) *Zone {
	z := &Zone{program: p, decisions: map[string]*Decision{}, known: map[string]*Decision{}}
	next := func(n int) (r []reach) {
		r, reaches = reaches[:n], reaches[n:]
		return r
	}
	for i := range p.clauses {
		c := &p.clauses[i]
		in, notIn := z.formula(c.in, next(len(c.in))), z.formula(c.notIn, next(len(c.notIn)))
		if len(in) == 0 || isTrue(notIn) {
			continue
		}
		z.clauses = append(z.clauses, zoneClause{c.rule, z.renumber(c.who), z.renumber(c.except), in, notIn})
	}
	return z
}

// formula returns a formula that is true for the entries of the zone that one of the
// targets includes.
func (z *Zone) formula(targets []bound, reaches []reach) (f formula) {
	for i := range targets {
		t := &targets[i]
		var tests []int
		switch reaches[i] {
		case nothing:
			continue
		case byRDN:
			r := &t.base[0]
			tests = append(tests, z.number(zoneTest{rdn: r, text: "rdn " + r.text()}))
		}
		if t.test >= 0 {
			tests = append(tests, z.programTest(t.test))
		}
		f = append(f, tests)
	}
	return f
}

func (z *Zone) renumber(f formula) formula {
	out := make(formula, len(f))
	for i, tests := range f {
		for _, t := range tests {
			out[i] = append(out[i], z.programTest(t))
		}
	}
	return out
}

func (z *Zone) programTest(n int) int {
	return z.number(zoneTest{test: z.program.tests[n], text: strconv.Itoa(n)})
}

// number returns the number of a test in the zone, and adds the test if necessary.
func (z *Zone) number(t zoneTest) int {
	i := slices.IndexFunc(z.tests, func(o zoneTest) bool { return o.text == t.text })
	if i < 0 {
		i = len(z.tests)
		z.tests = append(z.tests, t)
		z.byClasses = z.byClasses || t.test.ofClasses
	}
	return i
}

// Decide returns the decision about an entry of the zone.
func (z *Zone) Decide(e *Entry) *Decision {
	var room [256]byte
	key := z.appendClasses(z.outcomes(room[:0], e, false), e)
	z.mu.RLock()
	d := z.known[string(key)]
	z.mu.RUnlock()
	if d != nil {
		return d
	}
	outcomes := z.outcomes(nil, e, true)
	z.mu.Lock()
	defer z.mu.Unlock()
	d = z.decisions[string(outcomes)]
	if d == nil {
		d = z.decide(outcomes)
		remember(z.decisions, outcomes, d)
	}
	remember(z.known, key, d)
	return d
}

// maxDecisions is the maximum number of decisions that a zone caches.
const maxDecisions = 4096

func remember(decisions map[string]*Decision, key []byte, d *Decision) {
	if len(decisions) >= maxDecisions {
		clear(decisions)
	}
	decisions[string(key)] = d
}

// outcomes appends to b the result of each test of the zone: 1 for true and 0 for false. If
// all is not set, it leaves out the tests of object classes.
func (z *Zone) outcomes(b []byte, e *Entry, all bool) []byte {
	for i := range z.tests {
		t := &z.tests[i]
		switch {
		case t.test.ofClasses && !all:
		case t.met(e, z.program):
			b = append(b, 1)
		default:
			b = append(b, 0)
		}
	}
	return b
}

// appendClasses appends to b the values of objectClass, if tests of the zone depend on
// them.
func (z *Zone) appendClasses(b []byte, e *Entry) []byte {
	if !z.byClasses {
		return b
	}
	for i := range e.Entry.Attributes {
		a := &e.Entry.Attributes[i]
		if a.Type != z.program.set.classes {
			continue
		}
		for _, v := range a.Values {
			b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
		}
	}
	return b
}

func (t *zoneTest) met(e *Entry, p *Program) bool {
	if t.rdn == nil {
		return t.test.holds(e)
	}
	if len(e.Name) == 0 {
		return false
	}
	n, err := e.Name[0].Normalize(p.set.schema)
	return err == nil && t.rdn.match(n, nil)
}

// decide computes the decision from the results of the tests.
func (z *Zone) decide(outcomes []byte) *Decision {
	d := &Decision{program: z.program}
	for i := range z.clauses {
		c := &z.clauses[i]
		if c.holds(outcomes) {
			d.rules = append(d.rules, c.rule)
		}
	}
	d.decide()
	return d
}

func (c *zoneClause) holds(outcomes []byte) bool {
	return c.who.met(outcomes) && !c.except.met(outcomes) && c.in.met(outcomes) && !c.notIn.met(outcomes)
}

// met reports whether the formula is true for the results of its tests.
func (f formula) met(outcomes []byte) bool {
	return slices.ContainsFunc(f, func(tests []int) bool {
		return !slices.ContainsFunc(tests, func(t int) bool { return outcomes[t] == 0 })
	})
}

// isTrue reports whether the formula is true for all results of its tests.
func isTrue(f formula) bool {
	return slices.ContainsFunc(f, func(tests []int) bool { return len(tests) == 0 })
}
