package plan

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	firstPage = 64    // candidates of each part in the first page
	pageGrows = 4     // factor by which pages grow
	lastPage  = 16384 // largest page of a part that does not look up one value
	// another part is read if it is at most this many times as long as the shortest
	alikeUpTo = 4
	// an outdated set is updated if it is at most this many times as long as the shortest
	staleUpTo = 64
	// of a list that seems much longer than another, this many times fewer candidates are read
	denseLags = 16
)

// longestValue is the number of candidates in the largest page of a part that looks up
// one value. The index keeps the entries of such a value in memory. While a page of this
// size is read, it occupies 16 MiB. longestValue is a variable so that tests can change
// it.
var longestValue = 1 << 18

// An intersection yields at least the candidates that all parts yield. It marks a candidate
// Maybe if it has not read all parts, or if the parts do not cover the whole filter. A part is
// short if the largest page that is read of the part contains all candidates of the part.
type intersection struct {
	parts []Access // cheapest kind first
	whole bool     // the parts cover the whole filter
	lists *Lists   // nil if reads are not round trips
	root  bool     // short lists are sorted by id, so that it does not matter which parts were read
	byID  bool     // all candidates are sorted by id
	seen  int
	led   Access // the leading part, for Describe
}

func (a *intersection) sort() {
	slices.SortStableFunc(a.parts, func(x, y Access) int { return int(x.rank()) - int(y.rank()) })
}

func (a *intersection) rank() rank { return a.parts[0].rank() }

func (a *intersection) distinct() bool { return false }

// Run streams the candidates of the shortest part, without those that are missing in another
// part that was read to its end. If no part is short, Run streams the first part.
func (a *intersection) Run(ctx context.Context, r table.Reader, _ []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		list, short, err := a.list(ctx, r)
		if err != nil {
			yield(index.Candidate{}, err)
			return
		}
		if !short {
			a.stream(ctx, r, yield)
			return
		}
		for _, c := range list {
			a.seen++
			if !yield(c, nil) {
				return
			}
		}
	}
}

// list reads the shortest part and, if that part has more than one candidate, all other parts
// of about the same length. It returns the candidates that are in each of these parts (see
// narrow). If no part is short, list returns false. The caller must then stream one part and
// mark its candidates Maybe.
func (a *intersection) list(ctx context.Context, r table.Reader) (list []index.Candidate, short bool, err error) {
	lead, list, err := a.shortest(ctx, r)
	if err != nil || lead < 0 {
		return nil, false, err
	}
	a.led = a.parts[lead]
	list, whole, err := a.narrow(ctx, r, lead, list)
	for i := range list {
		list[i].Maybe = list[i].Maybe || !whole
	}
	return list, true, err
}

// shortest reads the parts in turn, in growing pages, until one part ends. It returns the
// index of that part, or -1 if no part ends.
func (a *intersection) shortest(ctx context.Context, r table.Reader) (int, []index.Candidate, error) {
	first := firstPage
	if a.lists != nil {
		first = firstHead
	}
	for n := first; ; n *= pageGrows {
		// One candidate more shows whether a list ends.
		share := a.shares(n)
		if err := readTogether(ctx, r, wantsOf(a.parts, n > first || !a.ends(), share)); err != nil {
			return -1, nil, err
		}
		for i, p := range a.parts {
			if n == firstPage && i > 0 && p.rank() > rankSome && a.parts[0].rank() <= rankSome {
				continue // read the parts that look up one value first: they are likely to end soon
			}
			size, most := min(n, lastPage), lastPage
			if l := valueOf(p); l != nil {
				size, most = cmp.Or(share(l), min(n, longestValue)), longestValue
			}
			if n > first && n/pageGrows >= most || a.skips(p, size) {
				continue // it does not end, or the largest page was read before
			}
			list, ended, err := collect(ctx, r, p, size)
			if err != nil || ended {
				return i, list, err
			}
		}
		if n >= longestValue {
			return -1, nil, nil
		}
	}
}

// shares returns how many candidates of each value are read when n of the shortest one are read: none of
// one that was longer when it was last read; and of one that is read now, so many that its density shows.
// Of a list that seems much longer than another, few are read. But where densities say nothing and that
// list is the shortest, it is found to be. An intersection without byID reads all lists alike.
func (a *intersection) shares(n int) func(*lookup) int {
	n = min(n, longestValue)
	least := a.leastDensity()
	return func(l *lookup) int {
		switch {
		case l.head == nil:
			return n
		case l.longer(n):
			return 0
		case n <= firstHead || !a.byID || !l.head.more:
			return n
		case l.head.set.Len() < firstHead:
			return firstHead
		case densityOf(l.head.set) > alikeUpTo*least:
			return max(n/denseLags, firstHead)
		}
		return n
	}
}

// leastDensity returns the density of the list that seems to be the shortest.
func (a *intersection) leastDensity() float64 {
	least := math.Inf(1)
	for _, p := range a.parts {
		if l := valueOf(p); l != nil && l.head != nil {
			if d := densityOf(l.head.set); d > 0 {
				least = min(least, d)
			}
		}
	}
	return least
}

// ends reports whether a part looks up a value that probably has few entries: then no range is needed.
func (a *intersection) ends() bool {
	l := valueOf(a.parts[0])
	return l != nil && l.order == rankFew && !l.longer(firstHead)
}

