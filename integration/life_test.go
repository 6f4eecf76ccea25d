package integration

import (
	"fmt"
	"slices"
	"strings"
)

// The tests of crashes do the same sequence of operations, called a life, to many
// entries. Each step of a life is one operation, and the state after each step is known.

const (
	peopleDN = "ou=people," + suffix
	alumniDN = "ou=alumni," + peopleDN
	staffDN  = "cn=admins,ou=groups," + suffix
)

// A person is an entry, and the step of its life that has been reached.
type person struct {
	uid          string
	tried, acked int // the last step that was tried, and the last acknowledged one
}

// life has the steps of a person's life, which are numbered from 1.
var life = []struct {
	name string
	do   func(d changer, p *person) error
}{
	{"add", func(d changer, p *person) error { return d.add(p.dn(1), p.attributes(1)) }},
	{"join", func(d changer, p *person) error { return d.insert(staffDN, "member", p.dn(1)) }},
	{"modify", func(d changer, p *person) error {
		changes := map[string][]string{}
		for _, name := range changed {
			changes[name] = p.attributes(3)[name]
		}
		return d.replace(p.dn(1), changes)
	}},
	{"rename", func(d changer, p *person) error { return d.rename(p.dn(1), "uid="+p.uid+"-x", alumniDN) }},
	{"delete", func(d changer, p *person) error { return d.remove(p.dn(4)) }},
}

// A changer makes changes of a directory, one in each call.
type changer interface {
	add(name string, attributes map[string][]string) error
	insert(name, attribute, value string) error
	replace(name string, attributes map[string][]string) error
	rename(name, rdn, parent string) error // rename deletes the old RDN's value
	remove(name string) error
}

// changed contains the attributes whose values the step "modify" replaces in one
// operation.
var changed = []string{"description", "title", "mail", "telephoneNumber"}

// dn returns the name that the person has after a step.
func (p *person) dn(step int) string {
	if step >= 4 {
		return "uid=" + p.uid + "-x," + alumniDN
	}
	return "uid=" + p.uid + "," + peopleDN
}

// attributes returns the attributes of the person's entry after a step. It returns nil
// if the entry does not exist then.
func (p *person) attributes(step int) map[string][]string {
	if step == 0 || step == 5 {
		return nil
	}
	as := map[string][]string{
		"objectClass":     {"inetOrgPerson", "organizationalPerson", "person", "top"},
		"uid":             {p.uid},
		"cn":              {p.uid, "Zoë " + p.uid},
		"sn":              {p.uid},
		"description":     {strings.Repeat("first ", 50)},
		"title":           {"first"},
		"mail":            {p.uid + "@example.com"},
		"telephoneNumber": {"+1 555 0100", "+1 555 0101"},
		"jpegPhoto":       {"\xff\xd8" + strings.Repeat(p.uid, 300) + "\xff\xd9"},
	}
	if step >= 3 {
		as["description"] = []string{strings.Repeat("second ", 100)}
		as["title"] = []string{"second"}
		as["mail"] = []string{p.uid + "@example.com", p.uid + "@example.org"}
		as["telephoneNumber"] = []string{"+1 555 0200"}
	}
	if step >= 4 {
		as["uid"] = []string{p.uid + "-x"}
	}
	return as
}

// live does the steps of the lives of people, one person after the other. Some lives end
// before their last step. live returns when the function next returns nil, or when a
// step fails.
func live(d changer, next func() *person, acked func(*person)) error {
	for n := 0; ; n++ {
		p := next()
		if p == nil {
			return nil
		}
		for step := 1; step <= len(life)-n%len(life); step++ {
			p.tried = step
			if err := life[step-1].do(d, p); err != nil {
				return fmt.Errorf("%s of %s: %w", life[step-1].name, p.uid, err)
			}
			p.acked = step
			acked(p)
		}
	}
}

// A sight is what a test found about people in a directory.
type sight struct {
	entries map[string]map[string][]string // by name
	members map[string]bool                // names of the members of staffDN
}

// operational has the attributes that every entry must have with exactly one value, whatever
// the value is.
var operational = []string{"entryUUID", "createTimestamp", "modifyTimestamp", "creatorsName", "modifiersName", "entryCSN", "structuralObjectClass"}

// see returns the latest step whose result for a person is what the directory shows. It
// considers only the steps with numbers from first to last.
func (s *sight) see(p *person, first, last int) (step int, ok bool) {
	for step := last; step >= first; step-- {
		if s.at(p, step) {
			return step, true
		}
	}
	return 0, false
}

// The method "at" reports whether the directory shows the result of a step of a person's life.
// The value of member follows the person: it changes with the name, and goes with the entry.
func (s *sight) at(p *person, step int) bool {
	for _, other := range []int{1, 4} {
		name := p.dn(other)
		var want map[string][]string
		if name == p.dn(step) {
			want = p.attributes(step)
		}
		if !whole(s.entries[name], want) {
			return false
		}
	}
	return s.members[p.dn(1)] == (step == 2 || step == 3) && s.members[p.dn(4)] == (step == 4)
}

// whole reports whether an entry has exactly the wanted values of the attributes in want, and
// the operational attributes. If want is nil, the entry must not exist.
func whole(e, want map[string][]string) bool {
	if e == nil || want == nil {
		return e == nil && want == nil
	}
	for _, name := range operational {
		if len(e[name]) != 1 {
			return false
		}
	}
	for name, values := range want {
		if got := slices.Sorted(slices.Values(e[name])); !slices.Equal(got, slices.Sorted(slices.Values(values))) {
			return false
		}
	}
	return true
}

// describe returns a description of a person's entries in the directory.
func (s *sight) describe(p *person) string {
	var b strings.Builder
	for _, step := range []int{1, 4} {
		if e := s.entries[p.dn(step)]; e != nil {
			fmt.Fprintf(&b, "%s with %d attributes and title %q, ", p.dn(step), len(e), e["title"])
		}
	}
	fmt.Fprintf(&b, "among the members by the first name: %t, by the second: %t", s.members[p.dn(1)], s.members[p.dn(4)])
	return b.String()
}

// strangers returns the names of the entries that belong to none of the people.
func (s *sight) strangers(people []*person) []string {
	known := map[string]bool{}
	for _, p := range people {
		known[p.dn(1)], known[p.dn(4)] = true, true
	}
	var names []string
	for name := range s.entries {
		if !known[name] {
			names = append(names, name)
		}
	}
	return names
}
