package lsm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// brokenFS is a file system that fails to write files with names ending in ext. The error
// can be switched on and off.
type brokenFS struct {
	vfs.FS
	ext string
	err atomic.Pointer[error]
}

func (f *brokenFS) fail(err error) { f.err.Store(&err) }
func (f *brokenFS) heal()          { f.err.Store(nil) }

func (f *brokenFS) failure(name string) error {
	if e := f.err.Load(); e != nil && strings.HasSuffix(name, f.ext) {
		return &os.PathError{Op: "write", Path: name, Err: *e}
	}
	return nil
}

func (f *brokenFS) wrap(name string, x vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &brokenFile{x, f, name}, nil
}

func (f *brokenFS) Create(n string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.failure(n); err != nil {
		return nil, err
	}
	x, err := f.FS.Create(n, c)
	return f.wrap(n, x, err)
}

func (f *brokenFS) ReuseForWrite(a, b string, c vfs.DiskWriteCategory) (vfs.File, error) {
	x, err := f.FS.ReuseForWrite(a, b, c)
	return f.wrap(b, x, err)
}

func (f *brokenFS) Unwrap() vfs.FS { return f.FS }

type brokenFile struct {
	vfs.File
	fs   *brokenFS
	name string
}

func (f *brokenFile) Write(p []byte) (int, error) {
	if err := f.fs.failure(f.name); err != nil {
		n, _ := f.File.Write(p[:len(p)/2]) // a full disk accepts a part of the data
		return n, err
	}
	return f.File.Write(p)
}

func oneRow(r table.Revision, row string) table.Batch {
	return table.Batch{Revision: r, Writes: []table.Write{{Table: "data", Mutations: []table.Mutation{
		{Row: []byte(row), Cells: []table.Cell{{Family: 'a', Qualifier: []byte("q"), Value: []byte(row)}}}}}}}
}

func commitRow(s *Store, r table.Revision, row string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	wait, err := s.Commit(ctx, oneRow(r, row))
	if err != nil {
		return err
	}
	return wait()
}

func hasRow(t *testing.T, s *Store, row string) bool {
	t.Helper()
	r, err := s.Table("data").Get(context.Background(), []byte(row), table.Select{})
	if err != nil {
		t.Fatal(err)
	}
	return len(r.Cells) > 0
}

