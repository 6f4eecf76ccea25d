package foreign

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/olc"
)

// An olcJudge decides by access directives as slapd.access(5) says: the first directive
// that is about the entry and the attribute decides, unless its matching clause says
// break. An olcJudge serves to check the translation: a comparison compares what the
// olcJudge allows with what the translated rules allow. So the olcJudge shares little more
// than the parser with the translation.
type olcJudge struct {
	Directives []*olc.Directive
	Schema     *schema.Schema
	// Entry returns the entry with a name, or nil if there is none.
	Entry func(dn.DN) *acl.Entry
}

// An olcView answers what an identity may do with an entry.
type olcView struct {
	*olcJudge
	id    *acl.Identity
	entry *acl.Entry
}

// At returns the olcView of an identity and an entry.
func (ev *olcJudge) At(id *acl.Identity, e *acl.Entry) view { return &olcView{ev, id, e} }

// An asked is what a decision is about: an attribute of an entry, one of its values, or a
// pseudo-attribute.
type asked struct {
	pseudo  string
	typ     *schema.AttributeType
	options string
	value   []byte
}

// Value reports whether the identity has a right on a value: show, search, compare, insert
// or remove.
func (v *olcView) Value(t *schema.AttributeType, options string, value []byte, right acl.Rights) bool {
	m := map[acl.Rights]olc.Mask{acl.Show: olc.Read, acl.Search: olc.Search, acl.Compare: olc.Compare, acl.Insert: olc.Add, acl.Remove: olc.Delete}[right]
	if v.mask(asked{typ: t, options: options, value: value})&m == 0 {
		return false
	}
	return m != olc.Read && m != olc.Search || v.mask(asked{pseudo: "entry"})&olc.Read != 0
}

// Entry reports whether the identity has a right on the entry: see, add, delete, rename or
// bind.
func (v *olcView) Entry(right acl.Rights) bool {
	own := v.mask(asked{pseudo: "entry"})
	switch right {
	case acl.See:
		return own&olc.Read != 0
	case acl.Add:
		return own&olc.Add != 0 && v.children()&olc.Add != 0
	case acl.Delete:
		return own&olc.Delete != 0 && v.children()&olc.Delete != 0
	case acl.Rename:
		return own&olc.Add != 0 && v.children()&olc.Delete != 0 && v.writesRDN()
	case acl.Bind:
		anonymous := &acl.Identity{Connection: v.id.Connection}
		anonymous.Mechanism = ""
		password := asked{typ: v.Schema.Attribute("userPassword")}
		return (&olcView{v.olcJudge, anonymous, v.entry}).mask(password)&olc.Auth != 0
	}
	return false
}

func (v *olcView) children() olc.Mask {
	parent := v.olcJudge.Entry(v.entry.Name.Parent())
	if parent == nil {
		parent = &acl.Entry{Name: v.entry.Name.Parent(), Entry: &entry.Entry{}, Source: &filter.EntrySource{Schema: v.Schema, Entry: &entry.Entry{}}}
	}
	return (&olcView{v.olcJudge, v.id, parent}).mask(asked{pseudo: "children"})
}

func (v *olcView) writesRDN() bool {
	return len(v.entry.Name) > 0 && !slices.ContainsFunc(v.entry.Name[0], func(a dn.AVA) bool {
		t := v.Schema.Attribute(a.Type)
		return t == nil || v.mask(asked{typ: t, value: a.Value})&(olc.Add|olc.Delete) != olc.Add|olc.Delete
	})
}

// mask returns the privileges that the identity has on the attribute or value a.
func (v *olcView) mask(a asked) (m olc.Mask) {
	for _, d := range v.Directives {
		groups, ok := v.matches(&d.What, a)
		if !ok {
			continue
		}
		decided, again := false, false
		for i := range d.Clauses {
			c := &d.Clauses[i]
			if c.Access.Self && !v.isOwn(a) || slices.ContainsFunc(c.Who, func(w olc.Who) bool { return !v.is(&w, groups) }) {
				continue
			}
			if m = c.Access.Change(m); c.Control != "continue" {
				decided, again = true, c.Control == "break"
				break
			}
		}
		switch {
		case !decided:
			return 0
		case !again:
			return m
		}
	}
	return 0
}

