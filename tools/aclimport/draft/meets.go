package draft

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Meets evaluates a filter of an original on an entry. The old server stores memberOf in
// the entry. Here, the values of memberOf are the groups that the entry is in, including
// groups of groups if nested is set.
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

// Nested returns a filter with memberOf replaced by isMemberOf. In servers with aci, memberOf
// includes groups of groups. In this directory, memberOf does not, and isMemberOf does.
func Nested(f filter.Filter) filter.Filter {
	return filter.MapLeaves(f, func(leaf filter.Filter) filter.Filter {
		switch leaf := leaf.(type) {
		case *filter.Equal:
			if isMemberOf(leaf.Attribute) {
				return &filter.Equal{Attribute: "isMemberOf", Value: leaf.Value}
			}
		case *filter.Present:
			if isMemberOf(leaf.Attribute) {
				return &filter.Present{Attribute: "isMemberOf"}
			}
		}
		return leaf
	})
}

// ParseFilter parses a filter whose outer parentheses may be missing.
func ParseFilter(text string) (filter.Filter, error) {
	if !strings.HasPrefix(text, "(") {
		text = "(" + text + ")"
	}
	f, err := filter.Parse(text)
	var e *filter.Error
	if errors.As(err, &e) {
		return nil, fmt.Errorf("the filter %q is malformed: %s", text, e.Text)
	}
	return f, err
}
