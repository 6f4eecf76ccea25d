package txn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// applySize is the largest number of rows in one call of Apply or Versions. The lease is
// checked before each call.
const applySize = 1024

// commit makes a transaction durable and shows it. The steps are: commit writes the journal
// row, writes the cells with their marks and reads the marks of other commits, and publishes
// the head, which decides the commit. Each of these steps is acknowledged before the next begins
// ("Commit" in transactions.md). Conflicts between transactions of this server are found in
// memory before the first step.
func (e *cluster) commit(ctx context.Context, tx *Tx) (table.Revision, *conflict, error) {
	w, err := e.holder()
	if err != nil {
		return 0, nil, err
	}
	if err := errors.Join(canceled(ctx), w.alive(), e.clock.drifted()); err != nil {
		return 0, nil, err
	}
	writes := withMarks(tx.batch(), tx.markRows, w.slot, 0)
	p, met, err := w.allocate(tx)
	if met != nil || err != nil {
		return 0, met, err
	}
	p.rec.Message, p.rec.Prio = tx.message, tx.prio
	p.rec.ByCell, p.rec.State = true, journal.Committed
	// A client that stops waiting must not leave half a commit: from here on the commit
	// runs until it is decided or the lease ends.
	ctx = context.WithoutCancel(ctx)
	if err := w.begin(ctx, p, writes); err != nil { //rule:journal-first
		p.dirty = true //rule:row-late
		w.finalise(p, journal.Aborted)
		w.resolver.abort(ctx, p)
		return 0, nil, fmt.Errorf("commit: %w", err)
	}
	others, err := w.applyTo(ctx, p, writes, tx)
	if err == nil {
		met, err = w.meetOthers(ctx, p, others) //rule:read-back
	}
	if met != nil || err != nil {
		w.rollBack(ctx, p)
		if err != nil {
			err = fmt.Errorf("commit: %w", err)
		}
		return 0, met, err
	}
	if h := e.db.turns.spent(w, tx.turn); h != nil {
		p.ends = h.p
		defer h.removeMarks()
	}
	if met, err := w.decide(ctx, p); met != nil || err != nil {
		return 0, met, err
	}
	tx.prepared = time.Now()
	err = w.awaitShown(p)
	if errors.Is(err, errTakenBack) { //rule:taken-back
		w.rollBack(ctx, p)
		return 0, &conflict{mark: tx.marks[0], taken: true}, nil
	}
	return p.rec.Revision, nil, err
}

// errTakenBack: another server made the commit void.
var errTakenBack = errors.New("the commit was taken back")

// allocate returns a conflict with another transaction of this server, if there is one.
// Otherwise it allocates the revision.
func (w *writer) allocate(tx *Tx) (*pendingCommit, *conflict, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o, pending, met := w.recent.conflict(tx.marks, tx.snapshot.ordinal); met != nil {
		if pending {
			o = 0
		}
		return nil, &conflict{ordinal: o, mark: *met}, nil
	}
	if met := w.e.db.turns.queued(tx); met != nil {
		return nil, &conflict{ordinal: tx.snapshot.ordinal, mark: *met}, nil // it has only its turn to wait for
	}
	p, err := w.newCommit(&journal.Record{IDs: tx.ids, Keys: tx.distinctKeys()})
	if err != nil {
		return nil, nil, err
	}
	tx.fillIn(p.rec.Revision)
	p.marks, p.began = tx.marks, tx.snapshot.ordinal
	if w.recent.isFull() {
		w.recent.prune(w.e.db.running.oldest(w.e.db.current.Load().ordinal))
	}
	w.recent.begin(tx.marks)
	if tx.prio == 0 {
		tx.prio = p.rec.Revision
	}
	return p, nil, nil
}

// newCommit allocates a revision for rec and records rec as pending. The caller holds
// w.mu.
func (w *writer) newCommit(rec *journal.Record) (*pendingCommit, error) {
	r, err := w.clock.Next()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", table.ErrUnavailable, err)
	}
	rec.Revision, rec.Token, rec.Prio = r, w.e.db.o.random(), r
	p := &pendingCommit{rec: rec, started: time.Now(), state: journal.Pending, shown: make(chan struct{}), taken: make(chan struct{})}
	w.pending = append(w.pending, p)
	return p, nil
}

// begin writes the journal row with the write list before any cell is written, so that
// recovery can find all cells that a crash leaves behind.
func (w *writer) begin(ctx context.Context, p *pendingCommit, writes []table.Write) error {
	var lists []journal.Rows
	n := 0
	for _, x := range writes {
		lists = append(lists, rowsOf(x.Table, x.Mutations))
		n += len(x.Mutations)
	}
	if n <= journal.MaxRows {
		p.rec.Rows = lists
	}
	if err := w.step(ctx, func(ctx context.Context) error { return w.e.db.log.Begin(ctx, p.rec) }); err != nil || n <= journal.MaxRows {
		return err
	}
	for number, rows := range journal.Chunked(lists) {
		if err := w.step(ctx, func(ctx context.Context) error {
			return w.e.db.log.Chunk(ctx, p.rec.Revision, uint32(number+1), rows)
		}); err != nil {
			return err
		}
	}
	p.rec.Rows = lists // rollBack needs the list
	return nil
}

