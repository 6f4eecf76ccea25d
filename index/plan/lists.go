package plan

import (
	"context"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	// firstHead and nextHead are the numbers of entries of a value that are read first, and that
	// a stream reads next.
	firstHead = 512
	nextHead  = 2048
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

// readTogether reads the first n candidates of lists, several lists at once.
func readTogether(ctx context.Context, r table.Reader, n int, lists []beginning) error {
	var missing []beginning
	for _, b := range lists {
		if b.lacks(n) && !slices.Contains(missing, b) {
			missing = append(missing, b)
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return missing[0].read(ctx, r, n)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, b := range missing {
		g.Go(func() error { return b.read(ctx, r, n) })
	}
	return g.Wait()
}

// beginningsOf returns the lists of those parts that look up one value and, if ranges is set, a range
// of values without a test of their middle. It leaves out lists of values that were longer than n when
// they were last read.
func beginningsOf(parts []Access, n int, ranges bool) (lists []beginning) {
	for _, p := range parts {
		switch l := lookupOf(p); {
		case l == nil:
		case l.head != nil && !l.longer(n):
			lists = append(lists, l.head)
		case l.ranged != nil && ranges && len(l.span.Parts) == 0:
			lists = append(lists, l.ranged)
		}
	}
	return lists
}

// lookupOf returns an access as a lookup, or nil if it is none.
func lookupOf(a Access) *lookup {
	if u, ok := a.(*unsure); ok {
		a = u.Access
	}
	l, _ := a.(*lookup)
	return l
}

// longer reports whether the value had more than n entries when it was last read.
func (a *lookup) longer(n int) bool {
	m, ok := a.in.(index.Memory)
	return ok && m.Longer(a.test.Key, n)
}
