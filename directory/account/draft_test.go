package account

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// ago returns the times that are the given numbers of seconds before now.
func ago(seconds ...int) (ts []time.Time) {
	for _, s := range seconds {
		ts = append(ts, now.Add(-time.Duration(s)*time.Second))
	}
	return ts
}

func policyOf(t *testing.T, says ...string) *Policy {
	t.Helper()
	p, err := parseOf(says...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func parseOf(says ...string) (*Policy, error) {
	return Parse("cn=p", func(a string) (values []string) {
		for i := 0; i < len(says); i += 2 {
			if says[i] == a {
				values = append(values, says[i+1])
			}
		}
		return values
	})
}

// TestAfterPassword checks the sentences of the draft, 7.1 to 7.5 and 8.1, about the
// outcome of a bind with the right password.
func TestAfterPassword(t *testing.T) {
	locked := []string{"pwdLockout", "TRUE", "pwdMaxFailure", "3", "pwdLockoutDuration", "60"}
	expiring := []string{"pwdMaxAge", "1000", "pwdExpireWarning", "100", "pwdGraceAuthNLimit", "2", "pwdGraceExpiry", "500"}
	for _, c := range []struct {
		sentence string
		says     []string
		state    State
		want     Outcome
	}{
		{"7.1 pwdAccountLockedTime 000001010000Z: locked for ever", locked, State{Disabled: true}, Outcome{Refused: Unusable}},
		{"7.1 now before pwdAccountLockedTime + pwdLockoutDuration: locked", locked, State{LockedSince: ago(59)[0]}, Outcome{Refused: Unusable}},
		{"7.1 now behind it: not locked", locked, State{LockedSince: ago(60)[0]}, Outcome{}},
		{"7.1 pwdLockoutDuration 0: locked until it is deleted", nil, State{LockedSince: ago(1e6)[0]}, Outcome{Refused: Unusable}},
		{"7.1 pwdStartTime in the future: locked", nil, State{Start: now.Add(1)}, Outcome{Refused: Unusable}},
		{"7.1 pwdStartTime now: not locked", nil, State{Start: now}, Outcome{}},
		{"7.1 pwdEndTime in the past: locked", nil, State{End: now}, Outcome{Refused: Unusable}},
		{"7.1 pwdEndTime in the future: not locked", nil, State{End: now.Add(1)}, Outcome{}},
		{"7.1 pwdLastSuccess longer ago than pwdMaxIdle: locked", []string{"pwdMaxIdle", "100"}, State{Success: ago(100)[0]}, Outcome{Refused: Unusable}},
		{"7.1 pwdLastSuccess not so long ago: not locked", []string{"pwdMaxIdle", "100"}, State{Success: ago(99)[0]}, Outcome{}},
		{"7.1 pwdMaxIdle without pwdLastSuccess: not locked", []string{"pwdMaxIdle", "100"}, State{}, Outcome{}},
		{"7.1 pwdAccountLockedTime comes before all else", append([]string{"pwdMustChange", "TRUE"}, locked...), State{LockedSince: ago(1)[0], Reset: true}, Outcome{Refused: Unusable}},
		{"7.2 pwdMustChange without pwdReset: not", []string{"pwdMustChange", "TRUE"}, State{}, Outcome{}},
		{"7.2 pwdMustChange and pwdReset: must be changed", []string{"pwdMustChange", "TRUE"}, State{Reset: true}, Outcome{MustChange: true}},
		{"7.2 pwdReset without pwdMustChange: not", nil, State{Reset: true}, Outcome{}},
		{"a password that was reset too long ago", []string{"pwdMustChange", "TRUE", "pwdMaxResetAge", "10"}, State{Reset: true, Changed: ago(10)[0]}, Outcome{Refused: ResetOver}},
		{"a password that was reset and used too often", []string{"pwdMustChange", "TRUE", "pwdMaxResetUse", "2"}, State{Reset: true, ResetUses: 2}, Outcome{Refused: ResetOver}},
		{"7.3 older than pwdMaxAge, 7.4 grace left", expiring, State{Changed: ago(1000)[0]}, Outcome{Grace: true}},
		{"7.3 pwdMaxAge 0: does not expire", nil, State{Changed: ago(1e9)[0]}, Outcome{}},
		{"7.3 without pwdChangedTime: does not expire", expiring, State{}, Outcome{}},
		{"7.3 without grace: expired", []string{"pwdMaxAge", "1000"}, State{Changed: ago(1000)[0]}, Outcome{Refused: Expired}},
		{"7.4 pwdGraceUseTime has fewer values: some are left", expiring, State{Changed: ago(1000)[0], GraceUses: ago(1)}, Outcome{Grace: true}},
		{"7.4 pwdGraceUseTime has pwdGraceAuthNLimit values: none is left", expiring, State{Changed: ago(1000)[0], GraceUses: ago(2, 1)}, Outcome{Refused: Expired}},
		{"7.4 behind pwdGraceExpiry: none is left", expiring, State{Changed: ago(1500)[0]}, Outcome{Refused: Expired}},
		{"7.5 within pwdExpireWarning: warned", expiring, State{Changed: ago(940)[0]}, Outcome{Warn: 60 * time.Second}},
		{"7.5 pwdExpireWarning 0: never warned", []string{"pwdMaxAge", "1000"}, State{Changed: ago(999)[0]}, Outcome{}},
		{"7.5 before it: not warned", expiring, State{Changed: ago(899)[0]}, Outcome{}},
		{"8.1 must change comes before expired", append([]string{"pwdMustChange", "TRUE"}, expiring...), State{Reset: true, Changed: ago(1000)[0]}, Outcome{MustChange: true}},
	} {
		if got := policyOf(t, c.says...).AfterPassword(&c.state, now); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.sentence, got, c.want)
		}
	}
	var none *Policy
	if got := none.AfterPassword(&State{Reset: true}, now); !got.MustChange {
		t.Errorf("pwdReset without a policy: %+v", got)
	}
}

