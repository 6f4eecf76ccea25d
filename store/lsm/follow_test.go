package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A pair is a store and a store that follows it.
type pair struct {
	*testing.T
	fs       vfs.FS
	original *Store
	follower *Store
	next     Position // position up to which the follower contains the log
}

func newPair(t *testing.T) *pair {
	fs := newMemFS()
	p := &pair{T: t, fs: fs, original: mustOpen(t, Options{Path: "store", FS: fs, MemTable: 16 << 10, KeepLogs: true})}
	t.Cleanup(func() { p.original.Close() })
	p.must(p.original.Create(context.Background(), crashSpecs...))
	mustCommit(t, p.original, 1)
	var base string
	base, p.next = copied(t, p.original)
	r, err := replayOn(fs, base, p.next)
	p.must(err)
	p.must(r.Mark(p.mark(p.next)))
	p.must(r.Finish())
	p.must(fs.MkdirAll("follower", 0o700))
	p.must(replaceOn(fs, "follower", base))
	p.open()
	t.Cleanup(func() { p.follower.Close() })
	return p
}

func (p *pair) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *pair) mark(n Position) []byte { return strconv.AppendUint(nil, uint64(n), 10) }

func (p *pair) open() {
	p.Helper()
	p.follower = mustOpen(p.T, Options{Path: "follower", FS: p.fs, Follow: true})
	mark, err := p.follower.Mark()
	p.must(err)
	n, err := strconv.ParseUint(string(mark), 10, 64)
	if err != nil || Position(n) != p.next {
		p.Fatalf("the mark is %q, want %d", mark, p.next)
	}
}

// apply applies what the original has written.
func (p *pair) apply() {
	p.Helper()
	ctx := context.Background()
	inc := p.follower.Increment(p.next)
	_, err := p.original.ReadLog(ctx, p.next, func(b LogBatch) error { return inc.Add(b.Repr) })
	p.must(err)
	p.must(inc.Apply(ctx, p.mark(inc.Next())))
	p.next = inc.Next()
}

// TestFollow checks that a follower has the keys of its original after all increments, and
// still has them after it was opened again. Readers of the follower must never see a part of an
// increment. Tables that the original creates or drops must appear or disappear in the
// follower.
func TestFollow(t *testing.T) {
	p := newPair(t)
	ctx, stop := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	shown := []int{1}
	var mu sync.Mutex
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				n := headOf(t, p.follower)
				mu.Lock()
				known := slices.Contains(shown, n)
				mu.Unlock()
				if !known {
					t.Errorf("commit %d was shown, which ends no increment", n)
					return
				}
			}
		})
	}
	extra := table.Spec{Name: "extra", Families: []table.FamilySpec{{Name: 'x'}}}
	for n := 2; n <= 120; n++ {
		mustCommit(t, p.original, n)
		switch n {
		case 40:
			p.must(p.original.Create(context.Background(), extra))
		case 80:
			p.must(p.original.Drop(context.Background(), "extra"))
		}
		if n%7 == 0 {
			mu.Lock()
			shown = append(shown, n)
			mu.Unlock()
			p.apply()
		}
		if n == 50 || n == 90 {
			names, err := p.follower.Names(context.Background())
			p.must(err)
			if slices.Contains(names, "extra") != (n == 50) {
				t.Errorf("commit %d: the tables are %v", n, names)
			}
		}
	}
	stop()
	readers.Wait()
	for range 2 {
		p.apply()
		got := slices.DeleteFunc(keys(t, p.follower), func(k string) bool { return bytes.HasPrefix([]byte(k), fmt.Appendf(nil, "%x=", markKey)) })
		if want := keys(t, p.original); !slices.Equal(got, want) {
			t.Errorf("%d keys, want %d", len(got), len(want))
		}
		p.must(p.follower.Close())
		p.open()
	}
}

// TestFollowApplyCanceled ends the context of Apply during its write. Apply must complete
// the write and report success.
func TestFollowApplyCanceled(t *testing.T) {
	p := newPair(t)
	p.must(p.follower.Close())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var slow atomic.Bool
	p.fs = errorfs.Wrap(p.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if slow.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			cancel()
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	}))
	p.open()
	mustCommit(t, p.original, 2)
	inc := p.follower.Increment(p.next)
	_, err := p.original.ReadLog(context.Background(), p.next, func(b LogBatch) error { return inc.Add(b.Repr) })
	p.must(err)
	slow.Store(true)
	err = inc.Apply(ctx, p.mark(inc.Next()))
	slow.Store(false)
	if ctx.Err() == nil {
		t.Fatal("the write was not slow")
	}
	p.must(err)
	if mark, err := p.follower.Mark(); err != nil || !bytes.Equal(mark, p.mark(inc.Next())) || headOf(t, p.follower) != 2 {
		t.Errorf("the mark is %s (%v)", mark, err)
	}
	if err := p.follower.Increment(inc.Next()).Apply(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error("an increment that begins after the end of its context:", err)
	}
}

