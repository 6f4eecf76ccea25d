// Package search runs searches of the tree.
package search

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/assertion"
	"github.com/seed-4dac0d86/ldapd/directory/internal/collective"
	"github.com/seed-4dac0d86/ldapd/directory/internal/delivery"
	"github.com/seed-4dac0d86/ldapd/directory/internal/filterprep"
	"github.com/seed-4dac0d86/ldapd/directory/internal/locate"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Run runs a search of the tree (RFC 4511, 4.5).
func Run(ctx context.Context, req *request.Request, l Lists, r *op.Search, sink op.Sink) error {
	ctx, cancel := delivery.LimitTime(ctx, req, r)
	defer cancel()
	p, done, err := delivery.OpenPage(req, r)
	if done || err != nil {
		return err
	}
	s, err := openState(ctx, req, r, p)
	if err != nil {
		return err
	}
	defer s.Close()
	keys, err := delivery.ResolveOrder(req)
	if err != nil {
		return err
	}
	at, err := locate.Base(ctx, req, r)
	if err != nil {
		return err
	}
	if err := assertion.Check(ctx, req, at.ID); err != nil {
		return err
	}
	st := streams.Get().(*Stream)
	defer st.release()
	st.lists, st.keys = l, keys
	st.Open(req, r, p, sink)
	if err := st.Out.View.OpenRights(ctx, r.Attributes); err != nil {
		return err
	}
	st.baseName = at.Name
	return st.send(ctx, at.ID)
}

// openState returns the state that a search reads. If there are earlier pages or views, this
// is their state. Otherwise it is the state that req.State returns.
func openState(ctx context.Context, req *request.Request, r *op.Search, p *delivery.Page) (*partition.Snapshot, error) {
	revision, err := vlvRevision(req, r)
	if err != nil {
		return nil, err
	}
	if p != nil {
		revision = p.Revision
	}
	if revision == 0 {
		return req.State(ctx)
	}
	s, err := req.Earlier(ctx, revision)
	if err != nil {
		return nil, err
	}
	return req.Resume(ctx, s)
}

// A Stream sends the results of a search.
type Stream struct {
	state
	Out   delivery.Output
	yield func(*partition.Result, error) bool // the method found, which is allocated once
}

// state contains the fields of a Stream that belong to one search.
type state struct {
	Req   *request.Request
	R     *op.Search
	Query partition.Query

	// If Referrals is set, the search sends referrals as references. If aliases is set,
	// it follows aliases. Each of the two is set only if the directory may have such
	// entries. If Subentries is set, the search leaves out subentries.
	Referrals, aliases, Subentries bool
	// base is the entry at which the search began, and bases are the targets of the
	// aliases found so far. A search that follows aliases may find an entry twice, so
	// seen contains the entries found so far. It is nil for other searches.
	base     entry.ID
	baseName *dn.Name // nil: not known
	seen     map[entry.ID]bool
	bases    []entry.ID

	keys   []partition.SortKey // nil: unsorted
	lists  Lists
	way    byte            // byList, byIndex or bySearch; 0 if the search is not sorted
	sorter *search.Sorter  // collects the results while a list is made; otherwise nil
	drawn  int64           // memory drawn for the sorter
	ctx    context.Context // of the query that runs
	err    error           // the error with which the query has ended
}

// streams is a pool of Streams, so that their buffers are reused.
var streams = sync.Pool{New: func() any { return new(Stream) }}

func (st *Stream) release() {
	st.Out.Release()
	st.state = state{}
	streams.Put(st)
}

// Open begins a search of the state that the request reads.
func (st *Stream) Open(req *request.Request, r *op.Search, p *delivery.Page, sink op.Sink) {
	st.Req, st.R = req, r
	st.Out.Open(req, r, p, sink)
}

// send sends the results of the search from a base.
func (st *Stream) send(ctx context.Context, base entry.ID) error {
	if err := st.Prepare(ctx); err != nil {
		return err
	}
	x := st.Req.Controls.Explain
	var begun time.Time
	if x != nil {
		begun = time.Now()
		if err := mayExplain(st.Req); err != nil {
			return err
		}
		if !x.Run {
			return st.respondPlan(ctx, base)
		}
	}
	err := st.Run(ctx, base)
	if x != nil {
		st.respondCost(ctx, time.Since(begun))
	}
	st.explain(ctx)
	err = st.Out.Finish(err)
	if err == nil && st.keys != nil {
		delivery.SortResponse(st.Req, op.Success, "")
	}
	return err
}

