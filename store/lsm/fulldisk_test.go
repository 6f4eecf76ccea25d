package lsm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/lsm/lsmtest"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// fullPatience bounds the time of operations that must not hang on a full disk.
const fullPatience = 10 * time.Second

// within fails the test if fn does not return within fullPatience.
func within(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(fullPatience):
		stacks := make([]byte, 1<<20)
		t.Fatalf("%s hangs\n%s", what, stacks[:runtime.Stack(stacks, true)])
	}
}

// fullOptions returns options with small memory tables, so that there are many flushes
// and compactions.
func fullOptions(d *lsmtest.FullDisk, reserve int64) Options {
	return Options{Path: "store", FS: d, MemTable: 16 << 10, Cache: 1 << 20, Reserve: reserve, patience: 50 * time.Millisecond}
}

// fullSteps is the number of commits of the load. Each commit writes about 1 KiB.
const fullSteps = 60

// fullLoad makes commits until the disk is full or all commits are done, and returns the
// number of acknowledged commits. If the disk became full, fullLoad closes the store
// while the disk is still full.
func fullLoad(t *testing.T, d *lsmtest.FullDisk, reserve int64) (acked int) {
	t.Helper()
	s, err := Open(fullOptions(d, reserve))
	if err != nil {
		if !errors.Is(err, table.ErrUnavailable) {
			t.Errorf("Open on a full disk: %v", err)
		}
		return 0
	}
	defer within(t, "Close", func() { s.Close() })
	if err := s.Create(context.Background(), crashSpecs...); err != nil {
		return 0
	}
	acked = commitSteps(t, s, d)
	if n := headOf(t, s); n < acked {
		t.Errorf("head is %d after %d commits", n, acked)
	}
	return acked
}

func commitSteps(t *testing.T, s *Store, d *lsmtest.FullDisk) int {
	for n := 1; n <= fullSteps; n++ {
		b := step(n)
		b.Writes[0].Mutations[1].Cells[0].Value = []byte(strings.Repeat("x", 1000))
		wait, err := s.Commit(context.Background(), b)
		if err == nil {
			err = wait()
		}
		if err != nil {
			if !errors.Is(err, table.ErrUnavailable) {
				t.Errorf("commit %d on a full disk: %v", n, err)
			}
			return n - 1
		}
	}
	return fullSteps
}

// checkFull opens the store on the full disk and checks that it can be read. Only a store
// without acknowledged commits may fail to open.
func checkFull(t *testing.T, d *lsmtest.FullDisk, acked int) {
	t.Helper()
	s, err := Open(fullOptions(d, 0))
	if err != nil {
		if acked > 0 || !errors.Is(err, table.ErrUnavailable) {
			t.Errorf("Open on a full disk after %d commits: %v", acked, err)
		}
		return
	}
	if acked > 0 {
		if n := headOf(t, s); n < acked {
			t.Errorf("%d commits are left of %d", n, acked)
		}
	}
	s.Close()
}

// checkHealed opens the store after the disk has space again and checks that it can be
// written.
func checkHealed(t *testing.T, d *lsmtest.FullDisk, acked int) {
	t.Helper()
	s, err := Open(fullOptions(d, 0))
	if err != nil {
		t.Fatalf("Open with space again: %v", err)
	}
	defer s.Close()
	if err := s.Create(context.Background(), crashSpecs...); err != nil {
		t.Fatal(err)
	}
	if n := headOf(t, s); n < acked {
		t.Errorf("%d commits are left of %d", n, acked)
	}
	wait, err := s.Commit(context.Background(), step(1000))
	if err == nil {
		err = wait()
	}
	if err != nil || headOf(t, s) != 1000 {
		t.Errorf("commit with space again: %v", err)
	}
}

// TestFullDiskAtEveryMoment makes the disk full at many moments of a load and checks that
// no operation hangs. Acknowledged commits must be readable at once and after a restart,
// and the store must accept writes after the disk has space again.
func TestFullDiskAtEveryMoment(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, reserve := range []int64{0, 64 << 10} {
			t.Run(fmt.Sprintf("late=%v reserve=%d", late, reserve), func(t *testing.T) {
				whole := lsmtest.NewFullDisk(-1, late)
				if n := fullLoad(t, whole, reserve); n != fullSteps {
					t.Fatalf("%d commits with space for all", n)
				}
				for after := 1; after <= whole.Writes() && !t.Failed(); after += 1 + after/20 {
					d := lsmtest.NewFullDisk(after, late)
					acked := 0
					within(t, "the load", func() { acked = fullLoad(t, d, reserve) })
					within(t, "a start on a full disk", func() { checkFull(t, d, acked) })
					d.Heal()
					within(t, "a start with space again", func() { checkHealed(t, d, acked) })
					if t.Failed() {
						t.Logf("the disk was full after %d of %d moments, %d commits", after, whole.Writes(), acked)
					}
				}
			})
		}
	}
}
