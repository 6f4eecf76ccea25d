package partition_test

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
)

// counted is a directory on an embedded store that counts the keys it reads and writes.
type counted struct {
	*testing.T
	p *partition.Partition
	s *lsm.Store
}

func newCounted(t *testing.T, cache int64) counted {
	ctx := context.Background()
	s, err := lsm.Open(lsm.Options{Path: "/db", FS: vfs.NewMem()})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	p, err := partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged, Cache: cache})
	must(t, err)
	t.Cleanup(func() { p.Close(ctx) })
	must(t, onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}))
	must(t, add(t, p, "dc=example,dc=com", "objectClass: organization", "objectClass: dcObject", "o: Example"))
	return counted{t, p, s}
}

const noCache = 1 // a cache of one byte, which keeps nothing

// The method "touched" returns the number of keys that f reads and writes, plus the number of
// seeks.
func (c counted) touched(f func()) int64 {
	c.Helper()
	before := c.s.Metrics()
	f()
	after := c.s.Metrics()
	return after.KeysRead - before.KeysRead + after.Seeks - before.Seeks + after.KeysWritten - before.KeysWritten
}

func (c counted) modify(dn string, kind op.ModKind, line string) {
	c.Helper()
	must(c, update(c, c.p, func(tx *partition.Tx) error {
		return tx.Modify(context.Background(), name(dn), []op.Modification{{Kind: kind, PartialAttribute: attrs(line)[0]}})
	}))
}

// within fails if large exceeds small by more than a quarter of small plus four keys. The four
// keys allow for an additional level in the store's tree.
func (c counted) within(what string, small, large int64) {
	c.Helper()
	c.Logf("%s: %d keys small, %d large", what, small, large)
	if large > small+small/4+4 {
		c.Errorf("%s touches %d keys where it was large, %d where it was small", what, large, small)
	}
}

// TestVersionsCostReadsNothing checks that finding and reading an entry with 10,000 retained
// versions touches about as many keys as finding and reading an entry with a single version.
func TestVersionsCostReadsNothing(t *testing.T) {
	c := newCounted(t, noCache)
	for _, n := range []string{"one", "many"} {
		must(t, add(t, c.p, "cn="+n+",dc=example,dc=com", "objectClass: person", "sn: Person"))
	}
	for i := range 10000 {
		c.modify("cn=many,dc=example,dc=com", op.ModReplace, fmt.Sprintf("description: version %d", i))
	}
	now := state.Newest(c.p)
	defer now.Close()
	// A state that was requested by its revision is read without the caches.
	s, err := state.At(context.Background(), c.p, now.Revision())
	must(t, err)
	defer s.Close()
	read := func(n string) int64 {
		return c.touched(func() {
			at, err := s.Find(context.Background(), name("cn="+n+",dc=example,dc=com"))
			must(t, err)
			e, err := s.Entry(context.Background(), at.ID, false)
			must(t, err)
			if e == nil || e.ID != at.ID {
				t.Fatalf("no entry %s", n)
			}
		})
	}
	c.within("base read", read("one"), read("many"))
}

var largeGroup = flag.Int("members", 100_000, "members of the large group of TestMembersCostNothing")

// TestMembersCostNothing checks that adding a member to a large group, comparing one, or asking for one
// in the filter of a search of the group touches about as many keys as in a group of 1,000 members.
func TestMembersCostNothing(t *testing.T) {
	t.Parallel()
	// The cache has room to record that an entry is wide (see state.MaxColumns), but not for
	// the values of the entry.
	c := newCounted(t, 1<<20)
	sizes := map[string]int{"small": 1000, "large": *largeGroup}
	member := func(i int) string { return fmt.Sprintf("uid=u%07d,ou=people,dc=example,dc=com", i) }
	counts := map[string][3]int64{}
	for g, n := range sizes {
		group := "cn=" + g + ",dc=example,dc=com"
		c.group(group, n, member)
		key := "member: " + member(n+1)
		c.modify(group, op.ModAdd, "member: "+member(n)) // warm up
		adding := c.touched(func() { c.modify(group, op.ModAdd, key) })
		testing := c.touched(func() {
			s := state.Newest(c.p)
			defer s.Close()
			at, err := s.Find(context.Background(), name(group))
			must(t, err)
			in, err := s.Compare(context.Background(), at.ID, "member", []byte(member(n+1)))
			must(t, err)
			if !in {
				t.Error("the member is not there")
			}
		})
		asking := c.touched(func() {
			s := state.Newest(c.p)
			defer s.Close()
			at, err := s.Find(context.Background(), name(group))
			must(t, err)
			for text, want := range map[string]int{
				"(member=" + member(n+1) + ")": 1, "(member=" + member(n+2) + ")": 0,
				"(&(objectClass=groupOfNames)(!(member=" + member(n+2) + ")))": 1, "(&(member=" + member(1) + ")(hasSubordinates=FALSE))": 1,
			} {
				q := partition.Query{Base: at.ID, Scope: op.BaseObject, Only: []*schema.AttributeType{}, Filter: filter.Resolve(filter.MustParse(text), s.Schema())}
				found := 0
				for _, err := range search.Search(context.Background(), s, q) {
					must(t, err)
					found++
				}
				if found != want {
					t.Errorf("%s: %d found, want %d", text, found, want)
				}
			}
		})
		counts[g] = [3]int64{adding, testing, asking}
	}
	c.within("asking for a member", counts["small"][2], counts["large"][2])
	c.within("adding a member", counts["small"][0], counts["large"][0])
	c.within("testing a member", counts["small"][1], counts["large"][1])
}

