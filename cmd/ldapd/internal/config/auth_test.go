package config

import (
	"slices"
	"strings"
	"testing"
)

func TestAuthDefaults(t *testing.T) {
	c, err := Load(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.SASL.Mechanisms, []string{"EXTERNAL", "GSSAPI", "GSS-SPNEGO", "OAUTHBEARER", "PLAIN"}) || len(c.SASL.Identities) != 1 || c.SASL.Issuer != nil || c.SASL.PlainInClear {
		t.Errorf("%+v", c.SASL)
	}
	if c.Passwords != (Passwords{RequireTLS: "remote"}) {
		t.Errorf("%+v", c.Passwords)
	}
}

func TestAuth(t *testing.T) {
	file := write(t, "ldapd.yaml", `
passwords:
  require-tls: true
  upgrade: true
  parallel: 3
sasl:
  mechanisms: []
  identity:
    - 'dn:gidNumber=0\+uidNumber=0,cn=peercred,cn=external,cn=auth -> cn=admin'
    - 'u:([^@]+)@example\.com -> ldap:///ou=people,dc=example,dc=com??one?(uid=$1)'
  issuer: https://issuer.example
  issuer-audience: ldap
  issuer-keys: /etc/keys.json
  issuer-claim: email
  issuer-algorithms: EdDSA
`)
	c, err := Load(Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if c.Passwords != (Passwords{RequireTLS: "true", Upgrade: true, Parallel: 3}) {
		t.Errorf("%+v", c.Passwords)
	}
	if c.SASL.Mechanisms == nil || len(c.SASL.Mechanisms) != 0 || len(c.SASL.Identities) != 2 {
		t.Errorf("%+v", c.SASL)
	}
	if i := c.SASL.Issuer; i.URL != "https://issuer.example" || i.Audience != "ldap" || i.KeysFile != "/etc/keys.json" ||
		i.Claim != "email" || !slices.Equal(i.Algorithms, []string{"EdDSA"}) {
		t.Errorf("%+v", i)
	}
	c, err = Load(Sources{Env: []string{"LDAPD_SASL_MECHANISMS=EXTERNAL;PLAIN", "LDAPD_SASL_IDENTITY=u:a -> dc=a;u:(.*) -> cn=$1,dc=b"}})
	if err != nil || !slices.Equal(c.SASL.Mechanisms, []string{"EXTERNAL", "PLAIN"}) || len(c.SASL.Identities) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestBadAuth(t *testing.T) {
	for flag, want := range map[string]string{
		"passwords.require-tls=maybe": `--passwords-require-tls: passwords.require-tls: "maybe" is none of remote, true, false`,
		"sasl.mechanisms=OTP":         `--sasl-mechanisms: sasl.mechanisms: "OTP" is none of`,
		"sasl.identity=u:x":           `--sasl-identity: sasl.identity: the rule "u:x" is not PATTERN -> DN`,
		"sasl.issuer=x":               `--sasl-issuer: sasl.issuer: sasl.issuer, sasl.issuer-audience and sasl.issuer-keys go together`,
	} {
		key, value, _ := strings.Cut(flag, "=")
		if _, err := Load(Sources{Flags: map[string][]string{key: {value}}}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
