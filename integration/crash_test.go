package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// TestKill ends the server with SIGKILL while clients write on many connections,
// again and again on one store. After every restart each entry must be as its
// last acknowledged operation left it, or as the one that was under way would
// have: whole, under one name. A check of the store must find nothing.
func TestKill(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	for _, kind := range storeKinds {
		t.Run(kind.name, func(t *testing.T) {
			store := kind.make(t)
			load(t, store, example)
			w := newWriters(4)
			for round := range rounds {
				p := serve(t, store, "--lease", "2s")
				w.check(t, p)
				w.write(t, p, round, 20+rand.IntN(60))
				checkStore(t, store)
			}
			p := serve(t, store, "--lease", "2s")
			w.check(t, p)
			p.stop()
			checkStore(t, store)
			t.Logf("%d entries, %d changed by operations under way at a kill", len(w.people), w.landed)
		})
	}
}

// checkStore wants ldapd check to find nothing.
func checkStore(t *testing.T, store string) {
	t.Helper()
	if out, status := ldapdRun(t, "check", "--store", store); status != 0 {
		t.Fatalf("ldapd check: exit status %d\n%s", status, out)
	}
}

// writers are clients that write at the same time, each its own entries.
type writers struct {
	clients int
	people  []*person
	landed  int // operations that were not acknowledged and stand
}

// A person is an entry and how far its life has come: the steps of life.
type person struct {
	uid          string
	tried, acked int
}

// life is what happens to an entry. Each step is one operation.
var life = []struct {
	name string
	do   func(c *ldap.Conn, p *person) error
}{
	{"add", func(c *ldap.Conn, p *person) error {
		r := ldap.NewAddRequest(p.dn(1), nil)
		for name, values := range p.attributes(1) {
			r.Attribute(name, values)
		}
		return c.Add(r)
	}},
	{"join", func(c *ldap.Conn, p *person) error {
		r := ldap.NewModifyRequest(staff, nil)
		r.Add("member", []string{p.dn(1)})
		return c.Modify(r)
	}},
	{"modify", func(c *ldap.Conn, p *person) error {
		r := ldap.NewModifyRequest(p.dn(1), nil)
		for _, name := range changed {
			r.Replace(name, p.attributes(3)[name])
		}
		return c.Modify(r)
	}},
	{"rename", func(c *ldap.Conn, p *person) error {
		return c.ModifyDN(ldap.NewModifyDNRequest(p.dn(1), "uid="+p.uid+"-x", true, "ou=alumni,"+peopleDN))
	}},
	{"delete", func(c *ldap.Conn, p *person) error { return c.Del(ldap.NewDelRequest(p.dn(4), nil)) }},
}

const (
	peopleDN = "ou=people," + suffix
	staff    = "cn=admins,ou=groups," + suffix
)

// changed are the attributes that the step modify replaces, all at once.
var changed = []string{"description", "title", "mail", "telephoneNumber"}

// dn is the entry's name after a step.
func (p *person) dn(step int) string {
	if step >= 4 {
		return "uid=" + p.uid + "-x,ou=alumni," + peopleDN
	}
	return "uid=" + p.uid + "," + peopleDN
}

// attributes are what the entry has after a step: nil if it is not there.
func (p *person) attributes(step int) map[string][]string {
	if step == 0 || step == 5 {
		return nil
	}
	as := map[string][]string{
		"objectClass":     {"inetOrgPerson", "organizationalPerson", "person", "top"},
		"uid":             {p.uid},
		"cn":              {p.uid, "Zoë " + p.uid},
		"sn":              {p.uid},
		"description":     {strings.Repeat("first ", 50)},
		"title":           {"first"},
		"mail":            {p.uid + "@example.com"},
		"telephoneNumber": {"+1 555 0100", "+1 555 0101"},
		"jpegPhoto":       {"\xff\xd8" + strings.Repeat(p.uid, 300) + "\xff\xd9"},
	}
	if step >= 3 {
		as["description"] = []string{strings.Repeat("second ", 100)}
		as["title"] = []string{"second"}
		as["mail"] = []string{p.uid + "@example.com", p.uid + "@example.org"}
		as["telephoneNumber"] = []string{"+1 555 0200"}
	}
	if step >= 4 {
		as["uid"] = []string{p.uid + "-x"}
	}
	return as
}

func newWriters(clients int) *writers { return &writers{clients: clients} }

