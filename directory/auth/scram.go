package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/xdg-go/scram"
	"github.com/xdg-go/stringprep"
)

// scramHashes are the SCRAM mechanisms (RFC 5802, RFC 7677). Each has a variant with the
// suffix -PLUS, which binds to the channel.
var scramHashes = map[string]scram.HashGeneratorFcn{
	"SCRAM-SHA-1":   scram.SHA1,
	"SCRAM-SHA-256": scram.SHA256,
	"SCRAM-SHA-512": scram.SHA512,
}

// ScramIterations is the iteration count of new keys, as recommended by RFC 7677, section
// 4.
const ScramIterations = 15000

const (
	scramSalt     = 16      // in bytes
	maxIterations = 1 << 20 // limit for stored keys; the client has to compute the iterations
)

// Plus is the suffix of the mechanisms that bind to the channel.
const Plus = "-PLUS"

// IsScram reports whether a mechanism, given without the suffix Plus, is a SCRAM
// mechanism.
func IsScram(mechanism string) bool { return scramHashes[mechanism] != nil }

// A ScramKey is the value that SCRAM stores for a password. It cannot be derived from a
// hash of the password.
type ScramKey = scram.StoredCredentials

// ScramKeys derives the keys of a password, one for each mechanism, in the form of RFC
// 5803: SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY. It ignores mechanisms that are
// not SCRAM. It returns no keys for a password that SCRAM does not allow (RFC 4013).
func (p *Passwords) ScramKeys(ctx context.Context, c Channel, mechanisms []string, password []byte) ([][]byte, error) {
	if len(password) > MaxPassword {
		return nil, ErrLong
	}
	prepared, err := stringprep.SASLprep.Prepare(string(password))
	if err != nil || prepared == "" {
		return nil, nil
	}
	if err := p.acquire(ctx, c, "SCRAM"); err != nil {
		return nil, err
	}
	defer p.slots.release(clientOf(c))
	var keys [][]byte
	for _, m := range mechanisms {
		if !IsScram(m) {
			continue
		}
		salt := make([]byte, scramSalt)
		rand.Read(salt) // rand.Read never fails
		k, err := deriveKey(m, prepared, scram.KeyFactors{Salt: string(salt), Iters: ScramIterations})
		if err != nil {
			return nil, err
		}
		keys = append(keys, formatKey(m, k))
	}
	return keys, nil
}

func deriveKey(mechanism, prepared string, f scram.KeyFactors) (ScramKey, error) {
	c, err := scramHashes[mechanism].NewClientUnprepped("", prepared, "")
	if err != nil {
		return ScramKey{}, err
	}
	return c.GetStoredCredentialsWithError(f)
}

func formatKey(mechanism string, k ScramKey) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, "%s$%d:%s$%s:%s", mechanism, k.Iters, b64([]byte(k.Salt)), b64(k.StoredKey), b64(k.ServerKey))
}

// ParseScramKey parses a stored key. It returns false if the key is invalid or is for
// another mechanism.
func ParseScramKey(mechanism string, stored []byte) (k ScramKey, ok bool) {
	parts := strings.Split(string(stored), "$")
	if len(parts) != 3 || !strings.EqualFold(strings.TrimSpace(parts[0]), mechanism) {
		return k, false
	}
	iterations, salt, ok1 := strings.Cut(strings.TrimSpace(parts[1]), ":")
	storedKey, serverKey, ok2 := strings.Cut(strings.TrimSpace(parts[2]), ":")
	n, err := strconv.Atoi(iterations)
	s, err1 := base64.StdEncoding.DecodeString(salt)
	k.StoredKey, _ = base64.StdEncoding.DecodeString(storedKey)
	k.ServerKey, _ = base64.StdEncoding.DecodeString(serverKey)
	k.Salt, k.Iters = string(s), n
	size := scramHashes[mechanism]().Size()
	ok = ok1 && ok2 && err == nil && err1 == nil && n > 0 && n <= maxIterations && len(s) > 0 &&
		len(k.StoredKey) == size && len(k.ServerKey) == size
	return k, ok
}

// IsScramKey reports whether a stored value is a key for any SCRAM mechanism.
func IsScramKey(stored []byte) bool {
	for mechanism := range scramHashes {
		if _, ok := ParseScramKey(mechanism, stored); ok {
			return true
		}
	}
	return false
}

