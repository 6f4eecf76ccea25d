package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-ldap/ldap/v3"
	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
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

// An action is a change that the server has made.
type action struct {
	put *copied  // the entry as it is now, or nil
	del entry.ID // the entry that was deleted
}

// list reads the ids of all entries, if the product uses other ids in the synchronization than
// in entryUUID. Without these ids, r would not know which entries the server reports as
// deleted. If there is no cookie, the server sends all entries, so list does nothing. It also
// does nothing if m.others is already complete.
func (r *refresh) list(ctx context.Context, cookie []byte) error {
	m := r.m
	if m.src.product.id == "" || !m.src.synced || cookie == nil || m.mapped {
		return nil
	}
	r.sweep = true
	err := m.ids(ctx, m.src, r.base, nil, func(c *copied) { r.present = append(r.present, c.id) })
	m.mapped = err == nil && len(m.src.Bases) == 1
	return err
}

// ids calls each(e) for every entry e that the server has in a subtree, with the id, the name
// and the given attributes of e. ids skips entries that cannot be translated or show no id, and
// fills in m.others.
func (m *Move) ids(ctx context.Context, src *Source, base string, attributes []string, each func(*copied)) error {
	attributes = append(attributes, "entryUUID")
	if src.product.id != "" {
		attributes = append(attributes, src.product.id)
	}
	return src.All(ctx, base, attributes, func(e *ldap.Entry) error {
		c, err := m.translation().translate(e)
		if err != nil || c.id == entry.Root {
			return nil
		}
		each(c)
		for _, a := range src.ids(e) {
			if a != c.id {
				m.others[a] = c.id
			}
		}
		return nil
	})
}

