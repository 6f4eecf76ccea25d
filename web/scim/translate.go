package scim

import (
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	ldapschema "github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// always and never are filters that select all entries, and none.
var (
	always = filter.And{}
	never  = filter.Or{}
)

// A scope is what a filter is about: resources of a kind, or values of an attribute of theirs.
type scope struct {
	*kind
	others bool // resources of other kinds are searched as well: they may have what this kind lacks

	of         *attribute // nil: the filter is about resources
	name, ldap string     // the type of the values, and the LDAP attribute that has them
}

// translate returns the LDAP filter for a filter of resources.
func (c *client) translate(in scope, t test) (f filter.Filter, err error) {
	var of []test
	switch t := t.(type) {
	case *both:
		of = t.all
	case *either:
		of = t.all
	case *not:
		// The type of values is a constant, so the negation of a test of it is one as well.
		f, err := c.translate(in, t.of)
		return &filter.Not{Filter: f}, err
	case *inside:
		if a := find(in.attributes(t.path.urn), t.path.attribute); a != nil && a.kind == "complex" && in.of == nil {
			if tested(t.test) > 1 {
				return nil, invalid("invalidFilter", "%s: a filter in brackets can test the value once, and neither by ne nor in not (...): a directory compares all values of an attribute", a.name)
			}
			return c.translateInside(in, a, t.test)
		}
		err = unknown(t.path)
	case *compare:
		if in.of != nil {
			return c.translateSub(in, t)
		}
		f, err = c.translateCompare(in, t)
	}
	if e, ok := err.(*Error); ok && in.others && e.Type == "invalidFilter" {
		return never, nil
	}
	if of == nil {
		return f, err
	}
	var all []filter.Filter
	for _, x := range of {
		f, err := c.translate(in, x)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return joinedBy(t, all), nil
}

// tested returns how often a test in brackets is about the same value. Filters of LDAP are about any value of an attribute,
// so they can say this once, and not of a value that differs. That is counted as twice.
func tested(t test) (n int) {
	switch t := t.(type) {
	case *both:
		for _, x := range t.all {
			n += tested(x)
		}
	case *either:
		for _, x := range t.all {
			n = max(n, tested(x))
		}
	case *not:
		return 2 * tested(t.of)
	case *compare:
		switch {
		case !strings.EqualFold(t.path.attribute, "value") || t.operator == "pr":
		case t.operator == "ne":
			return 2
		default:
			return 1
		}
	}
	return n
}

// joinedBy returns the filters of the parts of a test as one.
func joinedBy(t test, all []filter.Filter) filter.Filter {
	if _, ok := t.(*either); ok {
		return filter.Or(all)
	}
	return filter.And(all)
}

func unknown(p path) error {
	return invalid("invalidFilter", "%q cannot be in a filter: it is not served, or not searched", short(strings.TrimSuffix(p.attribute+"."+p.sub, ".")))
}

// translateInside returns the filter for entries one of whose values of a complex attribute passes a test.
func (c *client) translateInside(in scope, a *attribute, t test) (filter.Filter, error) {
	in.of, in.ldap = a, a.ldap
	if a.types == nil {
		return c.translate(in, t)
	}
	var any filter.Or
	for _, x := range a.types {
		in.name, in.ldap = x.name, x.ldap
		f, err := c.translate(in, t)
		if err != nil {
			return nil, err
		}
		if x.ldap != "" {
			f = filter.And{&filter.Present{Attribute: x.ldap}, f}
		}
		any = append(any, f)
	}
	return any, nil
}

func (c *client) translateSub(in scope, t *compare) (filter.Filter, error) {
	a, name := in.of, t.path.attribute
	s := find(a.sub, name)
	switch {
	case t.path.sub != "" || t.path.urn != "":
		return nil, unknown(t.path)
	case strings.EqualFold(name, "type") && a.types != nil:
		if !t.holds(in.name) {
			return never, nil
		}
		if in.ldap == "" {
			return a.anyPart()
		}
		return &filter.Present{Attribute: in.ldap}, nil
	case strings.EqualFold(name, "primary") && a.types != nil:
		return constant((t.operator == "eq") == truth(t.value)), nil
	case s == nil:
		return nil, unknown(t.path)
	case s.ldap != "":
		return c.on(t, s.ldap, t.value)
	case !strings.EqualFold(name, "value"):
		return nil, unknown(t.path)
	case a.types == nil:
		return c.byID(in.ldap, t)
	}
	if comparable(c.h.d.Schema(), t, in.ldap) != nil && len(a.types) > 1 {
		return never, nil // values of other types may be compared so
	}
	return c.on(t, in.ldap, t.value)
}

// anyPart returns a filter for entries that have any part of an address.
func (a *attribute) anyPart() (filter.Filter, error) {
	var any filter.Or
	for _, s := range a.sub {
		if s.ldap != "" {
			any = append(any, &filter.Present{Attribute: s.ldap})
		}
	}
	return any, nil
}

func constant(is bool) filter.Filter {
	if is {
		return always
	}
	return never
}

// byID returns the filter for entries that name the entry with an id.
func (c *client) byID(ldap string, t *compare) (filter.Filter, error) {
	id, _ := t.value.(string)
	if t.operator == "pr" {
		return &filter.Present{Attribute: ldap}, nil
	}
	name, err := c.nameOf(id)
	if err != nil {
		return nil, err
	}
	f := filter.Filter(never)
	if name != "" {
		f = filter.EqualTo(ldap, name)
	}
	switch t.operator {
	case "eq":
		return f, nil
	case "ne":
		return &filter.Not{Filter: f}, nil
	}
	return nil, invalid("invalidFilter", "references are compared by eq, ne and pr")
}

func (c *client) translateCompare(in scope, t *compare) (filter.Filter, error) {
	p := t.path
	if f, err := c.common(t, in.kind); f != nil || err != nil {
		return f, err
	}
	a := find(in.attributes(p.urn), p.attribute)
	switch {
	case a == nil || a.returned == "never":
		return nil, unknown(p)
	case a.name == "active" && p.sub == "":
		return active(t)
	case a.kind != "complex" && p.sub == "":
		return c.on(t, a.ldap, t.value)
	case a.kind != "complex":
		return nil, unknown(p)
	case a.multi || a.ldap != "":
		sub := *t
		if sub.path = (path{attribute: p.sub}); p.sub == "" {
			sub.path.attribute = "value"
		}
		return c.translateInside(in, a, &sub)
	}
	if p.sub == "" && t.operator == "pr" {
		return a.anyPart()
	}
	if s := find(a.sub, p.sub); s != nil {
		return c.on(t, s.ldap, t.value)
	}
	return nil, unknown(p)
}

// common returns the filter for the attributes that all resources have, and nil for others.
func (c *client) common(t *compare, k *kind) (filter.Filter, error) {
	text, isText := t.value.(string)
	p := strings.ToLower(t.path.attribute)
	if t.path.sub != "" {
		p += "." + strings.ToLower(t.path.sub)
	}
	switch p {
	case "id":
		if _, err := entry.ParseID(text); isText && err != nil && (t.operator == "eq" || t.operator == "ne") {
			return constant(t.operator == "ne"), nil
		}
		return c.on(t, "entryUUID", t.value)
	case "meta.created", "meta.lastmodified":
		ldap := map[string]string{"meta.created": "createTimestamp", "meta.lastmodified": "modifyTimestamp"}[p]
		at, err := time.Parse(time.RFC3339, text)
		if err != nil && t.operator != "pr" {
			return nil, invalid("invalidFilter", "%q is not a time such as 2026-01-31T12:00:00Z", short(text))
		}
		return c.on(t, ldap, at.UTC().Format("20060102150405.999Z"))
	case "meta.resourcetype":
		return constant(t.holds(k.name)), nil
	case "schemas":
		if k.attributes(text) == nil {
			return constant(t.operator == "ne" || t.operator == "pr"), nil
		}
		return constant(t.operator != "ne"), nil
	}
	return nil, nil
}

// active returns the filter for accounts that are locked, or are not.
func active(t *compare) (filter.Filter, error) {
	var locked filter.Or
	for _, l := range locks {
		locked = append(locked, filter.EqualTo(l.ldap, l.value))
	}
	switch t.operator {
	case "pr":
		return always, nil
	case "eq", "ne":
		if truth(t.value) != (t.operator == "eq") {
			return locked, nil
		}
		return &filter.Not{Filter: locked}, nil
	}
	return nil, invalid("invalidFilter", "active is compared by eq, ne and pr")
}

// on returns the filter that compares an LDAP attribute with a value.
func (c *client) on(t *compare, ldap string, v any) (filter.Filter, error) {
	if t.operator == "pr" {
		return &filter.Present{Attribute: ldap}, nil
	}
	if v == nil {
		switch t.operator {
		case "eq":
			return &filter.Not{Filter: &filter.Present{Attribute: ldap}}, nil
		case "ne":
			return &filter.Present{Attribute: ldap}, nil
		}
	}
	text, ok := v.(string)
	if !ok {
		return nil, invalid("invalidFilter", "%s is compared with a string in quotes", t.path.attribute)
	}
	if ldap == "postalAddress" {
		text = ldapschema.PostalAddress(text)
	}
	if err := comparable(c.h.d.Schema(), t, ldap); err != nil {
		return nil, err
	}
	value := []byte(text)
	equal := &filter.Equal{Attribute: ldap, Value: value}
	switch t.operator {
	case "eq":
		return equal, nil
	case "ne":
		return &filter.Not{Filter: equal}, nil
	case "gt":
		return filter.And{&filter.GreaterOrEqual{Attribute: ldap, Value: value}, &filter.Not{Filter: equal}}, nil
	case "ge":
		return &filter.GreaterOrEqual{Attribute: ldap, Value: value}, nil
	case "lt":
		return filter.And{&filter.LessOrEqual{Attribute: ldap, Value: value}, &filter.Not{Filter: equal}}, nil
	case "le":
		return &filter.LessOrEqual{Attribute: ldap, Value: value}, nil
	}
	if text == "" { // every value contains it
		return &filter.Present{Attribute: ldap}, nil
	}
	switch t.operator {
	case "sw":
		return &filter.Substrings{Attribute: ldap, Initial: value}, nil
	case "ew":
		return &filter.Substrings{Attribute: ldap, Final: value}, nil
	}
	return &filter.Substrings{Attribute: ldap, Any: [][]byte{value}}, nil
}

// comparable returns an error if the directory cannot compare values of an LDAP attribute in the way of a test: its filters
// would select nothing.
func comparable(s *ldapschema.Schema, t *compare, ldap string) error {
	a, wrong := s.Attribute(ldap), false
	switch t.operator {
	case "gt", "ge", "lt", "le":
		wrong = a == nil || a.Ordering == nil
	case "co", "sw", "ew":
		wrong = a == nil || a.Substr == nil
	}
	if wrong {
		return invalid("invalidFilter", "%s cannot be compared by %s: its LDAP attribute %s has no rule for it", strings.TrimSuffix(t.path.attribute+"."+t.path.sub, "."), t.operator, ldap)
	}
	return nil
}
