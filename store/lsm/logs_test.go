package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// keys returns all keys and values in Pebble.
func keys(t *testing.T, s *Store) (all []string) {
	t.Helper()
	it, err := s.db.NewIter(&pebble.IterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for it.First(); it.Valid(); it.Next() {
		all = append(all, fmt.Sprintf("%x=%x", it.Key(), it.Value()))
	}
	return all
}

func mustCommit(t *testing.T, s *Store, n int) {
	t.Helper()
	wait, err := s.Commit(context.Background(), step(n))
	if err == nil {
		err = wait()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// copied makes a Copy, copies its files to another folder for a replay, and returns that
// folder and the position of the Copy.
func copied(t *testing.T, s *Store) (folder string, next Position) {
	t.Helper()
	c, err := s.Copy(context.Background(), func(p Position) error { next = p; return nil })
	if err != nil {
		t.Fatal(err)
	}
	folder = "restored-" + filepath.Base(c.Folder)
	fs := s.o.FS
	if err := fs.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Files {
		if err := vfs.Copy(fs, fs.PathJoin(c.Folder, f), fs.PathJoin(folder, f)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil || c.Next != next {
		t.Fatal(err, c.Next, next)
	}
	return folder, next
}

// replayAll creates a store from a copy and batches, and returns the keys of the store.
func replayAll(t *testing.T, fs vfs.FS, folder string, next Position, batches [][]byte) []string {
	t.Helper()
	r, err := replayOn(fs, folder, next)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := r.Apply(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Finish(); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, Options{Path: folder, FS: fs})
	defer s.Close()
	return keys(t, s)
}

// TestLogsFollow restores a store from a copy and from the batches behind the copy, and
// checks that the result has the keys of the original store. In between, the original is
// flushed and opened again.
func TestLogsFollow(t *testing.T) {
	fs := newMemFS()
	o := Options{Path: "store", FS: fs, MemTable: 16 << 10, KeepLogs: true}
	s := mustOpen(t, o)
	ctx := context.Background()
	if err := s.Create(ctx, crashSpecs...); err != nil {
		t.Fatal(err)
	}
	var batches [][]byte
	var from, first Position
	var base string
	var flushes int64
	for n := 1; n <= 400; n++ {
		mustCommit(t, s, n)
		if n%80 == 0 { // the small MemTable alone may flush too late for this test
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if n == 100 {
			base, first = copied(t, s)
			from = first
		}
		if n == 250 {
			flushes = s.db.Metrics().Flush.Count
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = mustOpen(t, o)
		}
		if n > 100 && n%50 == 0 {
			next, err := s.ReadLog(ctx, from, func(b LogBatch) error {
				batches = append(batches, bytes.Clone(b.Repr))
				return nil
			})
			if err == nil {
				err = s.ReleaseLogs(next)
			}
			if err != nil || next <= from {
				t.Fatal(n, from, next, err)
			}
			from = next
		}
	}
	if flushes+s.db.Metrics().Flush.Count < 4 {
		t.Fatal("nothing was flushed")
	}
	logs, err := s.kept.asideLogs()
	if err != nil || len(logs) > 1 {
		t.Error("released logs are still there:", logs, err)
	}
	want := keys(t, s)
	if got := replayAll(t, fs, base, first, batches); !slices.Equal(got, want) {
		t.Errorf("%d keys after the replay, want %d", len(got), len(want))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReadLogGoesOn reads the log in parts while batches of many sizes are committed. A part
// may begin where the last part ended or earlier, and its reading may be stopped early. Each
// part must contain the batches that a reading from the beginning of the log finds there, and
// the next reading must continue where this one ended.
func TestReadLogGoesOn(t *testing.T) {
	ctx := context.Background()
	s := mustOpen(t, Options{Path: "store", FS: newMemFS(), KeepLogs: true})
	defer s.Close()
	if err := s.Create(ctx, crashSpecs...); err != nil {
		t.Fatal(err)
	}
	errEnd := errors.New("enough")
	read := func(from Position, most int) (parts [][]byte, next Position) {
		next, err := s.ReadLog(ctx, from, func(b LogBatch) error {
			if len(parts) == most {
				return errEnd
			}
			parts = append(parts, bytes.Clone(b.Repr))
			return nil
		})
		if err != nil && !errors.Is(err, errEnd) {
			t.Fatal(err)
		}
		return parts, next
	}
	r := rand.New(rand.NewPCG(1, 1))
	const all = math.MaxInt
	_, begin := copied(t, s)
	ends := []Position{begin} // positions at which parts have ended
	for n := 1; n <= 300; n++ {
		batch := step(n)
		batch.Writes[0].Mutations[1].Cells[0].Value = bytes.Repeat([]byte{byte(n)}, r.IntN(1<<r.IntN(18)))
		if _, err := s.Commit(ctx, batch); err != nil {
			t.Fatal(err)
		}
		if r.IntN(4) > 0 {
			continue
		}
		from, most := ends[len(ends)-1], all
		switch r.IntN(4) {
		case 0:
			from = ends[r.IntN(len(ends))]
		case 1:
			most = r.IntN(4)
		}
		got, next := read(from, most)
		place := s.kept.read
		s.kept.reached(logPlace{})
		want, _ := read(from, most)
		s.kept.reached(place)
		if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("after %d commits: %d batches from %d, want %d", n, len(got), from, len(want))
		}
		ends = append(ends, next)
		if next > from && place.next != next {
			t.Fatalf("after %d commits: the next reading goes on at %d, not at %d", n, place.next, next)
		}
	}
}

// TestLogGaps checks that ReadLog returns ErrGap if the log does not contain some writes.
func TestLogGaps(t *testing.T) {
	ctx := context.Background()
	drop := func(LogBatch) error { return nil }
	load := func(t *testing.T, s *Store) *Store {
		b, err := s.Bulk(ctx, 7, table.BulkOptions{})
		if err == nil {
			err = b.Add("data", step(7).Writes[0].Mutations...)
		}
		if err == nil {
			err = b.Finish(ctx, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const silent = "a load, and nothing after it"
	gaps := map[string]func(t *testing.T, s *Store) *Store{
		"a load": load,
		silent: func(t *testing.T, s *Store) *Store {
			if err := s.db.Flush(); err != nil { // the load must overlap no table in memory
				t.Fatal(err)
			}
			return load(t, s)
		},
		"opened without keeping": func(t *testing.T, s *Store) *Store {
			s.Close()
			o := s.o
			o.KeepLogs = false
			other := mustOpen(t, o)
			for n := 3; n < 20; n++ { // this needs more logs than Pebble reuses
				mustCommit(t, other, n)
				if err := other.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			return mustOpen(t, s.o)
		},
		"purged": func(t *testing.T, s *Store) *Store {
			mustCommit(t, s, 8)
			if err := s.Purge(ctx); err != nil {
				t.Fatal(err)
			}
			return s
		},
		"limited": func(t *testing.T, s *Store) *Store {
			mustCommit(t, s, 8)
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
			s.awaitOneLog(t)
			if removed, err := s.LimitLogs(0); !removed || err != nil {
				t.Fatal(removed, err)
			}
			return s
		},
	}
	for name, gap := range gaps {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, Options{Path: "store", FS: newMemFS(), KeepLogs: true})
			if err := s.Create(ctx, crashSpecs...); err != nil {
				t.Fatal(err)
			}
			mustCommit(t, s, 1)
			folder, from := copied(t, s)
			mustCommit(t, s, 2)
			next, err := s.ReadLog(ctx, from, drop)
			if err != nil || next == from {
				t.Fatal(next, err)
			}
			s = gap(t, s)
			if name != silent {
				mustCommit(t, s, 30)
			}
			if _, err := s.ReadLog(ctx, next, drop); !errors.Is(err, ErrGap) {
				t.Error("no gap:", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(Options{Path: folder, FS: s.o.FS}); err == nil {
				t.Error("a restore that did not end is a store")
			}
		})
	}
}

// awaitOneLog waits until Pebble has moved all logs that it no longer needs.
func (s *Store) awaitOneLog(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		inUse, err := wal.Scan(wal.Dir{FS: s.o.FS, Dirname: s.o.Path})
		if err != nil || time.Now().After(end) {
			t.Fatal(inUse, err)
		}
		if len(inUse) == 1 {
			return
		}
	}
}

// TestCopyOnAFullDisk checks that a copy that does not fit on the disk leaves no files
// behind and does not stop writes.
func TestCopyOnAFullDisk(t *testing.T) {
	fs := &failingLinks{FS: newMemFS()}
	s := mustOpen(t, Options{Path: "store", FS: fs, KeepLogs: true})
	defer s.Close()
	if err := s.Create(context.Background(), crashSpecs...); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, 1)
	fs.fail = true
	if _, err := s.Copy(context.Background(), func(Position) error { return nil }); err == nil {
		t.Fatal("copied")
	}
	fs.fail = false
	mustCommit(t, s, 2)
	names, _ := fs.List("store")
	if i := slices.IndexFunc(names, func(n string) bool { return bytes.HasPrefix([]byte(n), []byte(copyPrefix)) }); i >= 0 {
		t.Error("left behind:", names[i])
	}
	copied(t, s)
}

// failingLinks is a file system that fails to create files of the first copy while fail is set.
type failingLinks struct {
	vfs.FS
	fail bool
}

func (f *failingLinks) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f.fail && f.PathBase(f.PathDir(name)) == copyPrefix+"1" {
		return nil, io.ErrShortWrite
	}
	return f.FS.Create(name, c)
}
