// Package watch runs searches that wait for changes: content synchronization and persistent
// searches. Both kinds find the changes by comparing the entries that the search finds in one
// state with the entries that it finds in a later state.
package watch

import (
	"context"
	"errors"
	"iter"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/locate"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/search"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	partsearch "github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A content is the set of entries that a search finds in one state (RFC 4533, 3.2). The
// comparison of two contents shows the changes.
type content struct{ search.Stream }

// Run runs a search that waits for changes.
func Run(ctx context.Context, req *request.Request, r *op.Search, sink op.Sink) error {
	if req.Controls.Sync != nil {
		return synchronize(ctx, req, r, sink)
	}
	return searchOn(ctx, req, r, sink)
}

// A watch is a search that waits for changes: content synchronization, or a persistent
// search.
type watch struct {
	req  *request.Request
	r    *op.Search
	sink op.Sink
	base entry.ID // the base of the search, which must stay the same entry
	// program contains the access rules that selected the content that the client has. If
	// program is nil, access rules do not restrict the requester.
	program *acl.Program
}

// errBase ends a watch if the base of the search no longer exists, or if another entry now
// has the name of the base.
var errBase = errors.New("the base of the search is another entry now, or none")

// content returns the content of a state under the access rules p.
func (w *watch) content(ctx context.Context, s *partition.Snapshot, p *acl.Program) (*content, error) {
	req := w.req.On(s)
	if p != nil {
		req.Judge.By(p)
	}
	at, err := locate.Base(ctx, req, w.r)
	if err != nil {
		return nil, err
	}
	c := &content{}
	c.Open(req, w.r, nil, w.sink)
	if err := c.Prepare(ctx); err != nil {
		return nil, err
	}
	c.Query.Base = at.ID
	return c, nil
}

// later returns the content of a later state. It returns errBase if the base of the search
// is no longer the same entry.
func (w *watch) later(ctx context.Context, s *partition.Snapshot, p *acl.Program) (*content, error) {
	c, err := w.content(ctx, s, p)
	if request.IsMissing(err) || err == nil && c.Query.Base != w.base {
		return nil, errBase
	}
	return c, err
}

// hides reports whether an entry that the query finds is not in the content, because the
// search leaves out subentries.
func (c *content) hides(e *entry.Entry) bool {
	return c.Subentries && c.Req.Known.Is(e, c.Req.Known.Subentry)
}

// The method "all" returns a sequence of the entries of the content.
func (c *content) all(ctx context.Context) iter.Seq2[*partition.Result, error] {
	return c.find(ctx, c.Query)
}

// The method "below" returns a sequence of the entries that are below an entry and match the
// filter. These entries need not be in the scope of the search.
func (c *content) below(ctx context.Context, id entry.ID) iter.Seq2[*partition.Result, error] {
	q := c.Query
	q.Base, q.Scope = id, op.Subordinates
	return c.find(ctx, q)
}

func (c *content) find(ctx context.Context, q partition.Query) iter.Seq2[*partition.Result, error] {
	return func(yield func(*partition.Result, error) bool) {
		for found, err := range partsearch.Search(ctx, c.Req.Snapshot, q) {
			if err == nil && c.hides(found.Entry) {
				continue
			}
			if !yield(found, err) {
				return
			}
		}
		if err := c.failure(); err != nil {
			yield(nil, err)
		}
	}
}

// failure returns the error of a filter that could not decide.
func (c *content) failure() error {
	if err := c.Req.Judge.Failure(); err != nil {
		return err
	}
	return c.Out.View.Shared.Failure()
}

// lookup returns an entry if it is in the content.
func (c *content) lookup(ctx context.Context, id entry.ID) (*partition.Result, bool, error) {
	found, ok, err := partsearch.Lookup(ctx, c.Req.Snapshot, c.Query, id)
	if err == nil {
		err = c.failure()
	}
	return &found, ok && err == nil && !c.hides(found.Entry), err
}

func (c *content) has(ctx context.Context, id entry.ID) (bool, error) {
	_, ok, err := c.lookup(ctx, id)
	return ok, err
}

// isReferral reports whether an entry is a referral and the search sends referrals as
// references.
func (c *content) isReferral(e *entry.Entry) bool {
	return c.Referrals && c.Req.Known.Is(e, c.Req.Known.Referral)
}

// send sends an entry, or a reference, with a control.
func (c *content) send(ctx context.Context, found *partition.Result, controls ...op.Control) error {
	urls, err := c.Elsewhere(ctx, found)
	switch {
	case err != nil:
		return err
	case urls != nil:
		return c.Out.Reference(urls, controls...)
	}
	return c.Out.Entry(ctx, found, controls...)
}
