package virtual

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/delivery"
	"github.com/seed-4dac0d86/ldapd/directory/internal/filterprep"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// A listing is a search among entries that are not stored, such as those below cn=changelog
// or cn=monitor. A requester who manages the whole directory may read all of these entries.
// For other requesters, access rules decide. A rule that allows something applies to these
// entries only if the rule names their part of the tree: see [acl.Program.ByName]. Records of
// views are the exception: see readableView and listedEntry.
type listing struct {
	req    *request.Request // the request whose Judge decides about the entries of the listing
	r      *op.Search
	out    delivery.Output
	filter filter.Resolved
	judged bool // access rules decide about the entries
	// reverse is set if the client requests the reverse of the listing's order.
	reverse bool
}

// list runs a search of a listing. The function top returns the topmost entry of the
// listing. The string title is the name of the listing in diagnostics. The string order is the
// attribute by which its entries are in order, or "". The function state
// opens the state that all pages of the search show. The function run offers the entries.
func list(ctx context.Context, req *request.Request, r *op.Search, sink op.Sink, top func(*request.Request) *Entry, title, order string,
	state func(context.Context, *delivery.Page) (*partition.Snapshot, error), run func(context.Context, *listing) error) error {
	own := *req
	l := &listing{req: &own, r: r}
	l.judgeAs(req)
	if err := l.checkRead(ctx, top(req)); err != nil {
		return err
	}
	if c := &req.Controls; req.IsPast() || c.Waits() || c.Vlv != nil || c.Assertion != nil || c.Rights != nil {
		return op.Errorf(op.UnwillingToPerform, "%s supports paged searches, but no list views, assertions, effective rights, persistent searches or past states", title)
	}
	p, done, err := delivery.OpenPage(req, r)
	if done || err != nil {
		return err
	}
	s, err := state(ctx, p)
	if err != nil {
		return err
	}
	defer s.Close()
	l.judgeAs(req) // opening the state may have changed the access rules of the request
	own.Read(s)
	if l.reverse, err = resolveOrder(&own, title, order); err != nil {
		return err
	}
	ctx, cancel := delivery.LimitTime(ctx, req, r)
	defer cancel()
	l.filter = filterprep.PrepareUnstored(&own, r.Filter)
	if l.judged {
		l.filter = own.Judge.Guard(ctx, l.filter)
	}
	l.out.Open(&own, r, p, sink)
	p.AtPlace()
	return l.out.Finish(run(ctx, l))
}

// judgeAs makes the Judge of the listing decide by the access rules of a request.
func (l *listing) judgeAs(req *request.Request) {
	l.req.Judge = req.Judge
	if l.judged = !req.Judge.Everywhere().Manages(); l.judged {
		l.req.Judge.ByName()
	}
}

// checkRead returns an error if the requester does not see the topmost entry of the listing.
// The error need not hide that this entry exists, because everybody can find its name in the
// root DSE.
func (l *listing) checkRead(ctx context.Context, top *Entry) error {
	sees, err := l.sees(ctx, top)
	if err == nil && !sees {
		err = l.req.Judge.Refuse(l.req.Judge.Everywhere(), acl.Question{Right: acl.See})
	}
	return err
}

// sees reports whether the requester sees an entry of the listing.
func (l *listing) sees(ctx context.Context, v *Entry) (bool, error) {
	v.judged = l.judged
	if !l.judged {
		return true, nil
	}
	return l.req.Judge.Case(v.Name, &v.Entry).Sees(ctx)
}

// resolveOrder reads a sort control, and returns whether the client requests the reverse order. A
// listing can be sorted by the attribute order. Otherwise resolveOrder reports to the client that
// the control has no effect, because the order is fixed, and returns an error if the control is
// critical.
func resolveOrder(req *request.Request, title, order string) (reverse bool, err error) {
	keys, err := delivery.ResolveOrder(req)
	if err != nil || keys == nil {
		return false, err
	}
	if len(keys) == 1 && keys[0].Type == req.Schema.Attribute(order) && keys[0].Options == "" {
		delivery.SortResponse(req, op.Success, "")
		return keys[0].Reverse, nil
	}
	text := title + " has an order of its own"
	if order != "" {
		text = title + " can be sorted by " + order + " only"
	}
	return false, delivery.Unsorted(req, &delivery.SortError{Code: op.UnwillingToPerform, Text: text})
}

// start returns the position and skip with which the previous page called Page.GoOn. The
// result ok is false if there was no previous page.
func (l *listing) start() (position []byte, skip int, ok bool) {
	p := l.out.Page
	if !p.GoesOn() {
		return nil, 0, false
	}
	return p.After, p.Skip, true
}

// offer sends an entry if the requester sees the entry and the filter matches the entry. If
// the entry fills the page, the parameters position and skip say where the next page
// continues.
func (l *listing) offer(ctx context.Context, v *Entry, position []byte, skip int) error {
	if sees, err := l.sees(ctx, v); err != nil || !sees {
		return err
	}
	matches := v.matches(l.req, l.filter)
	if err := l.req.Judge.Failure(); err != nil || !matches {
		return err
	}
	if _, err := l.out.Admit(true); err != nil {
		return err
	}
	if p := l.out.Page; p.IsFull() {
		p.GoOn(position, skip)
	}
	e, err := v.Shown(ctx, l.req)
	if err != nil {
		return err
	}
	return l.out.Unstored(v.Name, e)
}

// offerBelow offers those of the given entries that are in the scope of a base. The caller
// must pass the entries in tree order.
func (l *listing) offerBelow(ctx context.Context, base dn.DN, entries []*Entry) error {
	wanted, err := base.Normalize(l.req.Schema)
	if err != nil {
		return op.Errorf(op.InvalidDNSyntax, "base: %v", err)
	}
	there, matched := false, ""
	var inScope []int
	for i, v := range entries {
		sees, err := l.sees(ctx, v)
		if err != nil {
			return err
		}
		if !sees {
			continue
		}
		name, err := v.norms(l.req.Schema)
		if err != nil {
			return err
		}
		if n := shared(name, wanted); n == len(name) && n > 0 {
			there, matched = n == len(wanted), v.Name.String() // the deepest entry comes last
		}
		if shared(name, wanted) == len(wanted) && covers(l.r.Scope, len(name)-len(wanted)) {
			inScope = append(inScope, i)
		}
	}
	if !there {
		return &op.Result{Code: op.NoSuchObject, MatchedDN: matched, Diagnostic: "the server has no such entry"}
	}
	for _, i := range inScope {
		if _, had, ok := l.start(); ok && i <= had {
			continue
		}
		if err := l.offer(ctx, entries[i], nil, i); err != nil {
			return err
		}
	}
	return nil
}

// shared returns the number of RDNs that two DNs have in common, from the root on.
func shared(a, b []dn.Norm) (n int) {
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// covers reports whether a scope includes an entry that is the given number of levels
// below the base.
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
