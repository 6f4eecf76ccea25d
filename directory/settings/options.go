package settings

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/transaction"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// Options are the options of a directory. The zero Options are usable.
type Options struct {
	// Admin is the administrator's DN, and AdminPassword is the stored password (see
	// package auth). If one of them is empty, there is no administrator.
	Admin         string
	AdminPassword string
	// AdminKeys are the administrator's SCRAM keys (RFC 5803), at most one for each
	// mechanism. The administrator cannot bind with a SCRAM mechanism for which there is
	// no key.
	AdminKeys [][]byte
	// Limits apply to identities that no rule of LimitRules matches, except the
	// administrator. If several rules match an identity, the first of them sets the
	// limits.
	Limits     Limits
	LimitRules []LimitRule
	// Transactions are the limits of LDAP transactions (RFC 5805). A limit that is zero
	// has a default.
	Transactions transaction.Limits
	// Secret protects the cookies of paged results. The salts that SCRAM sends for
	// unknown names are derived from Secret. Servers of one store share Secret: see
	// partition.Partition.Secret. If Secret is empty, a random secret is used.
	Secret []byte
	// Version is the server's version, which is the value of vendorVersion.
	Version string
	// Extensions are extended operations that the front end serves itself. The directory
	// adds them to supportedExtension.
	Extensions []string
	// Passwords limits the work with slow hashes; nil: auth.New(0, nil).
	Passwords *auth.Passwords
	// ClearPasswords states which clients may send passwords in clear. The server
	// refuses the passwords of other clients without using them.
	ClearPasswords ClearPasswords
	// Listed reports whether a password is in the list of known passwords, which policies
	// may forbid; nil: there is no list.
	Listed func(password []byte) bool
	// Mechanisms are the SASL mechanisms that the server offers on connections that can
	// use them. For each SCRAM mechanism, the server also offers the -PLUS variant, and
	// derives keys from new passwords. Nil: auth.DefaultMechanisms.
	Mechanisms []string
	// PlainInClear offers PLAIN also on connections that others may be able to read, if
	// ClearPasswords permits passwords there.
	PlainInClear bool
	// UpgradePasswords means that a successful bind improves how the password is stored.
	// A password that is stored in clear or in a fast scheme is stored again in the
	// default scheme. Missing SCRAM keys are derived, and keys of mechanisms that are not
	// offered are deleted.
	UpgradePasswords bool
	// Identities map names to entries; nil: auth.DefaultRules.
	Identities []*auth.Rule
	// CertificateInEntry means that a bind with a certificate fails unless the
	// certificate is a value of userCertificate in the entry that the certificate leads
	// to.
	CertificateInEntry bool
	// Tokens verifies the tokens of OAUTHBEARER; nil: the mechanism is not offered.
	Tokens auth.Tokens
	// Kerberos accepts the tickets of GSSAPI and GSS-SPNEGO; nil: the mechanisms are not offered.
	Kerberos auth.Kerberos
	// Referral are LDAP URLs without a DN. Operations on names outside all naming
	// contexts are referred to the servers in these URLs.
	Referral []string
	// Primary are LDAP URLs without a DN. A server takes no changes while it is a
	// standby, and after another server has taken over its archive. It then refers
	// changes to the servers in these URLs.
	Primary []string
	// Log receives what clients do not learn, such as the causes of results with the code
	// other (80), and the slow operations. An operation is slow if it takes at least as
	// long as Slow. If Slow is zero, no operation is slow.
	Log  *slog.Logger
	Slow time.Duration
	// Access receives a line for the beginning and the end of every connection and for
	// every operation except Unbind and Abandon; nil: there is no access log.
	Access *slog.Logger
	// Metrics count operations and appear in cn=monitor; nil: operations are not counted.
	Metrics *monitor.Metrics
	// StartJob starts a job of the server, and returns its number in Metrics.Jobs. Its error says
	// what is wrong with the request. Nil: the server does no jobs.
	StartJob func(who, name string, arguments []string) (number int, err error)
	// Jobs are the jobs that can be started, with their arguments, for cn=monitor.
	Jobs []string
	// Health reports whether the server is live and ready, for the root DSE; nil: the
	// root DSE does not report health.
	Health Health
	// Observers receive the observation of every operation, except Unbind and Abandon, when
	// it ends.
	Observers []monitor.Observer
	// Trace begins the span of an operation and returns it, in a type that the observer below knows, with
	// the context in which the operation runs. It returns ctx and nil for an operation that is not sampled. The
	// span becomes part of the operation's observation, and an observer ends it. Nil: no
	// operation is sampled.
	Trace func(ctx context.Context, m *op.Message) (context.Context, any)
}

// Health reports the health of a server.
type Health interface {
	IsLive() bool
	IsReady(writes bool) bool
}

// ClearPasswords states which clients may send passwords in clear, which means neither in
// TLS nor over ldapi.
type ClearPasswords int

// Clients that may send passwords in clear.
const (
	ClearFromAnywhere    ClearPasswords = iota
	ClearFromThisMachine                // from loopback addresses
	ClearFromNowhere
)

// EnsureDefaults sets those unset options that have a default.
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
