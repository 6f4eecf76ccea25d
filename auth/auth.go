// Package auth says who clients are: it verifies passwords, the messages of
// SASL's mechanisms and tokens, and leads names to entries by [Rule]s. It knows
// no directory: package directory looks up and decides.
//
// # Passwords
//
// A stored password is a value of
// userPassword (RFC 4519, 2.41) in one of the forms that directory servers
// share: cleartext, or "{SCHEME}" and what the scheme says (RFC 2307, 5.3).
//
// [Passwords] verifies every form that [Schemes] lists and makes new ones,
// {ARGON2} by default. Its work with slow schemes is bounded and shared among
// clients by turns, so that a flood of binds takes neither all memory nor all
// CPUs, nor keeps others out. A [Hasher] may do it elsewhere. The layouts behind the scheme are
//
//	{SHA} {MD5} {SHA256} {SHA384} {SHA512}          base64(digest)
//	{SSHA} {SMD5} {SSHA256} {SSHA384} {SSHA512}     base64(digest, salt)
//	{CRYPT}                                         crypt(3): $1$ $2a$ $2b$ $2y$ $5$ $6$ $sha1$ $y$
//	{BCRYPT}                                        $2a$ $2b$ $2y$
//	{ARGON2}                                        $argon2i$ or $argon2id$
//	{PBKDF2} {PBKDF2-SHA1} -SHA256 -SHA512          rounds$ab64(salt)$ab64(key)
//	{PBKDF2_SHA256}                                 389 Directory Server's, base64(rounds, salt, key)
//	{PKCS5S2}                                       ApacheDS's, base64(salt, key)
//	{CLEARTEXT} {CLEAR}                             the password
//
// A value is read whole: one that has anything in front of its layout or behind
// it, as the "!" of a locked account, matches no password. Neither does one of
// another scheme.
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

// ErrScheme says that a stored password has a form that nobody here can read.
var ErrScheme = errors.New("unknown or malformed password scheme")

// Default is the scheme of new passwords.
const Default = "ARGON2"

// Passwords verifies and makes stored passwords. It may be used concurrently.
// What it does for a client bears that client's channel: see [ErrBusy].
type Passwords struct {
	slots  pool
	hasher Hasher // of slow schemes
	// decoy is what the work of a failure is done on: see [Attempt.Fail].
	decoy atomic.Pointer[decoy]
	watch atomic.Pointer[func(scheme string, waited time.Duration)]
}

type decoy struct {
	scheme *scheme
	value  []byte
}

// New makes Passwords that have at most so many slow hashes made at once; zero
// leaves one CPU to others, if there is more than one. A nil Hasher is [Here].
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

// Verify reports whether password is the stored one. The error is of the
// context, or ErrScheme, or ErrBusy.
func (p *Passwords) Verify(ctx context.Context, c Channel, stored, password []byte) (bool, error) {
	s, rest := parse(stored)
	if s == nil {
		return false, ErrScheme
	}
	return p.run(ctx, c, s, rest, password)
}

func (p *Passwords) run(ctx context.Context, c Channel, s *scheme, rest, password []byte) (bool, error) {
	if !s.slow {
		return s.verify(s, rest, password)
	}
	if err := p.acquire(ctx, c, s.name); err != nil {
		return false, err
	}
	defer p.slots.release(clientOf(c))
	ok, err := p.hasher.Verify(s.name, rest, password)
	if err == nil {
		p.learn(s, rest)
	}
	return ok, err
}

// acquire waits for the client's turn to have a hash made.
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

// Watch has f called before every slow hash, with its scheme and how long it has waited
// for its turn.
func (p *Passwords) Watch(f func(scheme string, waited time.Duration)) { p.watch.Store(&f) }

// Waiting returns how many slow hashes wait for their turn.
func (p *Passwords) Waiting() int { return p.slots.waiting() }

// Expect makes failures cost what verifying a stored password does, if that is in a
// slow scheme: what is in use may not have been met yet.
func (p *Passwords) Expect(stored []byte) {
	if s, rest := parse(stored); s != nil && s.slow {
		p.learn(s, rest)
	}
}

