package schema

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"strings"
	"testing"
	"time"
)

// caName is the name of an issuer. It contains a comma, and an attribute whose value is
// an IA5String.
const caName = `EMAIL=ca@example.com,CN=Example CA,O=Openldap Example\, Ltd.,ST=California,C=US`

var (
	certificate2 = issued(big.NewInt(2), caSubject)
	revocations  = revoked(time.Date(2003, 10, 17, 16, 30, 41, 0, time.UTC))
	huge, _      = new(big.Int).SetString("123456789012345678901234567890", 10)
)

var caSubject = pkix.Name{
	Country: []string{"US"}, Province: []string{"California"}, Organization: []string{"Openldap Example, Ltd."}, CommonName: "Example CA",
	ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1},
		Value: asn1.RawValue{Tag: asn1.TagIA5String, Bytes: []byte("ca@example.com")}}},
}

// authority returns the key and the certificate of an issuer with the given name.
func authority(name pkix.Name) (ed25519.PrivateKey, *x509.Certificate) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	raw, err := asn1.Marshal(name.ToRDNSequence())
	if err != nil {
		panic(err)
	}
	return key, &x509.Certificate{RawSubject: raw, SerialNumber: big.NewInt(0), KeyUsage: x509.KeyUsageCRLSign, SubjectKeyId: []byte{1}}
}

func issued(serial *big.Int, by pkix.Name) string {
	key, ca := authority(by)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "x"}}, ca, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return string(der)
}

func revoked(at time.Time) string {
	key, ca := authority(caSubject)
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: at, NextUpdate: at.Add(time.Hour)}, ca, key)
	if err != nil {
		panic(err)
	}
	return string(der)
}

// TestCertificateExactMatch checks the forms of assertions in RFC 4523 and in OpenLDAP's
// test021-certificate.
func TestCertificateExactMatch(t *testing.T) {
	odd := pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: "Odd"}}}
	for _, c := range []struct {
		value, assertion, want string
	}{
		{certificate2, `{ serialNumber 2, issuer rdnSequence:"` + caName + `" }`, yes},
		{certificate2, `{serialNumber 2,issuer rdnSequence:"` + caName + `"}`, yes},
		{certificate2, `{ issuer rdnSequence:"` + caName + `", serialNumber 2 }`, yes},
		{certificate2, `{ serialNumber 2, issuer "` + caName + `" }`, yes},
		{certificate2, `{ serialNumber '02'H, issuer rdnSequence:"` + caName + `" }`, yes},
		{certificate2, `2$` + caName, yes},
		{certificate2, certificate2, yes},
		{certificate2, issued(big.NewInt(2), caSubject), yes}, // same number and issuer
		{certificate2, issued(big.NewInt(3), caSubject), no},
		{certificate2, `{ serialNumber 3, issuer rdnSequence:"` + caName + `" }`, no},
		{certificate2, `{ serialNumber -2, issuer rdnSequence:"` + caName + `" }`, no},
		{certificate2, `{ serialNumber 2, issuer rdnSequence:"` + strings.ToLower(caName) + `" }`, yes},
		{certificate2, `{ serialNumber 2, issuer rdnSequence:"C=US" }`, no},
		{certificate2, `3$` + caName, no},
		{issued(huge, caSubject), `{ serialNumber 123456789012345678901234567890, issuer rdnSequence:"` + caName + `" }`, yes},
		{issued(huge, caSubject), `{ serialNumber '18EE90FF6C373E0EE4E3F0AD2'H, issuer rdnSequence:"` + caName + `" }`, yes},
		{issued(big.NewInt(1), odd), `{ serialNumber 1, issuer rdnSequence:"1.2.3.4=Odd" }`, yes},
		{issued(big.NewInt(1), odd), `{ serialNumber 1, issuer rdnSequence:"1.2.3.4=#13034f6464" }`, yes},
		{issued(big.NewInt(1), odd), `{ serialNumber 1, issuer rdnSequence:"1.2.3.5=Odd" }`, no},
		{issued(big.NewInt(1), pkix.Name{CommonName: `say "hi"`}), `{ serialNumber 1, issuer rdnSequence:"cn=say \""hi\""" }`, yes},
		{aCertificate, `{ serialNumber 1, issuer rdnSequence:"" }`, yes}, // aCertificate has no issuer
		{certificate2, `{ serialNumber 2, issuer rdnSequence:"bogus=x" }`, undefined},
		{certificate2, `{ serialNumber 02, issuer rdnSequence:"C=US" }`, undefined},
		{certificate2, `{ serialNumber 2 }`, undefined},
		{certificate2, `{ serialNumber 2, serialNumber 2, issuer rdnSequence:"C=US" }`, undefined},
		{certificate2, `{ serialNumber 2, issuer rdnSequence:"C=US" } x`, undefined},
		{certificate2, `{ serialNumber '0G'H, issuer rdnSequence:"C=US" }`, undefined},
		{certificate2, `{ serialNumber ''H, issuer rdnSequence:"C=US" }`, undefined},
		{certificate2, `{ serialNumber 2, issuer rdnSequence:"C=US }`, undefined},
		{certificate2, "", undefined},
		{certificate2, "2", undefined},
		// Serial numbers have as many digits as other integers at most.
		{certificate2, strings.Repeat("1", 4096) + `$` + caName, no},
		{certificate2, strings.Repeat("1", 4097) + `$` + caName, undefined},
		{certificate2, `{ serialNumber ` + strings.Repeat("1", 4097) + `, issuer rdnSequence:"C=US" }`, undefined},
		{certificate2, `{ serialNumber '` + strings.Repeat("11", 1365) + `'H, issuer rdnSequence:"C=US" }`, no},
		{certificate2, `{ serialNumber '` + strings.Repeat("11", 1366) + `'H, issuer rdnSequence:"C=US" }`, undefined},
		{issued(longest, caSubject), longest.String() + `$` + caName, yes},
	} {
		if got := verdict(t, rule(t, "certificateExactMatch"), c.value, c.assertion); got != c.want {
			t.Errorf("%q: %s; want %s", c.assertion, got, c.want)
		}
	}
}

