package txn

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// reserveAfter is the number of attempts after which a transaction places its marks
// before it reads. In earlier attempts the transaction reads first, so a transaction with
// long reads may lose against shorter transactions every time.
const reserveAfter = 2

// An attempt is the information that one attempt of a transaction passes to the next
// attempt.
type attempt struct {
	prio  table.Revision // the priority: the revision of the first attempt
	marks []markRow      // the marks of the last attempt
}

// A reservation is a commit that only places the marks of a transaction, before the next
// attempt of that transaction. A reservation is always rolled back in the end. The
// reservation has the priority of its transaction, so younger commits give way to it
// while the transaction reads and validates. After that the transaction allocates the
// revision of its final commit. This revision is above all revisions that the
// transaction read. The final commit checks for conflicts like any other commit, so a
// reservation only decides which transaction has priority.
type reservation struct {
	w *writer
	p *pendingCommit
}

func (h *reservation) revision() table.Revision {
	if h == nil {
		return 0
	}
	return h.p.rec.Revision
}

// reserve places marks and resolves conflicts with marks of other commits. If a committed
// commit wins, reserve waits until the state shown includes that commit. If an undecided
// commit wins, reserve returns the conflict.
func (e *cluster) reserve(ctx context.Context, a *attempt) (*reservation, *conflict, error) {
	if len(a.marks) == 0 {
		return nil, nil, nil
	}
	w, err := e.holder()
	if err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	p, err := w.newCommit(&journal.Record{})
	if err == nil {
		// The head need not wait for this commit, because a reservation is never shown.
		p.rec.Prio, p.started = a.prio, p.started.Add(-grace)
	}
	w.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	h := &reservation{w, p}
	met, err := h.place(context.WithoutCancel(ctx), a.marks)
	if err == nil && met == nil {
		return h, nil, nil
	}
	h.release()
	return nil, met, err
}

func (h *reservation) place(ctx context.Context, marks []markRow) (*conflict, error) {
	w, p := h.w, h.p
	writes := withMarks(nil, marks, w.slot)
	if err := w.begin(ctx, p, writes); err != nil {
		return nil, err
	}
	s := w.e.db.Snapshot()
	defer s.Close()
	met, err := w.applyTo(ctx, p, writes, &Tx{db: w.e.db, snapshot: s, markRows: marks})
	if err != nil || len(met) == 0 {
		return nil, err
	}
	heads, err := w.readHeads(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range met {
		met, err := w.resolveConflict(ctx, heads, p.rec, r)
		switch {
		case err != nil:
			return nil, err
		case met != nil && met.undecided:
			return met, nil
		case met != nil:
			if err := w.e.awaitVisible(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// release removes the marks in the background, because no reader needs to wait for the
// removal.
func (h *reservation) release() {
	if h == nil {
		return
	}
	h.w.e.done.Go(func() { h.w.rollBack(h.w.e.background, h.p) })
}

// readHeads reads the current heads.
func (w *writer) readHeads(ctx context.Context) (heads *journal.Heads, err error) {
	err = w.step(ctx, func(ctx context.Context) error {
		heads, err = w.e.db.log.Heads(ctx)
		return err
	})
	return heads, err
}

// isMine reports whether r is the revision of the transaction's commit or of its reservation.
// The parameter own is the revision of the commit.
func (tx *Tx) isMine(r, own table.Revision) bool { return r == own || r == tx.reserved }