// skips reports whether a part has more than n candidates. It reads nothing, and returns false if
// that is not known. If byID is set, what an earlier search has read is good enough, although the
// part may have changed since.
func (a *intersection) skips(p Access, n int) bool {
	l := valueOf(p)
	return l != nil && l.head != nil && (l.head.set.Len() > n || a.byID && l.longer(n))
}

// valueOf returns an access as a lookup if it looks up one value, and nil otherwise.
func valueOf(a Access) *lookup {
	if l, ok := a.(*lookup); ok && l.isValue() {
		return l
	}
	return nil
}

func (a *intersection) stream(ctx context.Context, r table.Reader, yield func(index.Candidate, error) bool) {
	a.led = a.parts[0]
	for c, err := range a.led.Run(ctx, r, nil) {
		a.seen++
		c.Maybe = true
		if !yield(c, err) || err != nil {
			return
		}
	}
}

// narrow removes from list the candidates that are missing in other parts. From each other part
// it reads at most alikeUpTo times as many candidates as list contains. If a part has more,
// narrow ignores the part. The second result reports whether all remaining candidates that are
// not marked Maybe match the filter.
func (a *intersection) narrow(ctx context.Context, r table.Reader, lead int, list []index.Candidate) ([]index.Candidate, bool, error) {
	whole := a.whole
	for i, p := range a.parts {
		if i == lead || len(list) == 0 {
			continue
		}
		if len(list) == 1 {
			whole = false // testing one entry is cheaper than reading a list
			continue
		}
		most := alikeUpTo * len(list)
		if a.lists != nil && len(list) <= firstHead {
			// Testing the entries takes one or two round trips, so only the parts that have
			// been read are used.
			if most = firstHead; valueOf(p) == nil && !(a.root && isRead(p)) {
				whole = false
				continue
			}
		}
		if a.skips(p, most) || a.dense(p, most) {
			whole = false
			continue
		}
		other, ended, err := collect(ctx, r, p, most)
		if err != nil {
			return nil, false, err
		}
		if !ended {
			whole = false
			continue
		}
		list = keep(list, other)
	}
	return list, whole, nil
}

// dense reports whether a part that was not read to its end seems to have more than most candidates, which
// are alikeUpTo times as many as the shortest list has. The index remembers it.
func (a *intersection) dense(p Access, most int) bool {
	l := valueOf(p)
	if l == nil || l.head == nil || !a.byID || !l.head.more || densityOf(l.head.set) <= alikeUpTo*a.leastDensity() {
		return false
	}
	l.noteLonger(most)
	return true
}

// isRead reports whether a part is a range whose candidates were all read.
func isRead(a Access) bool {
	l := lookupOf(a)
	return l != nil && l.ranged != nil && !l.ranged.more
}

// keep returns the candidates that are in both lists.
func keep(list, other []index.Candidate) []index.Candidate {
	in := make(map[entry.ID]bool, len(other)) // maps an id to its candidate's Maybe
	for i := range other {
		in[other[i].ID] = other[i].Maybe || in[other[i].ID]
	}
	kept := list[:0]
	for _, c := range list {
		if maybe, ok := in[c.ID]; ok {
			c.Maybe = c.Maybe || maybe
			kept = append(kept, c)
		}
	}
	return kept
}

// collect reads up to n candidates of an access and reports whether there are no more.
func collect(ctx context.Context, r table.Reader, a Access, n int) (list []index.Candidate, ended bool, err error) {
	if l := lookupOf(a); l != nil && l.ranged != nil {
		if err := l.ranged.read(ctx, r, n+1); err != nil {
			return nil, false, err
		}
	}
	for c, err := range a.Run(ctx, r, nil) {
		if err != nil {
			return nil, false, err
		}
		if len(list) == n {
			return list, false, nil
		}
		c.Position = nil
		list = append(list, c)
	}
	return list, true, nil
}

func (a *intersection) Describe(b *strings.Builder, indent int, counted bool) {
	line(b, indent, "all of%s", yielded(a.seen, counted))
	for _, p := range a.parts {
		if p == a.led {
			line(b, indent+1, "leading:")
		}
		p.Describe(b, indent+1, counted)
	}
}

func (a *intersection) Indexes(uses []Use) []Use {
	if a.led != nil {
		return a.led.Indexes(uses)
	}
	return a.parts[0].Indexes(uses)
}

// The type once is an access that runs another access, and drops the candidates that it has
// already yielded. A candidate's position is its number in the stream. To continue behind a
// position, it runs the other access again from the start and skips that many candidates
// without reading their entries. At one revision the other access yields the same candidates in
// the same order.
type once struct{ of Access }

func (a *once) Run(ctx context.Context, r table.Reader, after []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		skip, _ := binary.Uvarint(after)
		seen := map[entry.ID]struct{}{}
		var position []byte
		for c, err := range a.of.Run(ctx, r, nil) {
			if err == nil {
				if _, again := seen[c.ID]; again {
					continue
				}
				seen[c.ID] = struct{}{}
				if uint64(len(seen)) <= skip {
					continue
				}
				position = binary.AppendUvarint(position[:0], uint64(len(seen)))
				c.Position = position
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

func (a *once) rank() rank     { return a.of.rank() }
func (a *once) distinct() bool { return true }

func (a *once) Describe(b *strings.Builder, indent int, counted bool) {
	a.of.Describe(b, indent, counted)
}

func (a *once) Indexes(uses []Use) []Use { return a.of.Indexes(uses) }
