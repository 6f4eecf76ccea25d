// Package certstest makes certificates for tests.
package certstest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An Authority signs certificates.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  crypto.Signer
}

// New returns a new authority.
func New(t testing.TB) *Authority {
	a := &Authority{t: t, key: newKey(t)}
	template := a.template(pkix.Name{CommonName: "test CA"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	a.cert = a.sign(template, template, a.key)
	return a
}

func newKey(t testing.TB) crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *Authority) template(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		a.t.Fatal(err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func (a *Authority) sign(template, parent *x509.Certificate, key crypto.Signer) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// Server returns a certificate for localhost.
func (a *Authority) Server() tls.Certificate {
	template := a.template(pkix.Name{CommonName: "localhost"})
	template.DNSNames = []string{"localhost", "ldap.example.com"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	return a.issue(template, newKey(a.t))
}

// Client returns a certificate for a client, with an EC key. If change is not nil,
// Client calls it to modify the certificate before it is signed.
func (a *Authority) Client(subject pkix.Name, change func(*x509.Certificate)) tls.Certificate {
	template := a.template(subject)
	if change != nil {
		change(template)
	}
	return a.issue(template, newKey(a.t))
}

// ClientRSA is like Client, but the certificate has an RSA key.
func (a *Authority) ClientRSA(subject pkix.Name, change func(*x509.Certificate)) tls.Certificate {
	template := a.template(subject)
	if change != nil {
		change(template)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.issue(template, key)
}

func (a *Authority) issue(template *x509.Certificate, key crypto.Signer) tls.Certificate {
	cert := a.sign(template, a.cert, key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// Pool returns a pool with only the authority's certificate.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Revocations returns a revocation list in PEM with some certificates. The list ends
// after the given time.
func (a *Authority) Revocations(ends time.Duration, revoked ...tls.Certificate) []byte {
	template := &x509.RevocationList{Number: big.NewInt(time.Now().UnixNano()), ThisUpdate: time.Now().Add(-2 * time.Hour), NextUpdate: time.Now().Add(ends)}
	for _, c := range revoked {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: c.Leaf.SerialNumber, RevocationTime: time.Now().Add(-time.Hour)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, template, a.cert, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// WriteCA writes the authority's certificate to a PEM file in dir and returns the
// file's name.
func (a *Authority) WriteCA(dir string) string {
	return a.write(dir, "ca.pem", "CERTIFICATE", a.cert.Raw)
}

// Write writes a certificate to NAME.pem and its key to NAME.key, and returns the names
// of both files.
func (a *Authority) Write(dir, name string, c tls.Certificate) (cert, key string) {
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(dir, name+".pem", "CERTIFICATE", c.Certificate[0]), a.write(dir, name+".key", "PRIVATE KEY", der)
}

func (a *Authority) write(dir, name, kind string, der []byte) string {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}
