package gss

import (
	"encoding/asn1"
	"errors"

	"golang.org/x/crypto/cryptobyte"
	cryptoasn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// krb5 is the OID of Kerberos as a mechanism of GSSAPI.
var krb5 = asn1.ObjectIdentifier{1, 2, 840, 113554, 1, 2, 2}

// These are the kinds of context tokens (RFC 4121, section 4.1).
const (
	tokenRequest = 0x0100
	tokenReply   = 0x0200
	tokenError   = 0x0300
)

// These are flags of a context (RFC 4121, section 4.1.1.1).
const (
	Mutual          = 2
	Replay          = 4
	Sequence        = 8
	Confidentiality = 16
	Integrity       = 32
)

// ErrToken reports octets that are no token of Kerberos.
var ErrToken = errors.New("this is no token of Kerberos")

var tokenTag = cryptoasn1.Tag(0).Constructed() | 0x40

// frame puts a message into a context token (RFC 2743, section 3.1).
func frame(kind uint16, message []byte) ([]byte, error) {
	var b cryptobyte.Builder
	b.AddASN1(tokenTag, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(krb5)
		b.AddUint16(kind)
		b.AddBytes(message)
	})
	return b.Bytes()
}

// unframe returns the message in a context token.
func unframe(token []byte) (kind uint16, message []byte, err error) {
	in := cryptobyte.String(token)
	var body cryptobyte.String
	var oid asn1.ObjectIdentifier
	if !in.ReadASN1(&body, tokenTag) || !in.Empty() || !body.ReadASN1ObjectIdentifier(&oid) || !oid.Equal(krb5) || !body.ReadUint16(&kind) {
		return 0, nil, ErrToken
	}
	return kind, body, nil
}
