package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// show returns a target as text.
func show(t Target) string {
	switch {
	case t.Bare:
		return "dn:" + t.Name.String()
	case !t.Search:
		return t.Name.String()
	}
	return t.Name.String() + "?" + []string{"base", "one", "sub"}[t.Scope] + "?" + t.Filter.String()
}

func TestRules(t *testing.T) {
	for _, c := range []struct{ rule, name, want string }{
		{DefaultRule, "u:ann", "?sub?(uid=ann)"},
		{DefaultRule, "u:", ""},
		{DefaultRule, "dn:cn=ann", ""},
		{DefaultRule, "u:*", `?sub?(uid=\2a)`},
		{DefaultRule, "u:a)(uid=b", `?sub?(uid=a\29\28uid=b)`},
		{`u:(.*) -> uid=$1,ou=people,dc=x`, "u:ann", "uid=ann,ou=people,dc=x"},
		{`u:(.*) -> uid=$1,ou=people,dc=x`, "u:ann,ou=admins", `uid=ann\,ou=admins,ou=people,dc=x`},
		{`u:(.*) -> uid=$1,ou=people,dc=x`, "u:a+cn=b", `uid=a\+cn=b,ou=people,dc=x`},
		{`u:(?P<who>[a-z]+)@(?P<where>[a-z]+) -> uid=${who},dc=${where}`, "u:ann@example", "uid=ann,dc=example"},
		{`u:(?P<who>[a-z]+)@(?P<where>[a-z]+) -> uid=${who},dc=${where}`, "u:ann@example.com", ""},
		{`u:([^@]+)@x -> ldap:///ou=$1,dc=x??one?(&(cn=$1)(sn=b))`, "u:a,b@x", `ou=a\,b,dc=x?one?(&(cn=a,b)(sn=b))`},
		{`u:([^@]+) -> ldap:///ou=a%3Fb??base?(cn=$1)`, "u:c", "ou=a?b?base?(cn=c)"},
		{`dn:cn=([^,]+),o=X -> cn=$1,dc=x`, "dn:cn=ann,o=X", "cn=ann,dc=x"},
		{`dn:(.+),o=Old -> ${1},o=New`, "dn:cn=ann,ou=a,o=Old", "cn=ann,ou=a,o=New"},
		{`dn:(.+) -> dn:$1`, "dn:cn=ann+ou=a,o=Old", "dn:cn=ann+ou=a,o=Old"},
		{`mail:(.+) -> dn:mail=$1,o=mail`, "mail:a,b@x", `dn:mail=a\,b@x,o=mail`},
		{`u:admin -> cn=admin`, "u:admin", "cn=admin"},
		{`u:admin -> cn=admin`, "u:administrator", ""},
		{`mail:(?i)(.+)@EXAMPLE\.com -> mail=$1,dc=x`, "mail:ann@example.com", "mail=ann,dc=x"},
	} {
		r, err := ParseRule(c.rule)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		got := ""
		if target, ok := r.Apply(c.name); ok {
			got = show(target)
		}
		if d := cmp.Diff(strings.ToLower(c.want), strings.ToLower(got)); d != "" {
			t.Errorf("%s, %s: %s", c.rule, c.name, d)
		}
	}
}

func TestMalformedRules(t *testing.T) {
	for _, text := range []string{"", "u:x", "u:x -> ", "u:( -> dc=x", "u:x -> nonsense", "u:x -> dn:", "u:x -> dn:nonsense", "u:x -> dc=$1", "u:(.) -> dc=$2",
		"u:(.) -> dc=${who}", "u:x -> ldap:///dc=x", "u:x -> ldap:///dc=x?cn?sub?(a=b)", "u:x -> ldap:///dc=x??tree?(a=b)",
		"u:x -> ldap:///dc=x??sub?a=b)", "u:x -> ldap:///dc=x??sub?", "u:x -> ldap:///%zz??sub?(a=b)", "u:x -> ldap://host/dc=x??sub?(a=b)"} {
		if _, err := ParseRule(text); err == nil {
			t.Errorf("takes %q", text)
		} else if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not named: %v", text, err)
		}
	}
}

