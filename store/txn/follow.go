package txn

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A DB with Options.Follow shows a store that contains the log of another server's store.
// The code that receives the log writes the store and then calls ShowNewest. Package txn
// itself writes nothing to the store, and collects no garbage in it: the log of the other
// server contains that server's collections too.

// ShowNewest shows the commits that were written to the store without this DB. It
// records what these commits changed, as a server of a shared store does for commits of
// other servers.
func (db *DB) ShowNewest(ctx context.Context) error {
	if db.alone == nil || !db.o.Follow {
		return fmt.Errorf("%w: the store was not opened to follow another one", ErrReadOnly)
	}
	return db.alone.showNewest(ctx)
}

func (e *embedded) showNewest(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	head, _, err := e.newest(ctx)
	if err != nil {
		return err
	}
	heads, err := e.db.log.Heads(ctx)
	if err != nil {
		return err
	}
	was := e.db.current.Load().max
	if head < was {
		return fmt.Errorf("%w: the store's newest commit is %s, and %s was shown", ErrRevision, head, was)
	}
	p := position{head, e.last.ordinal + 1, branchTableOf(heads, head)}
	if err := e.noteChanges(ctx, was, head, p.ordinal); err != nil || heads.Horizon > was {
		e.db.changes.everything(p.ordinal) // the records may be incomplete
	}
	e.last = p
	e.show(p)
	horizon := p.lines.noBranchWithin(heads.Horizon)
	e.db.live.expire(horizon)
	e.db.live.raise(horizon)
	return nil
}

// noteChanges records what was changed by the commits whose revisions are in the
// interval (after, upTo].
func (e *embedded) noteChanges(ctx context.Context, after, upTo table.Revision, n uint64) error {
	for rec, err := range e.db.log.Scan(ctx, revision.OnlySlot, after, upTo) {
		if err != nil {
			return err
		}
		e.db.changes.touch(rec.IDs, rec.Keys, n)
		if rec.AllChanged {
			e.db.changes.everything(n)
		}
	}
	return nil
}

// known returns an error if a store that follows another one may still receive commits up
// to revision r.
func (e *embedded) known(r table.Revision) error {
	if head := e.db.current.Load().max; e.db.o.Follow && r > head {
		return fmt.Errorf("%w: this server is a standby, and knows what was committed until %s", ErrRevision, head.Time().UTC().Format(time.RFC3339Nano))
	}
	return nil
}
