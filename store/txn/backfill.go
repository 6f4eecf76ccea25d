package txn

import (
	"context"
	"errors"
	"slices"

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

// Write writes mutations. A mutation must write cells and must not delete its row.
func (f *Fill) Write(ctx context.Context, t table.Table, ms ...table.Mutation) error {
	if f.tx.refused != nil {
		return f.tx.refused
	}
	for part := range slices.Chunk(ms, applySize) {
		if err := f.w.applyPart(ctx, t, f.at, part); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the Fill.
func (f *Fill) Close() { f.tx.end() }
