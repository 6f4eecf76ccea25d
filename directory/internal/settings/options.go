package settings

import (
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/monitor"
)

// Options of a directory; the zero Options are good.
type Options struct {
	// Admin is the administrator's DN and AdminPassword their stored password
	// (see package auth). Without both there is no administrator.
	Admin         string
	AdminPassword string
	// AdminKeys are those of SCRAM of the administrator (RFC 5803), one a
	// mechanism. Without one SCRAM does not let them in.
	AdminKeys [][]byte
	// Limits are those of whom none of LimitRules fits, except the
	// administrator. The first rule that fits counts.
	Limits     Limits
	LimitRules []LimitRule
	// Secret signs the cookies of paged results, and makes the salts that SCRAM
	// shows to those who are not there. Servers of one store have the same one:
	// see partition.Partition.Secret. Empty: a random one.
	Secret []byte
	// Version of the server, for vendorVersion.
	Version string
	// Extensions are extended operations that the front end serves itself, for
	// supportedExtension.
	Extensions []string
	// Passwords bounds the work with slow hashes; nil: auth.New(0, nil).
	Passwords *auth.Passwords
	// ClearPasswords says from where passwords are taken in clear. They are refused
	// before anything is done with them.
	ClearPasswords ClearPasswords
	// Mechanisms of SASL to offer where they work; those of SCRAM bring their
	// -PLUS, and their keys are derived from new passwords. Nil: auth.DefaultMechanisms.
	Mechanisms []string
	// PlainInClear offers PLAIN on connections that others may read along.
	PlainInClear bool
	// UpgradePasswords stores passwords that came in a bind anew, in the default
	// scheme, if they are stored in clear or in a fast one; and derives the keys
	// of SCRAM that they lack.
	UpgradePasswords bool
	// Identities lead from names to entries; nil: auth.DefaultRules.
	Identities []*auth.Rule
	// Tokens verifies those of OAUTHBEARER; nil: it is not offered.
	Tokens *auth.Bearer
	// Referral are the LDAP URLs, without a DN, of the servers that operations on names
	// outside all naming contexts are referred to.
	Referral []string
	// Log takes what a client is not told: the cause of a result other (80), and
	// operations that take as long as Slow or longer (zero: none).
	Log  *slog.Logger
	Slow time.Duration
	// Access takes a line for every connection's beginning and end and for every
	// operation; nil: none.
	Access *slog.Logger
	// Metrics count operations, and are shown by cn=monitor; nil: none.
	Metrics *monitor.Metrics
	// Health says whether the server is live and ready, for the root DSE; nil: it is.
	Health Health
	// Observers are handed what is known of every operation when it ends.
	Observers []monitor.Observer
}

// Health says how a server is.
type Health interface {
	IsLive() bool
	IsReady(writes bool) bool
}

// ClearPasswords says from where passwords are taken in clear, that is neither in TLS
// nor over ldapi.
type ClearPasswords int

// From where passwords are taken in clear.
const (
	ClearFromAnywhere    ClearPasswords = iota
	ClearFromThisMachine                // from loopback addresses
	ClearFromNowhere
)

// EnsureDefaults sets what is not given.
func (o *Options) EnsureDefaults() {
	if len(o.Secret) == 0 {
		o.Secret = make([]byte, 32)
		rand.Read(o.Secret) // never fails (crypto/rand)
	}
	if o.Passwords == nil {
		o.Passwords = auth.New(0, nil)
	}
	if o.Mechanisms == nil {
		o.Mechanisms = auth.DefaultMechanisms
	}
	if o.Identities == nil {
		o.Identities = auth.DefaultRules()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}
