package settings

import (
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/transaction"
	"github.com/seed-4dac0d86/ldapd/monitor"
)

// Options of a directory. The zero Options are usable.
type Options struct {
	// Admin is the administrator's DN, and AdminPassword is the stored password (see
	// package auth). Without both there is no administrator.
	Admin         string
	AdminPassword string
	// AdminKeys are the administrator's SCRAM keys (RFC 5803), one for each mechanism.
	// Mechanisms without a key refuse the administrator.
	AdminKeys [][]byte
	// Limits apply to identities that no rule of LimitRules matches, except the
	// administrator. The first matching rule counts.
	Limits     Limits
	LimitRules []LimitRule
	// Transactions are limits of those of RFC 5805; what is zero has a default.
	Transactions transaction.Limits
	// Secret signs the cookies of paged results, and generates the salts that SCRAM sends
	// for unknown names. Servers of one store share it: see partition.Partition.Secret.
	// If it is empty, a random one is used.
	Secret []byte
	// Version is the server's version, for vendorVersion.
	Version string
	// Extensions are extended operations that the front end serves itself, for
	// supportedExtension.
	Extensions []string
	// Passwords bounds the work with slow hashes; nil: auth.New(0, nil).
	Passwords *auth.Passwords
	// ClearPasswords states which clients may send passwords in clear. Others are refused
	// before the password is used.
	ClearPasswords ClearPasswords
	// Mechanisms are the SASL mechanisms to offer where they can be used. SCRAM ones add
	// their -PLUS variants, and have keys derived from new passwords. Nil:
	// auth.DefaultMechanisms.
	Mechanisms []string
	// PlainInClear offers PLAIN on connections that others may be able to read.
	PlainInClear bool
	// UpgradePasswords has a successful bind store its password again in the default
	// scheme, if it is stored in clear or in a fast scheme, and derive missing SCRAM
	// keys.
	UpgradePasswords bool
	// Identities map names to entries; nil: auth.DefaultRules.
	Identities []*auth.Rule
	// Tokens verifies the tokens of OAUTHBEARER; nil: the mechanism is not offered.
	Tokens *auth.Bearer
	// Referral are LDAP URLs without a DN. Operations on names outside all naming
	// contexts are referred to these servers.
	Referral []string
	// Log receives what clients do not learn: the causes of results other (80), and
	// operations that take at least as long as Slow (zero: none).
	Log  *slog.Logger
	Slow time.Duration
	// Access receives a line for the beginning and the end of every connection and for
	// every operation; nil: none.
	Access *slog.Logger
	// Metrics count operations and appear in cn=monitor; nil: none.
	Metrics *monitor.Metrics
	// Health reports whether the server is live and ready, for the root DSE; nil: it
	// always is.
	Health Health
	// Observers receive the observation of every operation when it ends.
	Observers []monitor.Observer
}

// Health reports the health of a server.
type Health interface {
	IsLive() bool
	IsReady(writes bool) bool
}

// ClearPasswords states which clients may send passwords in clear, that is neither in TLS
// nor over ldapi.
type ClearPasswords int

// Clients that may send passwords in clear.
const (
	ClearFromAnywhere    ClearPasswords = iota
	ClearFromThisMachine                // from loopback addresses
	ClearFromNowhere
)

// EnsureDefaults sets the options that are unset.
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
	o.Transactions.EnsureDefaults()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}
