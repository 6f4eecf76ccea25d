package aci

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// A binder translates bind rules. adding is set if the bind rule belongs to a permission
// that consists of the right to add entries.
type binder struct {
	*translation
	adding bool
}

func (b *binder) bind(r Bind) draft.Expr {
	switch r := r.(type) {
	case *And:
		return draft.All{b.bind(r.Left), b.bind(r.Right)}
	case *Or:
		return draft.Any{b.bind(r.Left), b.bind(r.Right)}
	case *Not:
		return &draft.Negation{Expr: b.bind(r.Bind)}
	}
	k := r.(*Keyword)
	var e draft.Any
	for _, v := range k.Values {
		e = append(e, b.value(k, v))
	}
	if k.Op == "!=" && k.Name != "timeofday" && k.Name != "ssf" {
		return &draft.Negation{Expr: e}
	}
	return e
}

// value translates the comparison of a keyword with one of its values. Except for timeofday
// and ssf, it does so as if the operator were =, and the caller negates the result for !=.
func (b *binder) value(k *Keyword, v string) draft.Expr {
	switch k.Name {
	case "userdn":
		return b.userDN(v)
	case "groupdn":
		return b.groupDN(v)
	case "userattr":
		return b.userAttr(v)
	case "userdnattr":
		return b.userAttr(v + "#USERDN")
	case "groupdnattr":
		return b.userAttr(v + "#GROUPDN")
	case "ip":
		return addresses(v)
	case "timeofday":
		return b.time(k.Op, v)
	case "dayofweek":
		return days(v)
	case "authmethod":
		return method(v)
	case "ssf":
		return strength(k.Op, v)
	case "secure":
		if strings.EqualFold(v, "false") {
			return draft.If(acl.Condition{Kind: acl.Secure, Not: true})
		}
		return draft.If(acl.Condition{Kind: acl.Secure})
	}
	return draft.Unknown("rules have no word for %s", k.Name)
}

func subject(k acl.SubjectKind) draft.Expr { return draft.Who(acl.Subject{Kind: k}) }

func (b *binder) userDN(v string) draft.Expr {
	text, _ := AfterURL(v)
	switch strings.ToLower(text) {
	case "anyone":
		return subject(acl.Everyone)
	case "all":
		return subject(acl.Users)
	case "self":
		return subject(acl.Self)
	case "parent":
		return subject(acl.ItsParent)
	}
	switch {
	case strings.Contains(text, "($"), strings.Contains(text, "[$"):
		return draft.Unknown("a macro in userdn %q", text)
	case strings.Contains(text, "?"):
		return userURL(text)
	case isPattern(text):
		return b.userPattern(text)
	}
	d, err := dn.Parse(text)
	if err != nil || len(d) == 0 {
		return draft.Unknown("the userdn %q is not a DN", text)
	}
	return draft.Who(acl.Subject{Kind: acl.Named, Name: acl.EscapeName(d.String())})
}

// userURL translates a userdn of the form base?attributes?scope?filter.
func userURL(text string) draft.Expr {
	parts := append(strings.Split(text, "?"), "", "", "")
	base, err := dn.Parse(parts[0])
	if err != nil || len(base) == 0 {
		return draft.Unknown("the userdn %q is no name below which users are", text)
	}
	name := acl.EscapeName(base.String())
	var f filter.Filter
	if s := strings.TrimSpace(parts[3]); s != "" {
		if f, err = draft.ParseFilter(s); err != nil {
			return draft.Unknown("the userdn %q has a malformed filter", text)
		}
		if p, ok := f.(*filter.Present); ok && strings.EqualFold(p.Attribute, "objectClass") {
			f = nil
		}
	}
	below := acl.Subject{Kind: acl.Below, Name: name, Filter: f}
	itself := draft.Who(acl.Subject{Kind: acl.Named, Name: name})
	switch scope := strings.ToLower(parts[2]); {
	case scope == "subordinate":
		return draft.Who(below)
	case scope == "sub" && f != nil:
		left := &draft.Leaf{Over: &draft.Atom{Subject: &acl.Subject{Kind: acl.Named, Name: name}}, Why: "the entry " + base.String() + " itself is left out"}
		return draft.Any{left, draft.Who(below)}
	case scope == "sub":
		return draft.Any{itself, draft.Who(below)}
	case (scope == "base" || scope == "") && f == nil:
		return itself
	}
	return &draft.Leaf{Over: &draft.Atom{Subject: &below}, Why: "users by the URL " + text}
}

