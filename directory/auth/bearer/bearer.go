// Package bearer verifies the tokens of OAUTHBEARER by the keys of their issuer, without contacting the issuer.
package bearer

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/auth/reread"
)

// Issuer describes an issuer of tokens for the mechanism OAUTHBEARER (RFC 7628), and the
// conditions under which the tokens are accepted.
type Issuer struct {
	// URL is the value that the claim iss must have.
	URL string
	// Audience is a value that the claim aud must contain.
	Audience string
	// KeysFile is the path of a JSON Web Key Set (RFC 7517) with the issuer's public
	// keys. The file is read again when it changes.
	KeysFile string
	// Claim is the claim that contains the name of the user; "" means sub. The identity
	// rules map this name to an entry.
	Claim string
	// Algorithms are the signature algorithms that tokens may use; nil means
	// DefaultAlgorithms.
	Algorithms []string
	// Log receives the reasons why tokens are refused, and errors of reading KeysFile; nil
	// means no log.
	Log *slog.Logger
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
}

// DefaultAlgorithms are the signature algorithms that issuers commonly use.
var DefaultAlgorithms = []string{"RS256", "ES256", "PS256", "EdDSA"}

// algorithms are the signature algorithms that can be configured (RFC 7518, 3.1; RFC
// 8037): the algorithms whose public keys can verify and cannot sign.
var algorithms = []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"}

// leeway is the largest accepted error of the issuer's clock.
const leeway = time.Minute

// maxToken is the maximum size of a token in bytes.
const maxToken = 64 << 10

// A Verifier implements auth.Tokens. It may be used concurrently.
type Verifier struct {
	issuer     Issuer
	algorithms []jose.SignatureAlgorithm
	keys       *reread.File[[]jose.JSONWebKey]
}

// New reads the issuer's keys and returns a Verifier of the issuer's tokens.
func New(i Issuer) (*Verifier, error) {
	if i.Claim == "" {
		i.Claim = "sub"
	}
	if i.Algorithms == nil {
		i.Algorithms = DefaultAlgorithms
	}
	if i.Log == nil {
		i.Log = slog.New(slog.DiscardHandler)
	}
	if i.Now == nil {
		i.Now = time.Now
	}
	b := &Verifier{issuer: i}
	for _, a := range i.Algorithms {
		if !slices.Contains(algorithms, a) {
			return nil, fmt.Errorf("tokens cannot be signed with %q: use some of %s", a, strings.Join(algorithms, ", "))
		}
		b.algorithms = append(b.algorithms, jose.SignatureAlgorithm(a))
	}
	if i.URL == "" || i.Audience == "" {
		return nil, errors.New("an issuer needs its URL and the audience that its tokens are for")
	}
	var err error
	b.keys, err = reread.Open(i.KeysFile, readKeys)
	return b, err
}

func readKeys(file string) ([]jose.JSONWebKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %v", file, err)
	}
	return keys, nil
}

// parseKeys returns the public keys of a JSON Web Key Set that can verify signatures.
func parseKeys(text []byte) ([]jose.JSONWebKey, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %v", err)
	}
	var keys []jose.JSONWebKey
	for i := range set.Keys {
		k := set.Keys[i].Public()
		if _, symmetric := set.Keys[i].Key.([]byte); !symmetric && k.Valid() && k.Use != "enc" {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("no public key in it that verifies signatures")
	}
	return keys, nil
}

func (b *Verifier) current() []jose.JSONWebKey {
	keys, err := b.keys.Current()
	if err != nil {
		b.issuer.Log.Error("the issuer's keys cannot be read, the old ones stay", "error", err)
	}
	return keys
}

// Verify implements auth.Tokens. If the token is not accepted, the log contains the reason.
func (b *Verifier) Verify(token string) (auth.Token, error) {
	t, err := b.verify(token)
	if err != nil {
		b.issuer.Log.Info("token refused", "issuer", b.issuer.URL, "error", err)
		return auth.Token{}, auth.ErrToken
	}
	return t, nil
}

func (b *Verifier) verify(token string) (says auth.Token, err error) {
	if len(token) > maxToken {
		return says, fmt.Errorf("it has %d bytes", len(token))
	}
	t, err := jwt.ParseSigned(token, b.algorithms)
	if err != nil {
		return says, err
	}
	var registered jwt.Claims
	var all map[string]any
	if err := b.claims(t, &registered, &all); err != nil {
		return says, err
	}
	if registered.Expiry == nil {
		return says, errors.New("it has no claim exp")
	}
	err = registered.ValidateWithLeeway(jwt.Expected{Issuer: b.issuer.URL,
		AnyAudience: jwt.Audience{b.issuer.Audience}, Time: b.issuer.Now()}, leeway)
	if err != nil {
		return says, err
	}
	name, _ := all[b.issuer.Claim].(string)
	if name == "" {
		return says, fmt.Errorf("it has no claim %s that is text", b.issuer.Claim)
	}
	methods, _ := all["amr"].([]any)
	says.MultiFactor = slices.Contains(methods, any("mfa"))
	says.Name, err = auth.PrepareName("OAUTHBEARER", name)
	return says, err
}

// claims verifies the signature of a token and reads its claims. Only a signature by the key
// that the token names is valid. If the token names no key, a signature by any of the issuer's
// keys is valid.
func (b *Verifier) claims(t *jwt.JSONWebToken, dest ...any) error {
	h := t.Headers[0] // ParseSigned accepts only compact tokens, which have one header
	err := errors.New("no key of the issuer fits it")
	for _, k := range b.current() {
		if h.KeyID != "" && k.KeyID != h.KeyID || k.Algorithm != "" && k.Algorithm != h.Algorithm {
			continue
		}
		if err = t.Claims(k.Key, dest...); err == nil {
			return nil
		}
	}
	return err
}

// Discovery implements auth.Tokens.
func (b *Verifier) Discovery(status string) []byte {
	// Marshal cannot fail, because the struct contains only strings.
	text, _ := json.Marshal(struct {
		Status        string `json:"status"`
		Configuration string `json:"openid-configuration"`
	}{status, strings.TrimSuffix(b.issuer.URL, "/") + "/.well-known/openid-configuration"})
	return text
}
