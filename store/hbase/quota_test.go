package hbase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// TestQuotas writes to an HBase that refuses calls, because of a quota and because the memory for a region's writes is
// full. A write must succeed, or fail in time as one that may be tried again; what was acknowledged must be there.
func TestQuotas(t *testing.T) {
	if os.Getenv(hbasetest.QuorumEnv) != "" {
		t.Skip("it needs an HBase with settings of its own")
	}
	i := hbasetest.Configured(t, hbasetest.Config{Properties: slices.Concat(hbasetest.Quotas, [][2]string{
		{"hbase.hregion.memstore.flush.size", "1048576"},
		{"hbase.hregion.memstore.block.multiplier", "1"},
		// A region with two files is not flushed for so many milliseconds, and writes are refused so long.
		{"hbase.hstore.blockingStoreFiles", "1"}, {"hbase.hstore.compactionThreshold", "50"}, {"hbase.hstore.blockingWaitTime", "4000"},
	})})
	const timeout = 2 * time.Second
	s, err := Open(t.Context(), Scheme+i.Quorum()+"/"+hbasetest.Prefix(t), Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Create(t.Context(), table.Spec{Name: "rows", Families: []table.FamilySpec{{Name: 'f'}}}); err != nil {
		t.Fatal(err)
	}
	d := s.Table("rows").(*Table)
	w := &busyWriters{t: t, d: d, timeout: timeout, acked: map[string]int{}}

	quota := func(calls uint64) {
		changeRegions(t, s, hbasetest.NewQuota(t.Context(), string(d.full), calls), func() bool { return true })
		time.Sleep(2 * time.Second) // until the region server has learned of it
	}
	quota(4)
	w.run("quota", 100, 3*time.Second, "RpcThrottlingException")
	quota(0)
	w.recover()
	w.run("memory", 100_000, 3*time.Second, "RegionTooBusyException")
	w.recover()
	w.check()
}

// busyWriters write rows, and remember what was acknowledged.
type busyWriters struct {
	t       *testing.T
	d       *Table
	timeout time.Duration

	mu    sync.Mutex
	acked map[string]int // lengths of values by row
}

// run writes values of some size for some time. Some writes must be refused with an exception of the class.
func (w *busyWriters) run(name string, size int, long time.Duration, class string) {
	ctx, cancel := context.WithTimeout(w.t.Context(), long)
	defer cancel()
	var wg sync.WaitGroup
	refused := 0
	for n := range 16 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				row := fmt.Sprint(name, n, " ", i)
				begin := time.Now()
				err := w.put(row, size)
				if took := time.Since(begin); took > 2*w.timeout {
					w.t.Errorf("a write took %v", took)
				}
				if errors.Is(err, table.ErrBusy) && strings.Contains(err.Error(), class) {
					w.mu.Lock()
					refused++
					w.mu.Unlock()
				} else if err != nil {
					w.t.Errorf("%s: %v", row, err)
				}
			}
		})
	}
	wg.Wait()
	w.t.Logf("%s: %d writes so far, %d refused", name, len(w.acked), refused)
	if refused == 0 {
		w.t.Errorf("no write was refused with %s", class)
	}
}

func (w *busyWriters) put(row string, size int) error {
	cell := table.Cell{Family: 'f', Qualifier: []byte("q"), Value: bytes.Repeat([]byte{1}, size)}
	err := w.d.Apply(w.t.Context(), 1, []table.Mutation{{Row: []byte(row), Cells: []table.Cell{cell}}})
	if err != nil && !errors.Is(err, table.ErrUnavailable) {
		w.t.Errorf("%s: %v", row, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.acked[row] = size
	}
	return err
}

// recover waits until a write succeeds.
func (w *busyWriters) recover() {
	for begin := time.Now(); w.put("again", 1) != nil; {
		if time.Since(begin) > 20*time.Second {
			w.t.Fatal("no write succeeds again")
		}
	}
}

func (w *busyWriters) check() {
	for row, size := range w.acked {
		got, err := w.d.Get(w.t.Context(), []byte(row), table.Select{})
		if err != nil || len(got.Cells) != 1 || len(got.Cells[0].Value) != size {
			w.t.Errorf("%s was acknowledged and has %d cells: %v", row, len(got.Cells), err)
		}
	}
}
