// Package account makes decisions about accounts: whether an account is locked, what
// follows from a bind with the right password, and which new passwords are allowed. It
// implements draft-behera-ldap-password-policy-11; "the draft" and bare section numbers
// in comments refer to this document. Decisions are functions of a policy, the state of an
// account and the time; the package reads a store and a clock only through a [Ledger].
//
// [Policy.Attempt] limits the number of guesses that all servers of one store verify.
package account

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Policy is the content of an entry of the class pwdPolicy. A duration or number that
// is 0 is unset, as in the draft.
type Policy struct {
	Name string // DN of the policy entry

	MinAge, MaxAge time.Duration
	InHistory      int
	// 0: the quality is not checked; 1: it is checked if the password is in clear; 2: it is
	// always checked, so hashes are refused.
	CheckQuality         int
	MinLength, MaxLength int // in characters
	ExpireWarning        time.Duration
	GraceLimit           int
	GraceExpiry          time.Duration
	MustChange           bool
	NoUserChange         bool // pwdAllowUserChange is FALSE
	SafeModify           bool
	MaxIdle              time.Duration

	Lockout              bool
	LockoutDuration      time.Duration // 0: until the failures are deleted
	MaxFailure           int
	FailureCountInterval time.Duration // 0: failures count for ever
	MinDelay, MaxDelay   time.Duration

	// The draft does not define the following fields.
	Quality             []Demand
	For                 []string // the identities that the policy applies to, in the language of access rules
	Priority            int      // the policy with the lowest Priority takes precedence
	LockoutStrict       bool
	IgnoreOld           int // an attempt with one of the newest IgnoreOld earlier passwords is no failure
	Tell                bool
	LastSuccess         bool
	LastSuccessInterval time.Duration
	MaxResetAge         time.Duration
	MaxResetUse         int
	SecondFactor        []string // mechanisms that count as a second factor: code, certificate, token
	Netscape            bool
}

// Mechanisms that SecondFactor can contain.
const (
	Code        = "code"
	Certificate = "certificate"
	Token       = "token"
)

// Attributes are the names of the attributes that Parse reads.
var Attributes = attributeNames()

