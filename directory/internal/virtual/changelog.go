package virtual

import (
	"context"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/internal/delivery"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// The changelog (draft-good-ldap-changelog-04) shows commits as entries below cn=changelog.
// The server builds these entries from the journal when a client requests them. The changes
// are numbered one by one, in the order of the commits' revisions; all servers show the same
// numbers. A commit has as many numbers as the journal names entries that it changed. If it has
// more changes (an entry was renamed and modified by one transaction, or there were too many
// entries to name), the last ones share the last number, and their names also contain a
// changeOrdinal.
const changelogName = "cn=changelog"

// theChangelog serves the changelog.
type theChangelog struct{}

func (theChangelog) holds(name dn.DN) bool { return endsIn(name, "changelog") }

func (theChangelog) serves(base dn.DN, _ op.Scope) bool { return endsIn(base, "changelog") }

func (theChangelog) find(context.Context, *request.Request, dn.DN) (*Entry, error) { return nil, nil }

func (theChangelog) refusal() string {
	return changelogName + " shows what was committed and cannot be changed"
}

func (theChangelog) Search(ctx context.Context, req *request.Request, name dn.DN, r *op.Search, sink op.Sink) error {
	if req.Branch != nil {
		return op.Errorf(op.UnwillingToPerform, "the changelog does not show branches: see %s below the branch's entry", changesRDN)
	}
	settled := func(ctx context.Context, p *delivery.Page) (*partition.Snapshot, error) {
		return settledState(ctx, req, p)
	}
	return list(ctx, req, r, sink, changelogTop, "the changelog", "changeNumber", settled, func(ctx context.Context, l *listing) error {
		return (&changelog{listing: l, of: req}).run(ctx, name)
	})
}

// settledState returns the state up to which the changelog shows commits. From now on, no
// server can make a commit whose revision is at or below the revision of this state.
func settledState(ctx context.Context, req *request.Request, p *delivery.Page) (*partition.Snapshot, error) {
	if p.GoesOn() {
		return state.At(ctx, req.Server.Part, p.Revision)
	}
	return changestream.Settled(ctx, req.Server.Part)
}

// changelog is a search of the changelog.
type changelog struct {
	*listing
	of  *request.Request    // the request whose Judge decides about the entries of the tree
	now *partition.Snapshot // the state whose access rules this Judge uses
}

func (l *changelog) run(ctx context.Context, name dn.DN) error {
	if l.judged {
		l.now = state.Newest(l.req.Server.Part)
		defer l.now.Close()
		if err := l.of.Judged(ctx, l.now); err != nil {
			return err
		}
	}
	if len(name) > 1 {
		return l.one(ctx, name)
	}
	if (l.r.Scope == op.BaseObject || l.r.Scope == op.WholeSubtree) && !l.out.Page.GoesOn() {
		first := uint64(0)
		if l.reverse {
			first = math.MaxInt64 // an entry without a number comes first: RFC 2891, 2.2
		}
		if err := l.offerChange(ctx, changelogTop(l.req), first, 0); err != nil {
			return err
		}
	}
	if l.r.Scope == op.BaseObject {
		return nil
	}
	if l.reverse {
		return l.listNewest(ctx)
	}
	return l.list(ctx)
}

// changes streams the changes with numbers greater than n, and some others of the first commit,
// as far as the requester may read them.
func (l *changelog) changes(ctx context.Context, n uint64) iter.Seq2[*history.Change, error] {
	return l.changesOf(ctx, changestream.Numbered(ctx, l.req.Snapshot, n))
}

// changesOf streams the changes of commits, as far as the requester may read them. For a requester
// whom access rules restrict, a change is the difference between what the requester may see of
// the states before and after the change.
func (l *changelog) changesOf(ctx context.Context, commits iter.Seq2[*changestream.Change, error]) iter.Seq2[*history.Change, error] {
	if !l.judged {
		return history.Changes(ctx, l.req.Server.Part, commits)
	}
	if l.of.Judge.MayReadPast() != nil {
		return func(func(*history.Change, error) bool) {}
	}
	return history.ChangesSeen(ctx, l.req.Server.Part, commits, l.lens)
}

// lens returns what the requester may see of the entries of a past state.
func (l *changelog) lens(ctx context.Context, s *partition.Snapshot) (history.Visible, error) {
	x, err := l.of.InPast(ctx, s, l.now)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, id entry.ID) (*history.VisibleEntry, error) { return sight(ctx, x, id) }, nil
}

