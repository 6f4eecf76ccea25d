package olc

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// The method "who" translates the Whos of a clause. The clause applies if all of them match.
func (t *translation) who(all []Who) draft.Expr {
	if len(all) == 1 {
		return t.one(&all[0])
	}
	var e draft.All
	for i := range all {
		e = append(e, t.one(&all[i]))
	}
	return e
}

func subject(k acl.SubjectKind) draft.Expr { return draft.Who(acl.Subject{Kind: k}) }

func atom(s acl.Subject) *draft.Atom { return &draft.Atom{Subject: &s} }

func (t *translation) one(w *Who) draft.Expr {
	switch w.Kind {
	case Any:
		return subject(acl.Everyone)
	case Anonymous:
		return subject(acl.Anonymous)
	case Users:
		return subject(acl.Users)
	case Self:
		switch w.Level {
		case 0:
			return subject(acl.Self)
		case 1:
			return subject(acl.ItsParent)
		}
		return draft.Unknown("self.level{%d}", w.Level)
	case DN:
		return t.named(w)
	case DNAttr:
		if !draft.IsDescription(w.Text) {
			return draft.Unknown("dnattr=%s", w.Text)
		}
		return draft.Who(acl.Subject{Kind: acl.Its, Attribute: w.Text})
	case Group:
		return t.group(w)
	case Peer:
		if w.Loose {
			return &draft.Leaf{Under: &draft.Atom{If: &acl.Condition{Kind: acl.Address, Network: w.Network}}, UnderIs: true, Why: "addresses that do not match peername.regex=" + w.Text}
		}
		return draft.If(acl.Condition{Kind: acl.Address, Network: w.Network})
	case Socket:
		return draft.If(acl.Condition{Kind: acl.Local})
	case SSF, TLSSSF:
		return strength(w)
	case Set:
		return t.set(w.Text)
	}
	return draft.Unknown("rules have no word for %s", w.Text)
}

func strength(w *Who) draft.Expr {
	if w.N == 0 {
		return draft.All{}
	}
	e := draft.If(acl.Condition{Kind: acl.SSF, SSF: w.N})
	if w.Kind == TLSSSF {
		return draft.All{e, draft.If(acl.Condition{Kind: acl.Local, Not: true})}
	}
	return e
}

// named translates a name, a name with $1, or a regular expression of names.
func (t *translation) named(w *Who) draft.Expr {
	var name dn.DN
	open := false
	scope := map[Style]acl.Scope{Exact: acl.Only, One: acl.Children, Subtree: acl.Subtree, Children: acl.Under}[w.Style]
	switch {
	case w.Style == Regex && !strings.Contains(w.Text, "$1") && !strings.Contains(w.Text, "${"):
		r, ok := parseRegex(w.Text)
		if !ok {
			return draft.Unknown("the regular expression %s", w.Text)
		}
		if name, open, scope = r.name, r.open, r.scope; r.crosses {
			return &draft.Leaf{Under: atom(t.below(name, true, scope)), Why: "wildcards in " + w.Text + " match commas there"}
		}
		if scope == acl.Only {
			name, _ = dn.Parse(unmarked(name.String()))
		}
	case w.Style == Regex:
		var ok bool
		if name, ok = expand(strings.TrimSuffix(strings.TrimPrefix(w.Text, "^"), "$")); !ok || strings.ContainsAny(w.Text, "[]()+|\\") {
			return draft.Unknown("the regular expression %s", w.Text)
		}
		scope, open = acl.Only, true
		if e, ok := t.unbound(name, w.Text); ok {
			return e
		}
	case w.Expand:
		var ok bool
		if name, ok = expand(w.Text); !ok {
			return draft.Unknown("the name %s", w.Text)
		}
		open = true
		if e, ok := t.unbound(name, w.Text); ok {
			return e
		}
	default:
		name, _ = dn.Parse(w.Text)
	}
	if len(name) == 0 {
		if scope == acl.Only {
			return subject(acl.Anonymous)
		}
		return draft.Unknown("names below the root")
	}
	return t.related(name, open, scope)
}

// unbound reports whether a name has a variable ($1, $2, ...) that does not stand for a
// whole value in the name of the directive's What. If so, unbound also returns the
// expression that replaces the name. If the What is a regular expression, this is an
// unknown condition. Otherwise it is an expression that holds for nobody.
func (t *translation) unbound(name dn.DN, text string) (draft.Expr, bool) {
	d := t.compiled
	for i, n := range strings.Split(name.String(), marker) {
		if i%2 == 1 && !strings.Contains(d.name.String(), marker+n+marker) {
			if d.What.Style == Regex {
				return draft.Unknown("%s, where $%s is not one value of the name", text, n), true
			}
			return draft.Any{}, true
		}
	}
	return nil, false
}

// The method "below" returns the subject for the identities in a scope of a name. For the scope
// Only, the subject is the name itself.
func (t *translation) below(name dn.DN, open bool, scope acl.Scope) acl.Subject {
	text := acl.EscapeName(name.String())
	if open {
		text = strings.ReplaceAll(name.String(), "{", `\7b`)
	}
	if scope == acl.Only {
		return acl.Subject{Kind: acl.Named, Name: text}
	}
	return acl.Subject{Kind: acl.Below, Name: text}
}

