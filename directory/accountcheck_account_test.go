package directory_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/auth/bearer"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// newTokens returns a verifier of an issuer's tokens, and a token with name as its
// subject.
func newTokens(t *testing.T, name string) (auth.Tokens, string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := bearer.New(bearer.Issuer{URL: "https://issuer.example/", Audience: "ldap", KeysFile: file})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: private}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any{"iss": "https://issuer.example/", "aud": "ldap", "sub": name,
		"exp": time.Now().Add(time.Hour).Unix()}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return b, token
}

// A way is a method to bind as Ann.
type way struct {
	name     string
	password bool // the method needs Ann's password
	// try returns the answer to the right credentials, and wrong returns the answer to
	// wrong credentials.
	try   func() *op.Response
	wrong func() *op.Response
}

func waysOfAnn(t *testing.T) (*directory.Directory, []way) {
	tokens, token := newTokens(t, "ann")
	rule, err := auth.ParseRule(`dn:gidNumber=100\+uidNumber=1000,cn=peercred,cn=external,cn=auth -> ` + annDN)
	if err != nil {
		t.Fatal(err)
	}
	d := newUsers(t, directory.Options{Tokens: tokens, Identities: append([]*auth.Rule{rule}, auth.DefaultRules()...),
		Mechanisms: auth.Mechanisms})
	simple := func(password string) func() *op.Response {
		return func() *op.Response {
			var out answers
			d.NewSession(nil).Serve(t.Context(), &op.Message{Request: &op.Bind{Version: 3, Name: annDN, Password: []byte(password)}}, &out)
			return out.done
		}
	}
	sasl := func(c auth.Channel, mechanism string, message []byte) func() *op.Response {
		return func() *op.Response {
			s := d.NewSession(c)
			r := send(t, s, mechanism, message)
			if r.Code == op.SASLBindInProgress {
				r = send(t, s, mechanism, []byte{1})
			}
			return r
		}
	}
	scram := func(password string) func() *op.Response {
		return func() *op.Response {
			r, _ := scramBind(t, d.NewSession(nil), "SCRAM-SHA-256", "ann", password, "")
			if r.Code == op.Success {
				r.SASLCredentials = nil // the server's proof
			}
			return r
		}
	}
	proxied := func(name string) func() *op.Response {
		return func() *op.Response {
			s := d.NewSession(nil)
			serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
			var out answers
			s.Serve(t.Context(), &op.Message{Request: &op.Extended{OID: "1.3.6.1.4.1.4203.1.11.3"}, Controls: []op.Control{
				{OID: "2.16.840.1.113730.3.4.18", Critical: true, Value: []byte(name)}}}, &out)
			if out.done.Code == op.Success {
				return &op.Response{}
			}
			return out.done
		}
	}
	bearer := func(name, token string) []byte {
		return []byte("n,a=" + name + ",\x01auth=Bearer " + token + "\x01\x01")
	}
	return d, []way{
		{"simple", true, simple("ann"), simple("wrong")},
		{"PLAIN", true, sasl(inTLS, "PLAIN", plain("", "ann", "ann")), sasl(inTLS, "PLAIN", plain("", "ann", "wrong"))},
		{"PLAIN as u:ann", true, sasl(inTLS, "PLAIN", plain("u:ann", "ann", "ann")), sasl(inTLS, "PLAIN", plain("", "ann", "wrong"))},
		{"PLAIN of the administrator", false, sasl(inTLS, "PLAIN", plain("u:ann", "dn:"+admin, "secret")), sasl(inTLS, "PLAIN", plain("u:nobody", "dn:"+admin, "secret"))},
		{"SCRAM", true, scram("ann"), scram("wrong")},
		{"OAUTHBEARER", false, sasl(inTLS, "OAUTHBEARER", bearer("", token)), sasl(inTLS, "OAUTHBEARER", bearer("", token[:len(token)-9]+"AAAAAAAAA"))},
		{"EXTERNAL", false, sasl(simPeer{local: true}, "EXTERNAL", nil), sasl(simPeer{local: true}, "EXTERNAL", []byte("u:nobody"))},
		{"EXTERNAL as u:ann", false, sasl(simPeer{local: true}, "EXTERNAL", []byte("u:ann")), sasl(simPeer{local: true}, "EXTERNAL", []byte("u:nobody"))},
		{"proxied authorization", false, proxied("dn:" + annDN), proxied("u:nobody")},
	}
}

func set(t *testing.T, d *directory.Directory, attribute string, values ...string) {
	t.Helper()
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	m := op.Modification{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: attribute}}
	for _, v := range values {
		m.Values = append(m.Values, []byte(v))
	}
	serve(t, s, &op.Modify{Name: annDN, Changes: []op.Modification{m}})
}

