package integration

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// These are the definitions that TestSchemaBesideWriters changes.
const (
	subschemaDN = "cn=Subschema"
	shelfMany   = "( 1.3.6.1.4.1.55555.9.1 NAME 'shelf' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"
	shelfOne    = "( 1.3.6.1.4.1.55555.9.1 NAME 'shelf' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )"
	shelved     = "( 1.3.6.1.4.1.55555.9.2 NAME 'shelved' SUP top AUXILIARY MAY shelf )"
)

// TestSchemaBesideWriters runs three servers. One of them changes the schema, is killed
// during a change and is started again, while clients add entries at the other two. A
// change that entries would violate must be refused with an error that names such entries.
// All servers must have the same schema in force, and no entry may violate this schema.
func TestSchemaBesideWriters(t *testing.T) {
	t.Parallel()
	store := storeKinds[1].make(t)
	importInto(t, store, example)
	s := &shelves{t: t, store: store}
	for i := range s.servers {
		s.start(i)
	}
	s.define()
	s.work(s.makeSingle)
	s.agree()
	s.remove()
	for _, p := range s.servers {
		p.stop()
	}
	checkStore(t, store)
}

type shelves struct {
	t       *testing.T
	store   string
	servers [3]*process // servers[0] changes the schema
	entries atomic.Int64
	stopped atomic.Bool
	longest atomic.Int64 // longest time that an add took
}

func (s *shelves) define() {
	r := ldap.NewModifyRequest(subschemaDN, nil)
	r.Add("attributeTypes", []string{shelfMany})
	r.Add("objectClasses", []string{shelved})
	c := s.servers[0].admin()
	if err := persist(func() error { return c.Modify(r) }); err != nil {
		s.t.Fatal(err)
	}
	for _, p := range s.servers {
		s.definition(p.admin()) // a fresh read, after which p shows the definitions
	}
}

// work runs clients that add entries at the servers that do not change the schema,
// until the function change returns.
func (s *shelves) work(change func()) {
	var g sync.WaitGroup
	for client := range 4 {
		c := s.servers[1+client%2].admin()
		g.Go(func() {
			for n := 0; !s.stopped.Load(); n++ {
				s.add(c, fmt.Sprintf("cn=box %d of %d,%s", n, client, suffix), n)
				s.pause(20 * time.Millisecond) // more entries would only make the changes slower
			}
		})
	}
	change()
	s.stopped.Store(true)
	g.Wait()
	s.t.Logf("%d entries; no add at another server took longer than %v", s.entries.Load(), time.Duration(s.longest.Load()).Round(time.Millisecond))
}

// add adds an entry with one shelf or, every third time, with two shelves. If an entry
// with two shelves was added, add deletes that entry again.
func (s *shelves) add(c *ldap.Conn, dn string, n int) {
	values := []string{"a"}
	if n%3 == 2 {
		values = []string{"a", "b"}
	}
	r := ldap.NewAddRequest(dn, nil)
	r.Attribute("objectClass", []string{"device", "shelved"})
	r.Attribute("shelf", values)
	began := time.Now()
	err := outcome(c, dn, true, func() error { return c.Add(r) })
	took := int64(time.Since(began))
	for old := s.longest.Load(); old < took && !s.longest.CompareAndSwap(old, took); {
		old = s.longest.Load()
	}
	switch code(err) {
	case ldap.LDAPResultSuccess:
		s.entries.Add(1)
	case ldap.LDAPResultConstraintViolation, ldap.LDAPResultBusy: // a change is pending
		if len(values) == 1 {
			s.t.Errorf("one value: %v", err)
		}
	default:
		s.t.Errorf("add %s: %v", dn, err)
	}
	if err == nil && len(values) == 2 {
		if err := outcome(c, dn, false, func() error { return c.Del(ldap.NewDelRequest(dn, nil)) }); err != nil {
			s.t.Errorf("delete %s: %v", dn, err)
		}
	}
}

// outcome makes an update, after which the entry dn is there or not. If the store failed while committing, outcome reads whether the
// update was made, as docs/protocol.md tells clients, and makes it again if not.
func outcome(c *ldap.Conn, dn string, there bool, update func() error) error {
	for {
		err := persist(update)
		if code(err) != ldap.LDAPResultOther {
			return err
		}
		var found []string
		if err := persist(func() (err error) {
			found, err = searchDN(c, dn, ldap.ScopeBaseObject, "(objectClass=*)")
			return err
		}); err != nil && code(err) != ldap.LDAPResultNoSuchObject {
			return err
		}
		if (len(found) > 0) == there {
			return nil
		}
	}
}

// makeSingle repeatedly makes the attribute type SINGLE-VALUE and multi-valued again.
// Every third time, it kills the server during the change, each time at a later moment.
func (s *shelves) makeSingle() {
	made := 0
	for n := range 6 {
		s.refuse()
		c := s.servers[0].admin()
		done := make(chan error, 1)
		go func() { done <- exchangeDefinition(c, shelfMany, shelfOne) }()
		if n%3 == 2 {
			s.pause(time.Duration(n) * 40 * time.Millisecond)
			s.restart()
		}
		err := <-done
		if err == nil {
			made++
		} else if strings.Contains(err.Error(), against) && !strings.Contains(err.Error(), "cn=box") {
			s.t.Errorf("it is not said which entry is in the way: %v", err)
		}
		s.back()
	}
	s.t.Logf("6 times SINGLE-VALUE was wanted beside clients that add two values; %d times it was made", made)
}

