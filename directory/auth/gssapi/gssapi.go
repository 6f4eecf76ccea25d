// Package gssapi accepts Kerberos tickets with the keys of a keytab, with and without SPNEGO.
package gssapi

import (
	"encoding/asn1"
	"errors"
	"log/slog"
	"time"

	"github.com/go-krb5/krb5/keytab"
	"golang.org/x/crypto/cryptobyte"
	cryptoasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/auth/reread"
	"github.com/seed-4dac0d86/ldapd/store/gss"
)

// An Acceptor implements auth.Kerberos for principals ldap/HOST.
type Acceptor struct {
	keys     *reread.File[*keytab.Keytab]
	log      *slog.Logger
	acceptor gss.Acceptor
}

// Open reads a keytab. It is read again when it changes.
func Open(path string, log *slog.Logger) (*Acceptor, error) {
	keys, err := reread.Open(path, keytab.Load)
	return &Acceptor{keys: keys, log: log, acceptor: gss.Acceptor{Service: "ldap"}}, err
}

// Accept implements auth.Kerberos.
func (a *Acceptor) Accept(token []byte, c auth.Channel) (*auth.Ticket, error) {
	keys, err := a.keys.Current()
	if err != nil {
		a.log.Error("the keytab cannot be read, the last one is used", "error", err)
	}
	mechanism, inner, err := negotiated(token)
	if err != nil {
		return nil, err
	}
	accepted, err := a.acceptor.Accept(inner, keys, auth.BindingData(c), time.Now())
	if err != nil {
		return nil, err
	}
	t := &auth.Ticket{
		Principal: accepted.Client, Reply: accepted.Reply, Context: accepted,
		SPNEGO: mechanism != nil, Sign: accepted.Flags&gss.Integrity != 0, Seal: accepted.Flags&gss.Confidentiality != 0,
	}
	if t.SPNEGO {
		t.Reply, err = complete(mechanism, accepted.Reply)
	}
	return t, err
}

// These are the OIDs of SPNEGO and of the mechanisms that are Kerberos. The third is the one that Windows sends first.
var (
	spnego    = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 2}
	kerberos  = asn1.ObjectIdentifier{1, 2, 840, 113554, 1, 2, 2}
	microsoft = asn1.ObjectIdentifier{1, 2, 840, 48018, 1, 2, 2}
)

var (
	tokenTag     = cryptoasn1.Tag(0).Constructed() | 0x40
	initTag      = field(0) // of the choice between the first token and the others
	responseTag  = field(1)
	mechTypesTag = field(0)
	mechTokenTag = field(2)
)

func field(n uint8) cryptoasn1.Tag { return cryptoasn1.Tag(n).ContextSpecific().Constructed() }

// errMechanism reports a client that prefers another mechanism.
var errMechanism = errors.New("the client's first mechanism is not Kerberos: has it a ticket for this server?")

// negotiated returns the token of Kerberos in a client's first token of SPNEGO (RFC 4178, section 4.2.1), and the mechanism
// by the client's name for it. A token that is not one of SPNEGO is returned with a mechanism that is nil.
func negotiated(token []byte) (mechanism asn1.ObjectIdentifier, inner []byte, err error) {
	in := cryptobyte.String(token)
	var body, choice, sequence, types, list, rest, mech cryptobyte.String
	var oid asn1.ObjectIdentifier
	if !in.ReadASN1(&body, tokenTag) || !body.ReadASN1ObjectIdentifier(&oid) || !oid.Equal(spnego) {
		return nil, token, nil
	}
	if !body.ReadASN1(&choice, initTag) || !choice.ReadASN1(&sequence, cryptoasn1.SEQUENCE) ||
		!sequence.ReadASN1(&types, mechTypesTag) || !types.ReadASN1(&list, cryptoasn1.SEQUENCE) || !list.ReadASN1ObjectIdentifier(&mechanism) {
		return nil, nil, gss.ErrToken
	}
	if !mechanism.Equal(kerberos) && !mechanism.Equal(microsoft) {
		return nil, nil, errMechanism
	}
	for !sequence.Empty() {
		var tag cryptoasn1.Tag
		if !sequence.ReadAnyASN1(&rest, &tag) {
			return nil, nil, gss.ErrToken
		}
		if tag == mechTokenTag && rest.ReadASN1(&mech, cryptoasn1.OCTET_STRING) {
			return mechanism, mech, nil
		}
	}
	return nil, nil, gss.ErrToken
}

// complete returns the answer that ends a negotiation (RFC 4178, section 4.2.2).
func complete(mechanism asn1.ObjectIdentifier, reply []byte) ([]byte, error) {
	var b cryptobyte.Builder
	b.AddASN1(responseTag, func(b *cryptobyte.Builder) {
		b.AddASN1(cryptoasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(field(0), func(b *cryptobyte.Builder) { b.AddASN1Enum(0) }) // accept-completed
			b.AddASN1(field(1), func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(mechanism) })
			if reply != nil {
				b.AddASN1(field(2), func(b *cryptobyte.Builder) { b.AddASN1OctetString(reply) })
			}
		})
	})
	return b.Bytes()
}
