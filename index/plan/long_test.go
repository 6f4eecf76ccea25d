package plan_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/index/plan"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A list is an index with one value. It counts the entries that are read.
type list struct {
	*fake
	id   func(i int) entry.ID // ascending
	n    int
	read int
	// The index may remember that the value has more entries, or the entries.
	more int
	set  *index.Set
}

func (x *list) Head(_ context.Context, _ table.Reader, _ []byte, set *index.Set, n int) (bool, error) {
	for set.Len() < min(n, x.n) {
		set.Append(x.id(set.Len()), entry.ID{})
		x.read++
	}
	if set.Len() < n {
		x.set = set
		return false, nil
	}
	x.NoteLonger(nil, set.Len()-1)
	return true, nil
}

func (x *list) Equal(_ context.Context, _ table.Reader, key, after []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		for i := range x.n {
			id := x.id(i)
			position := append(index.AppendKey(nil, key), id[:]...)
			if bytes.Compare(position, after) <= 0 {
				continue
			}
			if x.read++; !yield(index.Candidate{ID: id, Position: position}, nil) {
				return
			}
		}
	}
}

func (x *list) Known(context.Context, table.Reader, []byte, int) (*index.Set, bool) {
	return x.set, x.set != nil
}
func (x *list) Longer(_ []byte, n int) bool { return x.set == nil && x.more > n }
func (x *list) NoteLonger(_ []byte, n int)  { x.more = max(x.more, n+1) }
func (x *list) forget()                     { x.more, x.set = 0, nil }

// lists is a catalog of lists.
type lists map[*schema.AttributeType]*list

func (ls lists) Indexed(t *schema.AttributeType) (index.Index, bool) {
	x, ok := ls[t]
	return x, ok
}

// spread returns random ids in order: the i-th of n in a part of all ids.
func spread(n int, part uint64) func(int) entry.ID {
	step := part / uint64(n)
	return func(i int) (id entry.ID) {
		r := rand.New(rand.NewPCG(uint64(n), uint64(i))).Uint64()
		binary.BigEndian.PutUint64(id[:], uint64(i)*step+r%step)
		return id
	}
}

// sampled returns ids that are each k-th of others.
func sampled(of func(int) entry.ID, k int) func(int) entry.ID {
	return func(i int) entry.ID { return of(i * k) }
}

const everywhere = 1<<64 - 1

// TestLongLists counts what plans with Lists read of lists of very different lengths: a page of the longer
// one, if the shorter one has up to 8,192 entries, and less than a tenth of the shorter one otherwise.
// Where ids say nothing about lengths, the shortest list still bounds what is read.
func TestLongLists(t *testing.T) {
	million := spread(1_000_000, everywhere)
	for _, c := range []struct {
		what                string
		long                func(int) entry.ID
		length              int
		short               func(int) entry.ID
		shorter             int
		mostLong, mostShort int
	}{
		{"a million and 100", million, 1_000_000, sampled(million, 10_000), 100, 513, 100},
		{"a million and 2,000", million, 1_000_000, sampled(million, 500), 2_000, 513, 2_000},
		{"a million and 8,000", million, 1_000_000, sampled(million, 125), 8_000, 513, 8_000},
		{"a million and 25,000", million, 1_000_000, sampled(million, 40), 25_000, 2_049, 25_000},
		{"lists of about the same length", spread(5_000, everywhere), 5_000, sampled(spread(5_000, everywhere), 2), 2_500, 5_000, 2_500},
		{"the short list has the first ids", spread(100_000, everywhere), 100_000, spread(600, everywhere>>12), 600, 40_000, 600},
		{"all ids are close together", spread(500_000, everywhere>>20), 500_000, sampled(spread(500_000, everywhere>>20), 250), 2_000, 513, 2_000},
	} {
		t.Run(c.what, func(t *testing.T) {
			long := &list{fake: &fake{selective: true}, id: c.long, n: c.length}
			short := &list{fake: &fake{}, id: c.short, n: c.shorter}
			w := lists{core.Attribute("sn"): long, core.Attribute("l"): short}
			f := filter.Definite(filter.Resolve(filter.MustParse("(&(sn=long)(l=short))"), core))
			run := func(what string, mostLong, mostShort int) {
				t.Helper()
				long.read, short.read = 0, 0
				found, last := 0, entry.ID{}
				for x, err := range plan.Build(f, w, &plan.Lists{}).Run(t.Context(), nil, nil) {
					if err != nil || found > 0 && x.ID.Compare(last) <= 0 || !x.Maybe && mostLong <= 513 {
						t.Fatalf("candidate %d, %v, behind %v: %v", found, x, last, err)
					}
					found, last = found+1, x.ID
				}
				t.Logf("%s: %d candidates, %d of the long list and %d of the short one read", what, found, long.read, short.read)
				if long.read > mostLong || short.read > mostShort {
					t.Errorf("%s: %d of the long list read, want at most %d; %d of the short one, want at most %d", what, long.read, mostLong, short.read, mostShort)
				}
				if found > c.shorter {
					t.Errorf("%s: %d candidates", what, found)
				}
			}
			run("first", c.mostLong, c.mostShort)
			if c.shorter > 512 && c.mostLong < 5_000 {
				run("again", 0, 0)
				long.forget()
				run("with the short list in memory", 513, 0)
				short.forget()
				run("with a note", c.mostLong, c.mostShort)
			}
		})
	}
}

