package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A writer makes the directory's entries equal to the server's.
type writer struct {
	m *Move
	// The field "again" is set if the next refresh must begin without a cookie, because a
	// refresh with a cookie could leave a difference between the directory and the server.
	again bool
	// removing is set while entries are deleted at the end of a refresh.
	removing bool
}

// apply makes changes in one commit. If next is not nil, the commit writes it as the
// cursor. If the directory refuses a change, apply makes the changes in smaller commits,
// leaves out the refused changes, and writes the cursor afterwards.
func (w *writer) apply(ctx context.Context, as []action, next *cursor) error {
	if next != nil && bytes.Equal(next.marshal(), w.m.place.saved) {
		next = nil
	}
	if len(as) == 0 && next == nil {
		return nil
	}
	w.warm(ctx, as)
	err := w.commit(ctx, as, next)
	if err == nil || !isRefusal(err) {
		return err
	}
	if next != nil {
		// If the rest of the batch is lost, the part that was copied is ahead of the
		// cookie. So the next refresh must begin anew.
		if err := w.commit(ctx, nil, w.m.place.ahead(w.m.link.src.Bases)); err != nil {
			return err
		}
	}
	if err := w.halve(ctx, as); err != nil || next == nil {
		return err
	}
	return w.commit(ctx, nil, next)
}

// halve makes changes that the directory has refused as one commit. It makes the changes in
// two commits. If the directory refuses a commit, halve divides the changes of that commit
// again.
func (w *writer) halve(ctx context.Context, as []action) error {
	if len(as) == 0 {
		return nil
	}
	if len(as) == 1 {
		return w.one(ctx, as[0], map[entry.ID]bool{})
	}
	for _, half := range [][]action{as[:len(as)/2], as[len(as)/2:]} {
		if err := w.commit(ctx, half, nil); err == nil {
			continue
		} else if !isRefusal(err) {
			return err
		}
		if err := w.halve(ctx, half); err != nil {
			return err
		}
	}
	return nil
}

// warm reads into the caches the entries that the changes will read, many at a time. A
// transaction reads one entry after the other, and with a store in HBase each read is a
// round trip. warm ignores errors, because the commit will return them.
func (w *writer) warm(ctx context.Context, as []action) {
	s := state.Newest(w.m.p)
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

// commit makes changes in one commit. The cursor in memory changes only when the commit
// has succeeded.
func (w *writer) commit(ctx context.Context, as []action, next *cursor) error {
	if next != nil && w.again {
		next.setAhead(w.m.link.src.Bases...)
	}
	_, err := write.Update(ctx, w.m.p, w.m.o.By, func(tx *partition.Tx) error {
		if err := w.m.place.own(ctx, tx); err != nil {
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
			tx.SetCursor(w.m.place.saved) // makes the commit conflict with commits of another process that follows
		} else {
			tx.SetCursor(next.marshal())
		}
		return nil
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	if err == nil && next != nil {
		w.m.place.wrote(next)
	}
	return err
}

// The method "one" makes a single change. If another entry of the directory has the name, it
// calls displace and tries again. If the parent is missing, it copies the parent from the
// server and tries again. The map busy contains the entries that wait until this change is
// made.
func (w *writer) one(ctx context.Context, a action, busy map[entry.ID]bool) error {
	err := w.commit(ctx, []action{a}, nil)
	for tries := 0; err != nil && a.put != nil && tries < 3; tries++ {
		var o *occupied
		var again bool
		switch {
		case errors.As(err, &o):
			again, err = true, w.displace(ctx, o, a.put.id, busy)
		case partition.Is(err, partition.NoSuchEntry) && len(a.put.name) > 1:
			again, err = w.above(ctx, a.put, busy)
		}
		if err != nil || !again {
			break
		}
		err = w.commit(ctx, []action{a}, nil)
	}
	switch {
	case err == nil || !isRefusal(err):
		return err
	case a.put != nil:
		w.m.left.refuse(a.put.name.String(), a.put.id, err)
		return nil
	case w.removing:
		w.m.left.entry("the deletion of "+a.del.String(), err)
		w.m.left.refused[suspect{id: a.del}] = true
		return nil
	}
	w.again = true // the entry still has entries below it, which the server no longer has
	return nil
}

// displace makes room for an entry whose name, or the name of whose parent, an entry of the
// directory occupies.
// The parameter by is the id of the entry that needs the name, and o describes the
// occupant. If the occupant has another name at the server now, displace renames it.
// Otherwise, or if the occupant itself waits for another entry, displace deletes the occupant
// and all entries below it.
func (w *writer) displace(ctx context.Context, o *occupied, by entry.ID, busy map[entry.ID]bool) error {
	busy[by] = true
	if !busy[o.id] {
		e, err := w.m.link.ask.find(ctx, o.id.String())
		if err != nil {
			return err
		}
		if e != nil {
			c, err := w.m.translation().translate(e)
			if err != nil {
				return err
			}
			if c.id == o.id && c.name.String() != o.name.String() {
				return w.one(ctx, action{put: c}, busy)
			}
		}
	}
	again, next := false, w.m.place.ahead(w.m.link.src.Bases)
	_, err := write.Update(ctx, w.m.p, w.m.o.By, func(tx *partition.Tx) error {
		if err := w.m.place.own(ctx, tx); err != nil {
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
		w.again = true
		w.m.place.wrote(next)
	}
	return err
}

// mostDisplaced is the largest number of entries that displace deletes to make room for
// one entry.
const mostDisplaced = 5000

// The method "above" copies the parent of the entry c. It returns an error if the server does
// not have the parent.
func (w *writer) above(ctx context.Context, c *copied, busy map[entry.ID]bool) (bool, error) {
	e, err := w.m.link.ask.read(ctx, c.name.Parent().String())
	if err != nil {
		return false, err
	}
	if e == nil {
		return false, &partition.Error{Problem: partition.NoSuchEntry, Text: "the entry above it does not exist"}
	}
	p, err := w.m.translation().translate(e)
	if err != nil {
		return false, err
	}
	return true, w.one(ctx, action{put: p}, busy)
}

// remove deletes entries at the end of a refresh, the deepest first.
func (w *writer) remove(ctx context.Context, ids []entry.ID) error {
	type deep struct {
		id    entry.ID
		depth int
	}
	w.removing = true
	defer func() { w.removing = false }()
	s := state.Newest(w.m.p)
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
		if err := w.apply(ctx, as, nil); err != nil {
			return err
		}
	}
	return nil
}

// An action is a change that the server has made.
type action struct {
	put *copied  // the entry as it is now, or nil
	del entry.ID // the entry that was deleted
}

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
