package console

import "github.com/seed-4dac0d86/ldapd/ldap/op"

// Routes are the patterns of the pages.
var Routes = routes()

// Trace lets a function see each message of the pages before it is served.
func (c *Console) Trace(f func(*op.Message, op.Sink) op.Sink) { c.trace = f }
