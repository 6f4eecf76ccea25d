package plan

import (
	"bytes"
	"context"
	"math"
	"slices"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// common is an intersection that is the root of a plan. If a part looks up a single
// value, or if a part is short (see intersection), common yields each candidate once, in
// the order of ids, and the positions are ids. A search can then continue behind a
// position on any server, whatever that server has in memory. In all other cases the
// stream has no order, and its positions are those of [once].
type common struct{ *intersection }

func (a *common) distinct() bool { return true }

func (a *common) Run(ctx context.Context, r table.Reader, after []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		if known, ok := a.fromMemory(ctx, r); ok {
			a.led = known.led
			a.yieldKnown(&known, after, yield)
			return
		}
		list, short, err := a.list(ctx, r)
		switch {
		case err != nil:
			yield(index.Candidate{}, err)
		case short:
			a.yieldSorted(list, after, yield)
		case a.value() != nil:
			a.yieldValue(ctx, r, after, yield)
		default:
			(&once{of: streamed{a.intersection}}).Run(ctx, r, after)(yield)
		}
	}
}

// streamed is an intersection in which no part is short.
type streamed struct{ *intersection }

func (a streamed) Run(ctx context.Context, r table.Reader, _ []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) { a.stream(ctx, r, yield) }
}

// value returns the first part that looks up one value, or nil if no part does. Such a
// part yields its candidates in the order of ids.
func (a *intersection) value() *lookup {
	for _, p := range a.parts {
		if l := valueOf(p); l != nil {
			return l
		}
	}
	return nil
}

// yieldValue yields the candidates of a part that looks up one value: the first one, or the one whose list
// seems to be the shortest. The caller must test the entries of these candidates for the other parts.
func (a *common) yieldValue(ctx context.Context, r table.Reader, after []byte, yield func(index.Candidate, error) bool) {
	l, least := a.value(), a.leastDensity()
	for _, p := range a.parts {
		if o := valueOf(p); o != nil && o.head != nil && densityOf(o.head.set) == least {
			l = o
		}
	}
	a.led = l
	if len(after) > 0 {
		after = append(index.AppendKey(nil, l.test.Key), after...)
	}
	for c, err := range l.Run(ctx, r, after) {
		a.seen++
		c.Maybe, c.Position = true, c.ID[:]
		if !yield(c, err) || err != nil {
			return
		}
	}
}

func (a *common) yieldKnown(m *inMemory, after []byte, yield func(index.Candidate, error) bool) {
	first := m.sets[0]
	index.Common(m.sets, first.Behind(after), func(i int) bool {
		a.seen++
		id := first.ID(i)
		return yield(index.Candidate{ID: id, Parent: first.Parent(i), Maybe: m.maybe, Position: id[:]}, nil)
	})
}

