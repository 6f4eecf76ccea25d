package scim

import (
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// always and never are filters that select all entries, and none.
var (
	always = filter.And{}
	never  = filter.Or{}
)

// translate returns the LDAP filter for a filter of resources of a kind. If others is set, resources of other kinds are
// searched as well, which may have the attributes that this kind lacks.
func (c *client) translate(k *kind, t test, others bool) (f filter.Filter, err error) {
	var of []test
	switch t := t.(type) {
	case *both:
		of = t.all
	case *either:
		of = t.all
	case *not:
		f, err := c.translate(k, t.of, others)
		return &filter.Not{Filter: f}, err
	case *inside:
		if a := find(k.attributes(t.path.urn), t.path.attribute); a != nil && a.kind == "complex" {
			return c.translateInside(a, t.test)
		}
		err = unknown(t.path)
	case *compare:
		f, err = c.translateCompare(k, t)
	}
	if e, ok := err.(*Error); ok && others && e.Type == "invalidFilter" {
		return never, nil
	}
	if of == nil {
		return f, err
	}
	var all []filter.Filter
	for _, x := range of {
		f, err := c.translate(k, x, others)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return joinedBy(t, all), nil
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
func (c *client) translateInside(a *attribute, t test) (filter.Filter, error) {
	if a.types == nil {
		return c.translateValue(a, "", a.ldap, t)
	}
	var any filter.Or
	for _, x := range a.types {
		f, err := c.translateValue(a, x.name, x.ldap, t)
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

// translateValue returns the filter for the values of one LDAP attribute, all of which have one type.
func (c *client) translateValue(a *attribute, kind, ldap string, t test) (filter.Filter, error) {
	var of []test
	switch t := t.(type) {
	case *both:
		of = t.all
	case *either:
		of = t.all
	case *not:
		// The type is a constant, so the negation of a test of a type is one of the type.
		f, err := c.translateValue(a, kind, ldap, t.of)
		return &filter.Not{Filter: f}, err
	case *compare:
		return c.translateSub(a, kind, ldap, t)
	default:
		return nil, invalid("invalidFilter", "a filter of values cannot contain another")
	}
	var all []filter.Filter
	for _, x := range of {
		f, err := c.translateValue(a, kind, ldap, x)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return joinedBy(t, all), nil
}

func (c *client) translateSub(a *attribute, kind, ldap string, t *compare) (filter.Filter, error) {
	name := t.path.attribute
	s := find(a.sub, name)
	switch {
	case t.path.sub != "" || t.path.urn != "":
		return nil, unknown(t.path)
	case strings.EqualFold(name, "type") && a.types != nil:
		if !t.holds(kind) {
			return never, nil
		}
		if ldap == "" {
			return a.anyPart()
		}
		return &filter.Present{Attribute: ldap}, nil
	case strings.EqualFold(name, "primary") && a.types != nil:
		return constant((t.operator == "eq") == truth(t.value)), nil
	case s == nil:
		return nil, unknown(t.path)
	case s.ldap != "":
		return t.on(s.ldap, t.value)
	case !strings.EqualFold(name, "value"):
		return nil, unknown(t.path)
	case a.types == nil:
		return c.byID(ldap, t)
	}
	return t.on(ldap, t.value)
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
		f = &filter.Equal{Attribute: ldap, Value: []byte(name)}
	}
	switch t.operator {
	case "eq":
		return f, nil
	case "ne":
		return &filter.Not{Filter: f}, nil
	}
	return nil, invalid("invalidFilter", "references are compared by eq, ne and pr")
}

func (c *client) translateCompare(k *kind, t *compare) (filter.Filter, error) {
	p := t.path
	if f, err := t.common(k); f != nil || err != nil {
		return f, err
	}
	a := find(k.attributes(p.urn), p.attribute)
	switch {
	case a == nil || a.returned == "never":
		return nil, unknown(p)
	case a.name == "active" && p.sub == "":
		return active(t)
	case a.kind != "complex" && p.sub == "":
		return t.on(a.ldap, t.value)
	case a.kind != "complex":
		return nil, unknown(p)
	case a.multi || a.ldap != "":
		sub := *t
		if sub.path = (path{attribute: p.sub}); p.sub == "" {
			sub.path.attribute = "value"
		}
		return c.translateInside(a, &sub)
	}
	if p.sub == "" && t.operator == "pr" {
		return a.anyPart()
	}
	if s := find(a.sub, p.sub); s != nil {
		return t.on(s.ldap, t.value)
	}
	return nil, unknown(p)
}

// common returns the filter for the attributes that all resources have, and nil for others.
func (t *compare) common(k *kind) (filter.Filter, error) {
	text, isText := t.value.(string)
	p := strings.ToLower(t.path.attribute)
	if t.path.sub != "" {
		p += "." + strings.ToLower(t.path.sub)
	}
	switch p {
	case "id":
		if _, err := entry.ParseID(text); isText && err != nil {
			return constant(t.operator == "ne"), nil
		}
		return t.on("entryUUID", t.value)
	case "meta.created", "meta.lastmodified":
		ldap := map[string]string{"meta.created": "createTimestamp", "meta.lastmodified": "modifyTimestamp"}[p]
		at, err := time.Parse(time.RFC3339, text)
		if err != nil && t.operator != "pr" {
			return nil, invalid("invalidFilter", "%q is not a time such as 2026-01-31T12:00:00Z", short(text))
		}
		return t.on(ldap, at.UTC().Format("20060102150405.999Z"))
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
		locked = append(locked, &filter.Equal{Attribute: l.ldap, Value: []byte(l.value)})
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
func (c *compare) on(ldap string, v any) (filter.Filter, error) {
	if c.operator == "pr" {
		return &filter.Present{Attribute: ldap}, nil
	}
	if v == nil {
		switch c.operator {
		case "eq":
			return &filter.Not{Filter: &filter.Present{Attribute: ldap}}, nil
		case "ne":
			return &filter.Present{Attribute: ldap}, nil
		}
	}
	text, ok := v.(string)
	if !ok {
		return nil, invalid("invalidFilter", "%s is compared with a string in quotes", c.path.attribute)
	}
	if ldap == "postalAddress" {
		text = postal(text)
	}
	value := []byte(text)
	equal := &filter.Equal{Attribute: ldap, Value: value}
	switch c.operator {
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
	switch c.operator {
	case "sw":
		return &filter.Substrings{Attribute: ldap, Initial: value}, nil
	case "ew":
		return &filter.Substrings{Attribute: ldap, Final: value}, nil
	}
	return &filter.Substrings{Attribute: ldap, Any: [][]byte{value}}, nil
}
