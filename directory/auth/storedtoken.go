package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A stored token is a random text by which a program logs in as an account. The account's entry has the token's hash
// as a value of bearerToken: the SHA-256 of the token in hexadecimal, the time until which it is valid (RFC 3339) or
// "-", and a note, with spaces between them.
const (
	storedTokenPrefix = "ldapd_"
	storedTokenSecret = 32 // octets; a secret of 256 random bits needs no slow hash
)

// NewStoredToken returns a new token of an entry, and the value of bearerToken for it. A zero time means that the token
// is valid until it is revoked.
func NewStoredToken(id entry.ID, until time.Time, note string) (token, value string) {
	secret := make([]byte, storedTokenSecret)
	rand.Read(secret) // never fails
	token = storedTokenPrefix + base64.RawURLEncoding.EncodeToString(append(id[:], secret...))
	end := "-"
	if !until.IsZero() {
		end = until.UTC().Format(time.RFC3339)
	}
	return token, strings.TrimSpace(hashOf(token) + " " + end + " " + note)
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// IsStoredToken reports whether a text may be a stored token.
func IsStoredToken(text string) bool { return strings.HasPrefix(text, storedTokenPrefix) }

// ParseStoredToken returns the entry that a token belongs to, and the token's hash.
func ParseStoredToken(text string) (id entry.ID, hash string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, storedTokenPrefix))
	if err != nil || !IsStoredToken(text) || len(b) != len(id)+storedTokenSecret {
		return id, "", errors.New("not a token of this kind")
	}
	return entry.ID(b[:len(id)]), hashOf(text), nil
}
