package watch

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/internal/filterprep"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

// The type commits describes some successive commits, and contains the entries that these
// commits touched.
type commits struct {
	any      bool
	all      bool              // ids is not complete: the commits touched more entries
	ids      []entry.ID        // each touched entry once, in the order of the commits
	frontier revision.Frontier // the frontier after the commits
	more     bool              // more commits may follow
}

// gather collects the entries that commits touched. It considers the commits that s shows
// and that the given frontier does not include. It stops before there are very many entries.
// gather never combines a commit that renames entries with other commits. Otherwise the client
// could receive an entry before the entry's parent, or an entry with a name that the client's
// copy of another entry still has.
func gather(ctx context.Context, s *partition.Snapshot, after revision.Frontier) (*commits, error) {
	g := &commits{frontier: after}
	seen := map[entry.ID]bool{}
	for c, err := range changestream.Shown(ctx, s, after) {
		if err != nil {
			return nil, err
		}
		alone := c.All || c.Renames
		if g.any && (alone || len(g.ids)+len(c.IDs) > maxDifference) {
			g.more = true
			return g, nil
		}
		g.any, g.all, g.frontier = true, c.All, g.frontier.With(c.Revision)
		for _, id := range c.IDs {
			if !seen[id] {
				seen[id] = true
				g.ids = append(g.ids, id)
			}
		}
		if alone {
			g.more = true
			return g, nil
		}
	}
	return g, nil
}

