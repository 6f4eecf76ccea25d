package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// SelfSigned returns a new certificate that its own key signs, and the key, both in PEM.
// A client that is to trust the server needs this certificate. The slice names contains
// names and addresses of hosts.
func SelfSigned(names []string, from, until time.Time) (certificate, key []byte, err error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		NotBefore:             from,
		NotAfter:              until,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, // the certificate is not a CA's: its key signs no other certificates
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		if template.Subject.CommonName == "" {
			template.Subject = pkix.Name{CommonName: n}
		}
		template.DNSNames = append(template.DNSNames, n)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

// Lasts is how long the certificates last that [Ensure] makes.
const Lasts = 2 * 365 * 24 * time.Hour

// HostNames returns the names and addresses of this machine for a certificate.
func HostNames() []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil && host != "localhost" {
		names = append([]string{host}, names...)
	}
	return names
}

// Ensure makes a self-signed certificate for this machine in two files, unless both exist. It
// reports whether it made one.
func Ensure(certificateFile, keyFile string) (made bool, err error) {
	_, err = os.Stat(certificateFile)
	if _, noKey := os.Stat(keyFile); err == nil && noKey == nil {
		return false, nil
	}
	certificate, key, err := SelfSigned(HostNames(), time.Now().Add(-time.Hour), time.Now().Add(Lasts))
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(keyFile), 0o755); err != nil {
		return false, err
	}
	for name, text := range map[string][]byte{keyFile: key, certificateFile: certificate} {
		if err := writeFile(name, text); err != nil {
			return false, err
		}
	}
	return true, nil
}

// writeFile writes a file that only its owner may read, so that it has all of the text or is not there.
func writeFile(name string, text []byte) error {
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