// Prepare builds the query. The query finds the entries that the filter matches. It also
// finds the referrals and aliases in scope that the search sends or follows (RFC 3296, 5.2;
// RFC 4511, 4.5.1.3).
func (st *Stream) Prepare(ctx context.Context) (err error) {
	req := st.Req
	if err := st.classes(ctx); err != nil {
		return err
	}
	if st.Out.View.Shared, err = collective.Collect(ctx, req); err != nil {
		return err
	}
	f, err := filterprep.Prepare(ctx, req, st.R.Filter, st.Out.View.Shared)
	if err != nil {
		return err
	}
	if req.Controls.Visible == request.SubentriesOnly {
		f = filter.MakeAnd(req.Known.IsSubentry, f)
	}
	var also []filter.Resolved
	if st.Referrals {
		also = append(also, req.Judge.OnlyLeading(ctx, req.Known.IsReferral, req.Known.Ref))
	}
	if st.aliases {
		also = append(also, req.Judge.OnlyLeading(ctx, req.Known.IsAlias, req.Known.AliasedObjectName))
		st.seen = map[entry.ID]bool{}
	}
	if also != nil {
		f = filter.MakeOr(append(also, f)...)
	}
	st.Query = st.Out.View.Query(st.keys)
	st.Query.Scope, st.Query.Filter = st.R.Scope, f
	req.Judge.Restrict(ctx, &st.Query)
	return nil
}

// mayExplain returns an error if the requester may not use the explain control. The numbers of
// candidates reveal values, so the requester must be allowed to read all entries.
func mayExplain(req *request.Request) error {
	if j := &req.Judge; !j.ReadsAll() || !j.Everywhere().Entry(acl.Explain) {
		return op.Errorf(op.InsufficientAccessRights, "explain control: its requester must have the right explain and read all attributes, also reserved ones, on all entries")
	}
	return nil
}

// respondPlan answers an explain control of a search that is not run.
func (st *Stream) respondPlan(ctx context.Context, base entry.ID) error {
	if err := st.begin(ctx, base); err != nil {
		return err
	}
	plan, err := search.Explain(ctx, st.Req.Snapshot, st.Query, false)
	if err == nil {
		st.Req.Respond(control.OIDExplain, control.Explained{Plan: plan}.Encode())
	}
	return err
}

// respondCost answers an explain control of a search that was run.
func (st *Stream) respondCost(ctx context.Context, took time.Duration) {
	plan, err := search.Explain(context.WithoutCancel(ctx), st.Req.Snapshot, st.Query, false)
	if err != nil {
		return // the search has failed for the same reason
	}
	c := st.Req.Cost
	x := control.Explained{Plan: plan, Candidates: c.Candidates, Rows: c.Rows, Scans: c.Scans, Microseconds: int(took.Microseconds())}
	for _, u := range c.Indexes {
		x.Indexes = append(x.Indexes, u.String())
	}
	st.Req.Respond(control.OIDExplain, x.Encode())
}

// explain records the plan of a slow search, without the values of its filter, which may be personal
// data.
func (st *Stream) explain(ctx context.Context) {
	if !st.Req.IsSlow() {
		return
	}
	q := st.Query
	q.Filter = filter.Blank(q.Filter)
	if plan, err := search.Explain(context.WithoutCancel(ctx), st.Req.Snapshot, q, false); err == nil {
		st.Req.Seen.Plan = entryID.ReplaceAllString(strings.TrimSpace(plan), "entry ?")
	}
}

// entryID matches the part of a plan that looks up an asserted entryUUID.
var entryID = regexp.MustCompile(`\bentry [0-9a-f-]{36}`)

func (st *Stream) classes(ctx context.Context) (err error) {
	visible := st.Req.Controls.Visible
	st.Subentries = visible == request.EntriesOnly
	if st.R.Scope == op.BaseObject {
		// locate.Base has already handled referrals and aliases. Without the
		// subentries control, a base search shows subentries (RFC 3672, 3).
		return nil
	}
	known := st.Req.Known
	st.Subentries = visible != request.SubentriesOnly
	if !st.Req.Controls.ManageDsaIT {
		if st.Referrals, err = search.HasClass(ctx, st.Req.Snapshot, known.Referral); err != nil {
			return err
		}
	}
	if st.R.Deref == op.DerefInSearching || st.R.Deref == op.DerefAlways {
		st.aliases, err = search.HasClass(ctx, st.Req.Snapshot, known.Alias)
	}
	return err
}

// begin completes the query for a search from a base.
func (st *Stream) begin(ctx context.Context, base entry.ID) (err error) {
	st.base, st.Query.Base, st.Query.BaseName = base, base, st.baseName
	if !st.aliases {
		st.Query.Filter, err = st.Req.Judge.Narrow(ctx, st.Query.Filter, base, st.Query.Scope)
	}
	return err
}

