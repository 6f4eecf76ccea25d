package integration

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

const (
	attackedDN      = "uid=attacked,ou=accounts," + suffix
	besideDN        = "uid=beside,ou=accounts," + suffix
	attackedFailure = 3
	attackedLock    = 2 * time.Second
)

// newAttacked loads two accounts under a policy that lets the server report locks, and returns
// the store.
func newAttacked(t *testing.T) string {
	store := storeKinds[0].make(t)
	text := fmt.Sprintf("dn: ou=accounts,%s\nobjectClass: organizationalUnit\n\n"+
		"dn: cn=policy,ou=accounts,%[1]s\nobjectClass: subentry\nobjectClass: pwdPolicy\nsubtreeSpecification: {}\npwdAttribute: userPassword\n"+
		"pwdLockout: TRUE\npwdMaxFailure: %d\npwdLockoutDuration: %d\npwdFailureCountInterval: 600\npwdTell: TRUE\n\n", suffix, attackedFailure, attackedLock/time.Second)
	for _, name := range []string{attackedDN, besideDN} {
		text += fmt.Sprintf("dn: %s\nobjectClass: account\nobjectClass: simpleSecurityObject\nuserPassword: %s\n\n", name, lockoutPassword)
	}
	importInto(t, store, example, writeIn(t, t.TempDir(), "accounts.ldif", text))
	return store
}

// guessUntilLocked guesses until the account is locked, and returns how many guesses were
// verified.
func guessUntilLocked(t *testing.T, c *ldap.Conn) (verified int) {
	t.Helper()
	for {
		switch got := bindAs(c, attackedDN, "wrong"); got {
		case wrong:
			if verified++; verified > attackedFailure {
				t.Fatalf("%d guesses were verified, %d may be", verified, attackedFailure)
			}
		case locked:
			return verified
		default:
			t.Fatalf("a guess: outcome %d", got)
		}
	}
}

// awaitOwner binds with the right password until the bind succeeds, and returns how long
// that took.
func awaitOwner(t *testing.T, c *ldap.Conn) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		switch got := bindAs(c, attackedDN, lockoutPassword); got {
		case accepted:
			return time.Since(begun)
		case locked:
		default:
			t.Fatalf("the right password: outcome %d", got)
		}
		if time.Since(begun) > patience {
			t.Fatal("the owner is kept out")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestLockWhenTheClockIsSetBack locks an account at a server whose clock is half an hour
// ahead. After the clock has been set back, the owner must be able to bind after the
// lock's duration in the policy, and not only after half an hour. Guesses must then lock
// the account as before, although all commits still have times of the wrong clock.
func TestLockWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	store := newAttacked(t)
	p := serve(t, store, "--test-clock", "30m")
	guessUntilLocked(t, p.connect("", ""))
	p.stop()
	p = serve(t, store)
	c := p.connect("", "")
	t.Logf("after the clock was set back the owner was let in after %v, the lock lasts for %v", awaitOwner(t, c).Round(time.Millisecond), attackedLock)
	for range 2 {
		if n := guessUntilLocked(t, c); n != attackedFailure {
			t.Errorf("locked after %d guesses, want %d", n, attackedFailure)
		}
		awaitOwner(t, c)
	}
	p.stop()
	checkStore(t, store)
}

// TestLockedByItsAttacker makes several clients guess at one account without pause. A
// guess at a locked account must not prolong the lock. Sessions of the owner must
// continue, and binds to another account must never be refused. When the guesses stop,
// the owner must be able to bind after the duration of one lock.
func TestLockedByItsAttacker(t *testing.T) {
	t.Parallel()
	p := serve(t, newAttacked(t))
	session, admin := p.connect(attackedDN, lockoutPassword), p.admin()
	var all sync.WaitGroup
	var stopped atomic.Bool
	var guesses, verified atomic.Int64
	begun := time.Now()
	for range 4 {
		c := p.connect("", "")
		all.Go(func() {
			for !stopped.Load() {
				if bindAs(c, attackedDN, "wrong") == wrong {
					verified.Add(1)
				}
				guesses.Add(1)
			}
		})
	}
	beside := p.connect("", "")
	ends := map[string]bool{}
	for time.Since(begun) < 3*attackedLock {
		if _, err := searchDN(session, attackedDN, ldap.ScopeBaseObject, "(objectClass=*)"); err != nil {
			t.Fatalf("the owner's session: %v", err)
		}
		if got := bindAs(beside, besideDN, lockoutPassword); got != accepted {
			t.Fatalf("another account: outcome %d", got)
		}
		if end := lockoutEnd(t, admin); end != "" {
			ends[end] = true
		}
	}
	stopped.Store(true)
	all.Wait()
	locks := int(time.Since(begun)/attackedLock) + 1
	waited := awaitOwner(t, beside)
	t.Logf("%d guesses, of which %d were verified; %d locks seen; the owner was let in %v after the last guess", guesses.Load(), verified.Load(), len(ends), waited.Round(time.Millisecond))
	if n := int(verified.Load()); n < attackedFailure || n > locks*attackedFailure || len(ends) == 0 || len(ends) > locks {
		t.Errorf("%d guesses were verified and the lock ended at %d times, with time for %d locks", n, len(ends), locks)
	}
	if end := lockoutEnd(t, admin); end != "" {
		t.Errorf("after the owner's login the lock still ends at %s", end)
	}
}

// lockoutEnd returns the end of the account's lock, or "" if the account is not locked.
func lockoutEnd(t *testing.T, c *ldap.Conn) string {
	t.Helper()
	res, err := c.Search(ldap.NewSearchRequest(attackedDN, ldap.ScopeBaseObject, 0, 0, 0, false, "(objectClass=*)", []string{"pwdAccountTmpLockoutEnd"}, nil))
	if err != nil || len(res.Entries) != 1 {
		t.Fatal(err)
	}
	return res.Entries[0].GetAttributeValue("pwdAccountTmpLockoutEnd")
}
