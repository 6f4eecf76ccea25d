package auth

import (
	"bytes"
	"crypto"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-crypt/crypt"
	"github.com/go-crypt/crypt/algorithm/bcrypt"
	"github.com/go-crypt/crypt/algorithm/md5crypt"
	"github.com/go-crypt/crypt/algorithm/scrypt"
	"github.com/go-crypt/crypt/algorithm/sha1crypt"
	"github.com/go-crypt/crypt/algorithm/shacrypt"
	"golang.org/x/crypto/argon2"
	xbcrypt "golang.org/x/crypto/bcrypt"
)

// The costs of hashing new passwords. argonMemory is in KiB, argonTime in passes,
// argonSalt and argonKey are in bytes. OWASP recommends these values for Argon2id and
// PBKDF2.
const (
	argonMemory = 19 * 1024
	argonTime   = 2
	argonSalt   = 16
	argonKey    = 32
	bcryptCost  = 12
	rounds256   = 600_000
	rounds512   = 210_000
)

// The maximum costs of stored values: a few seconds of CPU time each. Without these limits, a
// client that can write a stored value, or an imported value, could stop all binds.
const (
	maxArgonMemory = 1 << 20    // in KiB
	maxArgonWork   = 4 << 20    // passes times KiB
	maxRounds      = 10_000_000 // of PBKDF2, times the digests that the key consists of
	maxCryptRounds = 1_000_000  // of crypt(3), whose rounds digest passwords of up to 512 octets
	maxBcryptCost  = 16
)

// verifyArgon2 verifies values in the form of OpenLDAP's module pw-argon2:
// $argon2id$v=19$m=KIB,t=PASSES,p=THREADS$salt$key, with salt and key in base64 without
// padding.
func verifyArgon2(_ *scheme, stored, password []byte) (bool, error) {
	a, err := parseArgon2(stored)
	if err != nil {
		return false, err
	}
	derive := argon2.IDKey
	if a.kind == "argon2i" {
		derive = argon2.Key
	}
	got := derive(password, a.salt, a.time, a.memory, a.threads, uint32(len(a.key)))
	return subtle.ConstantTimeCompare(got, a.key) == 1, nil
}

func readsArgon2(_ *scheme, stored []byte) error {
	_, err := parseArgon2(stored)
	return err
}

type argon2Value struct {
	kind         string
	memory, time uint32
	threads      uint8
	salt, key    []byte
}

var argon2Form = regexp.MustCompile(`^\$(argon2id?)\$v=19\$m=([1-9][0-9]*),t=([1-9][0-9]*),p=([1-9][0-9]*)\$([^$]+)\$([^$]+)$`)

func parseArgon2(stored []byte) (a argon2Value, err error) {
	m := argon2Form.FindSubmatch(stored)
	if m == nil {
		return a, ErrScheme
	}
	memory, err1 := strconv.ParseUint(string(m[2]), 10, 32)
	time, err2 := strconv.ParseUint(string(m[3]), 10, 32)
	threads, err3 := strconv.ParseUint(string(m[4]), 10, 8)
	salt, err4 := plain64(m[5])
	key, err5 := plain64(m[6])
	a = argon2Value{string(m[1]), uint32(memory), uint32(time), uint8(threads), salt, key}
	switch {
	case errors.Join(err1, err2, err3, err4, err5) != nil || len(key) < 4 || len(key) > 1024:
		return a, ErrScheme
	case memory > maxArgonMemory || memory*time > maxArgonWork:
		return a, ErrCost
	}
	return a, nil
}

// plain64 decodes base64 without padding.
func plain64(text []byte) ([]byte, error) {
	if bytes.IndexByte(text, '=') >= 0 {
		return nil, ErrScheme
	}
	out := make([]byte, len(text))
	n, err := decode64(out, text)
	return out[:n], err
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
	if err := readsBcrypt(nil, stored); err != nil {
		return false, err
	}
	// bcrypt ignores the octets of a password after the first 72. This server does not
	// hash longer passwords, but other servers hash the first 72 octets.
	if len(password) > 72 {
		password = password[:72]
	}
	return xbcrypt.CompareHashAndPassword(stored, password) == nil, nil
}