func attributeNames() (names []string) {
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

// A field is an attribute of a policy entry and the function that reads its values.
type field struct {
	name string
	read func(p *Policy, values []string) error
}

var fields = []field{
	{"pwdAttribute", readAttribute},
	{"pwdMinAge", seconds(func(p *Policy) *time.Duration { return &p.MinAge })},
	{"pwdMaxAge", seconds(func(p *Policy) *time.Duration { return &p.MaxAge })},
	{"pwdInHistory", number(0, maxHistory, func(p *Policy) *int { return &p.InHistory })},
	{"pwdCheckQuality", number(0, 2, func(p *Policy) *int { return &p.CheckQuality })},
	{"pwdMinLength", number(0, math.MaxInt32, func(p *Policy) *int { return &p.MinLength })},
	{"pwdMaxLength", number(0, math.MaxInt32, func(p *Policy) *int { return &p.MaxLength })},
	{"pwdExpireWarning", seconds(func(p *Policy) *time.Duration { return &p.ExpireWarning })},
	{"pwdGraceAuthNLimit", number(0, math.MaxInt32, func(p *Policy) *int { return &p.GraceLimit })},
	{"pwdGraceExpiry", seconds(func(p *Policy) *time.Duration { return &p.GraceExpiry })},
	{"pwdLockout", boolean(func(p *Policy) *bool { return &p.Lockout })},
	{"pwdLockoutDuration", seconds(func(p *Policy) *time.Duration { return &p.LockoutDuration })},
	{"pwdMaxFailure", number(0, maxFailures, func(p *Policy) *int { return &p.MaxFailure })},
	{"pwdFailureCountInterval", seconds(func(p *Policy) *time.Duration { return &p.FailureCountInterval })},
	{"pwdMustChange", boolean(func(p *Policy) *bool { return &p.MustChange })},
	{"pwdAllowUserChange", readUserChange},
	{"pwdSafeModify", boolean(func(p *Policy) *bool { return &p.SafeModify })},
	{"pwdMinDelay", seconds(func(p *Policy) *time.Duration { return &p.MinDelay })},
	{"pwdMaxDelay", seconds(func(p *Policy) *time.Duration { return &p.MaxDelay })},
	{"pwdMaxIdle", seconds(func(p *Policy) *time.Duration { return &p.MaxIdle })},
	{"pwdQuality", readQuality},
	{"pwdPolicyFor", func(p *Policy, values []string) error { p.For = values; return nil }},
	{"pwdPriority", number(math.MinInt32, math.MaxInt32, func(p *Policy) *int { return &p.Priority })},
	{"pwdLockoutStrict", boolean(func(p *Policy) *bool { return &p.LockoutStrict })},
	{"pwdIgnoreOld", number(0, maxIgnored, func(p *Policy) *int { return &p.IgnoreOld })},
	{"pwdTell", boolean(func(p *Policy) *bool { return &p.Tell })},
	{"pwdLastSuccessInterval", readLastSuccess},
	{"pwdMaxResetAge", seconds(func(p *Policy) *time.Duration { return &p.MaxResetAge })},
	{"pwdMaxResetUse", number(0, math.MaxInt32, func(p *Policy) *int { return &p.MaxResetUse })},
	{"pwdSecondFactor", readFactors},
	{"pwdNetscapeControls", boolean(func(p *Policy) *bool { return &p.Netscape })},
}

// These are the largest numbers that a policy may have. maxHistory and maxIgnored are
// limited because the server computes a slow hash for each old password that it compares.
// maxFailures is limited because an entry stores a value for each failure.
const (
	maxHistory  = 100
	maxIgnored  = 10
	maxFailures = 1000
)

// Parse reads a policy from the values of an entry. The error lists all invalid values.
// Even then, Parse returns a policy, with the valid values.
func Parse(name string, values func(attribute string) []string) (*Policy, error) {
	p := &Policy{Name: name}
	var bad []error
	for _, f := range fields {
		if vs := values(f.name); len(vs) > 0 {
			if err := f.read(p, vs); err != nil {
				bad = append(bad, fmt.Errorf("%s: %w", f.name, err))
			}
		}
	}
	if len(bad) == 0 {
		bad = p.contradictions()
	}
	p.settleLastSuccess()
	return p, errors.Join(bad...)
}

// ParseDefault reads the policy of entries that no other policy applies to. It does not
// allow the attributes that choose among policies.
func ParseDefault(name string, values func(attribute string) []string) (*Policy, error) {
	p, err := Parse(name, values)
	for _, a := range []string{"pwdPolicyFor", "pwdPriority"} {
		if len(values(a)) > 0 {
			err = errors.Join(err, fmt.Errorf("%s: the default policy is for all entries that have no other one", a))
		}
	}
	return p, err
}

// contradictions returns an error for each value that contradicts another value, or that has
// no effect without another value (the draft, 5.2).
func (p *Policy) contradictions() (bad []error) {
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	refuse(p.MaxAge > 0 && p.MinAge > p.MaxAge,
		"pwdMinAge: %s is longer than pwdMaxAge, so a password would expire before it may be changed", inSeconds(p.MinAge))
	refuse(p.MaxAge > 0 && p.ExpireWarning >= p.MaxAge,
		"pwdExpireWarning: %s is not shorter than pwdMaxAge, so every bind would warn", inSeconds(p.ExpireWarning))
	refuse(p.MaxLength > 0 && p.MinLength > p.MaxLength,
		"pwdMinLength: %d is more than pwdMaxLength, so no password would do", p.MinLength)
	refuse(p.MinDelay > 0 && p.MaxDelay < p.MinDelay,
		"pwdMaxDelay: %s is shorter than pwdMinDelay", inSeconds(p.MaxDelay))
	refuse(p.MinDelay == 0 && p.MaxDelay > 0, "pwdMaxDelay: it says nothing without pwdMinDelay")
	refuse(p.LockoutStrict && !p.Locks(), "pwdLockoutStrict: it says nothing without pwdLockout and pwdMaxFailure")
	refuse(p.IgnoreOld > p.InHistory, "pwdIgnoreOld: %d old passwords are ignored, and pwdInHistory keeps %d", p.IgnoreOld, p.InHistory)
	refuse(p.NoUserChange && p.MustChange, "pwdMustChange: nobody could change a password that was reset, since pwdAllowUserChange is FALSE")
	return bad
}

func inSeconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) + " s" }

