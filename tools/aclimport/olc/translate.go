package olc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// Options say what a translation may assume.
type Options struct {
	Schema   *schema.Schema
	Contexts []dn.DN // the naming contexts; nil: not known
	// Reserved means that directives about all attributes include reserved attributes. In
	// rules, * does not include them, so the translation names them.
	Reserved bool
}

// Translate translates the directives of a database with the given suffix, in their order.
// The result has one element for each directive, with the rules made from it.
func Translate(all []*Directive, suffix dn.DN, o *Options) []draft.Drafts {
	t := &translation{o: o, place: suffix, out: make([]draft.Drafts, len(all)), memo: map[string][]cell{}}
	for _, d := range all {
		t.directives = append(t.directives, t.compile(d))
	}
	t.collectGroups()
	t.values()
	t.entries()
	t.bind()
	if t.steps > maxSteps {
		for i := range t.out {
			t.out[i] = draft.Drafts{Class: draft.Not, Notes: []string{"the directives have too many combinations"}}
		}
		return t.out
	}
	t.emit()
	for i := range t.out {
		if d := t.directives[i]; d.opaque != "" {
			t.out[i].Note(draft.Near, "%s", d.opaque)
		}
		t.out[i].Settle()
	}
	return t.out
}

// maxSteps bounds the work of a translation.
const maxSteps = 20000

// A translation is the translation of the directives of one database.
type translation struct {
	o          *Options
	place      dn.DN
	directives []*directive
	compiled   *directive // the directive whose Whos are being translated
	groups     []*group
	steps      int
	memo       map[string][]cell

	granted []*granted
	byKey   map[string]*granted
	out     []draft.Drafts
}

// A directive is a Directive with its What translated to a set and its Whos to expressions.
type directive struct {
	*Directive
	set
	// opaque is the reason why rules have no words for the What. It is "" if rules have
	// words for the What. An opaque directive allows nothing, and no later directive allows
	// anything on the entries of its set.
	opaque string
	whos   []draft.Expr
}

func (t *translation) compile(d *Directive) *directive {
	out := &directive{Directive: d, set: everywhere}
	defer func() {
		t.compiled = out
		for i := range d.Clauses {
			out.whos = append(out.whos, t.who(d.Clauses[i].Who))
		}
	}()
	if d.What.Value != nil && d.What.ValueStyle != "exact" {
		out.opaque = "values of the style " + d.What.ValueStyle
	}
	if d.What.Operations != nil {
		out.opaque = "rules are about all operations, not about " + strings.Join(d.What.Operations, " ")
	}
	switch d.What.Style {
	case Everything:
	case Regex:
		r, ok := parseRegex(d.What.DN)
		if !ok || r.crosses {
			out.opaque = "the regular expression " + d.What.DN
		}
		if ok {
			out.set = r.set
			if r.crosses {
				out.set = set{scope: acl.Under, name: r.tail()}
			}
		}
	default:
		out.name, _ = dn.Parse(d.What.DN)
		out.scope = map[Style]acl.Scope{Exact: acl.Only, One: acl.Children, Subtree: acl.Subtree, Children: acl.Under}[d.What.Style]
		if out.scope == acl.Under && len(out.name) == 0 {
			out.scope = acl.Subtree
		}
	}
	return out
}

// tail returns the RDNs after the last RDN that has a wildcard or a marker.
func (r *regex) tail() dn.DN {
	for i := len(r.name) - 1; i >= 0; i-- {
		if strings.ContainsAny(r.name[i:i+1].String(), "*"+marker) {
			return r.name[i+1:]
		}
	}
	return r.name
}

// A group is a set of attributes that the same directives are about. A group is one of
// four things: an attribute that a directive names, one value of such an attribute, a
// pseudo-attribute (entry or children), or the rest, which means all other attributes.
type group struct {
	name   string // "": the rest; "entry" or "children": a pseudo-attribute
	pseudo bool
	typ    *schema.AttributeType // nil: the schema does not define it
	value  *string
}

