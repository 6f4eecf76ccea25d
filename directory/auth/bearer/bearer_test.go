package bearer

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
)

// now is the current time in these tests.
var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// An issuer is an issuer of tokens with its keys.
type issuer struct {
	t    *testing.T
	file string
	keys map[string]any // by the value of kid
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, file: filepath.Join(t.TempDir(), "keys.json"), keys: map[string]any{}}
	i.addEC("one")
	return i
}

func (i *issuer) addEC(kid string) {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.keys[kid] = key
	i.write(kid)
}

// write writes the keys with the given ids to the file, and sets a new modification time.
func (i *issuer) write(kids ...string) {
	i.t.Helper()
	var set jose.JSONWebKeySet
	for _, kid := range kids {
		k := jose.JSONWebKey{Key: i.keys[kid], KeyID: kid}
		set.Keys = append(set.Keys, k.Public())
	}
	text, err := json.Marshal(set)
	if err != nil {
		i.t.Fatal(err)
	}
	i.writeText(text)
}

func (i *issuer) writeText(text []byte) {
	i.t.Helper()
	before, _ := os.Stat(i.file)
	if err := os.WriteFile(i.file, text, 0o600); err != nil {
		i.t.Fatal(err)
	}
	if before != nil {
		later := before.ModTime().Add(time.Second)
		if err := os.Chtimes(i.file, later, later); err != nil {
			i.t.Fatal(err)
		}
	}
}

