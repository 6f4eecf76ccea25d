package txn

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/table"
)

// A Fill writes cells into a table that nobody reads yet, while other writers maintain
// it. Its cells carry the revision of an older commit, so everything that the others
// write hides them. It is for stores that servers share. There is no write list: what
// an interrupted Fill leaves is written again by the next one, or dropped with its
// table.
type Fill struct {
	tx *Tx
	w  backfiller
	at table.Revision
}

// A backfiller writes cells of some rows at a revision.
type backfiller interface {
	applyPart(ctx context.Context, t table.Table, r table.Revision, ms []table.Mutation) error
}

// Fill begins a Fill as of the commit at. All writers must have known of the table
// since then; AwaitStep waits for that.
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

// Snapshot returns the state to fill from. The Fill counts as a transaction that began
// at it.
func (f *Fill) Snapshot() *Snapshot { return f.tx.snapshot }

// Stamp returns an id as Tx.Stamp does.
func (f *Fill) Stamp() table.Revision { return f.tx.Stamp() }

// Write writes mutations. Their rows have cells only.
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
