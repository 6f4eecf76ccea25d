package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

var lockoutTime = flag.Duration("lockout", 6*time.Second, "how long clients of TestLockoutOnHBase guess passwords while servers are killed")

const (
	lockoutFailures = 5 // pwdMaxFailure
	lockoutAccounts = 2000
	lockoutMixed    = 3
	lockoutClients  = 3 * servers
	lockoutPassword = "right"
)

// guessing has accounts whose passwords are guessed at three servers at the same time.
// The policy lets the servers report locks, so that a client knows whether a guess was
// verified or refused without verification.
type guessing struct {
	*fleet
	kinds [2]guessed // accounts whose policy has pwdLockoutStrict FALSE, and TRUE
	right atomic.Int64
}

// guessed counts the guesses at accounts of one kind.
type guessed struct {
	unit  string
	bound int64 // largest number of guesses at an account that may be verified
	mu    sync.Mutex
	next  [lockoutClients]int    // the account that each client guesses at
	count [lockoutAccounts]int64 // number of verified guesses at each account
}

// TestLockoutOnHBase guesses passwords of many accounts at three servers on HBase, by many
// clients side by side, while servers are killed. With S servers, at most pwdMaxFailure + S - 1
// guesses at an account may be verified, or pwdMaxFailure if pwdLockoutStrict is set. A right
// password may be refused only if the account is locked, and unlocking must work.
func TestLockoutOnHBase(t *testing.T) {
	t.Parallel()
	store := storeKinds[1].make(t)
	importInto(t, store, example, guessedEntries(t))
	x := &guessing{fleet: newFleet(t, store)}
	x.kinds[0].unit, x.kinds[0].bound = "ou=loose,"+suffix, lockoutFailures+servers-1
	x.kinds[1].unit, x.kinds[1].bound = "ou=strict,"+suffix, lockoutFailures
	var clients []func()
	for n := range lockoutClients {
		clients = append(clients, x.client(n, func(c *ldap.Conn, r *rand.Rand) bool {
			if r.IntN(4) == 0 {
				return x.mixed(c, r)
			}
			return x.kinds[n/servers%2].guess(x, c, n)
		}))
	}
	x.disturb(*lockoutTime, 2*historiesLease, x.enough, clients...)
	for i := range x.kinds {
		x.unlock(&x.kinds[i])
	}
	t.Logf("%d right passwords were accepted", x.right.Load())
	x.end()
}

// enough reports whether a right password was accepted and accounts of both kinds were locked.
func (x *guessing) enough() bool {
	for i := range x.kinds {
		g := &x.kinds[i]
		g.mu.Lock()
		locked := slices.Max(g.next[:])
		g.mu.Unlock()
		if locked == 0 {
			return false
		}
	}
	return x.right.Load() > 0
}

