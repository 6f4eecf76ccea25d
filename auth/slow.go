package auth

import (
	"bytes"
	"crypto"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-crypt/crypt"
	"github.com/go-crypt/crypt/algorithm/bcrypt"
	"github.com/go-crypt/crypt/algorithm/md5crypt"
	"github.com/go-crypt/crypt/algorithm/scrypt"
	"github.com/go-crypt/crypt/algorithm/sha1crypt"
	"github.com/go-crypt/crypt/algorithm/shacrypt"
	"golang.org/x/crypto/argon2"
	xbcrypt "golang.org/x/crypto/bcrypt"
)

// Costs of new passwords: OWASP's recommendation for Argon2id and PBKDF2, in
// KiB, passes and rounds.
const (
	argonMemory = 19 * 1024
	argonTime   = 2
	argonSalt   = 16
	argonKey    = 32
	bcryptCost  = 12
	rounds256   = 600_000
	rounds512   = 210_000
)

// Bounds of what a stored value may ask for. Whoever writes one must not be
// able to stop the server with the bind that follows.
const (
	maxArgonMemory = 1 << 20 // KiB
	maxArgonTime   = 64
	maxRounds      = 10_000_000
	maxBcryptCost  = 17
)

// verifyArgon2 reads what OpenLDAP's pw-argon2 writes:
// $argon2id$v=19$m=KIB,t=PASSES,p=THREADS$salt$key in unpadded base64.
func verifyArgon2(_ *scheme, stored, password []byte) (bool, error) {
	parts := strings.Split(string(stored), "$")
	if len(parts) != 6 || parts[2] != "v=19" {
		return false, ErrScheme
	}
	var memory, time uint32
	var threads uint8
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &time, &threads); err != nil {
		return false, ErrScheme
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(parts[4])
	key, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || len(key) < 4 || len(key) > 1024 || threads == 0 ||
		time == 0 || time > maxArgonTime || memory > maxArgonMemory {
		return false, ErrScheme
	}
	var got []byte
	switch parts[1] {
	case "argon2id":
		got = argon2.IDKey(password, salt, time, memory, threads, uint32(len(key)))
	case "argon2i":
		got = argon2.Key(password, salt, time, memory, threads, uint32(len(key)))
	default:
		return false, ErrScheme
	}
	return subtle.ConstantTimeCompare(got, key) == 1, nil
}

func hashArgon2(_ *scheme, password []byte) ([]byte, error) {
	salt := make([]byte, argonSalt)
	if _, err := rand.Read(salt); err != nil {
		return nil, err
	}
	key := argon2.IDKey(password, salt, argonTime, argonMemory, 1, argonKey)
	b64 := base64.RawStdEncoding
	return fmt.Appendf(nil, "$argon2id$v=19$m=%d,t=%d,p=1$%s$%s", argonMemory, argonTime,
		b64.EncodeToString(salt), b64.EncodeToString(key)), nil
}

func verifyBcrypt(_ *scheme, stored, password []byte) (bool, error) {
	cost, err := xbcrypt.Cost(stored)
	if err != nil || cost > maxBcryptCost {
		return false, ErrScheme
	}
	// Longer passwords never made a bcrypt hash here; elsewhere they were cut.
	if len(password) > 72 {
		password = password[:72]
	}
	return xbcrypt.CompareHashAndPassword(stored, password) == nil, nil
}

func hashBcrypt(_ *scheme, password []byte) ([]byte, error) {
	return xbcrypt.GenerateFromPassword(password, bcryptCost)
}

// cryptForms reads crypt(3).
var cryptForms = newCryptForms()

func newCryptForms() *crypt.Decoder {
	d := crypt.NewDecoder()
	for _, register := range []func(*crypt.Decoder) error{
		func(d *crypt.Decoder) error { return shacrypt.RegisterDecoder(d) },
		func(d *crypt.Decoder) error { return scrypt.RegisterDecoder(d) },
		func(d *crypt.Decoder) error { return bcrypt.RegisterDecoder(d) },
		func(d *crypt.Decoder) error { return md5crypt.RegisterDecoder(d) },
		func(d *crypt.Decoder) error { return sha1crypt.RegisterDecoder(d) },
	} {
		if err := register(d); err != nil {
			panic(err) // two forms with one prefix: a mistake in this file
		}
	}
	return d
}

