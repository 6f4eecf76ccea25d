package txn

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// turnCommits is the number of commits for which the transactions of this server use one reservation. It bounds
// how long other servers wait, and how long the reservation holds back the low-water mark.
const turnCommits = 16

// turns are the queues of this server's transactions for rows of a store that other servers also write. A transaction
// that has lost against another one joins the queue of the row in which it lost, and tries again when it is the
// first. So each server runs one transaction at a time of those that want a row, and the servers take turns by
// reservations.
type turns struct {
	mu     sync.Mutex
	queue  map[uint64]*turn // by placed.row
	closed bool             // the end of a reservation is left to the recovery of the slot
}

// A turn is held by one transaction, which passes it to the next one in the queue.
type turn struct {
	mark    placed       // the mark in which the first transaction lost
	waiting []chan error // the transactions that wait, in order; each gets nil when it is the first

	// Only the holder uses the following fields.
	contested bool         // a transaction has lost twice, the second time against another server
	reserved  *reservation // or nil
	commits   int          // number of commits since the first reservation was placed
}

// take returns when the caller holds the turn of the row of the mark m. It reports whether the caller had to wait.
func (ts *turns) take(ctx context.Context, m placed) (t *turn, waited bool, err error) {
	ts.mu.Lock()
	if t = ts.queue[m.row]; t == nil {
		t = &turn{mark: m}
		if ts.queue == nil {
			ts.queue = map[uint64]*turn{}
		}
		ts.queue[m.row] = t
		ts.mu.Unlock()
		return t, false, nil
	}
	first := make(chan error, 1)
	t.waiting = append(t.waiting, first)
	ts.mu.Unlock()
	select {
	case err := <-first:
		if err != nil {
			return nil, true, err
		}
		return t, true, nil
	case <-ctx.Done():
	}
	ts.mu.Lock()
	i := slices.Index(t.waiting, first)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	ts.mu.Unlock()
	if i < 0 && <-first == nil {
		ts.pass(t) // the turn came at the same time
	}
	return nil, true, context.Cause(ctx)
}

// pass passes the turn to the next transaction in the queue.
func (ts *turns) pass(t *turn) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if len(t.waiting) > 0 {
		t.waiting[0] <- nil
		t.waiting = t.waiting[1:]
		return
	}
	if !ts.closed {
		t.reserved.release()
	}
	delete(ts.queue, t.mark.row)
}

// refuse makes all transactions that wait for a turn return an error, because the store did not serve its holder. Otherwise
// each would wait for as long as the one before it.
func (ts *turns) refuse(t *turn) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, first := range t.waiting {
		first <- fmt.Errorf("%w: it did not serve the transaction before this one that wanted the same row", table.ErrUnavailable)
	}
	t.waiting = nil
}

// close makes pass start no more goroutines, because closing does not wait for transactions between two attempts.
func (ts *turns) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
}

// queued returns a mark of a transaction that has to join a queue, or nil. A transaction that holds a turn joins no other
// queue: two could wait for each other.
func (ts *turns) queued(tx *Tx) *placed {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if len(ts.queue) == 0 || tx.turn != nil {
		return nil
	}
	for i, m := range tx.marks {
		if t := ts.queue[m.row]; t != nil && m.conflicts(t.mark.Mark) {
			return &tx.marks[i]
		}
	}
	return nil
}