// group adds a group of n members in a load, because one commit of a million values would
// take too long.
func (c counted) group(dn string, n int, member func(int) string) {
	c.Helper()
	ctx := context.Background()
	a := op.PartialAttribute{Description: "member"}
	for i := range n {
		a.Values = append(a.Values, []byte(member(i)))
	}
	l, err := load.Load(ctx, c.p, load.Options{})
	must(c, err)
	must(c, l.Add(ctx, name(dn), append(attrs("objectClass: groupOfNames"), a)))
	_, err = l.Commit(ctx)
	must(c, err)
}

// TestMovesCostNothing checks that moving an entry with 100,000 entries below it touches about
// as many keys as moving an entry with a few entries below it.
func TestMovesCostNothing(t *testing.T) {
	t.Parallel()
	c := newCounted(t, noCache)
	ctx := context.Background()
	sizes := map[string]int{"few": 3, "many": 20000}
	l, err := load.Load(ctx, c.p, load.Options{})
	must(t, err)
	for _, ou := range []string{"ou=to,dc=example,dc=com", "ou=few,dc=example,dc=com", "ou=many,dc=example,dc=com"} {
		must(t, l.Add(ctx, name(ou), attrs("objectClass: organizationalUnit")))
	}
	for g, n := range sizes {
		for i := range n {
			must(t, l.Add(ctx, name(fmt.Sprintf("cn=e%d,ou=%s,dc=example,dc=com", i, g)), attrs("objectClass: person", "sn: P")))
		}
	}
	_, err = l.Commit(ctx)
	must(t, err)
	to := name("ou=to,dc=example,dc=com")
	move := func(g string) int64 {
		return c.touched(func() {
			must(t, update(t, c.p, func(tx *partition.Tx) error {
				return tx.Rename(ctx, name("ou="+g+",dc=example,dc=com"), dn.RDN{{Type: "ou", Value: []byte(g)}}, false, &to)
			}))
		})
	}
	few, many := move("few"), move("many")
	c.within("moving a subtree", few, many)
	at := fmt.Sprintf("cn=e%d,ou=many,ou=to,dc=example,dc=com", sizes["many"]-1)
	if got := searched(t, c.p, "ou=many,ou=to,dc=example,dc=com", op.WholeSubtree, fmt.Sprintf("(cn=e%d)", sizes["many"]-1)); len(got) != 1 || got[0] != at {
		t.Errorf("after the move: %q", got)
	}
}

// TestFindingGroupsCostsNoMembers searches for the groups of a member without reading
// attributes. It checks that the number of keys that the search touches does not grow with the
// number of members.
func TestFindingGroupsCostsNoMembers(t *testing.T) {
	c := newCounted(t, 1<<20)
	c.group("cn=few,dc=example,dc=com", 3, func(i int) string { return fmt.Sprintf("uid=f%d,dc=example,dc=com", i) })
	c.group("cn=many,dc=example,dc=com", 30000, func(i int) string { return fmt.Sprintf("uid=m%d,dc=example,dc=com", i) })
	find := func(member string) int64 {
		return c.touched(func() {
			s := state.Newest(c.p)
			defer s.Close()
			q := partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Only: []*schema.AttributeType{},
				Filter: filter.Resolve(filter.MustParse("(member="+member+")"), s.Schema())}
			n := 0
			for _, err := range search.Search(context.Background(), s, q) {
				must(t, err)
				n++
			}
			if n != 1 {
				t.Errorf("%s is in %d groups", member, n)
			}
		})
	}
	few, many := find("uid=f1,dc=example,dc=com"), find("uid=m1,dc=example,dc=com")
	// The search reads 512 cells to find out that the group is wide (see state.MaxColumns).
	c.within("finding a group", few+520, many)
}

// TestRangesCostTheirValues reads the values of a group range by range. It checks that each
// value is returned once, and that the last range does not touch many more keys than the first
// range.
func TestRangesCostTheirValues(t *testing.T) {
	c := newCounted(t, 1<<20)
	ctx := context.Background()
	const n, size = 30000, 1500
	c.group("cn=all,dc=example,dc=com", n, func(i int) string { return fmt.Sprintf("uid=u%07d,ou=people,dc=example,dc=com", i) })
	s := state.Newest(c.p)
	defer s.Close()
	at, err := s.Find(ctx, name("cn=all,dc=example,dc=com"))
	must(t, err)
	member := c.p.Schema().Attribute("member")
	seen := map[string]bool{}
	var first, last int64
	for from := 0; from < n; from += size {
		last = c.touched(func() {
			values, more, err := s.ValueRange(ctx, at.ID, member, "", from, size)
			must(t, err)
			if len(values) != size || more != (from+size < n) {
				t.Fatalf("from %d: %d values, more %v", from, len(values), more)
			}
			for _, v := range values {
				seen[string(v)] = true
			}
		})
		if from == 0 {
			first = last
		}
	}
	if len(seen) != n {
		t.Errorf("%d values, want %d", len(seen), n)
	}
	// to find the range, a read counts up to a thousand values (see cache.RangeSteps)
	c.within("a range of values", first+1000, last)
	// Ranges can be read from any position, in any order. A range behind the last value
	// is empty.
	for _, from := range []int{29999, 12345, 0, 30000, 99999} {
		values, more, err := state.Newest(c.p).ValueRange(ctx, at.ID, member, "", from, 1)
		must(t, err)
		if len(values) != min(1, max(n-from, 0)) || more != (from+1 < n) {
			t.Errorf("at %d: %q, more %v", from, values, more)
		}
	}
}