// TestLogFull checks that writes fail and reads continue while the log does not fit on
// the disk. When there is space, writes must succeed again, and no acknowledged or
// waiting commit may be lost.
func TestLogFull(t *testing.T) {
	mem := vfs.NewMem()
	fs := &brokenFS{FS: mem, ext: ".log"}
	s := mustOpen(t, Options{Path: "store", FS: fs, Logf: t.Logf})
	if err := s.Create(context.Background(), crashSpecs...); err != nil {
		t.Fatal(err)
	}
	if err := commitRow(s, 1, "before"); err != nil {
		t.Fatal(err)
	}
	fs.fail(syscall.ENOSPC)
	wait, err := s.Commit(context.Background(), oneRow(2, "full2"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := wait(); !errors.Is(err, table.ErrPending) || !errors.Is(err, table.ErrUnavailable) {
			t.Errorf("waiting on a full disk: %v", err)
		}
	}
	for r := table.Revision(3); r < 5; r++ {
		if err := commitRow(s, r, fmt.Sprint("full", uint64(r))); !errors.Is(err, table.ErrUnavailable) {
			t.Errorf("Commit on a full disk: %v", err)
		}
		if !hasRow(t, s, "before") {
			t.Error("a read on a full disk found nothing")
		}
	}
	fs.heal()
	deadline := time.Now().Add(5 * time.Second)
	for commitRow(s, 10, "after") != nil {
		if time.Now().After(deadline) {
			t.Fatal("no writes after there was space again")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := wait(); err != nil {
		t.Errorf("waiting for the first batch again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, Options{Path: "store", FS: mem})
	defer s.Close()
	for _, row := range []string{"before", "full2", "after"} {
		if !hasRow(t, s, row) {
			t.Errorf("row %q is lost", row)
		}
	}
}

// TestLogFails makes writing the log fail for a reason other than a full disk. The store must
// then refuse writes until it is opened again. The process must not end, and reads must
// continue.
func TestLogFails(t *testing.T) {
	mem := vfs.NewMem()
	fs := &brokenFS{FS: mem, ext: ".log"}
	s := mustOpen(t, Options{Path: "store", FS: fs, Logf: t.Logf})
	if err := s.Create(context.Background(), crashSpecs...); err != nil {
		t.Fatal(err)
	}
	if err := commitRow(s, 1, "before"); err != nil {
		t.Fatal(err)
	}
	fs.fail(syscall.EIO)
	for r := table.Revision(2); r < 5; r++ {
		if err := commitRow(s, r, "lost"); !errors.Is(err, table.ErrUnavailable) {
			t.Errorf("Commit after an I/O error: %v", err)
		}
	}
	fs.heal()
	if err := commitRow(s, 6, "later"); !errors.Is(err, table.ErrUnavailable) {
		t.Errorf("Commit after an I/O error has passed: %v", err)
	}
	if !hasRow(t, s, "before") {
		t.Error("a read found nothing")
	}
	if err := s.Close(); err != nil {
		t.Logf("Close: %v", err)
	}
	s = mustOpen(t, Options{Path: "store", FS: mem})
	defer s.Close()
	if err := commitRow(s, 7, "again"); err != nil || !hasRow(t, s, "before") || !hasRow(t, s, "again") {
		t.Errorf("after opening again: %v", err)
	}
}

// TestTablesFull checks that the store survives if sorted tables do not fit on the disk.
func TestTablesFull(t *testing.T) {
	fs := &brokenFS{FS: vfs.NewMem(), ext: ".sst"}
	s := mustOpen(t, Options{Path: "store", FS: fs, Logf: t.Logf, MemTable: 16 << 10})
	defer s.Close()
	if err := s.Create(context.Background(), crashSpecs...); err != nil {
		t.Fatal(err)
	}
	if err := commitRow(s, 1, "before"); err != nil {
		t.Fatal(err)
	}
	b, err := s.Bulk(context.Background(), 2, table.BulkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fs.fail(syscall.ENOSPC)
	if err := b.Add("data", oneRow(2, "load").Writes[0].Mutations...); err != nil {
		t.Fatal(err)
	}
	if err := b.Finish(context.Background(), nil); !errors.Is(err, table.ErrUnavailable) {
		t.Errorf("Finish on a full disk: %v", err)
	}
	big := strings.Repeat("x", 2000)
	failed := false
	for r := table.Revision(3); r < 200 && !failed; r++ {
		err := commitRow(s, r, fmt.Sprint(big, uint64(r)))
		if failed = err != nil; failed && !errors.Is(err, table.ErrUnavailable) {
			t.Errorf("Commit on a full disk: %v", err)
		}
	}
	if !failed {
		t.Error("400 kB went into memtables of 16 kB on a full disk")
	}
	if !hasRow(t, s, "before") || hasRow(t, s, "load") {
		t.Error("a read on a full disk was wrong")
	}
	fs.heal()
	deadline := time.Now().Add(8 * time.Second)
	for r := table.Revision(500); commitRow(s, r, "after") != nil; r++ {
		if time.Now().After(deadline) {
			t.Fatal("no writes after there was space again")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if !hasRow(t, s, "before") || !hasRow(t, s, "after") {
		t.Error("rows are lost")
	}
}

// TestLocked checks that the second process to open a folder receives an error with the
// id of the first process.
func TestLocked(t *testing.T) {
	if dir := os.Getenv("LSM_TEST_OPEN"); dir != "" {
		_, err := Open(Options{Path: dir})
		fmt.Println(err)
		if errors.Is(err, table.ErrLocked) {
			os.Exit(3)
		}
		os.Exit(0)
	}
	dir := t.TempDir()
	openTest(t, Options{Path: dir})
	if _, err := Open(Options{Path: dir}); !errors.Is(err, table.ErrLocked) {
		t.Errorf("second Open in this process: %v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLocked$")
	cmd.Env = append(os.Environ(), "LSM_TEST_OPEN="+dir)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), "by process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("second process: %v, %s", err, out)
	}
}

func TestOpenErrors(t *testing.T) {
	make := func(t *testing.T) string {
		dir := t.TempDir()
		s := mustOpen(t, Options{Path: dir})
		if err := s.Create(context.Background(), crashSpecs...); err != nil {
			t.Fatal(err)
		}
		for r := table.Revision(1); r < 20; r++ {
			if err := commitRow(s, r, fmt.Sprint(uint64(r))); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	overwrite := func(t *testing.T, dir, pattern, content string) {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		for _, n := range names {
			if err := os.WriteFile(n, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("newer", func(t *testing.T) {
		dir := make(t)
		overwrite(t, dir, headerFile, headerText+"2\n")
		if _, err := Open(Options{Path: dir}); !errors.Is(err, table.ErrNewer) {
			t.Errorf("Open of format 2: %v", err)
		}
	})
	t.Run("corrupt header", func(t *testing.T) {
		dir := make(t)
		overwrite(t, dir, headerFile, "?")
		if _, err := Open(Options{Path: dir}); !errors.Is(err, table.ErrCorrupt) {
			t.Errorf("Open: %v", err)
		}
	})
	t.Run("lost header", func(t *testing.T) {
		dir := make(t)
		if err := os.Remove(filepath.Join(dir, headerFile)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{Path: dir}); !errors.Is(err, table.ErrCorrupt) {
			t.Errorf("Open: %v", err)
		}
	})
	t.Run("corrupt manifest", func(t *testing.T) {
		dir := make(t)
		overwrite(t, dir, "MANIFEST*", strings.Repeat("garbage", 100))
		if _, err := Open(Options{Path: dir}); !errors.Is(err, table.ErrCorrupt) {
			t.Errorf("Open: %v", err)
		}
	})
	t.Run("lost marker", func(t *testing.T) {
		dir := make(t)
		for _, pattern := range []string{"marker.manifest.*", endingFile} {
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(names) != 1 || os.Remove(names[0]) != nil {
				t.Fatal(names, err)
			}
		}
		if _, err := Open(Options{Path: dir}); !errors.Is(err, table.ErrCorrupt) {
			t.Errorf("Open: %v", err)
		}
	})
	t.Run("corrupt table", func(t *testing.T) {
		dir := make(t)
		names, _ := filepath.Glob(filepath.Join(dir, "*.sst"))
		for _, n := range names {
			b, err := os.ReadFile(n)
			if err != nil {
				t.Fatal(err)
			}
			for i := range b[:len(b)-200] {
				b[i] ^= 0x5a
			}
			if err := os.WriteFile(n, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(Options{Path: dir})
		if err == nil {
			defer s.Close()
			_, err = s.Table("data").Get(context.Background(), []byte("1"), table.Select{})
		}
		if !errors.Is(err, table.ErrCorrupt) {
			t.Errorf("Get from a corrupt table: %v", err)
		}
	})
	t.Run("file in the way", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{Path: name}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Open of a file: %v", err)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		dir := make(t)
		s := mustOpen(t, Options{Path: dir, ReadOnly: true})
		defer s.Close()
		if !hasRow(t, s, "7") {
			t.Error("row 7 is not there")
		}
		if err := commitRow(s, 100, "x"); !errors.Is(err, table.ErrUnavailable) {
			t.Errorf("Commit: %v", err)
		}
	})
}
