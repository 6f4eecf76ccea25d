package migrate

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A refresh is what a server has reported about a subtree since the synchronization
// began.
type refresh struct {
	m       *Move
	base    string
	done    bool       // the refresh phase is over: the following events are new changes
	present []entry.ID // ids of entries that the server has; not used once done is set
	// deleted are the entries to delete at the end of the refresh. They may have entries
	// below them that must be moved or deleted first.
	deleted []entry.ID
	sweep   bool // entries that are not in present are deleted at the end
	cookie  []byte
}

// list reads the ids of all entries, if the product uses other ids in the synchronization than
// in entryUUID. Without these ids, r would not know which entries the server reports as
// deleted. If there is no cookie, the server sends all entries, so list does nothing. It also
// does nothing if m.ids is already complete.
func (r *refresh) list(ctx context.Context, cookie []byte) error {
	m := r.m
	if m.link.src.product.id == "" || !m.link.src.synced || cookie == nil || m.ids.complete {
		return nil
	}
	r.sweep = true
	err := m.listIDs(ctx, m.link.src, r.base, nil, func(c *copied) { r.present = append(r.present, c.id) })
	m.ids.complete = err == nil && len(m.link.src.Bases) == 1
	return err
}

// consume copies the changes that the events in queue report, until queue is closed.
func (r *refresh) consume(ctx context.Context, queue <-chan *event, caught func()) error {
	for ev := range queue {
		batch := []*event{ev}
		for len(batch) < mostBatch && batch[len(batch)-1].refreshed == nil {
			ev, ok := next(queue)
			if !ok {
				break
			}
			batch = append(batch, ev)
		}
		before := r.done
		if err := r.take(ctx, batch); err != nil {
			return err
		}
		if r.done && !before {
			caught()
		}
		if r.m.writer.again && r.done {
			r.m.writer.again = false // the cursor already says that the next refresh begins anew
			return errReload
		}
	}
	return nil
}

// mostBatch is the largest number of events in one commit.
const mostBatch = 128

// The function "next" returns the next event if the queue has an event now. It does not wait.
func next(queue <-chan *event) (*event, bool) {
	select {
	case ev, ok := <-queue:
		return ev, ok
	default:
		return nil, false
	}
}

// take copies the changes that some events report. If an event ends a phase of the refresh,
// the caller must make this event the last one of the batch.
func (r *refresh) take(ctx context.Context, batch []*event) error {
	var as []action
	cookie, ahead := r.cookie, r.m.place.cursor.Ahead[r.base]
	for _, ev := range batch {
		ahead = ahead || ev.entry != nil
		if len(ev.cookie) > 0 {
			cookie, ahead = ev.cookie, ahead && !r.done
		}
		if err := r.m.link.complete(ctx, ev); err != nil {
			return err
		}
		if a, ok := r.action(ev); ok {
			as = append(as, a)
		}
	}
	if err := r.apply(ctx, newest(as), r.next(cookie, r.done, ahead)); err != nil {
		return err
	}
	r.cookie = cookie
	if end := batch[len(batch)-1].refreshed; end != nil && !r.done {
		return r.end(ctx, end)
	}
	return nil
}

// action returns the change to make now for an event. It returns false if there is none.
func (r *refresh) action(ev *event) (a action, ok bool) {
	switch {
	case ev.entry != nil:
		return r.put(ev)
	case ev.gone != nil && r.done:
		return action{del: r.m.ids.of(ev.id)}, true
	case ev.gone != nil:
		r.deleted = append(r.deleted, r.m.ids.of(ev.id))
	}
	for _, id := range ev.ids {
		if id = r.m.ids.of(id); ev.deleted {
			r.deleted = append(r.deleted, id)
		} else {
			r.present = append(r.present, id)
		}
	}
	return a, false
}

func (r *refresh) put(ev *event) (a action, ok bool) {
	c, err := r.m.translation().translate(ev.entry)
	if err != nil {
		r.m.left.refuse(ev.entry.DN, entry.Root, err)
		return a, false
	}
	if ev.id != entry.Root && c.id != entry.Root {
		r.m.ids.add(ev.id, c.id)
	}
	if !r.done && c.id != entry.Root {
		r.present = append(r.present, c.id)
	}
	return action{put: c}, true
}

// end ends a phase of the refresh. At the end of the last phase it deletes the entries
// that the server no longer has.
func (r *refresh) end(ctx context.Context, end *refreshed) error {
	r.sweep = r.sweep || end.present
	if !end.done {
		return nil
	}
	if r.m.link.src.synced {
		if err := r.subentries(ctx); err != nil {
			return err
		}
	}
	if r.sweep {
		if err := r.absent(ctx); err != nil {
			return err
		}
	}
	if err := r.m.writer.remove(ctx, r.deleted); err != nil {
		return err
	}
	r.done, r.present, r.deleted = true, nil, nil
	return r.m.writer.apply(ctx, nil, r.next(r.cookie, true, false))
}

// The method "next" returns the cursor after a batch. The parameter ahead is set if changes
// were copied that are newer than the cookie.
func (r *refresh) next(cookie []byte, done, ahead bool) *cursor {
	c := r.m.place.cursor.clone()
	if done && len(cookie) > 0 {
		c.Cookies[r.base] = cookie
	}
	if delete(c.Ahead, r.base); ahead {
		c.setAhead(r.base)
	}
	return c
}

// apply makes changes as writer.apply does. If the server shows no id for an entry, apply adds
// to r.present the id that the entry has in the directory.
func (r *refresh) apply(ctx context.Context, as []action, next *cursor) error {
	if err := r.m.writer.apply(ctx, as, next); err != nil || r.done {
		return err
	}
	s := state.Newest(r.m.p)
	defer s.Close()
	for _, a := range as {
		if a.put == nil || a.put.id != entry.Root {
			continue
		}
		at, err := s.Find(ctx, a.put.name)
		switch {
		case err == nil:
			r.present = append(r.present, at.ID)
		case !isRefusal(err):
			return err
		}
	}
	return nil
}

// subentries copies the subentries, which a synchronization does not send.
func (r *refresh) subentries(ctx context.Context) error {
	var as []action
	err := r.m.link.ask.hidden(ctx, r.base, func(e *ldap.Entry) error {
		if a, ok := r.put(&event{entry: e}); ok {
			as = append(as, a)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.apply(ctx, as, nil)
}

// absent adds to r.deleted the entries of the subtree that are not in r.present. It skips the
// subtrees of other bases below r.base, because each base has a separate refresh.
func (r *refresh) absent(ctx context.Context) error {
	slices.SortFunc(r.present, compareIDs)
	s := state.Newest(r.m.p)
	defer s.Close()
	name, err := dn.Parse(r.base)
	if err != nil {
		return err
	}
	at, err := s.Find(ctx, name)
	if partition.Is(err, partition.NoSuchEntry) {
		return nil
	}
	if err != nil {
		return err
	}
	if !has(r.present, at.ID) {
		return fmt.Errorf("%s shows no entry %s: nothing is deleted because of that", r.m.link.src.Remote.URL, r.base)
	}
	inner := r.m.link.src.inner(r.base)
	for x, err := range entriesBelow(ctx, s, r.base) {
		if err != nil {
			return err
		}
		if !has(r.present, x.ID) && !within(x.Name.String(), inner) {
			r.deleted = append(r.deleted, x.ID)
		}
	}
	return nil
}

func compareIDs(a, b entry.ID) int { return bytes.Compare(a[:], b[:]) }

func has(sorted []entry.ID, id entry.ID) bool {
	_, found := slices.BinarySearchFunc(sorted, id, compareIDs)
	return found
}
