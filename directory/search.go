package directory

import (
	"context"
	"errors"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// search runs a search (RFC 4511, 4.5).
func (o *operation) search(ctx context.Context, r *op.Search, sink op.Sink) error {
	name, err := dn.Parse(r.Base)
	if err != nil {
		return op.Errorf(op.InvalidDNSyntax, "base: %v", err)
	}
	if r.Scope > op.Subordinates || r.Deref > op.DerefAlways || r.SizeLimit < 0 || r.TimeLimit < 0 {
		return op.Errorf(op.ProtocolError, "a search's scope, dereferencing or limits are out of range")
	}
	if isChangelog(name) {
		return o.searchChangelog(ctx, name, r, sink)
	}
	if isMonitor(name) {
		return o.searchMonitor(ctx, name, r, sink)
	}
	if o.controls.sync != nil || o.controls.persistent != nil {
		if o.isPast() {
			return op.Errorf(op.UnwillingToPerform, "a search that waits for changes cannot be of the past")
		}
		return o.watch(ctx, name, r, sink)
	}
	if isVirtual(name, r.Scope) {
		return o.searchVirtual(ctx, name, r, sink)
	}
	ctx, cancel := o.limitTime(ctx, r)
	defer cancel()
	return o.searchTree(ctx, name, r, sink)
}

// resolveWanted looks up what the results are to show, and in which order.
func (o *operation) resolveWanted(r *op.Search) error {
	o.selector.resolve(r.Attributes, o.schema)
	return o.resolveOrder()
}

// limitTime bounds a search by the smaller of the client's and the server's
// limits. A base search is one read and needs no timer.
func (o *operation) limitTime(ctx context.Context, r *op.Search) (context.Context, context.CancelFunc) {
	limit := smaller(time.Duration(r.TimeLimit)*time.Second, o.limits.Time)
	if limit == 0 || r.Scope == op.BaseObject {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

func (o *operation) searchTree(ctx context.Context, name dn.DN, r *op.Search, sink op.Sink) error {
	page, err := o.openPage(r)
	if err != nil {
		return err
	}
	if page != nil && page.abandoned {
		o.pagedResponse(nil)
		return nil
	}
	s, err := o.snapshot(ctx, r, page)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := o.resolveWanted(r); err != nil {
		return err
	}
	at, err := o.locateBase(ctx, s, r, name)
	if err != nil {
		return err
	}
	if err := o.assert(ctx, s, at.ID); err != nil {
		return err
	}
	st := &o.stream
	*st = stream{o: o, s: s, sink: sink, r: r, page: page, limit: smaller(r.SizeLimit, o.limits.Size)}
	if page != nil {
		st.sent = page.sent
	}
	if err := st.prepare(ctx); err != nil {
		return err
	}
	err = st.run(ctx, at.ID)
	st.explain(ctx)
	if page != nil {
		o.pagedResponse(st.closePage(err))
	}
	if errors.Is(err, errPageFull) {
		err = nil
	}
	if err == nil && o.controls.sort != nil {
		o.sortResponse(op.Success, "")
	}
	return err
}

// A stream sends what a search finds.
type stream struct {
	o     *operation
	s     *partition.Snapshot
	sink  op.Sink
	r     *op.Search
	page  *page // nil: all at once
	query partition.Query
	limit int // entries; 0: none
	sent  int
	// controls go with the next entry or reference. Stored leaves out what is
	// computed.
	controls []op.Control
	stored   bool

	// Which classes of entries the search treats specially; referrals and
	// aliases only if there are any. Subentries are left out.
	referrals, aliases, subentries bool
	// base is where the search began. Seen are the entries met, and bases those
	// that aliases led to, when following aliases can meet an entry twice.
	base  entry.ID
	seen  map[entry.ID]bool
	bases []entry.ID

	way    byte              // of a sorted search
	sorter *partition.Sorter // takes what is found, if it has to be put in order first
	// shared is what entries have from collective attribute subentries; nil if
	// there are none.
	shared *collectives
}

// prepare makes the query: what the filter matches, and referrals and aliases in
// scope whatever the filter says (RFC 3296, 5.2; RFC 4511, 4.5.1.3).
func (st *stream) prepare(ctx context.Context) error {
	o := st.o
	if err := st.classes(ctx); err != nil {
		return err
	}
	f, err := o.resolve(ctx, st.s, st.r.Filter)
	if err != nil {
		return err
	}
	if st.shared, err = o.collect(ctx, st.s); err != nil {
		return err
	}
	if st.shared != nil {
		f = st.shared.rewrite(ctx, f)
	}
	if o.controls.visible == subentriesOnly {
		f = &filter.AndNode{Parts: []filter.Resolved{o.known.isSubentry, f}}
	}
	var also []filter.Resolved
	if st.referrals {
		also = append(also, o.known.isReferral)
	}
	if st.aliases {
		also = append(also, o.known.isAlias)
		st.seen = map[entry.ID]bool{}
	}
	if also != nil {
		f = &filter.OrNode{Parts: append(also, f)}
	}
	st.query = partition.Query{
		Scope:   st.r.Scope,
		Filter:  f,
		Secrets: o.who.isAdmin() && !o.isPast() && o.selector.wantsSecret(),
		Only:    st.only(),
		Most:    o.limits.Candidates,
	}
	if o.trace.on {
		st.query.Cost = &o.trace.cost
	}
	return nil
}

// only lists the types that the search needs of an entry with very many values;
// nil is all of them.
func (st *stream) only() []*schema.AttributeType {
	o := st.o
	if o.selector.user || o.selector.operational {
		return nil
	}
	o.only = append(o.only[:0], o.known.objectClass, o.known.ref, o.known.aliasedObjectName)
	if st.shared != nil {
		o.only = append(o.only, o.known.collectiveExclusions)
	}
	for _, n := range o.selector.named {
		o.only = append(o.only, o.schema.Subtypes(n.Type)...)
	}
	if o.controls.sort != nil {
		for _, k := range o.controls.sort.keys {
			o.only = append(o.only, o.schema.Subtypes(k.Type)...)
		}
	}
	for i := range o.controls.dereference {
		o.only = append(o.only, o.controls.dereference[i].attribute.typ)
	}
	return o.only
}

func (st *stream) classes(ctx context.Context) (err error) {
	visible := st.o.controls.visible
	st.subentries = visible == entriesOnly
	if st.r.Scope == op.BaseObject {
		return nil // locateBase has dealt with the others; subentries are visible to base (RFC 3672, 3)
	}
	known := st.o.known
	st.subentries = visible != subentriesOnly
	if !st.o.controls.manageDsaIT {
		if st.referrals, err = st.s.HasClass(ctx, known.referral); err != nil {
			return err
		}
	}
	if st.r.Deref == op.DerefInSearching || st.r.Deref == op.DerefAlways {
		st.aliases, err = st.s.HasClass(ctx, known.alias)
	}
	return err
}

func (st *stream) run(ctx context.Context, base entry.ID) error {
	st.base, st.query.Base = base, base
	switch {
	case st.o.controls.vlv != nil:
		return st.runView(ctx)
	case st.o.controls.sort != nil:
		return st.runSorted(ctx)
	case st.page != nil && !st.aliases:
		st.query.After = st.page.after
	}
	return st.runQueries(ctx)
}

// runQueries searches from the base, and from what aliases lead to: for one
// level the entries themselves, for subtrees the subtrees.
func (st *stream) runQueries(ctx context.Context) error {
	st.bases = st.bases[:0]
	clear(st.seen)
	if err := st.runQuery(ctx); err != nil {
		return err
	}
	for i := 0; i < len(st.bases); i++ {
		st.query.Base, st.query.Scope, st.query.After = st.bases[i], op.WholeSubtree, nil
		if st.r.Scope == op.SingleLevel {
			st.query.Scope = op.BaseObject
		}
		if err := st.runQuery(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (st *stream) runQuery(ctx context.Context) error {
	for found, err := range st.s.Search(ctx, st.query) {
		if err != nil {
			return err
		}
		if err := st.take(ctx, found); err != nil {
			return err
		}
	}
	if st.shared != nil {
		return st.shared.failed
	}
	return nil
}

// take deals with one entry found.
func (st *stream) take(ctx context.Context, found *partition.Result) error {
	switch {
	case st.subentries && st.o.is(found.Entry, st.o.known.subentry):
		return nil
	case st.seen != nil && st.seen[found.ID]:
		return nil
	}
	if st.seen != nil {
		st.seen[found.ID] = true
	}
	if st.isAlias(found) {
		if away, err := st.takeAlias(ctx, found); err != nil || !away {
			return err
		}
	}
	if st.sorter != nil {
		if !st.sorter.Add(found.Entry) {
			return errSortMemory
		}
		return nil
	}
	return st.deliver(ctx, found)
}

// deliver sends what was found, if it is for this page.
func (st *stream) deliver(ctx context.Context, found *partition.Result) error {
	urls, err := st.elsewhere(ctx, found)
	if err != nil {
		return err
	}
	if urls == nil && st.limit > 0 && st.sent == st.limit {
		return op.Errorf(op.SizeLimitExceeded, "more than %d entries", st.limit)
	}
	if skip, err := st.turnPage(found); skip || err != nil {
		return err
	}
	if urls != nil {
		return st.reference(urls)
	}
	st.sent++
	return st.send(ctx, found)
}

// elsewhere returns the URLs by which others go on with the search; nil: what was
// found is an entry of ours.
func (st *stream) elsewhere(ctx context.Context, found *partition.Result) ([]string, error) {
	switch {
	case st.referrals && st.o.is(found.Entry, st.o.known.referral):
		return referralURLs(found.Entry.Values(st.o.known.ref), found.Name, nil, st.continuation()), nil
	case st.isAlias(found):
		return st.aliasedElsewhere(ctx, found)
	}
	return nil, nil
}

// continuation is the scope that others go on with: of one level the base is
// left (RFC 4511, 4.5.3).
func (st *stream) continuation() string {
	if st.r.Scope == op.SingleLevel {
		return "base"
	}
	return "sub"
}

// reference sends a search result reference.
func (st *stream) reference(urls []string) error {
	st.o.trace.references++
	return st.sink.Reference(urls, st.controls)
}

// send sends an entry with the attributes asked for.
func (st *stream) send(ctx context.Context, found *partition.Result) (err error) {
	o := st.o
	own := found.Entry.Attributes
	if st.shared != nil && !st.stored {
		if own, err = st.shared.attributes(ctx, found); err != nil {
			return err
		}
	}
	attributes := o.selector.apply(o.selected[:0], own)
	if !st.stored {
		if attributes, err = o.appendComputed(ctx, st.s, attributes, found); err != nil {
			return err
		}
		if attributes, err = st.appendRanges(ctx, attributes, found); err != nil {
			return err
		}
	}
	o.selected = attributes
	o.controls.matched.apply(attributes, st.r.TypesOnly)
	o.found = op.SearchEntry{Name: found.Name, Attributes: attributes, TypesOnly: st.r.TypesOnly, Controls: st.controls}
	if o.controls.dereference != nil {
		more, err := st.dereferenced(ctx, found.Entry)
		if err != nil {
			return err
		}
		o.found.Controls = append(more, st.controls...)
	}
	o.trace.entries++
	return st.sink.Entry(&o.found)
}