// sight returns what the requester may see of an entry of the state that the request
// reads.
func sight(ctx context.Context, x *request.Request, id entry.ID) (*history.VisibleEntry, error) {
	e, err := x.Snapshot.Entry(ctx, id, false)
	if err != nil || e == nil {
		return nil, err
	}
	name, err := x.Snapshot.Name(ctx, id)
	if err != nil {
		return nil, err
	}
	c := x.Judge.Case(name, e)
	if sees, err := c.Sees(ctx); err != nil || !sees {
		return nil, err
	}
	seen := &history.VisibleEntry{Secret: func(attribute string) (bool, error) {
		return c.ShowsSecret(ctx, x.Schema.Attribute(attribute))
	}}
	if seen.Name, err = name.DN(); err != nil {
		return nil, err
	}
	seen.Attributes, err = c.Shown(ctx, slices.Clone(e.Attributes))
	return seen, err
}

// list offers the changes whose numbers are in the range that the filter allows.
func (l *changelog) list(ctx context.Context) error {
	first, last := numbers(l.r.Filter)
	if first >= oldNumbers {
		return op.Errorf(op.UnwillingToPerform, "change number %d is of an earlier version of this server, which numbered changes by revisions: read everything again", first)
	}
	// Earlier pages may have shown some changes with the number first. The variable had is the
	// ordinal of the last of these changes, or -1 if there are none.
	had := -1
	if position, skip, ok := l.start(); ok {
		at, err := strconv.ParseUint(string(position), 10, 63)
		if err != nil {
			return delivery.ErrCookie
		}
		if at >= first {
			first, had = at, skip
		}
	}
	for c, err := range l.changes(ctx, first-1) {
		if err != nil {
			return err
		}
		n, ordinal := numberOf(c)
		if n > last {
			break
		}
		if n < first || n == first && ordinal <= had {
			continue
		}
		if err := l.offerChange(ctx, l.entry(c), n, ordinal); err != nil {
			return err
		}
	}
	return nil
}

