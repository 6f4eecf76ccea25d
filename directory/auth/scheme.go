package auth

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
)

// A scheme is a way to store passwords. Its functions read and return values without
// "{NAME}".
type scheme struct {
	name   string
	slow   bool
	clear  bool        // the value contains the password in clear
	salted bool        // for digest schemes: a salt follows the digest
	sum    crypto.Hash // the hash function of digest and PBKDF2 schemes
	verify func(s *scheme, stored, password []byte) (bool, error)
	hash   func(s *scheme, password []byte) ([]byte, error) // nil: the scheme is not used for new passwords
	// reads returns ErrScheme if a value does not have the form of the scheme, and ErrCost if
	// verifying it would take too much work; nil means that verify is fast enough to check the
	// form.
	reads   func(s *scheme, stored []byte) error
	longest int // the longest password in octets; 0 means MaxPassword
}

// check verifies a password. A password that is too long costs as much as the longest one, and
// never fits.
func (s *scheme) check(stored, password []byte) (bool, error) {
	most := cmp.Or(s.longest, MaxPassword)
	if len(password) <= most {
		return s.verify(s, stored, password)
	}
	_, err := s.verify(s, stored, password[:most])
	return false, err
}

// form returns nil if a stored value can be verified. Otherwise it returns ErrScheme or ErrCost.
func (s *scheme) form(stored []byte) error {
	if s.reads != nil {
		return s.reads(s, stored)
	}
	_, err := s.verify(s, stored, nil)
	return err
}

// schemes are all supported schemes. init sets the variable, because functions in schemes
// themselves refer to schemes.
var schemes []scheme

// clearScheme is the scheme of values without "{SCHEME}".
var clearScheme *scheme

func init() {
	schemes = []scheme{
		{name: "SSHA", salted: true, sum: crypto.SHA1, verify: verifySHA1, hash: hashSalted},
		{name: "ARGON2", slow: true, verify: verifyArgon2, reads: readsArgon2, hash: hashArgon2},
		{name: "SSHA512", salted: true, sum: crypto.SHA512, verify: verifyDigest, hash: hashSalted},
		{name: "SSHA256", salted: true, sum: crypto.SHA256, verify: verifyDigest, hash: hashSalted},
		{name: "SSHA384", salted: true, sum: crypto.SHA384, verify: verifyDigest, hash: hashSalted},
		{name: "SMD5", salted: true, sum: crypto.MD5, verify: verifyDigest},
		{name: "SHA", sum: crypto.SHA1, verify: verifySHA1},
		{name: "SHA256", sum: crypto.SHA256, verify: verifyDigest},
		{name: "SHA384", sum: crypto.SHA384, verify: verifyDigest},
		{name: "SHA512", sum: crypto.SHA512, verify: verifyDigest},
		{name: "MD5", sum: crypto.MD5, verify: verifyDigest},
		{name: "CRYPT", slow: true, verify: verifyCrypt, reads: readsCrypt, longest: 512},
		{name: "BCRYPT", slow: true, verify: verifyBcrypt, reads: readsBcrypt, hash: hashBcrypt},
		{name: "PBKDF2", slow: true, sum: crypto.SHA1, verify: verifyPBKDF2, reads: readsPBKDF2},
		{name: "PBKDF2-SHA1", slow: true, sum: crypto.SHA1, verify: verifyPBKDF2, reads: readsPBKDF2},
		{name: "PBKDF2-SHA256", slow: true, sum: crypto.SHA256, verify: verifyPBKDF2, reads: readsPBKDF2, hash: hashPBKDF2},
		{name: "PBKDF2-SHA512", slow: true, sum: crypto.SHA512, verify: verifyPBKDF2, reads: readsPBKDF2, hash: hashPBKDF2},
		{name: "PBKDF2_SHA256", slow: true, sum: crypto.SHA256, verify: verify389, reads: reads389},
		{name: "PKCS5S2", slow: true, sum: crypto.SHA1, verify: verifyPKCS5S2, reads: readsPKCS5S2},
		{name: "CLEARTEXT", clear: true, verify: verifyClear},
		{name: "CLEAR", clear: true, verify: verifyClear},
	}
	clearScheme = find([]byte("CLEARTEXT"))
}

// saltSize is the size of the salts of new digests, in bytes.
const saltSize = 8

// Sizes of the buffers that verifySHA1 allocates on the stack. They suffice for usual
// values. Longer values and passwords are verified by verifyDigest.
const (
	maxStored   = 256
	maxPassword = 128
)

// verifySHA1 verifies the same values as verifyDigest, but only with SHA-1, in which many
// directories still store their passwords. It does not allocate, and it computes the digest in
// one call. verifyDigest is four times as expensive.
func verifySHA1(s *scheme, stored, password []byte) (bool, error) {
	var raw [maxStored]byte
	if len(stored) > maxStored || len(password) > maxPassword {
		return verifyDigest(s, stored, password)
	}
	n, err := decode64(raw[:], stored)
	if err != nil || !s.fits(n) {
		return false, ErrScheme
	}
	var text [maxPassword + maxStored]byte
	m := copy(text[:], password)
	m += copy(text[m:], raw[sha1.Size:n])
	sum := sha1.Sum(text[:m])
	return subtle.ConstantTimeCompare(sum[:], raw[:sha1.Size]) == 1, nil
}

// verifyDigest verifies values of the form base64(digest(password, salt), salt). The salt
// is empty in schemes without salt.
func verifyDigest(s *scheme, stored, password []byte) (bool, error) {
	raw := make([]byte, len(stored)) // the decoded value is shorter
	n, err := decode64(raw, stored)
	if err != nil || !s.fits(n) {
		return false, ErrScheme
	}
	salt := raw[s.sum.Size():n]
	sum := digest(s.sum, password, salt)
	return subtle.ConstantTimeCompare(sum, raw[:s.sum.Size()]) == 1, nil
}

// fits reports whether a value of n octets can be a digest, followed by a salt if the
// scheme has salts.
func (s *scheme) fits(n int) bool {
	if s.salted {
		return n > s.sum.Size()
	}
	return n == s.sum.Size()
}

func digest(sum crypto.Hash, password, salt []byte) []byte {
	h := sum.New()
	h.Write(password)
	h.Write(salt)
	return h.Sum(nil)
}

func hashSalted(s *scheme, password []byte) ([]byte, error) {
	salt := make([]byte, saltSize)
	if _, err := rand.Read(salt); err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, append(digest(s.sum, password, salt), salt...)), nil
}

func verifyClear(_ *scheme, stored, password []byte) (bool, error) {
	if len(stored) == 0 {
		return false, ErrScheme
	}
	return subtle.ConstantTimeCompare(stored, password) == 1, nil
}

// whole64 is base64 without padding. It accepts only one encoding of each value.
var whole64 = base64.RawStdEncoding.Strict()

// decode64 decodes base64 with complete padding or without padding.
func decode64(dst, src []byte) (int, error) {
	text := bytes.TrimRight(src, "=")
	if padding := len(src) - len(text); padding > 0 && (padding > 2 || len(src)%4 != 0) {
		return 0, ErrScheme
	}
	if bytes.ContainsAny(text, "\r\n") { // package base64 ignores line breaks
		return 0, ErrScheme
	}
	return whole64.Decode(dst, text)
}

// These packages register their digests with package crypto.
var (
	_ = md5.Size
	_ = sha256.Size
	_ = sha512.Size
)
