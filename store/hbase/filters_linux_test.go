package hbase_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// company is a directory of 3,000 people on a store that three servers have open, with an
// open branch and a parked one.
type company struct {
	t       *testing.T
	server  *partition.Partition
	traffic *hbase.Traffic
	open    *branch.Branch
}

const companySuffix = "dc=example,dc=com"

func newCompany(t *testing.T, indexes ...catalog.Index) *company {
	t.Helper()
	url := hbase.Scheme + hbasetest.Start(t) + "/" + hbasetest.Prefix(t)
	c := &company{t: t}
	var servers []*partition.Partition
	for i := range 3 {
		s, err := hbase.Open(t.Context(), url, hbase.Options{Timeout: time.Minute})
		c.must(err)
		t.Cleanup(func() { s.Close() })
		p, err := partition.Open(t.Context(), s, partition.Options{Create: i == 0, Indexes: indexes, Txn: txn.Options{Poll: 500 * time.Millisecond, Lease: time.Minute}})
		c.must(err)
		t.Cleanup(func() { p.Close(context.Background()) })
		if servers = append(servers, p); i == 0 {
			c.server, c.traffic = p, hbase.Watch(s)
			c.must(onlineschema.SetSuffixes(t.Context(), p, []string{companySuffix}))
			c.populate()
		}
	}
	c.open = c.branch("open")
	c.must(c.branch("parked").Park(t.Context()))
	for i, p := range servers {
		c.must(p.DB.CatchUp(t.Context()))
		c.must(c.add(p, fmt.Sprintf("cn=of server %d,ou=people,%s", i, companySuffix), "description: c9999"))
	}
	c.must(c.server.DB.CatchUp(t.Context()))
	return c
}

func (c *company) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// branch makes a branch with one entry more.
func (c *company) branch(name string) *branch.Branch {
	c.t.Helper()
	b, err := branch.Create(c.t.Context(), c.server, branch.Options{Name: name})
	c.must(err)
	_, err = b.Update(c.t.Context(), write.By{}, func(tx *write.Tx) error {
		return c.addIn(tx, fmt.Sprintf("cn=in %s,ou=people,%s", name, companySuffix), "description: c001 in "+name)
	})
	c.must(err)
	return b
}

func (c *company) populate() {
	c.t.Helper()
	c.must(c.add(c.server, companySuffix, "objectClass: organization", "objectClass: dcObject", "o: Example"))
	c.must(c.add(c.server, "ou=people,"+companySuffix, "objectClass: organizationalUnit"))
	for i := 0; i < 3000; i += 500 {
		_, err := write.Update(c.t.Context(), c.server, write.By{}, func(tx *write.Tx) error {
			for j := i; j < i+500; j++ {
				description := "of the company"
				if j%1000 == 7 {
					description = fmt.Sprintf("has c001%d", j)
				}
				if err := c.addIn(tx, fmt.Sprintf("cn=person %04d,ou=people,%s", j, companySuffix), "description: "+description, fmt.Sprintf("title: %d. title", j),
					fmt.Sprintf("uidNumber: %d", j), fmt.Sprintf("displayName: number %d", j), fmt.Sprintf("dnQualifier: %04d", j),
					fmt.Sprintf("mail: person%d@example.com", j), "l: Berlin", "st: Berlin", "street: street", "postalCode: 10115"); err != nil {
					return err
				}
			}
			return nil
		})
		c.must(err)
	}
}

func (c *company) add(p *partition.Partition, name string, lines ...string) error {
	_, err := write.Update(c.t.Context(), p, write.By{}, func(tx *write.Tx) error { return c.addIn(tx, name, lines...) })
	return err
}

// addIn adds an entry. Without an object class in lines, the entry is a person.
func (c *company) addIn(tx *write.Tx, name string, lines ...string) error {
	d, err := dn.Parse(name)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(lines[0], "objectClass") {
		lines = append(lines, "objectClass: inetOrgPerson", "objectClass: extensibleObject", "sn: Person")
	}
	values := map[string][][]byte{}
	for _, l := range lines {
		a, v, _ := strings.Cut(l, ": ")
		values[a] = append(values[a], []byte(v))
	}
	var attributes []op.PartialAttribute
	for a, v := range values {
		attributes = append(attributes, op.PartialAttribute{Description: a, Values: v})
	}
	_, err = tx.Add(c.t.Context(), d, attributes, false)
	return err
}

