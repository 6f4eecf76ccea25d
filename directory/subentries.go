package directory

import (
	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
)

// visibility is which entries a search shows.
type visibility uint8

const (
	byScope        visibility = iota // without the control: all to a base search, else entries
	entriesOnly                      // a control of FALSE
	subentriesOnly                   // a control of TRUE
)

// takeSubentries reads a subentries control (RFC 3672, 3).
func takeSubentries(o *operation, _ *op.Message, c *op.Control) error {
	s, err := control.ParseSubentries(c.Value)
	if err != nil {
		return malformed("subentries", err)
	}
	o.controls.visible = entriesOnly
	if s.Visible {
		o.controls.visible = subentriesOnly
	}
	return nil
}

// hides reports whether a base search does not show an entry.
func (v visibility) hides(o *operation, e *entry.Entry) bool {
	return v != byScope && (v == subentriesOnly) != o.is(e, o.known.subentry)
}
