package foreign

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/aci"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// A placed is a value of the attribute aci with the name of the entry that contains the
// value.
type placed struct {
	Place dn.DN
	ACI   *aci.ACI
}

// An aciJudge decides by aci as the servers' manuals say: an identity may do what at
// least one value allows and no value denies. An aciJudge serves to check the
// translation: a comparison compares what the aciJudge allows with what the translated
// rules allow. The aciJudge and the translation share little more than the parser, so that
// an error in one of them shows as a difference.
type aciJudge struct {
	Values  []placed
	Options *aci.Options
	// Find returns the entry with a name, or nil if there is none.
	Find func(dn.DN) *entry.Entry
}

// An aciView answers what an identity may do with an entry.
type aciView struct {
	*aciJudge
	id    *acl.Identity
	entry *acl.Entry
	// The field applies contains, for each clause of each value, whether the value's target and
	// the clause's bind rule match: 0 means not known yet, 1 means no, 2 means yes. applies[1]
	// is for the right add.
	applies [2][]uint8
}

// At returns the aciView of an identity and an entry.
func (ev *aciJudge) At(id *acl.Identity, e *acl.Entry) view {
	n := 0
	for _, p := range ev.Values {
		n += len(p.ACI.Clauses)
	}
	return &aciView{aciJudge: ev, id: id, entry: e, applies: [2][]uint8{make([]uint8, n), make([]uint8, n)}}
}

// A question is about one right of an identity on an entry, and perhaps on a value.
type question struct {
	*aciView
	right   aci.Rights
	typ     *schema.AttributeType // nil: the question is about a right on the entry itself
	options string
	value   []byte
	del     bool // the value is to be deleted
}

// Value reports whether the identity has a right on a value: show, search, compare, insert
// or remove.
func (v *aciView) Value(t *schema.AttributeType, options string, value []byte, right acl.Rights) bool {
	q := &question{aciView: v, typ: t, options: options, value: value}
	switch right {
	case acl.Show:
		q.right = aci.Read
	case acl.Search:
		q.right = aci.Search
	case acl.Compare:
		q.right = aci.Compare
	case acl.Insert:
		q.right = aci.Write
	case acl.Remove:
		q.right, q.del = aci.Write, true
	}
	return q.allowed()
}

// Entry reports whether the identity has a right on the entry: see, add, delete, rename,
// proxy or bind.
func (v *aciView) Entry(right acl.Rights) bool {
	q := &question{aciView: v}
	switch right {
	case acl.Bind:
		return true // aci do not restrict binding
	case acl.See:
		return q.seen()
	case acl.Add:
		q.right = aci.Add
	case acl.Delete:
		q.right = aci.Delete
	case acl.Proxy:
		q.right = aci.Proxy
	case acl.Rename:
		return q.renames()
	}
	return q.allowed()
}

func (q *question) allowed() bool {
	return q.some(false, q.matches) && !q.some(true, q.matches)
}

// The method "some" reports whether there is a clause that passes a test and whose target and
// bind rule match.
func (q *question) some(deny bool, test func(*aci.ACI, *aci.Clause) bool) bool {
	n := -1
	for _, p := range q.Values {
		for i := range p.ACI.Clauses {
			c := &p.ACI.Clauses[i]
			if n++; c.Deny == deny && test(p.ACI, c) && q.applicable(n, p, c) {
				return true
			}
		}
	}
	return false
}

// applicable reports whether the target and the bind rule of the n-th clause match.
func (q *question) applicable(n int, p placed, c *aci.Clause) bool {
	memo := &q.applies[0][n]
	if q.right == aci.Add {
		memo = &q.applies[1][n]
	}
	if *memo == 0 {
		*memo = 1
		if matched, ok := q.target(p); ok && q.holds(c.Bind, false, matched) {
			*memo = 2
		}
	}
	return *memo == 2
}