func readsBcrypt(_ *scheme, stored []byte) error {
	cost, err := xbcrypt.Cost(stored)
	switch {
	case err != nil || !bcryptForm().Match(stored):
		return ErrScheme
	case cost > maxBcryptCost:
		return ErrCost
	}
	return nil
}

func hashBcrypt(_ *scheme, password []byte) ([]byte, error) {
	return xbcrypt.GenerateFromPassword(password, bcryptCost)
}

// cryptForms decodes values of crypt(3).
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
			panic(err) // two forms have the same prefix: a bug in this file
		}
	}
	return d
}

// The supported forms of crypt(3). A salt is any text that crypt(5) allows, which
// excludes "!" and "*". They are compiled when they are first needed, because that takes 5 ms.
var (
	bcryptForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\$2[aby]\$[0-9]{2}\$[./0-9A-Za-z]{53}$`) })

	cryptForm = sync.OnceValue(func() []*regexp.Regexp {
		return []*regexp.Regexp{
			regexp.MustCompile(`^\$1\$[^$:;*!\\\s]{1,8}\$[./0-9A-Za-z]{22}$`),
			regexp.MustCompile(`^\$5\$(rounds=[1-9][0-9]*\$)?[^$:;*!\\\s]{1,16}\$[./0-9A-Za-z]{43}$`),
			regexp.MustCompile(`^\$6\$(rounds=[1-9][0-9]*\$)?[^$:;*!\\\s]{1,16}\$[./0-9A-Za-z]{86}$`),
			regexp.MustCompile(`^\$sha1\$[1-9][0-9]*\$[^$:;*!\\\s]{1,64}\$[./0-9A-Za-z]{28}$`),
			regexp.MustCompile(`^\$y\$[./0-9A-Za-z]{3,}\$[./0-9A-Za-z]{1,86}\$[./0-9A-Za-z]{43}$`),
		}
	})
)

func isBcrypt(stored []byte) bool { return bytes.HasPrefix(stored, []byte("$2")) }

func readsCrypt(_ *scheme, stored []byte) error {
	switch {
	case isBcrypt(stored):
		return readsBcrypt(nil, stored)
	case !isCrypt(stored):
		return ErrScheme
	case tooDear(string(stored)):
		return ErrCost
	}
	return nil
}

func isCrypt(stored []byte) bool {
	return slices.ContainsFunc(cryptForm(), func(form *regexp.Regexp) bool { return form.Match(stored) })
}

func verifyCrypt(_ *scheme, stored, password []byte) (bool, error) {
	if err := readsCrypt(nil, stored); err != nil {
		return false, err
	}
	if isBcrypt(stored) {
		return verifyBcrypt(nil, stored, password)
	}
	d, err := cryptForms.Decode(string(stored))
	if err != nil {
		return false, ErrScheme
	}
	ok, err := d.MatchBytesAdvanced(password)
	if err != nil {
		return false, ErrScheme
	}
	return ok, nil
}

// tooDear reports whether verifying a crypt(3) value needs more work than verifying any value
// that a server would create. It checks the rounds of the SHA forms and the memory of
// yescrypt. Yescrypt writes each parameter as one digit of crypt's base 64. The second digit is
// log2 N less one, and the third is r less one. The largest digits that tooDear accepts are C
// and T: with these, verifying needs 128 MiB.
func tooDear(text string) bool {
	if _, after, ok := strings.Cut(text, "$rounds="); ok {
		digits, _, _ := strings.Cut(after, "$")
		n, err := strconv.Atoi(digits)
		return err != nil || n > maxCryptRounds
	}
	if after, ok := strings.CutPrefix(text, "$sha1$"); ok {
		digits, _, _ := strings.Cut(after, "$")
		n, err := strconv.Atoi(digits)
		return err != nil || n > maxCryptRounds
	}
	if after, ok := strings.CutPrefix(text, "$y$"); ok {
		return len(after) < 3 || strings.IndexByte(cryptDigits, after[1]) > 14 || after[2] > 'T'
	}
	return false
}

const cryptDigits = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// verifyPBKDF2 verifies values in the form of OpenLDAP's module pw-pbkdf2:
// rounds$salt$key. Salt and key are in base64 without padding and with "." instead of
// "+".
func verifyPBKDF2(s *scheme, stored, password []byte) (bool, error) {
	return parsePBKDF2(s, stored).check(s.sum, password)
}

func readsPBKDF2(s *scheme, stored []byte) error { return parsePBKDF2(s, stored).form(s.sum) }

// A pbkdf2Value is a stored value of a PBKDF2 scheme. A value whose rounds are 0 is
// invalid.
type pbkdf2Value struct {
	rounds    int
	salt, key []byte
}

func (v pbkdf2Value) form(sum crypto.Hash) error {
	blocks := (len(v.key) + sum.Size() - 1) / sum.Size()
	switch {
	case v.rounds < 1:
		return ErrScheme
	case v.rounds > maxRounds/blocks:
		return ErrCost
	}
	return nil
}

func (v pbkdf2Value) check(sum crypto.Hash, password []byte) (bool, error) {
	if err := v.form(sum); err != nil {
		return false, err
	}
	got, err := pbkdf2.Key(sum.New, string(password), v.salt, v.rounds, len(v.key))
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, v.key) == 1, nil
}

func parsePBKDF2(s *scheme, stored []byte) (v pbkdf2Value) {
	m := pbkdf2Form.FindSubmatch(stored)
	if m == nil {
		return v
	}
	rounds, err := strconv.Atoi(string(m[1]))
	salt, err1 := ab64(m[2])
	key, err2 := ab64(m[3])
	if errors.Join(err, err1, err2) != nil || len(key) != s.sum.Size() {
		return v
	}
	return pbkdf2Value{rounds, salt, key}
}

var pbkdf2Form = regexp.MustCompile(`^([1-9][0-9]*)\$([^$]+)\$([^$]+)$`)

func ab64(b []byte) ([]byte, error) {
	b = bytes.ReplaceAll(b, []byte("."), []byte("+"))
	out := make([]byte, len(b))
	n, err := decode64(out, b)
	return out[:n], err
}

// verify389 verifies values of the scheme PBKDF2_SHA256 of 389 Directory Server: four
// bytes of rounds, 64 bytes of salt, and 256 bytes of key.
func verify389(s *scheme, stored, password []byte) (bool, error) {
	return parse389(stored).check(s.sum, password)
}

func reads389(s *scheme, stored []byte) error { return parse389(stored).form(s.sum) }

func parse389(stored []byte) (v pbkdf2Value) {
	raw, err := ab64(stored)
	if err != nil || len(raw) != 4+64+256 {
		return v
	}
	return pbkdf2Value{int(binary.BigEndian.Uint32(raw)), raw[4:68], raw[68:]}
}

// verifyPKCS5S2 verifies values of the scheme PKCS5S2 of ApacheDS: 16 bytes of salt and
// 32 bytes of key. The key is computed with 10,000 rounds of SHA-1.
func verifyPKCS5S2(s *scheme, stored, password []byte) (bool, error) {
	return parsePKCS5S2(stored).check(s.sum, password)
}

func readsPKCS5S2(s *scheme, stored []byte) error { return parsePKCS5S2(stored).form(s.sum) }

func parsePKCS5S2(stored []byte) (v pbkdf2Value) {
	raw, err := ab64(stored)
	if err != nil || len(raw) != 16+32 {
		return v
	}
	return pbkdf2Value{10_000, raw[:16], raw[16:]}
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
