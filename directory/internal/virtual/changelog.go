package virtual

import (
	"context"
	"encoding/binary"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/results"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/history"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changes"
	"github.com/seed-4dac0d86/ldapd/partition/past"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// The changelog (draft-good-ldap-changelog-04) shows commits as entries below cn=changelog.
// The server builds these entries from the journal when a client requests them. A change
// number is the revision of the commit, so all servers show the same numbers, and no server
// needs a counter. A commit that changed several entries has one changelog entry for each
// changed entry, all with the same number. The names of the second and later entries of a
// commit also contain a changeOrdinal.
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
	settled := func(ctx context.Context, p *results.Page) (*partition.Snapshot, error) {
		return settledState(ctx, req, p)
	}
	return list(ctx, req, r, sink, changelogTop, "the changelog", settled, func(ctx context.Context, l *listing) error {
		return (&changelog{listing: l, of: req}).run(ctx, name)
	})
}

// settledState returns the state up to which the changelog shows commits. From now on, no
// server can make a commit whose revision is at or below the revision of this state.
func settledState(ctx context.Context, req *request.Request, p *results.Page) (*partition.Snapshot, error) {
	if p.GoesOn() {
		return req.Server.Part.At(ctx, p.Revision)
	}
	return changes.Settled(ctx, req.Server.Part)
}

// changelog is a search of the changelog.
type changelog struct {
	*listing
	of  *request.Request    // the request whose Judge decides about the entries of the tree
	now *partition.Snapshot // the state whose access rules this Judge uses
}

func (l *changelog) run(ctx context.Context, name dn.DN) error {
	if l.judged {
		l.now = l.req.Server.Part.Snapshot()
		defer l.now.Close()
		if err := l.of.Judged(ctx, l.now); err != nil {
			return err
		}
	}
	if len(name) > 1 {
		return l.one(ctx, name)
	}
	if (l.r.Scope == op.BaseObject || l.r.Scope == op.WholeSubtree) && !l.out.Page.GoesOn() {
		if err := l.offerChange(ctx, changelogTop(l.req), 0, 0); err != nil {
			return err
		}
	}
	if l.r.Scope == op.BaseObject {
		return nil
	}
	return l.list(ctx)
}

// changes streams the changes after a revision, as far as the requester may read them. For a
// requester whom access rules restrict, a change is the difference between what the requester
// may see of the states before and after the change.
func (l *changelog) changes(ctx context.Context, after table.Revision) iter.Seq2[*history.Change, error] {
	if !l.judged {
		return history.Changes(ctx, l.req.Server.Part, l.req.Snapshot, after)
	}
	if l.of.Judge.MayReadPast() != nil {
		return func(func(*history.Change, error) bool) {}
	}
	return history.ChangesSeen(ctx, l.req.Server.Part, l.req.Snapshot, after, l.lens)
}

// lens returns what the requester may see of the entries of a past state.
func (l *changelog) lens(ctx context.Context, s *partition.Snapshot) (history.Look, error) {
	x, err := l.of.InPast(ctx, s, l.now)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, id entry.ID) (*history.Sight, error) { return sight(ctx, x, id) }, nil
}

// sight returns what the requester may see of an entry of the state that the request
// reads.
func sight(ctx context.Context, x *request.Request, id entry.ID) (*history.Sight, error) {
	e, err := x.Snapshot.Entry(ctx, id, false)
	if err != nil || e == nil {
		return nil, err
	}
	name, err := x.Snapshot.Name(ctx, id)
	if err != nil {
		return nil, err
	}
	if sees, err := x.Judge.SeesEntry(ctx, name, e); err != nil || !sees {
		return nil, err
	}
	seen := &history.Sight{Secret: func(attribute string) (bool, error) {
		return x.Judge.ShowsSecret(ctx, name, e, x.Schema.Attribute(attribute))
	}}
	if seen.Name, err = name.DN(); err != nil {
		return nil, err
	}
	seen.Attributes, err = x.Judge.Shown(ctx, name, e, slices.Clone(e.Attributes))
	return seen, err
}

// list offers the changes whose numbers are in the range that the filter allows.
func (l *changelog) list(ctx context.Context) error {
	first, last := numbers(l.r.Filter)
	first = max(first, past.Horizon(l.req.Server.Part)+1)
	// Earlier pages may have shown some changes of the commit at the revision first. The
	// variable had is the number of the last of these changes, or -1 if there are none.
	had := -1
	if position, skip, ok := l.start(); ok {
		if len(position) != 8 {
			return results.ErrCookie
		}
		if at := table.Revision(binary.BigEndian.Uint64(position)); at >= first {
			first, had = at, skip
		}
	}
	for c, err := range l.changes(ctx, first-1) {
		if err != nil {
			return err
		}
		if c.Revision > last {
			break
		}
		if c.Revision == first && c.Number <= had {
			continue
		}
		if err := l.offerChange(ctx, l.entry(c), c.Revision, c.Number); err != nil {
			return err
		}
	}
	return nil
}

// The method "one" offers the entry with a name.
func (l *changelog) one(ctx context.Context, name dn.DN) error {
	missing := &op.Result{Code: op.NoSuchObject, MatchedDN: changelogName, Diagnostic: "the changelog has no such entry"}
	var number table.Revision
	for _, a := range name[0] {
		if strings.EqualFold(a.Type, "changeNumber") {
			n, _ := strconv.ParseUint(string(a.Value), 10, 63) // no commit has number 0
			number = table.Revision(n)
		}
	}
	if number <= past.Horizon(l.req.Server.Part) || number > l.req.Snapshot.Revision() {
		return missing
	}
	wanted := history.Key(name.String(), l.req.Schema)
	for c, err := range l.changes(ctx, number-1) {
		if err != nil {
			return err
		}
		if c.Revision > number {
			break
		}
		if v := l.entry(c); history.Key(v.Name.String(), l.req.Schema) == wanted {
			if l.r.Scope == op.SingleLevel || l.r.Scope == op.Subordinates {
				return nil
			}
			return l.offerChange(ctx, v, c.Revision, c.Number)
		}
	}
	return missing
}

// offerChange offers an entry. The position of the entry is a revision and the number of
// the change in the commit.
func (l *changelog) offerChange(ctx context.Context, v *Entry, at table.Revision, number int) error {
	return l.offer(ctx, v, binary.BigEndian.AppendUint64(nil, uint64(at)), number)
}

// numbers returns the first and the last change number for which a filter can be true.
func numbers(f filter.Filter) (first, last table.Revision) {
	first, last = 1, revision.Last
	switch f := f.(type) {
	case filter.And:
		for _, part := range f {
			a, b := numbers(part)
			first, last = max(first, a), min(last, b)
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
func changeNumber(attribute string, value []byte) (table.Revision, bool) {
	if !strings.EqualFold(attribute, "changeNumber") && attribute != "2.16.840.1.113730.3.1.5" {
		return 0, false
	}
	n, err := strconv.ParseUint(string(value), 10, 63)
	return table.Revision(n), err == nil && n > 0
}

// changelogTop returns the entry cn=changelog.
func changelogTop(req *request.Request) *Entry {
	return newEntry(req, changelogName, "applicationProcess", "cn", "changelog")
}

// entry returns the entry for a change.
func (l *changelog) entry(c *history.Change) *Entry {
	number := strconv.FormatUint(uint64(c.Revision), 10)
	rdn, ordinal := "changeNumber="+number, ""
	if c.Number > 0 {
		ordinal = strconv.Itoa(c.Number)
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
