package partition_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

const benchPeople = 10000

func benchDN(i int) string { return fmt.Sprintf("uid=u%07d,ou=people,dc=example,dc=com", i) }

func benchPerson(i int) []op.PartialAttribute {
	uid := fmt.Sprintf("u%07d", i)
	return attrs("objectClass: top", "objectClass: person", "objectClass: organizationalPerson", "objectClass: inetOrgPerson",
		"uid: "+uid, fmt.Sprintf("cn: Person Number %07d", i), fmt.Sprintf("sn: Name%d", i%200), fmt.Sprintf("givenName: Given%d", i%60),
		"mail: "+uid+"@example.com", fmt.Sprintf("telephoneNumber: +1 555 %07d", i*7919%10000000), fmt.Sprintf("employeeNumber: %d", i),
		fmt.Sprintf("departmentNumber: D%03d", i*7919%100), fmt.Sprintf("l: Town %d", i/100%50), "title: Senior Engineer",
		fmt.Sprintf("description: wrote reports on project-c%03d in Lisbon", i*31%1000),
		"userPassword: {SSHA}0123456789012345678901234567890123456789")
}

// benchDirectory returns a directory without people on an embedded store on disk.
func benchDirectory(b *testing.B) *partition.Partition { return benchDirectoryWith(b, txn.Options{}) }

func benchDirectoryWith(b *testing.B, o txn.Options) *partition.Partition {
	b.Helper()
	ctx := context.Background()
	s, err := lsm.Open(lsm.Options{Path: b.TempDir()})
	must(b, err)
	b.Cleanup(func() { s.Close() })
	p, err := partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true, Txn: o})
	must(b, err)
	b.Cleanup(func() { p.Close(ctx) })
	must(b, onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}))
	must(b, update(b, p, func(tx *partition.Tx) error {
		if _, err := tx.Add(ctx, name("dc=example,dc=com"), attrs("objectClass: organization", "objectClass: dcObject", "o: Example"), false); err != nil {
			return err
		}
		_, err := tx.Add(ctx, name("ou=people,dc=example,dc=com"), attrs("objectClass: organizationalUnit"), false)
		return err
	}))
	return p
}

// benchPartition returns a directory that contains people.
func benchPartition(b *testing.B) *partition.Partition {
	b.Helper()
	p := benchDirectory(b)
	addBenchPeople(b, p, benchPeople)
	return p
}

