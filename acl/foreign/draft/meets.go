package draft

import (
	"strings"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Meets evaluates a filter of an original on an entry. memberOf there is an attribute; here
// it is asked of the groups, and has the groups of groups too if nested is set.
func Meets(sch *schema.Schema, f filter.Filter, e *acl.Entry, nested bool) filter.Tri {
	switch f := f.(type) {
	case filter.And:
		least := filter.True
		for _, p := range f {
			least = min(least, Meets(sch, p, e, nested))
		}
		return least
	case filter.Or:
		most := filter.False
		for _, p := range f {
			most = max(most, Meets(sch, p, e, nested))
		}
		return most
	case *filter.Not:
		return -Meets(sch, f.Filter, e, nested)
	case *filter.Equal:
		if isMemberOf(f.Attribute) {
			d, err := dn.Parse(string(f.Value))
			return truth(err == nil && len(d) > 0 && e.Others.InGroup(d, nested))
		}
	case *filter.Present:
		if isMemberOf(f.Attribute) {
			return truth(e.Others.InGroup(nil, nested))
		}
	}
	return filter.Resolve(f, sch).Match(e.Source)
}

func truth(b bool) filter.Tri {
	if b {
		return filter.True
	}
	return filter.False
}

func isMemberOf(attribute string) bool {
	return strings.EqualFold(attribute, "memberOf") || strings.EqualFold(attribute, "isMemberOf")
}

// Nested returns a filter in which memberOf, which other servers keep for groups of groups
// too, is isMemberOf.
func Nested(f filter.Filter) filter.Filter {
	all := func(parts []filter.Filter) []filter.Filter {
		out := make([]filter.Filter, len(parts))
		for i, p := range parts {
			out[i] = Nested(p)
		}
		return out
	}
	switch f := f.(type) {
	case filter.And:
		return filter.And(all(f))
	case filter.Or:
		return filter.Or(all(f))
	case *filter.Not:
		return &filter.Not{Filter: Nested(f.Filter)}
	case *filter.Equal:
		if isMemberOf(f.Attribute) {
			return &filter.Equal{Attribute: "isMemberOf", Value: f.Value}
		}
	case *filter.Present:
		if isMemberOf(f.Attribute) {
			return &filter.Present{Attribute: "isMemberOf"}
		}
	}
	return f
}