// settleLastSuccess turns on the recording of successes if MaxIdle is set. It also sets the
// interval at which successes are recorded: a day if the policy sets no interval, and at most
// a tenth of MaxIdle.
func (p *Policy) settleLastSuccess() {
	p.LastSuccess = p.LastSuccess || p.MaxIdle > 0
	if p.LastSuccess && p.LastSuccessInterval == 0 {
		p.LastSuccessInterval = 24 * time.Hour
	}
	if p.MaxIdle > 0 {
		p.LastSuccessInterval = min(p.LastSuccessInterval, p.MaxIdle/10)
	}
}

func single(values []string) (string, error) {
	if len(values) != 1 {
		return "", fmt.Errorf("it has %d values and may have one", len(values))
	}
	return values[0], nil
}

func seconds(at func(*Policy) *time.Duration) func(*Policy, []string) error {
	return func(p *Policy, values []string) error {
		n, err := integer(values, 0, math.MaxInt32)
		*at(p) = time.Duration(n) * time.Second
		return err
	}
}

func number(least, most int, at func(*Policy) *int) func(*Policy, []string) error {
	return func(p *Policy, values []string) (err error) {
		*at(p), err = integer(values, least, most)
		return err
	}
}

func integer(values []string, least, most int) (int, error) {
	v, err := single(values)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q is no number from %d to %d", v, least, most)
	}
	return n, nil
}

func boolean(at func(*Policy) *bool) func(*Policy, []string) error {
	return func(p *Policy, values []string) error {
		v, err := single(values)
		if err != nil {
			return err
		}
		is := strings.EqualFold(v, "TRUE")
		if !is && !strings.EqualFold(v, "FALSE") {
			return fmt.Errorf("%q is neither TRUE nor FALSE", v)
		}
		*at(p) = is
		return nil
	}
}

// readAttribute returns an error if the value of pwdAttribute is not userPassword.
func readAttribute(_ *Policy, values []string) error {
	v, err := single(values)
	if err == nil && !strings.EqualFold(v, "userPassword") && v != "2.5.4.35" {
		err = fmt.Errorf("%q is not userPassword, which policies are for here", v)
	}
	return err
}

func readUserChange(p *Policy, values []string) error {
	allowed := true
	err := boolean(func(*Policy) *bool { return &allowed })(p, values)
	p.NoUserChange = !allowed
	return err
}

func readLastSuccess(p *Policy, values []string) error {
	p.LastSuccess = true
	return seconds(func(p *Policy) *time.Duration { return &p.LastSuccessInterval })(p, values)
}

func readFactors(p *Policy, values []string) error {
	ways := []string{Code, Certificate, Token}
	for _, v := range values {
		way := strings.ToLower(v)
		if !slices.Contains(ways, way) {
			return fmt.Errorf("%q is none of %s", v, strings.Join(ways, ", "))
		}
		p.SecondFactor = append(p.SecondFactor, way)
	}
	return nil
}

// Recommended are the values of the policy that new directories begin with: long
// passwords that are hard to guess, and no expiry (NIST SP 800-63B).
var Recommended = []Value{
	{"pwdAttribute", "userPassword"},
	{"pwdCheckQuality", "1"},
	{"pwdMinLength", "12"},
	{"pwdQuality", "strength 3"},
	{"pwdQuality", "unlike uid, cn, sn, givenName, mail"},
	{"pwdLockout", "TRUE"},
	{"pwdMaxFailure", "10"},
	{"pwdFailureCountInterval", "900"},
	{"pwdLockoutDuration", "300"},
	{"pwdMustChange", "TRUE"},
}