// TestLock checks the sentences of the draft, 7.6 and 7.7, about the effect of failures
// on an account.
func TestLock(t *testing.T) {
	three := []string{"pwdLockout", "TRUE", "pwdMaxFailure", "3"}
	timed := append([]string{"pwdFailureCountInterval", "100", "pwdLockoutDuration", "50"}, three...)
	delayed := []string{"pwdMinDelay", "2", "pwdMaxDelay", "9"}
	for _, c := range []struct {
		sentence string
		says     []string
		failures []time.Time
		locked   bool
		held     bool
		kept     int
	}{
		{"7.6 fewer than pwdMaxFailure", three, ago(2, 1), false, false, 2},
		{"7.6 pwdMaxFailure", three, ago(3, 2, 1), true, false, 3},
		{"7.6 in no order", three, ago(1, 3, 2), true, false, 3},
		{"7.6 without pwdLockoutDuration for ever", three, ago(3e6, 2e6, 1e6), true, false, 3},
		{"7.6 pwdLockout FALSE", []string{"pwdMaxFailure", "3"}, ago(3, 2, 1), false, false, 3},
		{"7.6 pwdMaxFailure 0", []string{"pwdLockout", "TRUE"}, ago(3, 2, 1), false, false, 3},
		{"7.6 pwdFailureCountInterval 0: they count for ever", append([]string{"pwdFailureCountInterval", "0"}, three...), ago(1e8, 1e7, 1), true, false, 3},
		{"7.6 older than pwdFailureCountInterval do not count", timed, ago(102, 101, 1), false, false, 1},
		{"7.6 within pwdFailureCountInterval", timed, ago(80, 40, 1), true, false, 3},
		{"a lock ends", timed, ago(90, 80, 51), false, false, 0},
		{"a lock lasts", timed, ago(90, 80, 49), true, false, 3},
		{"failures while it lasts do not prolong it", timed, ago(90, 80, 51, 40, 30, 20), false, false, 0},
		{"counting begins anew behind it", timed, ago(120, 110, 100, 40, 30), false, false, 2},
		{"and leads to another", timed, ago(120, 110, 100, 40, 30, 20), true, false, 3},
		{"a failure of a clock that is ahead", three, ago(2, 1, -5), true, false, 3},
		{"7.7 the first delay", delayed, ago(1), false, true, 1},
		{"7.7 is over", delayed, ago(2), false, false, 1},
		{"7.7 it doubles", delayed, ago(20, 3), false, true, 2},
		{"7.7 up to pwdMaxDelay", delayed, ago(50, 40, 30, 20, 9), false, false, 5},
	} {
		p := policyOf(t, c.says...)
		l := p.Lock(c.failures, now)
		if l.Locked != c.locked || now.Before(l.Held) != c.held || len(l.Kept) != c.kept {
			t.Errorf("%s: %+v", c.sentence, l)
		}
	}
}

