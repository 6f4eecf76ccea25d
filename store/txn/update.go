package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/span"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// exclusiveAfter is the number of attempts that a transaction makes while other
// transactions of this server may commit. In later attempts the transaction keeps other
// transactions from committing while it runs, so that short transactions do not starve a
// long one.
const exclusiveAfter = 4

// Update runs fn on a transaction and commits what fn wrote. If another commit conflicts,
// Update runs fn again on a newer snapshot. It makes a bounded number of attempts, on a shared store in
// turn with the other transactions that want the row, otherwise with growing, jittered pauses, and then returns ErrConflict. If fn returns an error, Update
// returns that error unchanged and writes nothing. If fn writes nothing, touches no ids
// and sets no message, Update commits nothing and returns the revision of the snapshot.
// Update returns when the commit is durable and every later Snapshot shows it. If the
// outcome of the commit cannot be determined, Update returns ErrUnknown. fn must not call
// Update, because the inner call may wait forever.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) (_ table.Revision, err error) {
	var a attempt
	defer func() {
		if a.turn == nil {
			return
		}
		if errors.Is(err, table.ErrUnavailable) {
			db.turns.refuse(a.turn)
		}
		db.turns.pass(a.turn)
	}()
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
		if err := db.lost(ctx, &a, met, try); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w after %d attempts", ErrConflict, db.o.Attempts)
}

// lost returns when a transaction may be tried again after a conflict.
func (db *DB) lost(ctx context.Context, a *attempt, met *conflict, try int) error {
	random := db.o.random()
	waited := false
	if db.Shared() {
		if a.turn == nil {
			var err error
			if a.turn, waited, err = db.turns.take(ctx, met.mark); err != nil {
				return err
			}
		}
		// Two attempts are made without a reservation: a modification whose assertion is false now needs none.
		a.lost = try > 0 && met.isOthers()
		a.turn.contested = a.turn.contested || a.lost
	}
	// Whatever excluded the transaction before it waited for its turn is shown now, unless other servers made it.
	if !waited || len(met.others) > 0 {
		if err := db.commits.wait(ctx, met); err != nil {
			return err
		}
	}
	if a.turn != nil {
		try = 1
	}
	return jitter(ctx, try, random)
}

// try runs fn once and commits what fn wrote.
func (db *DB) try(ctx context.Context, fn func(*Tx) error, a *attempt, try int) (table.Revision, *conflict, error) {
	if err := db.commits.writable(); err != nil {
		return 0, nil, err
	}
	again := try >= exclusiveAfter || a.turn != nil
	if again {
		if err := db.gate.enter(ctx, try >= exclusiveAfter); err != nil {
			return 0, nil, err
		}
		defer db.gate.leave()
	}
	if a.turn != nil {
		if met, err := db.peers.reserve(ctx, a); met != nil || err != nil {
			return 0, met, err
		}
	}
	tx := db.begin()
	defer tx.end()
	if tx.snapshot.err != nil {
		return 0, nil, tx.snapshot.err
	}
	tx.prio, tx.turn = a.prio, a.turn
	defer func() { a.prio, a.marks = tx.prio, tx.markRows }()
	if a.turn != nil && a.turn.reserved != nil {
		rec := a.turn.reserved.p.rec
		tx.prio, tx.reserved, a.again = rec.Prio, rec.Revision, true
	}
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
	ctx, s := span.Start(ctx, "commit")
	r, met, err := db.commits.commit(ctx, tx)
	if met != nil {
		s.Mark("conflict")
	}
	s.End()
	db.observe(tx, begun, met, err)
	return r, met, err
}

// jitter pauses for a random time, to spread out transactions that lost against the same
// commit.
func jitter(ctx context.Context, try int, random uint64) error {
	if try == 0 {
		return canceled(ctx)
	}
	return pause.For(ctx, time.Duration(random%uint64(100*time.Microsecond<<min(try, 8))))
}

// A gate lets many commits in at the same time, or one exclusive holder.
type gate struct {
	mu      sync.Mutex
	inside  int
	alone   bool // the holder inside excludes all other callers
	waiting int  // number of callers that wait to enter alone; other callers wait for them
	bulk    bool // the holder inside is a bulk load; other callers fail at once
	closed  bool
	changed broadcast
	random  func() uint64
}

// When the gate opens, waiting transactions enter after random delays, so that they do not all
// enter at once. spread is the largest delay.
const spread = 50 * time.Microsecond

// enter returns when the caller may pass the gate. If alone is set, the caller then
// excludes all others.
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

// forBulk makes other callers of enter fail instead of waiting for the holder inside.
func (g *gate) forBulk() {
	g.mu.Lock()
	g.bulk = true
	g.mu.Unlock()
	g.changed.Broadcast()
}

// close waits until nobody is inside, and makes all later calls of enter fail.
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
