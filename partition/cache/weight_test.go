package cache

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// TestWeight checks that the weights of what a cache contains differ from the memory that it occupies by
// less than 15 %. If they do not, users who configure a size of the cache get another one.
func TestWeight(t *testing.T) {
	k := schema.Core()
	attribute := func(name string, values ...string) entry.Attribute {
		a := entry.Attribute{Type: k.Attribute(name)}
		for _, v := range values {
			a.Values = append(a.Values, []byte(v))
		}
		return a
	}
	person := func(i int) []entry.Attribute {
		return []entry.Attribute{attribute("objectClass", "top", "person", "organizationalPerson", "inetOrgPerson"),
			attribute("uid", fmt.Sprint("u", i)), attribute("cn", fmt.Sprint("Person Number ", i)), attribute("sn", "Name"), attribute("mail", fmt.Sprintf("u%d@example.com", i)),
			attribute("createTimestamp", "20261128010101Z"), attribute("creatorsName", "cn=admin,dc=example,dc=com"), attribute("entryUUID", entry.NewID().String())}
	}
	const n = 40_000
	c := NewCache(1 << 30)
	for _, x := range []struct {
		what   string
		fill   func(i int)
		weight func() uint64
	}{
		{"entries", func(i int) {
			node := master.Node{Parent: entry.ID{1}, UpRDN: fmt.Sprint("uid=u", i), NormRDN: dn.Norm(fmt.Sprint("0.9.2342.19200300.100.1.1=u", i))}
			item := c.NewItem(1, node, person(i), nil)
			c.SetSecrets(item, 1, []entry.Attribute{attribute("userPassword", "{SSHA}5UF3CWBNdjCIKM1tz0kJ4SEFYwMwMTIzNDU2Nw==")})
			c.Entries.Set(entry.NewID(), item)
		}, c.Entries.Weight},
		{"entries with many values", func(i int) {
			var values []string
			for m := range 20 + i%50 {
				values = append(values, fmt.Sprintf("cn=member %d,ou=people,dc=example,dc=com", m))
			}
			if i%10 == 0 {
				item := c.NewItem(1, master.Node{UpRDN: "cn=x", NormRDN: "2.5.4.3=x"}, []entry.Attribute{attribute("member", values...)}, nil)
				item.KeyHashes(0)
				c.Entries.Set(entry.NewID(), item)
			}
		}, c.Entries.Weight},
		{"children", func(i int) { c.Children.Set(HintOf(entry.ID{1}, fmt.Sprint(i)), entry.NewID()) }, c.Children.Weight},
		{"postings of one entry", func(i int) {
			p := &Posting{AsOf: 1}
			p.Set.Append(entry.NewID(), entry.ID{1})
			c.Postings.Put(PostingKey{}.Of(fmt.Append(nil, i)), p)
		}, func() uint64 { return c.Postings.stats().Bytes }},
		{"postings of some entries", func(i int) {
			p := &Posting{AsOf: 1}
			for e := range byte(2 + i%40) {
				p.Set.Append(entry.ID{e}, entry.ID{e % 3})
			}
			c.Postings.Put(PostingKey{}.Of(fmt.Append(nil, -i)), p)
		}, func() uint64 { return c.Postings.stats().Bytes }},
	} {
		before, was := allocated(), x.weight()
		for i := range n {
			x.fill(i)
		}
		memory, weight := float64(allocated()-before), float64(x.weight()-was)
		if ratio := weight / memory; ratio < 0.85 || ratio > 1.15 {
			t.Errorf("%s: weight %.0f, memory %.0f: %.2f", x.what, weight, memory, ratio)
		}
	}
	runtime.KeepAlive(c)
}

// allocated returns the octets of the heap that are in use.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