// TestDisabledAccounts checks that a disabled account cannot be used in any way, and that an
// account with an expired password cannot be used in any way that needs the password. The
// answer must equal the answer to wrong credentials.
func TestDisabledAccounts(t *testing.T) {
	const past, future = "20200101000000Z", "29990101000000Z"
	d, ways := waysOfAnn(t)
	for _, c := range []struct {
		attribute, value  string
		disabled, expired bool
		must              bool // the owner must change the password
	}{
		{"description", "none", false, false, false},
		{"pwdAccountLockedTime", "000001010000Z", true, false, false},
		{"pwdAccountLockedTime", past, true, false, false},
		{"nsAccountLock", "TRUE", true, false, false},
		{"nsAccountLock", "true", true, false, false},
		{"nsAccountLock", "FALSE", false, false, false},
		{"ds-pwp-account-disabled", "TRUE", true, false, false},
		{"ds-pwp-account-disabled", "FALSE", false, false, false},
		{"ds-pwp-account-expiration-time", past, true, false, false},
		{"ds-pwp-account-expiration-time", future, false, false, false},
		{"pwdStartTime", past, false, false, false},
		{"pwdStartTime", future, true, false, false},
		{"pwdEndTime", past, true, false, false},
		{"pwdEndTime", future, false, false, false},
		{"passwordExpirationTime", past, false, true, false},
		{"passwordExpirationTime", future, false, false, false},
		{"passwordExpirationTime", "19700101000000Z", false, false, true},
		{"pwdReset", "TRUE", false, false, true},
	} {
		set(t, d, c.attribute, c.value)
		for _, w := range ways {
			want := &op.Response{}
			if c.disabled || c.expired && w.password {
				want = w.wrong()
			}
			if c.must && w.password {
				want.Diagnostic = account.ErrMustChange.Error()
			}
			if got := w.try(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s, by %s: %+v, want %+v", c.attribute, c.value, w.name, got, want)
			}
		}
		set(t, d, c.attribute)
	}
}

// TestPasswordsThatMustBeChanged checks that a user whose password was reset may only change
// the password, whatever mechanism the user bound with. The restriction must end with the
// password change.
func TestPasswordsThatMustBeChanged(t *testing.T) {
	d, _ := waysOfAnn(t)
	bind := map[string]func(s *directory.Session, password string) *op.Response{
		"simple": func(s *directory.Session, password string) *op.Response {
			serve(t, s, &op.Bind{Version: 3, Name: annDN, Password: []byte(password)})
			return &op.Response{}
		},
		"PLAIN": func(s *directory.Session, password string) *op.Response {
			return send(t, s, "PLAIN", plain("u:ann", "ann", password))
		},
		"SCRAM": func(s *directory.Session, password string) *op.Response {
			r, _ := scramBind(t, s, "SCRAM-SHA-256", "ann", password, "")
			return r
		},
	}
	password := "ann"
	for name, in := range bind {
		for i, c := range []struct{ attribute, value string }{{"pwdReset", "TRUE"}, {"passwordExpirationTime", "19700101000000Z"}} {
			set(t, d, c.attribute, c.value)
			s := d.NewSession(inTLS)
			if r := in(s, password); r.Code != op.Success {
				t.Fatalf("%s: %+v", name, r)
			}
			refused := func(r op.Request) op.Code {
				var out answers
				s.Serve(t.Context(), &op.Message{Request: r}, &out)
				return out.done.Code
			}
			whoAmI := &op.Extended{OID: "1.3.6.1.4.1.4203.1.11.3"}
			if code := refused(devices("(objectClass=*)")); code != op.InsufficientAccessRights {
				t.Errorf("%s, %s: a search: %v", name, c.attribute, code)
			}
			if code := refused(whoAmI); code != op.InsufficientAccessRights {
				t.Errorf("%s, %s: who am I: %v", name, c.attribute, code)
			}
			password += "x"
			if i == 0 {
				serve(t, s, &op.Modify{Name: annDN, Changes: []op.Modification{{Kind: op.ModReplace,
					PartialAttribute: op.PartialAttribute{Description: "userPassword", Values: [][]byte{[]byte(password)}}}}})
			} else {
				serve(t, s, &op.Extended{OID: "1.3.6.1.4.1.4203.1.11.1", Value: append([]byte{0x30, byte(len(password) + 2), 0x82, byte(len(password))}, password...)})
			}
			if code := refused(whoAmI); code != op.Success {
				t.Errorf("%s, %s: afterwards: %v", name, c.attribute, code)
			}
			again := d.NewSession(inTLS)
			if r := in(again, password); r.Code != op.Success {
				t.Fatalf("%s, again: %+v", name, r)
			}
			serve(t, again, whoAmI)
		}
	}
}

// TestAdministratorsNewPassword checks that a new password set by the administrator
// removes the expiry of the old password. The user must still change the password if this
// was required before.
func TestAdministratorsNewPassword(t *testing.T) {
	d, _ := waysOfAnn(t)
	set(t, d, "passwordExpirationTime", "20200101000000Z")
	set(t, d, "pwdReset", "TRUE")
	set(t, d, "userPassword", "new")
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	if v := valuesOf(t, s, annDN, "passwordExpirationTime"); len(v) != 0 {
		t.Errorf("passwordExpirationTime: %q", v)
	}
	if v := valuesOf(t, s, annDN, "pwdReset"); len(v) != 1 {
		t.Errorf("pwdReset: %q", v)
	}
	if code := bindCode(t, d, annDN, "new"); code != op.Success {
		t.Error(code)
	}
}

// A counter counts the slow hashes that it verifies.
type counter struct {
	auth.Hasher
	n *int
}

func (c counter) Verify(ctx context.Context, scheme string, stored, password []byte) (bool, error) {
	*c.n++
	return c.Hasher.Verify(ctx, scheme, stored, password)
}

// TestDisabledAccountsCostAHash checks that a bind to a disabled account computes one slow
// hash, like a bind to any other account.
func TestDisabledAccountsCostAHash(t *testing.T) {
	n := 0
	d := newUsers(t, directory.Options{Passwords: auth.New(1, counter{auth.Here, &n})})
	for _, locked := range []string{"false", "true"} {
		set(t, d, "nsAccountLock", locked)
		n = 0
		if bindCode(t, d, annDN, "wrong"); n != 1 {
			t.Errorf("locked %s: %d hashes", locked, n)
		}
	}
	n = 0
	if code := bindCode(t, d, annDN, "ann"); n != 1 || code != op.InvalidCredentials {
		t.Errorf("the right password of a locked account: %v, %d hashes", code, n)
	}
}
