package directory

import (
	"context"
	"errors"
	"iter"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// A content is what a search finds in one state of the directory (RFC 4533,
// 3.2). Two of them are compared to tell a client what has changed.
type content struct{ stream }

// runWatch runs a search that goes on telling of changes.
func runWatch(ctx context.Context, o *operation, name dn.DN, r *op.Search, sink op.Sink) error {
	if err := o.controls.checkWait(); err != nil {
		return err
	}
	if o.controls.sync != nil {
		return synchronize(ctx, o, name, r, sink)
	}
	return searchOn(ctx, o, name, r, sink)
}

// A watch is a search that goes on telling of changes: content synchronization,
// or a persistent search.
type watch struct {
	o    *operation
	r    *op.Search
	name dn.DN
	sink op.Sink
	base entry.ID // that the search began at
}

// errBase ends a watch whose base is no longer the entry it began with.
var errBase = errors.New("the base of the search is another entry now, or none")

// content makes that of a state.
func (w *watch) content(ctx context.Context, s *partition.Snapshot) (*content, error) {
	o := w.o.on(s)
	at, err := locateBase(ctx, o, w.r, w.name)
	if err != nil {
		return nil, err
	}
	c := &content{}
	c.open(o, w.r, nil, w.sink)
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	c.query.Base = at.ID
	return c, nil
}

// later is content for a state that the watch goes on to.
func (w *watch) later(ctx context.Context, s *partition.Snapshot) (*content, error) {
	c, err := w.content(ctx, s)
	if isMissing(err) || err == nil && c.query.Base != w.base {
		return nil, errBase
	}
	return c, err
}

// hides reports whether the search passes over an entry that it finds.
func (c *content) hides(e *entry.Entry) bool {
	return c.subentries && c.o.known.is(e, c.o.known.subentry)
}

// all streams the content.
func (c *content) all(ctx context.Context) iter.Seq2[*partition.Result, error] {
	return c.find(ctx, c.query)
}

// below streams what the filter finds below an entry, in scope or not.
func (c *content) below(ctx context.Context, id entry.ID) iter.Seq2[*partition.Result, error] {
	q := c.query
	q.Base, q.Scope = id, op.Subordinates
	return c.find(ctx, q)
}

func (c *content) find(ctx context.Context, q partition.Query) iter.Seq2[*partition.Result, error] {
	return func(yield func(*partition.Result, error) bool) {
		for found, err := range c.o.s.Search(ctx, q) {
			if err == nil && c.hides(found.Entry) {
				continue
			}
			if !yield(found, err) {
				return
			}
		}
		if err := c.out.view.shared.failure(); err != nil {
			yield(nil, err)
		}
	}
}

// lookup returns an entry if it is in the content.
func (c *content) lookup(ctx context.Context, id entry.ID) (*partition.Result, bool, error) {
	found, ok, err := c.o.s.Lookup(ctx, c.query, id)
	if err == nil {
		err = c.out.view.shared.failure()
	}
	return &found, ok && err == nil && !c.hides(found.Entry), err
}

func (c *content) has(ctx context.Context, id entry.ID) (bool, error) {
	_, ok, err := c.lookup(ctx, id)
	return ok, err
}

// isReferral reports whether an entry is told as a reference.
func (c *content) isReferral(e *entry.Entry) bool {
	return c.referrals && c.o.known.is(e, c.o.known.referral)
}

// tell sends an entry, or a reference, with a control.
func (c *content) tell(ctx context.Context, found *partition.Result, controls ...op.Control) error {
	urls, err := c.elsewhere(ctx, found)
	switch {
	case err != nil:
		return err
	case urls != nil:
		return c.out.reference(urls, controls...)
	}
	return c.out.entry(ctx, found, controls...)
}
