package directory

import (
	"github.com/seed-4dac0d86/ldapd/directory/internal/settings"
	"github.com/seed-4dac0d86/ldapd/monitor"
)

type (
	// Options of a directory; the zero Options are good.
	Options = settings.Options
	// Limits bound what one operation, or one connection, may take. Zero is no bound.
	Limits = settings.Limits
	// LimitRule gives limits to some identities.
	LimitRule = settings.LimitRule
	// ClearPasswords says from where passwords are taken in clear, that is neither in TLS
	// nor over ldapi.
	ClearPasswords = settings.ClearPasswords
	// Observation is what is known of an operation when it ends.
	Observation = monitor.Observation
)

// From where passwords are taken in clear.
const (
	ClearFromAnywhere    = settings.ClearFromAnywhere
	ClearFromThisMachine = settings.ClearFromThisMachine // from loopback addresses
	ClearFromNowhere     = settings.ClearFromNowhere
)