func verifyCrypt(_ *scheme, stored, password []byte) (bool, error) {
	text := string(stored)
	switch {
	case strings.HasPrefix(text, "$2"):
		return verifyBcrypt(nil, stored, password)
	case tooDear(text):
		return false, ErrScheme
	}
	d, err := cryptForms.Decode(text)
	if err != nil {
		return false, ErrScheme
	}
	ok, err := d.MatchBytesAdvanced(password)
	if err != nil {
		return false, ErrScheme
	}
	return ok, nil
}

// tooDear reports whether a crypt(3) value asks for more work than any honest
// one: rounds of the SHA forms, the memory of yescrypt (its first parameter's
// second character is log2 N less one, in crypt's digits: C is 128 MiB with
// the usual r).
func tooDear(text string) bool {
	if _, after, ok := strings.Cut(text, "$rounds="); ok {
		digits, _, _ := strings.Cut(after, "$")
		n, err := strconv.Atoi(digits)
		return err != nil || n > maxRounds
	}
	if after, ok := strings.CutPrefix(text, "$sha1$"); ok {
		digits, _, _ := strings.Cut(after, "$")
		n, err := strconv.Atoi(digits)
		return err != nil || n > maxRounds
	}
	if after, ok := strings.CutPrefix(text, "$y$"); ok {
		return len(after) < 3 || strings.IndexByte(cryptDigits, after[1]) > 14 || after[2] > 'T'
	}
	if after, ok := strings.CutPrefix(text, "$7$"); ok {
		return len(after) < 1 || strings.IndexByte(cryptDigits, after[0]) > 18
	}
	return false
}

const cryptDigits = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// verifyPBKDF2 reads what OpenLDAP's pw-pbkdf2 writes: rounds$salt$key, both in
// base64 without padding and with a period for the plus.
func verifyPBKDF2(s *scheme, stored, password []byte) (bool, error) {
	parts := bytes.Split(stored, []byte("$"))
	if len(parts) != 3 {
		return false, ErrScheme
	}
	rounds, err := strconv.Atoi(string(parts[0]))
	salt, err1 := ab64(parts[1])
	key, err2 := ab64(parts[2])
	if err != nil || err1 != nil || err2 != nil {
		return false, ErrScheme
	}
	return checkPBKDF2(s.sum, password, salt, key, rounds)
}

func ab64(b []byte) ([]byte, error) {
	b = bytes.ReplaceAll(b, []byte("."), []byte("+"))
	out := make([]byte, len(b))
	n, err := decode64(out, b)
	return out[:n], err
}

// verify389 reads 389 Directory Server's PBKDF2_SHA256: four bytes of rounds,
// 64 of salt, 256 of key.
func verify389(s *scheme, stored, password []byte) (bool, error) {
	raw, err := ab64(stored)
	if err != nil || len(raw) != 4+64+256 {
		return false, ErrScheme
	}
	rounds := int(binary.BigEndian.Uint32(raw))
	return checkPBKDF2(s.sum, password, raw[4:68], raw[68:], rounds)
}

// verifyPKCS5S2 reads ApacheDS's PKCS5S2: 16 bytes of salt, 32 of key, and
// always 10,000 rounds of SHA-1.
func verifyPKCS5S2(s *scheme, stored, password []byte) (bool, error) {
	raw, err := ab64(stored)
	if err != nil || len(raw) != 16+32 {
		return false, ErrScheme
	}
	return checkPBKDF2(s.sum, password, raw[:16], raw[16:], 10_000)
}

func checkPBKDF2(sum crypto.Hash, password, salt, key []byte, rounds int) (bool, error) {
	if rounds < 1 || rounds > maxRounds || len(key) < 16 || len(key) > 1024 {
		return false, ErrScheme
	}
	got, err := pbkdf2.Key(sum.New, string(password), salt, rounds, len(key))
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, key) == 1, nil
}

func hashPBKDF2(s *scheme, password []byte) ([]byte, error) {
	salt := make([]byte, argonSalt)
	if _, err := rand.Read(salt); err != nil {
		return nil, err
	}
	rounds := rounds256
	if s.sum == crypto.SHA512 {
		rounds = rounds512
	}
	key, err := pbkdf2.Key(s.sum.New, string(password), salt, rounds, s.sum.Size())
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%d$%s$%s", rounds, toAB64(salt), toAB64(key)), nil
}

func toAB64(b []byte) string {
	return strings.ReplaceAll(base64.RawStdEncoding.EncodeToString(b), "+", ".")
}
