package acl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Difference is a set of rights that some identities have under only one of two sets of
// rules.
type Difference struct {
	Gained bool
	// Rights are the rights, each with its attributes: "read cn, sn".
	Rights []string
	// Where describes the identities that gain or lose the rights, and the entries, values and
	// connections to which the difference is limited. The difference exists wherever at least one
	// element of Where holds.
	Where []string
}

// String returns the rights on one line, and each element of Where on a separate line.
func (d Difference) String() string {
	sign := "-"
	if d.Gained {
		sign = "+"
	}
	return sign + " " + strings.Join(d.Rights, "; ") + "\n    " + strings.Join(d.Where, "\n    ")
}

// A typePiece is a set of attribute types for which all rules grant the same rights.
type typePiece struct {
	text string
	typ  *schema.AttributeType
}

// A comparison compares two sets of rules. Index 0 is the old set, and index 1 is the new
// set.
type comparison struct {
	*atoms
	rules [2][]*compiled
	where [2][]node // the functions that are true where the rules apply
	found []change
}

// A change is a right that only one of the two sets grants.
type change struct {
	gained bool
	where  node
	right  Rights
	what   string // attribute types or used names; "": the entry itself
}

// Diff returns the rights that identities have under only one of two sets of rules. Both
// sets must have the same schema. Diff knows only relations between conditions that follow
// from the conditions themselves, for example that one subtree contains another. Groups,
// filters, and names with * or {t} may overlap in ways that Diff does not know. So Diff may
// describe combinations of conditions that do not occur.
func Diff(from, to *Set) ([]Difference, error) { return compareSets(from, to).differences() }

func compareSets(from, to *Set) *comparison {
	c := &comparison{atoms: newAtoms()}
	c.rules[0], c.rules[1] = from.different(to), to.different(from)
	if len(c.rules[0])+len(c.rules[1]) == 0 {
		return c
	}
	changed := slices.Concat(c.rules[0], c.rules[1])
	for _, r := range from.rules {
		if !slices.Contains(c.rules[0], r) && meetsAny(r, changed) {
			c.rules[0], c.rules[1] = append(c.rules[0], r), append(c.rules[1], r)
		}
	}
	for i := range c.rules {
		for _, r := range c.rules[i] {
			c.where[i] = append(c.where[i], c.holds(r))
		}
	}
	c.entries()
	c.attributes(from, to)
	c.uses()
	return c
}

// different returns the rules of s that o does not contain.
func (s *Set) different(o *Set) (all []*compiled) {
	there := map[string]bool{}
	for _, r := range o.rules {
		there[r.Placed.String()] = true
	}
	for _, r := range s.rules {
		if !there[r.Placed.String()] {
			all = append(all, r)
		}
	}
	return all
}

// meetsAny reports whether some entry may be a target both of r and of a rule in others.
func meetsAny(r *compiled, others []*compiled) bool {
	return slices.ContainsFunc(others, func(o *compiled) bool {
		return slices.ContainsFunc(r.in, func(t target) bool {
			return slices.ContainsFunc(o.in, func(x target) bool { return !t.apart(&x) })
		})
	})
}

// balance returns the functions that are true where the rules of a set allow a right, and
// where they deny it. The call gives(p, deny) must return the function that is true where
// the part p of a rule contains the right; deny is set if the rule is a deny rule.
func (c *comparison) balance(set int, gives func(p *part, deny bool) node) (allow, deny node) {
	for i, r := range c.rules[set] {
		parts := falseNode
		for j := range r.parts {
			parts = c.or(parts, gives(&r.parts[j], r.Rule.Deny))
		}
		if f := c.and(c.where[set][i], parts); r.Rule.Deny {
			deny = c.or(deny, f)
		} else {
			allow = c.or(allow, f)
		}
	}
	return allow, deny
}

// onEntry returns the function that is true where a set grants a right on the entry
// itself.
func (c *comparison) onEntry(set int, right Rights) node {
	allow, deny := c.balance(set, func(p *part, deny bool) node {
		return boolNode(p.withSee(deny)&right != 0)
	})
	f := c.butNot(allow, deny)
	if right != Manage {
		f = c.or(f, c.onEntry(set, Manage))
	}
	return f
}

func boolNode(b bool) node {
	if b {
		return trueNode
	}
	return falseNode
}

// onValues returns the function that is true where a set grants a right on values of the
// type t.
func (c *comparison) onValues(set int, right Rights, t *typePiece) node {
	allow, deny := c.balance(set, func(p *part, _ bool) node {
		if p.rights&right == 0 {
			return falseNode
		}
		return c.values(p, t)
	})
	administrators := trueNode
	if t.typ.Secret() && right&(Insert|Remove|Compare) == 0 {
		administrators = allow
	}
	return c.ifElse(c.onEntry(set, Manage), administrators, c.butNot(allow, deny))
}

