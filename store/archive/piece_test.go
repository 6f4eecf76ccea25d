package archive

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// TestPieceBuffers checks that pieces are written and read without new buffers for each of
// them: an allocation of many megabytes may have to wait for the garbage collector.
func TestPieceBuffers(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.must(f.a.Pieces(ctx))
	piece := func() {
		f.commit(20)
		f.must(f.a.Pieces(ctx))
	}
	piece()
	const count = 10
	written := allocated(func() {
		for range count {
			piece()
		}
	})
	x, err := ReadIndex(ctx, f.place)
	f.must(err)
	in, err := newPieceReader(f.place, nil)
	f.must(err)
	defer in.close()
	read := func() (batches int) {
		for _, p := range x.Pieces {
			f.must(in.each(ctx, x.Owner.Store, p, func([]byte) error { batches++; return nil }))
		}
		return batches
	}
	if n := read(); n < 20*count {
		t.Fatalf("%d batches", n)
	}
	again := allocated(func() { read() })
	if most := uint64(count << 20); written > most || again > most {
		t.Errorf("%d pieces: writing allocated %d bytes, reading %d", count, written, again)
	}
}

// allocated returns the number of bytes that the process allocates while f runs.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestPause checks the pauses between attempts. After a piece, the pause must be Lag less the
// time that writing the piece took, but at least a tenth of Lag. The pauses after failures must
// grow.
func TestPause(t *testing.T) {
	a := &Archiver{o: Options{Lag: time.Second}}
	for _, x := range []struct {
		failures   int
		took, want time.Duration
	}{
		{0, 0, time.Second},
		{0, 400 * time.Millisecond, 600 * time.Millisecond},
		{0, time.Minute, 100 * time.Millisecond},
		{1, time.Minute, 2 * time.Second},
		{20, 0, longestPause},
	} {
		if got := a.pause(x.failures, x.took); got != x.want {
			t.Errorf("after %d failures and %v: %v, want %v", x.failures, x.took, got, x.want)
		}
	}
}
