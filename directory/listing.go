package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// A listing is a search under way among many entries that no store has. Only the
// administrator sees them.
type listing struct {
	o      *operation
	r      *op.Search
	out    output
	filter filter.Resolved
}

// list runs a search of a listing, which is called what: state opens what its pages
// show, run offers the entries.
func list(ctx context.Context, o *operation, r *op.Search, sink op.Sink, what string,
	state func(context.Context, *page) (*partition.Snapshot, error), run func(context.Context, *listing) error) error {
	switch {
	case !o.who.isAdmin():
		return errAccess
	case o.isPast() || o.controls.waits() || o.controls.vlv != nil:
		return op.Errorf(op.UnwillingToPerform, "%s supports paged searches, but neither sorting, views and persistent searches nor past states", what)
	}
	p, done, err := openPage(o, r)
	if done || err != nil {
		return err
	}
	s, err := state(ctx, p)
	if err != nil {
		return err
	}
	defer s.Close()
	o.read(s)
	if err := refuseOrder(o, what); err != nil {
		return err
	}
	ctx, cancel := limitTime(ctx, o, r)
	defer cancel()
	l := &listing{o: o, r: r, filter: prepareUnstored(o, r.Filter)}
	l.out.open(o, r, p, sink)
	p.atPlace()
	return l.out.finish(run(ctx, l))
}

// refuseOrder says of a sort control that a listing has an order of its own.
func refuseOrder(o *operation, what string) error {
	keys, err := resolveOrder(o)
	if err != nil || keys == nil {
		return err
	}
	return unsorted(o, &sortError{code: op.UnwillingToPerform, text: what + " has an order of its own"})
}

// start returns where an earlier page ended; ok says that there is one.
func (l *listing) start() (position []byte, skip int, ok bool) {
	p := l.out.page
	if !p.goesOn() {
		return nil, 0, false
	}
	return p.after, p.skip, true
}

// offer sends an entry if the filter finds it. The next page goes on behind its
// position.
func (l *listing) offer(v *virtual, position []byte, skip int) error {
	if !v.matches(l.o, l.filter) {
		return nil
	}
	if _, err := l.out.admit(true); err != nil {
		return err
	}
	if p := l.out.page; p.isFull() {
		p.goOn(position, skip)
	}
	return l.out.unstored(v.name, &v.entry)
}

// offerBelow offers those of some entries, which stand in the order of a tree, that
// are in the scope of a base.
func (l *listing) offerBelow(base dn.DN, entries []*virtual) error {
	wanted, err := base.Normalize(l.o.schema)
	if err != nil {
		return op.Errorf(op.InvalidDNSyntax, "base: %v", err)
	}
	there, matched := false, ""
	var inScope []int
	for i, v := range entries {
		name, err := v.norms(l.o.schema)
		if err != nil {
			return err
		}
		if n := shared(name, wanted); n == len(name) && n > 0 {
			there, matched = n == len(wanted), v.name // the deepest comes last
		}
		if shared(name, wanted) == len(wanted) && covers(l.r.Scope, len(name)-len(wanted)) {
			inScope = append(inScope, i)
		}
	}
	if !there {
		return &op.Result{Code: op.NoSuchObject, MatchedDN: matched, Diagnostic: "the server tells of no such entry"}
	}
	for _, i := range inScope {
		if _, had, ok := l.start(); ok && i <= had {
			continue
		}
		if err := l.offer(entries[i], nil, i); err != nil {
			return err
		}
	}
	return nil
}

// shared is how many names two DNs have in common, from the root on.
func shared(a, b []dn.Norm) (n int) {
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// covers reports whether a scope has what is some levels below its base.
func covers(scope op.Scope, levels int) bool {
	switch scope {
	case op.BaseObject:
		return levels == 0
	case op.SingleLevel:
		return levels == 1
	case op.Subordinates:
		return levels > 0
	}
	return true
}
