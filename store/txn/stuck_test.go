package txn

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// While stuck is set, a stuckStore blocks calls that write cells until their context ends.
type stuckStore struct {
	*tabletest.Mem
	stuck atomic.Bool
}

type stuckTable struct {
	table.Table
	s *stuckStore
}

func (s *stuckStore) Table(name string) table.Table { return stuckTable{s.Mem.Table(name), s} }

func (t stuckTable) Apply(ctx context.Context, r table.Revision, ms []table.Mutation) error {
	if t.s.stuck.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return t.Table.Apply(ctx, r, ms)
}

// TestStuckStore checks that Update returns ErrUnavailable if the store does not answer
// and the client's context has no deadline.
func TestStuckStore(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		s := &stuckStore{Mem: newMem()}
		if err := s.Create(ctx, dataSpec); err != nil {
			t.Fatal(err)
		}
		db, err := Open(ctx, s, Options{Lease: 400 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			s.stuck.Store(false)
			db.Close(ctx)
		})
		s.stuck.Store(true)
		_, err = db.Update(ctx, func(tx *Tx) error {
			tx.Write(db.Table("data"), put("row", "p", "v"))
			return nil
		})
		if !errors.Is(err, table.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
}
