package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
)

func channelOf(c tls.Certificate) secured {
	chain := []*x509.Certificate{c.Leaf}
	return secured{state: &tls.ConnectionState{PeerCertificates: chain, VerifiedChains: [][]*x509.Certificate{chain}}}
}

// alternatives returns a subject alternative name extension with an otherName and a mail
// address.
func alternatives(t *testing.T, id asn1.ObjectIdentifier, tag cbasn1.Tag, text string) pkix.Extension {
	t.Helper()
	var b cryptobyte.Builder
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.Tag(0).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(id)
			b.AddASN1(cbasn1.Tag(0).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) {
				b.AddASN1(tag, func(b *cryptobyte.Builder) { b.AddBytes([]byte(text)) })
			})
		})
		b.AddASN1(cbasn1.Tag(1).ContextSpecific(), func(b *cryptobyte.Builder) { b.AddBytes([]byte("ann@example.com")) })
	})
	value, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return pkix.Extension{Id: alternativeNames, Value: value}
}

// TestNamesOfCertificates checks the names of real certificates.
func TestNamesOfCertificates(t *testing.T) {
	ca := certstest.New(t)
	with := func(e pkix.Extension) tls.Certificate {
		return ca.Client(pkix.Name{CommonName: "Ann", Organization: []string{"Example"}}, func(c *x509.Certificate) {
			c.SerialNumber, c.ExtraExtensions = big.NewInt(1000017), []pkix.Extension{e}
		})
	}
	for name, c := range map[string]struct {
		extension pkix.Extension
		upn       []string
	}{
		"a principal":            {alternatives(t, principalName, cbasn1.UTF8String, "änn@corp.example.com"), []string{"upn:änn@corp.example.com"}},
		"another otherName":      {alternatives(t, asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 8, 9}, cbasn1.UTF8String, "x@example.com"), nil},
		"a principal of octets":  {alternatives(t, principalName, cbasn1.OCTET_STRING, "ann@example.com"), nil},
		"a principal of no text": {alternatives(t, principalName, cbasn1.UTF8String, "\xff"), nil},
	} {
		cert := with(c.extension)
		want := append([]string{"dn:cn=Ann,o=Example", "mail:ann@example.com"}, c.upn...)
		want = append(want, fmt.Sprintf("cert:%x", sha256.Sum256(cert.Certificate[0])), "issuer:cn=test CA#1000017")
		if got := ExternalNames(channelOf(cert)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
