package txn

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Redaction changes the past of a DB up to one state, which shows everything that was
// committed when the Redaction began. This server collects no garbage until the Redaction
// ends.
type Redaction struct {
	db *DB
	// At is the state up to which the past may be changed.
	At *Snapshot
}

// Redact calls fn to change the past, up to the commits that any server had made when
// Redact was called. Redact first waits until these commits are below the low-water
// mark, where no commit can be added. It also waits until no snapshot of the present is
// older than these commits. From then on no transaction looks for marks in that past. Redact
// returns ErrBranches if there are branches.
func (db *DB) Redact(ctx context.Context, fn func(*Redaction) error) error {
	if err := db.commits.writable(); err != nil {
		return err
	}
	if err := db.CatchUp(ctx); err != nil {
		return err
	}
	if err := db.unbranched("changing the past"); err != nil {
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
	db.collector.mu.Lock()
	defer db.collector.mu.Unlock()
	// The state at end also shows commits that were undecided when Redact began.
	at, err := db.At(ctx, end)
	if err != nil {
		return err
	}
	defer at.Close()
	return fn(&Redaction{db, at})
}

// Table returns a table of the store as a Redactor. It returns an error if the past of
// the table cannot be changed.
func (r *Redaction) Table(t table.Table) (table.Redactor, error) {
	x, ok := t.(table.Redactor)
	if !ok {
		return nil, fmt.Errorf("the past of table %s of this store cannot be changed", t.Name())
	}
	return x, nil
}

// Journal calls the function change with the records of commits, so that the function can
// remove what the records must no longer contain; see journal.Log.Redact.
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

// Purge makes the store rewrite its files until none of them contains data that was
// removed from the past. A store without this operation rewrites its files by itself.
func (db *DB) Purge(ctx context.Context) error {
	if r, ok := db.store.(table.Reclaimer); ok {
		return r.Purge(ctx)
	}
	return nil
}
