package directory

import (
	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/op"
)

// errClear refuses what others on the way could read.
var errClear = op.Errorf(op.ConfidentialityRequired, "passwords are not taken in clear: use TLS")

// inClear reports whether passwords are to be refused here.
func (o *operation) inClear() bool {
	c := o.session.channel
	switch o.server.settings().ClearPasswords {
	case ClearFromAnywhere:
		return false
	case ClearFromThisMachine:
		return !auth.Confidential(c) && !auth.FromThisMachine(c)
	}
	return !auth.Confidential(c)
}
