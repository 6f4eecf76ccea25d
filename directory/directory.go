// Package directory runs every operation of LDAP in the order its RFC gives,
// over a partition: it is where requests get their meaning.
//
// A [Directory] serves one partition. A client's connection is a [Session]: it
// knows who is bound. [Session.Serve] takes one request, sends its entries and
// references to a sink, and ends it with one result. On the way an operation
//
//  1. reads its controls (an unknown critical one ends it),
//  2. parses the name, and stops at a referral above it unless ManageDsaIT says
//     otherwise (RFC 3296),
//  3. asks whether the requester may,
//  4. runs on one snapshot, or in one transaction,
//  5. has its errors mapped to a result code by one function, toResult.
//
// The root DSE and the subschema entry are made here from what the server can
// do. So are the attributes that are computed: entryDN, subschemaSubentry,
// hasSubordinates, numSubordinates.
//
// Until there are access rules: everyone reads everything but secret attributes,
// which are neither shown, compared nor filtered on; users change their own
// userPassword; the administrator, who is configured and needs no entry, does
// everything.
package directory

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
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

func (o *Options) ensureDefaults() {
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

// Directory runs operations on a partition. It does not own it.
type Directory struct {
	part      *partition.Partition
	passwords *auth.Passwords
	log       *slog.Logger
	current   atomic.Pointer[settings]

	known    atomic.Pointer[known] // of the schema last seen
	pool     sync.Pool             // *operation
	lists    *lists                // orders of sorted searches, to go on with
	sessions atomic.Uint64         // so far
	upgrades upgrades
}

// known are the elements that the directory itself knows of a schema.
type known struct {
	schema                                                       *schema.Schema
	referral, alias, subentry                                    *schema.ObjectClass
	objectClass, ref, aliasedObjectName                          *schema.AttributeType
	userPassword, scramKey, authPassword, contextCSN             *schema.AttributeType
	entryDN, subschemaSubentry, hasSubordinates, numSubordinates *schema.AttributeType
	governingStructureRule                                       *schema.AttributeType
	isReferral, isAlias, isSubentry                              filter.Resolved
	// What collective attributes take (RFC 3671).
	collectiveSubentry                         *schema.ObjectClass
	isCollective                               filter.Resolved
	subtreeSpecification, administrativeRole   *schema.AttributeType
	collectiveExclusions, collectiveSubentries *schema.AttributeType
	// computed are the attributes that no entry stores, as far as the schema
	// has them.
	computed []*schema.AttributeType
	account  accountTypes
}

// New makes a directory over an open partition. The error is a name or a
// password of the administrator, or a limit rule, that cannot be used.
func New(p *partition.Partition, o Options) (*Directory, error) {
	o.ensureDefaults()
	d := &Directory{part: p, passwords: o.Passwords, log: o.Log, lists: newLists()}
	d.known.Store(newKnown(p.Schema()))
	d.pool.New = func() any { return &operation{d: d} }
	set, err := d.prepare(o)
	if err != nil {
		return nil, err
	}
	d.current.Store(set)
	return d, nil
}

// Close ends what goes on beside operations. Sessions end before it.
func (d *Directory) Close() { d.upgrades.close() }

// knownOf returns what is known of a schema. That of the schema in force is kept.
func (d *Directory) knownOf(s *schema.Schema) *known {
	if k := d.known.Load(); k.schema == s {
		return k
	}
	k := newKnown(s)
	if s == d.part.Schema() {
		d.known.Store(k)
	}
	return k
}

func newKnown(s *schema.Schema) *known {
	is := func(class string) filter.Resolved {
		return filter.Resolve(&filter.Equal{Attribute: "objectClass", Value: []byte(class)}, s)
	}
	k := &known{
		schema:            s,
		referral:          s.Class("referral"),
		alias:             s.Class("alias"),
		subentry:          s.Class("subentry"),
		objectClass:       s.Attribute("objectClass"),
		ref:               s.Attribute("ref"),
		aliasedObjectName: s.Attribute("aliasedObjectName"),
		userPassword:      s.Attribute("userPassword"),
		scramKey:          s.Attribute("scramKey"),
		authPassword:      s.Attribute("authPassword"),
		entryDN:           s.Attribute("entryDN"),
		subschemaSubentry: s.Attribute("subschemaSubentry"),
		hasSubordinates:   s.Attribute("hasSubordinates"),
		numSubordinates:   s.Attribute("numSubordinates"),

		governingStructureRule: s.Attribute("governingStructureRule"),

		isReferral: is("referral"),
		isAlias:    is("alias"),
		isSubentry: is("subentry"),

		collectiveSubentry:   s.Class("collectiveAttributeSubentry"),
		isCollective:         is("collectiveAttributeSubentry"),
		subtreeSpecification: s.Attribute("subtreeSpecification"),
		administrativeRole:   s.Attribute("administrativeRole"),
		collectiveExclusions: s.Attribute("collectiveExclusions"),
		collectiveSubentries: s.Attribute("collectiveAttributeSubentries"),
		contextCSN:           s.Attribute("contextCSN"),
		account:              newAccountTypes(s),
	}
	for _, t := range []*schema.AttributeType{k.entryDN, k.subschemaSubentry, k.hasSubordinates, k.numSubordinates} {
		if t != nil {
			k.computed = append(k.computed, t)
		}
	}
	if len(s.StructureRules()) > 0 {
		k.computed = append(k.computed, k.governingStructureRule)
	}
	return k
}

// parse reads a DN and returns the key by which names are compared.
func (d *Directory) parse(s string) (dn.DN, string, error) {
	name, err := dn.Parse(s)
	if err != nil {
		return nil, "", op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	key, err := d.key(name)
	return name, key, err
}

func (d *Directory) key(name dn.DN) (string, error) {
	norm, err := name.Normalize(d.part.Schema())
	if err != nil {
		return "", op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	return string(dn.Key(norm)), nil
}

// Session is one client's connection. Serve may be called concurrently, except
// that a Bind runs alone (RFC 4511, 4.2.1): the server sees to that.
type Session struct {
	d       *Directory
	channel auth.Channel
	number  uint64 // of the connection, for the log
	who     atomic.Pointer[identity]
	// exchange of SASL under way. Only binds touch it, which run alone.
	exchange *exchange
}

// NewSession begins an anonymous session on a connection; a nil channel tells
// nothing of it.
func (d *Directory) NewSession(c auth.Channel) *Session {
	if c == nil {
		c = auth.NoChannel{}
	}
	s := &Session{d: d, channel: c, number: d.sessions.Add(1)}
	if log := d.settings().Access; log != nil {
		log.Info("connect", "conn", s.number, "from", c.Remote())
	}
	return s
}

// Close ends the session.
func (s *Session) Close() {
	if log := s.d.settings().Access; log != nil {
		log.Info("disconnect", "conn", s.number, "who", s.Name())
	}
	s.who.Store(nil)
}

// StartTLS says whether TLS may begin on the connection now; nil: it may, and the
// session is anonymous again, since who bound in clear is not known for sure (RFC
// 4513, 4). Nothing else runs meanwhile.
func (s *Session) StartTLS() *op.Result {
	if s.exchange != nil { // RFC 4513, 3.1.1
		return op.Errorf(op.OperationsError, "a SASL bind of several steps is under way")
	}
	s.who.Store(nil)
	return nil
}

// Name is who is bound, for logs; "" is the anonymous.
func (s *Session) Name() string { return s.who.Load().dn() }

// Serve runs one operation and sends its answers. It returns when Done has been
// called.
func (s *Session) Serve(ctx context.Context, m *op.Message, sink op.Sink) {
	o := s.d.pool.Get().(*operation)
	o.begin(s)
	if err := o.run(ctx, m, sink); err != nil {
		o.response.Result = o.toResult(err)
		o.logFailed(m)
	}
	// The sink's error means that the client is gone, and we are done anyway.
	_ = sink.Done(&o.response)
	o.log(ctx, m)
	o.end()
}
