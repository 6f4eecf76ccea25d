package cli

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"os"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
)

// A certificate that is renewed is used by the next connection, and a key that does not fit is an error.
func TestHBaseTLS(t *testing.T) {
	dir := t.TempDir()
	ca := certstest.New(t)
	first, second := ca.Client(pkix.Name{CommonName: "first"}, nil), ca.ClientRSA(pkix.Name{CommonName: "the second"}, nil)
	c := config.HBaseTLS{CA: ca.WriteCA(dir), ServerName: "hbase"}
	c.Certificate, c.Key = ca.Write(dir, "ldapd", first)
	current, err := hbaseTLS(&c)
	if err != nil {
		t.Fatal(err)
	}
	shown := func() (*tls.Config, string) {
		conf, err := current()
		if err != nil {
			return nil, err.Error()
		}
		return conf, conf.Certificates[0].Leaf.Subject.CommonName
	}
	if conf, name := shown(); name != "first" || conf.ServerName != "hbase" || !conf.RootCAs.Equal(ca.Pool()) {
		t.Errorf("%s, %+v", name, conf)
	}
	old, err := os.ReadFile(c.Key)
	if err != nil {
		t.Fatal(err)
	}
	ca.Write(dir, "ldapd", second)
	if _, name := shown(); name != "the second" {
		t.Errorf("after a change: %s", name)
	}
	if err := os.WriteFile(c.Key, old, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := shown(); !strings.Contains(err, "hbase.tls-key "+c.Key) {
		t.Errorf("a key that does not fit: %s", err)
	}
	if err := os.WriteFile(c.CA, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := hbaseTLS(&c); err == nil || !strings.Contains(err.Error(), "hbase.tls-ca: "+c.CA+" has no certificate") {
		t.Error(err)
	}
}
