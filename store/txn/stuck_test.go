package txn

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
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
	table.Versioner
	s *stuckStore
}

func (s *stuckStore) Table(name string) table.Table {
	t := s.Mem.Table(name)
	v, _ := t.(table.Versioner)
	return stuckTable{t, v, s}
}

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

// While away is set, scans of the journal do not answer until their context ends.
type awayStore struct {
	*tabletest.Mem
	away atomic.Bool
}

type awayTable struct {
	table.Table
	s *awayStore
}

func (s *awayStore) Table(name string) table.Table {
	if name != journal.Table {
		return s.Mem.Table(name)
	}
	return awayTable{s.Mem.Table(name), s}
}

func (t awayTable) Scan(ctx context.Context, r table.Range, sel table.Select) iter.Seq2[table.Row, error] {
	if !t.s.away.Load() {
		return t.Table.Scan(ctx, r, sel)
	}
	return func(yield func(table.Row, error) bool) {
		<-ctx.Done()
		yield(table.Row{}, ctx.Err())
	}
}

// TestJournalAway checks that two servers keep their slots, and show what each other commits, while the journal cannot be scanned:
// what the other server changed then counts as unknown.
func TestJournalAway(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		s := &awayStore{Mem: newMem()}
		if err := s.Create(t.Context(), dataSpec); err != nil {
			t.Fatal(err)
		}
		one, other := open(t, s, Options{}), open(t, s, Options{})
		holders := []Holder{one.Holder(), other.Holder()}
		write(t, other, "row", "p", "before")
		s.away.Store(true)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			for _, db := range []*DB{one, other} {
				s := db.Snapshot()
				if err := errors.Join(s.err, db.commits.writable()); err != nil {
					t.Fatal(err)
				}
				s.Close()
			}
		}
		write(t, other, "row", "p", "after")
		if err := one.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := one.Snapshot()
		defer now.Close()
		if got := value(t, now, one.Table("data"), "row", "p"); got != "after" {
			t.Errorf("the other server reads %q", got)
		}
		if got := []Holder{one.Holder(), other.Holder()}; !slices.Equal(got, holders) {
			t.Errorf("slots %v, and before %v", got, holders)
		}
		s.away.Store(false)
	})
}
