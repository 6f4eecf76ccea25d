package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"slices"
	"unicode/utf8"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// External reports whether a layer below LDAP has authenticated the client: TLS with a
// verified client certificate, or the kernel for a client on a Unix socket.
func External(c Channel) bool {
	_, _, local := c.Peer()
	return local || Certificate(c) != nil
}

// Certificate returns the client's certificate, or nil if no certificate was verified.
func Certificate(c Channel) *x509.Certificate {
	state := c.TLS()
	if state == nil || len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}

// ExternalNames returns the names of the client that the layers below LDAP have
// authenticated. Each name begins with its kind, as in rules:
//
//	dn:cn=Ann,o=Example        the subject of the certificate
//	mail:ann@example.com       the subject alternative names
//	uri:spiffe://example/ann
//	dns:host.example.com
//	upn:ann@example.com        the name of a user in Active Directory
//	cert:ba7816bf...           the SHA-256 of the certificate, in lower case
//	issuer:cn=CA,o=Example#17  the issuer, and the serial number in decimal
//	dn:gidNumber=G+uidNumber=U,cn=peercred,cn=external,cn=auth
//
// The last form is the name of a process on the same machine. Other directory servers use
// the same form.
func ExternalNames(c Channel) (names []string) {
	if uid, gid, ok := c.Peer(); ok {
		names = append(names, "dn:"+PeerName(uid, gid))
	}
	cert := Certificate(c)
	if cert == nil {
		return names
	}
	if subject, ok := nameOf(cert.RawSubject); ok {
		names = append(names, "dn:"+subject.String())
	}
	for _, s := range cert.EmailAddresses {
		names = append(names, "mail:"+s)
	}
	for _, u := range cert.URIs {
		names = append(names, "uri:"+u.String())
	}
	for _, s := range cert.DNSNames {
		names = append(names, "dns:"+s)
	}
	for _, s := range principals(cert) {
		names = append(names, "upn:"+s)
	}
	names = append(names, fmt.Sprintf("cert:%x", sha256.Sum256(cert.Raw)))
	if issuer, ok := nameOf(cert.RawIssuer); ok {
		names = append(names, "issuer:"+issuer.String()+"#"+cert.SerialNumber.String())
	}
	return names
}

// alternativeNames is the OID of the extension with the subject alternative names. One of these
// names may be a user principal name, whose OID is principalName. Certificates for smart cards
// of Active Directory contain such a name.
var (
	alternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}
	principalName    = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3}
)

// principals returns the user principal names in a certificate. It leaves out malformed
// names.
func principals(cert *x509.Certificate) (names []string) {
	for _, e := range cert.Extensions {
		if !e.Id.Equal(alternativeNames) {
			continue
		}
		all := cryptobyte.String(e.Value)
		if !all.ReadASN1(&all, cbasn1.SEQUENCE) {
			return nil
		}
		for !all.Empty() {
			var name cryptobyte.String
			var tag cbasn1.Tag
			if !all.ReadAnyASN1(&name, &tag) {
				return nil
			}
			if tag != cbasn1.Tag(0).ContextSpecific().Constructed() {
				continue
			}
			if text, ok := principal(name); ok {
				names = append(names, text)
			}
		}
	}
	return names
}

// principal reads an otherName (RFC 5280, 4.2.1.6) that is a user principal name.
func principal(name cryptobyte.String) (string, bool) {
	var id asn1.ObjectIdentifier
	var value, text cryptobyte.String
	ok := name.ReadASN1ObjectIdentifier(&id) && id.Equal(principalName) &&
		name.ReadASN1(&value, cbasn1.Tag(0).ContextSpecific().Constructed()) && value.ReadASN1(&text, cbasn1.UTF8String)
	return string(text), ok && utf8.Valid(text) && len(text) > 0
}

// PeerName returns the name of a process on the same machine.
func PeerName(uid, gid int) string {
	return fmt.Sprintf("gidNumber=%d+uidNumber=%d,cn=peercred,cn=external,cn=auth", gid, uid)
}

// subjectTypes are the short names of attribute types in the names of subjects and issuers.
// All other types appear as OIDs.
var subjectTypes = map[string]string{
	"2.5.4.3": "cn", "2.5.4.4": "sn", "2.5.4.5": "serialNumber", "2.5.4.6": "c", "2.5.4.7": "l",
	"2.5.4.8": "st", "2.5.4.9": "street", "2.5.4.10": "o", "2.5.4.11": "ou", "2.5.4.12": "title",
	"2.5.4.42": "givenName", "0.9.2342.19200300.100.1.1": "uid", "0.9.2342.19200300.100.1.25": "dc",
	"1.2.840.113549.1.9.1": "emailAddress",
}

// nameOf returns the name of a subject or an issuer as a DN. The RDNs of the DN are in the
// reverse order of the RDNs in the certificate. nameOf returns false if the name is empty or
// malformed, or if a value is not text.
func nameOf(raw []byte) (name dn.DN, ok bool) {
	var rdns pkix.RDNSequence
	if rest, err := asn1.Unmarshal(raw, &rdns); err != nil || len(rest) > 0 {
		return nil, false
	}
	for _, set := range slices.Backward(rdns) {
		var rdn dn.RDN
		for _, a := range set {
			value, isText := a.Value.(string)
			if !isText {
				return nil, false
			}
			t := a.Type.String()
			if short, known := subjectTypes[t]; known {
				t = short
			}
			rdn = append(rdn, dn.AVA{Type: t, Value: []byte(value)})
		}
		name = append(name, rdn)
	}
	return name, len(name) > 0
}