// matches reports whether a clause is about the right and the attribute.
func (q *question) matches(a *aci.ACI, c *aci.Clause) bool {
	if c.Rights&q.right == 0 && !(q.right == aci.Write && c.Rights&aci.SelfWrite != 0 && q.isOwnName()) {
		return false
	}
	if q.typ == nil {
		return q.wholeEntry(a)
	}
	if a.Values != nil && q.right == aci.Write {
		list := a.Values.Add
		if q.del {
			list = a.Values.Del
		}
		for _, f := range list {
			if t, _ := q.Options.Schema.Describe(f.Attribute); t == q.typ {
				return q.meets(f.Filter, q.value) != a.Values.Not
			}
		}
	}
	return a.Attributes != nil && q.listed(a.Attributes)
}

// isOwnName reports whether the value is the name of the identity.
func (q *question) isOwnName() bool {
	if len(q.id.Name) == 0 || q.typ == nil || !isName(q.typ) {
		return false
	}
	d, err := dn.Parse(string(q.value))
	return err == nil && draft.Same(q.Options.Schema, d, q.id.Name)
}

// wholeEntry reports whether the entry meets the targattrfilters of an aci. Only the
// rights to add and to delete an entry depend on targattrfilters: all values of the entry
// must match. For other rights, wholeEntry returns true.
func (q *question) wholeEntry(a *aci.ACI) bool {
	if a.Values == nil || q.right != aci.Add && q.right != aci.Delete {
		return true
	}
	list := a.Values.Add
	if q.right == aci.Delete {
		list = a.Values.Del
	}
	if list == nil {
		return true
	}
	all := true
	for _, f := range list {
		t, _ := q.Options.Schema.Describe(f.Attribute)
		for _, attr := range q.entry.Entry.Attributes {
			for _, v := range attr.Values {
				if attr.Type == t {
					one := *q
					one.typ, one.options = attr.Type, attr.Options
					all = all && one.meets(f.Filter, v)
				}
			}
		}
	}
	return all != a.Values.Not
}

// meets reports whether an entry with only this value matches a filter.
func (q *question) meets(f filter.Filter, value []byte) bool {
	e := &entry.Entry{Attributes: []entry.Attribute{{Type: q.typ, Options: q.options, Values: [][]byte{value}}}}
	return filter.Resolve(f, q.Options.Schema).Match(&filter.EntrySource{Schema: q.Options.Schema, Entry: e}) == filter.True
}

// listed reports whether targetattr includes the attribute of the question.
func (q *question) listed(a *aci.Attributes) bool {
	found, kind := false, false
	for _, n := range a.Names {
		switch {
		case n == "*":
			found = found || q.Options.Dialect == aci.DS389 || !q.typ.Operational()
			kind = kind || !q.typ.Operational()
		case n == "+":
			found = found || q.typ.Operational()
			kind = kind || q.typ.Operational()
		case strings.Contains(n, "*"):
			found = found || matchText(strings.ToLower(n), strings.ToLower(q.typ.SentName()))
		default:
			t, options := q.Options.Schema.Describe(n)
			if t == nil {
				continue
			}
			found = found || t == q.typ && entry.HasOptions(q.options, entry.SortOptions(options))
			kind = kind || t.Operational() == q.typ.Operational()
		}
	}
	if !a.Not {
		return found
	}
	return !found && (kind || q.Options.Dialect == aci.DS389)
}

// seen reports whether the identity sees the entry. This requires a clause that allows a
// right on some attribute. No clause may deny all rights on all attributes, and no clause
// without targetattr may deny read.
func (q *question) seen() bool {
	any := func(*schema.AttributeType) bool { return true }
	allows := func(a *aci.ACI, c *aci.Clause) bool {
		onValues := c.Rights&(aci.Read|aci.Search|aci.Compare|aci.Write) != 0
		return a.Attributes != nil && (onValues && q.lists(a.Attributes, any) || c.Rights&aci.SelfWrite != 0 && q.lists(a.Attributes, writableName)) ||
			c.Rights&aci.Write != 0 && a.Values != nil
	}
	hides := func(a *aci.ACI, c *aci.Clause) bool {
		const everything = aci.Read | aci.Search | aci.Compare | aci.Write
		if a.Attributes == nil {
			return a.Values == nil && c.Rights&aci.Read != 0
		}
		star := slices.Contains(a.Attributes.Names, "*") && (q.Options.Dialect == aci.DS389 || slices.Contains(a.Attributes.Names, "+"))
		return star && !a.Attributes.Not && a.Values == nil && c.Rights&everything == everything
	}
	return q.some(false, allows) && !q.some(true, hides)
}