func (c *comparison) entries() {
	for _, right := range EntryRights.Each() {
		c.compare(right, "", func(set int) node { return c.onEntry(set, right) })
	}
}

func (c *comparison) attributes(from, to *Set) {
	types := slices.Concat(from.named, to.named)
	pieces := []typePiece{{"other user attributes", &schema.AttributeType{}}, {"other operational attributes", &schema.AttributeType{Usage: schema.DirectoryOperation}}}
	seen := map[*schema.AttributeType]bool{}
	for _, t := range types {
		if !seen[t] {
			pieces = append(pieces, typePiece{t.Name(), t})
		}
		seen[t] = true
	}
	for i := range pieces {
		for _, right := range AttributeRights.Each() {
			c.compare(right, pieces[i].text, func(set int) node { return c.onValues(set, right, &pieces[i]) })
		}
	}
}

// uses compares the right "use" of the two sets. It compares this right for each name that a
// rule contains, and once for all other names.
func (c *comparison) uses() {
	names := []string{"*"}
	for _, r := range slices.Concat(c.rules[0], c.rules[1]) {
		for i := range r.parts {
			names = append(names, slices.Concat(r.parts[i].uses, r.parts[i].usesNot)...)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		c.compare(Use, strings.Replace(name, "*", "all that no rule names", 1), func(set int) node {
			allow, deny := c.balance(set, func(p *part, _ bool) node {
				return boolNode(p.use([]string{name}))
			})
			return c.butNot(allow, deny)
		})
	}
}

// compare records under which conditions only one of the sets grants a right. f must
// return the function that is true where a set grants the right.
func (c *comparison) compare(right Rights, what string, f func(set int) node) {
	before, after := f(0), f(1)
	if gained := c.butNot(after, before); gained != falseNode {
		c.found = append(c.found, change{true, gained, right, what})
	}
	if lost := c.butNot(before, after); lost != falseNode {
		c.found = append(c.found, change{false, lost, right, what})
	}
}

// differences returns the differences that compare has found. Changes that hold under the same
// conditions are combined in one Difference.
func (c *comparison) differences() (all []Difference, err error) {
	type key struct {
		gained bool
		where  node
	}
	var order []key
	by := map[key][]change{}
	for _, x := range c.found {
		k := key{x.gained, x.where}
		if by[k] == nil {
			order = append(order, k)
		}
		by[k] = append(by[k], x)
	}
	for _, k := range order {
		possible := c.possible(c.depends(k.where))
		d := Difference{Gained: k.gained, Rights: rightsTexts(by[k])}
		for _, x := range c.cubes(c.and(k.where, possible), c.or(k.where, c.not(possible))) {
			d.Where = append(d.Where, c.text(x))
		}
		if len(d.Where) > 0 {
			all = append(all, d)
		}
	}
	if c.failed != nil {
		return nil, c.failed
	}
	return all, nil
}

// rightsTexts returns one text for each set of rights, with the attributes that the
// rights apply to. It combines rights on the same attributes.
func rightsTexts(all []change) (texts []string) {
	var order []string
	rights := map[string]Rights{}
	for _, x := range all {
		if rights[x.what] == 0 {
			order = append(order, x.what)
		}
		rights[x.what] |= x.right
	}
	var sets []Rights
	on := map[Rights][]string{}
	for _, what := range order {
		r := rights[what]
		if on[r] == nil {
			sets = append(sets, r)
		}
		on[r] = append(on[r], what)
	}
	for _, r := range sets {
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s %s", r, strings.Join(on[r], ", "))))
	}
	return texts
}

// text returns a conjunction in the word order of a rule.
func (c *comparison) text(x cube) string {
	words := map[atomKind][]string{}
	for v := range c.all {
		if is, ok := x[v]; ok {
			text := c.all[v].text
			if !is {
				text = "not " + text
			}
			words[c.all[v].kind] = append(words[c.all[v].kind], text)
		}
	}
	s := "everyone"
	if who := slices.Concat(words[ofJoint], words[ofWho]); len(who) > 0 {
		s = strings.Replace(strings.Join(who, " and "), "not anonymous", "users", 1)
	}
	for _, part := range []struct {
		before string
		words  []string
	}{{" in ", slices.Concat(words[ofPlace], words[ofFilter])}, {" of the values ", words[ofValues]}, {" if ", words[ofConnection]}} {
		if len(part.words) > 0 {
			s += part.before + strings.Join(part.words, " and ")
		}
	}
	return s
}
