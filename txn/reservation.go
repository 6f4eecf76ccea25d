package txn

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/table"
)

// marksFirst is the number of attempts after which a transaction places its marks
// before it reads. Until then it reads first, and what takes long to read is
// always too late beside what does not.
const marksFirst = 2

// A turn is what a transaction takes from one attempt to the next.
type turn struct {
	prio  table.Revision // of the first attempt
	marks []markRow      // of the last one
}

// A hold is the marks of an attempt to come: a commit that is never decided but by
// being taken back. It has the priority of its transaction, so younger ones give
// way to it while the transaction reads and validates, and only then, above all
// that it read, takes the revision that it commits at. That commit looks for
// conflicts like any other, so nothing depends on a hold but who goes first.
type hold struct {
	w *writer
	i *issue
}

func (h *hold) revision() table.Revision {
	if h == nil {
		return 0
	}
	return h.i.rec.Revision
}

// hold places marks, settles with the commits that they meet, and returns when the
// state shown has those that stand.
func (e *shared) hold(ctx context.Context, t *turn) (*hold, *loss, error) {
	if len(t.marks) == 0 {
		return nil, nil, nil
	}
	w, err := e.holder()
	if err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	i, err := w.add(&journal.Record{})
	if err == nil {
		// The head need not wait for what will never be shown.
		i.rec.Prio, i.started = t.prio, i.started.Add(-grace)
	}
	w.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	h := &hold{w, i}
	lost, err := h.place(context.WithoutCancel(ctx), t.marks)
	if err == nil && lost == nil {
		return h, nil, nil
	}
	h.release()
	return nil, lost, err
}

func (h *hold) place(ctx context.Context, marks []markRow) (*loss, error) {
	w, i := h.w, h.i
	writes := withMarks(nil, marks, w.slot)
	if err := w.begin(ctx, i, writes); err != nil {
		return nil, err
	}
	if err := w.apply(ctx, i, writes); err != nil {
		return nil, err
	}
	s := w.e.db.Snapshot()
	defer s.Close()
	tx := &Tx{db: w.e.db, snapshot: s, markRows: marks}
	met, err := w.conflicting(ctx, tx, i.rec.Revision)
	if err != nil || len(met) == 0 {
		return nil, err
	}
	heads, err := w.readHeads(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range met {
		lost, err := w.settleWith(ctx, heads, i.rec, r)
		switch {
		case err != nil:
			return nil, err
		case lost != nil && lost.undecided:
			return lost, nil
		case lost != nil:
			if err := w.e.awaitVisible(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// release takes the marks away, in the background: nobody who looks on has to wait
// for it any more.
func (h *hold) release() {
	if h == nil {
		return
	}
	h.w.e.done.Go(func() { h.w.rollBack(h.w.e.background, h.i) })
}

// readHeads reads the heads as they are now.
func (w *writer) readHeads(ctx context.Context) (heads *journal.Heads, err error) {
	err = w.step(ctx, func(ctx context.Context) error {
		heads, err = w.e.db.log.Heads(ctx)
		return err
	})
	return heads, err
}

func (e *local) hold(context.Context, *turn) (*hold, *loss, error) { return nil, nil, nil }

// isMine reports whether a revision is the commit's own, or that of its hold.
func (tx *Tx) isMine(r, own table.Revision) bool { return r == own || r == tx.held }
