package directory

import (
	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/op"
)

// takeTracking reads a session tracking control, for the access log and the
// journal. Several may come, one for each system that the request has passed, in
// order.
func takeTracking(o *operation, _ *op.Message, c *op.Control) error {
	s, err := control.ParseSessionTracking(c.Value)
	if err != nil {
		return malformed("session tracking", err)
	}
	o.controls.sessions = append(o.controls.sessions, s)
	return nil
}
