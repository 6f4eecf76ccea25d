package password

import (
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// ErrClear refuses a password that others on the network could read.
var ErrClear = op.Errorf(op.ConfidentialityRequired, "passwords are not accepted in clear: use TLS")

// InClear reports whether the session must not carry passwords because the connection is
// in clear.
func InClear(req *request.Request) bool {
	c := req.Session.Channel
	switch req.Server.Settings().ClearPasswords {
	case settings.ClearFromAnywhere:
		return false
	case settings.ClearFromThisMachine:
		return !auth.Confidential(c) && !auth.FromThisMachine(c)
	}
	return !auth.Confidential(c)
}