// listNewest is list in reverse order. If the filter names the entry that was changed, listNewest
// looks only at the commits that changed this entry.
func (l *changelog) listNewest(ctx context.Context) error {
	first, last := numbers(l.r.Filter)
	// Earlier pages have shown the changes of the number last from the ordinal "had" on.
	had := math.MaxInt
	if position, skip, ok := l.start(); ok {
		at, err := strconv.ParseUint(string(position), 10, 63)
		if err != nil {
			return delivery.ErrCookie
		}
		if at <= last {
			last, had = at, skip
		}
	}
	commits := changestream.NewestFirst(ctx, l.req.Snapshot, last)
	if id, ok := target(l.r.Filter); ok {
		commits = changestream.NewestOf(ctx, l.req.Snapshot, id, last)
	}
	for c, err := range commits {
		if err != nil || c.Last < first {
			return err
		}
		all, err := l.changesOfOne(ctx, c)
		if err != nil {
			return err
		}
		for _, x := range slices.Backward(all) {
			n, ordinal := numberOf(x)
			if n < first || n > last || n == last && ordinal >= had {
				continue
			}
			if err := l.offerChange(ctx, l.entry(x), n, ordinal); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *changelog) changesOfOne(ctx context.Context, c *changestream.Change) (all []*history.Change, err error) {
	one := func(yield func(*changestream.Change, error) bool) { yield(c, nil) }
	for x, err := range l.changesOf(ctx, one) {
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// target returns the entry that a filter requires a change to be about.
func target(f filter.Filter) (id entry.ID, ok bool) {
	switch f := f.(type) {
	case filter.And:
		for _, part := range f {
			if id, ok := target(part); ok {
				return id, true
			}
		}
	case *filter.Equal:
		if strings.EqualFold(f.Attribute, "targetEntryUUID") {
			id, err := entry.ParseID(string(f.Value))
			return id, err == nil
		}
	}
	return id, false
}

// oldNumbers is below all revisions and above all change numbers.
const oldNumbers = 1 << 40

// numberOf returns the number of a change. If earlier changes of the commit have the same
// number, the ordinal is not 0.
func numberOf(c *history.Change) (n uint64, ordinal int) {
	n = min(c.Commit.First+uint64(c.Number), c.Commit.Last)
	return n, int(c.Commit.First + uint64(c.Number) - n)
}

// The method "one" offers the entry with a name.
func (l *changelog) one(ctx context.Context, name dn.DN) error {
	missing := &op.Result{Code: op.NoSuchObject, MatchedDN: changelogName, Diagnostic: "the changelog has no such entry"}
	number := uint64(0) // no change has this number
	for _, a := range name[0] {
		if strings.EqualFold(a.Type, "changeNumber") {
			number, _ = strconv.ParseUint(string(a.Value), 10, 63)
		}
	}
	if number == 0 {
		return missing
	}
	wanted := history.Key(name.String(), l.req.Schema)
	for c, err := range l.changes(ctx, number-1) {
		if err != nil {
			return err
		}
		n, ordinal := numberOf(c)
		if n > number {
			break
		}
		if v := l.entry(c); history.Key(v.Name.String(), l.req.Schema) == wanted {
			if l.r.Scope == op.SingleLevel || l.r.Scope == op.Subordinates {
				return nil
			}
			return l.offerChange(ctx, v, n, ordinal)
		}
	}
	return missing
}

// offerChange offers an entry. Its position is its number and its ordinal.
func (l *changelog) offerChange(ctx context.Context, v *Entry, n uint64, ordinal int) error {
	return l.offer(ctx, v, strconv.AppendUint(nil, n, 10), ordinal)
}

// numbers returns the first and the last change number for which a filter can be true.
func numbers(f filter.Filter) (first, last uint64) {
	first, last = 1, math.MaxInt64
	switch f := f.(type) {
	case filter.And:
		for _, part := range f {
			a, b := numbers(part)
			first, last = max(first, a), min(last, b)
		}
	case filter.Or:
		if len(f) > 0 {
			first, last = math.MaxInt64, 1
		}
		for _, part := range f {
			a, b := numbers(part)
			first, last = min(first, a), max(last, b)
		}
	case *filter.Equal:
		if n, ok := changeNumber(f.Attribute, f.Value); ok {
			return n, n
		}
	case *filter.GreaterOrEqual:
		if n, ok := changeNumber(f.Attribute, f.Value); ok {
			return n, last
		}
	case *filter.LessOrEqual:
		if n, ok := changeNumber(f.Attribute, f.Value); ok {
			return first, n
		}
	}
	return first, last
}

// changeNumber returns the change number in a test of a filter. It returns false if the test
// is of another attribute, or if the value is no valid change number. Such a test does not
// narrow the range of numbers.
func changeNumber(attribute string, value []byte) (uint64, bool) {
	if !strings.EqualFold(attribute, "changeNumber") && attribute != "2.16.840.1.113730.3.1.5" {
		return 0, false
	}
	n, err := strconv.ParseUint(string(value), 10, 63)
	return n, err == nil && n > 0
}

// changelogTop returns the entry cn=changelog.
func changelogTop(req *request.Request) *Entry {
	return newEntry(req, changelogName, "applicationProcess", "cn", "changelog")
}

// entry returns the entry for a change.
func (l *changelog) entry(c *history.Change) *Entry {
	n, position := numberOf(c)
	number := strconv.FormatUint(n, 10)
	rdn, ordinal := "changeNumber="+number, ""
	if position > 0 {
		ordinal = strconv.Itoa(position)
		rdn += "+changeOrdinal=" + ordinal
	}
	return changeEntry(l.req, c, rdn+","+changelogName, "changeNumber", number, "changeOrdinal", ordinal,
		"changeTime", generalized(c.Time()), "changeRevision", c.Revision.String())
}

// changeEntry returns the entry for a change, with further pairs of attributes and values.
func changeEntry(req *request.Request, c *history.Change, name string, pairs ...string) *Entry {
	pairs = append(pairs, "changeType", c.Kind)
	if r, ok := c.Request.(*op.ModifyDN); ok {
		pairs = append(pairs, "newRDN", r.NewRDN, "deleteOldRDN", strings.ToUpper(strconv.FormatBool(r.DeleteOldRDN)))
		if r.NewSuperior != nil {
			pairs = append(pairs, "newSuperior", *r.NewSuperior)
		}
	}
	if text, err := c.Text(); err == nil {
		pairs = append(pairs, "changes", string(text))
	}
	if c.ID != entry.Root {
		pairs = append(pairs, "targetEntryUUID", c.ID.String())
	}
	v := newEntry(req, name, "changeLogEntry", append(pairs,
		"changeInitiatorsName", c.By.Name, "changeAddress", c.By.From,
		"changeRequest", c.By.Request, "changeSession", c.By.Session)...)
	v.add(req.Schema, "targetDN", c.Name) // newEntry would leave out an empty name
	return v
}
