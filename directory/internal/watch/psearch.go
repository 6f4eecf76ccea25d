package watch

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/directory/internal/assertion"
	"github.com/seed-4dac0d86/ldapd/directory/internal/delivery"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// changeTypes maps the effects of commits to the change types of a persistent search.
var changeTypes = map[changestream.EffectKind]int64{
	changestream.Added:    control.ChangeAdd,
	changestream.Deleted:  control.ChangeDelete,
	changestream.Modified: control.ChangeModify,
	changestream.Moved:    control.ChangeModDN,
}

// A persister runs a persistent search. It sends the present entries, if the client wants
// them. Then, for each commit, it sends the changes of the entries that match the search.
type persister struct {
	watch
	request *control.PersistentSearch
}

// searchOn runs a search with a persistent search control.
func searchOn(ctx context.Context, req *request.Request, r *op.Search, sink op.Sink) error {
	p, err := rulesNow(ctx, req)
	if err != nil {
		return err
	}
	w := &persister{watch{req: req, r: withoutAliases(r), sink: sink, program: p}, req.Controls.Persistent}
	frontier, err := w.begin(ctx)
	if err != nil {
		return err
	}
	if err := persist(req, sink); err != nil {
		return err
	}
	for c, err := range changestream.Stream(ctx, req.Server.Part, frontier) {
		if err != nil {
			return err
		}
		after := frontier.With(c.Revision)
		if err := w.notify(ctx, c, frontier, after); err != nil {
			return err
		}
		frontier = after
	}
	return nil
}

// withoutAliases returns a copy of the search that does not follow aliases below the base,
// because the target of an alias can change without a change of the alias. A search that
// requests to follow them is not refused, because JNDI requests this by default.
func withoutAliases(r *op.Search) *op.Search {
	less := *r
	switch r.Deref {
	case op.DerefInSearching:
		less.Deref = op.NeverDerefAliases
	case op.DerefAlways:
		less.Deref = op.DerefFindingBase
	}
	return &less
}

// begin sends the present entries, unless the client wants only changes. It returns the
// frontier of the state that it has read. The persister then sends the changes after this
// frontier.
func (w *persister) begin(ctx context.Context) (revision.Frontier, error) {
	s := state.Newest(w.req.Server.Part)
	defer s.Close()
	frontier, err := changestream.Frontier(ctx, s)
	if err != nil {
		return nil, err
	}
	c, err := w.content(ctx, s, w.program)
	if err != nil {
		return nil, err
	}
	w.base = c.Query.Base
	if err := assertion.Check(ctx, c.Req, w.base); err != nil || w.request.ChangesOnly {
		return frontier, err
	}
	limited, cancel := delivery.LimitTime(ctx, w.req, w.r)
	defer cancel()
	return frontier, c.Run(limited, w.base)
}

// errRules ends a persistent search if the access rules for its requester have changed.
var errRules = op.Errorf(op.UnwillingToPerform, "the access rules for the requester have changed: search again")

// notify sends the changes of one commit.
func (w *persister) notify(ctx context.Context, c *changestream.Change, before, after revision.Frontier) error {
	p, err := rulesNow(ctx, w.req)
	if err != nil {
		return err
	}
	if !sameRules(p, w.program) {
		return errRules
	}
	w.program = p
	part := w.req.Server.Part
	from, err := changestream.AtFrontier(ctx, part, before)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := changestream.AtFrontier(ctx, part, after)
	if err != nil {
		return err
	}
	defer to.Close()
	was, err := w.later(ctx, from, p)
	if err != nil {
		return err
	}
	is, ended := w.later(ctx, to, p)
	if ended != nil && !errors.Is(ended, errBase) {
		return ended
	}
	n := &notice{w: w, revision: c.Revision, from: from, to: to, was: was, is: is}
	if c.All {
		err = n.all(ctx)
	} else {
		err = n.each(ctx, c.IDs)
	}
	if err == nil && ended != nil {
		err = op.Errorf(op.NoSuchObject, "%v", ended)
	}
	return err
}

