// Package auth authenticates clients: it verifies passwords, messages of SASL mechanisms
// and tokens, and maps names to entries by [Rule]s. It does not depend on a directory:
// package directory looks up the entries and decides whether a client is authenticated.
//
// # Passwords
//
// A stored password is a value of userPassword (RFC 4519, 2.41) in one of the forms that
// directory servers share: cleartext, or "{SCHEME}" followed by a value in the form of
// the scheme (RFC 2307, 5.3).
//
// [Passwords] verifies passwords in every scheme that [Schemes] lists, and hashes new
// passwords, with {ARGON2} by default. It limits the number of concurrent slow hashes,
// and clients take turns, so a flood of binds neither uses all memory and CPUs nor blocks
// other clients. A [Hasher] may compute the slow hashes outside the process. The forms of
// values after the scheme are
//
//	{SHA} {MD5} {SHA256} {SHA384} {SHA512}          base64(digest)
//	{SSHA} {SMD5} {SSHA256} {SSHA384} {SSHA512}     base64(digest, salt)
//	{CRYPT}                                         crypt(3): $1$ $2a$ $2b$ $2y$ $5$ $6$ $sha1$ $y$
//	{BCRYPT}                                        $2a$ $2b$ $2y$
//	{ARGON2}                                        $argon2i$ or $argon2id$
//	{PBKDF2} {PBKDF2-SHA1} -SHA256 -SHA512          rounds$ab64(salt)$ab64(key)
//	{PBKDF2_SHA256}                                 base64(rounds, salt, key), as in 389 Directory Server
//	{PKCS5S2}                                       base64(salt, key), as in ApacheDS
//	{CLEARTEXT} {CLEAR}                             the password
//
// A password has at most 4096 octets, and for {CRYPT} at most 512: see [MaxPassword]. A stored value
// that asks for very many rounds or very much memory matches no password either: see [ErrCost].
//
// The whole value must have the form of its scheme. A value with anything after the form
// matches no password. Nor does a value in an unknown scheme, or a hash with the "!" or "*" of a
// locked account before its scheme.
package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// ErrScheme reports a stored password in an unknown scheme, or not in the form of its
// scheme.
var ErrScheme = errors.New("unknown or malformed password scheme")

// ErrCost is an ErrScheme. It reports a stored password that would need more work to verify than
// any server's own hashes.
var ErrCost = fmt.Errorf("%w: verifying it would take too much work", ErrScheme)

// MaxPassword is the length of the longest passwords, in octets. No longer password fits a stored
// value, and none is hashed. For {CRYPT} the limit is 512 octets, as in libxcrypt, because the
// work of $5$ and $6$ is quadratic in the length.
const MaxPassword = 4096

// ErrLong reports a new password with more than MaxPassword octets.
var ErrLong = fmt.Errorf("the password has more than %d octets", MaxPassword)

// Default is the scheme in which new passwords are hashed unless another scheme is set.
const Default = "ARGON2"

// Passwords verifies and hashes passwords. It may be used concurrently. It distinguishes
// clients by the addresses of their channels: see [ErrBusy].
type Passwords struct {
	slots  pool
	hasher Hasher // computes the hashes of slow schemes
	// decoy is the value that failed attempts are verified against: see [Attempt.Fail].
	decoy atomic.Pointer[decoy]
	watch atomic.Pointer[func(scheme string, waited time.Duration)]
}

type decoy struct {
	scheme *scheme
	value  []byte
}

// New returns Passwords that compute a limited number of slow hashes at once. The limit is
// the parameter parallel. If that is zero, the limit is the number of CPUs less one, but at
// least one. If h is nil, the hasher is [Here].
func New(parallel int, h Hasher) *Passwords {
	if parallel <= 0 {
		parallel = max(1, runtime.GOMAXPROCS(0)-1)
	}
	if h == nil {
		h = Here
	}
	p := &Passwords{slots: pool{free: parallel}, hasher: h}
	s := find([]byte("SSHA"))
	p.decoy.Store(&decoy{s, []byte("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==")})
	return p
}

// Verify reports whether password is the stored password. The error may be ErrScheme,
// ErrBusy, the error of ctx, or an error of the Hasher.
func (p *Passwords) Verify(ctx context.Context, c Channel, stored, password []byte) (bool, error) {
	s, rest := parse(stored)
	if s == nil {
		return false, ErrScheme
	}
	return p.run(ctx, c, s, rest, password)
}

