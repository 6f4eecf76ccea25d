package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/auth/reread"
)

// hbaseTLS reads the files of TLS to HBase. The function that it returns is called for each connection, and reads files
// again that have changed.
func hbaseTLS(c *config.HBaseTLS) (func() (*tls.Config, error), error) {
	fixed := tls.Config{ServerName: c.ServerName, MinVersion: tls.VersionTLS12}
	var cas *reread.File[*x509.CertPool]
	var certificate, key *reread.File[[]byte]
	var err error
	if c.CA != "system" {
		if cas, err = reread.Open(c.CA, readCAs); err != nil {
			return nil, fmt.Errorf("hbase.tls-ca: %w", err)
		}
	}
	if c.Certificate != "" {
		if certificate, err = reread.Open(c.Certificate, os.ReadFile); err != nil {
			return nil, fmt.Errorf("hbase.tls-certificate: %w", err)
		}
		if key, err = reread.Open(c.Key, os.ReadFile); err != nil {
			return nil, fmt.Errorf("hbase.tls-key: %w", err)
		}
	}
	current := func() (*tls.Config, error) {
		t := fixed.Clone()
		if cas != nil {
			pool, err := cas.Current()
			if err != nil {
				return nil, fmt.Errorf("hbase.tls-ca: %w", err)
			}
			t.RootCAs = pool
		}
		if certificate != nil {
			pair, err := currentPair(certificate, key)
			if err != nil {
				return nil, fmt.Errorf("hbase.tls-certificate %s and hbase.tls-key %s: %w", c.Certificate, c.Key, err)
			}
			t.Certificates = []tls.Certificate{pair}
		}
		return t, nil
	}
	_, err = current()
	return current, err
}

func currentPair(certificate, key *reread.File[[]byte]) (tls.Certificate, error) {
	c, err := certificate.Current()
	if err != nil {
		return tls.Certificate{}, err
	}
	k, err := key.Current()
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(c, k)
}

func readCAs(path string) (*x509.CertPool, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return pool, nil
}