// step calls the function do if the lease still allows this server to send mutations.
func (w *writer) step(ctx context.Context, do func(context.Context) error) error {
	if err := w.alive(); err != nil {
		return err
	}
	limited, cancel := w.e.deadline(ctx)
	defer cancel()
	return unanswered(ctx, do(limited))
}

// unanswered changes the error of a step that exceeded its own deadline: it adds
// table.ErrUnavailable, because the store did not answer. It returns all other errors as
// they are, including errors of the caller's deadline.
func unanswered(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", table.ErrUnavailable, err)
	}
	return err
}

// apply writes the cells.
func (w *writer) apply(ctx context.Context, p *pendingCommit, writes []table.Write) error {
	_, err := w.applyTo(ctx, p, writes, &Tx{})
	return err
}

// applyTo writes the cells, the tables in parallel. It also reads the rows that tx marks, each after it was
// written, and returns the marks of other commits that conflict with those of tx, sorted by revision, one of each commit.
func (w *writer) applyTo(ctx context.Context, p *pendingCommit, writes []table.Write, tx *Tx) (met []meeting, err error) {
	p.dirty = true
	marks := tx.marksByRow()
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for _, x := range writes {
		g.Go(func() error {
			t, marked := w.e.db.store.Table(x.Table), marks[x.Table]
			for part := range slices.Chunk(x.Mutations, applySize) {
				found, err := w.applyMarked(ctx, t, p.rec, part, tx, marked)
				if err != nil {
					return err
				}
				mu.Lock()
				met = append(met, found...)
				mu.Unlock()
			}
			return nil
		})
	}
	err = g.Wait()
	slices.SortFunc(met, func(a, b meeting) int { return a.revision.Compare(b.revision) })
	met = slices.CompactFunc(met, func(a, b meeting) bool { return a.revision == b.revision })
	return slices.DeleteFunc(met, func(m meeting) bool {
		if m.later != 0 {
			w.clock.Observe(m.later) // the commits that follow give way to it, even if this server's clock is slow
		}
		return m.later != 0
	}), err
}

// applyMarked applies mutations, and returns the marks in these rows that conflict with those of tx.
func (w *writer) applyMarked(ctx context.Context, t table.Table, own *journal.Record, ms []table.Mutation, tx *Tx, marks map[string][]Mark) ([]meeting, error) {
	r := own.Revision
	var keys [][]byte
	for i := range ms {
		if len(marks[string(ms[i].Row)]) > 0 {
			keys = append(keys, ms[i].Row)
		}
	}
	if len(keys) == 0 {
		return nil, w.applyPart(ctx, t, r, ms)
	}
	var rows []table.Row
	after := tx.snapshot.lowMark() //rule:low-water
	err := w.twice(ctx, func(ctx context.Context) (err error) {
		rows, err = table.ApplyVersions(ctx, t, r, ms, keys, table.MarkFamily, after) //rule:marks-first
		return err
	})
	if err != nil {
		return nil, err
	}
	return tx.conflicting(t.Name(), rows, marks, own)
}

// applyPart applies mutations.
func (w *writer) applyPart(ctx context.Context, t table.Table, r table.Revision, ms []table.Mutation) error {
	return w.twice(ctx, func(ctx context.Context) error { return t.Apply(ctx, r, ms) })
}

// twice makes a step, and once more after table.ErrUnavailable. That is safe for a step that can be
// repeated, such as Apply.
func (w *writer) twice(ctx context.Context, do func(context.Context) error) error {
	err := w.step(ctx, do)
	if errors.Is(err, table.ErrUnavailable) && ctx.Err() == nil {
		err = w.step(ctx, do)
	}
	return err
}

// decide makes the commit final or, if the cell decides the commit, ready to be published. If another server has aborted
// the commit, decide returns a conflict. If the store's answer is lost, decide returns ErrUnknown and the resolver
// finds out the outcome in the background.
func (w *writer) decide(ctx context.Context, p *pendingCommit) (*conflict, error) {
	if err := w.alive(); err != nil {
		w.resolver.later(p) // no decision was sent, so the commit can only be aborted
		return nil, fmt.Errorf("commit: %w", err)
	}
	if p.rec.ByCell {
		w.finalise(p, journal.Committed)
		return nil, nil
	}
	var state journal.State
	err := w.step(ctx, func(ctx context.Context) (err error) {
		state, err = w.e.db.log.Decide(ctx, p.rec, journal.Committed)
		return err
	})
	switch {
	case err != nil:
		w.resolver.later(p)
		return nil, fmt.Errorf("%w: deciding it: %w", ErrUnknown, err)
	case state != journal.Committed:
		w.rollBack(ctx, p)
		return &conflict{}, nil
	}
	w.finalise(p, journal.Committed)
	return nil, nil
}

