package directory

import (
	"github.com/seed-4dac0d86/ldapd/ber"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
)

const subentries = "1.3.6.1.4.1.4203.1.10.1" // RFC 3672, 3

// visibility is which entries a search shows.
type visibility uint8

const (
	byScope        visibility = iota // without the control: all to a base search, else entries
	entriesOnly                      // a control of FALSE
	subentriesOnly                   // a control of TRUE
)

// takeSubentries reads a subentries control, whose value is a BOOLEAN.
func takeSubentries(o *operation, _ *op.Message, c *op.Control) error {
	r := ber.NewReader(c.Value)
	only := r.Bool(ber.Boolean)
	r.End()
	if r.Err() != nil {
		return malformed("subentries", r.Err())
	}
	o.controls.visible = entriesOnly
	if only {
		o.controls.visible = subentriesOnly
	}
	return nil
}

// hides reports whether a base search does not show an entry.
func (v visibility) hides(o *operation, e *entry.Entry) bool {
	return v != byScope && (v == subentriesOnly) != o.is(e, o.known.subentry)
}
