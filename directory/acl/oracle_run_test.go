package acl_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

var (
	oracleCases = flag.Int("oracle", 3000, "how many random cases TestOracle runs")
	oracleSeed  = flag.Uint64("oracle-seed", 1, "the seed of the first of them")
)

// A trial is one random case: rules, a tree, an identity, and the entry of the tree that
// most questions are about.
type trial struct {
	seed  uint64
	rules []acl.Placed
	tree  []*node
	id    *acl.Identity
	asked *node
}

func newTrial(seed uint64) *trial {
	g := generator{rand.New(rand.NewPCG(seed, 1))}
	c := &trial{seed: seed, tree: g.tree()}
	c.id = g.identity(c.tree)
	c.rules = g.rules()
	c.asked = pick(g, c.tree)
	return c
}

// TestOracle compares the decisions of package acl with the decisions of the oracle,
// which follows the documentation.
func TestOracle(t *testing.T) {
	allowed, questions, narrowed := 0, 0, 0
	for i := range *oracleCases {
		c := newTrial(*oracleSeed + uint64(i))
		r := c.run()
		if r.difference != "" {
			r = c.shrink().run()
			t.Fatalf("seed %d\n%s%s", c.seed, c, r.difference)
		}
		allowed, questions, narrowed = allowed+r.allowed, questions+r.questions, narrowed+r.narrowed
	}
	t.Logf("%d cases, %d questions, %d answered yes, %d entries in narrowings", *oracleCases, questions, allowed, narrowed)
	if narrowed < *oracleCases/20 {
		t.Errorf("%d entries were found in narrowings: the cases mean little", narrowed)
	}
	if allowed*20 < questions || allowed*20 > questions*19 {
		t.Errorf("of %d questions %d are answered yes: the cases mean little", questions, allowed)
	}
}

