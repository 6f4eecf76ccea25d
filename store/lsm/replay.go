package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Replayer creates a store from the files of a copy and the batches of the log behind
// the copy. Until Finish is called, the folder cannot be opened as a store.
type Replayer struct {
	s    *Store
	next Position
}

// Replay opens the files of a copy. The parameter next is the position at which the copy ends.
func Replay(path string, next Position) (*Replayer, error) { return replayOn(nil, path, next) }

func replayOn(fs vfs.FS, path string, next Position) (*Replayer, error) {
	s, err := Open(Options{Path: path, FS: fs, copied: true})
	if err != nil {
		return nil, err
	}
	return &Replayer{s, next}, nil
}

// Next returns the position behind the last applied batch.
func (r *Replayer) Next() Position { return r.next }

// Apply applies a batch. It ignores a batch that was already applied. It returns ErrGap
// if the batch does not follow directly on the last applied batch.
func (r *Replayer) Apply(repr []byte) (err error) {
	defer r.s.caught(&err)
	next, err := follow(r.next, repr)
	if err != nil || next == r.next {
		return err
	}
	b := r.s.db.NewBatch()
	if err := b.SetRepr(bytes.Clone(repr)); err != nil {
		return errors.Join(err, b.Close())
	}
	if err := r.s.db.Apply(b, pebble.NoSync); err != nil {
		return err
	}
	r.next = next
	return b.Close()
}

// Store returns the store with the batches applied so far. Finish closes this store.
func (r *Replayer) Store() *Store { return r.s }

// Finish makes the applied batches durable and turns the folder into a store.
func (r *Replayer) Finish() (err error) {
	defer r.s.caught(&err)
	if err := r.s.db.Flush(); err != nil {
		return errors.Join(r.s.wrap("restore", err), r.s.Close())
	}
	r.s.folder.made = false
	return errors.Join(r.s.folder.writeHeader(), r.s.Close())
}

// Abandon ends the replay without creating a store.
func (r *Replayer) Abandon() error { return r.s.Close() }

// SetRows calls f for each cell that a batch sets in an unversioned table. The argument
// of f is the key of the cell's row.
func (s *Store) SetRows(ctx context.Context, repr []byte, name string, f func(row []byte)) error {
	if err := s.gate.begin(ctx); err != nil {
		return err
	}
	defer s.gate.end()
	t := (*s.tables.now.Load())[name]
	if t == nil {
		return nil
	}
	for r := batchrepr.Read(repr); len(r) > 0; {
		kind, key, _, ok, err := r.Next()
		if err != nil || !ok {
			return fmt.Errorf("%w: batch of the log: %w", table.ErrCorrupt, err)
		}
		if kind != pebble.InternalKeyKindSet || !bytes.HasPrefix(key, appendHead(nil, t.id, 0)[:2]) || len(key) <= headLen {
			continue
		}
		if row, _, _, ok := cutEscaped(nil, key[headLen:]); ok {
			f(row)
		}
	}
	return nil
}
