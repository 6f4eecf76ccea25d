package account

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// An Error is an error of the draft, section 6.2, with a text for the client.
type Error struct {
	Kind ErrorKind
	Text string
}

func (e *Error) Error() string { return e.Text }

// ErrorKind is the number with which the password policy response control reports an
// error.
type ErrorKind int

// The errors that the draft defines in section 6.2, except passwordTooLong, which came with draft 11: clients
// that know draft 10 cannot read a control with it. See findings/password-too-long.sh.
const (
	PasswordExpired ErrorKind = iota
	AccountLocked
	ChangeAfterReset
	ModNotAllowed
	MustSupplyOld
	InsufficientQuality
	TooShort
	TooYoung
	InHistory
)

func refuse(kind ErrorKind, format string, args ...any) error {
	return &Error{kind, fmt.Sprintf(format, args...)}
}

// A Change is a request to set a new password for an account.
type Change struct {
	// Reset means that the requester is not the owner of the account and has the right to
	// set its password.
	Reset bool
	// OldGiven means that the request contained the correct old password.
	OldGiven bool
	// Hashed means that the new password is a hash, so the server cannot check its
	// quality.
	Hashed bool
	// Relaxed means that the age, quality and history of passwords are not checked.
	Relaxed   bool
	Candidate Candidate
}

// MayChange returns an error if the password of the account may not be changed, whatever
// the new password is (the draft, 8.2.1 to 8.2.4).
func (p *Policy) MayChange(s *State, c *Change, now time.Time) error {
	if p == nil || c.Reset {
		return nil
	}
	mustChange := p.mustChange(s)
	switch {
	case p.NoUserChange:
		return refuse(ModNotAllowed, "the password policy does not let users change their passwords")
	case p.SafeModify && !c.OldGiven && !mustChange:
		return refuse(MustSupplyOld, "the password policy wants the old password with the new one")
	case p.MinAge > 0 && !mustChange && !c.Relaxed && !s.Changed.IsZero() && now.Before(s.Changed.Add(p.MinAge)):
		return refuse(TooYoung, "the password was changed too recently: it may be changed again from %s on",
			s.Changed.Add(p.MinAge).UTC().Format(time.RFC3339))
	}
	return nil
}

// Check returns an error if the policy does not allow the new password (the draft,
// 8.2.5). The error names the demands that the password does not meet and contains no
// part of the password.
func (p *Policy) Check(c *Change) error {
	if p == nil || c.Relaxed {
		return nil
	}
	if c.Hashed {
		if p.CheckQuality == 2 {
			return refuse(InsufficientQuality, "the password policy wants new passwords in clear, to look at their quality")
		}
		return nil
	}
	n := utf8.RuneCountInString(c.Candidate.Password)
	if p.MaxLength > 0 && n > p.MaxLength {
		return refuse(InsufficientQuality, "the password is longer than %d characters", p.MaxLength)
	}
	if p.CheckQuality == 0 {
		return nil
	}
	if n < p.MinLength {
		return refuse(TooShort, "the password is shorter than %d characters", p.MinLength)
	}
	var lacks []string
	for _, d := range p.Quality {
		if d.Text == unlisted && c.Candidate.Listed == nil {
			return ErrNoList
		}
		if d.word == strengthWord && Strength == nil {
			return ErrNoStrength
		}
		if !d.met(&c.Candidate) {
			lacks = append(lacks, d.lacks)
		}
	}
	if len(lacks) > 0 {
		return refuse(InsufficientQuality, "the password is not good enough: %s", strings.Join(lacks, "; "))
	}
	return nil
}

// ResetAfter reports whether the user must change the password again after c (the draft,
// 8.2.7).
func (p *Policy) ResetAfter(c *Change) bool { return p != nil && p.MustChange && c.Reset }

// ErrNoList is the error for a new password if the policy forbids passwords that are in a
// list of known passwords, but the server has no such list.
var ErrNoList = errors.New("the password policy wants passwords that are in no list of known ones, and this server has no list")

// ErrNoStrength is the error for a new password if the policy demands a strength and the program does not link
// what judges it.
var ErrNoStrength = errors.New("the password policy demands a strength, which this program cannot judge: import package directory/account/strength")

// ErrInHistory is the error for a password that the account had before (the draft,
// 8.2.6).
var ErrInHistory error = &Error{InHistory, "the password was used before: take another one"}

// ErrMustChange is the error for a request that is refused because the user must first
// change the password (the draft, 8.1).
var ErrMustChange error = &Error{ChangeAfterReset, "the password was set by somebody else and must be changed before anything else, by Password Modify or a modify of userPassword; an account that no person owns needs pwdReset: FALSE"}
