package draft

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
)

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
