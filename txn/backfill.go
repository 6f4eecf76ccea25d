package txn

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/table"
)

// A Fill writes cells into a table that is not read yet, beside all other
// writers, who write their part of it: what follows from a state is written as of
// an older commit, so that it lies under all that they write. It is for stores
// that servers share; there is no write list, so what a Fill leaves when it is cut
// short is written again, or goes with its table.
type Fill struct {
	tx *Tx
	w  backfiller
	at table.Revision
}

// A backfiller writes cells of some rows at a revision.
type backfiller interface {
	applyPart(ctx context.Context, t table.Table, r table.Revision, ms []table.Mutation) error
}

// Fill begins one as of the commit at: since then all writers have known of the
// table, which AwaitStep tells.
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

// Snapshot is the state to fill from. The Fill counts as a transaction that began
// at it.
func (f *Fill) Snapshot() *Snapshot { return f.tx.snapshot }

// Stamp is as Tx.Stamp.
func (f *Fill) Stamp() table.Revision { return f.tx.Stamp() }

// Write writes mutations; rows have cells only.
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