func (g *group) isRest() bool { return g.name == "" }

func (g *group) reserved() bool { return g.typ != nil && acl.Reserved(g.typ) }

func (t *translation) collectGroups() {
	t.groups = []*group{{}, {name: "entry", pseudo: true}, {name: "children", pseudo: true}}
	add := func(name string, value *string) {
		if strings.EqualFold(name, "entry") || strings.EqualFold(name, "children") || !draft.IsDescription(name) {
			return
		}
		g := &group{name: name, value: value}
		g.typ, _ = t.o.Schema.Describe(name)
		if !slices.ContainsFunc(t.groups, func(o *group) bool {
			return !o.pseudo && (g.typ != nil && o.typ == g.typ && strings.Contains(name, ";") == strings.Contains(o.name, ";") || strings.EqualFold(o.name, name)) && sameText(o.value, value)
		}) {
			t.groups = append(t.groups, g)
		}
	}
	for _, d := range t.directives {
		for _, a := range d.What.Attributes {
			class := t.o.Schema.Class(strings.TrimLeft(string(a), "@!"))
			switch {
			case a[0] != '@' && a[0] != '!':
				add(string(a), nil)
				if d.What.Value != nil && d.opaque == "" {
					add(string(a), d.What.Value)
				}
			case class != nil:
				for _, typ := range classTypes(class) {
					add(typ.SentName(), nil)
				}
			}
		}
	}
}