// isOwn reports whether a value is the name of the identity.
func (v *olcView) isOwn(a asked) bool {
	if a.typ == nil || a.typ.Equality == nil || !strings.HasPrefix(a.typ.Equality.Name(), "distinguishedName") {
		return false
	}
	d, err := dn.Parse(string(a.value))
	return err == nil && len(v.id.Name) > 0 && draft.Same(v.Schema, d, v.id.Name)
}

// matches reports whether w, the What of a directive, includes the attribute or value a. If w
// has a regular expression, the result groups contains the texts that the groups of the
// expression match.
func (v *olcView) matches(w *olc.What, a asked) (groups []string, ok bool) {
	if w.Attributes != nil && !slices.ContainsFunc(w.Attributes, func(l olc.Attribute) bool { return v.lists(string(l), a) }) {
		return nil, false
	}
	if w.Operations != nil {
		return nil, false
	}
	if w.Value != nil && (a.typ == nil || a.value == nil || w.ValueStyle != "exact" || !a.typ.SameValue(a.value, []byte(*w.Value))) {
		return nil, false
	}
	if w.Filter != nil && meets(v.Schema, w.Filter, v.entry, false) != filter.True {
		return nil, false
	}
	return v.named(w.Style, w.DN, v.entry.Name)
}

func (v *olcView) lists(l string, a asked) bool {
	name := strings.TrimLeft(l, "@!")
	if a.pseudo != "" {
		return strings.EqualFold(l, a.pseudo)
	}
	if c := v.Schema.Class(name); l[0] == '@' || l[0] == '!' {
		in := strings.EqualFold(name, "extensibleObject") || c != nil && slices.ContainsFunc(classTypes(c), a.typ.Is)
		return in == (l[0] == '@')
	}
	t, options := v.Schema.Describe(name)
	return t != nil && a.typ.Is(t) && entry.HasOptions(a.options, entry.SortOptions(options))
}

// classTypes returns the types of a class and of the classes above it.
func classTypes(c *schema.ObjectClass) (all []*schema.AttributeType) {
	all = slices.Concat(c.Must, c.May)
	for _, sup := range c.Sup {
		all = append(all, classTypes(sup)...)
	}
	return all
}

// named reports whether a name matches the text of a directive in the given style.
func (v *olcView) named(s olc.Style, text string, name dn.DN) (groups []string, ok bool) {
	if s == olc.Everything {
		return nil, true
	}
	if s == olc.Regex {
		re, err := regexp.Compile("(?i)" + text)
		if err != nil {
			return nil, false
		}
		groups = re.FindStringSubmatch(strings.ToLower(name.String()))
		return groups, groups != nil
	}
	d, err := dn.Parse(text)
	if err != nil || !draft.Within(v.Schema, name, d) {
		return nil, false
	}
	below := len(name) - len(d)
	return nil, s == olc.Subtree || s == olc.Exact && below == 0 || s == olc.One && below == 1 || s == olc.Children && below > 0
}

// expanded replaces $1 and ${1} in a text by groups[1], and so on for the digits up to 9.
func expanded(text string, groups []string) string {
	for n := 1; n <= 9; n++ {
		value := ""
		if n < len(groups) {
			value = groups[n]
		}
		digit := strconv.Itoa(n)
		text = strings.ReplaceAll(strings.ReplaceAll(text, "${"+digit+"}", value), "$"+digit, value)
	}
	return text
}