// A notice sends the changes of one commit. It compares the states before and after the
// commit.
type notice struct {
	w        *persister
	revision table.Revision
	from, to *partition.Snapshot
	was, is  *content // is == nil: the base is gone, and only deletions are sent
}

// The method "each" sends the changes of the given entries.
func (n *notice) each(ctx context.Context, ids []entry.ID) error {
	for e, err := range changestream.Effects(ctx, n.from, n.to, ids) {
		if err == nil {
			err = n.effect(ctx, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The method "all" sends the changes of a commit whose record does not list the touched entries,
// because they are too many.
func (n *notice) all(ctx context.Context) error {
	for found, err := range n.was.all(ctx) {
		if err != nil {
			return err
		}
		if left, err := n.left(ctx, found.ID); err != nil || !left {
			if err != nil {
				return err
			}
			continue
		}
		if err := n.each(ctx, []entry.ID{found.ID}); err != nil {
			return err
		}
	}
	if n.is == nil {
		return nil
	}
	for found, err := range n.is.all(ctx) {
		if err != nil {
			return err
		}
		if last, err := changestream.Written(ctx, n.to, found.ID); err != nil || last != n.revision {
			if err != nil {
				return err
			}
			continue
		}
		if err := n.each(ctx, []entry.ID{found.ID}); err != nil {
			return err
		}
	}
	return nil
}

// The method "left" reports whether an entry of the old content was deleted, or became hidden
// from the requester.
func (n *notice) left(ctx context.Context, id entry.ID) (bool, error) {
	there, err := changestream.Written(ctx, n.to, id)
	if err != nil || there == 0 || n.is == nil || !n.is.restricted() {
		return there == 0, err
	}
	sees, err := n.is.sees(ctx, id)
	return !sees, err
}

// asSeen turns the effect of a commit on an entry into the effect that the requester sees.
// If the entry becomes visible, the requester sees an addition. If the entry becomes hidden,
// the requester sees a deletion. The result seen is false if the requester sees no change.
func (n *notice) asSeen(ctx context.Context, e changestream.Effect) (_ changestream.Effect, seen bool, err error) {
	if !n.was.restricted() || n.is == nil {
		return e, true, nil
	}
	before, after := false, false
	if e.Kind != changestream.Added {
		before, err = n.was.sees(ctx, e.ID)
	}
	if e.Kind != changestream.Deleted && err == nil {
		after, err = n.is.sees(ctx, e.ID)
	}
	switch {
	case err != nil || !before && !after:
		return e, false, err
	case !before:
		e.Kind = changestream.Added
	case !after:
		e.Kind = changestream.Deleted
	case e.Kind == changestream.Modified:
		same, err := sameShown(ctx, n.was, n.is, e.ID)
		return e, !same, err
	}
	return e, true, nil
}

// effect sends the change of an entry. If the change is a deletion, effect sends it only if
// the old content had the entry. Any other change is sent only if the new content has the
// entry.
func (n *notice) effect(ctx context.Context, e changestream.Effect) error {
	e, seen, err := n.asSeen(ctx, e)
	if err != nil || !seen {
		return err
	}
	kind := changeTypes[e.Kind]
	c := n.is
	if e.Kind == changestream.Deleted {
		c = n.was
	}
	if n.w.request.Types&kind == 0 || c == nil {
		return nil
	}
	found, ok, err := c.lookup(ctx, e.ID)
	if err != nil || !ok {
		return err
	}
	if !n.w.request.ReturnECs {
		return c.send(ctx, found)
	}
	change := control.EntryChange{Type: kind}
	if e.Kind == changestream.Moved {
		previous, err := n.from.Name(ctx, e.ID)
		if err != nil {
			return err
		}
		change.PreviousDN = previous.String()
	}
	return c.send(ctx, found, op.Control{OID: control.OIDEntryChange, Value: change.Encode()})
}