func (a *common) yieldSorted(list []index.Candidate, after []byte, yield func(index.Candidate, error) bool) {
	slices.SortFunc(list, func(x, y index.Candidate) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	for i := 0; i < len(list); i++ {
		c := list[i]
		for i+1 < len(list) && list[i+1].ID == c.ID {
			i++
			c.Maybe = c.Maybe || list[i].Maybe
		}
		if bytes.Compare(c.ID[:], after) <= 0 {
			continue
		}
		a.seen++
		c.Position = c.ID[:]
		if !yield(c, nil) {
			return
		}
	}
}

// inMemory describes the parts of an intersection whose candidates are in memory.
type inMemory struct {
	sets  []*index.Set // the shortest is first
	led   Access       // the part with the shortest set
	maybe bool         // a candidate that is in all sets need not match the filter
}

// fromMemory returns the parts that are in memory. If the parts in memory have more than
// firstPage candidates in common, fromMemory first reads every other part that looks up one
// value and is about as short as the shortest part in memory. The parts that it reads are in
// memory then, too. ok is false if no part is in memory. The caller must test the entries for
// the parts that are not in memory.
func (a *intersection) fromMemory(ctx context.Context, r table.Reader) (m inMemory, ok bool) {
	m, unknown := a.known(ctx, r)
	if len(m.sets) == 0 {
		return m, false
	}
	if len(unknown) == 0 || m.atMost(firstPage) {
		return m, true
	}
	readAlike(ctx, r, unknown, m.sets[0])
	m, _ = a.known(ctx, r)
	return m, len(m.sets) > 0
}

// Known returns the candidates of an access that looks up one value, if they are in memory. It also returns the
// row of the value, with which their positions begin, and whether they must be tested.
func Known(ctx context.Context, r table.Reader, a Access, row []byte) (set *index.Set, position []byte, maybe bool) {
	l := valueOf(a)
	if l == nil || l.head != nil {
		return nil, row, false
	}
	if set, _ = l.known(ctx, r, math.MaxInt); set != nil {
		row = index.AppendKey(row, l.test.Key)
	}
	return set, row, l.maybe
}

// The method "known" returns the parts that are in memory. The result unknown contains the
// parts that look up one value and are not in memory.
func (a *intersection) known(ctx context.Context, r table.Reader) (m inMemory, unknown []*lookup) {
	m.maybe = !a.whole
	upTo := math.MaxInt
	for _, p := range a.parts {
		l := valueOf(p)
		if l == nil {
			m.maybe = true
			continue
		}
		set, ok := l.known(ctx, r, upTo)
		if !ok {
			m.maybe = true
			unknown = append(unknown, l)
			continue
		}
		m.maybe = m.maybe || l.maybe
		m.sets = append(m.sets, set)
		if last := len(m.sets) - 1; last == 0 || set.Len() < m.sets[0].Len() {
			m.led = p
			m.sets[0], m.sets[last] = m.sets[last], m.sets[0]
			upTo = staleUpTo * set.Len()
		}
	}
	return m, unknown
}

// readAlike reads each lookup in unknown that is not known to have more than alikeUpTo times as many
// entries as the shortest set. It stops reading a lookup that has more. The entries of the other lookups
// are in memory afterwards. Parts that cannot be read are tested on the entries.
func readAlike(ctx context.Context, r table.Reader, unknown []*lookup, shortest *index.Set) {
	most := alikeUpTo * shortest.Len()
	var first, rest []want
	for _, l := range unknown {
		if l.longer(most) {
			continue
		}
		if l.head != nil {
			first = append(first, want{l.head, min(most, firstHead) + 1})
			continue
		}
		n := 0
		for _, err := range l.Run(ctx, r, nil) {
			if n++; err != nil || n > most {
				break
			}
		}
	}
	if readTogether(ctx, r, first) != nil {
		return
	}
	for _, l := range unknown {
		switch {
		case l.head == nil || !l.head.more || l.longer(most):
		case shortest.Len() >= firstHead && densityOf(l.head.set) > alikeUpTo*densityOf(shortest):
			l.noteLonger(most)
		default:
			rest = append(rest, want{l.head, most + 1})
		}
	}
	_ = readTogether(ctx, r, rest)
}

func (m *inMemory) atMost(n int) bool {
	index.Common(m.sets, 0, func(int) bool { n--; return n >= 0 })
	return n >= 0
}

// isValue reports whether the lookup is for a single value.
func (a *lookup) isValue() bool {
	return (a.order == rankFew || a.order == rankSome) && a.test.Op != filter.TestPresent
}

// The method "known" returns the entries of the value, if they are in memory.
func (a *lookup) known(ctx context.Context, r table.Reader, upTo int) (*index.Set, bool) {
	if a.head != nil && !a.head.more {
		a.seen += a.head.set.Len()
		return a.head.set, true
	}
	m, ok := a.in.(index.Memory)
	if !ok {
		return nil, false
	}
	set, ok := m.Known(ctx, r, a.test.Key, upTo)
	if ok {
		a.seen += set.Len()
	}
	return set, ok
}
