package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

// kills is the number of times that TestKill kills a server on each engine. The number is
// smaller on HBase, because there the test waits until the lease of each killed server has
// ended.
var kills = map[string]*int{
	"lsm":   flag.Int("kills", 10, "times that TestKill kills a server on the embedded engine"),
	"hbase": flag.Int("hbasekills", 3, "times that TestKill kills a server on HBase"),
}

// TestKill repeatedly kills a server with SIGKILL while clients write on four connections. All
// servers use one store. After every restart, each entry must be as its last acknowledged
// operation left it, or as the operation in progress would have left it. Each entry must be
// complete, and must exist under one name only. ldapd check must find no fault.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, kind := range storeKinds {
		t.Run(kind.name, func(t *testing.T) {
			store := kind.make(t)
			importInto(t, store, example)
			crowd := &crowd{}
			for round := range *kills[kind.name] {
				p := serve(t, store, "--lease", "2s")
				crowd.recovered(t, p)
				crowd.write(t, p, round, 20+rand.IntN(60))
				checkStore(t, store)
			}
			p := serve(t, store, "--lease", "2s")
			crowd.recovered(t, p)
			p.stop()
			checkStore(t, store)
			t.Logf("%d people; %d operations were not acknowledged and stand", len(crowd.people), crowd.landed)
		})
	}
}

// checkStore runs ldapd check, which must find no fault.
func checkStore(t *testing.T, store string) {
	t.Helper()
	if out, status := ldapdRun(t, "check", "--store", store); status != 0 {
		t.Fatalf("ldapd check: exit status %d\n%s", status, out)
	}
}

// A crowd contains the people that clients have tried to add.
type crowd struct {
	people []*person
	landed int // number of operations that were not acknowledged but took effect
}

// write lets clients write concurrently. Each client makes and changes people that no other
// client changes. After acks acknowledgements, write kills the server.
func (c *crowd) write(t *testing.T, p *process, round, acks int) {
	t.Helper()
	var count atomic.Int64
	enough := make(chan struct{})
	acked := func(*person) {
		if count.Add(1) == int64(acks) {
			close(enough)
		}
	}
	var all [4][]*person
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			conn, err := dial(p.url(), adminDN, adminPassword)
			if err != nil {
				return // the server was killed first
			}
			defer conn.Close()
			next := func() *person {
				all[i] = append(all[i], &person{uid: fmt.Sprintf("r%d-c%d-%d", round, i, len(all[i]))})
				return all[i][len(all[i])-1]
			}
			err = live(ldapChanger{conn}, next, acked)
			// On a busy machine the server may not renew its lease in time. Then a commit is
			// refused, or its outcome is unknown.
			for code(err) == ldap.LDAPResultUnavailable || code(err) == ldap.LDAPResultOther {
				time.Sleep(100 * time.Millisecond)
				err = live(ldapChanger{conn}, next, acked)
			}
			if code(err) != -1 {
				t.Errorf("%v; want the connection to break", err)
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(patience):
		t.Errorf("only %d operations were acknowledged", count.Load())
	}
	p.kill()
	wg.Wait()
	for _, people := range all {
		c.people = append(c.people, people...)
	}
}

// recovered checks the directory of a restarted server twice: at once, and after the
// slots of earlier servers have been recovered. Recovery decides the operations that were
// in progress when a server was killed. After recovery, their outcome must not change.
func (c *crowd) recovered(t *testing.T, p *process) {
	t.Helper()
	c.check(t, p)
	awaitWriter(t, p)
	awaitAlone(t, p)
	for x, step := range c.check(t, p) {
		if step != x.acked {
			c.landed++
		}
		x.acked, x.tried = step, step
	}
}

// check compares the directory with what was acknowledged. For each person, it returns the
// last step of the person's life (see life) whose result the directory shows. If the directory
// shows the result of no possible step, the test fails, and check returns the last
// acknowledged step.
func (c *crowd) check(t *testing.T, p *process) map[*person]int {
	t.Helper()
	s := look(t, p.admin())
	found := map[*person]int{}
	for _, x := range c.people {
		step, ok := s.see(x, x.acked, x.tried)
		if !ok {
			t.Errorf("%s: step %d acknowledged, %d tried, and found %s", x.uid, x.acked, x.tried, s.describe(x))
			step = x.acked
		}
		found[x] = step
	}
	for _, name := range s.strangers(c.people) {
		t.Errorf("%s: nobody tried to add it", name)
	}
	return found
}

