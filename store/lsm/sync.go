package lsm

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

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
