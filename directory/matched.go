package directory

import (
	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// takeMatched reads a ValuesReturnFilter: the values that any of its items
// matches are sent.
func takeMatched(o *operation, _ *op.Message, c *op.Control) error {
	m, err := control.ParseMatchedValues(c.Value)
	if err != nil {
		return malformed("matched values", err)
	}
	o.controls.matched = (&matched{items: m.Items}).under(o.schema)
	return nil
}

// matched is a values return filter.
type matched struct {
	items []filter.Filter
	tests []*filter.Test // of the items, under a schema
}

// under resolves the items. One that is Undefined matches no value.
func (m *matched) under(s *schema.Schema) *matched {
	if m == nil {
		return nil
	}
	x := &matched{items: m.items}
	for _, f := range m.items {
		if t, ok := filter.Resolve(f, s).(*filter.Test); ok {
			x.tests = append(x.tests, t)
		}
	}
	return x
}

// apply keeps of attributes to be sent the values that match; an attribute stays,
// if need be without any (RFC 3876, 2).
func (m *matched) apply(attributes []entry.Attribute, typesOnly bool) {
	if m == nil || typesOnly {
		return
	}
	for i := range attributes {
		attributes[i].Values = m.values(&attributes[i])
	}
}

func (m *matched) values(a *entry.Attribute) (kept [][]byte) {
	for _, v := range a.Values {
		for _, t := range m.tests {
			if t.MatchValue(a, v) {
				kept = append(kept, v)
				break
			}
		}
	}
	return kept
}
