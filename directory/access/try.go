package access

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// TriedBelow is the maximum number of entries that a Trial examines for one search. If more
// entries are in the scope of the search, the Trial examines only the first ones.
const TriedBelow = 1000

// A Trial compares what two sets of rules let identities do with the entries of a state.
type Trial struct {
	state    *partition.Snapshot
	sets     [2]*acl.Set // the old and the new rules
	programs map[string][2]*acl.Program
}

// NewTrial returns a Trial that compares the rules in force in a state with the given
// rules.
func NewTrial(ctx context.Context, s *partition.Snapshot, rules []acl.Placed) (*Trial, error) {
	t := &Trial{state: s, programs: map[string][2]*acl.Program{}}
	before, err := Placed(ctx, s)
	if err != nil {
		return nil, err
	}
	t.sets, err = setsOf(s, before, rules)
	return t, err
}

// setsOf compiles two lists of rules for a state.
func setsOf(s *partition.Snapshot, before, after []acl.Placed) (sets [2]*acl.Set, err error) {
	for i, rules := range [][]acl.Placed{before, after} {
		if sets[i], err = acl.NewSet(s.Schema(), s.Catalog.ContextNames(), rules); err != nil {
			return sets, err
		}
	}
	return sets, nil
}

// Diff returns who gains and loses which rights in a state if some rules replace others.
func Diff(s *partition.Snapshot, before, after []acl.Placed) ([]acl.Difference, error) {
	sets, err := setsOf(s, before, after)
	if err != nil {
		return nil, err
	}
	return acl.Diff(sets[0], sets[1])
}

// An Operation describes an operation, except the values that the operation contains. A line of
// the access log contains as much.
type Operation struct {
	Who        dn.DN // empty: the anonymous identity
	Connection acl.Connection
	Name       dn.DN
	Scope      *op.Scope     // for a search; nil: the operation is no search
	Filter     filter.Filter // for a search; the values in the filter do not matter
	Attributes []string      // for a search: the requested attributes; nil: all user attributes
	Questions  []Asked       // for an operation that is no search: the rights that it needs
}

// An Asked is a right that an operation needs.
type Asked struct {
	Rights      acl.Rights
	Description string // "": the right is on the entry
	New         dn.DN  // the name that the entry would have; nil: the entry's own name
	Empty       bool   // only the name of the entry New is known
}

// An Outcome says what differs for an operation between the old and the new rules.
type Outcome struct {
	Refused, Granted []Reason // rights that only the old rules grant, and rights that only the new rules grant
	// The keys of Less and More are attributes. Less counts the entries that a search shows
	// with the attribute only under the old rules. More counts the entries that are shown
	// with the attribute only under the new rules. Under the key "", Less counts the entries
	// that the search shows only under the old rules, and More those that it shows only
	// under the new rules.
	Less, More map[string]int
	// The keys of Unfound and Found are attributes, too. Unfound counts the entries for which
	// a filter may test the attribute only under the old rules. Found counts the entries for
	// which a filter may test the attribute only under the new rules.
	Unfound, Found map[string]int
}

// Same reports whether nothing differs.
func (o *Outcome) Same() bool {
	return len(o.Refused)+len(o.Granted)+len(o.Less)+len(o.More)+len(o.Unfound)+len(o.Found) == 0
}

// A Reason is a question with the answer of the old rules and the answer of the new rules.
type Reason struct {
	acl.Question
	Before, After acl.Answer
}

// Try returns what differs for an operation. The error has the problem NoSuchEntry if the
// identity has no entry, or if the entry that the operation is about does not exist.
func (t *Trial) Try(ctx context.Context, o *Operation) (*Outcome, error) {
	ps, err := t.programsOf(ctx, o)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Less: map[string]int{}, More: map[string]int{}, Unfound: map[string]int{}, Found: map[string]int{}}
	base, err := t.state.Find(ctx, o.Name)
	if err != nil {
		return nil, err
	}
	e, err := t.state.Entry(ctx, base.ID, false)
	if err != nil {
		return nil, err
	}
	x, err := t.two(ctx, ps, o.Name, e)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(o.Questions, func(a Asked) bool { return a.Rights == acl.Bind }) { // a bind needs the right bind, but not the right see
		out.ask(x, acl.Question{Right: acl.See})
	}
	if o.Scope == nil {
		return out, t.questions(ctx, ps, o, x, out)
	}
	if !x.seen(0) || !x.seen(1) {
		return out, nil
	}
	return out, t.search(ctx, ps, o, base.ID, out)
}

// questions compares, for each right that an operation needs, the answers of the old and the
// new rules.
func (t *Trial) questions(ctx context.Context, ps [2]*acl.Program, o *Operation, x *two, out *Outcome) error {
	for _, q := range o.Questions {
		of := x
		if q.New != nil {
			e := x.entry.Entry
			if q.Empty {
				e = &entry.Entry{}
			}
			var err error
			if of, err = t.two(ctx, ps, q.New, e); err != nil {
				return err
			}
		}
		var typ *schema.AttributeType
		options := ""
		if q.Description != "" {
			if typ, options = t.state.Schema().Describe(q.Description); typ == nil {
				continue
			}
		}
		for _, right := range q.Rights.Each() {
			out.ask(of, acl.Question{Right: right, Type: typ, Options: entry.SortOptions(options)})
		}
	}
	return nil
}