// writableName reports whether selfwrite lets an identity write its own name as a value of
// a type.
func writableName(t *schema.AttributeType) bool { return isName(t) && !acl.Reserved(t) }

// isName reports whether the values of a type are names that clients write.
func isName(t *schema.AttributeType) bool {
	return t.Equality != nil && !t.NoUserModification && slices.Contains([]string{"distinguishedNameMatch", "uniqueMemberMatch"}, t.Equality.Name())
}

// lists reports whether targetattr includes at least one attribute that passes the test.
func (q *question) lists(a *aci.Attributes, test func(*schema.AttributeType) bool) bool {
	return slices.ContainsFunc(q.Options.Schema.Attributes(), func(t *schema.AttributeType) bool {
		one := *q
		one.typ = t
		if len(a.Names) > 0 {
			_, options, _ := strings.Cut(a.Names[0], ";")
			one.options = entry.SortOptions(options)
		}
		return test(t) && !t.Collective && one.listed(a)
	})
}

// renames reports whether the identity may rename the entry. This requires the right to
// write the attributes of the entry's RDN. No clause without targetattr may deny write.
func (q *question) renames() bool {
	if len(q.entry.Name) == 0 {
		return false
	}
	for _, a := range q.entry.Name[0] {
		t := q.Options.Schema.Attribute(a.Type)
		if t == nil {
			return false
		}
		for _, right := range []acl.Rights{acl.Insert, acl.Remove} {
			if !q.aciView.Value(t, "", a.Value, right) {
				return false
			}
		}
	}
	q.right = aci.Write
	return !q.some(true, func(a *aci.ACI, c *aci.Clause) bool {
		return a.Attributes == nil && a.Values == nil && c.Rights&aci.Write != 0
	})
}

// target reports whether the target of a value includes the entry. The result matched is
// the part of the entry's name that ($dn) in the target stands for.
func (q *question) target(p placed) (matched string, ok bool) {
	sch, name, a := q.Options.Schema, q.entry.Name, p.ACI
	if !draft.Within(sch, name, p.Place) {
		return "", false
	}
	base := p.Place
	if a.Target != nil {
		hit := false
		d, err := dn.Parse(a.Target.DN)
		switch {
		case strings.Contains(strings.ToLower(a.Target.DN), "($dn)"):
			matched, hit = matchMacro(strings.ToLower(a.Target.DN), plainDN(name))
		case strings.Contains(a.Target.DN, "*") && q.Options.Dialect == aci.DS389:
			hit = matchDN(a.Target.DN, plainDN(name), false)
		case strings.Contains(a.Target.DN, "*"):
			hit = matchRDNs(sch, a.Target.DN, name, true)
		case err == nil:
			if hit = draft.Within(sch, name, d); !a.Target.Not && draft.Within(sch, d, p.Place) {
				base = d
			}
		}
		if hit == a.Target.Not {
			return "", false
		}
	}
	below := len(name) - len(base)
	switch a.Scope {
	case "base":
		ok = below == 0
	case "onelevel":
		ok = below == 1
	case "subordinate":
		ok = below > 0
	default:
		ok = true
	}
	if ok && a.Filter != nil {
		ok = (meets(sch, a.Filter.Filter, q.entry, true) == filter.True) != a.Filter.Not
	}
	return matched, ok
}

