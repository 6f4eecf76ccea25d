package auth

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestCostByLength checks for every scheme that no more of a password is hashed than the scheme's
// limit, that a password beyond the limit never fits, and that the longest password has a bounded
// cost. The time is a hundred times the usual one.
func TestCostByLength(t *testing.T) {
	p := New(1, nil)
	for _, v := range append(samples(t), "{CLEARTEXT}"+strings.Repeat("x", 100_000), strings.Repeat("x", 100_000)) {
		s, rest := parse([]byte(v))
		most := map[bool]int{true: 512, false: 4096}[s.name == "CRYPT"]
		var hashed []int
		verify := s.verify
		s.verify = func(s *scheme, stored, password []byte) (bool, error) {
			hashed = append(hashed, len(password))
			return verify(s, stored, password)
		}
		begun := time.Now()
		for _, n := range []int{most, most + 1, 100_000} {
			if ok, err := p.Verify(t.Context(), NoChannel{}, []byte(v), bytes.Repeat([]byte("x"), n)); ok || err != nil {
				t.Errorf("%.30s fits %d octets: %v, %v", v, n, ok, err)
			}
		}
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("%.30s took %v", v, d)
		}
		s.verify = func(*scheme, []byte, []byte) (bool, error) { return true, nil }
		for n, want := range map[int]bool{most: true, most + 1: false} {
			if ok, err := s.check(rest, make([]byte, n)); ok != want || err != nil {
				t.Errorf("{%s} with %d octets: %v, %v", s.name, n, ok, err)
			}
		}
		s.verify = verify
		for _, n := range hashed {
			if n != most {
				t.Errorf("%.30s: %d octets were hashed", v, n)
			}
		}
	}
}

// TestNewPasswordsAreBounded checks that no password beyond the limit is hashed, in any scheme.
func TestNewPasswordsAreBounded(t *testing.T) {
	p := New(1, nil)
	long := bytes.Repeat([]byte("x"), MaxPassword+1)
	for _, name := range NewSchemes() {
		if _, err := p.Hash(t.Context(), NoChannel{}, name, long); !errors.Is(err, ErrLong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.ScramKeys(t.Context(), NoChannel{}, Mechanisms, long); !errors.Is(err, ErrLong) {
		t.Errorf("SCRAM: %v", err)
	}
}

// TestCostlyValues checks that stored values that ask for much work are not verified.
func TestCostlyValues(t *testing.T) {
	const salt, key = "c2FsdHNhbHQ", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	crypt := func(setting string, n int) string {
		return "{CRYPT}" + setting + "saltsalt$" + strings.Repeat(".", n)
	}
	for v, costly := range map[string]bool{
		crypt("$5$rounds=1000000$", 43):                  false,
		crypt("$5$rounds=1000001$", 43):                  true,
		crypt("$6$rounds=999999999$", 86):                true,
		crypt("$6$rounds=99999999999999999999999$", 86):  true,
		crypt("$sha1$1000001$", 28):                      true,
		crypt("$y$jCT$", 43):                             false,
		crypt("$y$jDT$", 43):                             true,
		crypt("$y$jCU$", 43):                             true,
		crypt("$y$jzzzzz$", 43):                          true,
		"{CRYPT}$2b$16$" + strings.Repeat(".", 53):       false,
		"{CRYPT}$2b$17$" + strings.Repeat(".", 53):       true,
		"{BCRYPT}$2b$31$" + strings.Repeat(".", 53):      true,
		"{PBKDF2-SHA256}10000000$" + salt + "$" + key:    false,
		"{PBKDF2-SHA256}10000001$" + salt + "$" + key:    true,
		"{PBKDF2_SHA256}" + encode389(1_250_000):         false,
		"{PBKDF2_SHA256}" + encode389(1_250_001):         true,
		"{PBKDF2_SHA256}" + encode389(1<<32-1):           true,
		"{ARGON2}" + argonText(1<<20, 4):                 false,
		"{ARGON2}" + argonText(1<<20, 5):                 true,
		"{ARGON2}" + argonText(1<<20+1, 1):               true,
		"{ARGON2}" + argonText(64, 4294967295):           true,
		"{ARGON2}" + argonText(4294967295, 4294967295):   true,
		"{SSHA}not base64 at all":                        false,
		"{CRYPT}$6$rounds=999999999$salt$much too short": false,
	} {
		if got := TooCostly([]byte(v)); got != costly {
			t.Errorf("%.60s costly: %v", v, got)
		}
		if !costly {
			continue
		}
		if _, usable := Usable([]byte(v)); usable {
			t.Errorf("%.60s is usable", v)
		}
		if ok, err := New(1, nil).Verify(t.Context(), NoChannel{}, []byte(v), []byte("x")); ok || !errors.Is(err, ErrCost) || !errors.Is(err, ErrScheme) {
			t.Errorf("%.60s: %v, %v", v, ok, err)
		}
	}
}

func encode389(rounds uint32) string {
	raw := make([]byte, 4+64+256)
	binary.BigEndian.PutUint32(raw, rounds)
	return toAB64(raw)
}

func argonText(memory, passes uint32) string {
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA", memory, passes)
}

// TestEndedContext checks that nothing is hashed for a client that is gone.
func TestEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(1, nil).Hash(ctx, NoChannel{}, "", []byte("secret")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
