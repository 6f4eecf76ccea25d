package control

import (
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

// These are the OIDs of the controls whose values are filters.
const (
	OIDMatchedValues = "1.2.826.0.1.3344810.2.3"
	OIDAssertion     = "1.3.6.1.1.12"
)

// MatchedValues is the value of the matched values control.
//
// See RFC 3876, section 2:
//
//	ValuesReturnFilter ::= SEQUENCE OF SimpleFilterItem
type MatchedValues struct{ Items []filter.Filter }

// ParseMatchedValues parses the value of a request.
func ParseMatchedValues(value []byte) (m MatchedValues, err error) {
	m.Items, err = wire.DecodeFilters(value)
	return m, err
}

// Assertion is the value of the assertion control, which is a Filter.
//
// See RFC 4528, section 3.
type Assertion struct{ Filter filter.Filter }

// ParseAssertion parses the value of a request.
func ParseAssertion(value []byte) (a Assertion, err error) {
	a.Filter, err = wire.DecodeFilter(value)
	return a, err
}