// programsOf returns the identity's program under the old rules, and its program under the
// new rules. It caches the programs by the identity and by all properties of the connection
// except its time.
func (t *Trial) programsOf(ctx context.Context, o *Operation) (ps [2]*acl.Program, err error) {
	c := o.Connection
	c.Time = time.Time{}
	key := fmt.Sprintf("%s\n%+v", o.Who, c)
	if ps, ok := t.programs[key]; ok {
		return ps, nil
	}
	w := &Who{}
	if len(o.Who) > 0 {
		at, err := t.state.Find(ctx, o.Who)
		if err != nil {
			return ps, err
		}
		w.ID, w.Name = at.ID, at.Name
	}
	for i, set := range t.sets {
		id, err := w.identity(ctx, t.state, &answer{set: set, asOf: t.state.Ordinal(), connection: o.Connection})
		if err != nil {
			return ps, err
		}
		if ps[i], err = set.Program(id); err != nil {
			return ps, err
		}
	}
	t.programs[key] = ps
	return ps, nil
}

// two is an entry with the decisions about it under the old and the new rules.
type two struct {
	programs  [2]*acl.Program
	zones     [2]*acl.Zone
	decisions [2]*acl.Decision
	asked     Entry
	entry     *acl.Entry
}

func (t *Trial) two(ctx context.Context, ps [2]*acl.Program, name dn.DN, e *entry.Entry) (*two, error) {
	x := &two{programs: ps}
	x.entry = x.asked.Set(ctx, t.state, name, e, &filter.EntrySource{Schema: t.state.Schema(), Entry: e, Name: name})
	for i, p := range ps {
		var err error
		if x.zones[i], err = p.Zone(name.Parent()); err != nil {
			return nil, err
		}
		x.decisions[i] = x.zones[i].Decide(x.entry)
	}
	return x, x.asked.Err()
}

func (x *two) seen(i int) bool { return x.decisions[i].Entry(acl.See) }

// ask adds a question to the outcome if the old and the new rules answer it differently.
func (out *Outcome) ask(x *two, q acl.Question) {
	r := Reason{Question: q, Before: x.programs[0].Explain(x.zones[0], x.entry, q), After: x.programs[1].Explain(x.zones[1], x.entry, q)}
	switch {
	case r.Before.Allowed && !r.After.Allowed:
		out.Refused = append(out.Refused, r)
	case !r.Before.Allowed && r.After.Allowed:
		out.Granted = append(out.Granted, r)
	}
}

// search compares the old and the new rules for the first TriedBelow entries in the scope of a
// search.
func (t *Trial) search(ctx context.Context, ps [2]*acl.Program, o *Operation, base entry.ID, out *Outcome) error {
	n := 0
	tested, shown := testedBy(t.state.Schema(), o.Filter), requestedBy(t.state.Schema(), o.Attributes)
	for found, err := range search.Search(ctx, t.state, partition.Query{Base: base, Scope: *o.Scope, Filter: filter.Const(filter.True)}) {
		if err != nil {
			return err
		}
		if n++; n > TriedBelow {
			return nil
		}
		name, err := found.Name.DN()
		if err != nil {
			return err
		}
		x, err := t.two(ctx, ps, name, found.Entry)
		if err != nil {
			return err
		}
		out.compare(x, shown, tested)
	}
	return nil
}

// compare counts the differences between the old and the new rules for one entry of a search.
// If the requester sees the entry under both sets of rules, it compares which of the requested
// attributes are shown, and which of the attributes in the filter may be searched. Otherwise
// it only compares whether the requester sees the entry.
func (out *Outcome) compare(x *two, shown *requested, tested []*schema.AttributeType) {
	if before, after := x.seen(0), x.seen(1); before != after || !before {
		count(out.Less, out.More, "", before, after)
		return
	}
	for _, a := range x.entry.Entry.Attributes {
		if shown.has(a.Type) {
			count(out.Less, out.More, a.Description(), shows(x.decisions[0], &a), shows(x.decisions[1], &a))
		}
	}
	for _, t := range tested {
		if !slices.ContainsFunc(x.entry.Entry.Attributes, func(a entry.Attribute) bool { return a.Type.Is(t) }) {
			continue
		}
		count(out.Unfound, out.Found, t.Name(), x.decisions[0].Some(t, acl.Search), x.decisions[1].Some(t, acl.Search))
	}
}

func count(less, more map[string]int, of string, before, after bool) {
	switch {
	case before && !after:
		less[of]++
	case !before && after:
		more[of]++
	}
}

// shows reports whether a decision shows a value of an attribute.
func shows(d *acl.Decision, a *entry.Attribute) bool {
	return d.Description(a.Type, a.Options, acl.Show) ||
		slices.ContainsFunc(a.Values, func(v []byte) bool { return d.Value(a.Type, a.Options, v, acl.Show) })
}

// requested are the attributes that a search requests.
type requested struct {
	user, operational bool // all user attributes, all operational attributes
	types             []*schema.AttributeType
}

// requestedBy reads the attribute selectors of a search. It ignores options. If the search
// requests the attributes of an object class, requestedBy assumes that these are all user
// attributes.
func requestedBy(sch *schema.Schema, selectors []string) *requested {
	r := &requested{user: len(selectors) == 0}
	for _, s := range selectors {
		switch {
		case s == "*" || strings.HasPrefix(s, "@"):
			r.user = true
		case s == "+":
			r.operational = true
		default:
			name, _, _ := strings.Cut(s, ";")
			if t := sch.Attribute(name); t != nil {
				r.types = append(r.types, t)
			}
		}
	}
	return r
}

func (r *requested) has(t *schema.AttributeType) bool {
	return r.user && !t.Operational() || r.operational && t.Operational() || slices.ContainsFunc(r.types, t.Is)
}

// testedBy returns the types that the tests of a filter are about.
func testedBy(sch *schema.Schema, f filter.Filter) (types []*schema.AttributeType) {
	for leaf := range filter.Leaves(f) {
		if t, _ := sch.Describe(filter.Description(leaf)); t != nil && !slices.Contains(types, t) && t.Name() != "objectClass" {
			types = append(types, t)
		}
	}
	return types
}
