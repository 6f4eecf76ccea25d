package directory

import (
	"context"
	"strings"
	"sync"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// runSearch runs a search of the tree (RFC 4511, 4.5).
func runSearch(ctx context.Context, o *operation, l *lists, name dn.DN, r *op.Search, sink op.Sink) error {
	ctx, cancel := limitTime(ctx, o, r)
	defer cancel()
	p, done, err := openPage(o, r)
	if done || err != nil {
		return err
	}
	s, err := openState(ctx, o, r, p)
	if err != nil {
		return err
	}
	defer s.Close()
	keys, err := resolveOrder(o)
	if err != nil {
		return err
	}
	at, err := locateBase(ctx, o, r, name)
	if err != nil {
		return err
	}
	if err := assert(ctx, o, at.ID); err != nil {
		return err
	}
	st := streams.Get().(*stream)
	defer st.release()
	st.lists, st.keys = l, keys
	st.open(o, r, p, sink)
	return st.send(ctx, at.ID)
}

// openState returns the state that a search shows: the newest, or the one that earlier
// pages or views showed.
func openState(ctx context.Context, o *operation, r *op.Search, p *page) (*partition.Snapshot, error) {
	revision, err := viewRevision(o, r)
	if err != nil {
		return nil, err
	}
	if p != nil {
		revision = p.revision
	}
	if revision == 0 {
		return o.state(ctx)
	}
	s := o.now()
	if revision == s.Revision() {
		return s, nil
	}
	s.Close()
	if s, err = o.server.part.At(ctx, revision); err != nil {
		return nil, err
	}
	return o.read(s), nil
}

// A stream sends what a search finds.
type stream struct {
	o     *operation
	r     *op.Search
	out   output
	query partition.Query

	// Which classes of entries the search treats specially; referrals and
	// aliases only if there are any. Subentries are left out.
	referrals, aliases, subentries bool
	// base is where the search began. Seen are the entries met, and bases those
	// that aliases led to, when following aliases can meet an entry twice.
	base  entry.ID
	seen  map[entry.ID]bool
	bases []entry.ID

	keys   []partition.SortKey // nil: unsorted
	lists  *lists
	way    byte              // of a sorted search
	sorter *partition.Sorter // takes what is found, if it has to be put in order first
}

// streams are used again for their buffers.
var streams = sync.Pool{New: func() any { return new(stream) }}

func (st *stream) release() {
	st.out.release()
	*st = stream{out: st.out}
	streams.Put(st)
}

// open begins a search of the state that the request reads.
func (st *stream) open(o *operation, r *op.Search, p *page, sink op.Sink) {
	st.o, st.r = o, r
	st.out.open(o, r, p, sink)
}

// send sends what is found from a base on.
func (st *stream) send(ctx context.Context, base entry.ID) error {
	if err := st.prepare(ctx); err != nil {
		return err
	}
	err := st.run(ctx, base)
	st.explain(ctx)
	err = st.out.finish(err)
	if err == nil && st.keys != nil {
		sortResponse(st.o, op.Success, "")
	}
	return err
}

// prepare makes the query: what the filter matches, and referrals and aliases in
// scope whatever the filter says (RFC 3296, 5.2; RFC 4511, 4.5.1.3).
func (st *stream) prepare(ctx context.Context) (err error) {
	o := st.o
	if err := st.classes(ctx); err != nil {
		return err
	}
	if st.out.view.shared, err = collect(ctx, o); err != nil {
		return err
	}
	f, err := prepareFilter(ctx, o, st.r.Filter, st.out.view.shared)
	if err != nil {
		return err
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
	st.query = st.out.view.query(st.keys)
	st.query.Scope, st.query.Filter = st.r.Scope, f
	return nil
}

// explain keeps the plan of a search that was slow.
func (st *stream) explain(ctx context.Context) {
	if !st.o.trace.slow(st.o.server.settings().Slow) {
		return
	}
	if plan, err := st.o.s.Explain(context.WithoutCancel(ctx), st.query, false); err == nil {
		st.o.trace.plan = strings.TrimSpace(plan)
	}
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
		if st.referrals, err = st.o.s.HasClass(ctx, known.referral); err != nil {
			return err
		}
	}
	if st.r.Deref == op.DerefInSearching || st.r.Deref == op.DerefAlways {
		st.aliases, err = st.o.s.HasClass(ctx, known.alias)
	}
	return err
}

func (st *stream) run(ctx context.Context, base entry.ID) error {
	st.base, st.query.Base = base, base
	switch {
	case st.o.controls.vlv != nil:
		return st.runView(ctx)
	case st.keys != nil:
		return st.runSorted(ctx)
	case st.out.page != nil && !st.aliases:
		st.query.After = st.out.page.after
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
	for found, err := range st.o.s.Search(ctx, st.query) {
		if err != nil {
			return err
		}
		if err := st.take(ctx, found); err != nil {
			return err
		}
	}
	return st.out.view.shared.failure()
}

// take deals with one entry found.
func (st *stream) take(ctx context.Context, found *partition.Result) error {
	switch {
	case st.subentries && st.o.known.is(found.Entry, st.o.known.subentry):
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
	if skip, err := st.out.admit(urls == nil); skip || err != nil {
		return err
	}
	if p := st.out.page; p.isFull() {
		p.goOn(st.position(found))
	}
	if urls != nil {
		return st.out.reference(urls)
	}
	return st.out.entry(ctx, found)
}

// counts reports whether pages go on by counting results.
func (st *stream) counts() bool { return st.aliases || st.way == byList }

// position is where the next page goes on, and how many results it leaves out.
func (st *stream) position(found *partition.Result) (position []byte, skip int) {
	if st.way != 0 {
		position = append(position, st.way)
	}
	if st.counts() {
		return position, st.out.page.skip + st.out.page.count
	}
	return append(position, found.Position...), 0
}

// elsewhere returns the URLs by which others go on with the search; nil: what was
// found is an entry of ours.
func (st *stream) elsewhere(ctx context.Context, found *partition.Result) ([]string, error) {
	switch {
	case st.referrals && st.o.known.is(found.Entry, st.o.known.referral):
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