func (c *trial) String() string {
	var b strings.Builder
	for _, r := range c.rules {
		fmt.Fprintf(&b, "rule     %s\n", r)
	}
	fmt.Fprintf(&b, "identity %q groups %q %+v\n", c.id.Name, c.id.Groups, c.id.Connection)
	for what, e := range map[string]*entry.Entry{"own": c.id.Entry, "entry": c.asked.entry, "parent": c.asked.parent} {
		fmt.Fprintf(&b, "%-8s", what)
		if e != nil {
			for _, a := range e.Attributes {
				fmt.Fprintf(&b, " %s=%q", a.Description(), a.Values)
			}
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "named    %s\n", c.asked.name)
	return b.String()
}

// shrink removes rules and pieces of rules as long as a difference remains.
func (c *trial) shrink() *trial {
	for again := true; again; {
		again = false
		for _, smaller := range c.smaller() {
			s := *c
			s.rules = smaller
			if s.run().difference != "" {
				c.rules, again = smaller, true
				break
			}
		}
	}
	return c
}

// smaller returns variants of the rules. In each variant, one rule or a part of one rule is
// missing.
func (c *trial) smaller() (all [][]acl.Placed) {
	for i := range c.rules {
		all = append(all, slices.Delete(slices.Clone(c.rules), i, i+1))
	}
	for i, p := range c.rules {
		for _, r := range pieces(p.Rule) {
			rules := slices.Clone(c.rules)
			rules[i].Rule = r
			if _, err := acl.NewSet(core, contexts, rules); err == nil {
				all = append(all, rules)
			}
		}
	}
	return all
}

// pieces returns variants of the rule. In each variant, a part of the rule is missing.
func pieces(r *acl.Rule) (all []*acl.Rule) {
	change := func(f func(*acl.Rule)) {
		s := *r
		s.Parts = slices.Clone(r.Parts)
		if f(&s); s.String() != r.String() && len(s.Parts) > 0 && len(s.Who.Any) > 0 {
			all = append(all, &s)
		}
	}
	change(func(s *acl.Rule) { s.In = nil })
	change(func(s *acl.Rule) { s.If = nil })
	change(func(s *acl.Rule) { s.Why = "" })
	change(func(s *acl.Rule) { s.Who.Except = nil })
	change(func(s *acl.Rule) { s.Who.Any = s.Who.Any[1:] })
	change(func(s *acl.Rule) { s.Who.Any = s.Who.Any[:1] })
	if r.In != nil {
		change(func(s *acl.Rule) { s.In = &acl.What{Any: s.In.Any} })
		change(func(s *acl.Rule) { s.In = &acl.What{Any: s.In.Any[:1], Except: s.In.Except} })
	}
	for i := range r.Parts {
		change(func(s *acl.Rule) { s.Parts = slices.Delete(s.Parts, i, i+1) })
		change(func(s *acl.Rule) { s.Parts[i].Except = nil })
		for j := range r.Parts[i].Attributes {
			change(func(s *acl.Rule) { s.Parts[i].Attributes = slices.Delete(slices.Clone(s.Parts[i].Attributes), j, j+1) })
		}
	}
	return all
}

// A result contains the number of questions in a trial, the number of positive answers,
// and the first difference.
type result struct {
	questions, allowed int
	narrowed           int // entries that were found in a narrowing
	difference         string
}

// The method "same" counts a question. If the answer is outside the range from least to most, it
// records the difference, unless the result already contains one.
func (r *result) same(got bool, least, most bool, format string, args ...any) {
	r.questions++
	if got {
		r.allowed++
	}
	if r.difference == "" && (least && !got || got && !most) {
		r.difference = fmt.Sprintf("%s: %t, and by the text %t\n", fmt.Sprintf(format, args...), got, !got)
	}
}

// run puts the questions of a trial to the implementation and to the oracle.
func (c *trial) run() (r result) {
	set, err := acl.NewSet(core, contexts, c.rules)
	if err != nil {
		return result{difference: err.Error()}
	}
	p, err := set.Program(c.id)
	if err != nil {
		return result{difference: err.Error()}
	}
	o := &oracle{rules: c.rules, contexts: contexts, id: c.id}
	j := o.at(c.asked)
	g := generator{rand.New(rand.NewPCG(c.seed, 2))}
	// First ask about other entries, which may share a zone or decision with c.asked.
	for range 2 {
		c.askEntry(p, o, pick(g, c.tree), &r)
	}
	c.askEntry(p, o, c.asked, &r)
	for _, right := range acl.EntryRights.Each() {
		want := o.at(c.asked).entryRight(right)
		r.same(set.Everyone()&right != 0, false, want, "everyone: %s", right)
	}
	for range 8 {
		c.askValues(p, j, g, &r)
	}
	for range 4 {
		c.askNarrowing(p, o, g, &r)
	}
	for range 4 {
		c.askFilter(p, j, g, &r)
	}
	named := &oracle{rules: c.rules, contexts: contexts, id: c.id, byName: true}
	c.askEntry(p.ByName(), named, c.asked, &r)
	for range 2 {
		c.askValues(p.ByName(), named.at(c.asked), g, &r)
	}
	c.askFilter(p.ByName(), named.at(c.asked), g, &r)
	names := some(g, 2, func() string { return pick(g, useNames) })
	j = o.at(nil)
	r.same(p.MayUse(names...), j.mayUse(names), j.mayUse(names), "use %s", names)
	return r
}

// decide returns the decision of the implementation about an entry of the tree.
func (c *trial) decide(p *acl.Program, n *node) (*acl.Zone, *acl.Entry, *acl.Decision) {
	z, err := p.Zone(n.name.Parent())
	if err != nil {
		panic(err)
	}
	e := &acl.Entry{Name: n.name, Entry: n.entry, Source: n.source(), Others: around{n}}
	return z, e, z.Decide(e)
}

// around answers questions about the parent and the groups of an entry of the tree.
type around struct{ *node }

func (a around) Parent() *entry.Entry { return a.parent }

// InGroup searches upwards, from the entry to the groups that name the entry. If nested is
// set, the search continues with the groups that name those groups.
func (a around) InGroup(group dn.DN, nested bool) bool {
	found, next := map[*node]bool{}, []*node{a.node}
	for len(next) > 0 {
		member := next[0]
		next = next[1:]
		for _, g := range a.tree {
			if found[g] || !g.names(member.name) {
				continue
			}
			found[g] = true
			if nested {
				next = append(next, g)
			}
		}
	}
	for g := range found {
		if group == nil || sameName(g.name, group) {
			return true
		}
	}
	return false
}

// names reports whether the attribute member of the entry contains a name.
func (n *node) names(member dn.DN) bool {
	for _, v := range n.entry.Values(core.Attribute("member")) {
		if d, err := dn.Parse(string(v)); err == nil && sameName(d, member) {
			return true
		}
	}
	return false
}

func (c *trial) askEntry(p *acl.Program, o *oracle, n *node, r *result) {
	j := o.at(n)
	z, e, d := c.decide(p, n)
	for _, right := range acl.EntryRights.Each() {
		want := j.entryRight(right)
		r.same(d.Entry(right), want, want, "%s of %s", right, n.name)
		r.same(p.Explain(z, e, acl.Question{Right: right}).Allowed, want, want, "explained: %s of %s", right, n.name)
		r.same(p.Always().Entry(right), false, want, "always: %s", right)
	}
	r.same(d.Manages(), j.manages(), j.manages(), "administrator of %s", n.name)
	visible, want := acl.Visible(p.Types(), c.decider(p)).Match(n.source()) == filter.True, j.entryRight(acl.See)
	r.same(visible, want, want, "%s visible", n.name)
}

// askNarrowing checks that the narrowing for a scope has all entries of the scope that the
// identity sees.
func (c *trial) askNarrowing(p *acl.Program, o *oracle, g generator, r *result) {
	base := pick(g, c.tree).name
	scope := pick(g, []acl.Scope{acl.Subtree, acl.Children, acl.Under})
	if g.oneIn(4) {
		base, scope = nil, acl.Subtree
	}
	narrow := p.Narrow(base, scope)
	if narrow == nil {
		return
	}
	for _, n := range c.tree {
		below := len(n.name) - len(base)
		if below < 0 || !sameName(n.name[below:], base) || below == 0 && scope != acl.Subtree || below != 1 && scope == acl.Children || !o.at(n).entryRight(acl.See) {
			continue
		}
		named := slices.ContainsFunc(narrow.Names, func(d dn.DN) bool { return sameName(d, n.name) })
		// The entryUUID of an entry of the tree is not its id: rules test the entryUUID,
		// and narrowings test the id.
		found := slices.ContainsFunc([]filter.Source{n.source(), n.withID(false), n.withID(true)}, func(s filter.Source) bool { return narrow.Filter.Match(s) == filter.True })
		r.narrowed++
		r.same(named || found, true, true, "%s in what is seen below %q: %s %q", n.name, base, narrow.Filter, narrow.Names)
	}
}

// withID returns the source of the entry with the id as the value of entryUUID, as in every
// stored entry. If also is set, the source keeps the entry's own value beside the id.
func (n *node) withID(also bool) *filter.EntrySource {
	e := &entry.Entry{ID: n.entry.ID}
	t := core.Attribute("entryUUID")
	for _, a := range n.entry.Attributes {
		if a.Type != t || also {
			e.Attributes = append(e.Attributes, a)
		}
	}
	e.Attributes = append(e.Attributes, entry.Attribute{Type: t, Values: [][]byte{[]byte(e.ID.String())}})
	return &filter.EntrySource{Schema: core, Entry: e, Name: n.name}
}

// question returns an attribute type and a right. The type and the right usually occur in
// a rule of the trial.
func (c *trial) question(g generator) (*schema.AttributeType, acl.Rights) {
	t, rights := core.Attribute(pick(g, allTypes)), acl.AttributeRights
	if len(c.rules) > 0 && !g.oneIn(3) {
		p := pick(g, pick(g, c.rules).Rule.Parts)
		if r := p.Rights & acl.AttributeRights; r != 0 {
			rights = r
		}
		name, _, _ := strings.Cut(pick(g, listed(&p)).Description, ";")
		if named := core.Attribute(name); named != nil {
			t = named
		}
	}
	return t, pick(g, rights.Each())
}

func (c *trial) askValues(p *acl.Program, j *judge, g generator, r *result) {
	t, right := c.question(g)
	options := pick(g, optionSets)
	z, e, d := c.decide(p, c.asked)
	every, everywhere, somewhere := true, true, false
	for _, opts := range optionSets {
		for _, b := range vocabularies[t] {
			v := value{t, opts, b}
			want := j.valueRight(right, v)
			r.same(d.Value(t, opts, b, right), want, want, "%s %s%s=%s", right, t.Name(), opts, b)
			everywhere, somewhere = everywhere && want, somewhere || want
			every = every && (want || opts != options)
		}
	}
	v := pick(g, vocabularies[t])
	want := j.valueRight(right, value{t, options, v})
	q := acl.Question{Right: right, Type: t, Options: options, Value: v}
	r.same(p.Explain(z, e, q).Allowed, want, want, "explained: %s %s%s=%s", right, t.Name(), options, v)
	r.same(d.Description(t, options, right), j.surely(right, t, options, false), every, "%s all of %s%s", right, t.Name(), options)
	r.same(d.All(t, right), j.surely(right, t, "", true), everywhere, "%s all of %s", right, t.Name())
	r.same(d.Some(t, right), somewhere, j.mentioned(right, t), "%s some of %s", right, t.Name())
	r.same(p.Always().All(t, right), false, everywhere, "always: %s all of %s", right, t.Name())
	if right&(reads) != 0 && !t.Secret() {
		r.same(p.ReadsAll(), false, everywhere, "reads all, and %s %s", right, t.Name())
	}
}

func (c *trial) decider(p *acl.Program) acl.Decider {
	return func(name dn.DN, _ filter.Source) *acl.Decision {
		for _, n := range c.tree {
			if sameName(n.name, name) {
				_, _, d := c.decide(p, n)
				return d
			}
		}
		panic("no entry " + name.String())
	}
}

func (c *trial) askFilter(p *acl.Program, j *judge, g generator, r *result) {
	f := filter.Resolve(g.searched(), core)
	if !j.entryRight(acl.See) {
		return
	}
	want := j.guarded(f)
	got := p.Guard(f, c.decider(p)).Match(c.asked.source()) == filter.True
	r.same(got, want.least == filter.True, want.most == filter.True, "%s finds %s", f, c.asked.name)
}

// TestPrinted checks that printing a rule and parsing the text returns the same rule.
func TestPrinted(t *testing.T) {
	for i := range *oracleCases {
		for _, p := range newTrial(*oracleSeed + uint64(i)).rules {
			again, err := acl.ParsePlaced(p.String())
			if err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			if again.String() != p.String() || !reflect.DeepEqual(again.Rule, p.Rule) {
				t.Fatalf("%s\nis read as\n%s\n%#v\n%#v", p, again, again.Rule, p.Rule)
			}
		}
	}
}