// The method "is" reports whether the olcView's identity meets w, one condition of a by clause.
func (v *olcView) is(w *olc.Who, groups []string) bool {
	id, bound := v.id, len(v.id.Name) > 0
	switch w.Kind {
	case olc.Any:
		return true
	case olc.Anonymous:
		return !bound
	case olc.Users:
		return bound
	case olc.Self:
		return bound && w.Level >= 0 && w.Level < len(v.entry.Name) && draft.Same(v.Schema, id.Name, v.entry.Name[w.Level:])
	case olc.DN:
		text := w.Text
		if w.Expand && (w.Style != olc.Regex || strings.Contains(text, "$1")) {
			text = expanded(text, groups)
		}
		if w.Style == olc.Exact && text == "" {
			return !bound
		}
		_, ok := v.named(w.Style, text, id.Name)
		return bound && ok
	case olc.DNAttr:
		return v.has(v.entry.Entry, w.Text)
	case olc.Group:
		return v.inGroup(w, groups)
	case olc.Peer:
		return id.Address.IsValid() && w.Network.Contains(id.Address.Unmap())
	case olc.Socket:
		return id.Local
	case olc.SSF:
		return id.SSF >= w.N
	case olc.TLSSSF:
		return w.N == 0 || id.SSF >= w.N && !id.Local
	case olc.Set:
		return v.setHolds(w.Text)
	}
	return false
}

// The method "has" reports whether an attribute of an entry names the identity.
func (v *olcView) has(e *entry.Entry, attribute string) bool {
	return slices.ContainsFunc(v.valuesOf(e, attribute), func(s string) bool {
		d, err := dn.Parse(s)
		return err == nil && len(v.id.Name) > 0 && draft.Same(v.Schema, d, v.id.Name)
	})
}

func (v *olcView) valuesOf(e *entry.Entry, attribute string) (all []string) {
	t := v.Schema.Attribute(attribute)
	if e == nil || t == nil {
		return nil
	}
	for _, a := range e.Attributes {
		if a.Type.Is(t) {
			for _, value := range a.Values {
				all = append(all, string(value))
			}
		}
	}
	return all
}

func (v *olcView) inGroup(w *olc.Who, groups []string) bool {
	text := w.Text
	if w.Expand {
		text = expanded(text, groups)
	}
	d, err := dn.Parse(text)
	if err != nil {
		return false
	}
	g := v.olcJudge.Entry(d)
	attribute := w.Attribute
	if attribute == "" {
		attribute = "member"
	}
	return g != nil && v.has(g.Entry, attribute)
}

// setHolds evaluates a set expression of paths and the operators & and |, from left to
// right.
func (v *olcView) setHolds(text string) bool {
	var result []string
	op := byte('|')
	for rest := text; rest != ""; {
		i := strings.IndexAny(rest, "&|")
		path := rest
		if i >= 0 {
			path = rest[:i]
		}
		found := v.path(strings.TrimSpace(path))
		if op == '&' {
			result = slices.DeleteFunc(result, func(s string) bool { return !slices.ContainsFunc(found, func(f string) bool { return v.equal(s, f) }) })
		} else {
			result = append(result, found...)
		}
		if i < 0 {
			break
		}
		op, rest = rest[i], rest[i+1:]
	}
	return len(result) > 0
}

func (v *olcView) equal(a, b string) bool {
	x, err1 := dn.Parse(a)
	y, err2 := dn.Parse(b)
	if err1 == nil && err2 == nil && strings.Contains(a, "=") {
		return draft.Same(v.Schema, x, y)
	}
	return strings.EqualFold(a, b)
}

// path evaluates a path in a set expression. A path begins with this, user or [text]. Steps
// follow, each after a slash: an attribute, or -1 for the parent.
func (v *olcView) path(text string) (set []string) {
	rest, after, bracketed := "", "", false
	if rest, bracketed = strings.CutPrefix(text, "["); bracketed {
		text, after, _ = strings.Cut(rest, "]")
		set, after = []string{text}, strings.TrimPrefix(after, "/")
	} else {
		text, after, _ = strings.Cut(text, "/")
		switch text {
		case "this":
			set = []string{v.entry.Name.String()}
		case "user":
			if len(v.id.Name) > 0 {
				set = []string{v.id.Name.String()}
			}
		default:
			return nil
		}
	}
	for _, step := range strings.Split(after, "/") {
		if step == "" {
			continue
		}
		var next []string
		for _, s := range set {
			d, err := dn.Parse(s)
			if err != nil {
				continue
			}
			if step == "-1" {
				next = append(next, d.Parent().String())
			} else if e := v.olcJudge.Entry(d); e != nil {
				next = append(next, v.valuesOf(e.Entry, strings.TrimSuffix(step, "*"))...)
			}
		}
		set = next
	}
	return set
}