func (b *binder) userPattern(text string) draft.Expr {
	w, ok := b.o.parseWild(text)
	if !ok {
		return draft.Unknown("the userdn %q has wildcards that the names in rules do not have", text)
	}
	tail := acl.EscapeName(w.tail().String())
	below := &draft.Atom{Subject: &acl.Subject{Kind: acl.Below, Name: tail}}
	switch {
	case len(w.tail()) == 0:
		below = &draft.Atom{Subject: &acl.Subject{Kind: acl.Users}}
	case w.any && w.open == 0 && w.deep:
		return draft.Is(*below)
	}
	why := "* in the userdn \"" + text + "\" matches commas there, so that users at other depths match too"
	if w.any {
		return &draft.Leaf{Over: below, Why: why}
	}
	named := &draft.Atom{Subject: &acl.Subject{Kind: acl.Named, Name: patternText(w.rdns)}}
	if b.o.Dialect == OpenDJ {
		return draft.Is(*named)
	}
	return &draft.Leaf{Under: named, Over: below, Why: why}
}

func (b *binder) groupDN(v string) draft.Expr {
	text, _ := AfterURL(v)
	switch {
	case strings.EqualFold(text, "anyone"):
		return subject(acl.Everyone)
	case strings.Contains(text, "($"), strings.Contains(text, "[$"):
		return draft.Unknown("a macro in groupdn %q", text)
	case strings.Contains(text, "?"):
		return draft.Unknown("groups by the URL %s", text)
	case isPattern(text):
		return draft.Unknown("groups by the pattern %s", text)
	}
	d, err := dn.Parse(text)
	if err != nil || len(d) == 0 {
		return draft.Unknown("the groupdn %q is not a DN", text)
	}
	return draft.Who(acl.Subject{Kind: acl.Group, Name: acl.EscapeName(d.String())})
}

// readsEntry reports whether a bind rule may depend on attributes of the accessed entry.
// For the right to add an entry, the attributes of the new entry do not count.
func readsEntry(r Bind) bool {
	switch r := r.(type) {
	case *And:
		return readsEntry(r.Left) || readsEntry(r.Right)
	case *Or:
		return readsEntry(r.Left) || readsEntry(r.Right)
	case *Not:
		return readsEntry(r.Bind)
	}
	k := r.(*Keyword)
	return k.Name == "userattr" || k.Name == "userdnattr" || k.Name == "groupdnattr"
}

// ParentLevels splits "parent[0,1].manager" into levels and attribute.
func ParentLevels(text string) (levels []int, attribute string, ok bool) {
	rest, found := strings.CutPrefix(text, "parent[")
	if !found {
		return []int{0}, text, true
	}
	inside, attribute, ok := strings.Cut(rest, "].")
	for s := range strings.SplitSeq(inside, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 0 {
			return nil, "", false
		}
		levels = append(levels, n)
	}
	return levels, attribute, ok
}

func (b *binder) userAttr(v string) draft.Expr {
	name, value, _ := strings.Cut(v, "#")
	kind := strings.ToUpper(value)
	if kind != "USERDN" && kind != "GROUPDN" && kind != "SELFDN" {
		return b.sharedValue(name, value)
	}
	levels, attribute, ok := ParentLevels(name)
	if !ok || strings.Contains(attribute, ";") || !draft.IsDescription(attribute) {
		return draft.Unknown("userattr %q", v)
	}
	if t := b.o.Schema.Attribute(attribute); kind == "SELFDN" && (t == nil || !t.SingleValue) {
		return draft.Unknown("userattr %q, which is about an attribute of one value", v)
	}
	if b.adding && kind != "SELFDN" {
		levels = slices.DeleteFunc(levels, func(n int) bool { return n == 0 })
		if len(levels) == 0 {
			return &draft.Leaf{Undefined: true}
		}
	}
	var e draft.Any
	for _, level := range levels {
		s := acl.Subject{Kind: acl.Its, Group: kind == "GROUPDN", Attribute: attribute}
		switch {
		case level == 1:
			s.Kind = acl.ItsParents
		case level > 1:
			e = append(e, draft.Unknown("whom an entry %d levels above names", level))
			continue
		}
		e = append(e, draft.Who(s))
	}
	return e
}

// sharedValue translates a userattr such as "ou#sales". This userattr matches if sales is
// a value of ou both in the identity's entry and in the accessed entry.
func (b *binder) sharedValue(attribute, value string) draft.Expr {
	if k := strings.ToUpper(value); k == "ROLEDN" || k == "LDAPURL" || !draft.IsDescription(attribute) {
		return draft.Unknown("userattr with %s", value)
	}
	f := filter.EqualTo(attribute, value)
	users := draft.Any{}
	for _, c := range draft.Contexts(b.o.Contexts, b.place) {
		users = append(users, draft.Who(acl.Subject{Kind: acl.Below, Name: acl.EscapeName(c.String()), Filter: f}))
	}
	if len(users) == 0 {
		return draft.Unknown("users in all naming contexts that have a value")
	}
	return draft.All{users, draft.Is(draft.Atom{Filter: f})}
}