// awaitShown returns nil when every later snapshot shows the commit. If the slot is lost
// before, it returns ErrUnknown, and if another server took the commit back, errTakenBack.
func (w *writer) awaitShown(p *pendingCommit) error {
	select {
	case <-p.shown:
		return nil
	case <-p.taken:
		return errTakenBack
	case <-w.lost:
	}
	select {
	case <-p.shown: // it was shown before the slot was lost
		return nil
	default:
		return fmt.Errorf("%w: the lease was lost before %s was published", ErrUnknown, p.rec.Revision) //rule:without-slot
	}
}

// finalise records a commit's final state and signals run to publish it in this server's
// cell, together with the end of the reservation that ends with the commit.
func (w *writer) finalise(p *pendingCommit, s journal.State) {
	w.mu.Lock()
	if w.settle(p, s); p.ends != nil {
		w.settle(p.ends, journal.Aborted)
		p.ends = nil
	}
	w.mu.Unlock()
	w.signal()
	if s == journal.Aborted {
		w.e.db.shown.Broadcast()
	}
}

// settle records a commit's final state. The caller holds w.mu.
func (w *writer) settle(p *pendingCommit, s journal.State) {
	if p.state = s; s == journal.Committed && p.isTaken() {
		p.state = journal.Pending
	}
	if s == journal.Aborted {
		w.recent.abort(p.marks)
		if p.dirty { //rule:void-stays
			at, _ := slices.BinarySearchFunc(w.aborted, p.rec.Revision, func(v abortedCommit, r table.Revision) int {
				return v.rec.Revision.Compare(r)
			})
			w.aborted = slices.Insert(w.aborted, at, abortedCommit{p.rec, time.Now()})
		}
	}
}

// rollBack aborts an undecided commit and removes its cells. From here on the commit can
// end only by being aborted.
func (w *writer) rollBack(ctx context.Context, p *pendingCommit) {
	err := w.step(ctx, func(ctx context.Context) error { return w.e.db.log.Rollback(ctx, p.rec) })
	if err != nil {
		w.resolver.later(p)
		return
	}
	w.finalise(p, journal.Aborted)
}

// addCell adds a cell to the mutation of its row. The mutations are sorted by row.
func addCell(ms []table.Mutation, row []byte, c table.Cell) []table.Mutation {
	i, ok := slices.BinarySearchFunc(ms, row, func(m table.Mutation, row []byte) int { return bytes.Compare(m.Row, row) })
	if !ok {
		ms = slices.Insert(ms, i, table.Mutation{Row: row})
	}
	// The transaction's own slice of cells must not change.
	ms[i].Cells = append(slices.Clip(ms[i].Cells), c)
	return ms
}

// A resolver finishes in the background the commits that the goroutines of their callers could
// not finish.
type resolver struct {
	w    *writer
	open sync.WaitGroup // counts the commits whose outcome is unknown
}

// The method "later" finds out the outcome of a commit in the background, and aborts the commit
// if it is undecided. Until then the commit is an exception below the head.
func (r *resolver) later(p *pendingCommit) {
	r.until(p, func(ctx context.Context) (state journal.State, err error) {
		err = r.w.step(ctx, func(ctx context.Context) error {
			if state, err = r.w.e.db.log.Decide(ctx, p.rec, journal.Aborted); err != nil || state == journal.Committed {
				return err
			}
			state = journal.Aborted
			return r.w.e.db.log.Erase(ctx, p.rec)
		})
		return state, err
	})
}

// The method "until" calls the function settle in the background until it returns the final state of
// a commit.
func (r *resolver) until(p *pendingCommit, settle func(context.Context) (journal.State, error)) {
	w := r.w
	r.open.Add(1)
	random := w.e.db.o.random()
	w.e.done.Go(func() {
		defer r.open.Done()
		for try := 0; ; try++ {
			if pause.For(w.e.background, jittered(time.Millisecond<<min(try, 8), random)) != nil || w.fenced.Load() {
				return
			}
			if state, err := settle(w.e.background); err == nil {
				w.finalise(p, state)
				return
			}
		}
	})
}

// abort aborts a commit whose journal row may have been written although the store did
// not acknowledge the write. The commit has no cells yet.
func (r *resolver) abort(ctx context.Context, p *pendingCommit) {
	w := r.w
	e := w.e
	e.done.Go(func() {
		err := w.step(ctx, func(ctx context.Context) error {
			_, err := e.db.log.Decide(ctx, p.rec, journal.Aborted)
			return err
		})
		if err != nil {
			e.db.o.Log.Debug("journal row left pending", "revision", p.rec.Revision.String(), "error", err)
		}
	})
}

// wait waits until the outcome of every commit is known.
func (r *resolver) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		r.open.Wait()
		close(done)
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-done:
		return nil
	}
}
