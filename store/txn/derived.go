package txn

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// WriteDerived writes cells that were computed from the state at revision r. The caller must
// make sure that the current state shows r, and that no transaction writes the same tables. In
// versioned tables the cells get the revision r. Unless lazy is set, WriteDerived returns when
// all writes are durable.
//
// On a store of one process the writes are one batch. After a crash the store contains either
// the whole batch or nothing of it. If the store contains the batch, it also contains all
// earlier commits and batches. If lazy is set, WriteDerived does not wait until the batch is
// durable. On other stores lazy has no effect. There, only versioned tables can be written, and
// only while this server has a slot.
func (db *DB) WriteDerived(ctx context.Context, r table.Revision, writes []table.Write, lazy bool) error {
	if db.alone != nil {
		wait, err := db.alone.writeDerived(ctx, r, writes)
		if err != nil || lazy {
			return err
		}
		return wait()
	}
	w, err := db.peers.backfiller()
	if err != nil {
		return err
	}
	for _, x := range writes {
		for start := 0; start < len(x.Mutations); start += applySize {
			part := x.Mutations[start:min(start+applySize, len(x.Mutations))]
			if err := w.applyPart(ctx, db.Table(x.Table), r, part); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *embedded) writeDerived(ctx context.Context, r table.Revision, writes []table.Write) (wait func() error, err error) {
	if head := e.db.current.Load().max; r > head {
		return nil, fmt.Errorf("%w: %s is newer than %s", ErrRevision, r, head)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.writable(); err != nil {
		return nil, err
	}
	return e.batcher.Commit(context.WithoutCancel(ctx), table.Batch{Revision: r, Writes: writes})
}
