package schema

import (
	encoding "encoding/asn1"
	"encoding/hex"
	"errors"
	"math/big"
	"slices"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// The forms of the exact matching rules of RFC 4523. A certificate is identified by its
// issuer and its serial number, and a revocation list by its issuer and the time of its
// update (thisUpdate). An assertion consists of these two components, or is a certificate
// or list.
var (
	certificateExact = &Form{
		Name: "certificateExact", key: certificateKey, assertion: certificateAssertion, takes: []string{syntaxCertificate},
	}
	certificateListExact = &Form{
		Name: "certificateListExact", key: certificateListKey, assertion: certificateListAssertion, takes: []string{syntaxCertificateList},
	}
)

var (
	errCertificateAssertion = errors.New(`neither { serialNumber N, issuer rdnSequence:"DN" } nor a certificate in DER`)
	errListAssertion        = errors.New(`neither { issuer rdnSequence:"DN", thisUpdate utcTime:"TIME" } nor a certificate revocation list in DER`)
)

// certificateKey returns the key of a certificate: the key of the serial number, followed by
// the key of the issuer. The first key contains its own length, so the boundary between the
// two keys is known.
func certificateKey(s *Schema, v []byte) ([]byte, error) {
	tbs, ok := signedContent(v)
	serial, issuer := new(big.Int), cryptobyte.String(nil)
	ok = ok && tbs.SkipOptionalASN1(asn1.Tag(0).ContextSpecific().Constructed()) && tbs.ReadASN1Integer(serial) &&
		tbs.SkipASN1(asn1.SEQUENCE) && tbs.ReadASN1Element(&issuer, asn1.SEQUENCE)
	if !ok || serial.BitLen() > 3*maxDigits {
		return nil, errors.New("not the DER of a certificate (X.509)")
	}
	return serialAndIssuer(serial, issuerKey(s, issuer))
}

func serialAndIssuer(serial *big.Int, issuer []byte) ([]byte, error) {
	k, err := integerKey([]byte(serial.String()))
	return append(k, issuer...), err
}

// certificateListKey returns the key of a revocation list: the key of the time of its
// update, a zero byte, and the key of its issuer.
func certificateListKey(s *Schema, v []byte) ([]byte, error) {
	tbs, ok := signedContent(v)
	var issuer, at cryptobyte.String
	var tag asn1.Tag
	if !ok || !tbs.SkipOptionalASN1(asn1.INTEGER) || !tbs.SkipASN1(asn1.SEQUENCE) ||
		!tbs.ReadASN1Element(&issuer, asn1.SEQUENCE) || !tbs.ReadAnyASN1(&at, &tag) {
		return nil, errors.New("not the DER of a certificate revocation list (X.509)")
	}
	return updateAndIssuer(string(at), tag == asn1.UTCTime, issuerKey(s, issuer))
}

// updateAndIssuer returns the key for the time of an update and an issuer. If the time is
// invalid, the key contains the text of the time, because the syntax does not check the time.
func updateAndIssuer(at string, utc bool, issuer []byte) ([]byte, error) {
	if utc {
		at = century(at) + at
	}
	k, err := timeKey([]byte(at))
	if err != nil {
		k = []byte(at)
	}
	return slices.Concat(k, []byte{0}, issuer), nil
}

// century returns the first two digits of the year of a UTCTime, as defined by X.509 (RFC
// 5280, 4.1.2.5.1).
func century(at string) string {
	if at < "50" {
		return "20"
	}
	return "19"
}

// signedContent returns the content of a value of the type SIGNED{} of X.509.
func signedContent(v []byte) (content cryptobyte.String, ok bool) {
	s, ok := sequence(v)
	return content, ok && s.ReadASN1(&content, asn1.SEQUENCE)
}

// issuerKey returns the key of an X.501 Name. The key of a malformed Name is a zero byte
// and the Name itself.
func issuerKey(s *Schema, name []byte) []byte {
	text, ok := nameText(name)
	if ok {
		if k, err := issuerNameKey(s, text); err == nil {
			return k
		}
	}
	return append([]byte{0}, name...)
}

// nameText returns an X.501 Name as the text of RFC 4514 with numeric OIDs.
func nameText(name cryptobyte.String) (string, bool) {
	var sets cryptobyte.String
	if !name.ReadASN1(&sets, asn1.SEQUENCE) {
		return "", false
	}
	var rdns []string
	for !sets.Empty() {
		var set cryptobyte.String
		if !sets.ReadASN1(&set, asn1.SET) || set.Empty() {
			return "", false
		}
		rdn, ok := rdnText(set)
		if !ok {
			return "", false
		}
		rdns = append(rdns, rdn)
	}
	slices.Reverse(rdns)
	return strings.Join(rdns, ","), true
}

func rdnText(set cryptobyte.String) (string, bool) {
	var avas []string
	for !set.Empty() {
		var ava, value cryptobyte.String
		var oid encoding.ObjectIdentifier
		if !set.ReadASN1(&ava, asn1.SEQUENCE) || !ava.ReadASN1ObjectIdentifier(&oid) || !ava.ReadAnyASN1Element(&value, new(asn1.Tag)) {
			return "", false
		}
		avas = append(avas, oid.String()+"=#"+hex.EncodeToString(value))
	}
	return strings.Join(avas, "+"), true
}

// issuerNames is a dn.Matcher for names of issuers. It also accepts numeric OIDs of
// types that the schema does not define, and values that break their syntax.
type issuerNames struct{ *Schema }

func (n issuerNames) NormalizeAVA(attribute string, value []byte) (string, []byte, error) {
	oid, key, err := n.Schema.NormalizeAVA(attribute, value)
	switch {
	case err == nil:
		return oid, key, nil
	case n.Attribute(attribute) != nil: // the value breaks the syntax of the type
		return n.Attribute(attribute).inKeys, value, nil
	case validNumericOID(attribute):
		return string(n.coded([]byte(attribute))), value, nil
	}
	return "", nil, err
}

func issuerNameKey(s *Schema, text string) ([]byte, error) {
	name, err := dn.Parse(text)
	if err != nil {
		return nil, err
	}
	ns, err := name.Normalize(issuerNames{s})
	if err != nil {
		return nil, err
	}
	return dn.Key(ns), nil
}

// certificateAssertion parses { serialNumber 2, issuer rdnSequence:"cn=CA" } (RFC 4523,
// A.1). Like OpenLDAP, it also accepts an issuer without rdnSequence, the form 2$cn=CA,
// and a certificate.
func certificateAssertion(s *Schema, a []byte) ([]byte, error) {
	if validateCertificate(s, a) == nil {
		return certificateKey(s, a)
	}
	serial, issuer := "", ""
	if before, after, ok := strings.Cut(string(a), "$"); ok && len(before) <= maxDigits && allDigits([]byte(before)) {
		serial, issuer = before, after
	} else {
		g := &gser{rest: string(a)}
		g.components(map[string]func(){
			"serialNumber": func() { serial = g.integer() },
			"issuer":       func() { issuer = g.issuer() },
		})
		if g.err != nil || serial == "" {
			return nil, errCertificateAssertion
		}
	}
	n, ok := new(big.Int).SetString(serial, 10)
	if !ok {
		return nil, errCertificateAssertion
	}
	k, err := issuerNameKey(s, issuer)
	if err != nil {
		return nil, err
	}
	return serialAndIssuer(n, k)
}

// certificateListAssertion parses { issuer rdnSequence:"cn=CA", thisUpdate
// utcTime:"061120120000Z" } (RFC 4523, A.5). It also accepts generalTime instead of
// utcTime, and a revocation list.
func certificateListAssertion(s *Schema, a []byte) ([]byte, error) {
	if validateCertificateList(s, a) == nil {
		return certificateListKey(s, a)
	}
	issuer, at, utc := "", "", false
	g := &gser{rest: string(a)}
	g.components(map[string]func(){
		"issuer":     func() { issuer = g.issuer() },
		"thisUpdate": func() { at, utc = g.time() },
	})
	if g.err != nil || at == "" {
		return nil, errListAssertion
	}
	k, err := issuerNameKey(s, issuer)
	if err != nil {
		return nil, err
	}
	return updateAndIssuer(at, utc, k)
}

// components parses a SEQUENCE that contains each component once, in any order. Nothing
// may follow the SEQUENCE.
func (g *gser) components(read map[string]func()) {
	g.list(func() {
		name := g.word()
		f := read[name]
		if f == nil {
			g.fail("a component, not %q", name)
			return
		}
		delete(read, name)
		f()
	})
	if g.skip(); g.rest != "" || len(read) > 0 {
		g.fail("all components, and the end")
	}
}

// integer parses an INTEGER of any size. It also accepts OpenLDAP's form '1F'H.
func (g *gser) integer() string {
	if g.accept("'") {
		digits := g.word()
		g.expect("'H")
		n, err := hex.DecodeString(strings.Repeat("0", len(digits)%2) + digits)
		if err != nil || len(n) == 0 || len(n) > maxDigits/3 {
			g.fail("an integer")
			return ""
		}
		return new(big.Int).SetBytes(n).String()
	}
	text := g.word()
	if !validInteger([]byte(text)) {
		g.fail("an integer")
	}
	return text
}

// issuer parses the Name of an issuer.
func (g *gser) issuer() string {
	if g.accept("rdnSequence") {
		g.expect(":")
	}
	return g.text()
}

// text parses a text in double quotes.
func (g *gser) text() string {
	text, err := g.quoted()
	if err != nil {
		g.fail("a text in quotes")
	}
	return text
}

// time parses a Time. It returns the text of the time, and whether the time is a UTCTime.
func (g *gser) time() (at string, utc bool) {
	valid := validateUTCTime
	if utc = g.accept("utcTime"); !utc {
		g.expect("generalTime")
		valid = validateTime
	}
	g.expect(":")
	if at = g.text(); valid(nil, []byte(at)) != nil {
		g.fail("a time")
	}
	return at, utc
}

// validateAssertion returns a validator that accepts a value if the function read returns no
// error for it.
func validateAssertion(read func(*Schema, []byte) ([]byte, error)) validator {
	return func(s *Schema, v []byte) error {
		_, err := read(s, v)
		return err
	}
}