// TestChange checks the sentences of the draft, 7.8 and 8.2, about changes of a password.
func TestChange(t *testing.T) {
	own := map[string][]string{"uid": {"johndoe"}}
	for _, c := range []struct {
		sentence string
		says     []string
		state    State
		change   Change
		password string
		want     ErrorKind
		ok       bool
	}{
		{"8.2.1 pwdSafeModify without the old one", []string{"pwdSafeModify", "TRUE"}, State{}, Change{}, "x", MustSupplyOld, false},
		{"8.2.1 with it", []string{"pwdSafeModify", "TRUE"}, State{}, Change{OldGiven: true}, "x", 0, true},
		{"8.2.1 by somebody else", []string{"pwdSafeModify", "TRUE"}, State{}, Change{Reset: true}, "x", 0, true},
		{"8.2.3 pwdAllowUserChange FALSE", []string{"pwdAllowUserChange", "FALSE"}, State{}, Change{}, "x", ModNotAllowed, false},
		{"8.2.3 by somebody else", []string{"pwdAllowUserChange", "FALSE"}, State{}, Change{Reset: true}, "x", 0, true},
		{"8.2.4 too young", []string{"pwdMinAge", "10"}, State{Changed: ago(9)[0]}, Change{}, "x", TooYoung, false},
		{"8.2.4 old enough", []string{"pwdMinAge", "10"}, State{Changed: ago(10)[0]}, Change{}, "x", 0, true},
		{"8.2.4 without pwdChangedTime", []string{"pwdMinAge", "10"}, State{}, Change{}, "x", 0, true},
		{"8.2.4 by somebody else", []string{"pwdMinAge", "10"}, State{Changed: ago(9)[0]}, Change{Reset: true}, "x", 0, true},
		{"8.2.1 after a reset, which makes the old one nobody's secret", []string{"pwdSafeModify", "TRUE", "pwdMustChange", "TRUE"}, State{Reset: true}, Change{}, "x", 0, true},
		{"8.2.4 after a reset", []string{"pwdMinAge", "10", "pwdMustChange", "TRUE"}, State{Changed: ago(1)[0], Reset: true}, Change{}, "x", 0, true},
		{"8.2.4 relaxed", []string{"pwdMinAge", "10"}, State{Changed: ago(1)[0]}, Change{Relaxed: true}, "x", 0, true},
		{"8.2.5 too short, in characters", []string{"pwdCheckQuality", "1", "pwdMinLength", "3"}, State{}, Change{}, "äö", TooShort, false},
		{"8.2.5 long enough", []string{"pwdCheckQuality", "1", "pwdMinLength", "3"}, State{}, Change{}, "äöü", 0, true},
		{"8.2.5 pwdCheckQuality 0 does not look", []string{"pwdMinLength", "3"}, State{}, Change{}, "x", 0, true},
		{"8.2.5 too long", []string{"pwdMaxLength", "3"}, State{}, Change{}, "abcd", InsufficientQuality, false},
		{"8.2.5 a hash, pwdCheckQuality 1", []string{"pwdCheckQuality", "1", "pwdMinLength", "30"}, State{}, Change{Hashed: true}, "", 0, true},
		{"8.2.5 a hash, pwdCheckQuality 2", []string{"pwdCheckQuality", "2"}, State{}, Change{Hashed: true}, "", InsufficientQuality, false},
		{"classes", quality("classes 3"), State{}, Change{}, "abC", InsufficientQuality, false},
		{"classes enough", quality("classes 3"), State{}, Change{}, "abC1", 0, true},
		{"repeats", quality("repeats 2"), State{}, Change{}, "xaaay", InsufficientQuality, false},
		{"repeats few", quality("repeats 2"), State{}, Change{}, "xaay", 0, true},
		{"sequence up", quality("sequence 3"), State{}, Change{}, "xabcdx", InsufficientQuality, false},
		{"sequence down", quality("sequence 3"), State{}, Change{}, "x4321", InsufficientQuality, false},
		{"sequence short", quality("sequence 3"), State{}, Change{}, "xabcbx", 0, true},
		{"palindrome", quality("palindrome"), State{}, Change{}, "Abcba", InsufficientQuality, false},
		{"unlike-old", quality("unlike-old 4"), State{}, Change{Candidate: Candidate{Old: "Secret2025"}}, "Secret2026", InsufficientQuality, false},
		{"unlike-old far", quality("unlike-old 4"), State{}, Change{Candidate: Candidate{Old: "Secret2025"}}, "Hidden1999", 0, true},
		{"unlike", quality("unlike uid, cn"), State{}, Change{}, "my-JOHN-1", InsufficientQuality, false},
		{"unlike none", quality("unlike uid, cn"), State{}, Change{}, "my-joh-1", 0, true},
		{"unlisted", quality("unlisted"), State{}, Change{Candidate: Candidate{Listed: listed}}, "known", InsufficientQuality, false},
		{"unlisted and new", quality(" unlisted "), State{}, Change{Candidate: Candidate{Listed: listed}}, "unknown", 0, true},
	} {
		p := policyOf(t, c.says...)
		c.change.Candidate.Password = c.password
		c.change.Candidate.Own = func(a string) []string { return own[a] }
		err := errors.Join(p.MayChange(&c.state, &c.change, now), p.Check(&c.change))
		var refused *Error
		if errors.As(err, &refused) == c.ok || !c.ok && refused.Kind != c.want {
			t.Errorf("%s: %v", c.sentence, err)
		}
		if err != nil && len(c.password) > 2 && strings.Contains(err.Error(), c.password) {
			t.Errorf("%s: the error has the password: %v", c.sentence, err)
		}
	}
}

