package lsm

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Commit implements table.Batcher. Pebble applies the batch in a separate goroutine. If a
// full disk keeps Pebble from flushing its tables in memory, Pebble applies the batch
// only when there is space again. A separate goroutine lets the caller stop waiting.
func (s *Store) Commit(ctx context.Context, b table.Batch) (func() error, error) {
	if err := s.gate.beginWrite(ctx, b.Urgent); err != nil {
		return nil, err
	}
	pb, err := s.commits.prepare(&b)
	if err != nil {
		s.gate.endWrite()
		return nil, s.wrap("commit", err)
	}
	a := &applying{s: s, done: make(chan struct{})}
	go func() {
		defer s.gate.endWrite()
		defer close(a.done)
		a.wait, a.err = s.commits.apply(pb, b.Revision)
	}()
	if s.await(a.done) {
		return a.wait, s.wrap("commit", a.err)
	}
	return a.waitDurable, nil
}

// A committer writes batches. Only the goroutine that holds the right to write may use it.
type committer struct {
	s     *Store
	w     writer
	syncs syncer
}

// commit applies a batch. The caller must hold the right to write.
func (c *committer) commit(b table.Batch) (wait func() error, err error) {
	pb, err := c.prepare(&b)
	if err != nil {
		return nil, err
	}
	return c.apply(pb, b.Revision)
}

// An applying is a batch that Pebble is applying.
type applying struct {
	s    *Store
	done chan struct{}
	wait func() error // set before done is closed
	err  error
}

// waitDurable waits until the batch is durable. If Pebble is still applying the batch,
// waitDurable returns ErrPending.
func (a *applying) waitDurable() error {
	select {
	case <-a.done:
	default:
		return a.s.wrap("commit", fmt.Errorf("%w: %w: the disk is full", table.ErrPending, table.ErrUnavailable))
	}
	if a.err != nil {
		return a.s.wrap("commit", a.err)
	}
	return a.wait()
}

// prepare converts a table.Batch to a Pebble batch.
func (c *committer) prepare(b *table.Batch) (pb *pebble.Batch, err error) {
	defer c.s.caught(&err)
	pb = c.s.db.NewBatch()
	if err := c.fill(pb, b); err != nil {
		pb.Close()
		return nil, err
	}
	return pb, nil
}

// apply applies the batch to Pebble and passes it to the syncer.
func (c *committer) apply(pb *pebble.Batch, r table.Revision) (wait func() error, err error) {
	if pb.Empty() {
		return c.syncs.barrier(pb), nil
	}
	if wait, err = c.take(pb); err != nil {
		return nil, err
	}
	if r == 0 {
		c.s.iters.swapped()
	} else {
		c.s.iters.changed(r)
	}
	c.s.m.commits.Add(1)
	return wait, nil
}

func (c *committer) take(pb *pebble.Batch) (wait func() error, err error) {
	_, wait, err = c.takeAt(pb)
	return wait, err
}

// takeAt is like take, but also returns the log position behind the batch.
func (c *committer) takeAt(pb *pebble.Batch) (next Position, wait func() error, err error) {
	defer c.s.caught(&err)
	if c.s.o.NoSync {
		err = c.s.db.Apply(pb, pebble.NoSync)
	} else {
		err = c.s.db.ApplyNoSyncWait(pb, pebble.Sync)
	}
	if err != nil {
		pb.Close()
		return 0, nil, err
	}
	next = Position(pb.SeqNum()) + Position(pb.Count())
	return next, c.syncs.add(pb), nil
}

// position makes all earlier writes durable and returns the log position behind them. The
// caller must hold the right to write.
func (c *committer) position() (Position, error) {
	b := c.s.db.NewBatch()
	if err := b.Set(purgeKey, []byte{1}, nil); err != nil {
		return 0, err
	}
	next, wait, err := c.takeAt(b)
	if err != nil {
		return 0, err
	}
	return next, wait()
}

// applyNow applies a batch and waits until it is durable.
func (c *committer) applyNow(pb *pebble.Batch) error {
	wait, err := c.take(pb)
	if err != nil {
		return err
	}
	return wait()
}