// related returns the expression for the identities in a scope of a name: the entry with
// the name, entries below the name, or both.
func (t *translation) related(name dn.DN, open bool, scope acl.Scope) draft.Expr {
	exactly := func(scope acl.Scope) draft.Expr {
		s := t.below(name, open, scope)
		if !strings.Contains(s.Name, marker) {
			return draft.Who(s)
		}
		over := s
		over.Name = unmarked(s.Name)
		return &draft.Leaf{Under: atom(s), Over: atom(over), UnderIs: true, Why: "who is not " + over.String() + " by a part of the name"}
	}
	switch scope {
	case acl.Only, acl.Under:
		return exactly(scope)
	case acl.Subtree:
		return draft.Any{exactly(acl.Only), exactly(acl.Under)}
	}
	return &draft.Leaf{Over: atom(t.below(name, open, acl.Under)), Why: "identities directly below " + name.String()}
}

// group translates a group, whose members are values of member or uniqueMember.
func (t *translation) group(w *Who) draft.Expr {
	if a := strings.ToLower(w.Attribute); a != "" && a != "member" && a != "uniquemember" {
		return draft.Unknown("a group by its attribute %s", w.Attribute)
	}
	if !w.Expand {
		d, _ := dn.Parse(w.Text)
		if len(d) == 0 {
			return draft.Unknown("the group %q", w.Text)
		}
		return draft.Who(acl.Subject{Kind: acl.Group, Name: acl.EscapeName(d.String())})
	}
	d, ok := expand(w.Text)
	if !ok || len(d) == 0 {
		return draft.Unknown("the group %q", w.Text)
	}
	if e, ok := t.unbound(d, w.Text); ok {
		return e
	}
	s := acl.Subject{Kind: acl.Group}
	s.Name = strings.ReplaceAll(d.String(), "{", `\7b`)
	over := s
	over.Name = unmarked(s.Name)
	return &draft.Leaf{Under: atom(s), Over: atom(over), UnderIs: true, Why: "who is not in " + over.String() + " by a part of the name"}
}

// set translates those set expressions that rules have subjects for.
func (t *translation) set(text string) draft.Expr {
	left, right, ok := strings.Cut(strings.Join(strings.Fields(text), " "), "&")
	left, right = strings.TrimSpace(left), strings.TrimSpace(right)
	if right != "user" && left == "user" || strings.HasPrefix(left, "user/") {
		left, right = right, left
	}
	if !ok || strings.ContainsAny(left+right, "|&()") {
		return draft.Unknown("set=%q", text)
	}
	if right == "user" {
		return t.setOfUsers(left, text)
	}
	attribute, isUser := strings.CutPrefix(right, "user/")
	if value, ok := strings.CutPrefix(left, "["); ok && isUser && draft.IsDescription(attribute) && strings.HasSuffix(value, "]") {
		var users draft.Any
		f := filter.EqualTo(attribute, strings.TrimSuffix(value, "]"))
		for _, c := range draft.Contexts(t.o.Contexts, t.place) {
			users = append(users, draft.Who(acl.Subject{Kind: acl.Below, Name: acl.EscapeName(c.String()), Filter: f}))
		}
		if len(users) > 0 {
			return users
		}
	}
	if same, ok := strings.CutPrefix(left, "this/"); ok && isUser && strings.EqualFold(same, attribute) && draft.IsDescription(attribute) {
		return draft.Who(acl.Subject{Kind: acl.Same, Attribute: attribute})
	}
	return draft.Unknown("set=%q", text)
}

// setOfUsers translates "left & user".
func (t *translation) setOfUsers(left, text string) draft.Expr {
	if name, ok := strings.CutPrefix(left, "["); ok {
		name, attribute, _ := strings.Cut(name, "]/")
		d, err := dn.Parse(name)
		a := strings.ToLower(strings.TrimSuffix(attribute, "*"))
		if err == nil && len(d) > 0 && (a == "member" || a == "uniquemember") {
			return draft.Who(acl.Subject{Kind: acl.Group, Name: acl.EscapeName(d.String())})
		}
		return draft.Unknown("set=%q", text)
	}
	parts := strings.Split(left, "/")
	if parts[0] != "this" {
		return draft.Unknown("set=%q", text)
	}
	s := acl.Subject{Kind: acl.Its}
	parts = parts[1:]
	if len(parts) > 0 && parts[0] == "-1" {
		s.Kind = acl.ItsParents
		parts = parts[1:]
	}
	if len(parts) == 2 && slices.Contains([]string{"member", "member*", "uniquemember", "uniquemember*"}, strings.ToLower(parts[1])) {
		s.Group = true
		parts = parts[:1]
	}
	switch {
	case len(parts) == 0 && s.Kind == acl.Its:
		return subject(acl.Self)
	case len(parts) == 0:
		return subject(acl.ItsParent)
	case len(parts) == 1 && draft.IsDescription(parts[0]):
		s.Attribute = parts[0]
		return draft.Who(s)
	}
	return draft.Unknown("set=%q", text)
}
