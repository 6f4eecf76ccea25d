// Package authtest has what tests need besides package auth.
package authtest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/argon2"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
)

// Cheap is a hasher like auth.Here, except that its new values of ARGON2, the default
// scheme, take microseconds. The costs are part of a value, so verifying the value takes
// microseconds as well. With the usual costs, two thirds of the CPU time of the tests of
// package directory went into hashes.
var Cheap auth.Hasher = cheap{auth.Here}

type cheap struct{ auth.Hasher }

func (c cheap) Hash(ctx context.Context, scheme string, password []byte) ([]byte, error) {
	if scheme != "ARGON2" {
		return c.Hasher.Hash(ctx, scheme, password)
	}
	const memory, passes, size = 8, 1, 32 // memory is in KiB
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	key := argon2.IDKey(password, salt, passes, memory, 1, size)
	b64 := base64.RawStdEncoding
	return fmt.Appendf(nil, "$argon2id$v=19$m=%d,t=%d,p=1$%s$%s", memory, passes, b64.EncodeToString(salt), b64.EncodeToString(key)), nil
}
