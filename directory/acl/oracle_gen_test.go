package acl_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A generator generates random cases. Its vocabulary is small, so that rules often match
// entries and identities.
type generator struct{ *rand.Rand }

var (
	treeNames = strings.Split(`dc=x;ou=people,dc=x;uid=ann,ou=people,dc=x;uid=bob,ou=people,dc=x;uid=cid,ou=people,dc=x;`+
		`cn=phone,uid=cid,ou=people,dc=x;ou=north,dc=x;ou=people,ou=north,dc=x;uid=ann,ou=people,ou=north,dc=x;`+
		`cn=admins,ou=north,dc=x;ou=south,dc=x;cn=admins,ou=south,dc=x;cn=a+uid=b,ou=south,dc=x;`+
		`dc=y,dc=z;ou=north,dc=y,dc=z;uid=bob,ou=north,dc=y,dc=z`, ";")
	groupNames = strings.Split("cn=admins,ou=north,dc=x;cn=admins,ou=south,dc=x;ou=north,dc=x;uid=bob,ou=people,dc=x", ";")
	contexts   = []dn.DN{mustName("dc=x"), mustName("dc=y,dc=z")}

	stringTypes = []string{"cn", "sn", "title", "name", "mail", "departmentNumber", "employeeType", "description", "l"}
	nameTypes   = []string{"manager", "owner", "member", "seeAlso"}
	otherTypes  = []string{"objectClass", "userPassword", "pwdReset", "entryUUID", "createTimestamp", "creatorsName", "uidNumber"}
	allTypes    = append(append(append([]string{}, stringTypes...), nameTypes...), otherTypes...)
	words       = []string{"a", "ann", "Ann", "bob", "boss", "7", "8"}
	classes     = []string{"top", "person", "organizationalUnit", "device", "groupOfNames", "inetOrgPerson"}
	useNames    = []string{"sync", "paged", "relax", "1.2.840.113556.1.4.805"}
)

func mustName(s string) dn.DN {
	d, err := dn.Parse(s)
	if err != nil {
		panic(err)
	}
	return d
}

// treeDNs maps the names in treeNames to the parsed names.
var treeDNs = func() map[string]dn.DN {
	all := map[string]dn.DN{}
	for _, s := range treeNames {
		all[s] = mustName(s)
	}
	return all
}()

// vocabularies are the values of each attribute type in these tests.
var vocabularies = func() map[*schema.AttributeType][][]byte {
	all := map[*schema.AttributeType][][]byte{}
	for _, t := range core.Attributes() {
		for _, v := range syntaxValues(t) {
			all[t] = append(all[t], []byte(v))
		}
	}
	return all
}()

