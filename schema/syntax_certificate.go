package schema

import (
	"errors"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// This file implements syntaxes whose values are DER (RFC 4523). Like slapd, the
// validators check the structure of a value, but not the contents of X.509 extensions and
// algorithms. Certificates of all ages must be accepted.

// validateSequence accepts every value that is one SEQUENCE.
func validateSequence(_ *Schema, v []byte) error {
	if _, ok := sequence(v); !ok {
		return errors.New("not the DER of a SEQUENCE")
	}
	return nil
}

// validateCertificate validates a Certificate (RFC 4523, 2.1).
func validateCertificate(_ *Schema, v []byte) error {
	if signed(v, isTBSCertificate) {
		return nil
	}
	return errors.New("not the DER of a certificate (X.509)")
}

// validateCertificateList validates a Certificate List (RFC 4523, 2.2).
func validateCertificateList(_ *Schema, v []byte) error {
	if signed(v, isTBSCertList) {
		return nil
	}
	return errors.New("not the DER of a certificate revocation list (X.509)")
}

// validateCertificatePair validates a Certificate Pair (RFC 4523, 2.3): a certificate
// issued to the authority, a certificate issued by the authority, or both.
func validateCertificatePair(s *Schema, v []byte) error {
	pair, ok := sequence(v)
	ok = ok && !pair.Empty()
	for _, tag := range []asn1.Tag{0, 1} {
		var one cryptobyte.String
		var has bool
		if !pair.ReadOptionalASN1(&one, &has, tag.ContextSpecific().Constructed()) || has && !signed(one, isTBSCertificate) {
			ok = false
		}
	}
	if !ok || !pair.Empty() {
		return errors.New("not the DER of a pair of certificates (X.509)")
	}
	return nil
}

// sequence returns the content of v. It returns false if v is not exactly one SEQUENCE.
func sequence(v []byte) (inner cryptobyte.String, ok bool) {
	s := cryptobyte.String(v)
	return inner, s.ReadASN1(&inner, asn1.SEQUENCE) && s.Empty()
}

// signed reports whether v is a value of the type SIGNED{} of X.509: the content, an
// algorithm and a BIT STRING. The call isValid(content) must report whether the content
// is valid.
func signed(v []byte, isValid func(cryptobyte.String) bool) bool {
	s, ok := sequence(v)
	var content cryptobyte.String
	return ok && s.ReadASN1(&content, asn1.SEQUENCE) && isValid(content) &&
		skip(&s, asn1.SEQUENCE, asn1.BIT_STRING) && s.Empty()
}

// isTBSCertificate reports whether s begins with a serial number, an algorithm, an issuer, a
// validity, a subject and a public key. A version may precede them. Anything may follow.
func isTBSCertificate(s cryptobyte.String) bool {
	return s.SkipOptionalASN1(asn1.Tag(0).ContextSpecific().Constructed()) &&
		skip(&s, asn1.INTEGER, asn1.SEQUENCE, asn1.SEQUENCE, asn1.SEQUENCE, asn1.SEQUENCE, asn1.SEQUENCE)
}

// isTBSCertList reports whether s begins with an algorithm, an issuer and the time of the
// update. A version may precede them. Anything may follow.
func isTBSCertList(s cryptobyte.String) bool {
	return s.SkipOptionalASN1(asn1.INTEGER) && skip(&s, asn1.SEQUENCE, asn1.SEQUENCE) &&
		(s.PeekASN1Tag(asn1.UTCTime) || s.PeekASN1Tag(asn1.GeneralizedTime))
}

func skip(s *cryptobyte.String, tags ...asn1.Tag) bool {
	for _, tag := range tags {
		if !s.SkipASN1(tag) {
			return false
		}
	}
	return true
}