// TestLongestLists streams one of two lists that are too long to be read: the shorter one.
func TestLongestLists(t *testing.T) {
	defer plan.SetLongestValue(2048)()
	ids := spread(1_000_000, everywhere)
	long := &list{fake: &fake{selective: true}, id: ids, n: 1_000_000}
	short := &list{fake: &fake{}, id: sampled(ids, 200), n: 5_000}
	f := filter.Definite(filter.Resolve(filter.MustParse("(&(sn=long)(l=short))"), core))
	found := 0
	for _, err := range plan.Build(f, lists{core.Attribute("sn"): long, core.Attribute("l"): short}, &plan.Lists{}).Run(t.Context(), nil, nil) {
		if found++; err != nil {
			t.Fatal(err)
		}
	}
	if found != short.n || long.read > 513 || short.read != short.n {
		t.Errorf("%d candidates; %d of the long list and %d of the short one read", found, long.read, short.read)
	}
}

// TestDensities compares what plans find in random lists, as far as they are known and from where a search
// continues, with the lists.
func TestDensities(t *testing.T) {
	defer plan.SetFirstHead(8)()
	defer plan.SetLongestValue(256)()
	types := []*schema.AttributeType{core.Attribute("sn"), core.Attribute("l"), core.Attribute("cn")}
	f := filter.Definite(filter.Resolve(filter.MustParse("(&(sn=x)(l=x)(cn=x))"), core))
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w, in := lists{}, map[entry.ID]int{}
		all := spread(1000, everywhere)
		if r.IntN(4) == 0 {
			all = spread(1000, everywhere>>r.IntN(40))
		}
		for _, typ := range types {
			var ids []entry.ID
			from, to, share := 0, 1000, 1<<r.IntN(8)
			if r.IntN(3) == 0 {
				from = r.IntN(1000)
				to = from + r.IntN(1000-from)
			}
			for i := from; i < to; i++ {
				if id := all(i); r.IntN(share) == 0 {
					ids = append(ids, id)
					in[id]++
				}
			}
			w[typ] = &list{fake: &fake{selective: r.IntN(2) == 0}, id: func(i int) entry.ID { return ids[i] }, n: len(ids)}
		}
		var want []entry.ID
		for id, n := range in {
			if n == len(types) {
				want = append(want, id)
			}
		}
		slices.SortFunc(want, entry.ID.Compare)
		var after []byte
		for range 4 {
			for _, x := range w {
				if r.IntN(2) == 0 {
					x.forget()
				}
			}
			l := &plan.Lists{}
			if r.IntN(2) == 0 { // an estimate
				for range plan.Build(f, w, l).Run(t.Context(), nil, nil) {
					if r.IntN(20) == 0 {
						break
					}
				}
			}
			var got []entry.ID
			for c, err := range plan.Build(f, w, l).Run(t.Context(), nil, after) {
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case in[c.ID] == len(types):
					got = append(got, c.ID)
				case !c.Maybe:
					t.Fatalf("seed %d: %v is said to match", seed, c.ID)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: %d found behind %x, want %d", seed, len(got), after, len(want))
			}
			if len(want) > 0 {
				i := r.IntN(len(want))
				after, want = want[i][:], want[i+1:]
			}
		}
	}
}
