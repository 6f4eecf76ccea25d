package integration

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
)

func inBranch(name string) ldap.Control {
	return ldap.NewControlString(control.OIDBranch, true, name)
}

func branchDN(name string) string { return fmt.Sprintf("cn=%s,cn=branches", name) }

// A staging moves money between some accounts of the bank in branches. It does so by two
// updates, between which the sum in the branch is wrong. A merge must show both updates
// at once.
type staging struct {
	*bank
	tally
	branches, clashes atomic.Int64

	leftMu sync.Mutex
	left   []string // branches that may still exist, because an add or a delete of them failed
}

// transfer makes a branch, moves money in it, and merges or discards it. If a client has
// left a branch behind, transfer first discards that branch.
func (s *staging) transfer(c *ldap.Conn, r *rand.Rand) bool {
	if name := s.takeLeft(); name != "" && !s.discard(c, name) {
		return false
	}
	name := fmt.Sprintf("b%d", s.branches.Add(1))
	add := ldap.NewAddRequest(branchDN(name), nil)
	add.Attribute("objectClass", []string{"branch"})
	if err := c.Add(add); err != nil {
		going := s.count(&s.tally, err, ldap.LDAPResultEntryAlreadyExists)
		if !going {
			s.leave(name) // the branch may exist
		}
		return going
	}
	err := s.move(c, r, name)
	if err == nil && r.IntN(4) > 0 {
		m := ldap.NewModifyRequest(branchDN(name), nil)
		m.Replace("branchState", []string{"merged"})
		if err = c.Modify(m); err == nil {
			s.bank.mu.Lock()
			s.bank.times = append(s.bank.times, time.Now())
			s.bank.mu.Unlock()
			return s.count(&s.tally, nil)
		}
	}
	if code(err) == ldap.LDAPResultAssertionFailed {
		s.clashes.Add(1)
	}
	going := s.count(&s.tally, err, ldap.LDAPResultAssertionFailed, ldap.LDAPResultNoSuchObject)
	return s.discard(c, name) && going
}

// discard discards a branch. The branch may be gone already. discard reports whether the
// connection can still be used.
func (s *staging) discard(c *ldap.Conn, name string) bool {
	err := c.Del(ldap.NewDelRequest(branchDN(name), nil))
	if err != nil && code(err) != ldap.LDAPResultNoSuchObject {
		s.leave(name)
	}
	return s.count(&tally{}, err, ldap.LDAPResultNoSuchObject)
}

func (s *staging) leave(name string) {
	s.leftMu.Lock()
	defer s.leftMu.Unlock()
	s.left = append(s.left, name)
}

func (s *staging) takeLeft() (name string) {
	s.leftMu.Lock()
	defer s.leftMu.Unlock()
	if len(s.left) > 0 {
		name, s.left = s.left[0], s.left[1:]
	}
	return name
}

// move moves money in a branch and reads the branch's sum.
func (s *staging) move(c *ldap.Conn, r *rand.Rand, branch string) error {
	amount := r.IntN(20)
	for _, by := range []int{amount, -amount} {
		m := ldap.NewModifyRequest(accountDN(bankAccounts+r.IntN(stagedAccounts)), []ldap.Control{inBranch(branch)})
		m.Increment("uidNumber", strconv.Itoa(by))
		if err := c.Modify(m); err != nil {
			return err
		}
	}
	return s.sum(c, inBranch(branch))
}
