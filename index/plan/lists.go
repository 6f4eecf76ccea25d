package plan

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// firstHead is the number of entries of a value that are read first. It is a variable so that tests can
// change it.
var firstHead = 512

const (
	// nextHead is the number of entries that a stream reads next.
	nextHead = 2048
	// atOnce is the largest number of lists that are read at once.
	atOnce = 16
	// longestHead is the number of entries of a value that Lists keep. It occupies 16 MiB.
	longestHead = 1 << 20
)

// Lists are what the plans of one search have read of indexes. They are for a store that servers
// share, where each read is a round trip: the lists that a plan needs are read at once, their
// beginnings are large, and what an estimate has read is not read again. Only one goroutine may use
// Lists, and their plans must read the same state.
type Lists struct {
	heads  map[listKey]*head
	ranges map[rangeKey]*ranged
}

// A beginning is what was read of a list.
type beginning interface {
	// lacks reports whether the list may have to be read to contain n candidates.
	lacks(n int) bool
	// read makes the beginning contain n candidates or all.
	read(ctx context.Context, r table.Reader, n int) error
}

type listKey struct {
	typ *schema.AttributeType
	key string
}

// of returns the list of a value. It returns nil if l is nil.
func (l *Lists) of(t *schema.AttributeType, in index.Index, key []byte) *head {
	if l == nil {
		return nil
	}
	k := listKey{t, string(key)}
	h := l.heads[k]
	if h == nil {
		h = &head{in: in, key: key, set: &index.Set{}, more: true}
		if l.heads == nil {
			l.heads = map[listKey]*head{}
		}
		l.heads[k] = h
	}
	return h
}

// A head is the beginning of the list of the entries that have a value.
type head struct {
	in   index.Index
	key  []byte
	set  *index.Set
	more bool // there may be more entries than set contains
}

// read implements beginning.
func (h *head) read(ctx context.Context, r table.Reader, n int) error {
	if !h.lacks(n) {
		return nil
	}
	if h.set.Len() == 0 {
		if m, ok := h.in.(index.Memory); ok {
			if set, ok := m.Known(ctx, r, h.key, math.MaxInt); ok {
				h.set, h.more = set, false
				return nil
			}
		}
	}
	more, err := h.in.Head(ctx, r, h.key, h.set, n)
	if err == nil {
		h.more = more
	}
	return err
}

// lacks implements beginning.
func (h *head) lacks(n int) bool { return h.more && h.set.Len() < n }

// stream yields the entries behind a position. It keeps what it reads, up to longestHead entries.
func (h *head) stream(ctx context.Context, r table.Reader, after []byte) index.Candidates {
	if len(after) > 0 && h.more {
		return h.in.Equal(ctx, r, h.key, after)
	}
	return func(yield func(index.Candidate, error) bool) {
		for {
			for c := range h.set.Stream(h.key, after) {
				if !yield(c, nil) {
					return
				}
			}
			n := h.set.Len()
			if !h.more || n >= longestHead {
				break
			}
			after = h.set.Last(h.key)
			if err := h.read(ctx, r, max(firstHead, n+min(3*n, nextHead))); err != nil {
				yield(index.Candidate{}, err)
				return
			}
		}
		if h.more {
			h.in.Equal(ctx, r, h.key, h.set.Last(h.key))(yield)
		}
	}
}

// A want is the number of candidates of a list that a plan wants to read.
type want struct {
	beginning
	n int
}

// readTogether reads lists, several at once.
func readTogether(ctx context.Context, r table.Reader, wants []want) error {
	var missing []want
	for _, w := range wants {
		if w.lacks(w.n) && !slices.ContainsFunc(missing, func(o want) bool { return o.beginning == w.beginning }) {
			missing = append(missing, w)
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return missing[0].read(ctx, r, missing[0].n)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, w := range missing {
		g.Go(func() error { return w.read(ctx, r, w.n) })
	}
	return g.Wait()
}

// wantsOf wants size candidates, and one more, of each part that looks up one value and, if ranges is set,
// looks for a range of values without a test of their middle. It leaves out values of which size is zero.
func wantsOf(parts []Access, ranges bool, size func(*lookup) int) (wants []want) {
	for _, p := range parts {
		l := lookupOf(p)
		if l == nil {
			continue
		}
		switch n := size(l); {
		case n == 0:
		case l.head != nil:
			wants = append(wants, want{l.head, n + 1})
		case l.ranged != nil && ranges && len(l.span.Parts) == 0:
			wants = append(wants, want{l.ranged, n + 1})
		}
	}
	return wants
}

// firstOf is a size for wantsOf: the beginning of a list, unless it was longer when it was last read.
func firstOf(l *lookup) int {
	if l.head != nil && l.longer(firstHead) {
		return 0
	}
	return firstHead - 1
}

// lookupOf returns an access as a lookup, or nil if it is none.
func lookupOf(a Access) *lookup {
	if u, ok := a.(*unsure); ok {
		a = u.Access
	}
	l, _ := a.(*lookup)
	return l
}

// longer reports whether the value had more than n entries when it was last read, as far as was seen.
func (a *lookup) longer(n int) bool {
	m, ok := a.in.(index.Memory)
	return ok && m.Longer(a.test.Key, n)
}

// noteLonger makes longer report that the value has more than n entries.
func (a *lookup) noteLonger(n int) {
	if m, ok := a.in.(index.Memory); ok {
		m.NoteLonger(a.test.Key, n)
	}
}

// densityOf returns how many of the first entries of a list there are in a range of ids, or zero if the
// list has too few. Ids are random. So of two lists the longer one is denser, by as much as it is longer:
// of 512 entries, within a few per cent. If ids are not random, but in the order in which entries were
// added, and values are too, then this says nothing about the lengths.
func densityOf(set *index.Set) float64 {
	n := firstHead
	if set.Len() < n {
		return 0
	}
	at := func(i int) float64 {
		id := set.ID(i)
		return float64(binary.BigEndian.Uint64(id[:8]))
	}
	return float64(n-1) / max(1, at(n-1)-at(0))
}