// matchRDNs reports whether a name matches a pattern by the rules of OpenDJ. A * inside a
// value matches any part of the value. A * instead of an RDN matches any one RDN, and a **
// matches one or more RDNs. If suffix is set, matchRDNs also returns true if an ancestor of
// the name matches.
func matchRDNs(sch *schema.Schema, pattern string, name dn.DN, suffix bool) bool {
	var parts []string
	for p := range strings.SplitSeq(pattern, ",") {
		parts = append(parts, strings.ToLower(strings.TrimSpace(p)))
	}
	var texts []string
	for _, r := range name {
		texts = append(texts, plainDN(dn.DN{r}))
	}
	var match func(parts, texts []string) bool
	match = func(parts, texts []string) bool {
		if len(parts) == 0 {
			return len(texts) == 0
		}
		if len(texts) == 0 {
			return false
		}
		if parts[0] == "**" {
			return match(parts[1:], texts[1:]) || match(parts, texts[1:])
		}
		return (parts[0] == "*" || matchText(parts[0], texts[0])) && match(parts[1:], texts[1:])
	}
	for i := range texts {
		if match(parts, texts[i:]) {
			return true
		}
		if !suffix {
			return false
		}
	}
	return false
}

// holds reports whether a bind rule, or its negation, holds.
func (q *question) holds(b aci.Bind, not bool, matched string) bool {
	switch b := b.(type) {
	case *aci.And:
		left, right := q.holds(b.Left, not, matched), q.holds(b.Right, not, matched)
		return left && right || not && (left || right)
	case *aci.Or:
		left, right := q.holds(b.Left, not, matched), q.holds(b.Right, not, matched)
		return left && right || !not && (left || right)
	case *aci.Not:
		return q.holds(b.Bind, !not, matched)
	}
	k := b.(*aci.Keyword)
	switch {
	case k.Name == "timeofday":
		return compare(k.Op, q.minute(), k.Values[0]) != not
	case k.Name == "ssf":
		return compare(k.Op, q.id.SSF, k.Values[0]) != not
	case q.right == aci.Add && slices.ContainsFunc(k.Values, func(v string) bool { return isOfNewEntry(k.Name, v) }):
		return false // neither true nor false: the attributes of a new entry do not count
	}
	is := slices.ContainsFunc(k.Values, func(v string) bool { return q.is(k.Name, v, matched) })
	return is != (k.Op == "!=") != not
}

// isOfNewEntry reports whether a comparison looks for names of users or groups only in the
// accessed entry itself, and not in the entries above it.
func isOfNewEntry(name, v string) bool {
	switch name {
	case "userdnattr", "groupdnattr":
		return true
	case "userattr":
		attribute, kind, _ := strings.Cut(v, "#")
		levels, _, _ := aci.ParentLevels(attribute)
		kind = strings.ToUpper(kind)
		return (kind == "USERDN" || kind == "GROUPDN") && len(levels) == 1 && levels[0] == 0
	}
	return false
}

func (q *question) minute() int {
	if q.Options.Zone == nil {
		return -1
	}
	at := q.id.Time.In(q.Options.Zone)
	return at.Hour()*100 + at.Minute()
}

func compare(op string, n int, text string) bool {
	m, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return false
	}
	switch op {
	case "=":
		return n == m
	case "!=":
		return n != m
	case "<":
		return n < m
	case "<=":
		return n <= m
	case ">":
		return n > m
	}
	return n >= m
}

// The method "is" reports whether the comparison of a keyword with one value is true.
func (q *question) is(name, v, matched string) bool {
	switch name {
	case "userdn":
		text, _ := aci.AfterURL(v)
		return q.isUser(text, matched)
	case "groupdn":
		text, _ := aci.AfterURL(v)
		return strings.EqualFold(text, "anyone") || slices.ContainsFunc(macroNames(text, matched), q.inGroup)
	case "userattr":
		return q.userAttr(v)
	case "userdnattr":
		return q.userAttr(v + "#USERDN")
	case "groupdnattr":
		return q.userAttr(v + "#GROUPDN")
	case "ip":
		return q.hasAddress(v)
	case "dayofweek":
		today := q.id.Time.Weekday().String()
		return slices.ContainsFunc(strings.Split(v, ","), func(d string) bool {
			d = strings.TrimSpace(d)
			return len(d) >= 3 && strings.EqualFold(d[:3], today[:3])
		})
	case "authmethod":
		return q.hasMethod(strings.ToLower(v))
	case "secure":
		return strings.EqualFold(v, "true") == (q.id.Secure || q.id.Local)
	}
	return false
}

