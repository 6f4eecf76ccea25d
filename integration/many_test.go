package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// TestManyServers has three servers write one store on HBase at once: they count
// in one attribute, fill one group, race for names, add below what others delete
// and move subtrees; one of them is killed meanwhile. Nothing that was
// acknowledged may be lost, nothing be there twice.
func TestManyServers(t *testing.T) {
	store := storeKinds[1].make(t)
	load(t, store, example)
	m := &many{t: t}
	for range 3 {
		p := serve(t, store, "--lease", "3s")
		awaitWriter(t, p)
		m.servers = append(m.servers, p)
	}
	m.prepare()
	const clients, rounds = 9, 8
	var g sync.WaitGroup
	for n := range clients {
		g.Go(func() { m.client(n, rounds) })
	}
	g.Go(func() {
		eventually(t, "the clients are at work", atLeast(&m.acked, 40))
		m.servers[2].kill()
	})
	g.Wait()
	m.check(m.servers[0])
	m.servers[0].stop()
	m.servers[1].stop()
	checkStore(t, store)
}

type many struct {
	t       *testing.T
	servers []*process

	acked   atomic.Int64
	count   atomic.Int64 // acknowledged increments
	unknown atomic.Int64 // of increments: their server was killed
	names   atomic.Int64 // won in races

	mu      sync.Mutex
	members map[string]bool // whether the group surely has them
}

const (
	manyDN    = "ou=many," + suffix
	counterDN = "cn=counter," + manyDN
	groupDN   = "cn=members," + manyDN
)

func (m *many) prepare() {
	m.members = map[string]bool{}
	c := m.servers[0].admin()
	for _, dn := range []string{manyDN, "ou=left," + manyDN, "ou=right," + manyDN, "ou=moved,ou=left," + manyDN} {
		r := ldap.NewAddRequest(dn, nil)
		r.Attribute("objectClass", []string{"organizationalUnit"})
		if err := c.Add(r); err != nil {
			m.t.Fatal(err)
		}
	}
	r := ldap.NewAddRequest(counterDN, nil)
	r.Attribute("objectClass", []string{"device", "uidObject", "extensibleObject"})
	r.Attribute("uid", []string{"counter"})
	r.Attribute("uidNumber", []string{"0"})
	if err := c.Add(r); err != nil {
		m.t.Fatal(err)
	}
	r = ldap.NewAddRequest(groupDN, nil)
	r.Attribute("objectClass", []string{"groupOfNames"})
	r.Attribute("member", []string{"cn=nobody"})
	if err := c.Add(r); err != nil {
		m.t.Fatal(err)
	}
	for _, p := range m.servers {
		other := p.admin()
		eventually(m.t, "every server shows what is prepared", func() error {
			_, err := searchDN(other, groupDN, ldap.ScopeBaseObject, "(objectClass=*)")
			return err
		})
	}
}

// client works at one server after the other, as those of a killed one do.
func (m *many) client(n, rounds int) {
	at := n % len(m.servers)
	var c *ldap.Conn
	for round := 0; round < rounds; {
		if c == nil {
			var err error
			if c, err = dial(m.servers[at].url(), adminDN, adminPassword); err != nil {
				c = nil
				at = (at + 1) % len(m.servers)
				continue
			}
		}
		if !m.round(c, n, round) {
			c.Close()
			c = nil
			at = (at + 1) % len(m.servers)
		}
		round++
	}
	if c != nil {
		c.Close()
	}
}

// round does one of each; false: the server is gone.
func (m *many) round(c *ldap.Conn, n, round int) bool {
	steps := []func(*ldap.Conn, int, int) error{m.increment, m.join, m.race, m.swapParents, m.move}
	rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		err := step(c, n, round)
		switch code(err) {
		case ldap.LDAPResultSuccess:
			m.acked.Add(1)
		case -1:
			return false
		}
	}
	return true
}

// increment counts by one; which one of all that try at once is first is up to
// the servers.
func (m *many) increment(c *ldap.Conn, _, _ int) error {
	for {
		r := ldap.NewModifyRequest(counterDN, nil)
		r.Increment("uidNumber", "1")
		err := c.Modify(r)
		switch code(err) {
		case ldap.LDAPResultSuccess:
			m.count.Add(1)
			return nil
		case ldap.LDAPResultBusy:
			continue
		case -1, ldap.LDAPResultOther:
			m.unknown.Add(1)
			return err
		}
		m.t.Errorf("increment: %v", err)
		return err
	}
}

