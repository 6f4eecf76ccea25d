// Package auth stores and verifies passwords. A stored password is a value of
// userPassword (RFC 4519, 2.41) in one of the forms that directory servers
// share: cleartext, or "{SCHEME}" and what the scheme says (RFC 2307, 5.3).
//
// [Passwords] verifies every form that [Schemes] lists and makes new ones,
// {ARGON2} by default. Its work with slow schemes is bounded, so that a flood of
// binds cannot take all memory. The layouts behind the scheme are
//
//	{SHA} {MD5} {SHA256} {SHA384} {SHA512}          base64(digest)
//	{SSHA} {SMD5} {SSHA256} {SSHA384} {SSHA512}     base64(digest, salt)
//	{CRYPT}                                         crypt(3): $1$ $2a$ $2b$ $2y$ $5$ $6$ $7$ $sha1$ $y$
//	{BCRYPT}                                        $2a$ $2b$ $2y$
//	{ARGON2}                                        $argon2i$ or $argon2id$
//	{PBKDF2} {PBKDF2-SHA1} -SHA256 -SHA512          rounds$ab64(salt)$ab64(key)
//	{PBKDF2_SHA256}                                 389 Directory Server's, base64(rounds, salt, key)
//	{PKCS5S2}                                       ApacheDS's, base64(salt, key)
//	{CLEARTEXT}                                     the password
package auth

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
)

// ErrScheme says that a stored password has a form that nobody here can read.
var ErrScheme = errors.New("unknown or malformed password scheme")

// Default is the scheme of new passwords.
const Default = "ARGON2"

// Passwords verifies and makes stored passwords. It may be used concurrently.
type Passwords struct {
	slots chan struct{}
	// decoy is a value of the scheme that was verified last: see Burn.
	decoy atomic.Pointer[decoy]
}

type decoy struct {
	scheme *scheme
	value  []byte
}

// New makes Passwords that run at most so many slow hashes at once; zero is one
// a CPU.
func New(parallel int) *Passwords {
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	p := &Passwords{slots: make(chan struct{}, parallel)}
	s := find([]byte("SSHA"))
	p.decoy.Store(&decoy{s, []byte("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==")})
	return p
}

// Verify reports whether password is the stored one. The error is of the
// context, or ErrScheme.
func (p *Passwords) Verify(ctx context.Context, stored, password []byte) (bool, error) {
	name, rest, ok := split(stored)
	if !ok {
		return subtle.ConstantTimeCompare(stored, password) == 1, nil
	}
	s := find(name)
	if s == nil {
		return false, ErrScheme
	}
	if d := p.decoy.Load(); d.scheme != s {
		p.decoy.Store(&decoy{s, bytes.Clone(rest)})
	}
	return p.run(ctx, s, rest, password)
}

// Burn does the work of a Verify that fails, for names that do not exist or have
// no password: with the scheme that was last verified, the time an answer takes
// tells an existing name from another as little as can be.
func (p *Passwords) Burn(ctx context.Context, password []byte) error {
	d := p.decoy.Load()
	_, err := p.run(ctx, d.scheme, d.value, password)
	if errors.Is(err, ErrScheme) {
		return nil
	}
	return err
}

func (p *Passwords) run(ctx context.Context, s *scheme, rest, password []byte) (bool, error) {
	if s.slow {
		if err := p.acquire(ctx); err != nil {
			return false, err
		}
		defer func() { <-p.slots }()
	}
	return s.verify(s, rest, password)
}

func (p *Passwords) acquire(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Hash makes a stored password. An empty scheme is the default one.
func (p *Passwords) Hash(ctx context.Context, name string, password []byte) ([]byte, error) {
	if name == "" {
		name = Default
	}
	s := find([]byte(strings.Trim(name, "{}")))
	if s == nil || s.hash == nil {
		return nil, fmt.Errorf("no new passwords in scheme %q: use one of %s", name, strings.Join(NewSchemes(), ", "))
	}
	if s.slow {
		if err := p.acquire(ctx); err != nil {
			return nil, err
		}
		defer func() { <-p.slots }()
	}
	rest, err := s.hash(s, password)
	if err != nil {
		return nil, err
	}
	return append([]byte("{"+s.name+"}"), rest...), nil
}

// Hashed reports whether a value of userPassword is in one of the schemes that
// hide the password.
func Hashed(stored []byte) bool {
	name, _, ok := split(stored)
	if !ok {
		return false
	}
	s := find(name)
	return s != nil && s.name != "CLEARTEXT"
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

// split takes "{name}rest" apart.
func split(stored []byte) (name, rest []byte, ok bool) {
	if len(stored) < 3 || stored[0] != '{' {
		return nil, nil, false
	}
	end := bytes.IndexByte(stored, '}')
	if end < 2 {
		return nil, nil, false
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
