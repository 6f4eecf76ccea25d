package plan

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// common is an intersection that is a whole plan: its candidates come once and in
// the order of their ids, which are their positions. So a search goes on behind one
// whatever is in memory then, on this server or on another. Only where no part is
// short it is a stream without an order, and positions are those of [once].
type common struct{ *intersection }

func (a *common) distinct() bool { return true }

func (a *common) Run(ctx context.Context, r txn.Reader, after []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		if known, ok := a.fromMemory(r); ok {
			a.led = known.led
			a.yieldLinks(&known, after, yield)
			return
		}
		list, short, err := a.list(ctx, r)
		switch {
		case err != nil:
			yield(index.Candidate{}, err)
		case short:
			a.yieldSorted(list, after, yield)
		default:
			(&once{of: streamed{a.intersection}}).Run(ctx, r, after)(yield)
		}
	}
}

// streamed is an intersection none of whose parts is short.
type streamed struct{ *intersection }

func (a streamed) Run(ctx context.Context, r txn.Reader, _ []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) { a.stream(ctx, r, yield) }
}

func (a *common) yieldLinks(m *inMemory, after []byte, yield func(index.Candidate, error) bool) {
	for l := range m.links(after) {
		a.seen++
		if !yield(index.Candidate{ID: l.ID, Parent: l.Parent, Maybe: m.maybe, Position: l.ID[:]}, nil) {
			return
		}
	}
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

// inMemory are the parts of an intersection whose entries are in memory.
type inMemory struct {
	lists [][]index.Link // the shortest first
	led   Access         // what has it
	maybe bool           // the lists do not decide the filter
}

// fromMemory gives the parts that are in memory, if they are all, or have so few
// entries in common that these are sooner tested than another part is read.
func (a *intersection) fromMemory(r txn.Reader) (m inMemory, ok bool) {
	m.maybe = !a.whole
	for _, p := range a.parts {
		l, isLookup := p.(*lookup)
		var list []index.Link
		if isLookup {
			list, isLookup = l.links(r)
		}
		if !isLookup {
			m.maybe = true
			continue
		}
		m.maybe = m.maybe || l.maybe
		m.lists = append(m.lists, list)
		if last := len(m.lists) - 1; len(list) < len(m.lists[0]) || last == 0 {
			m.led = p
			m.lists[0], m.lists[last] = m.lists[last], m.lists[0]
		}
	}
	if len(m.lists) == 0 || len(m.lists[0]) > lastPage { // longer ones are streamed
		return m, false
	}
	return m, len(m.lists) == len(a.parts) || m.atMost(firstPage)
}

func (m *inMemory) atMost(n int) bool {
	for range m.links(nil) {
		if n--; n < 0 {
			return false
		}
	}
	return true
}

// links yields what all lists have behind an id, by leaps through the longer ones.
func (m *inMemory) links(after []byte) iter.Seq[*index.Link] {
	return func(yield func(*index.Link) bool) {
		first, rest := m.lists[0], slices.Clone(m.lists[1:])
	next:
		for i := range first {
			l := &first[i]
			if bytes.Compare(l.ID[:], after) <= 0 {
				continue
			}
			for k := range rest {
				rest[k] = leap(rest[k], l.ID)
				if len(rest[k]) == 0 {
					return
				}
				if rest[k][0].ID != l.ID {
					continue next
				}
			}
			if !yield(l) {
				return
			}
		}
	}
}

// leap gives what of a list does not come before an id: in steps that double, so
// that neither lists of one length nor a long one beside a short one take long.
func leap(list []index.Link, id entry.ID) []index.Link {
	from, to := 0, 1
	for to < len(list) && bytes.Compare(list[to].ID[:], id[:]) < 0 {
		from, to = to, 2*to
	}
	to = min(to+1, len(list))
	n, _ := slices.BinarySearchFunc(list[from:to], id, func(l index.Link, id entry.ID) int {
		return bytes.Compare(l.ID[:], id[:])
	})
	return list[from+n:]
}

// links gives the entries of a value, if they are in memory.
func (a *lookup) links(r txn.Reader) ([]index.Link, bool) {
	m, ok := a.in.Values.(index.Memory)
	if !ok || a.order != rankFew && a.order != rankSome {
		return nil, false
	}
	list, ok := m.Links(r, a.test.Key)
	if ok {
		a.seen += len(list)
	}
	return list, ok
}