func sameText(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// classTypes returns the types of a class and of the classes above it.
func classTypes(c *schema.ObjectClass) (all []*schema.AttributeType) {
	all = slices.Concat(c.Must, c.May)
	for _, sup := range c.Sup {
		all = append(all, classTypes(sup)...)
	}
	return all
}

// covers reports whether a directive is about the attributes of a group. named is set if
// the directive names the attribute, or an object class that has the attribute.
func (t *translation) covers(d *directive, g *group) (covers, named bool) {
	if d.What.Attributes == nil {
		return true, false
	}
	if d.What.Value != nil && d.opaque == "" && !sameText(d.What.Value, g.value) {
		return false, false
	}
	for _, a := range d.What.Attributes {
		if t.lists(a, g) {
			return true, !g.isRest() && !strings.EqualFold(string(a), "@extensibleObject") && a[0] != '!'
		}
	}
	return false, false
}

func (t *translation) lists(a Attribute, g *group) bool {
	name := strings.TrimLeft(string(a), "@!")
	switch a[0] {
	case '@':
		if strings.EqualFold(name, "extensibleObject") {
			return !g.pseudo
		}
		c := t.o.Schema.Class(name)
		return c != nil && g.typ != nil && slices.ContainsFunc(classTypes(c), g.typ.Is)
	case '!':
		c := t.o.Schema.Class(name)
		return !g.pseudo && !(c != nil && g.typ != nil && slices.ContainsFunc(classTypes(c), g.typ.Is))
	}
	if g.isRest() || g.pseudo {
		return strings.EqualFold(name, g.name) && name != ""
	}
	typ, options := t.o.Schema.Describe(name)
	if typ == nil || g.typ == nil {
		return strings.EqualFold(name, g.name)
	}
	_, own, _ := strings.Cut(g.name, ";")
	return g.typ.Is(typ) && (options == "" || strings.EqualFold(strings.Trim(options, ";"), own))
}

// A cell says that some identities have a privilege on the entries of a region. These are
// the identities for which the expression who holds.
type cell struct {
	region
	who    draft.Expr
	origin int  // the number of the directive
	named  bool // the directive names the attribute
	self   bool // the privilege is only on values that are the identity's own name
}

// cells returns the cells that say on which entries, and to which identities, the
// directives grant a privilege on a group.
func (t *translation) cells(g *group, m Mask) []cell {
	key := fmt.Sprintf("%s %d", t.signature(g), m)
	all, ok := t.memo[key]
	if !ok {
		all = t.grant(g, m, 0, 0, region{set: everywhere})
		t.memo[key] = all
	}
	all = slices.Clone(all)
	if g.reserved() && !t.o.Reserved {
		all = slices.DeleteFunc(all, func(c cell) bool { return !c.named })
	}
	return all
}

// signature returns a text that is equal for groups that the same directives are about.
func (t *translation) signature(g *group) string {
	text := fmt.Sprint(g.pseudo)
	for _, d := range t.directives {
		covers, named := t.covers(d, g)
		text += fmt.Sprint(covers, named)
	}
	return text
}

// grant returns the cells in which directives grant a privilege of m on entries of the
// region r. It considers the i-th directive and all later ones. The parameter have
// contains the privileges that earlier directives have granted.
func (t *translation) grant(g *group, m Mask, i int, have Mask, r region) []cell {
	for ; i < len(t.directives); i++ {
		d := t.directives[i]
		covers, named := t.covers(d, g)
		if !covers {
			continue
		}
		if t.steps++; t.steps > maxSteps {
			return nil
		}
		set, some, known := intersect(t.o.Schema, r.set, d.set)
		if !some {
			continue
		}
		inside := r
		if inside.set = set; known && d.What.Filter != nil {
			inside = inside.narrow(d.What.Filter)
		}
		if known && inside.isEmpty(t.o.Schema) {
			continue
		}
		var all []cell
		if known && d.opaque == "" {
			all = t.clauses(g, m, i, 0, have, inside, named)
		} else if !known {
			t.out[i].Note(draft.Near, "its entries and those of another directive have no common words in rules")
		}
		if d.set.isAll() && d.What.Filter == nil {
			return all
		}
		outside := r.without(t.o.Schema, exception{d.set, d.What.Filter})
		if outside.isEmpty(t.o.Schema) {
			return all
		}
		return append(all, t.grant(g, m, i+1, have, outside)...)
	}
	return nil
}

// clauses returns the cells of the i-th directive, from its j-th clause on.
func (t *translation) clauses(g *group, m Mask, i, j int, have Mask, r region, named bool) []cell {
	d := t.directives[i]
	if j == len(d.Clauses) {
		return nil
	}
	if t.steps++; t.steps > maxSteps {
		return nil
	}
	c, who := &d.Clauses[j], d.whos[j]
	others := t.clauses(g, m, i, j+1, have, r, named)
	if c.Access.Self {
		if c.Control != "stop" || c.Access.Change(have)&m == 0 && len(others) > 0 {
			t.out[i].More = true
			t.out[i].Note(draft.Near, "clauses behind self... count for the identity's own name too")
		}
		if c.Access.Change(have)&m != 0 && c.Control == "stop" && !g.pseudo {
			others = append([]cell{{r, both(subject(acl.Users), who), i, named, true}}, others...)
		}
		return others // for all values except the identity's own name, the following clauses decide
	}
	var matched []cell
	switch now := c.Access.Change(have); c.Control {
	case "stop":
		if now&m != 0 {
			return append([]cell{{r, who, i, named, false}}, others...)
		}
	case "break":
		matched = t.grant(g, m, i+1, now, r)
	case "continue":
		matched = t.clauses(g, m, i, j+1, now, r, named)
	}
	var all []cell
	for _, x := range matched {
		x.who = both(who, x.who)
		x.named = x.named || named && c.Access.Op != '-' && c.Access.Mask&m != 0
		all = append(all, x)
	}
	for _, x := range others {
		x.who = both(&draft.Negation{Expr: who}, x.who)
		all = append(all, x)
	}
	return all
}

// The function "both" returns the conjunction of two expressions.
func both(a, b draft.Expr) draft.Expr {
	if draft.IsTrue(a) || draft.Text(a) == draft.Text(b) {
		return b
	}
	switch {
	case draft.IsTrue(b), isUsers(b) && draft.IsBound(a):
		return a
	case isUsers(a) && draft.IsBound(b):
		return b
	}
	return draft.All{a, b}
}

func isUsers(e draft.Expr) bool { return draft.Text(e) == draft.Text(subject(acl.Users)) }

// meet returns the cells in which two privileges are both granted, given the cells of each. If
// a cell of the second list covers a cell of the first list, the result contains the cell of
// the first list unchanged.
func (t *translation) meet(as, bs []cell) (all []cell) {
	seen := map[string]bool{}
	for _, a := range as {
		if slices.ContainsFunc(bs, func(b cell) bool { return t.covered(a, b) }) {
			all = append(all, a)
			continue
		}
		for _, b := range bs {
			if t.steps++; t.steps > maxSteps {
				return nil
			}
			r, some, known := a.region.and(t.o.Schema, b.region)
			if !known {
				t.out[a.origin].Note(draft.Near, "its entries and those of another directive have no common words in rules")
			}
			if some && known {
				x := a
				x.region, x.who = r, both(a.who, b.who)
				if k := fmt.Sprint(x.origin, x.self, x.region.key(), draft.Text(x.who)); !seen[k] {
					seen[k] = true
					all = append(all, x)
				}
			}
		}
	}
	return all
}

// granted contains all rights that one directive grants to the same identities in the same
// region.
type granted struct {
	cell
	values map[*group]acl.Rights
	self   map[*group]acl.Rights
	entry  acl.Rights
}

func (t *translation) grantedAt(c cell) *granted {
	key := fmt.Sprintf("%d %s %s", c.origin, c.region.key(), draft.Text(c.who))
	if t.byKey == nil {
		t.byKey = map[string]*granted{}
	}
	x := t.byKey[key]
	if x == nil {
		x = &granted{cell: c, values: map[*group]acl.Rights{}, self: map[*group]acl.Rights{}}
		t.byKey[key] = x
		t.granted = append(t.granted, x)
	}
	return x
}

// values collects the rights on attributes.
func (t *translation) values() {
	shown := t.cells(t.groups[1], Read)
	for _, g := range t.groups {
		if g.pseudo {
			continue
		}
		for _, p := range []struct {
			mask  Mask
			right acl.Rights
		}{{Read, acl.Show}, {Search, acl.Search}, {Compare, acl.Compare}, {Add, acl.Insert}, {Delete, acl.Remove}} {
			all := t.cells(g, p.mask)
			cells := t.meet(all, shown)
			if p.mask != Read && p.mask != Search {
				t.noteHidden(all, shown)
			}
			for _, c := range cells {
				x := t.grantedAt(c)
				if c.self {
					x.self[g] |= p.right
				} else {
					x.values[g] |= p.right
				}
			}
		}
	}
}

// noteHidden adds a note for each cell that the rules leave out because the identity may
// not read the entry itself. A rule for such a cell would allow the identity to compare
// or write, and so would also show the entry's name to the identity.
func (t *translation) noteHidden(all, shown []cell) {
	for _, a := range all {
		if !t.coveredByAll(a, shown, maxExceptions) {
			t.out[a.origin].Note(draft.Near, "compare and write are left out where the entry itself may not be read")
		}
	}
}

// maxExceptions is the maximum depth to which coveredByAll follows exceptions of
// exceptions.
const maxExceptions = 6

// coveredByAll reports whether the cell a is covered by several cells of a list together. It
// first ignores the exceptions of the cells, and searches for a cell that covers the cell a.
// Other cells must then cover the excepted parts of a.
func (t *translation) coveredByAll(a cell, all []cell, depth int) bool {
	return depth > 0 && slices.ContainsFunc(all, func(b cell) bool {
		whole := b
		whole.except = nil
		if !t.covered(a, whole) {
			return false
		}
		return !slices.ContainsFunc(b.except, func(e exception) bool {
			set, some, known := intersect(t.o.Schema, a.set, e.set)
			if !some {
				return false
			}
			rest := a
			if rest.set = set; e.filter != nil {
				rest.region = rest.narrow(e.filter)
			}
			return !known || !rest.isEmpty(t.o.Schema) && !t.coveredByAll(rest, all, depth-1)
		})
	})
}

// covered reports whether the cell b covers the cell a: the region of b contains the region
// of a, and b is for the same identities or for more.
func (t *translation) covered(a, b cell) bool {
	return b.region.contains(t.o.Schema, a.region) && (draft.IsTrue(b.who) || draft.Text(a.who) == draft.Text(b.who) || isUsers(b.who) && draft.IsBound(a.who))
}

// entries collects the rights on entries.
func (t *translation) entries() {
	entry := t.groups[1]
	for _, c := range t.cells(entry, Read) {
		t.grantedAt(c).entry |= acl.See
	}
	for _, p := range []struct {
		mask  Mask
		right acl.Rights
	}{{Add, acl.Add}, {Delete, acl.Delete}} {
		for _, c := range t.meet(t.cells(entry, p.mask), t.parents(p.mask)) {
			t.grantedAt(c).entry |= p.right
		}
	}
	t.renames()
}

// parents returns the cells in which identities have a privilege on an entry's parent. The
// privilege is on the parent's pseudo-attribute "children".
func (t *translation) parents(m Mask) (all []cell) {
	for _, c := range t.cells(t.groups[2], m) {
		if c.who = draft.Rewrite(c.who, ofParent); draft.IsFalse(c.who) {
			continue
		}
		r, ok := c.region.below()
		if !ok {
			t.out[c.origin].Note(draft.Near, "entries are added and deleted below some of its entries only")
			continue
		}
		c.region = r
		all = append(all, c)
	}
	return all
}

// ofParent returns an expression that holds for an entry if the leaf holds for the entry's
// parent.
func ofParent(l *draft.Leaf) draft.Expr {
	for _, a := range []*draft.Atom{l.Under, l.Over} {
		if a == nil || a.Subject == nil {
			continue
		}
		s := *a.Subject
		switch s.Kind {
		case acl.Self:
			s.Kind = acl.ItsParent
		case acl.Its:
			s.Kind = acl.ItsParents
		case acl.ItsParent, acl.ItsParents, acl.ItsSuperior, acl.Same:
			return draft.Unknown("who may add and delete children, if that depends on the parent (%s)", s)
		default:
			return l
		}
		return draft.Who(s)
	}
	return l
}

// renames grants the rights to rename and to move an entry. It grants them to identities
// that may write three things: the entry, the children of its parent, and all its
// attributes.
func (t *translation) renames() {
	cells := t.meet(t.cells(t.groups[1], Add), t.parents(Delete))
	done := map[string]bool{}
	for _, g := range t.groups {
		signature := t.signature(g)
		if g.pseudo || g.value != nil || g.reserved() || done[signature] {
			continue
		}
		done[signature] = true
		for _, m := range []Mask{Add, Delete} {
			cells = t.meet(cells, slices.DeleteFunc(t.cells(g, m), func(c cell) bool { return c.self }))
		}
	}
	for _, c := range cells {
		t.grantedAt(c).entry |= acl.Rename | acl.Move
	}
}

// bind collects the right to bind. The right is granted on entries whose userPassword the
// anonymous identity may use to authenticate.
func (t *translation) bind() {
	password := &group{name: "userPassword", typ: t.o.Schema.Attribute("userPassword")}
	for _, c := range t.grant(password, Auth, 0, 0, region{set: everywhere}) {
		e := draft.ForAnonymous(c.who)
		if draft.IsFalse(e) || c.self {
			continue
		}
		c.who = e
		t.grantedAt(c).entry |= acl.Bind
	}
}
