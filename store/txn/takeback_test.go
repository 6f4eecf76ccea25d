package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// A farStore is a store in memory whose calls take a round trip, and whose table "other" may be away.
type farStore struct {
	*tabletest.Mem
	trip time.Duration
	away atomic.Bool
}

type farTable struct {
	table.Table
	table.Versioner
	s    *farStore
	name string
}

func (s *farStore) Table(name string) table.Table {
	t := s.Mem.Table(name)
	v, _ := t.(table.Versioner)
	return farTable{t, v, s, name}
}

// half waits about half a round trip.
func (s *farStore) half() {
	if s.trip > 0 {
		time.Sleep(s.trip/4 + time.Duration(rand.Int64N(int64(s.trip/2))))
	}
}

func (t farTable) Get(ctx context.Context, row []byte, s table.Select) (table.Row, error) {
	t.s.half()
	defer t.s.half()
	return t.Table.Get(ctx, row, s)
}

func (t farTable) Swap(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, error) {
	t.s.half()
	defer t.s.half()
	return t.Table.Swap(ctx, row, f, q, old, cells)
}

func (t farTable) SwapGet(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, table.Row, error) {
	t.s.half()
	defer t.s.half()
	return table.SwapGet(ctx, t.Table, row, f, q, old, cells)
}

func (t farTable) ApplyVersions(ctx context.Context, r table.Revision, ms []table.Mutation, keys [][]byte, f table.Family, after table.Revision) ([]table.Row, error) {
	t.s.half()
	defer t.s.half()
	return table.ApplyVersions(ctx, t.Table, r, ms, keys, f, after)
}

func (t farTable) Erase(ctx context.Context, r table.Revision, rows [][]byte) error {
	if t.name == "other" && t.s.away.Load() {
		return fmt.Errorf("%w: the region is away", table.ErrUnavailable)
	}
	return t.Table.Erase(ctx, r, rows)
}

// hang makes a server write an ordinary commit up to its cells, and not more.
func hang(t *testing.T, db *DB, writes []table.Write) *pendingCommit {
	t.Helper()
	w := db.commits.(*cluster).writer.Load()
	w.mu.Lock()
	p, err := w.newCommit(&journal.Record{State: journal.Committed, ByCell: true})
	w.mu.Unlock()
	if err = errors.Join(err, w.begin(t.Context(), p, writes), w.apply(t.Context(), p, writes)); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTakeBackFromBusyServer checks that a commit is taken back soon although its server changes its cell once a
// round trip. It took seconds while a swap began from bytes that were read two round trips before.
func TestTakeBackFromBusyServer(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		s := &farStore{Mem: tabletest.NewMem(), trip: 2 * time.Millisecond}
		if err := s.Create(ctx, otherSpec); err != nil {
			t.Fatal(err)
		}
		o := Options{Lease: 10 * time.Second, Poll: 50 * time.Millisecond, InFlight: 30 * time.Second}
		busy, other := open(t, s, o), open(t, s, o)
		p := hang(t, busy, []table.Write{{Table: "data", Mutations: []table.Mutation{put("r", "p", "a")}}})
		var clients errgroup.Group
		var stop atomic.Bool
		for c := range 16 {
			clients.Go(func() error {
				for !stop.Load() {
					if _, err := busy.Update(ctx, func(tx *Tx) error {
						tx.Write(busy.Table("data"), put(fmt.Sprint("row", c), "n", "1"))
						return nil
					}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		time.Sleep(time.Second)
		w := other.commits.(*cluster).writer.Load()
		begun := time.Now()
		heads, err := w.readHeads(ctx)
		if err != nil {
			t.Fatal(err)
		}
		met, err := w.resolveConflict(ctx, heads, &journal.Record{Prio: 1, Revision: 1 << 62}, p.rec.Revision)
		if took := time.Since(begun); met != nil || err != nil || took > 300*time.Millisecond {
			t.Errorf("taken back after %v: %v, %v", took, met, err)
		}
		stop.Store(true)
		if err := clients.Wait(); err != nil {
			t.Error(err)
		}
		busy.commits.(*cluster).writer.Load().rollBack(ctx, p)
	})
}

// TestCommitOfRecoveringServer checks that a commit of a server that has died is void once its slot is being recovered,
// although the recovery cannot end while a region of another row is away.
func TestCommitOfRecoveringServer(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		s := &farStore{Mem: newMem()}
		if err := s.Create(ctx, otherSpec); err != nil {
			t.Fatal(err)
		}
		dead, other := open(t, s, fast), open(t, s, fast)
		hang(t, dead, []table.Write{{Table: "other", Mutations: []table.Mutation{put("q", "p", "a")}}})
		slot := dead.commits.(*cluster).writer.Load().slot
		hang(t, dead, withMarks([]table.Write{{Table: "data", Mutations: []table.Mutation{put("r", "p", "a")}}},
			[]markRow{{table: "data", row: []byte("r"), mark: Mark{Kind: MarkUpdate}}}, slot, 0))
		kill(dead)
		s.away.Store(true)
		begun := time.Now()
		_, err := other.Update(ctx, func(tx *Tx) error {
			tx.Write(other.Table("data"), put("r", "p", "b"))
			tx.Mark(other.Table("data"), []byte("r"), Mark{Kind: MarkUpdate})
			return nil
		})
		if leases := float64(time.Since(begun)) / float64(fast.Lease); err != nil || leases > 4 {
			t.Errorf("after %.1f leases: %v", leases, err)
		}
		s.away.Store(false)
	})
}
