package directory

import (
	"github.com/seed-4dac0d86/ldapd/directory/internal/transaction"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
)

type (
	// Options are the options of a directory: go doc shows the fields at [settings.Options]. The zero Options are usable.
	Options = settings.Options
	// Limits bound what one operation or one connection may use. Zero means unlimited.
	Limits = settings.Limits
	// TransactionLimits are the limits of LDAP transactions (RFC 5805).
	TransactionLimits = transaction.Limits
	// LimitRule sets the limits of some identities.
	LimitRule = settings.LimitRule
	// ClearPasswords states which clients may send passwords in clear, which means
	// neither in TLS nor over ldapi.
	ClearPasswords = settings.ClearPasswords
	// Observation describes an operation that has ended.
	Observation = monitor.Observation
)

// Clients that may send passwords in clear.
const (
	ClearFromAnywhere    = settings.ClearFromAnywhere
	ClearFromThisMachine = settings.ClearFromThisMachine // from loopback addresses
	ClearFromNowhere     = settings.ClearFromNowhere
)