func (p *Passwords) run(ctx context.Context, c Channel, s *scheme, rest, password []byte) (bool, error) {
	if !s.slow {
		return s.check(rest, password)
	}
	password = password[:min(len(password), MaxPassword+1)] // still too long, if it was
	if err := p.acquire(ctx, c, s.name); err != nil {
		return false, err
	}
	defer p.slots.release(clientOf(c))
	ok, err := p.hasher.Verify(ctx, s.name, rest, password)
	if err == nil {
		p.learn(s, rest)
	}
	return ok, err
}

// acquire waits until a slow hash may be computed for the client.
func (p *Passwords) acquire(ctx context.Context, c Channel, scheme string) error {
	begun := time.Now()
	if err := p.slots.acquire(ctx, clientOf(c)); err != nil {
		return err
	}
	if f := p.watch.Load(); f != nil {
		(*f)(scheme, time.Since(begun))
	}
	return nil
}

// Watch sets a function that is called before every slow hash, with the scheme and the time
// for which the hash has waited for a slot. The scheme is "SCRAM" for a call of ScramKeys.
func (p *Passwords) Watch(f func(scheme string, waited time.Duration)) { p.watch.Store(&f) }

// Waiting returns the number of slow hashes that wait to be computed.
func (p *Passwords) Waiting() int { return p.slots.waiting() }

// Expect makes failed attempts cost as much as verifying the given stored password, if the
// stored password's scheme is slow. Without a call of Expect, failed attempts cost as much
// as a slow scheme only after a password was verified or hashed in that scheme.
func (p *Passwords) Expect(stored []byte) {
	if s, rest := parse(stored); s != nil && s.slow {
		p.learn(s, rest)
	}
}

// learn keeps a stored value as the decoy that failed attempts are verified against. The
// scheme of the decoy is the slow scheme that Expect, Verify or Hash used last.
func (p *Passwords) learn(s *scheme, rest []byte) {
	if d := p.decoy.Load(); d.scheme != s {
		p.decoy.Store(&decoy{s, bytes.Clone(rest)})
	}
}

// An Attempt compares a password that a client sent for a name with the passwords that are
// stored for the name. The time that a failed attempt needs must not reveal whether the
// name exists, whether it has a password, or in which scheme the password is stored. As
// soon as a slow scheme is in use, every failed attempt therefore costs at least one slow
// hash.
type Attempt struct {
	passwords *Passwords
	channel   Channel
	password  []byte
	tried     bool
	slowly    bool
}

// Attempt begins an attempt with a password that a client has sent.
func (p *Passwords) Attempt(c Channel, password []byte) Attempt {
	return Attempt{passwords: p, channel: c, password: password}
}

// Try verifies the password of the attempt against one stored password, as Verify does.
func (a *Attempt) Try(ctx context.Context, stored []byte) (bool, error) {
	ok, err := a.passwords.Verify(ctx, a.channel, stored, a.password)
	if err == nil {
		a.tried = true
		a.slowly = a.slowly || Slow(stored)
	}
	return ok, err
}

// Fail completes a failed attempt, in which no stored password matched. If the attempt has
// cost no slow hash yet, Fail verifies the password against the decoy. It does not do this if
// the attempt has verified a stored password and the scheme of the decoy is fast. The error may
// be ErrBusy, the error of ctx, or an error of the Hasher.
func (a *Attempt) Fail(ctx context.Context) error {
	d := a.passwords.decoy.Load()
	if a.slowly || a.tried && !d.scheme.slow {
		return nil
	}
	_, err := a.passwords.run(ctx, a.channel, d.scheme, d.value, a.password)
	if errors.Is(err, ErrScheme) {
		return nil
	}
	return err
}

// Again verifies the password against the decoy, which costs as much as one more failed
// attempt.
func (a *Attempt) Again(ctx context.Context) error {
	d := a.passwords.decoy.Load()
	_, err := a.passwords.run(ctx, a.channel, d.scheme, d.value, a.password)
	if errors.Is(err, ErrScheme) {
		return nil
	}
	return err
}

// Hash returns the value of userPassword for a new password. If name is "", the scheme is
// Default. The error may be ErrLong.
func (p *Passwords) Hash(ctx context.Context, c Channel, name string, password []byte) ([]byte, error) {
	if name == "" {
		name = Default
	}
	s := find([]byte(strings.Trim(name, "{}")))
	if s == nil || s.hash == nil {
		return nil, fmt.Errorf("no new passwords in scheme %q: use one of %s", name, strings.Join(NewSchemes(), ", "))
	}
	if len(password) > MaxPassword {
		return nil, ErrLong
	}
	rest, err := p.make(ctx, c, s, password)
	if err != nil {
		return nil, err
	}
	return append([]byte("{"+s.name+"}"), rest...), nil
}