// write has all clients write until the server, after some acknowledgements, is
// killed.
func (w *writers) write(t *testing.T, p *process, round, acks int) {
	t.Helper()
	w.awaitWriter(t, p)
	var count atomic.Int64
	enough := make(chan struct{})
	var once sync.Once
	lives := make([][]*person, w.clients)
	var wg sync.WaitGroup
	for i := range lives {
		wg.Go(func() {
			lives[i] = w.live(t, p.url(), fmt.Sprintf("r%d-c%d", round, i), func() {
				if count.Add(1) == int64(acks) {
					once.Do(func() { close(enough) })
				}
			})
		})
	}
	select {
	case <-enough:
	case <-time.After(patience):
		t.Errorf("only %d operations were acknowledged", count.Load())
	}
	p.kill()
	wg.Wait()
	for _, l := range lives {
		w.people = append(w.people, l...)
	}
}

// awaitWriter waits until the server takes writes: on a shared store it does
// once its predecessor's lease has ended.
func (w *writers) awaitWriter(t *testing.T, p *process) {
	t.Helper()
	c := p.admin()
	defer c.Close()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		r := ldap.NewModifyRequest(staff, nil)
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

// live takes one entry after the other through its life, some of them not to the
// end, until the connection breaks.
func (w *writers) live(t *testing.T, url, name string, acked func()) (people []*person) {
	c, err := dial(url, adminDN, adminPassword)
	if err != nil {
		return nil // killed before it began
	}
	defer c.Close()
	for n := 0; ; n++ {
		p := &person{uid: fmt.Sprintf("%s-%d", name, n)}
		people = append(people, p)
		for step := 1; step <= len(life)-n%len(life); step++ {
			p.tried = step
			if err := life[step-1].do(c, p); code(err) == -1 {
				return people
			} else if err != nil {
				t.Errorf("%s of %s: %v", life[step-1].name, p.uid, err)
				return people
			}
			p.acked = step
			acked()
		}
	}
}

// check compares the directory with what was acknowledged.
func (w *writers) check(t *testing.T, p *process) {
	t.Helper()
	c := p.admin()
	defer c.Close()
	r, err := c.Search(ldap.NewSearchRequest(peopleDN, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false,
		"(uid=r*-c*)", []string{"*", "+"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]*ldap.Entry{}
	for _, e := range r.Entries {
		there[e.DN] = e
	}
	members := w.members(t, c)
	for _, x := range w.people {
		step, ok := x.found(there, members)
		switch {
		case !ok:
			t.Errorf("%s: steps %d acknowledged and %d tried, and found %s", x.uid, x.acked, x.tried, x.describe(there, members))
		case step != x.acked:
			w.landed++
		}
		x.acked, x.tried = step, step
		delete(there, x.dn(1))
		delete(there, x.dn(4))
	}
	for name := range there {
		t.Errorf("%s: nobody tried to add it", name)
	}
}

func (w *writers) members(t *testing.T, c *ldap.Conn) map[string]bool {
	t.Helper()
	r, err := c.Search(ldap.NewSearchRequest(staff, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 0, 0, false,
		"(objectClass=*)", []string{"member"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]bool{}
	for _, m := range r.Entries[0].GetAttributeValues("member") {
		members[m] = true
	}
	return members
}

// found tells which of the two steps that may stand the entry is at.
func (p *person) found(there map[string]*ldap.Entry, members map[string]bool) (int, bool) {
	for _, step := range []int{p.tried, p.acked} {
		if p.at(step, there, members) {
			return step, true
		}
	}
	return p.acked, false
}

// at reports whether everything is as it is after a step.
func (p *person) at(step int, there map[string]*ldap.Entry, members map[string]bool) bool {
	want := map[string]map[string][]string{p.dn(1): nil, p.dn(4): nil}
	if step > 0 {
		want[p.dn(step)] = p.attributes(step)
	}
	for name, attributes := range want {
		if !whole(there[name], attributes) {
			return false
		}
	}
	return members[p.dn(1)] == (step >= 2)
}

// whole compares an entry with its attributes; the operational ones must be
// there.
func whole(e *ldap.Entry, want map[string][]string) bool {
	if e == nil || want == nil {
		return e == nil && want == nil
	}
	for _, name := range []string{"entryUUID", "createTimestamp", "modifyTimestamp", "creatorsName", "modifiersName", "entryCSN", "structuralObjectClass"} {
		if len(e.GetAttributeValues(name)) != 1 {
			return false
		}
	}
	for name, values := range want {
		got := e.GetAttributeValues(name)
		slices.Sort(got)
		slices.Sort(values)
		if !slices.Equal(got, values) {
			return false
		}
	}
	return true
}

func (p *person) describe(there map[string]*ldap.Entry, members map[string]bool) string {
	var b strings.Builder
	for _, name := range []string{p.dn(1), p.dn(4)} {
		if e := there[name]; e != nil {
			fmt.Fprintf(&b, "%s with title %q, ", name, e.GetAttributeValues("title"))
		}
	}
	return fmt.Sprintf("%sa member: %t", b.String(), members[p.dn(1)])
}