func (q *question) hasAddress(v string) bool {
	return slices.ContainsFunc(strings.Split(v, ","), func(s string) bool {
		if s = strings.TrimSpace(s); s == "*" {
			return true
		}
		var n netip.Prefix
		n, ok := aci.ParseNetwork(s)
		return ok && q.id.Address.IsValid() && n.Contains(q.id.Address.Unmap())
	})
}

func (q *question) hasMethod(v string) bool {
	bound := len(q.id.Name) > 0
	switch v {
	case "none":
		return true
	case "simple":
		return bound && q.id.Mechanism == "simple"
	case "ssl":
		return q.id.Mechanism == "external" && !q.id.Local
	case "ldapi":
		return q.id.Local
	}
	m, ok := strings.CutPrefix(v, "sasl")
	return ok && q.id.Mechanism == strings.TrimSpace(m)
}

func (q *question) isUser(text, matched string) bool {
	sch := q.Options.Schema
	switch strings.ToLower(text) {
	case "anyone":
		return true
	case "all":
		return len(q.id.Name) > 0
	case "self":
		return len(q.id.Name) > 0 && draft.Same(sch, q.id.Name, q.entry.Name)
	case "parent":
		return len(q.id.Name) > 0 && len(q.entry.Name) > 1 && draft.Same(sch, q.id.Name, q.entry.Name.Parent())
	}
	switch {
	case len(q.id.Name) == 0:
		return false
	case strings.Contains(text, "?"):
		return q.byURL(text)
	}
	return slices.ContainsFunc(macroNames(text, matched), func(name string) bool {
		switch {
		case strings.Contains(name, "*") && q.Options.Dialect == aci.DS389:
			return matchDN(name, plainDN(q.id.Name), true)
		case strings.Contains(name, "*"):
			return matchRDNs(sch, name, q.id.Name, false)
		}
		d, err := dn.Parse(name)
		return err == nil && draft.Same(sch, d, q.id.Name)
	})
}

func (q *question) byURL(text string) bool {
	parts := append(strings.Split(text, "?"), "", "", "")
	base, err := dn.Parse(parts[0])
	if err != nil || !draft.Within(q.Options.Schema, q.id.Name, base) {
		return false
	}
	below := len(q.id.Name) - len(base)
	switch strings.ToLower(parts[2]) {
	case "", "base":
		if below != 0 {
			return false
		}
	case "one":
		if below != 1 {
			return false
		}
	case "subordinate":
		if below == 0 {
			return false
		}
	}
	if parts[3] == "" {
		return true
	}
	f, err := draft.ParseFilter(parts[3])
	if err != nil || q.id.Entry == nil {
		return false
	}
	own := &filter.EntrySource{Schema: q.Options.Schema, Entry: q.id.Entry, Name: q.id.Name}
	return filter.Resolve(f, q.Options.Schema).Match(own) == filter.True
}

func (q *question) inGroup(name string) bool {
	d, err := dn.Parse(name)
	return err == nil && slices.ContainsFunc(q.id.Groups, func(g dn.DN) bool { return draft.Same(q.Options.Schema, g, d) })
}

// userAttr evaluates "manager#USERDN", "parent[0,1].owner#GROUPDN" and "ou#sales".
func (q *question) userAttr(v string) bool {
	name, value, _ := strings.Cut(v, "#")
	kind := strings.ToUpper(value)
	if kind != "USERDN" && kind != "GROUPDN" && kind != "SELFDN" {
		return has(q.entry.Entry, q.Options.Schema.Attribute(name), value) && q.id.Entry != nil && has(q.id.Entry, q.Options.Schema.Attribute(name), value)
	}
	levels, attribute, ok := aci.ParentLevels(name)
	t := q.Options.Schema.Attribute(attribute)
	if !ok || t == nil || len(q.id.Name) == 0 {
		return false
	}
	return slices.ContainsFunc(levels, func(level int) bool {
		e := q.entry.Entry
		if level > 0 {
			if level >= len(q.entry.Name) {
				return false
			}
			e = q.Find(q.entry.Name[level:])
		}
		if e == nil || level == 0 && q.right == aci.Add && kind != "SELFDN" {
			return false
		}
		if a := e.Find(t, ""); kind == "SELFDN" && a != nil && len(a.Values) > 1 {
			return false
		}
		return q.named(e, t, kind == "GROUPDN")
	})
}