// guessedEntries writes an LDIF file of the accounts and their policies.
func guessedEntries(t *testing.T) string {
	var s strings.Builder
	for _, unit := range []string{"loose", "strict", "mixed"} {
		accounts := lockoutAccounts
		if unit == "mixed" {
			accounts = lockoutMixed
		}
		fmt.Fprintf(&s, "dn: ou=%s,%s\nobjectClass: organizationalUnit\n\n", unit, suffix)
		fmt.Fprintf(&s, "dn: cn=policy,ou=%s,%s\nobjectClass: subentry\nobjectClass: pwdPolicy\nsubtreeSpecification: {}\npwdAttribute: userPassword\n", unit, suffix)
		fmt.Fprintf(&s, "pwdLockout: TRUE\npwdMaxFailure: %d\npwdTell: TRUE\npwdLockoutStrict: %s\n\n", lockoutFailures, strings.ToUpper(fmt.Sprint(unit == "strict")))
		for n := range accounts {
			fmt.Fprintf(&s, "dn: uid=%d,ou=%s,%s\nobjectClass: account\nobjectClass: simpleSecurityObject\nuserPassword: %s\n\n", n, unit, suffix, lockoutPassword)
		}
	}
	file := filepath.Join(t.TempDir(), "accounts.ldif")
	if err := os.WriteFile(file, []byte(s.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// An attempt is the outcome of a bind.
type attempt int

const (
	unanswered attempt = iota // no verdict, for example because the server was killed
	accepted
	wrong
	locked
)

// bindAs binds with a password and returns the outcome as the password policy control
// reports it.
func bindAs(c *ldap.Conn, name, password string) attempt {
	res, err := c.SimpleBind(ldap.NewSimpleBindRequest(name, password, []ldap.Control{ldap.NewControlBeheraPasswordPolicy()}))
	switch {
	case err == nil:
		return accepted
	case !ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials) || res == nil:
		return unanswered
	}
	for _, ctl := range res.Controls {
		if p, is := ctl.(*ldap.ControlBeheraPasswordPolicy); is && p.Error == 1 { // accountLocked
			return locked
		}
	}
	return wrong
}

// verdict binds like bindAs. While the server answers that it is unavailable, verdict tries again.
func verdict(c *ldap.Conn, name, password string) (got attempt) {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if got = bindAs(c, name, password); got != unanswered || time.Now().After(end) {
			return got
		}
	}
}

// guess guesses once at the client's account. If that account is locked, the client
// continues with the next account.
func (g *guessed) guess(x *guessing, c *ldap.Conn, client int) bool {
	g.mu.Lock()
	account := g.next[client] % lockoutAccounts
	g.mu.Unlock()
	got := bindAs(c, fmt.Sprintf("uid=%d,%s", account, g.unit), "wrong")
	g.mu.Lock()
	defer g.mu.Unlock()
	switch got {
	case wrong:
		if g.count[account]++; g.count[account] > g.bound {
			x.t.Errorf("account %d of %s: %d guesses were verified, more than %d", account, g.unit, g.count[account], g.bound)
		}
	case locked:
		g.next[client]++
	case accepted:
		x.t.Errorf("account %d of %s: a wrong password was accepted", account, g.unit)
	}
	return got != unanswered
}

// mixed binds with a right or a wrong password to an account that all clients share. If
// the account is locked, mixed may unlock it.
func (x *guessing) mixed(c *ldap.Conn, r *rand.Rand) bool {
	name, password := fmt.Sprintf("uid=%d,ou=mixed,%s", r.IntN(lockoutMixed), suffix), lockoutPassword
	if r.IntN(2) == 0 {
		password = "wrong"
	}
	got := bindAs(c, name, password)
	switch {
	case got == accepted && password == "wrong":
		x.t.Errorf("%s: a wrong password was accepted", name)
	case got == wrong && password == lockoutPassword:
		x.t.Errorf("%s: the right password was refused, and the account was not locked", name)
	case got == accepted:
		x.right.Add(1)
	case got == locked && r.IntN(4) == 0:
		return unlock(c, name) == nil
	}
	return got != unanswered
}

func unlock(c *ldap.Conn, name string) error {
	if err := c.Bind(adminDN, adminPassword); err != nil {
		return err
	}
	m := ldap.NewModifyRequest(name, nil)
	m.Replace("pwdAccountLockedTime", nil)
	return persist(func() error { return c.Modify(m) })
}

// unlock checks that every server refuses the right passwords of a few locked accounts, and
// accepts them once the accounts are unlocked.
func (x *guessing) unlock(g *guessed) {
	done := min(slices.Max(g.next[:]), lockoutAccounts)
	most, checked := slices.Max(g.count[:]), 0
	for account := max(0, done-3); account < done; account++ {
		name := fmt.Sprintf("uid=%d,%s", account, g.unit)
		for i := range x.seats {
			c := x.seats[i].process().admin()
			got := verdict(c, name, lockoutPassword)
			// Without pwdLockoutStrict, a server that could not write a failure said so, and locked the account alone.
			if loose := g.bound > lockoutFailures; got != locked && !(loose && got == accepted && x.logged("this server alone remembers it")) {
				x.t.Errorf("%s, locked, the right password at server %d: outcome %d", name, i, got)
			}
			c.Close()
		}
		c := x.seats[account%servers].process().admin()
		if err := unlock(c, name); err != nil {
			x.t.Errorf("unlock %s: %v", name, err)
		}
		c.Close()
		for i := range x.seats {
			c := x.seats[(account+i)%servers].process().admin()
			x.awaitUnlocked(c, name)
			c.Close()
		}
		checked++
	}
	x.t.Logf("%s: %d accounts were locked; at most %d guesses at one were verified, %d may be", g.unit, done, most, g.bound)
	if checked == 0 {
		x.t.Errorf("%s: no account was locked", g.unit)
	}
}

// awaitUnlocked waits until a server shows an unlock, which may have been made at another
// server.
func (x *guessing) awaitUnlocked(c *ldap.Conn, name string) {
	eventually(x.t, name+", unlocked, the right password is accepted", func() error {
		switch got := bindAs(c, name, lockoutPassword); got {
		case accepted:
			return nil
		case wrong:
			x.t.Errorf("%s, unlocked: the right password was refused, and the account was not locked", name)
			return nil
		default:
			return fmt.Errorf("outcome %d", got)
		}
	})
}
