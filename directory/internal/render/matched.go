package render

import (
	"github.com/seed-4dac0d86/ldapd/directory/internal/filterprep"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// matched are the tests of a values return filter (RFC 3876). A value is sent if any of
// the tests matches the value. Nil means that there is no filter.
type matched []*filter.Test

// newMatched returns the tests that a request contains.
func newMatched(req *request.Request) matched {
	if req.Controls.Matched == nil {
		return nil
	}
	return filterprep.PrepareItems(req, req.Controls.Matched.Items)
}

// apply removes values that do not match. It keeps attributes without any values left
// (RFC 3876, 2).
func (m matched) apply(attributes []entry.Attribute) {
	if m == nil {
		return
	}
	for i := range attributes {
		attributes[i].Values = m.values(&attributes[i])
	}
}

func (m matched) values(a *entry.Attribute) (kept [][]byte) {
	for _, v := range a.Values {
		for _, t := range m {
			if t.MatchValue(a, v) {
				kept = append(kept, v)
				break
			}
		}
	}
	return kept
}