// FakeScramKey returns a key for a name that has none. No password matches the key. The
// salt of a name is always the same, so clients cannot distinguish names without keys
// from names with keys. The salt depends on secret, which no client may know.
func FakeScramKey(mechanism string, secret []byte, name string) ScramKey {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "SCRAM salt\x00%s\x00%s", mechanism, name)
	k := ScramKey{KeyFactors: scram.KeyFactors{Salt: string(mac.Sum(nil)[:scramSalt]), Iters: ScramIterations}}
	k.StoredKey = make([]byte, scramHashes[mechanism]().Size())
	rand.Read(k.StoredKey) // rand.Read never fails
	k.ServerKey = k.StoredKey
	return k
}

// InvalidProof is the last message of the server to a client whose proof is wrong (RFC
// 5802, section 7).
const InvalidProof = "e=invalid-proof"

// Unusable returns a key that no password matches. To a client, the key looks the same as
// k.
func Unusable(k ScramKey) ScramKey {
	k.StoredKey = make([]byte, len(k.StoredKey))
	rand.Read(k.StoredKey) // rand.Read never fails
	k.ServerKey = k.StoredKey
	return k
}

// A Scram is the server side of one SCRAM exchange.
type Scram struct {
	mechanism string
	conv      *scram.ServerConversation
	lookUp    error // error of the lookup of the key
}

// NewScram begins an exchange with the client's first message. The mechanism may have the
// suffix Plus. Without the suffix, the client may still request a channel binding, as
// Cyrus SASL does. The call key(mechanism, name) must return the key for a name, or a
// fake key. If the call returns an error, Step returns the same error.
func NewScram(mechanism string, c Channel, first []byte, key func(mechanism, name string) (ScramKey, error)) (*Scram, error) {
	base, plus := strings.CutSuffix(mechanism, Plus)
	s := &Scram{mechanism: mechanism}
	server, err := scramHashes[base].NewServer(func(name string) (ScramKey, error) {
		prepared, err := PrepareName(mechanism, name)
		var k ScramKey
		if err == nil {
			k, err = key(base, prepared)
		}
		s.lookUp = err
		return k, err
	})
	if err != nil {
		return nil, err
	}
	flag, _, _ := strings.Cut(string(first), ",")
	kind, binds := strings.CutPrefix(flag, "p=")
	if plus && !binds {
		return nil, malformed(mechanism, "its GS2 header does not bind to the channel (RFC 5802, 6)")
	}
	if !binds {
		kind = ""
	}
	s.conv = conversation(server, c, kind)
	return s, nil
}

// conversation begins a conversation with the type of channel binding that the client
// requests. If the client requests none, the conversation has the best binding that the
// connection supports. It then refuses a client that supports channel binding but claims
// that the server does not, because an attacker may have hidden the server's offer.
func conversation(server *scram.Server, c Channel, kind string) *scram.ServerConversation {
	if kind != "" {
		return server.NewConversationWithChannelBindingRequired(binding(c, kind))
	}
	for _, kind := range bindings {
		if b := binding(c, kind); b.IsSupported() {
			return server.NewConversationWithChannelBinding(b)
		}
	}
	return server.NewConversation()
}

// Step processes the client's next message and returns the answer. The result done is true
// when the client has proved its identity. The error is ErrMessage, ErrProof, or the error of
// the lookup of the key. If there is an answer, the caller must send the answer even if there
// is also an error.
func (s *Scram) Step(message []byte) (answer []byte, done bool, err error) {
	text, err := s.conv.Step(string(message))
	switch {
	case err == nil:
		return []byte(text), s.conv.Valid(), nil
	case s.lookUp != nil:
		return nil, false, s.lookUp
	case text == "" || text == scram.ErrInvalidUsernameEncoding || text == scram.ErrInvalidEncoding:
		return nil, false, malformed(s.mechanism, "not the message of RFC 5802, 7 that comes here")
	}
	return []byte(text), false, fmt.Errorf("%w: %s", ErrProof, strings.TrimPrefix(text, "e="))
}

// AuthzID returns the authorization identity that the client requests, or "" if the
// client requests none.
func (s *Scram) AuthzID() string { return s.conv.AuthzID() }

// ErrProof reports that the client has not proved its identity.
var ErrProof = errors.New("the client's proof is not right")