// ids returns the ids of an entry in the product's own attribute, which exists besides
// entryUUID.
func (s *Source) ids(e *ldap.Entry) (ids []entry.ID) {
	for _, v := range e.GetEqualFoldAttributeValues(s.product.id) {
		if id, err := entry.ParseID(dashed(v)); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
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
		if r.m.again && r.done {
			r.m.again = false // the cursor already says that the next refresh begins anew
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
	cookie, ahead := r.cookie, r.m.cursor.Ahead[r.base]
	for _, ev := range batch {
		ahead = ahead || ev.entry != nil
		if len(ev.cookie) > 0 {
			cookie, ahead = ev.cookie, ahead && !r.done
		}
		if err := r.m.complete(ctx, ev); err != nil {
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

// complete reads an entry again if the server has sent it without its ids. In a refresh,
// 389 sends only user attributes.
func (m *Move) complete(ctx context.Context, ev *event) (err error) {
	if ev.entry == nil || ev.id == entry.Root || m.src.product.id == "" || len(m.src.ids(ev.entry)) > 0 {
		return nil
	}
	ev.entry, err = m.ask.find(ctx, ev.id.String())
	return err
}

// action returns the change to make now for an event. It returns false if there is none.
func (r *refresh) action(ev *event) (a action, ok bool) {
	switch {
	case ev.entry != nil:
		return r.put(ev)
	case ev.gone != nil && r.done:
		return action{del: r.m.entryID(ev.id)}, true
	case ev.gone != nil:
		r.deleted = append(r.deleted, r.m.entryID(ev.id))
	}
	for _, id := range ev.ids {
		if id = r.m.entryID(id); ev.deleted {
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
		r.m.refuse(ev.entry.DN, entry.Root, err)
		return a, false
	}
	if ev.id != entry.Root && c.id != entry.Root && ev.id != c.id {
		r.m.others[ev.id] = c.id
	}
	if !r.done && c.id != entry.Root {
		r.present = append(r.present, c.id)
	}
	return action{put: c}, true
}

// entryID translates the id of an entry in the synchronization to the entry's id in the
// directory.
func (m *Move) entryID(id entry.ID) entry.ID {
	if other, ok := m.others[id]; ok {
		return other
	}
	return id
}

// end ends a phase of the refresh. At the end of the last phase it deletes the entries
// that the server no longer has.
func (r *refresh) end(ctx context.Context, end *refreshed) error {
	r.sweep = r.sweep || end.present
	if !end.done {
		return nil
	}
	if r.m.src.synced {
		if err := r.subentries(ctx); err != nil {
			return err
		}
	}
	if r.sweep {
		if err := r.absent(ctx); err != nil {
			return err
		}
	}
	r.m.refreshing = true
	err := r.m.remove(ctx, r.deleted)
	r.m.refreshing = false
	if err != nil {
		return err
	}
	r.done, r.present, r.deleted = true, nil, nil
	return r.m.apply(ctx, nil, r.next(r.cookie, true, false))
}

// The method "next" returns the cursor after a batch. The parameter ahead is set if changes
// were copied that are newer than the cookie.
func (r *refresh) next(cookie []byte, done, ahead bool) *cursor {
	c := r.m.cursor.clone()
	if done && len(cookie) > 0 {
		c.Cookies[r.base] = cookie
	}
	if delete(c.Ahead, r.base); ahead {
		c.setAhead(r.base)
	}
	return c
}

// apply makes changes as Move.apply does. If the server shows no id for an entry, apply adds
// to r.present the id that the entry has in the directory.
func (r *refresh) apply(ctx context.Context, as []action, next *cursor) error {
	if err := r.m.apply(ctx, as, next); err != nil || r.done {
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
	err := r.m.ask.hidden(ctx, r.base, func(e *ldap.Entry) error {
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
		return fmt.Errorf("%s shows no entry %s: nothing is deleted because of that", r.m.src.Remote.URL, r.base)
	}
	inner := r.m.src.inner(r.base)
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

// remove deletes entries, the deepest first.
func (m *Move) remove(ctx context.Context, ids []entry.ID) error {
	type deep struct {
		id    entry.ID
		depth int
	}
	s := state.Newest(m.p)
	defer s.Close()
	var all []deep
	for _, id := range ids {
		at, err := byID(ctx, s, id)
		if err != nil {
			return err
		}
		if at.ID == entry.Root {
			continue
		}
		name, err := at.Name.DN()
		if err != nil {
			return err
		}
		all = append(all, deep{id, len(name)})
	}
	slices.SortStableFunc(all, func(a, b deep) int { return b.depth - a.depth })
	for some := range slices.Chunk(all, mostBatch) {
		var as []action
		for _, x := range some {
			as = append(as, action{del: x.id})
		}
		if err := m.apply(ctx, as, nil); err != nil {
			return err
		}
	}
	return nil
}

// apply makes changes in one commit. If next is not nil, the commit writes it as the
// cursor. If the directory refuses a change, apply makes the changes in smaller commits,
// leaves out the refused changes, and writes the cursor afterwards.
func (m *Move) apply(ctx context.Context, as []action, next *cursor) error {
	if next != nil && bytes.Equal(next.marshal(), m.saved) {
		next = nil
	}
	if len(as) == 0 && next == nil {
		return nil
	}
	m.warm(ctx, as)
	err := m.commit(ctx, as, next)
	if err == nil || !isRefusal(err) {
		return err
	}
	if next != nil {
		// If the rest of the batch is lost, the part that was copied is ahead of the
		// cookie. So the next refresh must begin anew.
		if err := m.commit(ctx, nil, m.ahead()); err != nil {
			return err
		}
	}
	if err := m.halve(ctx, as); err != nil || next == nil {
		return err
	}
	return m.commit(ctx, nil, next)
}

// halve makes changes that the directory has refused as one commit. It makes the changes in
// two commits. If the directory refuses a commit, halve divides the changes of that commit
// again.
func (m *Move) halve(ctx context.Context, as []action) error {
	if len(as) == 0 {
		return nil
	}
	if len(as) == 1 {
		return m.one(ctx, as[0], map[entry.ID]bool{})
	}
	for _, half := range [][]action{as[:len(as)/2], as[len(as)/2:]} {
		if err := m.commit(ctx, half, nil); err == nil {
			continue
		} else if !isRefusal(err) {
			return err
		}
		if err := m.halve(ctx, half); err != nil {
			return err
		}
	}
	return nil
}

// warm reads into the caches the entries that the changes will read, many at a time. A
// transaction reads one entry after the other, and with a store in HBase each read is a
// round trip. warm ignores errors, because the commit will return them.
func (m *Move) warm(ctx context.Context, as []action) {
	s := state.Newest(m.p)
	defer s.Close()
	var all errgroup.Group
	all.SetLimit(warmAtOnce)
	for i := range as {
		all.Go(func() error {
			id := as[i].del
			if c := as[i].put; c != nil {
				at, err := locate(ctx, s, c)
				if err != nil {
					return nil
				}
				id = at.ID
			}
			_, _ = s.Entry(ctx, id, true)
			return nil
		})
	}
	_ = all.Wait()
}

// warmAtOnce is the number of entries that warm reads at a time.
const warmAtOnce = 16

// newest leaves out each copy of an entry if the next action on the entry is a copy with
// the same name. A busy server changes some entries many times in a batch.
func newest(as []action) []action {
	next := map[entry.ID]*action{} // the next action on each entry
	var kept []action
	for i := range slices.Backward(as) {
		a := &as[i]
		id := a.entryID()
		if later := next[id]; id == entry.Root || later == nil || !a.isOlderThan(later) {
			kept = append(kept, *a)
		}
		next[id] = a
	}
	slices.Reverse(kept)
	return kept
}

// entryID returns the id of the entry that the action is about, or entry.Root if the server
// shows no ids.
func (a *action) entryID() entry.ID {
	if a.put != nil {
		return a.put.id
	}
	return a.del
}

// isOlderThan reports whether the action a is unnecessary, because a and the action later are
// copies with the same name. The caller must pass two actions on the same entry.
func (a *action) isOlderThan(later *action) bool {
	return a.put != nil && later.put != nil && a.put.name.String() == later.put.name.String()
}

// commit makes changes in one commit. The cursor in memory changes only when the commit
// has succeeded.
func (m *Move) commit(ctx context.Context, as []action, next *cursor) error {
	if next != nil && m.again {
		for _, base := range m.src.Bases {
			next.setAhead(base)
		}
	}
	_, err := write.Update(ctx, m.p, m.by, func(tx *partition.Tx) error {
		if err := m.own(ctx, tx); err != nil {
			return err
		}
		changed := next != nil
		for i := range as {
			did, err := as[i].do(ctx, tx)
			if err != nil {
				return err
			}
			changed = changed || did
		}
		if !changed {
			return errNothing
		}
		if next == nil {
			tx.SetCursor(m.saved) // makes the commit conflict with commits of another process that follows
		} else {
			tx.SetCursor(next.marshal())
		}
		return nil
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	if err == nil && next != nil {
		m.cursor = *next
		m.written()
	}
	return err
}

// ahead returns the cursor with which the next refresh begins anew.
func (m *Move) ahead() *cursor {
	c := m.cursor.clone()
	for _, base := range m.src.Bases {
		c.setAhead(base)
	}
	return c
}

// do makes the change in a transaction, and reports whether it changed anything.
func (a *action) do(ctx context.Context, tx *partition.Tx) (bool, error) {
	if a.put != nil {
		return put(ctx, tx, a.put)
	}
	at, err := byID(ctx, &tx.Snapshot, a.del)
	if err != nil || at.ID == entry.Root {
		return false, err
	}
	name, err := at.Name.DN()
	if err != nil {
		return false, err
	}
	return true, tx.Delete(ctx, name)
}

// The method "one" makes a single change. If another entry of the directory has the name, it
// calls displace and tries again. If the parent is missing, it copies the parent from the
// server and tries again. The map busy contains the entries that wait until this change is
// made.
func (m *Move) one(ctx context.Context, a action, busy map[entry.ID]bool) error {
	err := m.commit(ctx, []action{a}, nil)
	for tries := 0; err != nil && a.put != nil && tries < 3; tries++ {
		var o *occupied
		var again bool
		switch {
		case errors.As(err, &o):
			again, err = true, m.displace(ctx, o, a.put.id, busy)
		case partition.Is(err, partition.NoSuchEntry) && len(a.put.name) > 1:
			again, err = m.above(ctx, a.put, busy)
		}
		if err != nil || !again {
			break
		}
		err = m.commit(ctx, []action{a}, nil)
	}
	switch {
	case err == nil || !isRefusal(err):
		return err
	case a.put != nil:
		m.refuse(a.put.name.String(), a.put.id, err)
		return nil
	case m.refreshing:
		m.leave("the deletion of "+a.del.String(), err)
		m.refused[suspect{id: a.del}] = true
		return nil
	}
	m.again = true // the entry still has entries below it, which the server no longer has
	return nil
}

// displace makes room for an entry whose name, or the name of whose parent, an entry of the
// directory occupies.
// The parameter by is the id of the entry that needs the name, and o describes the
// occupant. If the occupant has another name at the server now, displace renames it.
// Otherwise, or if the occupant itself waits for another entry, displace deletes the occupant
// and all entries below it.
func (m *Move) displace(ctx context.Context, o *occupied, by entry.ID, busy map[entry.ID]bool) error {
	busy[by] = true
	if !busy[o.id] {
		e, err := m.ask.find(ctx, o.id.String())
		if err != nil {
			return err
		}
		if e != nil {
			c, err := m.translation().translate(e)
			if err != nil {
				return err
			}
			if c.id == o.id && c.name.String() != o.name.String() {
				return m.one(ctx, action{put: c}, busy)
			}
		}
	}
	again, next := false, m.ahead()
	_, err := write.Update(ctx, m.p, m.by, func(tx *partition.Tx) error {
		if err := m.own(ctx, tx); err != nil {
			return err
		}
		n, whole, err := tx.DeleteTree(ctx, o.name, mostDisplaced)
		if err == nil && !whole {
			err = fmt.Errorf("%s has more than %d entries below it, and another entry has its name at the server", o.name, mostDisplaced)
		}
		// The entries below the occupant, and the occupant itself if it waits, must be copied
		// again. Because of the new cursor, the next refresh copies them even if this process
		// ends now.
		if again = n > 1 || busy[o.id]; again {
			tx.SetCursor(next.marshal())
		}
		return err
	})
	if err == nil && again {
		m.again, m.cursor = true, *next
		m.written()
	}
	return err
}

// mostDisplaced is the largest number of entries that displace deletes to make room for
// one entry.
const mostDisplaced = 5000

// The method "above" copies the parent of the entry c. It returns an error if the server does
// not have the parent.
func (m *Move) above(ctx context.Context, c *copied, busy map[entry.ID]bool) (bool, error) {
	e, err := m.ask.read(ctx, c.name.Parent().String())
	if err != nil {
		return false, err
	}
	if e == nil {
		return false, &partition.Error{Problem: partition.NoSuchEntry, Text: "the entry above it does not exist"}
	}
	p, err := m.translation().translate(e)
	if err != nil {
		return false, err
	}
	return true, m.one(ctx, action{put: p}, busy)
}