// learn keeps a value to do the work of failures on: one of the slow scheme that
// was met or made last.
func (p *Passwords) learn(s *scheme, rest []byte) {
	if d := p.decoy.Load(); d.scheme != s {
		p.decoy.Store(&decoy{s, bytes.Clone(rest)})
	}
}

// An Attempt is one password given for one name, tried on what is stored of it.
// Whether the name exists, has a password, and in which scheme, is not to be told
// from the time that a failure takes: where any slow scheme is in use, every
// failure costs one slow hash at least.
type Attempt struct {
	passwords *Passwords
	channel   Channel
	password  []byte
	tried     bool
	slowly    bool
}

// Attempt begins an attempt with a password that a client gave.
func (p *Passwords) Attempt(c Channel, password []byte) Attempt {
	return Attempt{passwords: p, channel: c, password: password}
}

// Try is Verify.
func (a *Attempt) Try(ctx context.Context, stored []byte) (bool, error) {
	ok, err := a.passwords.Verify(ctx, a.channel, stored, a.password)
	if err == nil {
		a.tried = true
		a.slowly = a.slowly || Slow(stored)
	}
	return ok, err
}

// Fail does what work is missing when nothing that was stored fitted. The error
// is of the context, or ErrBusy.
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

// Again does the work of one failure more.
func (a *Attempt) Again(ctx context.Context) error {
	d := a.passwords.decoy.Load()
	_, err := a.passwords.run(ctx, a.channel, d.scheme, d.value, a.password)
	if errors.Is(err, ErrScheme) {
		return nil
	}
	return err
}

// Hash makes a stored password. An empty scheme is the default one.
func (p *Passwords) Hash(ctx context.Context, c Channel, name string, password []byte) ([]byte, error) {
	if name == "" {
		name = Default
	}
	s := find([]byte(strings.Trim(name, "{}")))
	if s == nil || s.hash == nil {
		return nil, fmt.Errorf("no new passwords in scheme %q: use one of %s", name, strings.Join(NewSchemes(), ", "))
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
	rest, err := p.hasher.Hash(s.name, password)
	if err == nil {
		p.learn(s, rest)
	}
	return rest, err
}

// Slow reports whether a stored password takes long to verify, which is what
// protects it once it is stolen.
func Slow(stored []byte) bool {
	s, _ := parse(stored)
	return s != nil && s.slow
}

// Hashed reports whether a value of userPassword is no password in clear: it is
// in a scheme that hides the password, is locked, or is in a scheme that is not
// known here and that no password matches.
func Hashed(stored []byte) bool {
	s, _ := parse(stored)
	return s == nil || !s.clear
}

// Clear is the password of a value that does not hide it.
func Clear(stored []byte) []byte {
	if s, rest := parse(stored); s != nil && s.clear {
		return rest
	}
	return stored
}

// Usable reports whether some password can match a stored one: it has the layout of
// a known scheme. The scheme is named as "{SCHEME}", a password in clear as "".
func Usable(stored []byte) (name string, usable bool) {
	behind := stored
	if isLocked(stored) {
		behind = bytes.TrimLeft(stored, lockMarks)
	}
	if n, _, ok := split(behind); ok {
		name = "{" + strings.ToUpper(string(n)) + "}"
	}
	s, rest := parse(stored)
	switch {
	case s == nil:
		return name, false
	case s.reads != nil:
		return name, s.reads(s, rest)
	}
	_, err := s.verify(s, rest, nil)
	return name, err == nil
}

// Schemes lists what Verify reads.
func Schemes() []string {
	var names []string
	for i := range schemes {
		names = append(names, schemes[i].name)
	}
	return names
}

// NewSchemes lists what Hash makes.
func NewSchemes() []string {
	return slices.DeleteFunc(Schemes(), func(n string) bool { return find([]byte(n)).hash == nil })
}

// parse finds the scheme of a stored password and what the scheme says; the
// scheme is nil if no password can match. A value without "{SCHEME}" is a
// password in clear.
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

// isLocked reports whether a value is a hash that was locked by a mark in front
// of its scheme, such as "!{SSHA}...".
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

// lockMarks stand in front of hashes that are to match no more.
const lockMarks = "!*"

// split takes "{name}rest" apart. A name has no spaces and no braces.
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

// find looks a scheme up, in any case. There are few, and the frequent ones
// stand first.
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
