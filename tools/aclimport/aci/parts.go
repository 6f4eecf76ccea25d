package aci

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// partsIn contains parts of a rule, and the entries to which these parts apply.
type partsIn struct {
	parts []acl.Part
	in    *acl.What
}

// list is a list of attributes in the form of a rule: attributes, and exceptions from
// them.
type list struct {
	in, except []string
	also       []string // attributes that the rule lists although they are subtypes of excepted attributes
	star       bool     // all attributes
}

// parts translates the rights and attributes of a clause into parts of rules.
func (t *translation) parts(c *Clause, in *acl.What) (all []partsIn) {
	own := partsIn{in: in}
	l := t.list(c)
	values := acl.Rights(0)
	for theirs, ours := range map[Rights]acl.Rights{Read: acl.Show, Search: acl.Search, Compare: acl.Compare} {
		if c.Rights&theirs != 0 {
			values |= ours
		}
	}
	if values&(acl.Search|acl.Compare) == acl.Search|acl.Compare {
		values |= acl.See // so that the rule can use the word "read" or "find"
	}
	insert, remove := t.valueFilters(c)
	if c.Rights&Write != 0 && insert == nil && remove == nil {
		values |= acl.Write
	}
	own.add(values, l, nil)
	if c.Rights&Write != 0 && (insert != nil || remove != nil) {
		own.add(acl.Insert, l, insert)
		own.add(acl.Remove, l, remove)
	}
	if c.Rights&SelfWrite != 0 && c.Rights&Write == 0 {
		own.selfWrite(t, l)
	}
	if e := t.entryRights(c, l); e != 0 {
		own.parts = append(own.parts, acl.Part{Rights: e})
	}
	if len(own.parts) > 0 {
		all = append(all, own)
	}
	return append(all, t.moves(c, in)...)
}

// add adds a part for a list of attributes. The parameter values contains the attributes of
// which the part selects only some values.
func (p *partsIn) add(rights acl.Rights, l *list, values []acl.Attribute) {
	if rights == 0 || l == nil && values == nil {
		return
	}
	chosen := func(name string) bool {
		return slices.ContainsFunc(values, func(a acl.Attribute) bool { return strings.EqualFold(a.Description, name) })
	}
	part, also := acl.Part{Rights: rights}, acl.Part{Rights: rights, Attributes: values}
	if l != nil {
		for _, n := range l.in {
			if !chosen(n) {
				part.Attributes = append(part.Attributes, acl.Attribute{Description: n})
			}
		}
		for _, n := range l.except {
			part.Except = append(part.Except, acl.Attribute{Description: n})
		}
		for _, n := range l.also {
			if !chosen(n) {
				also.Attributes = append(also.Attributes, acl.Attribute{Description: n})
			}
		}
	}
	for _, v := range values {
		part.Except = append(part.Except, acl.Attribute{Description: v.Description})
	}
	if len(part.Except) == 0 || len(part.Attributes) == 0 {
		part.Attributes, part.Except = append(part.Attributes, also.Attributes...), nil
		also.Attributes = nil
	}
	for _, q := range []acl.Part{part, also} {
		if len(q.Attributes) > 0 {
			p.parts = append(p.parts, q)
		}
	}
}

