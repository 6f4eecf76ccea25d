package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/internal/pause"
	"github.com/seed-4dac0d86/ldapd/table"
)

// exclusiveAfter is the number of attempts that a transaction makes while others commit
// too. After that it keeps them from committing while it runs, so that short
// transactions do not starve a long one.
const exclusiveAfter = 4

// Update runs fn on a transaction and commits what it wrote. If another commit
// conflicts, it runs fn again on a newer snapshot, a bounded number of times with
// growing, jittered pauses, and then fails with ErrConflict. An error of fn is returned
// as it is, and nothing is written. A transaction that wrote nothing commits nothing.
// Update returns once the commit is durable and every later Snapshot shows it. If the
// outcome of a commit cannot be learned, Update fails with ErrUnknown. An Update within
// fn may wait for ever.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) (table.Revision, error) {
	var a attempt
	for try := range db.o.Attempts {
		r, met, err := db.try(ctx, fn, &a, try)
		switch {
		case errors.Is(err, table.ErrUnavailable):
			db.noteRefusal()
		case err == nil && met == nil:
			db.noteSuccess()
		}
		if met == nil || err != nil {
			return r, err
		}
		random := db.o.random()
		if err := db.commits.wait(ctx, met); err != nil {
			return 0, err
		}
		if err := jitter(ctx, try, random); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w after %d attempts", ErrConflict, db.o.Attempts)
}

// try runs fn once and commits.
func (db *DB) try(ctx context.Context, fn func(*Tx) error, a *attempt, try int) (table.Revision, *conflict, error) {
	if err := db.commits.writable(); err != nil {
		return 0, nil, err
	}
	again := try >= reserveAfter
	var reserved *reservation
	if again {
		if err := db.gate.enter(ctx, try >= exclusiveAfter); err != nil {
			return 0, nil, err
		}
		defer db.gate.leave()
		var met *conflict
		var err error
		if reserved, met, err = db.reserve(ctx, a); met != nil || err != nil {
			return 0, met, err
		}
		defer reserved.release()
	}
	tx := db.begin()
	defer tx.end()
	if tx.snapshot.err != nil {
		return 0, nil, tx.snapshot.err
	}
	tx.prio, tx.reserved = a.prio, reserved.revision()
	defer func() { a.prio, a.marks = tx.prio, tx.markRows }()
	if err := fn(tx); err != nil {
		return 0, nil, err
	}
	if tx.refused != nil {
		return 0, nil, tx.refused
	}
	if tx.empty() {
		return tx.snapshot.max, nil, nil
	}
	if !again {
		if err := db.gate.enter(ctx, false); err != nil {
			return 0, nil, err
		}
		defer db.gate.leave()
	}
	begun := time.Now()
	r, met, err := db.commits.commit(ctx, tx)
	db.observe(tx, begun, met, err)
	return r, met, err
}

// reserve places marks where other servers find them.
func (db *DB) reserve(ctx context.Context, a *attempt) (*reservation, *conflict, error) {
	if db.peers == nil {
		return nil, nil, nil
	}
	return db.peers.reserve(ctx, a)
}

// jitter pauses for a random time, to spread out transactions that lost against the
// same one.
func jitter(ctx context.Context, try int, random uint64) error {
	if try == 0 {
		return canceled(ctx)
	}
	return pause.For(ctx, time.Duration(random%uint64(100*time.Microsecond<<min(try, 8))))
}

// A gate lets many commits through at once, or one holder alone.
type gate struct {
	mu      sync.Mutex
	inside  int
	alone   bool // the one inside excludes others
	waiting int  // number waiting to be alone; others wait for them
	bulk    bool // the one alone is a bulk load; others fail at once
	closed  bool
	changed broadcast
	random  func() uint64
}

// spread bounds the random delay by which waiting transactions enter one after another,
// once the state they waited for is published.
const spread = 50 * time.Microsecond

// enter waits for its turn.
func (g *gate) enter(ctx context.Context, alone bool) error {
	if alone {
		g.mu.Lock()
		g.waiting++
		g.mu.Unlock()
		defer g.stopWaiting()
	}
	var apart time.Duration
	for {
		next := g.changed.Next
		g.mu.Lock()
		ok, err := g.try(alone)
		var event <-chan struct{}
		if !ok && err == nil {
			event = next()
		}
		g.mu.Unlock()
		if err != nil {
			return err
		}
		if ok {
			time.Sleep(apart)
			return nil
		}
		if apart == 0 {
			apart = 1 + time.Duration(g.random()%uint64(spread))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-event:
		}
	}
}

func (g *gate) stopWaiting() {
	g.mu.Lock()
	g.waiting--
	g.mu.Unlock()
	g.changed.Broadcast()
}

func (g *gate) try(alone bool) (bool, error) {
	switch {
	case g.closed:
		return false, fmt.Errorf("%w: the database was closed", table.ErrClosed)
	case g.bulk:
		return false, fmt.Errorf("%w: a bulk load is under way", ErrConflict)
	case g.alone, alone && g.inside > 0, !alone && g.waiting > 0:
		return false, nil
	}
	g.inside++
	g.alone = alone
	return true, nil
}

func (g *gate) leave() {
	g.mu.Lock()
	g.inside--
	g.alone, g.bulk = false, false
	g.mu.Unlock()
	g.changed.Broadcast()
}

// forBulk makes others fail instead of waiting for the one inside.
func (g *gate) forBulk() {
	g.mu.Lock()
	g.bulk = true
	g.mu.Unlock()
	g.changed.Broadcast()
}

// close waits until nobody is inside and then lets nobody in.
func (g *gate) close(ctx context.Context) error {
	if err := g.enter(ctx, true); err != nil {
		return err
	}
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.leave()
	return nil
}