func listed(password []byte) bool { return string(password) == "known" }

func TestNoList(t *testing.T) {
	c := Change{Candidate: Candidate{Password: "unknown"}}
	if err := policyOf(t, quality("unlisted")...).Check(&c); err != ErrNoList {
		t.Errorf("no list: %v", err)
	}
}

func TestNoStrength(t *testing.T) {
	c := Change{Candidate: Candidate{Password: "unknown"}}
	if err := policyOf(t, quality("strength 1")...).Check(&c); err != ErrNoStrength {
		t.Errorf("nothing judges the strength: %v", err)
	}
}

func quality(demand string) []string { return []string{"pwdCheckQuality", "1", "pwdQuality", demand} }

func TestImpossiblePolicies(t *testing.T) {
	for _, says := range [][]string{
		{"pwdMinAge", "-1"}, {"pwdMaxFailure", "many"}, {"pwdCheckQuality", "3"}, {"pwdLockout", "perhaps"},
		{"pwdMaxAge", "1", "pwdMaxAge", "2"}, {"pwdMinAge", "11", "pwdMaxAge", "10"}, {"pwdExpireWarning", "10", "pwdMaxAge", "10"},
		{"pwdMinLength", "9", "pwdMaxLength", "8"}, {"pwdMinDelay", "5", "pwdMaxDelay", "4"}, {"pwdMinDelay", "5"}, {"pwdMaxDelay", "5"},
		{"pwdLockoutStrict", "TRUE"}, {"pwdIgnoreOld", "3", "pwdInHistory", "2"}, {"pwdQuality", "classes"}, {"pwdQuality", "classes 0"},
		{"pwdQuality", "palindrome 3"}, {"pwdSecondFactor", "blood"}, {"pwdAttribute", "mail"}, {"pwdAllowUserChange", "FALSE", "pwdMustChange", "TRUE"},
	} {
		if _, err := parseOf(says...); err == nil || !strings.Contains(err.Error(), says[0]) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

func TestPasts(t *testing.T) {
	older, newer := NewPast(now.Add(-time.Hour), []byte("{X}a#b")), NewPast(now, []byte("{X}c"))
	all := Pasts([][]byte{older.Stored, []byte("nonsense"), newer.Stored})
	if len(all) != 2 || string(all[0].Hash) != "{X}c" || string(all[1].Hash) != "{X}a#b" || !all[1].Time.Equal(older.Time) {
		t.Errorf("%+v", all)
	}
}

// TestResetAfter checks the draft, 8.2.7: after which changes pwdReset is set.
func TestResetAfter(t *testing.T) {
	must, need := policyOf(t, "pwdMustChange", "TRUE"), policyOf(t)
	for sentence, is := range map[string]bool{
		"8.2.7 pwdMustChange, by somebody else":         must.ResetAfter(&Change{Reset: true}),
		"8.2.7 pwdMustChange, by its owner: not":        !must.ResetAfter(&Change{}),
		"8.2.7 no pwdMustChange, by somebody else: not": !need.ResetAfter(&Change{Reset: true}),
		"8.2.7 no policy: not":                          !(*Policy)(nil).ResetAfter(&Change{Reset: true}),
	} {
		if !is {
			t.Error(sentence)
		}
	}
}

// TestClockJumps checks that no jump of the clock during a lockout prolongs the lock: once
// the clock is right again, the account is locked for at most the time in the policy.
func TestClockJumps(t *testing.T) {
	p := policyOf(t, "pwdLockout", "TRUE", "pwdMaxFailure", "3", "pwdLockoutDuration", "300", "pwdFailureCountInterval", "900")
	failures := ago(3, 2, 1)
	for _, c := range []struct {
		what    string
		at      time.Duration
		refused bool
	}{
		{"just locked", 0, true}, {"at the end", 298 * time.Second, true}, {"behind it", 299 * time.Second, false},
		{"an hour back, while it is locked", -time.Hour, false}, // the clock shows a time before the failures
		{"a year ahead", 365 * 24 * time.Hour, false},
	} {
		lock := p.Lock(failures, now.Add(c.at))
		if got := lock.Refuses(now.Add(c.at)); got != c.refused && c.at >= 0 {
			t.Errorf("%s: refused %v", c.what, got)
		}
		if lock.Locked && lock.Until.After(now.Add(300*time.Second)) {
			t.Errorf("%s: locked until %s", c.what, lock.Until)
		}
	}
	// Failures of a server whose clock is ahead lock the account for the usual time,
	// counted from the times of the failures.
	lock := p.Lock(append(ago(2, 1), now.Add(time.Minute)), now)
	if !lock.Locked || lock.Until != now.Add(6*time.Minute) {
		t.Errorf("a clock that is ahead: %+v", lock)
	}
}

// TestOwnerIsNotKeptOut checks that somebody who goes on guessing does not keep the owner
// of an account out for longer than the policy says. Guesses at a locked account are no
// failures. After a lock, the owner has as many attempts as before.
func TestOwnerIsNotKeptOut(t *testing.T) {
	p := policyOf(t, "pwdLockout", "TRUE", "pwdMaxFailure", "3", "pwdLockoutDuration", "300", "pwdFailureCountInterval", "900")
	var failures []time.Time
	locked, usable := 0, 0
	for second := range 3600 {
		at := now.Add(time.Duration(second) * time.Second)
		lock := p.Lock(failures, at)
		if lock.Refuses(at) {
			locked++
			continue
		}
		usable++
		failures = append(lock.Kept, at) // a guess each second
	}
	if usable != 36 || locked != 3564 { // a lock lasts 300 s from each third guess
		t.Errorf("%d seconds usable, %d locked", usable, locked)
	}
}

// TestCodes checks the test vectors of RFC 6238, appendix B.
func TestCodes(t *testing.T) {
	sha1 := Generator{Secret: []byte("12345678901234567890"), Digits: 8, Period: 30 * time.Second, Algorithm: "SHA1"}
	sha256 := Generator{Secret: []byte("12345678901234567890123456789012"), Digits: 8, Period: 30 * time.Second, Algorithm: "SHA256"}
	sha512 := Generator{Secret: []byte("1234567890123456789012345678901234567890123456789012345678901234"), Digits: 8, Period: 30 * time.Second, Algorithm: "SHA512"}
	for _, c := range []struct {
		g    Generator
		at   int64
		code string
	}{
		{sha1, 59, "94287082"}, {sha256, 59, "46119246"}, {sha512, 59, "90693936"},
		{sha1, 1111111109, "07081804"}, {sha256, 1111111109, "68084774"}, {sha512, 1111111109, "25091201"},
		{sha1, 1111111111, "14050471"}, {sha256, 1111111111, "67062674"}, {sha512, 1111111111, "99943326"},
		{sha1, 1234567890, "89005924"}, {sha256, 1234567890, "91819424"}, {sha512, 1234567890, "93441116"},
		{sha1, 2000000000, "69279037"}, {sha256, 2000000000, "90698825"}, {sha512, 2000000000, "38618901"},
		{sha1, 20000000000, "65353130"}, {sha256, 20000000000, "77737706"}, {sha512, 20000000000, "47863826"},
	} {
		at := time.Unix(c.at, 0)
		step, ok := c.g.Step(c.code, at, -1)
		if !ok || step != c.at/30 {
			t.Errorf("%d: %d, %v", c.at, step, ok)
		}
		if _, ok := c.g.Step(c.code, at, step); ok {
			t.Errorf("%d: a code is good twice", c.at)
		}
		if _, ok := c.g.Step(c.code, at.Add(time.Minute), -1); ok {
			t.Errorf("%d: a code is good for too long", c.at)
		}
	}
}
