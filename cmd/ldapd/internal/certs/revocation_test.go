package certs_test

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/certs"
	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
)

// TestRevocation checks which clients are refused after each change of the revocation lists.
func TestRevocation(t *testing.T) {
	r := newRig(t)
	r.files.Clients, r.files.ClientCRL = certs.Require, filepath.Join(t.TempDir(), "crl.pem")
	ann, bob := r.ca.Client(pkix.Name{CommonName: "Ann"}, nil), r.ca.Client(pkix.Name{CommonName: "Bob"}, nil)
	other := certstest.New(t)
	r.put(r.files.ClientCRL, string(r.ca.Revocations(time.Hour)))
	s, err := r.open()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, lists string
		ann, bob    string // part of the error, or "" for no error
	}{
		{"nobody", string(r.ca.Revocations(time.Hour)), "", ""},
		{"Ann", string(r.ca.Revocations(time.Hour, ann)), "was revoked", ""},
		{"Ann, beside another CA's", string(other.Revocations(time.Hour, bob)) + string(r.ca.Revocations(time.Hour, ann)), "was revoked", ""},
		{"a list that has ended", string(r.ca.Revocations(-time.Minute)), "ended at", "ended at"},
		{"one that has ended and a newer one", string(r.ca.Revocations(-time.Minute, ann)) + string(r.ca.Revocations(time.Hour, bob)), "", "was revoked"},
		{"no list of this CA, by name and key", string(other.Revocations(time.Hour)), "no revocation list", "no revocation list"},
		{"nonsense leaves the last ones in force", "nonsense", "no revocation list", "no revocation list"},
		{"nobody again", string(r.ca.Revocations(time.Hour)), "", ""},
	} {
		r.put(r.files.ClientCRL, c.lists)
		s.Reload()
		for who, want := range map[*tls.Certificate]string{&ann: c.ann, &bob: c.bob} {
			if err := handshake(t, s.Config(), *who); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("revoked %s: %s: %v", c.what, who.Leaf.Subject, err)
			}
		}
	}
}

// handshake returns the server's error of a TLS handshake with a client's certificate.
func handshake(t *testing.T, server *tls.Config, client tls.Certificate) error {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	go func() {
		c := tls.Client(b, &tls.Config{Certificates: []tls.Certificate{client}, InsecureSkipVerify: true})
		_ = c.Handshake()
		_, _ = c.Read(make([]byte, 1))
	}()
	return tls.Server(a, server).Handshake()
}

// TestWrongLists checks that files without a revocation list are refused.
func TestWrongLists(t *testing.T) {
	r := newRig(t)
	r.files.Clients, r.files.ClientCRL = certs.Request, filepath.Join(t.TempDir(), "crl.pem")
	if _, err := r.open(); err == nil || !strings.Contains(err.Error(), "crl.pem") {
		t.Errorf("no file: %v", err)
	}
	for _, text := range []string{"", "nonsense", "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"} {
		r.put(r.files.ClientCRL, text)
		if _, err := r.open(); err == nil || !strings.Contains(err.Error(), "crl.pem: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