func has(e *entry.Entry, t *schema.AttributeType, value string) bool {
	return t != nil && e != nil && slices.ContainsFunc(e.Attributes, func(a entry.Attribute) bool {
		return a.Type == t && slices.ContainsFunc(a.Values, func(v []byte) bool { return t.SameValue(v, []byte(value)) })
	})
}

// named reports whether an attribute of an entry names the identity. If group is set, it
// reports instead whether the attribute names a group that the identity is in.
func (q *question) named(e *entry.Entry, t *schema.AttributeType, group bool) bool {
	return slices.ContainsFunc(e.Attributes, func(a entry.Attribute) bool {
		return a.Type == t && slices.ContainsFunc(a.Values, func(v []byte) bool {
			if group {
				return q.inGroup(string(v))
			}
			d, err := dn.Parse(string(v))
			return err == nil && draft.Same(q.Options.Schema, d, q.id.Name)
		})
	})
}

// matchMacro matches the name of an entry with a target that contains ($dn), and returns
// the part of the name that ($dn) matched. In the target, a text precedes ($dn), and
// another text follows it. The part begins after the first occurrence of the preceding
// text. The name must end with the following text.
func matchMacro(pattern, name string) (matched string, ok bool) {
	before, after, _ := strings.Cut(strings.ReplaceAll(pattern, ", ", ","), "($dn)")
	if after = strings.TrimPrefix(after, ","); after != "" {
		if name, ok = strings.CutSuffix(name, ","+after); !ok {
			return "", false
		}
	}
	if before == "" {
		return name, name != ""
	}
	if strings.Contains(before, "=*") {
		return matchPrefix(strings.Split(strings.TrimSuffix(before, ","), ","), strings.Split(name, ","))
	}
	i := strings.Index(name, before)
	if i < 0 || i+len(before) >= len(name) {
		return "", false
	}
	return name[i+len(before):], true
}

// matchPrefix matches RDNs with wildcards at the beginning of a name, and returns the
// rest.
func matchPrefix(patterns, rdns []string) (string, bool) {
	if len(rdns) <= len(patterns) {
		return "", false
	}
	for i, p := range patterns {
		if !matchText(p, rdns[i]) {
			return "", false
		}
	}
	return strings.Join(rdns[len(patterns):], ","), true
}

// macroNames expands the macros in a name of a bind rule. ($dn) becomes the part that
// matched in the target. [$dn] becomes that part and each of its superiors in turn, so the
// result may be several names.
func macroNames(text, matched string) []string {
	low := strings.ToLower(text)
	if !strings.Contains(low, "$dn") {
		return []string{text}
	}
	if matched == "" {
		return nil
	}
	low = strings.ReplaceAll(low, "($dn)", matched)
	if !strings.Contains(low, "[$dn]") {
		return []string{low}
	}
	var all []string
	for rdns := strings.Split(matched, ","); len(rdns) > 0; rdns = rdns[1:] {
		all = append(all, strings.ReplaceAll(low, "[$dn]", strings.Join(rdns, ",")))
	}
	return slices.Clip(all)
}

// plainDN returns a name in lower case, without spaces between its parts.
func plainDN(d dn.DN) string { return strings.ToLower(d.String()) }

// matchDN reports whether a name matches a pattern as in 389 Directory Server: * stands
// for any text. If whole is set, the pattern must match the whole name; otherwise it need
// only match the end of the name.
func matchDN(pattern, name string, whole bool) bool {
	if parsed, err := dn.Parse(pattern); err == nil {
		pattern = plainDN(parsed)
	} else if first, after, ok := strings.Cut(pattern, ","); ok {
		parsed, err := dn.Parse(after)
		if err != nil {
			return false
		}
		pattern = strings.ToLower(strings.TrimSpace(first)) + "," + plainDN(parsed)
	}
	if !whole {
		pattern = "*" + pattern
	}
	return matchText(pattern, name)
}

// matchText reports whether a text matches a pattern in which * stands for any text.
func matchText(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
