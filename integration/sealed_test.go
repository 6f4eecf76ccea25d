package integration

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// TestSealedSecrets goes through the life of keys that seal secrets in HBase: no hash is readable there, a server without
// the key does not start, keys are changed, and at last nothing is sealed.
func TestSealedSecrets(t *testing.T) {
	t.Parallel()
	store := hbase.Scheme + hbasetest.Start(t) + "/" + hbasetest.Prefix(t)
	dir := t.TempDir()
	file, conf := filepath.Join(dir, "keys"), filepath.Join(dir, "ldapd.yaml")
	use := func(letters string) {
		t.Helper()
		text := "store: " + store + "\n"
		if letters != "" {
			text += "secrets: { seal: " + file + " }\n"
		}
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, l := range letters {
			if l == '-' {
				b.WriteString("plain\n")
				continue
			}
			b.WriteString(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(l)}, 32)) + "\n")
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(letters string) {
		t.Helper()
		use(letters)
		if _, err := tryServe(t, store, "--config", conf); err == nil || !strings.Contains(err.Error(), "which secrets.seal does not have") {
			t.Errorf("with the keys %q: %v", letters, err)
		}
	}
	// served serves the store, binds as Ann, and writes everything again.
	served := func(letters string) {
		t.Helper()
		use(letters)
		p := serve(t, store, "--config", conf)
		defer p.kill()
		p.connect(annDN, annPassword)
		want := "the secrets of 1 entries were written again"
		if letters == "" {
			want = "the store seals nothing"
		}
		if out, status := ldapdRun(t, "reseal", "--config", conf); (status == 0) != (letters != "") || !strings.Contains(out, want) {
			t.Errorf("reseal with the keys %q: %d, %s", letters, status, out)
		}
		p.connect(annDN, annPassword)
	}

	use("a")
	p := serve(t, store, "--config", conf)
	c := p.admin()
	for _, dn := range []string{suffix, peopleDN} {
		add := ldap.NewAddRequest(dn, nil)
		add.Attribute("objectClass", []string{map[bool]string{true: "domain", false: "organizationalUnit"}[dn == suffix]})
		if err := c.Add(add); err != nil {
			t.Fatal(err)
		}
	}
	ann := ldap.NewAddRequest(annDN, nil)
	for a, v := range map[string]string{"objectClass": "inetOrgPerson", "cn": "Ann", "sn": "Ann", "userPassword": annPassword} {
		ann.Attribute(a, []string{v})
	}
	if err := c.Add(ann); err != nil {
		t.Fatal(err)
	}
	p.connect(annDN, annPassword)
	p.kill()
	bare, err := hbase.Open(t.Context(), store, hbase.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	for _, err := range bare.Table(master.Name).Scan(t.Context(), table.Range{}, table.Select{Families: []table.Family{master.Secrets}}) {
		if !errors.Is(err, table.ErrKey) {
			t.Errorf("a secret can be read without a key: %v", err)
		}
	}
	refused("")
	refused("b")
	served("ba")
	refused("a")
	served("b")
	served("-b")
	served("")
}
