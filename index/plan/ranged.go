package plan

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

type rangeKey struct {
	typ  *schema.AttributeType
	test *filter.Test
}

// A ranged is the beginning of the candidates of a range of values, or of the entries that have any
// value.
type ranged struct {
	of   *lookup
	list []index.Candidate // at most mostRanged, without positions
	last []byte            // position of the last one
	more bool              // there may be more
}

const mostRanged = lastPage + 1

// in returns the candidates of a lookup of no single value. It returns nil if l is nil.
func (l *Lists) in(a *lookup) *ranged {
	if l == nil {
		return nil
	}
	k := rangeKey{a.typ, a.test}
	b := l.ranges[k]
	if b == nil {
		b = &ranged{of: a, more: true}
		if l.ranges == nil {
			l.ranges = map[rangeKey]*ranged{}
		}
		l.ranges[k] = b
	}
	return b
}

// lacks implements beginning.
func (b *ranged) lacks(n int) bool { return b.more && len(b.list) < min(n, mostRanged) }

// read implements beginning. It keeps no more than mostRanged candidates.
func (b *ranged) read(ctx context.Context, r table.Reader, n int) error {
	if !b.lacks(n) {
		return nil
	}
	n = min(n, mostRanged)
	for c, err := range b.of.from(ctx, r, b.last, n-len(b.list)) {
		if err != nil {
			return err
		}
		if b.keep(c); len(b.list) == n {
			return nil
		}
	}
	b.more = false
	return nil
}

func (b *ranged) keep(c index.Candidate) {
	b.last = append(b.last[:0], c.Position...)
	c.Position = nil
	b.list = append(b.list, c)
}

// stream yields all candidates, and keeps the first ones. The caller probably reads all of a range.
// Where the store tests the middle of values, nobody knows how many values it looks at for a page, so
// the pages begin small.
func (b *ranged) stream(ctx context.Context, r table.Reader) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		for _, c := range b.list {
			if b.of.presence() {
				c.Position = index.PresenceRow(c.ID)
			}
			if !yield(c, nil) {
				return
			}
		}
		if !b.more {
			return
		}
		expect := firstHead
		switch {
		case len(b.of.span.Parts) > 0:
			expect = 0
		case len(b.list) > 0:
			expect = nextHead
		}
		all := true
		for c, err := range b.of.from(ctx, r, b.last, expect) {
			if all = all && err == nil && len(b.list) < mostRanged; all {
				position := c.Position
				b.keep(c)
				c.Position = position
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
		b.more = !all
	}
}
