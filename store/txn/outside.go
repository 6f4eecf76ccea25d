package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Fill writes cells into a table that nobody reads yet, while other writers maintain the
// table. The cells of a Fill carry the revision of an older commit, so every cell that another
// writer writes hides the Fill's cell in the same column. A Fill works only on stores that
// several servers share. A Fill does not record in the journal which rows it writes. After an
// interrupted Fill, either another Fill writes the same cells again, or the table is dropped.
type Fill struct {
	tx *Tx
	w  backfiller
	at table.Revision
}

// A backfiller writes cells of some rows at a revision.
type backfiller interface {
	applyPart(ctx context.Context, t table.Table, r table.Revision, ms []table.Mutation) error
}

// Fill begins a Fill whose cells carry the given revision, which must be the revision of an
// earlier commit. The caller must make sure, for example with AwaitStep, that all writers have
// maintained the table since that commit.
func (db *DB) Fill(at table.Revision) (*Fill, error) {
	if db.peers == nil {
		return nil, errNotShared
	}
	w, err := db.peers.backfiller()
	if err != nil {
		return nil, err
	}
	f := &Fill{tx: db.begin(), w: w, at: at}
	if err := f.tx.snapshot.err; err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

var errNotShared = errors.New("no other server writes this store: load in bulk")

func (e *cluster) backfiller() (backfiller, error) { return e.holder() }

// Snapshot returns the state to fill from. As long as the Fill is open, this server
// treats the Fill as a running transaction that began at this state.
func (f *Fill) Snapshot() *Snapshot { return f.tx.snapshot }

// Stamp returns an id that serves for positions and change numbers; see Tx.Stamp.
func (f *Fill) Stamp() table.Revision { return f.tx.Stamp() }

// Write writes mutations, the tables in parallel. A mutation must write cells and must not delete its row.
func (f *Fill) Write(ctx context.Context, ws ...table.Write) error {
	if f.tx.refused != nil {
		return f.tx.refused
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, x := range ws {
		g.Go(func() error {
			for part := range slices.Chunk(x.Mutations, applySize) {
				if err := f.w.applyPart(ctx, f.tx.db.Table(x.Table), f.at, part); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// Close ends the Fill.
func (f *Fill) Close() { f.tx.end() }

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
	e.db.registry.expire(horizon)
	e.db.registry.raise(horizon)
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