func (i *issuer) sign(algorithm jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	i.t.Helper()
	options := &jose.SignerOptions{}
	if kid != "" {
		options = options.WithHeader("kid", kid)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		i.t.Fatal(err)
	}
	token, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

func (i *issuer) bearer(change func(*Issuer)) *Verifier {
	i.t.Helper()
	o := Issuer{URL: "https://issuer.example/", Audience: "ldap", KeysFile: i.file, Now: func() time.Time { return now }}
	if change != nil {
		change(&o)
	}
	b, err := New(o)
	if err != nil {
		i.t.Fatal(err)
	}
	return b
}

// claims returns the claims of a valid token with some claims changed. A change to nil
// removes the claim.
func claims(changes map[string]any) map[string]any {
	c := map[string]any{"iss": "https://issuer.example/", "aud": "ldap", "sub": "ann",
		"exp": now.Add(time.Hour).Unix(), "nbf": now.Unix(), "iat": now.Unix()}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func TestTokens(t *testing.T) {
	i := newIssuer(t)
	b := i.bearer(nil)
	for _, c := range []struct {
		name    string
		changes map[string]any
		ok      bool
	}{
		{"good", nil, true},
		{"many audiences", map[string]any{"aud": []string{"mail", "ldap"}}, true},
		{"expired within the leeway", map[string]any{"exp": now.Add(-30 * time.Second).Unix()}, true},
		{"expired", map[string]any{"exp": now.Add(-2 * time.Minute).Unix()}, false},
		{"for ever", map[string]any{"exp": nil}, false},
		{"not yet", map[string]any{"nbf": now.Add(time.Hour).Unix()}, false},
		{"from the future", map[string]any{"iat": now.Add(time.Hour).Unix()}, false},
		{"another issuer", map[string]any{"iss": "https://issuer.example"}, false},
		{"no issuer", map[string]any{"iss": nil}, false},
		{"another audience", map[string]any{"aud": "mail"}, false},
		{"no audience", map[string]any{"aud": nil}, false},
		{"no name", map[string]any{"sub": nil}, false},
		{"an empty name", map[string]any{"sub": ""}, false},
		{"a number for a name", map[string]any{"sub": 7}, false},
		{"a control character in the name", map[string]any{"sub": "a\u0007"}, false},
	} {
		says, err := b.Verify(i.sign(jose.ES256, i.keys["one"], "one", claims(c.changes)))
		if (err == nil) != c.ok || c.ok && says.Name != "ann" || !c.ok && !errors.Is(err, auth.ErrToken) {
			t.Errorf("%s: %q, %v", c.name, says.Name, err)
		}
	}
}

// TestTokenOfTwoFactors checks that a token proves more than one factor only if mfa is
// among its methods.
func TestTokenOfTwoFactors(t *testing.T) {
	i := newIssuer(t)
	b := i.bearer(nil)
	for _, c := range []struct {
		amr  any
		want bool
	}{{nil, false}, {[]string{"pwd"}, false}, {[]string{"pwd", "mfa"}, true}, {"mfa", false}, {[]any{1, "mfa"}, true}} {
		says, err := b.Verify(i.sign(jose.ES256, i.keys["one"], "one", claims(map[string]any{"amr": c.amr})))
		if err != nil || says.MultiFactor != c.want {
			t.Errorf("amr %v: %v, %v", c.amr, says.MultiFactor, err)
		}
	}
}

func TestTokenSignatures(t *testing.T) {
	i := newIssuer(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.keys["ed"] = ed
	i.addEC("two")
	i.write("one", "two", "ed")
	b := i.bearer(nil)
	public, _ := json.Marshal(i.keys["one"])
	good := i.sign(jose.ES256, i.keys["one"], "one", claims(nil))
	head, _, _ := strings.Cut(good, ".")
	for _, c := range []struct {
		name, token string
		ok          bool
	}{
		{"its key", good, true},
		{"no kid", i.sign(jose.ES256, i.keys["two"], "", claims(nil)), true},
		{"EdDSA", i.sign(jose.EdDSA, ed, "ed", claims(nil)), true},
		{"another's kid", i.sign(jose.ES256, i.keys["two"], "one", claims(nil)), false},
		{"unknown kid", i.sign(jose.ES256, i.keys["two"], "three", claims(nil)), false},
		{"somebody's key", i.sign(jose.ES256, other, "one", claims(nil)), false},
		{"HMAC by the public key", i.sign(jose.HS256, append(public, make([]byte, 32)...), "one", claims(nil)), false},
		{"none", "eyJhbGciOiJub25lIn0." + strings.Split(good, ".")[1] + ".", false},
		{"cut", good[:len(good)-4], false},
		{"other claims", head + "." + strings.Split(i.sign(jose.ES256, other, "one", claims(map[string]any{"sub": "root"})), ".")[1] + "." + strings.Split(good, ".")[2], false},
		{"empty", "", false},
		{"no token", "a.b.c", false},
		{"huge", strings.Repeat("a", maxToken+1), false},
	} {
		if says, err := b.Verify(c.token); (err == nil) != c.ok {
			t.Errorf("%s: %q, %v", c.name, says.Name, err)
		}
	}
	if _, err := i.bearer(func(o *Issuer) { o.Algorithms = []string{"EdDSA"} }).Verify(good); err == nil {
		t.Error("an algorithm that is not allowed")
	}
	if says, err := i.bearer(func(o *Issuer) { o.Claim = "email" }).Verify(i.sign(jose.ES256, i.keys["one"], "one",
		claims(map[string]any{"email": "ann@example.com"}))); says.Name != "ann@example.com" {
		t.Errorf("%q, %v", says.Name, err)
	}
}

// TestKeysAreReadAgain checks that keys may change while the server runs, and that an
// invalid file changes nothing.
func TestKeysAreReadAgain(t *testing.T) {
	i := newIssuer(t)
	b := i.bearer(nil)
	old := i.sign(jose.ES256, i.keys["one"], "one", claims(nil))
	i.writeText([]byte("{"))
	if _, err := b.Verify(old); err != nil {
		t.Error("after a bad file:", err)
	}
	i.addEC("two")
	if _, err := b.Verify(i.sign(jose.ES256, i.keys["two"], "two", claims(nil))); err != nil {
		t.Error("the new key:", err)
	}
	if _, err := b.Verify(old); err == nil {
		t.Error("the old key is still good")
	}
}

func TestBadIssuers(t *testing.T) {
	i := newIssuer(t)
	symmetric := filepath.Join(t.TempDir(), "oct.json")
	if err := os.WriteFile(symmetric, []byte(`{"keys":[{"kty":"oct","k":"AAAA"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Issuer{
		"no URL":       {Audience: "ldap", KeysFile: i.file},
		"no audience":  {URL: "x", KeysFile: i.file},
		"no file":      {URL: "x", Audience: "ldap", KeysFile: "/nowhere"},
		"symmetric":    {URL: "x", Audience: "ldap", KeysFile: symmetric},
		"no algorithm": {URL: "x", Audience: "ldap", KeysFile: i.file, Algorithms: []string{"none"}},
		"HMAC":         {URL: "x", Audience: "ldap", KeysFile: i.file, Algorithms: []string{"HS256"}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDiscovery(t *testing.T) {
	want := `{"status":"invalid_token","openid-configuration":"https://issuer.example/.well-known/openid-configuration"}`
	if got := newIssuer(t).bearer(nil).Discovery("invalid_token"); string(got) != want {
		t.Errorf("%s", got)
	}
}