// search searches the whole directory, and returns the number of results, the number of calls and
// the number of octets received. It searches once more before, so that regions are known. Entries
// are read from the store, because each search reads a snapshot of its own.
func (c *company) search(s func() *state.Snapshot, f string) (found, calls, octets int) {
	c.t.Helper()
	for range 2 {
		s := s()
		found, calls, octets = 0, c.traffic.Calls(), c.traffic.Received(c.t)
		for _, err := range search.Search(c.t.Context(), s, search.Query{Base: catalog.Root, Scope: op.WholeSubtree,
			Filter: filter.Resolve(filter.MustParse(f), c.server.Schema())}) {
			c.must(err)
			found++
		}
		calls, octets = c.traffic.Calls()-calls, c.traffic.Received(c.t)-octets
		s.Close()
	}
	c.t.Logf("%.60s: %d found, %d calls, %d octets received", f, found, calls, octets)
	return found, calls, octets
}

// TestOctets counts what crosses the network for searches without an index, and for substrings in
// indexes of 3,000 values.
func TestOctets(t *testing.T) {
	c := newCompany(t, catalog.Index{Attribute: "objectClass"}, catalog.Index{Attribute: "mail", Layout: catalog.ColumnLayout}, catalog.Index{Attribute: "title", Layout: catalog.RowLayout})
	newest := func() *state.Snapshot { return state.Newest(c.server) }
	staged := func() *state.Snapshot {
		s, err := c.open.Snapshot(t.Context())
		c.must(err)
		return s
	}
	for _, x := range []struct {
		filter               string
		of                   func() *state.Snapshot
		found, calls, octets int
	}{
		{"(description=*c001*)", newest, 3, 6, 15 << 10},
		{"(description=*c001*)", staged, 4, 8, 20 << 10}, // a branch reads two more rows of the tree
		{"(description=c9999)", newest, 3, 6, 15 << 10},
		{"(&(sn=person)(description=*c001*))", newest, 3, 9, 30 << 10},
		{"(mail=*7*77@example.com)", newest, 3, 6, 10 << 10},
		{"(title=*99. title)", newest, 30, 6, 10 << 10},
		{"(uidNumber>=2998)", newest, 2, 6, 15 << 10},
		{"(&(uidNumber>=2000)(uidNumber<=2001))", newest, 2, 6, 15 << 10},
		{"(displayName=*number 2222)", newest, 1, 6, 15 << 10},
		{"(dnQualifier>=2998)", newest, 2, 6, 15 << 10},
		{"(dnQualifier:caseIgnoreOrderingMatch:=0003)", staged, 3, 8, 20 << 10},
		{"(destinationIndicator:caseExactMatch:=x)", newest, 0, 6, 15 << 10},
		{"(&(description=*c001*)(!(uidNumber=7)))", newest, 2, 6, 15 << 10},
		{"(l=*)", newest, 3000, 14, 7000 << 10}, // the scan stops filtering
		// Filters that are too large for HBase's servers: only parts of them are sent, or none.
		{"(description=*" + strings.Repeat("x", 10_000) + "*)", newest, 0, 14, 7000 << 10},
		{"(displayName=*" + strings.Repeat("x", 10_000) + "*)", newest, 0, 14, 7000 << 10},
		{"(description=*" + strings.Repeat("x*", 5_000) + ")", newest, 0, 14, 7000 << 10},
		{"(|(description=has c0017)" + strings.Repeat("(description=y)", 1_000) + "(displayName=number 3))", newest, 2, 14, 7000 << 10},
		{"(&(description=*c001*)" + strings.Repeat("(|(cn=person 0007)(uidNumber>=1000))", 100) + ")", newest, 3, 6, 15 << 10},
	} {
		found, calls, octets := c.search(x.of, x.filter)
		for try := 0; try < 3 && (calls > x.calls || octets > x.octets); try++ { // the server's own polls are counted, too
			found, calls, octets = c.search(x.of, x.filter)
		}
		if found != x.found || calls > x.calls || octets > x.octets {
			t.Errorf("%.60s: %d found, want %d; %d calls, want at most %d; %d octets, want at most %d", x.filter, found, x.found, calls, x.calls, octets, x.octets)
		}
	}
}