// longest is the largest serial number of a certificate that is accepted.
var longest = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 3*4096), big.NewInt(1))

func TestLongSerialNumber(t *testing.T) {
	over := issued(new(big.Int).Add(longest, big.NewInt(1)), caSubject)
	if k, err := rule(t, "certificateExactMatch").Key([]byte(over)); err == nil {
		t.Errorf("a key of %d octets", len(k))
	}
}

func TestCertificateListExactMatch(t *testing.T) {
	late := revoked(time.Date(2061, 1, 2, 3, 4, 5, 0, time.UTC)) // the time is a GeneralizedTime
	issuer := `issuer rdnSequence:"` + caName + `"`
	for _, c := range []struct {
		value, assertion, want string
	}{
		{revocations, `{ ` + issuer + `, thisUpdate utcTime:"031017163041Z" }`, yes},
		{revocations, `{ thisUpdate generalTime:"20031017163041Z", ` + issuer + ` }`, yes},
		{revocations, `{ ` + issuer + `, thisUpdate utcTime:"0310171830+0200" }`, no},
		{revocations, `{ ` + issuer + `, thisUpdate utcTime:"031017183041+0200" }`, yes},
		{revocations, revocations, yes},
		{revocations, late, no},
		{late, `{ ` + issuer + `, thisUpdate generalTime:"20610102030405Z" }`, yes},
		{late, `{ ` + issuer + `, thisUpdate utcTime:"610102030405Z" }`, no}, // the UTCTime is in 1961
		{revocations, `{ issuer rdnSequence:"C=US", thisUpdate utcTime:"031017163041Z" }`, no},
		{revocations, `{ ` + issuer + `, thisUpdate utcTime:"031317163041Z" }`, undefined},
		{revocations, `{ ` + issuer + `, thisUpdate "031017163041Z" }`, undefined},
		{revocations, `{ ` + issuer + ` }`, undefined},
		{revocations, certificate2, undefined},
	} {
		if got := verdict(t, rule(t, "certificateListExactMatch"), c.value, c.assertion); got != c.want {
			t.Errorf("%q: %s; want %s", c.assertion, got, c.want)
		}
	}
}

// TestOddCertificatesHaveKeys checks that unusual values that the syntax accepts have keys,
// so that certificates of all ages can be stored.
func TestOddCertificatesHaveKeys(t *testing.T) {
	for _, rdn := range []string{"\x30\x02\x31\x00", "\x30\x03\x02\x01\x05", "\x30\x04\x31\x02\x30\x00"} {
		tbs := "\x02\x01\x07\x30\x00" + rdn + "\x30\x00\x30\x00\x30\x00"
		body := "\x30" + string(rune(len(tbs))) + tbs + "\x30\x00\x03\x01\x00"
		v := "\x30" + string(rune(len(body))) + body
		userCertificate := Core().Attribute("userCertificate")
		if err := userCertificate.Syntax.Validate([]byte(v)); err != nil {
			t.Fatal(err)
		}
		if k, err := userCertificate.Equality.Key([]byte(v)); err != nil || len(k) == 0 {
			t.Errorf("%q: %v", rdn, err)
		}
	}
}