// list returns the attributes of the value's targetattr, or nil if the value has no
// targetattr.
func (t *translation) list(c *Clause) *list {
	a := t.aci.Attributes
	if a == nil {
		return nil
	}
	l := &list{}
	var names []string
	for _, n := range a.Names {
		if !draft.IsDescription(n) && strings.Trim(n, "*+") != "" && !draft.IsDescription(strings.ReplaceAll(n, "*", "")) {
			t.out.Note(draft.Near, "%s is no attribute description (RFC 4512, 2.5), so that no entry has it here", n)
			continue
		}
		for _, name := range t.names(n) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if a.Not {
		t.allExcept(l, names)
	} else {
		for _, n := range names {
			l.addName(t.o.Schema, n, names)
		}
	}
	stars := slices.Contains(l.in, "*")
	l.star = stars && len(l.except) == 0
	if stars {
		t.reserved(c, l)
	}
	return l
}

// names translates a word of targetattr. For * in 389 Directory Server, it returns * and +. For
// a word with wildcards, it returns the names of the attributes that match. It returns any
// other word unchanged.
func (t *translation) names(n string) []string {
	if n == "*" && t.o.Dialect == DS389 {
		return []string{"*", "+"}
	}
	if n == "*" || n == "+" || !strings.Contains(n, "*") {
		return []string{n}
	}
	var all []string
	for _, typ := range t.o.Schema.Attributes() {
		if matchText(strings.ToLower(n), strings.ToLower(typ.SentName())) {
			all = append(all, typ.SentName())
		}
	}
	t.out.Note(draft.Near, "%s stands for the attributes that match it in the present schema", n)
	return all
}

// addName adds an attribute, and excepts the attribute's subtypes: a name in a rule
// includes subtypes, and a name in targetattr does not.
func (l *list) addName(sch *schema.Schema, name string, all []string) {
	l.in = append(l.in, name)
	l.except = append(l.except, subtypes(sch, name, all)...)
}

// subtypes returns those subtypes of the named attribute that are not in the list all. It
// leaves out collective attributes.
func subtypes(sch *schema.Schema, name string, all []string) (names []string) {
	typ, _ := sch.Describe(name)
	if typ == nil {
		return nil
	}
	for _, sub := range sch.Subtypes(typ) {
		listed := slices.ContainsFunc(all, func(n string) bool { return sch.Attribute(n) == sub })
		if sub != typ && !sub.Collective && !listed {
			names = append(names, sub.SentName())
		}
	}
	return names
}

// allExcept sets the list to all attributes except the named ones. In OpenDJ, this
// includes the other user attributes only if one of the named attributes is a user
// attribute. The same holds for operational attributes.
func (t *translation) allExcept(l *list, names []string) {
	if t.o.Dialect == DS389 {
		l.in = []string{"*", "+"}
	} else {
		for _, n := range names {
			typ, _ := t.o.Schema.Describe(n)
			kind := "*"
			if n == "+" || typ != nil && typ.Operational() {
				kind = "+"
			}
			if !slices.Contains(l.in, kind) {
				l.in = append(l.in, kind)
			}
		}
	}
	for _, n := range names {
		if n == "*" || n == "+" {
			l.in = slices.DeleteFunc(l.in, func(s string) bool { return s == n })
			continue
		}
		l.except = append(l.except, n)
		l.also = append(l.also, subtypes(t.o.Schema, n, names)...)
	}
}

// reserved adds reserved attributes to a list that contains *, because * in a rule does not
// include them. It adds all of them if the option Reserved is set. Otherwise it adds those that
// originals mention, and only to a denial.
func (t *translation) reserved(c *Clause, l *list) {
	var add []string
	switch {
	case t.o.Reserved:
		for _, typ := range t.o.Schema.Attributes() {
			if acl.Reserved(typ) && typ.SentName() != "accessRule" && (typ.Operational() && slices.Contains(l.in, "+") || !typ.Operational()) {
				add = append(add, typ.SentName())
			}
		}
	case c.Deny:
		add = t.o.Mentioned
	}
	named := func(n string) bool {
		return slices.ContainsFunc(slices.Concat(l.in, l.except, l.also), func(s string) bool { return strings.EqualFold(s, n) })
	}
	for _, n := range add {
		if !named(n) {
			l.in = append(l.in, n)
		}
	}
}

// valueFilters returns the attributes of targattrfilters with their filters. The list
// insert contains the filters of values that may be added, and the list remove contains
// the filters of values that may be deleted.
func (t *translation) valueFilters(c *Clause) (insert, remove []acl.Attribute) {
	v := t.aci.Values
	if v == nil {
		return nil, nil
	}
	of := func(all []ValueFilter) (out []acl.Attribute) {
		for _, f := range all {
			if !draft.IsDescription(f.Attribute) {
				continue // not a description in this directory, so no entry has the attribute
			}
			a := acl.Attribute{Description: f.Attribute, Filter: f.Filter}
			if v.Not {
				a.Filter = &filter.Not{Filter: f.Filter}
			}
			if c.Rights&Write != 0 && !t.isAbout(f) {
				t.out.Note(draft.Near, "the filter %s is not only about values of %s", f.Filter, f.Attribute)
				if !c.Deny {
					continue
				}
				a.Filter = nil
			}
			out = append(out, a)
		}
		return out
	}
	return of(v.Add), of(v.Del)
}

// isAbout reports whether rules can express a filter of values: the filter tests only the
// attribute whose values it selects, and the attribute is not a secret and has no subtypes.
// A rule would include the subtypes.
func (t *translation) isAbout(f ValueFilter) bool {
	typ, _ := t.o.Schema.Describe(f.Attribute)
	if typ == nil {
		return true
	}
	if len(subtypes(t.o.Schema, f.Attribute, nil)) > 0 {
		return false
	}
	for test := range filter.Tests(filter.Resolve(f.Filter, t.o.Schema)) {
		if !slices.Contains(test.Types, typ) {
			return false
		}
	}
	return !typ.Secret()
}

// selfWrite adds a part that lets an identity add and delete its own name as a value.
func (p *partsIn) selfWrite(t *translation, l *list) {
	if l == nil {
		return
	}
	part := acl.Part{Rights: acl.Write}
	for _, n := range l.in {
		for _, typ := range t.o.Schema.Attributes() {
			if !isName(typ) || typ.Collective || slices.ContainsFunc(l.except, func(e string) bool { return t.o.Schema.Attribute(e) == typ }) {
				continue
			}
			if (n == "*" || n == "+") && len(subtypes(t.o.Schema, typ.SentName(), nil)) > 0 {
				continue // no entry has an attribute of such a type
			}
			base, _, _ := strings.Cut(n, ";")
			if n == "*" && !typ.Operational() || n == "+" && typ.Operational() && !acl.Reserved(typ) || t.o.Schema.Attribute(base) == typ {
				name := typ.SentName()
				if n != "*" && n != "+" {
					name = n
				}
				part.Attributes = append(part.Attributes, acl.Attribute{Description: name, Self: true})
				for _, sub := range subtypes(t.o.Schema, name, l.in) {
					part.Except = append(part.Except, acl.Attribute{Description: sub})
				}
			}
		}
	}
	if len(part.Attributes) > 0 {
		p.parts = append(p.parts, part)
	}
}

// isName reports whether the values of a type are names that clients write.
func isName(typ *schema.AttributeType) bool {
	if typ.Equality == nil || typ.NoUserModification {
		return false
	}
	n := typ.Equality.Name()
	return n == "distinguishedNameMatch" || n == "uniqueMemberMatch"
}

// entryRights returns the rights of a clause on entries.
func (t *translation) entryRights(c *Clause, l *list) (r acl.Rights) {
	if c.Rights&Add != 0 && t.wholeEntry(c, Add) {
		r |= acl.Add
	}
	if c.Rights&Delete != 0 && t.wholeEntry(c, Delete) {
		r |= acl.Delete
	}
	if c.Rights&Write != 0 && t.renames(c, l) {
		r |= acl.Rename
	}
	if c.Rights&Proxy != 0 {
		r |= t.proxy(c)
	}
	if !c.Deny {
		return r
	}
	const everything = Read | Search | Compare | Write
	switch {
	case t.aci.Attributes == nil && t.aci.Values == nil && c.Rights&Read != 0:
		r |= acl.See
		t.out.Note(draft.Near, "it hides the entry there, and leaves the attributes to who knows its name")
	case l != nil && l.star && c.Rights&everything == everything && t.aci.Values == nil && slices.Contains(l.in, "+"):
		r |= acl.See
	}
	return r
}

// wholeEntry reports whether the right to add or delete entries becomes part of a rule.
// Rules cannot say that all values of the entry have to match targattrfilters. So if an
// allow clause has such filters, wholeEntry returns false, and the rule lacks the right. If
// a deny clause has them, it returns true, and the rule denies the right for all entries.
func (t *translation) wholeEntry(c *Clause, r Rights) bool {
	v := t.aci.Values
	if v == nil || r == Add && v.Add == nil || r == Delete && v.Del == nil {
		return true
	}
	t.out.Note(draft.Near, "entries of which every value matches targattrfilters cannot be added or deleted by it")
	if !c.Deny && c.Rights&^(Add|Delete) == 0 {
		t.out.Note(draft.Not, "nothing is left of it")
	}
	return c.Deny
}

// naming are attributes that RDNs usually have.
var naming = []string{"cn", "uid", "ou", "o", "dc", "l", "st", "c", "sn"}

// renames reports whether a clause about writing is also about renaming. A rename writes
// the attributes of the new RDN, and deletes values of the old RDN.
func (t *translation) renames(c *Clause, l *list) bool {
	if t.aci.Values != nil {
		return c.Deny
	}
	if !c.Deny || l == nil {
		return l != nil && l.star || c.Deny
	}
	if slices.Contains(l.in, "*") {
		return true
	}
	return slices.ContainsFunc(l.in, func(n string) bool {
		return slices.ContainsFunc(naming, func(a string) bool { return strings.EqualFold(a, n) })
	})
}

// proxy returns the right to act as others, if it is translated. In 389 Directory Server,
// an identity needs the right on the entries that the operation accesses. By rules, the
// identity needs the right on the entry that it acts as.
func (t *translation) proxy(c *Clause) acl.Rights {
	if t.o.Dialect == OpenDJ || c.Deny {
		return acl.Proxy
	}
	if t.aci.Target != nil || t.aci.Filter != nil {
		t.out.Note(draft.Not, "proxy on some entries: there it is asked for at the entries of the operation, here at the entry that one acts as")
		return 0
	}
	t.out.Note(draft.Near, "proxy is asked for at the entry that one acts as, not at the entries of the operation")
	return acl.Proxy
}

// moves returns the parts about moving entries.
func (t *translation) moves(c *Clause, in *acl.What) (all []partsIn) {
	one := func(r acl.Rights, in *acl.What) {
		all = append(all, partsIn{parts: []acl.Part{{Rights: r}}, in: in})
	}
	if c.Rights&Export != 0 {
		one(acl.Move, in)
	}
	if c.Rights&Import != 0 {
		if t.aci.Filter != nil {
			t.out.Note(draft.Not, "import by a filter of the new superior")
		} else {
			one(acl.Receive, in)
		}
	}
	if c.Rights&ModDN != 0 {
		t.modDN(one, in, c.Deny)
	}
	return all
}

// modDN translates the right moddn of 389 Directory Server: to move entries from below
// target_from to below target_to.
func (t *translation) modDN(one func(acl.Rights, *acl.What), in *acl.What, deny bool) {
	a := t.aci
	if a.To != nil && a.From != nil || deny || a.To != nil && a.To.Not || a.From != nil && a.From.Not || a.Filter != nil {
		t.out.Note(draft.Not, "the rule cannot tell moves between two places from moves between others")
		t.out.More = t.out.More || deny
		return
	}
	move, receive := in, in
	for _, x := range []struct {
		target *Target
		what   **acl.What
	}{{a.From, &move}, {a.To, &receive}} {
		if x.target == nil {
			continue
		}
		found, ok := t.target(x.target.DN, false)
		if !ok || found == nil {
			t.out.Note(draft.Not, "a move to or from %q, which is not below the entry of the aci", x.target.DN)
			return
		}
		*x.what = nil
		if found.Pattern != "" || found.Scope != acl.Subtree {
			*x.what = &acl.What{Any: []acl.Target{*found}}
		}
	}
	t.out.Note(draft.Near, "entries are moved from below the entry of the aci only")
	one(acl.Move, move)
	one(acl.Receive, receive)
}