// TestFind checks that the first rule that matches any name applies, whatever the order
// of the names.
func TestFind(t *testing.T) {
	var rules []*Rule
	for _, text := range []string{"mail:(.*)@x -> uid=$1,dc=x", "dn:cn=(.*) -> cn=$1,dc=x"} {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	if got, ok := Find(rules, "dn:cn=ann", "mail:a@x"); !ok || show(got) != "uid=a,dc=x" {
		t.Errorf("%v", got)
	}
	if got, ok := Find(rules, "uri:x"); ok {
		t.Errorf("%v", got)
	}
	if got, ok := Find(DefaultRules(), "u:ann"); !ok || !got.Search {
		t.Errorf("%v", got)
	}
}

// FuzzRule checks that a name cannot change the structure of the DN or filter that a rule
// inserts it into.
func FuzzRule(f *testing.F) {
	for _, s := range []string{"ann", `a,b=c`, `)(uid=*`, "\x00", `\`, "#00", " x ", "é"} {
		f.Add(s)
	}
	in, err1 := ParseRule(`u:(?s)(.*) -> uid=$1,dc=x`)
	by, err2 := ParseRule(`u:(?s)(.*) -> ldap:///dc=x??one?(&(uid=$1)(cn=b))`)
	if err1 != nil || err2 != nil {
		f.Fatal(err1, err2)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if target, ok := in.Apply("u:" + name); ok &&
			(len(target.Name) != 2 || len(target.Name[0]) != 1 || string(target.Name[0][0].Value) != name) {
			t.Errorf("%q: %s", name, target.Name)
		}
		if target, ok := by.Apply("u:" + name); ok && strings.Count(target.Filter.String(), "(") != 3 {
			t.Errorf("%q: %s", name, target.Filter)
		}
	})
}

// peer is the channel of a process on this machine.
type peer struct{ NoChannel }

func (peer) Peer() (uid, gid int, ok bool) { return 1000, 100, true }

func certificateOf(t *testing.T, template *x509.Certificate) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(1)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func issuerOf(cert *x509.Certificate) string {
	name, _ := nameOf(cert.RawIssuer)
	return name.String()
}

func TestExternalNames(t *testing.T) {
	u, _ := url.Parse("spiffe://example/ann")
	cert := certificateOf(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "Ann, M.", Organization: []string{"Example"}, ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}, Value: "ann"},
			{Type: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: "x"}}},
		EmailAddresses: []string{"ann@example.com"}, DNSNames: []string{"h.example.com"}, URIs: []*url.URL{u}})
	state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	if names := ExternalNames(secured{state: state}); names != nil || External(secured{state: state}) {
		t.Errorf("a certificate that nobody verified: %q", names)
	}
	state.VerifiedChains = [][]*x509.Certificate{{cert}}
	want := []string{`dn:1.2.3.4=#130178,uid=ann,cn=Ann\, M.,o=Example`, "mail:ann@example.com", "uri:spiffe://example/ann", "dns:h.example.com",
		fmt.Sprintf("cert:%x", sha256.Sum256(cert.Raw)), "issuer:" + strings.TrimPrefix(issuerOf(cert), "dn:") + "#" + cert.SerialNumber.String()}
	got := ExternalNames(secured{state: state})
	if got[0] == `dn:1.2.3.4=x,uid=ann,cn=Ann\, M.,o=Example` {
		want[0] = got[0]
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"dn:gidNumber=100+uidNumber=1000,cn=peercred,cn=external,cn=auth"}, ExternalNames(peer{})); d != "" {
		t.Error(d)
	}
	if !External(peer{}) || External(NoChannel{}) || ExternalNames(NoChannel{}) != nil {
		t.Error("External")
	}
}

func TestPlain(t *testing.T) {
	for _, c := range []struct{ message, authzID, name, password string }{
		{"\x00ann\x00secret", "", "ann", "secret"},
		{"dn:cn=x\x00ann\x00se\u00e9cret ", "dn:cn=x", "ann", "se\u00e9cret "},
		{"\x00a\u00adnn\x00x", "", "ann", "x"},
	} {
		authzID, name, password, err := ParsePlain([]byte(c.message))
		if authzID != c.authzID || name != c.name || string(password) != c.password || err != nil {
			t.Errorf("%q: %q, %q, %q, %v", c.message, authzID, name, password, err)
		}
	}
	for _, bad := range []string{"", "ann", "ann\x00secret", "\x00\x00secret", "\x00ann\x00", "\x00ann\x00a\x00b", "\x00\xff\x00x", "\x00a\u0007\x00x", "\x00\u00ad\x00x"} {
		if _, name, _, err := ParsePlain([]byte(bad)); err == nil {
			t.Errorf("%q: %q", bad, name)
		}
	}
	for id, want := range map[string]string{"ann": "u:ann", "u:ann": "u:ann", "u:a": "u:a", "dn:": "dn:", "dn:cn=x": "dn:cn=x", "dn": "u:dn", "": "u:"} {
		if got := NameOf(id); got != want {
			t.Errorf("%q: %q", id, got)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add([]byte("a\x00b\x00c"))
	f.Fuzz(func(t *testing.T, message []byte) {
		authzID, name, password, err := ParsePlain(message)
		if err == nil && (name == "" || len(password) == 0 || len(authzID)+len(password) > len(message)) {
			t.Errorf("%q: %q, %q, %q", message, authzID, name, password)
		}
	})
}
