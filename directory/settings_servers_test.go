package directory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// newServer opens a server of a store. It returns a client that is bound to this server as
// the administrator.
func newServer(t *testing.T, s table.Store) *client {
	t.Helper()
	return newServerPolling(t, s, 5*time.Millisecond)
}

// newServerPolling is newServer for a server that looks for the commits of other servers at
// the given interval.
func newServerPolling(t *testing.T, s table.Store, poll time.Duration) *client {
	t.Helper()
	p, err := partition.Open(t.Context(), s, partition.Options{Create: true, Schema: schema.Core(),
		Txn: txn.Options{Lease: 10 * time.Second, Poll: poll, InFlight: 50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.Background()) })
	if err := onlineschema.SetSuffixes(t.Context(), p, []string{"dc=example,dc=com"}); err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, p: p, d: newDirectory(t, p, directory.Options{})}
	c.s = c.d.NewSession(nil)
	c.must("bind", "dn: cn=admin,dc=example,dc=com", "password: secret")
	return c
}

// newServers returns clients of two servers of one store, both bound as the
// administrator. Both servers show the entry of the suffix.
func newServers(t *testing.T) (cs [2]*client) {
	t.Helper()
	s := tabletest.NewMem()
	for i := range cs {
		cs[i] = newServer(t, s)
	}
	cs[0].must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	if err := cs[1].p.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return cs
}

func (c *client) addPerson(uid string) {
	c.t.Helper()
	c.addPersonWith(uid, "p")
}

func (c *client) addPersonWith(uid, password string) {
	c.t.Helper()
	c.must("add", "dn: uid="+uid+",dc=example,dc=com", "objectClass: inetOrgPerson", "uid: "+uid, "cn: "+uid, "sn: "+uid, "userPassword: "+password)
}

// TestRulesReachServers checks that a change of rules is acknowledged only after all servers
// apply the change.
func TestRulesReachServers(t *testing.T) {
	cs := newServers(t)
	cs[0].addPerson("ann")
	cs[0].setRules(&datadriven.TestData{Input: "all: allow users to read, bind\nbind: allow everyone to bind"})
	if err := cs[1].p.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	ann := &client{t: t, p: cs[1].p, d: cs[1].d, s: cs[1].d.NewSession(nil)}
	ann.must("bind", "dn: uid=ann,dc=example,dc=com", "password: p")
	for i := range 20 {
		change := []string{"add accessRule: no: deny users to read sn", "delete accessRule: no: deny users to read sn"}[i%2]
		cs[0].must("modify", "dn: dc=example,dc=com", change)
		out := ann.do("search", "base: uid=ann,dc=example,dc=com", "attrs: sn")
		if strings.Contains(out, "sn:") != (i%2 == 1) {
			t.Fatalf("%s, and then\n%s", change, out)
		}
	}
}

// TestNamesInRulesRace writes rules at one server. Each rule names an entry. Meanwhile the other
// server deletes this entry and adds another entry with the same name. A rule that was written
// for the deleted entry must not apply to the new entry.
func TestNamesInRulesRace(t *testing.T) {
	cs := newServers(t)
	for i := range 12 {
		uid := fmt.Sprintf("u%d", i)
		name := "uid=" + uid + ",dc=example,dc=com"
		cs[1].addPerson(uid)
		if err := cs[0].p.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		old := entryUUID(cs[0], name)
		var g errgroup.Group
		written := ""
		g.Go(func() error {
			written = cs[0].do("modify", "dn: dc=example,dc=com", fmt.Sprintf("add accessRule: r%d: allow %q to manage", i, name))
			return nil
		})
		g.Go(func() error {
			cs[1].must("delete", "dn: "+name)
			cs[1].addPerson(uid)
			return nil
		})
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, c := range cs {
			if err := c.p.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		// If a stored rule names the new entry, the rule was written after the new
		// entry was added.
		var rule string
		for _, l := range strings.Split(cs[1].do("search", "base: dc=example,dc=com", "attrs: accessRule"), "\n") {
			if strings.Contains(l, fmt.Sprintf("r%d:", i)) {
				rule = l
			}
		}
		switch {
		case strings.HasPrefix(written, "19 "):
			if rule != "" {
				t.Errorf("it was refused, and is there: %s", rule)
			}
		case written != "0\n":
			t.Errorf("%s", written)
		case strings.Contains(rule, name):
			if named := namedBy(t, cs[0].p, i); named == old {
				t.Errorf("the rule stands for an entry that is gone: %s", rule)
			}
		case !strings.Contains(rule, "allow nobody to manage"):
			t.Errorf("the rule is %q", rule)
		}
	}
}

func entryUUID(c *client, name string) string {
	_, id, _ := strings.Cut(c.do("search", "base: "+name, "attrs: entryUUID"), "entryUUID: ")
	return strings.TrimSuffix(id, "\n0\n")
}

// namedBy returns the id of the entry that a rule names.
func namedBy(t *testing.T, p *partition.Partition, i int) string {
	s := state.Newest(p)
	defer s.Close()
	for _, r := range s.Catalog.Access.Rules {
		if strings.HasPrefix(r.Text, fmt.Sprintf("r%d:", i)) {
			return r.Names
		}
	}
	return ""
}

// TestNamesInRulesFollow checks that names in rules follow renames in the same commit.
// While one server makes many renames, the named entry must keep its right at the other
// server, and another entry must not have the right.
func TestNamesInRulesFollow(t *testing.T) {
	cs := newServers(t)
	cs[0].addPerson("a0")
	cs[0].addPerson("other")
	cs[0].must("modify", "dn: cn=config", `replace accessRule: bind: allow everyone to bind | one: allow "uid=a0,dc=example,dc=com" to read sn`)
	if err := cs[1].p.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	ann := &client{t: t, p: cs[1].p, d: cs[1].d, s: cs[1].d.NewSession(nil)}
	ann.must("bind", "dn: uid=a0,dc=example,dc=com", "password: p")
	other := &client{t: t, p: cs[1].p, d: cs[1].d, s: cs[1].d.NewSession(nil)}
	other.must("bind", "dn: uid=other,dc=example,dc=com", "password: p")
	var g errgroup.Group
	done := make(chan struct{})
	g.Go(func() error {
		defer close(done)
		for i := range 30 {
			cs[0].must("modifydn", fmt.Sprintf("dn: uid=a%d,dc=example,dc=com", i), fmt.Sprintf("rdn: uid=a%d", i+1))
		}
		return nil
	})
	for reads := true; reads; {
		select {
		case <-done:
			reads = false
		default:
		}
		if out := ann.do("search", "base: uid=other,dc=example,dc=com", "attrs: sn"); !strings.Contains(out, "sn: other") {
			t.Fatalf("who is named does not read: %s", out)
		}
		if out := other.do("search", "base: uid=other,dc=example,dc=com", "attrs: sn"); !strings.HasPrefix(out, "32") {
			t.Fatalf("another one reads: %s", out)
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if out := cs[0].do("search", "base: cn=config", "attrs: accessRule"); !strings.Contains(out, `"uid=a30,dc=example,dc=com"`) {
		t.Errorf("%s", out)
	}
}
