package main

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
)

// TestConfigCheckOfCertificates checks the findings about certificates and keys.
func TestConfigCheckOfCertificates(t *testing.T) {
	ca, dir := certstest.New(t), t.TempDir()
	until := func(d time.Duration, names bool) tls.Certificate {
		return ca.Client(pkix.Name{CommonName: "x"}, func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(d)
			if names {
				c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
			}
		})
	}
	const day = 24 * time.Hour
	good, goodKey := ca.Write(dir, "good", until(40*day, true))
	soon, soonKey := ca.Write(dir, "soon", until(20*day+time.Hour, true))
	late, lateKey := ca.Write(dir, "late", until(-time.Minute, true))
	bare, bareKey := ca.Write(dir, "bare", until(40*day, false))
	open := filepath.Join(dir, "open.key")
	b, err := os.ReadFile(goodKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(open, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		certificate, key string
		level            level
		want             string
	}{
		{good, goodKey, "", ""},
		{soon, soonKey, isWarning, "tls.certificate: " + soon + " ends on "},
		{soon, soonKey, isWarning, ", in 20 days"},
		{late, lateKey, isError, "tls.certificate: " + late + " has ended on "},
		{bare, bareKey, isWarning, "names no host"},
		{good, open, isWarning, "tls.key: others can read " + open},
		{good, soonKey, isError, "tls.key: " + soonKey + ": tls: private key does not match"},
		{late, soonKey, isError, "has ended on"},
		{goodKey, goodKey, isError, "tls.certificate: " + goodKey + ": no certificate in PEM"},
	} {
		cfg, mistakes := config.Check(config.Sources{Flags: map[string][]string{
			"store": {filepath.Join(dir, "store")}, "listen": {"ldapi://" + filepath.Join(dir, "s")},
			"admin.password-hash": {"{SSHA}y+dX0kZIbVwVNdDNg5T1bjbFH+F/+wKO"},
			"tls.certificate":     {c.certificate}, "tls.key": {c.key}}})
		k := checkConfig(cfg, mistakes)
		if c.level == "" {
			if n := len(k.findings[isError]) + len(k.findings[isWarning]); n != 0 {
				t.Errorf("%v", k.findings)
			}
			continue
		}
		if got := strings.Join(k.findings[c.level], "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s, %s: %v, want %s: %s", c.certificate, c.key, k.findings, c.level, c.want)
		}
	}
}