// spent counts a commit of the turn's holder. It returns the turn's reservation if that ends with this commit, because nobody
// waits for the turn, or other servers have waited long enough.
func (ts *turns) spent(w *writer, t *turn) *reservation {
	if t == nil || t.reserved == nil || t.reserved.w != w {
		return nil
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.commits++; t.commits < turnCommits && len(t.waiting) > 0 {
		return nil
	}
	r := t.reserved
	t.reserved, t.commits, t.contested = nil, 0, false
	return r
}

// An attempt is the information that one attempt of a transaction passes to the next
// attempt.
type attempt struct {
	prio  table.Revision // the priority: the revision of the first attempt or, if there was one, of the first reservation
	marks []markRow      // the marks of the last attempt
	turn  *turn          // the turn that the transaction holds, or nil
	again bool           // the transaction has used a reservation
	lost  bool           // the last attempt lost against another server, and was not the first
}

// A reservation is a commit that only places marks, for the transactions of a turn. It is always rolled back in the
// end. Commits of later transactions give way to it, and later reservations wait for it, so the reservations of a
// row are a queue of servers. Safety does not depend on reservations, because every commit looks for conflicts.
type reservation struct {
	w     *writer
	p     *pendingCommit
	marks []markRow
}

// covers reports whether the reservation has placed all of some marks.
func (h *reservation) covers(marks []markRow) bool {
	own := make(map[placed]bool, len(h.marks))
	for _, m := range h.marks {
		own[place(m.table, m.row, m.mark)] = true
	}
	return !slices.ContainsFunc(marks, func(m markRow) bool { return !own[place(m.table, m.row, m.mark)] })
}

// reserve places the marks of a transaction, unless its turn needs no reservation, or has one that may serve. One that
// another transaction placed does not serve if it lacks marks and the transaction has lost in spite of it. reserve returns a
// conflict if there are earlier reservations or undecided commits: the transaction waits for all of them.
func (e *cluster) reserve(ctx context.Context, a *attempt) (*conflict, error) {
	t := a.turn
	w, err := e.holder()
	if err != nil {
		return nil, err
	}
	if t.reserved != nil && t.reserved.w != w {
		t.reserved = nil // the slot was lost, and the reservation with it
	}
	if !t.contested || t.reserved != nil && (!a.lost || t.reserved.covers(a.marks)) {
		return nil, nil
	}
	t.reserved.release() // the transaction waits for its end
	t.reserved = nil
	w.mu.Lock()
	p, err := w.newCommit(&journal.Record{})
	if err == nil {
		// The head need not wait for this commit, because a reservation is never shown.
		p.started = p.started.Add(-grace)
		p.began = math.MaxUint64 // no step waits for it
		if a.again {
			p.rec.Prio = a.prio // another server took the transaction's commit back when its reservation had ended
		}
	}
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	h := &reservation{w, p, a.marks}
	before, err := h.place(context.WithoutCancel(ctx))
	if err != nil {
		h.release()
		return nil, err
	}
	if t.reserved = h; len(before) > 0 {
		return &conflict{mark: t.mark, others: before}, nil
	}
	return nil, nil
}

// place writes the marks, and returns the revisions to wait for.
func (h *reservation) place(ctx context.Context) (before []table.Revision, err error) {
	w, p := h.w, h.p
	writes := withMarks(nil, h.marks, w.slot, p.rec.Prio)
	if err := w.begin(ctx, p, writes); err != nil {
		return nil, err
	}
	s := w.e.db.Snapshot()
	defer s.Close()
	tx := &Tx{db: w.e.db, snapshot: s}
	for _, m := range h.marks {
		tx.Mark(w.e.db.store.Table(m.table), m.row, m.mark)
	}
	met, err := w.applyTo(ctx, p, writes, tx)
	for _, m := range met {
		// A commit deals with branches. A server whose slot is being recovered can publish nothing any more.
		if slot := revision.SlotOf(m.revision); !slot.IsBranch() && s.heads.Cell(slot).State == revision.Open {
			before = append(before, m.revision)
		}
	}
	return before, err
}

// release ends the reservation. The marks are removed in the background, because no reader needs to wait for the
// removal.
func (h *reservation) release() {
	if h != nil {
		h.w.e.done.Go(func() { h.w.rollBack(h.w.e.background, h.p) })
	}
}

// removeMarks removes the marks of a reservation that has ended. If it fails, cleanUp does it later.
func (h *reservation) removeMarks() {
	h.w.e.done.Go(func() {
		_ = h.w.step(h.w.e.background, func(ctx context.Context) error { return h.w.e.db.log.Rollback(ctx, h.p.rec) })
	})
}
