package lsm

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A gate counts the running operations of a store, and has the right to write.
type gate struct {
	s       *Store
	ops     atomic.Int64 // number of running operations; closedBit is set after Close
	drained chan struct{}
	// writing is held while a writer reads rows and writes their new state. It is a
	// channel with room for one token, so that a waiting goroutine can give up.
	writing chan struct{}
}

const closedBit = 1 << 62

// begin counts a running operation, so that Close waits for it. It returns an error if
// the store is closed.
func (g *gate) begin(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for {
		n := g.ops.Load()
		if n&closedBit != 0 {
			return fmt.Errorf("store %s: %w", g.s, table.ErrClosed)
		}
		if g.ops.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

func (g *gate) end() {
	if g.ops.Add(-1) == closedBit {
		close(g.drained) // called at most once, because no operation begins after Close
	}
}

func (g *gate) closed() bool { return g.ops.Load()&closedBit != 0 }

// beginWrite counts a running operation, as begin does, and acquires the right to write.
// An urgent operation may use the reserve of a full disk.
func (g *gate) beginWrite(ctx context.Context, urgent bool) error {
	if err := g.begin(ctx); err != nil {
		return err
	}
	err := g.acquireWrite(ctx, urgent)
	if err != nil {
		g.end()
	}
	return g.s.wrap("write", err)
}

// acquireWrite acquires the right to write.
func (g *gate) acquireWrite(ctx context.Context, urgent bool) error {
	for {
		if err := g.writable(urgent); err != nil {
			return err
		}
		select {
		case g.writing <- struct{}{}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g.s.disk.refuses(urgent):
		}
	}
}

// writable returns nil if the store accepts writes now, and otherwise the reason why not.
func (g *gate) writable(urgent bool) error {
	err := g.s.shut
	switch {
	case g.s.o.ReadOnly:
		err = fmt.Errorf("%w: opened read-only", table.ErrUnavailable)
	case g.s.o.Follow:
		err = fmt.Errorf("%w: %w", table.ErrUnavailable, ErrFollows)
	case err == nil:
		err = g.s.disk.writable(urgent)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", table.ErrRefused, err)
	}
	return nil
}

func (g *gate) endWrite() {
	<-g.writing
	g.end()
}

// acquireFollowing acquires the right to write to a store that follows another one.
func (g *gate) acquireFollowing(ctx context.Context) error {
	if err := errors.Join(g.s.shut, g.s.disk.writable(false)); err != nil {
		return err
	}
	select {
	case g.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Refuses implements table.Refuser.
func (s *Store) Refuses() error { return s.gate.writable(false) }
