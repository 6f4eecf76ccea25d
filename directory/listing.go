package directory

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// A listing is a search under way among entries that no store has: they are made as
// they are asked for. Only the administrator sees them.
type listing struct {
	o      *operation
	s      *partition.Snapshot // whose schema counts
	sink   op.Sink
	r      *op.Search
	page   *page
	filter filter.Resolved
	limit  int
	sent   int
}

// list runs a search of a listing, which is called what: state opens what its pages
// show, run offers the entries.
func (o *operation) list(ctx context.Context, r *op.Search, sink op.Sink, what string,
	state func(context.Context, *page) (*partition.Snapshot, error), run func(context.Context, *listing) error) error {
	switch {
	case !o.who.isAdmin():
		return errAccess
	case o.isPast() || o.controls.sync != nil || o.controls.persistent != nil || o.controls.vlv != nil:
		return op.Errorf(op.UnwillingToPerform, "%s supports paged searches, but neither sorting, views and persistent searches nor past states", what)
	}
	page, err := o.openPage(r)
	if err != nil {
		return err
	}
	if page != nil && page.abandoned {
		o.pagedResponse(nil)
		return nil
	}
	s, err := state(ctx, page)
	if err != nil {
		return err
	}
	defer s.Close()
	o.adopt(s)
	if err := o.resolveWanted(r); err != nil {
		return err
	}
	if o.controls.sort != nil {
		if err := o.unsorted(&sortError{code: op.UnwillingToPerform, text: what + " has an order of its own"}); err != nil {
			return err
		}
	}
	ctx, cancel := o.limitTime(ctx, r)
	defer cancel()
	l := &listing{o: o, s: s, sink: sink, r: r, page: page, filter: filter.Resolve(r.Filter, o.schema), limit: smaller(r.SizeLimit, o.limits.Size)}
	if l.goesOn() {
		l.sent = page.sent
	}
	err = run(ctx, l)
	if page != nil {
		o.pagedResponse(l.closePage(err))
	}
	if errors.Is(err, errPageFull) {
		return nil
	}
	return err
}

// goesOn reports whether there were pages before.
func (l *listing) goesOn() bool { return l.page != nil && l.page.revision != 0 }

// offer sends an entry if the filter finds it. The next page goes on behind its
// position.
func (l *listing) offer(v *virtual, position []byte, skip int) error {
	o := l.o
	if l.filter.Match(v.source(o.schema)) != filter.True {
		return nil
	}
	if l.limit > 0 && l.sent == l.limit {
		return op.Errorf(op.SizeLimitExceeded, "more than %d entries", l.limit)
	}
	if p := l.page; p != nil {
		if p.count == p.size {
			return errPageFull
		}
		p.count++
		p.next, p.skip = position, skip
	}
	l.sent++
	o.found = op.SearchEntry{Name: v.name, Attributes: o.selector.apply(nil, v.entry.Attributes), TypesOnly: l.r.TypesOnly}
	o.controls.matched.apply(o.found.Attributes, l.r.TypesOnly)
	o.trace.entries++
	return l.sink.Entry(&o.found)
}

// closePage makes the cookie that the page ends with: empty if nothing follows.
func (l *listing) closePage(err error) []byte {
	if !errors.Is(err, errPageFull) {
		return nil
	}
	return l.page.write(l.s.Revision(), l.sent, l.page.skip, l.page.next)
}
