package integration

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// TestTakeOver checks that the undecided commits of a killed server delay other servers only
// until the lease of the killed server has ended. A slow machine may need as much again, or more.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	store := storeKinds[1].make(t)
	importInto(t, store, example)
	const lease = 3 * time.Second
	first := serve(t, store, "--lease", lease.String())
	second := serve(t, store, "--lease", lease.String())
	awaitWriter(t, first)
	awaitWriter(t, second)
	m := &counting{t: t}
	m.prepare(first, second)
	var g sync.WaitGroup
	for range 4 {
		c := first.admin()
		g.Go(func() {
			for m.increment(c) == nil {
			}
		})
	}
	eventually(t, "clients write", atLeast(&m.count, 20))
	first.kill()
	died := time.Now()
	g.Wait()
	if err := m.increment(second.admin()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(died)
	if took > 4*lease {
		t.Errorf("a write of another server was held up for %v", took)
	}
	t.Logf("a write of another server got through %v after the kill", took.Round(time.Millisecond))
	m.check(second)
	wantLeadingClock(t, store)
	second.stop()
	checkStore(t, store)
}

// wantLeadingClock checks a server whose clock is ahead of the store's clock: it must
// serve reads, refuse writes, and report why.
func wantLeadingClock(t *testing.T, store string) {
	t.Helper()
	p := serve(t, store, "--drift", "2s", "--test-clock", "1h", "--status-listen", "http://127.0.0.1:0")
	wantHealth(t, p, "with a clock that leads", 200, 200, 503)
	wantReason(t, p, "/ready?for=writes", "clock")
	p.stop()
}

// The type counting is a counter, in one attribute, that many clients increment.
type counting struct {
	t       *testing.T
	count   atomic.Int64 // number of acknowledged increments
	unknown atomic.Int64 // number of increments whose outcome is unknown
}

const counterDN = "cn=counter," + suffix

// prepare makes the counter at one server, and waits until the other server shows the
// counter.
func (m *counting) prepare(one, other *process) {
	r := ldap.NewAddRequest(counterDN, nil)
	r.Attribute("objectClass", []string{"device", "uidObject", "extensibleObject"})
	r.Attribute("uid", []string{"counter"})
	r.Attribute("uidNumber", []string{"0"})
	c := one.admin()
	if err := persist(func() error { return c.Add(r) }); err != nil {
		m.t.Fatal(err)
	}
	c = other.admin()
	eventually(m.t, "the other server shows what is prepared", func() error {
		_, err := searchDN(c, counterDN, ldap.ScopeBaseObject, "(objectClass=*)")
		return err
	})
}

// increment increments the counter by one. It tries again while the server is busy or has no
// slot. On a busy machine a server may lose its slot because it could not renew its lease in
// time.
func (m *counting) increment(c *ldap.Conn) error {
	for {
		r := ldap.NewModifyRequest(counterDN, nil)
		r.Increment("uidNumber", "1")
		err := c.Modify(r)
		switch code(err) {
		case ldap.LDAPResultSuccess:
			m.count.Add(1)
			return nil
		case ldap.LDAPResultBusy, ldap.LDAPResultUnavailable:
			continue
		case -1, ldap.LDAPResultOther:
			m.unknown.Add(1)
			return err
		}
		m.t.Errorf("increment: %v", err)
		return err
	}
}

// check compares the counter with the numbers of acknowledged and unknown increments.
func (m *counting) check(p *process) {
	r, err := p.admin().Search(ldap.NewSearchRequest(counterDN, ldap.ScopeBaseObject, 0, 0, 0, false, "(objectClass=*)", []string{"uidNumber"}, nil))
	if err != nil {
		m.t.Fatal(err)
	}
	got, _ := strconv.Atoi(r.Entries[0].GetAttributeValue("uidNumber"))
	if n, maybe := int(m.count.Load()), int(m.unknown.Load()); got < n || got > n+maybe {
		m.t.Errorf("the counter is %d; %d increments were acknowledged, %d more may have been made", got, n, maybe)
	}
}