// differ sends the difference between two contents. It first sends the entries that left,
// so that their names become free, and then the entries that came or changed.
func (y *synchronizer) differ(ctx context.Context, from, to *content, g *commits, known revision.Frontier) error {
	all, err := comparesAll(ctx, from, to, g)
	if err != nil {
		return err
	}
	if all {
		return y.compare(ctx, from, to, known)
	}
	d := &difference{y: y, from: from, to: to, touched: make(map[entry.ID]bool, len(g.ids))}
	for _, id := range g.ids {
		d.touched[id] = true
	}
	for e, err := range changestream.Effects(ctx, from.Req.Snapshot, to.Req.Snapshot, g.ids) {
		if err != nil {
			return err
		}
		if err := d.leave(ctx, e); err != nil {
			return err
		}
	}
	if err := y.dropped(); err != nil {
		return err
	}
	for _, n := range d.arrivals {
		if err := d.come(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// comparesAll reports whether the two contents must be compared as a whole. This is the case
// if the commits touched too many entries, or if an entry that the commits did not touch may
// have come or gone. Such an entry may come or go in three cases: the schema has changed;
// the filter tests collective attributes, and a subentry or an administrative point has
// changed; or the filter or an access rule depends on other entries than the tested entry.
func comparesAll(ctx context.Context, from, to *content, g *commits) (bool, error) {
	if g.all || from.Req.Schema != to.Req.Schema || filterprep.AsksOthers(from.Req, from.R.Filter) || from.restricted() && from.Req.Judge.Program().AsksOthers() {
		return true, nil
	}
	if !from.asksShared() && !to.asksShared() {
		return false, nil
	}
	for _, id := range g.ids {
		for _, c := range []*content{from, to} {
			if governs, err := c.isShared(ctx, id); governs || err != nil {
				return governs, err
			}
		}
	}
	return false, nil
}

// asksShared reports whether the filter tests collective attributes.
func (c *content) asksShared() (asks bool) {
	if c.Out.View.Shared == nil {
		return false
	}
	filter.Map(c.Query.Filter, func(t *filter.Test) filter.Resolved {
		asks = asks || t.Shared() != nil
		return t
	})
	return asks
}

// isShared reports whether an entry determines the collective attributes of other
// entries. Such an entry is a collective attribute subentry or an administrative point.
func (c *content) isShared(ctx context.Context, id entry.ID) (bool, error) {
	e, err := c.Req.Snapshot.Entry(ctx, id, false)
	if err != nil || e == nil {
		return false, err
	}
	return c.Req.Known.Is(e, c.Req.Known.CollectiveSubentry) || len(e.Values(c.Req.Known.AdministrativeRole)) > 0, nil
}

// A difference compares two contents. It looks only at the entries that commits touched, and
// at the descendants of moved entries.
type difference struct {
	y        *synchronizer
	from, to *content
	touched  map[entry.ID]bool
	arrivals []arrival
}

// arrival is an entry to send, or an entry whose descendants must be compared.
type arrival struct {
	id    entry.ID
	state int64 // the sync state to send; 0: the entry is not sent
	moved bool  // the entry was moved and has descendants
}

// leave handles the effect of the commits on one entry. If the entry left the content, leave
// sends the deletion of the entry. If the entry was moved, leave also sends the deletions of
// the descendants that left the content because of the move. It records in arrivals what the
// method come must send later.
func (d *difference) leave(ctx context.Context, e changestream.Effect) error {
	n := arrival{id: e.ID}
	was, is, err := d.both(ctx, e)
	switch {
	case err != nil:
		return err
	case is && was != nil:
		if n.state, err = d.modified(ctx, e); err != nil {
			return err
		}
	case is:
		n.state = control.SyncAdd
	case was != nil:
		if err := d.y.drop(d.from, was); err != nil {
			return err
		}
	}
	if e.Kind == changestream.Moved {
		if n.moved, err = d.from.Req.Snapshot.HasChildren(ctx, e.ID); err == nil && !n.moved {
			n.moved, err = d.to.Req.Snapshot.HasChildren(ctx, e.ID)
		}
		if err == nil && n.moved {
			err = d.leaveBelow(ctx, e.ID)
		}
	}
	if n.state != 0 || n.moved {
		d.arrivals = append(d.arrivals, n)
	}
	return err
}

// modified returns the sync state to send for an entry that is in both contents. It returns
// 0 if the requester may be shown nothing of the change.
func (d *difference) modified(ctx context.Context, e changestream.Effect) (int64, error) {
	if d.to.restricted() && e.Kind != changestream.Moved {
		if same, err := sameShown(ctx, d.from, d.to, e.ID); same || err != nil {
			return 0, err
		}
	}
	return control.SyncModify, nil
}

// The method "both" looks up an entry in both contents. It returns the entry in the old content,
// or nil, and reports whether the new content has the entry.
func (d *difference) both(ctx context.Context, e changestream.Effect) (was *partition.Result, is bool, err error) {
	if e.Kind != changestream.Added {
		found, ok, err := d.from.lookup(ctx, e.ID)
		if err != nil {
			return nil, false, err
		}
		if ok {
			was = found
		}
	}
	if e.Kind != changestream.Deleted {
		is, err = d.to.has(ctx, e.ID)
	}
	return was, is, err
}

// leaveBelow sends the deletions of those descendants of a moved entry that left the
// content because of the move.
func (d *difference) leaveBelow(ctx context.Context, id entry.ID) error {
	for found, err := range d.from.below(ctx, id) {
		if err != nil {
			return err
		}
		if d.touched[found.ID] {
			continue
		}
		was, ok, err := d.from.lookup(ctx, found.ID)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		is, err := d.to.has(ctx, found.ID)
		if err == nil && !is {
			err = d.y.drop(d.from, was)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The method "come" sends an entry that came or changed, and the descendants that came with the
// entry.
func (d *difference) come(ctx context.Context, n arrival) error {
	if n.state != 0 {
		found, ok, err := d.to.lookup(ctx, n.id)
		if err == nil && ok {
			err = d.y.send(ctx, d.to, found, n.state)
		}
		if err != nil {
			return err
		}
	}
	if !n.moved {
		return nil
	}
	return d.comeBelow(ctx, n)
}

// comeBelow sends the descendants of a moved entry that came into the content because of the
// move. The client renames other descendants itself if the moved entry is in both contents
// (RFC 4533, 4.1). If the moved entry is not in both contents, comeBelow also sends the
// descendants that are in both contents.
func (d *difference) comeBelow(ctx context.Context, n arrival) error {
	for found, err := range d.to.below(ctx, n.id) {
		if err != nil {
			return err
		}
		if d.touched[found.ID] {
			continue
		}
		is, ok, err := d.to.lookup(ctx, found.ID)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		was, err := d.from.has(ctx, found.ID)
		switch {
		case err != nil:
		case !was:
			err = d.y.send(ctx, d.to, is, control.SyncAdd)
		case n.state != control.SyncModify:
			err = d.y.send(ctx, d.to, is, control.SyncModify)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compare sends the difference between two contents. It reads both contents as a whole.
func (y *synchronizer) compare(ctx context.Context, from, to *content, known revision.Frontier) error {
	for found, err := range from.all(ctx) {
		if err != nil {
			return err
		}
		is, err := to.has(ctx, found.ID)
		if err == nil && !is {
			err = y.drop(from, found)
		}
		if err != nil {
			return err
		}
	}
	if err := y.dropped(); err != nil {
		return err
	}
	for found, err := range to.all(ctx) {
		if err != nil {
			return err
		}
		if err := y.compareOne(ctx, from, to, found, known); err != nil {
			return err
		}
	}
	return nil
}

func (y *synchronizer) compareOne(ctx context.Context, from, to *content, found *partition.Result, known revision.Frontier) error {
	was, err := from.has(ctx, found.ID)
	if err != nil {
		return err
	}
	if !was {
		return y.send(ctx, to, found, control.SyncAdd)
	}
	same := false
	if from.restricted() || to.restricted() {
		same, err = sameShown(ctx, from, to, found.ID)
	} else {
		same, err = changestream.Unmoved(ctx, to.Req.Snapshot, found.ID, known)
	}
	if err != nil || same {
		return err
	}
	return y.send(ctx, to, found, control.SyncModify)
}