func addresses(v string) draft.Expr {
	var all draft.Any
	for s := range strings.SplitSeq(v, ",") {
		if strings.TrimSpace(s) == "*" {
			return draft.All{}
		}
		n, ok := ParseNetwork(strings.TrimSpace(s))
		if !ok {
			return draft.Unknown("the address %q", s)
		}
		all = append(all, draft.If(acl.Condition{Kind: acl.Address, Network: n}))
	}
	return all
}

// ParseNetwork parses 10.1.2.3, 10.1.0.0/16, 10.1.0.0+255.255.0.0, 10.1.* and IPv6 addresses.
func ParseNetwork(s string) (netip.Prefix, bool) {
	if head, ok := strings.CutSuffix(s, ".*"); ok {
		for strings.HasSuffix(head, ".*") {
			head = strings.TrimSuffix(head, ".*")
		}
		parts := strings.Split(head, ".")
		if len(parts) > 3 {
			return netip.Prefix{}, false
		}
		s = head + strings.Repeat(".0", 4-len(parts)) + "/" + strconv.Itoa(8*len(parts))
	}
	if address, mask, masked := strings.Cut(s, "+"); masked {
		n, ok := draft.Network(address, mask)
		return n, ok && n.Addr().Is4()
	}
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(strings.Trim(s, "[]"))
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), err == nil
	}
	n, err := netip.ParsePrefix(s)
	return n.Masked(), err == nil
}

func (b *binder) time(op, v string) draft.Expr {
	n, err := strconv.Atoi(v)
	at := n/100*60 + n%100
	if err != nil || len(v) != 4 || n%100 > 59 || at < 0 || at >= 24*60 {
		return draft.Unknown("the time %q", v)
	}
	if b.o.Zone == nil {
		return draft.Unknown("timeofday is by the time zone of the old server, which is not known")
	}
	between := func(from, to int) draft.Expr {
		if from >= to {
			return draft.Any{}
		}
		if from == 0 && to == 24*60 {
			return draft.All{}
		}
		return draft.If(acl.Condition{Kind: acl.TimeOfDay, From: from, To: to, Zone: b.o.Zone})
	}
	switch op {
	case "=":
		return between(at, at+1)
	case "!=":
		return &draft.Negation{Expr: between(at, at+1)}
	case "<":
		return between(0, at)
	case "<=":
		return between(0, at+1)
	case ">":
		return between(at+1, 24*60)
	}
	return between(at, 24*60)
}

func days(v string) draft.Expr {
	var all draft.Any
	for s := range strings.SplitSeq(v, ",") {
		s = strings.ToLower(strings.TrimSpace(s))
		day := slices.IndexFunc([]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, func(d string) bool { return strings.HasPrefix(s, d) })
		if day < 0 {
			return draft.Unknown("the day %q", s)
		}
		all = append(all, draft.If(acl.Condition{Kind: acl.Weekday, From: day, To: day}))
	}
	return all
}

func method(v string) draft.Expr {
	mechanism := func(m string) draft.Expr {
		return draft.If(acl.Condition{Kind: acl.Mechanism, Mechanism: m})
	}
	switch s := strings.ToLower(v); {
	case s == "none":
		return draft.All{} // "none" means that any method will do
	case s == "simple":
		return draft.All{subject(acl.Users), mechanism("simple")}
	case s == "ssl":
		return draft.All{mechanism("external"), draft.If(acl.Condition{Kind: acl.Local, Not: true})}
	case s == "ldapi":
		return draft.If(acl.Condition{Kind: acl.Local})
	default:
		m, ok := strings.CutPrefix(s, "sasl")
		if m = strings.TrimSpace(m); !ok || m == "" || strings.ContainsAny(m, " \",()") {
			return draft.Unknown("the authmethod %q", v)
		}
		return mechanism(m)
	}
}

func strength(op, v string) draft.Expr {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > 1<<20 {
		return draft.Unknown("the ssf %q", v)
	}
	atLeast := func(n int) draft.Expr {
		if n == 0 {
			return draft.All{}
		}
		return draft.If(acl.Condition{Kind: acl.SSF, SSF: n})
	}
	not := func(e draft.Expr) draft.Expr { return &draft.Negation{Expr: e} }
	switch op {
	case "=":
		return draft.All{atLeast(n), not(atLeast(n + 1))}
	case "!=":
		return not(draft.All{atLeast(n), not(atLeast(n + 1))})
	case ">=":
		return atLeast(n)
	case ">":
		return atLeast(n + 1)
	case "<":
		return not(atLeast(n))
	}
	return not(atLeast(n + 1))
}