// look reads the entries of all people, and the members of the group.
func look(t *testing.T, c *ldap.Conn) *sight {
	t.Helper()
	s := &sight{map[string]map[string][]string{}, map[string]bool{}}
	read := func(base, filter string, take func(*ldap.Entry)) {
		r, err := c.Search(ldap.NewSearchRequest(base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, filter, []string{"*", "+"}, nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.Entries {
			take(e)
		}
	}
	read(peopleDN, "(uid=r*-c*)", func(e *ldap.Entry) {
		attributes := map[string][]string{}
		for _, a := range e.Attributes {
			attributes[a.Name] = a.Values
		}
		s.entries[e.DN] = attributes
	})
	read(staffDN, "(objectClass=*)", func(e *ldap.Entry) {
		for _, m := range e.GetAttributeValues("member") {
			s.members[m] = true
		}
	})
	return s
}

// awaitAlone waits until p is the only server that holds a slot of its store. Then all commits
// of the earlier servers are decided. awaitAlone then waits until p shows their outcome.
func awaitAlone(t *testing.T, p *process) {
	t.Helper()
	if !hbase.IsURL(p.store) {
		return // no other server can use the store
	}
	s, err := hbase.Open(t.Context(), p.store, hbase.Options{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := journal.New(s)
	eventually(t, "the slots of the dead are recovered", func() error {
		h, err := log.Heads(t.Context())
		if err != nil {
			return err
		}
		holders := 0
		for _, slot := range h.Slots() {
			if st := h.Cell(slot).State; st == revision.Open || st == revision.Recovering {
				holders++
			}
		}
		if holders != 1 {
			return fmt.Errorf("%d slots are held", holders)
		}
		return nil
	})
	awaitWriter(t, p) // once p accepts a write, p has read the heads again
}

// awaitWriter waits until a server accepts writes.
func awaitWriter(t *testing.T, p *process) {
	t.Helper()
	c := p.admin()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		r := ldap.NewModifyRequest(staffDN, nil)
		r.Replace("description", []string{"written"})
		err := c.Modify(r)
		if err == nil {
			return
		}
		if code(err) != ldap.LDAPResultUnwillingToPerform && code(err) != ldap.LDAPResultUnavailable || time.Now().After(end) {
			t.Fatalf("the server takes no writes: %v", err)
		}
	}
}

// persist makes an update, and makes it again while the server refuses it with unavailable (52),
// as the documentation tells clients to do: a busy machine may not renew a lease in time, and a
// server that has lost its slot takes no writes until it has another one.
func persist(update func() error) error {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if err := update(); code(err) != ldap.LDAPResultUnavailable || time.Now().After(end) {
			return err
		}
	}
}

// ldapChanger makes changes over LDAP.
type ldapChanger struct{ *ldap.Conn }

func (c ldapChanger) add(name string, attributes map[string][]string) error {
	r := ldap.NewAddRequest(name, nil)
	for a, values := range attributes {
		r.Attribute(a, values)
	}
	return c.Add(r)
}

func (c ldapChanger) insert(name, attribute, value string) error {
	r := ldap.NewModifyRequest(name, nil)
	r.Add(attribute, []string{value})
	return c.Modify(r)
}

func (c ldapChanger) replace(name string, attributes map[string][]string) error {
	r := ldap.NewModifyRequest(name, nil)
	for a, values := range attributes {
		r.Replace(a, values)
	}
	return c.Modify(r)
}

func (c ldapChanger) rename(name, rdn, parent string) error {
	return c.ModifyDN(ldap.NewModifyDNRequest(name, rdn, true, parent))
}

func (c ldapChanger) remove(name string) error { return c.Del(ldap.NewDelRequest(name, nil)) }