func (p *Passwords) make(ctx context.Context, c Channel, s *scheme, password []byte) ([]byte, error) {
	if !s.slow {
		return s.hash(s, password)
	}
	if err := p.acquire(ctx, c, s.name); err != nil {
		return nil, err
	}
	defer p.slots.release(clientOf(c))
	rest, err := p.hasher.Hash(ctx, s.name, password)
	if err == nil {
		p.learn(s, rest)
	}
	return rest, err
}

// Slow reports whether a stored password is in a slow scheme. Guessing such a password is
// expensive if the stored value is stolen.
func Slow(stored []byte) bool {
	s, _ := parse(stored)
	return s != nil && s.slow
}

// Hashed reports whether a value of userPassword is not a password in clear. This is so if the
// value is in a scheme that hides the password. It is also so if the value matches no
// password, because it is locked or in an unknown scheme.
func Hashed(stored []byte) bool {
	s, _ := parse(stored)
	return s == nil || !s.clear
}

// Clear returns the password from a value that contains the password in clear. It returns any
// other value unchanged.
func Clear(stored []byte) []byte {
	if s, rest := parse(stored); s != nil && s.clear {
		return rest
	}
	return stored
}

// Usable reports whether the stored value can match some password, which is the case if
// it has the form of a known scheme. It also returns the scheme as "{SCHEME}", or "" if
// the value names no scheme.
func Usable(stored []byte) (name string, usable bool) {
	behind := stored
	if isLocked(stored) {
		behind = bytes.TrimLeft(stored, lockMarks)
	}
	if n, _, ok := split(behind); ok {
		name = "{" + strings.ToUpper(string(n)) + "}"
	}
	s, rest := parse(stored)
	if s == nil {
		return name, false
	}
	return name, s.form(rest) == nil
}

// TooCostly reports whether the stored value has the form of a known scheme, but would need too
// much work to verify: see ErrCost.
func TooCostly(stored []byte) bool {
	s, rest := parse(stored)
	return s != nil && errors.Is(s.form(rest), ErrCost)
}

// Schemes returns the names of the schemes that Verify supports.
func Schemes() []string {
	var names []string
	for i := range schemes {
		names = append(names, schemes[i].name)
	}
	return names
}

// NewSchemes returns the names of the schemes that Hash supports.
func NewSchemes() []string {
	return slices.DeleteFunc(Schemes(), func(n string) bool { return find([]byte(n)).hash == nil })
}

// parse returns the scheme of a stored password and the rest of the value. The scheme is
// nil if it is unknown or if the value is locked. A value without "{SCHEME}" is a password in
// clear.
func parse(stored []byte) (*scheme, []byte) {
	name, rest, ok := split(stored)
	switch {
	case ok:
		return find(name), rest
	case isLocked(stored):
		return nil, nil
	}
	return clearScheme, stored
}

// isLocked reports whether a stored value is a hash with a lock mark before its scheme,
// such as "!{SSHA}...".
func isLocked(stored []byte) bool {
	behind := bytes.TrimLeft(stored, lockMarks)
	if len(behind) == len(stored) {
		return false
	}
	name, _, ok := split(behind)
	if !ok {
		return false
	}
	s := find(name)
	return s != nil && !s.clear
}

// lockMarks are the characters that lock a hash: a hash after such a character matches no
// password.
const lockMarks = "!*"

// split splits a value of the form "{name}rest". The name contains no spaces or braces.
func split(stored []byte) (name, rest []byte, ok bool) {
	if len(stored) < 3 || stored[0] != '{' {
		return nil, nil, false
	}
	end := bytes.IndexByte(stored, '}')
	if end < 2 {
		return nil, nil, false
	}
	for _, c := range stored[1:end] {
		if c <= ' ' || c >= 0x7f || c == '{' {
			return nil, nil, false
		}
	}
	return stored[1:end], stored[end+1:], true
}

// find looks up a scheme by its name, ignoring case. A linear search is fast, because
// there are few schemes and the frequent schemes come first.
func find(name []byte) *scheme {
	for i := range schemes {
		if len(schemes[i].name) == len(name) && equalFold(schemes[i].name, name) {
			return &schemes[i]
		}
	}
	return nil
}

func equalFold(upper string, b []byte) bool {
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != upper[i] {
			return false
		}
	}
	return true
}
