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
	if err := s.beginWrite(ctx, b.Urgent); err != nil {
		return nil, err
	}
	pb, err := s.prepare(&b)
	if err != nil {
		s.endWrite()
		return nil, s.wrap("commit", err)
	}
	a := &applying{s: s, done: make(chan struct{})}
	go func() {
		defer s.endWrite()
		defer close(a.done)
		a.wait, a.err = s.apply(pb, b.Revision)
	}()
	if s.await(a.done) {
		return a.wait, s.wrap("commit", a.err)
	}
	return a.waitDurable, nil
}

// commit applies a batch. The caller must hold the right to write.
func (s *Store) commit(b table.Batch) (wait func() error, err error) {
	pb, err := s.prepare(&b)
	if err != nil {
		return nil, err
	}
	return s.apply(pb, b.Revision)
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
func (s *Store) prepare(b *table.Batch) (pb *pebble.Batch, err error) {
	defer s.caught(&err)
	pb = s.db.NewBatch()
	if err := s.fill(pb, b); err != nil {
		pb.Close()
		return nil, err
	}
	return pb, nil
}

// apply applies the batch to Pebble and passes it to the syncer.
func (s *Store) apply(pb *pebble.Batch, r table.Revision) (wait func() error, err error) {
	if pb.Empty() {
		return s.syncs.barrier(pb), nil
	}
	if wait, err = s.take(pb); err != nil {
		return nil, err
	}
	if r == 0 {
		s.iters.swapped()
	} else {
		s.iters.changed(r)
	}
	s.m.commits.Add(1)
	return wait, nil
}

func (s *Store) take(pb *pebble.Batch) (wait func() error, err error) {
	_, wait, err = s.takeAt(pb)
	return wait, err
}

// takeAt is like take, but also returns the log position behind the batch.
func (s *Store) takeAt(pb *pebble.Batch) (next Position, wait func() error, err error) {
	defer s.caught(&err)
	if s.o.NoSync {
		err = s.db.Apply(pb, pebble.NoSync)
	} else {
		err = s.db.ApplyNoSyncWait(pb, pebble.Sync)
	}
	if err != nil {
		pb.Close()
		return 0, nil, err
	}
	next = Position(pb.SeqNum()) + Position(pb.Count())
	return next, s.syncs.add(pb), nil
}

// applyNow applies a batch and waits until it is durable.
func (s *Store) applyNow(pb *pebble.Batch) error {
	wait, err := s.take(pb)
	if err != nil {
		return err
	}
	return wait()
}
