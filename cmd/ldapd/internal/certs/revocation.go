package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// revocations maps the DER name of a CA to its revocation lists (RFC 5280, 5).
type revocations map[string][]*x509.RevocationList

// parseRevocations reads revocation lists in PEM.
func parseRevocations(text []byte) (revocations, error) {
	all := revocations{}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			return nil, fmt.Errorf("a block %q, which is no revocation list (X509 CRL)", block.Type)
		}
		l, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, err
		}
		all[string(l.RawIssuer)] = append(all[string(l.RawIssuer)], l)
	}
	if len(all) == 0 {
		return nil, errors.New("no revocation list in PEM")
	}
	return all, nil
}

// check returns an error if a certificate of a verified chain is revoked. A list counts
// only if it is current and signed by the issuer of the certificate. The client's own
// certificate must be covered by such a list. The certificate of a CA need not be
// covered.
func (all revocations) check(chain []*x509.Certificate, now time.Time) error {
	for i, c := range chain[:len(chain)-1] {
		l, err := all.of(c, chain[i+1], now)
		if l == nil && i > 0 {
			continue
		}
		if err != nil {
			return err
		}
		for _, r := range l.RevokedCertificateEntries {
			if r.SerialNumber.Cmp(c.SerialNumber) == 0 {
				return fmt.Errorf("the certificate of %q was revoked at %s", c.Subject, r.RevocationTime.UTC().Format(time.RFC3339))
			}
		}
	}
	return nil
}

// The method "of" returns the newest current list of a certificate's issuer.
func (all revocations) of(c, issuer *x509.Certificate, now time.Time) (newest *x509.RevocationList, err error) {
	err = fmt.Errorf("the certificate of %q: there is no revocation list of %q", c.Subject, c.Issuer)
	for _, l := range all[string(c.RawIssuer)] {
		switch {
		case !bytes.Equal(l.RawIssuer, issuer.RawSubject) || l.CheckSignatureFrom(issuer) != nil:
		case !l.NextUpdate.IsZero() && now.After(l.NextUpdate):
			if newest == nil {
				err = fmt.Errorf("the certificate of %q: the revocation list of %q ended at %s", c.Subject, c.Issuer, l.NextUpdate.UTC().Format(time.RFC3339))
			}
		case newest == nil || l.ThisUpdate.After(newest.ThisUpdate):
			newest, err = l, nil
		}
	}
	return newest, err
}

// ends returns the earliest end of a list, or the zero time if no list has an end.
func (all revocations) ends() (first time.Time) {
	for _, lists := range all {
		for _, l := range lists {
			if !l.NextUpdate.IsZero() && (first.IsZero() || l.NextUpdate.Before(first)) {
				first = l.NextUpdate
			}
		}
	}
	return first
}
