package directory

import (
	"context"
	"errors"
	"iter"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A content is what a search finds in one state of the directory (RFC 4533,
// 3.2). Two of them are compared to tell a client what has changed.
type content struct{ stream }

// A watch is a search that goes on telling of changes: content synchronization,
// or a persistent search.
type watch struct {
	o    *operation
	r    *op.Search
	name dn.DN
	sink op.Sink
	base entry.ID // that the search began at
	// since is the operation as it is since the schema changed; nil: it has not.
	since *operation
}

// errBase ends a watch whose base is no longer the entry it began with.
var errBase = errors.New("the base of the search is another entry now, or none")

// content makes that of a state.
func (w *watch) content(ctx context.Context, s *partition.Snapshot) (*content, error) {
	o := w.under(s.Schema())
	at, err := o.locateBase(ctx, s, w.r, w.name)
	if err != nil {
		return nil, err
	}
	c := &content{stream{o: o, s: s, sink: w.sink, r: w.r}}
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

// under returns the operation as it would be under the schema of another state.
func (w *watch) under(s *schema.Schema) *operation {
	o := w.o
	switch {
	case o.schema == s:
		return o
	case w.since != nil && w.since.schema == s:
		return w.since
	}
	x := &operation{d: o.d, session: o.session, who: o.who, controls: o.controls, limits: o.limits, trace: o.trace, schema: s, known: o.d.knownOf(s)}
	x.controls.matched = o.controls.matched.under(s)
	x.controls.dereference = describeAll(o.controls.dereference, s)
	x.selector.resolve(w.r.Attributes, s)
	w.since = x
	return x
}

// hides reports whether the search passes over an entry that it finds.
func (c *content) hides(e *entry.Entry) bool {
	return c.subentries && c.o.is(e, c.o.known.subentry)
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
		for found, err := range c.s.Search(ctx, q) {
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

// failure is an error of the filter's tests, which cannot return it.
func (c *content) failure() error {
	if c.shared == nil {
		return nil
	}
	return c.shared.failed
}

// lookup returns an entry if it is in the content.
func (c *content) lookup(ctx context.Context, id entry.ID) (*partition.Result, bool, error) {
	found, ok, err := c.s.Lookup(ctx, c.query, id)
	if err == nil {
		err = c.failure()
	}
	return &found, ok && err == nil && !c.hides(found.Entry), err
}

func (c *content) has(ctx context.Context, id entry.ID) (bool, error) {
	_, ok, err := c.lookup(ctx, id)
	return ok, err
}

// isReferral reports whether an entry is told as a reference.
func (c *content) isReferral(e *entry.Entry) bool {
	return c.referrals && c.o.is(e, c.o.known.referral)
}

// tell sends an entry, or a reference, with a control.
func (c *content) tell(ctx context.Context, found *partition.Result, controls ...op.Control) error {
	c.controls = controls
	urls, err := c.elsewhere(ctx, found)
	switch {
	case err != nil:
		return err
	case urls != nil:
		return c.reference(urls)
	}
	return c.send(ctx, found)
}