// Run sends the results of the query from a base.
func (st *Stream) Run(ctx context.Context, base entry.ID) error {
	if err := st.begin(ctx, base); err != nil {
		return err
	}
	switch {
	case st.Req.Controls.Vlv != nil:
		return st.runVLV(ctx)
	case st.keys != nil:
		return st.runSorted(ctx)
	case st.Out.Page != nil && !st.aliases:
		st.Query.After = st.Out.Page.After
	}
	return st.runQueries(ctx)
}

// runQueries searches from the base, and then from the targets of the aliases that it finds.
// In a one-level search, it searches only the targets themselves. In other searches, it
// searches the subtrees of the targets.
func (st *Stream) runQueries(ctx context.Context) error {
	st.bases = st.bases[:0]
	clear(st.seen)
	if err := st.runQuery(ctx); err != nil {
		return err
	}
	for i := 0; i < len(st.bases); i++ {
		st.Query.Base, st.Query.BaseName, st.Query.Scope, st.Query.After = st.bases[i], nil, op.WholeSubtree, nil
		if st.R.Scope == op.SingleLevel {
			st.Query.Scope = op.BaseObject
		}
		if err := st.runQuery(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (st *Stream) runQuery(ctx context.Context) error {
	st.Query.Lend = st.sorter == nil
	if st.yield == nil {
		st.yield = st.found
	}
	st.ctx, st.err = ctx, nil
	search.Each(ctx, st.Req.Snapshot, st.Query, st.yield)
	if st.err != nil {
		return st.err
	}
	if err := st.Req.Judge.Failure(); err != nil {
		return err
	}
	return st.Out.View.Shared.Failure()
}

// found handles a result of the query. It returns false if the query must end.
func (st *Stream) found(found *partition.Result, err error) bool {
	if err == nil {
		err = st.take(st.ctx, found)
	}
	st.err = err
	return err == nil
}

// take handles one found entry.
func (st *Stream) take(ctx context.Context, found *partition.Result) error {
	switch {
	case st.Subentries && st.Req.Known.Is(found.Entry, st.Req.Known.Subentry):
		return nil
	case st.seen != nil && st.seen[found.ID]:
		return nil
	}
	if st.seen != nil {
		st.seen[found.ID] = true
	}
	alias, err := st.isAlias(ctx, found)
	if err != nil {
		return err
	}
	if alias {
		if away, err := st.takeAlias(ctx, found); err != nil || !away {
			return err
		}
	}
	if st.sorter != nil {
		e, err := st.Req.Judge.Case(found.Name, found.Entry).Searchable(ctx, st.keys)
		if err != nil {
			return err
		}
		if !st.sorter.Add(e) {
			return errSortMemory
		}
		return st.drawSorter()
	}
	return st.deliver(ctx, found)
}

// deliver sends one found entry, if the entry belongs to this page.
func (st *Stream) deliver(ctx context.Context, found *partition.Result) error {
	urls, err := st.Elsewhere(ctx, found)
	if err != nil {
		return err
	}
	if skip, err := st.Out.Admit(urls == nil); skip || err != nil {
		return err
	}
	if p := st.Out.Page; p.IsFull() {
		p.GoOn(st.position(found))
	}
	if urls != nil {
		return st.Out.Reference(urls)
	}
	return st.Out.Entry(ctx, found)
}

// counts reports whether the next page continues by skipping a number of results.
func (st *Stream) counts() bool { return st.aliases || st.way == byList }

// position returns the position at which the next page continues, and the number of results
// that the next page skips.
func (st *Stream) position(found *partition.Result) (position []byte, skip int) {
	if st.way != 0 {
		position = append(position, st.way)
	}
	if st.counts() {
		return position, st.Out.Page.Skip + st.Out.Page.Count
	}
	return append(position, found.Position...), 0
}

// Elsewhere returns the URLs at which the client can continue the search on other servers,
// if the found entry is a referral or an alias to another server. For any other entry, it
// returns nil.
func (st *Stream) Elsewhere(ctx context.Context, found *partition.Result) ([]string, error) {
	referral, err := st.isReferral(ctx, found)
	switch {
	case err != nil:
		return nil, err
	case referral:
		return locate.ReferralURLs(found.Entry.Values(st.Req.Known.Ref), found.Name.String(), nil, st.continuation()), nil
	}
	alias, err := st.isAlias(ctx, found)
	if alias && err == nil {
		return st.aliasedElsewhere(ctx, found)
	}
	return nil, err
}

// continuation returns the scope for the URLs at which the client continues the search on
// other servers. A one-level search continues as a base search (RFC 4511, 4.5.3).
func (st *Stream) continuation() string {
	if st.R.Scope == op.SingleLevel {
		return "base"
	}
	return "sub"
}