func (s *shelves) pause(d time.Duration) { <-time.After(d) }

// against is the beginning of the diagnostic of a change that entries would violate.
const against = "entries of the directory violate this"

// refuse adds an entry that violates a change of the schema, and checks that the change
// is refused.
func (s *shelves) refuse() {
	const dn = "cn=in the way," + suffix
	c := s.servers[0].admin()
	r := ldap.NewAddRequest(dn, nil)
	r.Attribute("objectClass", []string{"device", "shelved"})
	r.Attribute("shelf", []string{"a", "b"})
	eventually(s.t, "an entry with two values is added", func() error {
		err := c.Add(r)
		if code(err) == ldap.LDAPResultConstraintViolation {
			s.back() // the killed server had made the change, or had announced it
		}
		return err
	})
	eventually(s.t, "the change is refused for an entry", func() error {
		err := exchangeDefinition(c, shelfMany, shelfOne)
		if err == nil {
			s.t.Fatal("the change was made although an entry is against it")
		}
		if !strings.Contains(err.Error(), against) { // an earlier change is not over
			return err
		}
		wantCode(s.t, "a change that an entry is against", err, ldap.LDAPResultUnwillingToPerform)
		return nil
	})
	if err := persist(func() error { return c.Del(ldap.NewDelRequest(dn, nil)) }); err != nil {
		s.t.Fatal(err)
	}
}

// restart kills the server that changes the schema, and starts another server in its
// place.
func (s *shelves) restart() {
	s.servers[0].kill()
	s.start(0)
}

// start starts a server and waits until it accepts writes. If the server does not start, start
// tries again.
func (s *shelves) start(i int) {
	eventually(s.t, "a server starts", func() (err error) {
		s.servers[i], err = tryServe(s.t, s.store, "--lease", "3s")
		return err
	})
	awaitWriter(s.t, s.servers[i])
}

// The method "back" makes the attribute type multi-valued again.
func (s *shelves) back() {
	c := s.servers[0].admin()
	eventually(s.t, "the type has many values again", func() error {
		if now := s.definition(c); now == shelfMany {
			return nil
		}
		return exchangeDefinition(c, shelfOne, shelfMany)
	})
}

func exchangeDefinition(c *ldap.Conn, old, new string) error {
	r := ldap.NewModifyRequest(subschemaDN, nil)
	r.Delete("attributeTypes", []string{old})
	r.Add("attributeTypes", []string{new})
	return c.Modify(r)
}

// definition returns the current definition of the attribute type.
func (s *shelves) definition(c *ldap.Conn) string {
	s.t.Helper()
	r, err := c.Search(ldap.NewSearchRequest(subschemaDN, ldap.ScopeBaseObject, 0, 0, 0, false, "(objectClass=subschema)", []string{"attributeTypes"}, fresh(true)))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range r.Entries[0].GetAttributeValues("attributeTypes") {
		if strings.HasPrefix(d, "( 1.3.6.1.4.1.55555.9.1 ") {
			return d
		}
	}
	return ""
}

// agree checks that the change can be made when no entry violates it, and that it is
// then in force on all servers.
func (s *shelves) agree() {
	c := s.servers[0].admin()
	eventually(s.t, "the change is made", func() error {
		if s.definition(c) == shelfOne {
			return nil
		}
		return exchangeDefinition(c, shelfMany, shelfOne)
	})
	for i, p := range s.servers {
		c := p.admin()
		if got := s.definition(c); got != shelfOne {
			s.t.Errorf("server %d has %s", i, got)
		}
		r := ldap.NewAddRequest("cn=two,"+suffix, nil)
		r.Attribute("objectClass", []string{"device", "shelved"})
		r.Attribute("shelf", []string{"a", "b"})
		wantCode(s.t, "two values", persist(func() error { return c.Add(r) }), ldap.LDAPResultConstraintViolation)
	}
}

// remove deletes the definitions. It first checks that the deletion is refused while
// entries use the definitions.
func (s *shelves) remove() {
	c := s.servers[1].admin()
	r := ldap.NewModifyRequest(subschemaDN, nil)
	r.Delete("objectClasses", []string{shelved})
	r.Delete("attributeTypes", []string{shelfOne})
	if err := persist(func() error { return c.Modify(r) }); err == nil || !strings.Contains(err.Error(), against) || !strings.Contains(err.Error(), "cn=box") {
		s.t.Errorf("definitions in use were removed, or it is not said where: %v", err)
	}
	boxes, err := searchDN(c, suffix, ldap.ScopeSingleLevel, "(objectClass=shelved)")
	if err != nil || len(boxes) == 0 {
		s.t.Fatalf("%d boxes, %v", len(boxes), err)
	}
	for _, dn := range boxes {
		if err := persist(func() error { return c.Del(ldap.NewDelRequest(dn, nil)) }); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := persist(func() error { return c.Modify(r) }); err != nil {
		s.t.Error(err)
	}
	for i, p := range s.servers {
		if got := s.definition(p.admin()); got != "" {
			s.t.Errorf("server %d still has %s", i, got)
		}
	}
}