func addBenchPeople(b *testing.B, p *partition.Partition, n int) {
	b.Helper()
	ctx := context.Background()
	for i := 0; i < n; i += 500 {
		must(b, update(b, p, func(tx *partition.Tx) error {
			for k := i; k < i+500; k++ {
				if _, err := tx.Add(ctx, name(benchDN(k)), benchPerson(k), false); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

func resolved(p *partition.Partition, format string, args ...any) filter.Resolved {
	return filter.Resolve(filter.MustParse(fmt.Sprintf(format, args...)), p.Schema())
}

func BenchmarkRead(b *testing.B) {
	ctx := context.Background()
	p := benchPartition(b)
	s := state.Newest(p)
	defer s.Close()
	base, err := s.Find(ctx, name("dc=example,dc=com"))
	must(b, err)
	people, err := s.Find(ctx, name("ou=people,dc=example,dc=com"))
	must(b, err)
	run := func(b *testing.B, want int, q partition.Query) {
		s := state.Newest(p)
		defer s.Close()
		n := 0
		for _, err := range search.Search(ctx, s, q) {
			must(b, err)
			n++
		}
		if want >= 0 && n != want {
			b.Fatalf("%d entries, want %d", n, want)
		}
	}
	b.Run("base", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s := state.Newest(p)
			d, _ := dn.Parse(benchDN(i % benchPeople))
			at, err := s.Find(ctx, d)
			must(b, err)
			if _, err := s.Entry(ctx, at.ID, false); err != nil {
				b.Fatal(err)
			}
			s.Close()
		}
	})
	for _, c := range []struct {
		name string
		want int
		f    func(i int) filter.Resolved
	}{
		{"eq", 1, func(i int) filter.Resolved { return resolved(p, "(uid=u%07d)", i%benchPeople) }},
		{"and", 2, func(i int) filter.Resolved {
			return resolved(p, "(&(departmentNumber=D%03d)(l=Town %d))", i%100, i/100%50)
		}},
		{"substr", 10, func(i int) filter.Resolved { return resolved(p, "(cn=person number %06d*)", i%1000) }},
		{"unindexed", 10, func(i int) filter.Resolved { return resolved(p, "(description=*c%03d*)", i%1000) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				run(b, c.want, partition.Query{Base: base.ID, Scope: op.WholeSubtree, Filter: c.f(i)})
			}
		})
	}
	b.Run("onelevel", func(b *testing.B) {
		for b.Loop() {
			run(b, benchPeople, partition.Query{Base: people.ID, Scope: op.SingleLevel, Filter: filter.Const(filter.True)})
		}
	})
	b.Run("compare", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s := state.Newest(p)
			d, _ := dn.Parse(benchDN(i % benchPeople))
			at, err := s.Find(ctx, d)
			must(b, err)
			_, err = s.Compare(ctx, at.ID, "departmentNumber", []byte("d001"))
			must(b, err)
			s.Close()
		}
	})
}

// BenchmarkIntersection intersects the entries of two values. The values have 10,000 and 20,000
// entries, and 200 of these entries have both values. The sub-benchmark quiet only searches,
// and also reports the cost per returned entry. The sub-benchmark changing modifies one entry
// before each search.
func BenchmarkIntersection(b *testing.B) {
	ctx := context.Background()
	p := benchDirectory(b)
	const people, inBoth = 29800, 200
	for i := 0; i < people; i += 500 {
		must(b, update(b, p, func(tx *partition.Tx) error {
			for k := i; k < min(i+500, people); k++ {
				department, town := "A", "B"
				if k >= 10000 {
					department = "B"
				}
				if k >= 10000-inBoth {
					town = "A"
				}
				if _, err := tx.Add(ctx, name(benchDN(k)), attrs("objectClass: inetOrgPerson", "cn: x", "sn: x",
					fmt.Sprintf("uid: u%07d", k), "departmentNumber: "+department, "l: "+town), false); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	found := func(b *testing.B) {
		s := state.Newest(p)
		defer s.Close()
		base, err := s.Find(ctx, name("dc=example,dc=com"))
		must(b, err)
		n := 0
		q := partition.Query{Base: base.ID, Scope: op.WholeSubtree, Filter: resolved(p, "(&(departmentNumber=A)(l=A))")}
		for _, err := range search.Search(ctx, s, q) {
			must(b, err)
			n++
		}
		if n != inBoth {
			b.Fatalf("%d entries, want %d", n, inBoth)
		}
	}
	b.Run("quiet", func(b *testing.B) {
		for b.Loop() {
			found(b)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*inBoth), "ns/entry")
	})
	b.Run("changing", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			must(b, update(b, p, func(tx *partition.Tx) error {
				department := []string{"departmentNumber: C", "departmentNumber: A"}[i/5000%2]
				return tx.Modify(ctx, name(benchDN(i%5000)), []op.Modification{{Kind: op.ModReplace, PartialAttribute: attrs(department)[0]}})
			}))
			b.StartTimer()
			found(b)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	ctx := context.Background()
	p := benchPartition(b)
	var n atomic.Int64
	parallel := func(b *testing.B, f func(i int, tx *partition.Tx) error) {
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				i := int(n.Add(1))
				if _, err := write.Update(ctx, p, partition.By{Name: "cn=admin"}, func(tx *partition.Tx) error { return f(i, tx) }); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.Run("modify", func(b *testing.B) {
		parallel(b, func(i int, tx *partition.Tx) error {
			return tx.Modify(ctx, name(benchDN(i%benchPeople)), []op.Modification{{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{
				Description: "description", Values: [][]byte{fmt.Appendf(nil, "rev %08d", i)}}}})
		})
	})
	var added atomic.Int64
	b.Run("add", func(b *testing.B) {
		parallel(b, func(_ int, tx *partition.Tx) error {
			i := benchPeople + int(added.Add(1))
			_, err := tx.Add(ctx, name(benchDN(i)), benchPerson(i), false)
			return err
		})
	})
	var deleted atomic.Int64
	b.Run("delete", func(b *testing.B) {
		parallel(b, func(_ int, tx *partition.Tx) error {
			i := benchPeople + int(deleted.Add(1))
			if i > benchPeople+int(added.Load()) {
				return nil
			}
			return tx.Delete(ctx, name(benchDN(i)))
		})
	})
}

// BenchmarkChangedSince searches a directory of 20,000 people for the ten that changed since a
// time. "scan" is what the search did before the journal was used.
func BenchmarkChangedSince(b *testing.B) {
	ctx := context.Background()
	var ahead atomic.Int64
	p := benchDirectoryWith(b, txn.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	addBenchPeople(b, p, 20_000)
	ahead.Store(int64(time.Hour))
	since := schema.AppendTime(nil, time.Now().Add(time.Minute))
	for i := range 10 {
		must(b, modify(b, p, benchDN(i*1999), change(op.ModReplace, "title", []byte("New"))))
	}
	for _, c := range []struct{ name, filter string }{
		{"one", "(modifyTimestamp>=%[1]s)"},
		{"and", "(&(objectClass=person)(modifyTimestamp>=%[1]s))"},
		{"scan", "(&(objectClass=person)(!(!(|(modifyTimestamp>=%[1]s)(title=nobody's)))))"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := state.Newest(p)
			defer s.Close()
			base, err := s.Find(ctx, name("dc=example,dc=com"))
			must(b, err)
			q := partition.Query{Base: base.ID, Scope: op.WholeSubtree, Filter: resolved(p, c.filter, since)}
			must(b, search.Learn(ctx, s, q))
			for b.Loop() {
				n := 0
				for _, err := range search.Search(ctx, s, q) {
					must(b, err)
					n++
				}
				if n != 10 {
					b.Fatalf("%d entries", n)
				}
			}
		})
	}
}

// BenchmarkPhotos searches 1,000 people who have photos of 20 kB, with entries that are read from the store and
// with cached ones, with and without the photos.
func BenchmarkPhotos(b *testing.B) {
	ctx := context.Background()
	p := benchDirectory(b)
	const people = 1000
	photo := op.PartialAttribute{Description: "jpegPhoto", Values: [][]byte{bytes.Repeat([]byte("\xff\xd8 photo"), 20<<10/8)}}
	for i := 0; i < people; i += 100 {
		must(b, update(b, p, func(tx *partition.Tx) error {
			for k := i; k < i+100; k++ {
				if _, err := tx.Add(ctx, name(benchDN(k)), append(benchPerson(k), photo), false); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	then := p.DB.Snapshot().Max()
	for _, x := range []struct {
		what string
		of   func() *state.Snapshot
	}{
		{"cached", func() *state.Snapshot { return state.Newest(p) }},
		{"stored", func() *state.Snapshot {
			s, err := state.At(ctx, p, then)
			must(b, err)
			return s
		}},
	} {
		for _, a := range []string{"cn", "jpegPhoto"} {
			b.Run(x.what+"/"+a, func(b *testing.B) {
				for b.Loop() {
					s := x.of()
					n := 0
					q := partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: resolved(p, "(l=*)"), Only: []*schema.AttributeType{s.Schema().Attribute(a)}}
					for r, err := range search.Search(ctx, s, q) {
						must(b, err)
						if len(r.Entry.Values(q.Only[0])) == 1 {
							n++
						}
					}
					s.Close()
					if n != people {
						b.Fatal(n)
					}
				}
			})
		}
	}
}
