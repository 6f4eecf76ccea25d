package certs_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/certs"
	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
)

// A rig is a set of certificate files from which a test opens a store.
type rig struct {
	t     *testing.T
	dir   string
	ca    *certstest.Authority
	files certs.Files
	log   bytes.Buffer
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, dir: t.TempDir(), ca: certstest.New(t)}
	r.files.Certificate, r.files.Key = r.ca.Write(r.dir, "server", r.ca.Server())
	r.files.ClientCA = r.ca.WriteCA(r.dir)
	r.files.MinVersion = tls.VersionTLS12
	return r
}

func (r *rig) open() (*certs.Store, error) {
	return certs.Open(r.files, slog.New(slog.NewTextHandler(&r.log, nil)))
}

func (r *rig) put(path, text string) {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func TestClients(t *testing.T) {
	for clients, want := range map[certs.Clients]tls.ClientAuthType{
		certs.None: tls.NoClientCert, certs.Request: tls.RequestClientCert, certs.Require: tls.RequireAnyClientCert} {
		r := newRig(t)
		r.files.Clients = clients
		s, err := r.open()
		if err != nil {
			t.Fatal(err)
		}
		c := s.Config()
		if c.ClientAuth != want || c.ClientCAs != nil || (c.VerifyConnection != nil) != (clients != certs.None) || c.MinVersion != tls.VersionTLS12 || c.Certificates[0].Leaf == nil {
			t.Errorf("%d: %+v", clients, c)
		}
	}
}

// TestVerify checks that the server accepts a client's certificate only if it is valid,
// is signed by the CA, and is meant for clients.
func TestVerify(t *testing.T) {
	r := newRig(t)
	r.files.Clients = certs.Request
	s, err := r.open()
	if err != nil {
		t.Fatal(err)
	}
	ann := pkix.Name{CommonName: "Ann"}
	for _, c := range []struct {
		name   string
		client tls.Certificate
		want   string // part of the error, or "" for no error
	}{
		{"none", tls.Certificate{}, ""},
		{"EC", r.ca.Client(ann, nil), ""},
		{"RSA", r.ca.ClientRSA(ann, nil), ""},
		{"of another CA", certstest.New(t).Client(ann, nil), "unknown authority"},
		{"expired", r.ca.Client(ann, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "expired"},
		{"for servers", r.ca.Client(ann, func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }), "key usage"},
	} {
		var state tls.ConnectionState
		if c.client.Leaf != nil {
			state.PeerCertificates = []*x509.Certificate{c.client.Leaf}
		}
		err := s.Config().VerifyConnection(state)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestWrongFiles(t *testing.T) {
	other := newRig(t)
	for _, c := range []struct {
		name, field, want string
		spoil             func(r *rig)
	}{
		{"no certificate", "Certificate", "no such file", func(r *rig) { r.files.Certificate += "x" }},
		{"no key", "Key", "no such file", func(r *rig) { r.files.Key += "x" }},
		{"no CA", "ClientCA", "no such file", func(r *rig) { r.files.ClientCA += "x" }},
		{"not PEM", "Certificate", "no certificate in PEM", func(r *rig) { r.put(r.files.Certificate, "hello") }},
		{"key for a certificate", "Certificate", "no certificate in PEM", func(r *rig) { r.files.Certificate = r.files.Key }},
		{"certificate for a key", "Key", "private key", func(r *rig) { r.files.Key = r.files.Certificate }},
		{"another's key", "Key", "does not match", func(r *rig) { r.files.Key = other.files.Key }},
		{"CA is not PEM", "ClientCA", "no certificate in PEM", func(r *rig) { r.put(r.files.ClientCA, "") }},
	} {
		r := newRig(t)
		r.files.Clients = certs.Require
		c.spoil(r)
		_, err := r.open()
		var wrong *certs.Error
		if !errors.As(err, &wrong) || wrong.Field != c.field || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), r.dir) && c.name != "another's key" {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestReload checks that the store uses new files once they are valid, and logs invalid
// files once.
func TestReload(t *testing.T) {
	r := newRig(t)
	s, err := r.open()
	if err != nil {
		t.Fatal(err)
	}
	first := s.Config()
	s.Reload()
	if s.Config() != first {
		t.Error("the same files are another configuration")
	}

	second := r.ca.Client(pkix.Name{CommonName: "second"}, nil)
	cert, key := r.ca.Write(t.TempDir(), "second", second)
	rename(t, cert, r.files.Certificate)
	for range 3 {
		s.Reload()
	}
	if s.Config() != first || strings.Count(r.log.String(), "cannot be used") != 1 {
		t.Errorf("a certificate without its key: %s", &r.log)
	}
	rename(t, key, r.files.Key)
	s.Reload()
	if got := s.Config().Certificates[0].Leaf.Subject.CommonName; got != "second" {
		t.Errorf("the certificate in force is %q", got)
	}

	os.Remove(r.files.Key)
	s.Reload()
	if s.Config().Certificates[0].Leaf.Subject.CommonName != "second" || !strings.Contains(r.log.String(), "server.key: no such file") {
		t.Errorf("without a key: %s", &r.log)
	}
}

func rename(t *testing.T, from, to string) {
	if err := os.Rename(from, filepath.Clean(to)); err != nil {
		t.Fatal(err)
	}
}
