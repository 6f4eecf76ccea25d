package txn

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/internal/pause"
	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A Redaction changes the past of a DB up to a state that stands for ever: that
// all was committed to when it began. No garbage is collected by this server as
// long.
type Redaction struct {
	db *DB
	// At is the state up to which the past is changed.
	At *Snapshot
}

// Redact waits until all that was committed by any server when it was called lies
// below the low-water mark, where nothing can be added, and no snapshot of the
// present is older, so that nobody looks for marks there or remembers what it reads;
// then it has fn change the past up to there.
func (db *DB) Redact(ctx context.Context, fn func(*Redaction) error) error {
	if err := db.commits.writable(); err != nil {
		return err
	}
	if err := db.CatchUp(ctx); err != nil {
		return err
	}
	held, err := db.holdHorizon()
	if err != nil {
		return err
	}
	defer held.Close()
	end := held.Max()
	for {
		b, err := db.horizon.bounds(ctx)
		if err != nil {
			return err
		}
		if min(b.stable, b.young) >= end {
			break
		}
		if err := pause.For(ctx, db.o.Poll); err != nil {
			return err
		}
	}
	db.garbage.mu.Lock()
	defer db.garbage.mu.Unlock()
	at, err := db.At(ctx, end) // which shows what was undecided then
	if err != nil {
		return err
	}
	defer at.Close()
	return fn(&Redaction{db, at})
}

// holdHorizon keeps the horizon below the newest state, as reading it in the past would.
func (db *DB) holdHorizon() (*Snapshot, error) {
	now := db.Snapshot()
	defer now.Close()
	if err := now.unreadable(); err != nil {
		return nil, err
	}
	held := &Snapshot{db: db, view: now.view, heads: now.heads, max: now.max, low: now.low}
	return held, db.live.admit(held)
}

// Table returns a table whose past can be changed.
func (r *Redaction) Table(t table.Table) (table.Redactor, error) {
	x, ok := t.(table.Redactor)
	if !ok {
		return nil, fmt.Errorf("the past of table %s of this store cannot be changed", t.Name())
	}
	return x, nil
}

// Journal has change take out of the records of commits what they are to say no
// longer, see journal.Log.Redact.
func (r *Redaction) Journal(ctx context.Context, dry bool, change func(*journal.Record) bool) (n int, err error) {
	b, err := r.db.horizon.bounds(ctx)
	if err != nil {
		return 0, err
	}
	for _, slot := range b.slots {
		done, err := r.db.log.Redact(ctx, slot, r.At.Max(), dry, change)
		n += done
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Purge has the store write files anew until what was taken out of the past is in
// none of them, as far as that is the store's to do. Stores that cannot be told do
// it by themselves.
func (db *DB) Purge(ctx context.Context) error {
	if r, ok := db.store.(table.Reclaimer); ok {
		return r.Purge(ctx)
	}
	return nil
}
