package hbase_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// TestCallsOfLists counts the calls of a search that intersects two lists and reads 118 entries, the
// first time after a server has opened the store: one for each list, and one for all entries, for
// a reader of secrets too. Two ranges are a call each. Photos do not cross the network if nobody asks for them.
func TestCallsOfLists(t *testing.T) {
	s, err := hbase.Open(t.Context(), hbase.Scheme+hbasetest.Start(t)+"/"+hbasetest.Prefix(t), hbase.Options{Timeout: time.Minute})
	c := &company{t: t}
	c.must(err)
	t.Cleanup(func() { s.Close() })
	c.traffic = hbase.Watch(s)
	opened := func() {
		c.server, err = partition.Open(t.Context(), s, partition.Options{Create: true, Txn: txn.Options{Lease: time.Minute}})
		c.must(err)
		p := c.server
		t.Cleanup(func() { p.Close(context.Background()) })
	}
	opened()
	c.must(onlineschema.SetSuffixes(t.Context(), c.server, []string{companySuffix}))
	c.must(c.add(c.server, companySuffix, "objectClass: organization", "objectClass: dcObject", "o: Example"))
	_, err = write.Update(t.Context(), c.server, write.By{}, func(tx *write.Tx) error {
		for i := range 191 {
			lines := []string{"userPassword: secret", "mail: mail", "jpegPhoto: " + strings.Repeat("photo", 2<<10)}
			if i < 150 {
				lines = append(lines, "departmentNumber: a")
			}
			if i >= 32 {
				lines = append(lines, "l: b")
			}
			if err := c.addIn(tx, fmt.Sprintf("cn=%d,%s", i, companySuffix), lines...); err != nil {
				return err
			}
		}
		return nil
	})
	c.must(err)
	for _, secrets := range []bool{false, true} {
		opened()
		s := state.Newest(c.server)
		defer s.Close()
		q := search.Query{Base: catalog.Root, Scope: op.WholeSubtree, Secrets: secrets}
		find := func(f string) (found, calls int) {
			q.Filter = filter.Resolve(filter.MustParse(f), s.Schema())
			calls = c.traffic.Calls()
			for r, err := range search.Search(t.Context(), s, q) {
				c.must(err)
				found++
				if has := r.Entry.Values(s.Schema().Attribute("userPassword")) != nil; has != secrets {
					t.Errorf("%s has a password: %v", r.Name, has)
				}
			}
			return found, c.traffic.Calls() - calls
		}
		find("(&(departmentNumber=c)(l=c))") // asks for the shape of the tables
		_, err := s.Find(t.Context(), nil)
		c.must(err)
		if found, calls := find("(&(departmentNumber=a)(l=b))"); found != 118 || calls > 4 {
			t.Errorf("with secrets %v: %d found in %d calls, want 118 in at most 4", secrets, found, calls)
		} else {
			t.Logf("with secrets %v: %d calls", secrets, calls)
		}
		if found, calls := find("(&(departmentNumber=a*)(l=b*))"); found != 118 || calls > 2 {
			t.Errorf("two ranges: %d found in %d calls, want 118 in at most 2", found, calls)
		}
	}
	opened()
	c.searchOnly("(departmentNumber=a)", "mail", 150)
	if octets := c.searchOnly("(&(l=b)(!(departmentNumber=a)))", "mail", 41); octets > 41*3<<10 {
		t.Errorf("%d octets for 41 entries without their photos", octets)
	}
	if octets := c.searchOnly("(&(l=b)(!(departmentNumber=a)))", "jpegPhoto", 41); octets < 41*10<<10 {
		t.Errorf("%d octets for 41 entries with photos of 10 KiB", octets)
	}
}

// searchOnly searches the newest state for entries with one attribute, which the caller asks for. It returns the
// number of octets received.
func (c *company) searchOnly(f, attribute string, want int) int {
	c.t.Helper()
	s := state.Newest(c.server)
	defer s.Close()
	typ := s.Schema().Attribute(attribute)
	found, octets := 0, c.traffic.Received(c.t)
	for r, err := range search.Search(c.t.Context(), s, search.Query{Base: catalog.Root, Scope: op.WholeSubtree,
		Filter: filter.Resolve(filter.MustParse(f), s.Schema()), Only: []*schema.AttributeType{typ}}) {
		c.must(err)
		if len(r.Entry.Values(typ)) == 1 {
			found++
		}
	}
	if octets = c.traffic.Received(c.t) - octets; found != want {
		c.t.Errorf("%s: %d found with %s, want %d", f, found, attribute, want)
	}
	c.t.Logf("%s: %d found with %s, %d octets received", f, found, attribute, octets)
	return octets
}