// join adds a member of its own to the group that all fill: that conflicts with
// nobody.
func (m *many) join(c *ldap.Conn, n, round int) error {
	name := fmt.Sprintf("cn=member %d of %d", round, n)
	r := ldap.NewModifyRequest(groupDN, nil)
	r.Add("member", []string{name})
	err := c.Modify(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members[name] = err == nil
	if err != nil && code(err) != -1 && code(err) != ldap.LDAPResultOther {
		m.t.Errorf("join: %v", err)
	}
	return err
}

// race adds an entry that others add at the same time.
func (m *many) race(c *ldap.Conn, _, round int) error {
	r := ldap.NewAddRequest(fmt.Sprintf("ou=race %d,%s", round, manyDN), nil)
	r.Attribute("objectClass", []string{"organizationalUnit"})
	err := c.Add(r)
	switch code(err) {
	case ldap.LDAPResultSuccess:
		m.names.Add(1)
	case ldap.LDAPResultEntryAlreadyExists, ldap.LDAPResultBusy, ldap.LDAPResultOther, -1:
	default:
		m.t.Errorf("race: %v", err)
	}
	return err
}

// swapParents adds a child below an entry that others add and delete.
func (m *many) swapParents(c *ldap.Conn, n, round int) error {
	parent := fmt.Sprintf("ou=parent %d,%s", round%3, manyDN)
	child := fmt.Sprintf("ou=child %d,%s", n, parent)
	var err error
	for _, dn := range []string{parent, child} {
		r := ldap.NewAddRequest(dn, nil)
		r.Attribute("objectClass", []string{"organizationalUnit"})
		err = errors.Join(err, c.Add(r))
	}
	for _, dn := range []string{child, parent} {
		err = errors.Join(err, c.Del(ldap.NewDelRequest(dn, nil)))
	}
	return gone(err)
}

// gone leaves of an error only that the server is.
func gone(err error) error {
	if err == nil || code(err) == -1 {
		return err
	}
	return nil
}

// move moves a subtree to and fro.
func (m *many) move(c *ldap.Conn, _, round int) error {
	from, to := "ou=left,"+manyDN, "ou=right,"+manyDN
	if round%2 == 1 {
		from, to = to, from
	}
	return gone(c.ModifyDN(ldap.NewModifyDNRequest("ou=moved,"+from, "ou=moved", true, to)))
}

func (m *many) check(p *process) {
	t := m.t
	c := p.admin()
	r, err := c.Search(ldap.NewSearchRequest(counterDN, ldap.ScopeBaseObject, 0, 0, 0, false, "(objectClass=*)", []string{"uidNumber"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := strconv.Atoi(r.Entries[0].GetAttributeValue("uidNumber"))
	if n, maybe := int(m.count.Load()), int(m.unknown.Load()); got < n || got > n+maybe {
		t.Errorf("the counter is %d; %d increments were acknowledged, %d more may have been made", got, n, maybe)
	}
	r, err = c.Search(ldap.NewSearchRequest(groupDN, ldap.ScopeBaseObject, 0, 0, 0, false, "(objectClass=*)", []string{"member"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	members := r.Entries[0].GetAttributeValues("member")
	for name, sure := range m.members {
		if sure && !slices.Contains(members, name) {
			t.Errorf("%s was added to the group and is not in it", name)
		}
	}
	slices.Sort(members)
	if all := len(members); len(slices.Compact(members)) != all {
		t.Error("a member is in the group twice")
	}
	names, err := searchDN(c, manyDN, ldap.ScopeSingleLevel, "(ou=race *)")
	if err != nil {
		t.Fatal(err)
	}
	if won := int(m.names.Load()); won > len(names) {
		t.Errorf("%d adds of %d names succeeded", won, len(names))
	}
	if moved, err := searchDN(c, manyDN, ldap.ScopeWholeSubtree, "(ou=moved)"); err != nil || len(moved) != 1 {
		t.Errorf("the moved subtree is at %q (%v)", moved, err)
	}
	t.Logf("%d increments, %d members, %d operations; the last second of a killed server cost %d answers",
		m.count.Load(), len(members), m.acked.Load(), m.unknown.Load())
}

// TestTakeOver: after a server is killed nobody waits longer than its lease and a
// little for what it left undecided.
func TestTakeOver(t *testing.T) {
	store := storeKinds[1].make(t)
	load(t, store, example)
	const lease = 3 * time.Second
	first := serve(t, store, "--lease", lease.String())
	second := serve(t, store, "--lease", lease.String())
	awaitWriter(t, first)
	awaitWriter(t, second)
	m := &many{t: t, servers: []*process{first, second}}
	m.prepare()
	var g sync.WaitGroup
	for range 4 {
		c := first.admin()
		g.Go(func() {
			for m.increment(c, 0, 0) == nil {
			}
		})
	}
	eventually(t, "clients write", atLeast(&m.count, 20))
	first.kill()
	died := time.Now()
	g.Wait()
	if err := m.increment(second.admin(), 0, 0); err != nil {
		t.Fatal(err)
	}
	took := time.Since(died)
	if took > lease+2*time.Second {
		t.Errorf("a write of another server was held up for %v", took)
	}
	t.Logf("a write of another server got through %v after the kill", took.Round(time.Millisecond))
	m.check(second)
	second.stop()
	checkStore(t, store)
}