func syntaxValues(t *schema.AttributeType) []string {
	switch t.Syntax.OID {
	case "1.3.6.1.4.1.1466.115.121.1.12":
		return append([]string{"UID=Ann,ou=people,dc=x", "dc=nobody"}, treeNames...)
	case "1.3.6.1.4.1.1466.115.121.1.38":
		return classes
	case "1.3.6.1.4.1.1466.115.121.1.7":
		return []string{"TRUE", "FALSE"}
	case "1.3.6.1.4.1.1466.115.121.1.27":
		return []string{"1", "7"}
	case "1.3.6.1.4.1.1466.115.121.1.24":
		return []string{"20260101000000Z", "20270101000000Z"}
	case "1.3.6.1.1.16.1":
		return []string{"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}
	}
	return append([]string{"BOSS", "zzz", "bo"}, words...)
}

func pick[T any](g generator, all []T) T { return all[g.IntN(len(all))] }

// oneIn returns true with probability 1/n.
func (g generator) oneIn(n int) bool { return g.IntN(n) == 0 }

// The function "some" returns between 1 and max items.
func some[T any](g generator, max int, item func() T) []T {
	all := []T{item()}
	for len(all) < max && g.oneIn(3) {
		all = append(all, item())
	}
	return all
}

// seldom returns one or two items with probability 1/n, and otherwise nil.
func seldom[T any](g generator, n int, item func() T) []T {
	if !g.oneIn(n) {
		return nil
	}
	return some(g, 2, item)
}

// tree returns random entries, one for each name of the tree.
func (g generator) tree() (nodes []*node) {
	byName := map[string]*entry.Entry{}
	for i, name := range treeNames {
		byName[name] = g.entry(entry.ID{byte(i + 1)})
	}
	for _, name := range treeNames {
		d := treeDNs[name]
		nodes = append(nodes, &node{name: d, entry: byName[name], parent: byName[d.Parent().String()]})
	}
	for _, n := range nodes {
		n.tree = nodes
	}
	return nodes
}

func (g generator) entry(id entry.ID) *entry.Entry {
	e := &entry.Entry{ID: id}
	for _, name := range allTypes {
		t := core.Attribute(name)
		if g.oneIn(3) {
			continue
		}
		for _, options := range optionSets {
			if g.oneIn(2) || options != "" && g.oneIn(2) {
				continue
			}
			a := entry.Attribute{Type: t, Options: options}
			for range 1 + g.IntN(2) {
				a.Values = append(a.Values, pick(g, vocabularies[t]))
			}
			e.Attributes = append(e.Attributes, a)
		}
	}
	return e
}

func (g generator) identity(nodes []*node) *acl.Identity {
	id := &acl.Identity{Connection: acl.Connection{Secure: g.oneIn(2), Local: g.oneIn(4), SSF: pick(g, []int{0, 128, 256}),
		Mechanism: pick(g, []string{"simple", "external"}), Proxied: g.oneIn(4),
		Time: time.Date(2026, 11, 20+g.IntN(7), g.IntN(24), pick(g, []int{0, 30, 59}), 0, 0, time.UTC)}}
	if !g.oneIn(4) {
		id.Address = netip.MustParseAddr(pick(g, []string{"10.1.2.3", "10.2.0.1", "2001:db8::1"}))
	}
	if g.oneIn(6) {
		return id
	}
	n := pick(g, nodes[:min(9, len(nodes))])
	id.Name = n.name
	if !g.oneIn(8) {
		id.Entry = n.entry
	}
	for _, name := range groupNames {
		if g.oneIn(3) {
			id.Groups = append(id.Groups, treeDNs[name])
		}
	}
	return id
}

// rules returns random rules at random places. It leaves out rules that NewSet refuses.
func (g generator) rules() (all []acl.Placed) {
	for i := range 2 + g.IntN(9) {
		place := dn.DN{}
		if g.oneIn(2) {
			place = mustName(pick(g, []string{"dc=x", "ou=people,dc=x", "dc=x", "ou=north,dc=x", "dc=y,dc=z"}))
		}
		r := g.rule(fmt.Sprintf("r%d", i), place)
		p := acl.Placed{Place: place, Rule: r}
		if _, err := acl.NewSet(core, contexts, []acl.Placed{p}); err == nil {
			all = append(all, p)
		}
	}
	return all
}

func (g generator) rule(name string, place dn.DN) *acl.Rule {
	if g.oneIn(8) {
		return g.tenants(name)
	}
	r := &acl.Rule{Name: name, Deny: g.oneIn(5), Parts: some(g, 2, g.part)}
	r.Who = acl.Who{Any: some(g, 2, g.term), Except: seldom(g, 5, g.term)}
	if g.oneIn(20) {
		r.Parts = []acl.Part{{Rights: acl.Use, Attributes: some(g, 2, g.used), Except: seldom(g, 3, g.used)}}
	} else if g.oneIn(2) {
		target := func() acl.Target { return g.target(place) }
		r.In = &acl.What{Any: some(g, 2, target), Except: seldom(g, 3, target)}
	}
	if g.oneIn(6) {
		r.If = some(g, 2, g.condition)
	}
	if g.oneIn(8) {
		r.Why = "as an example"
	}
	return r
}

// tenants returns a rule whose subject and target share a variable.
func (g generator) tenants(name string) *acl.Rule {
	r := &acl.Rule{Name: name, Deny: g.oneIn(4), Parts: some(g, 2, g.part)}
	binders := []acl.Subject{
		{Kind: acl.Group, Name: "cn=admins,ou={t},dc=x"}, {Kind: acl.Named, Name: "uid=*,ou={t},dc=x"},
		{Kind: acl.Below, Name: "ou={t},dc=x"}, {Kind: acl.Named, Name: "uid={t},ou=people,dc=x"},
		{Kind: acl.Group, Name: "cn=*,ou={t},dc={u}"}}
	r.Who.Any = []acl.Term{{pick(g, binders)}}
	switch g.IntN(3) {
	case 0:
		r.Who.Any[0] = append(r.Who.Any[0], g.subject())
	case 1:
		r.Who.Any[0] = append(r.Who.Any[0], pick(g, binders))
	}
	r.Who.Except = seldom(g, 4, g.term)
	r.In = &acl.What{Any: some(g, 2, g.tenantTarget)}
	if g.oneIn(3) {
		r.In.Except = []acl.Target{g.tenantTarget()}
	}
	return r
}

func (g generator) tenantTarget() acl.Target {
	t := acl.Target{Scope: pick(g, []acl.Scope{acl.Subtree, acl.Subtree, acl.Only, acl.Children, acl.Under}),
		Pattern: pick(g, []string{"ou={t},dc=x", "ou={t},dc=*", "ou=people,ou={t},dc=x", "uid={t},ou=people,dc=x", "ou={t},dc={u}", "cn=admins,ou={t},dc=x"})}
	if g.oneIn(4) {
		t.Filter = g.targetFilter()
	}
	return t
}

func (g generator) part() acl.Part {
	rights := pick(g, []acl.Rights{acl.Read, acl.Read, acl.Find, acl.Write, acl.Edit, acl.Show, acl.Search, acl.Compare, acl.Insert, acl.Remove,
		acl.Search | acl.Show, acl.See, acl.Delete | acl.Add, acl.Manage, acl.Bind | acl.Proxy, acl.Manage | acl.Read, acl.Rename | acl.Move | acl.Show, acl.Past | acl.Explain})
	p := acl.Part{Rights: rights}
	if rights&acl.Search != 0 && g.oneIn(8) {
		p.Attributes, p.Except = []acl.Attribute{{Description: "name"}}, []acl.Attribute{{Description: pick(g, stringTypes)}}
	} else if rights&acl.AttributeRights != 0 && !g.oneIn(4) {
		p.Attributes = some(g, 3, g.attribute)
		p.Except = seldom(g, 3, g.attribute)
	}
	return p
}

func (g generator) attribute() acl.Attribute {
	switch g.IntN(10) {
	case 0, 1:
		return acl.Attribute{Description: "*"}
	case 2:
		return acl.Attribute{Description: "+"}
	case 3:
		return acl.Attribute{Description: "@" + pick(g, []string{"person", "organizationalPerson", "inetOrgPerson", "device"})}
	case 4:
		return acl.Attribute{Description: g.description(), Value: ptr(pick(g, words))}
	case 5:
		return acl.Attribute{Description: pick(g, nameTypes), Self: true}
	case 6:
		return acl.Attribute{Description: pick(g, nameTypes), Value: ptr(pick(g, treeNames))}
	case 7:
		d := pick(g, stringTypes)
		return acl.Attribute{Description: d, Filter: g.combined(1, func() filter.Filter { return g.assertion(d) })}
	}
	return acl.Attribute{Description: g.description()}
}

func ptr(s string) *string { return &s }

func (g generator) description() string {
	d := pick(g, append([]string{"c-l"}, allTypes...)) // no entry has c-l, but a search for l also tests c-l
	if g.oneIn(5) {
		d += pick(g, optionSets[1:])
	}
	return d
}

func (g generator) used() acl.Attribute {
	return acl.Attribute{Description: pick(g, append([]string{"*"}, useNames...))}
}

func (g generator) term() (t acl.Term) {
	t = acl.Term{g.subject()}
	if g.oneIn(5) {
		t = append(t, g.subject())
	}
	return t
}

func (g generator) subject() acl.Subject {
	naming := func() string { return pick(g, append([]string{"creatorsName", "distinguishedName"}, nameTypes...)) }
	switch g.IntN(18) {
	case 0:
		return acl.Subject{Kind: acl.Anonymous}
	case 1, 2, 13, 14:
		return acl.Subject{Kind: acl.Users}
	case 3:
		return acl.Subject{Kind: acl.Self}
	case 4:
		return acl.Subject{Kind: acl.Named, Name: g.pattern(treeNames)}
	case 5:
		s := acl.Subject{Kind: acl.Below, Name: g.pattern(treeNames[:9])}
		if g.oneIn(2) {
			s.Filter = g.filter(1)
		}
		return s
	case 6, 7:
		return acl.Subject{Kind: acl.Group, Name: g.pattern(groupNames)}
	case 8:
		return acl.Subject{Kind: acl.Its, Attribute: naming(), Group: g.oneIn(3)}
	case 9:
		return acl.Subject{Kind: acl.ItsParent, Group: g.oneIn(3)}
	case 10:
		return acl.Subject{Kind: acl.ItsParents, Attribute: naming(), Group: g.oneIn(3)}
	case 11:
		return acl.Subject{Kind: acl.ItsSuperior}
	case 12:
		return acl.Subject{Kind: acl.Same, Attribute: pick(g, []string{"departmentNumber", "title", "name", "manager", "cn;lang-de"})}
	}
	return acl.Subject{Kind: acl.Everyone}
}

// pattern makes a pattern from one of the names. In each RDN, it may replace the value or a
// part of the value by a star, or change the case.
func (g generator) pattern(names []string) string {
	rdns := strings.Split(pick(g, names), ",")
	for i, rdn := range rdns {
		t, v, _ := strings.Cut(rdn, "=")
		switch {
		case strings.Contains(rdn, "+"):
			rdns[i] = pick(g, []string{rdn, "uid=b+cn=*", "UID=*+cn=A", "cn=a"})
		case g.oneIn(6):
			rdns[i] = t + "=" + pick(g, []string{"*", v[:1] + "*", "*" + v[len(v)-1:], v[:1] + "*" + v[len(v)-1:], "*" + strings.ToUpper(v[:1]) + "*"})
		case g.oneIn(6):
			rdns[i] = strings.ToUpper(rdn)
		}
	}
	return strings.Join(rdns, ",")
}

func (g generator) target(place dn.DN) acl.Target {
	t := acl.Target{Scope: pick(g, []acl.Scope{acl.Subtree, acl.Subtree, acl.Subtree, acl.This, acl.Only, acl.Children, acl.Under})}
	if t.Scope == acl.Only || t.Scope != acl.This && !g.oneIn(3) {
		t.Pattern = g.below(place)
	}
	if g.oneIn(3) || t.Scope == acl.Subtree && t.Pattern == "" {
		t.Filter = g.targetFilter()
	}
	return t
}

// targetFilter makes a filter of a target. It may test the groups of the entry.
func (g generator) targetFilter() filter.Filter {
	return g.combined(1, func() filter.Filter {
		if !g.oneIn(5) {
			return g.assertion(pick(g, allTypes))
		}
		attribute := pick(g, []string{"memberOf", "isMemberOf"})
		if g.oneIn(4) {
			return &filter.Present{Attribute: attribute}
		}
		return &filter.Equal{Attribute: attribute, Value: []byte(pick(g, treeNames))}
	})
}

// The method "below" makes a pattern, relative to the place, from the name of an entry below the
// place.
func (g generator) below(place dn.DN) string {
	var names []string
	for _, s := range treeNames {
		if d := treeDNs[s]; isBelow(d, place) {
			names = append(names, d[:len(d)-len(place)].String())
		}
	}
	return g.pattern(names)
}

func (g generator) condition() acl.Condition {
	c := acl.Condition{Not: g.oneIn(3), Kind: pick(g, []acl.ConditionKind{acl.Secure, acl.Local, acl.Proxied, acl.SSF, acl.Address, acl.Mechanism, acl.TimeOfDay, acl.Weekday})}
	switch c.Kind {
	case acl.SSF:
		c.SSF = pick(g, []int{1, 128, 256})
	case acl.Address:
		c.Network = netip.MustParsePrefix(pick(g, []string{"10.1.0.0/16", "10.0.0.0/8", "2001:db8::/32", "10.1.2.3/32"}))
	case acl.Mechanism:
		c.Mechanism = pick(g, []string{"simple", "external"})
	case acl.TimeOfDay:
		hours := pick(g, [][2]int{{8 * 60, 18 * 60}, {22 * 60, 6 * 60}, {0, 24 * 60}, {12*60 + 30, 24 * 60}, {23 * 60, 30}})
		c.From, c.To, c.Zone = hours[0], hours[1], time.UTC
		if g.oneIn(2) {
			c.Zone, _ = time.LoadLocation("Europe/Vienna")
		}
	case acl.Weekday:
		c.From, c.To = g.IntN(7), g.IntN(7)
	}
	return c
}

// filter makes a random filter with at most the given depth.
func (g generator) filter(depth int) filter.Filter {
	return g.combined(depth, func() filter.Filter { return g.assertion(pick(g, allTypes)) })
}

func (g generator) combined(depth int, one func() filter.Filter) filter.Filter {
	if depth > 0 {
		more := func() filter.Filter { return g.combined(depth-1, one) }
		switch g.IntN(6) {
		case 0:
			return &filter.Not{Filter: more()}
		case 1:
			return filter.And{more(), more()}
		case 2:
			return filter.Or{more(), more()}
		}
	}
	return one()
}

// assertion makes a random test of the attribute d.
func (g generator) assertion(d string) filter.Filter {
	v := pick(g, vocabularies[core.Attribute(d)])
	if g.oneIn(6) {
		d += pick(g, optionSets[1:3])
	}
	switch g.IntN(8) {
	case 0, 1:
		return &filter.Present{Attribute: d}
	case 2:
		return &filter.Substrings{Attribute: d, Initial: v[:1]}
	case 3:
		return &filter.GreaterOrEqual{Attribute: d, Value: v}
	}
	return &filter.Equal{Attribute: d, Value: v}
}

// searched makes the filter of a search. It may contain tests that rules cannot contain.
func (g generator) searched() filter.Filter {
	return g.combined(2, func() filter.Filter {
		switch g.IntN(10) {
		case 0:
			return &filter.Present{Attribute: "objectClass"}
		case 1:
			t := pick(g, []string{"ou", "uid", "cn", "departmentNumber"})
			return &filter.Extensible{Attribute: t, DNAttrs: true, Value: []byte(pick(g, []string{"people", "ann", "a", "7"}))}
		case 2:
			return &filter.Approx{Attribute: pick(g, stringTypes), Value: []byte(pick(g, words))}
		case 3, 4: // a test of a supertype; rules exclude some of its subtypes
			return pick(g, []filter.Filter{&filter.Not{Filter: g.assertion("name")}, g.assertion("name")})
		}
		return g.assertion(pick(g, allTypes))
	})
}