// TestFollowReplaceFails lets Replace fail at each step that changes a folder. The new store
// must not be removed.
func TestFollowReplaceFails(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpRemove, errorfs.OpRename} {
		p := newPair(t)
		base, next := copied(t, p.original)
		r, err := replayOn(p.fs, base, next)
		p.must(err)
		p.must(r.Mark(p.mark(next)))
		p.must(r.Finish())
		p.must(p.follower.Close())
		failure := errors.New("the file system fails")
		broken := errorfs.Wrap(p.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == kind {
				return failure
			}
			return nil
		}))
		if err := replaceOn(broken, "follower", base); !errors.Is(err, failure) {
			t.Error(err)
		}
		if whole, err := isComplete(p.fs, base); !whole || err != nil {
			t.Errorf("operation %d: the new store was removed (%v)", kind, err)
		}
		// No file was renamed, so Replace can be repeated.
		p.must(replaceOn(p.fs, "follower", base))
		p.next = next
		p.open()
	}
}

// TestFollowerRefuses checks that only increments can write to a follower, until Unfollow
// makes it an independent store.
func TestFollowerRefuses(t *testing.T) {
	p := newPair(t)
	ctx := context.Background()
	if _, err := p.follower.Commit(ctx, step(2)); !errors.Is(err, table.ErrRefused) || !errors.Is(err, ErrFollows) {
		t.Error("a commit:", err)
	}
	if err := p.follower.Create(ctx, table.Spec{Name: "x", Families: []table.FamilySpec{{Name: 'x'}}}); !errors.Is(err, table.ErrRefused) {
		t.Error("a new table:", err)
	}
	if _, err := p.follower.Bulk(ctx, 9, table.BulkOptions{}); !errors.Is(err, table.ErrRefused) {
		t.Error("a load:", err)
	}
	if err := p.follower.Purge(ctx); !errors.Is(err, table.ErrRefused) {
		t.Error("a purge:", err)
	}
	mustCommit(t, p.original, 2)
	mustCommit(t, p.original, 3)
	var reprs [][]byte
	_, err := p.original.ReadLog(ctx, p.next, func(b LogBatch) error { reprs = append(reprs, bytes.Clone(b.Repr)); return nil })
	p.must(err)
	inc := p.follower.Increment(p.next)
	if err := inc.Add(reprs[len(reprs)-1]); !errors.Is(err, ErrGap) {
		t.Error("a gap:", err)
	}
	if err := inc.Add(reprs[0][:7]); !errors.Is(err, table.ErrCorrupt) {
		t.Error("half a batch:", err)
	}
	p.must(inc.Abandon())
	p.must(p.follower.Close())
	if _, err := Open(Options{Path: "follower", FS: p.fs}); !errors.Is(err, ErrFollows) {
		t.Error("opened for writing:", err)
	}
	reader := mustOpen(t, Options{Path: "follower", FS: p.fs, ReadOnly: true})
	if headOf(t, reader) != 1 {
		t.Error("it cannot be read")
	}
	p.must(reader.Close())
	p.open()
	p.apply()
	p.must(p.follower.Unfollow(ctx))
	p.must(p.follower.Close())
	if _, err := Open(Options{Path: "follower", FS: p.fs, Follow: true}); !errors.Is(err, ErrFollowsNone) {
		t.Error("opened to follow:", err)
	}
	p.follower = mustOpen(t, Options{Path: "follower", FS: p.fs})
	mustCommit(t, p.follower, 4)
	if headOf(t, p.follower) != 4 {
		t.Error("it cannot be written")
	}
}

// TestIncrementBuffers checks that an increment uses the buffer of an earlier one.
func TestIncrementBuffers(t *testing.T) {
	p := newPair(t)
	ctx := context.Background()
	var b pebble.Batch
	for i := range 100 {
		p.must(b.Set(fmt.Appendf(nil, "\x00\x00z%d", i), make([]byte, 10<<10), nil))
	}
	repr := b.Repr()
	const count, size = 20, 10
	var allocated uint64
	for range count {
		inc := p.follower.Increment(p.next)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range size {
			binary.LittleEndian.PutUint64(repr, uint64(inc.Next())) // the sequence number
			p.must(inc.Add(repr))
		}
		runtime.ReadMemStats(&after)
		allocated += after.TotalAlloc - before.TotalAlloc
		p.must(inc.Apply(ctx, p.mark(inc.Next())))
		p.next = inc.Next()
	}
	if most := uint64(count*size*len(repr)) / 2; allocated > most {
		t.Errorf("%d increments of %d bytes allocated %d bytes, want at most %d", count, size*len(repr), allocated, most)
	}
}