// fill reads the rows that a batch changes and writes their new keys to pb.
func (c *committer) fill(pb *pebble.Batch, b *table.Batch) (err error) {
	w := &c.w
	w.reset(b.Revision, b.View)
	if w.it, err = c.s.iters.get(0); err != nil {
		return err
	}
	defer func() {
		c.s.iters.put(w.it)
		c.s.m.written.Add(w.n)
		c.s.m.seeks.Add(w.seeks)
		w.it, w.n, w.seeks = nil, 0, 0
		w.clear()
	}()
	w.out = pb
	for _, x := range b.Writes {
		t, err := c.s.tables.table(x.Table)
		if err != nil {
			return err
		}
		if t.spec.Unversioned {
			err = w.replace(t, x.Mutations)
		} else if b.Revision == 0 || b.Revision > maxRevision {
			err = errRevision
		} else {
			err = w.take(t, x.Mutations)
		}
		if err != nil {
			return err
		}
	}
	w.deltas = mergeDeltas(w.deltas)
	for i := range w.deltas {
		if err := w.update(&w.deltas[i]); err != nil {
			return err
		}
	}
	if err := w.joinAll(b.Joined); err != nil {
		return err
	}
	if b.Last == nil {
		return nil
	}
	last := b.Last(table.Found{
		Over:   rowsOf(w.deltas, func(d *delta) bool { return d.over }),
		Hidden: rowsOf(w.deltas, func(d *delta) bool { return d.hidden }),
	})
	t, err := c.s.tables.table(last.Table)
	if err != nil {
		return err
	}
	return w.replace(t, last.Mutations)
}

// A syncer waits until batches are on disk, in the order in which they were applied.
// Callers wait for the syncer instead of calling Pebble's SyncWait, which cannot be
// interrupted. So callers can stop waiting when the disk is full.
type syncer struct {
	s     *Store
	queue chan *pending
	ended chan struct{}
}

type pending struct {
	batch *pebble.Batch // nil for a barrier
	err   error         // set before done is closed
	done  chan struct{}
}

func (y *syncer) start(s *Store) {
	y.s, y.queue, y.ended = s, make(chan *pending, 1024), make(chan struct{})
	go y.run()
}

func (y *syncer) run() {
	defer close(y.ended)
	var failed error
	for p := range y.queue {
		if p.batch != nil {
			if err := p.batch.SyncWait(); err != nil {
				failed = fmt.Errorf("%w: write the log: %w", table.ErrUnavailable, err)
				y.s.disk.fail(err)
			} else {
				p.batch.Close()
			}
		}
		p.err = failed // after a failure no later batch is durable
		close(p.done)
	}
}

func (y *syncer) stop() {
	close(y.queue)
	y.s.await(y.ended)
}

// add queues an applied batch and returns a function that waits until the batch is
// durable.
func (y *syncer) add(b *pebble.Batch) func() error {
	if y.s.o.NoSync {
		b.Close()
		return func() error { return nil }
	}
	return y.enqueue(&pending{batch: b, done: make(chan struct{})})
}

// barrier returns a function that waits until all batches applied before are durable. b
// is an empty batch.
func (y *syncer) barrier(b *pebble.Batch) func() error {
	b.Close()
	if y.s.o.NoSync {
		return func() error { return nil }
	}
	return y.enqueue(&pending{done: make(chan struct{})})
}

func (y *syncer) enqueue(p *pending) func() error {
	y.queue <- p
	return func() error { return y.s.wrap("sync", y.wait(p)) }
}

// wait waits until p is durable. It returns an error if syncing the log failed, or if the disk
// stops accepting writes first.
func (y *syncer) wait(p *pending) error {
	for {
		stalled := y.s.disk.stalled()
		select {
		case <-p.done:
			return p.err
		default:
		}
		select {
		case <-p.done:
			return p.err
		case <-stalled:
		}
		switch err := y.s.disk.writable(true); {
		case y.s.disk.failed() != nil:
			return fmt.Errorf("%w: not known to be durable", err)
		case err != nil:
			return fmt.Errorf("%w: %w", table.ErrPending, err)
		}
		// The disk has space again, so wait for p again.
	}
}
