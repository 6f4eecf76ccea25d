package lsm

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// ended returns a file system with the folder "store", which was closed in order. Its commits
// are step(1) to step(endedSteps), and the newest ones are only in a log.
func ended(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	s := mustOpen(t, Options{Path: "store", FS: fs})
	if err := s.Create(context.Background(), crashSpecs...); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= endedSteps; n++ {
		mustCommit(t, s, n)
		if n == endedSteps/2 {
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return fs
}

const endedSteps = 20

// newestOf returns the path of the newest file that has a part of a name.
func newestOf(t *testing.T, fs vfs.FS, part string) string {
	t.Helper()
	names, err := fs.List("store")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, part) && !strings.HasSuffix(n, part) })
	return fs.PathJoin("store", slices.Max(names))
}

// stepsIn returns the number of commits of which the store has the row.
func stepsIn(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.Create(context.Background(), crashSpecs...); err != nil {
		t.Fatal(err)
	}
	for row, err := range s.Table("data").Scan(context.Background(), table.Range{}, table.Select{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(row.Key), "row") {
			n++
		}
	}
	return n
}

// rewrite changes the content of a file.
func rewrite(t *testing.T, fs vfs.FS, name string, change func([]byte) []byte) {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), writeFile(fs, name, string(change(b)))); err != nil {
		t.Fatal(err)
	}
}

func mustRemove(t *testing.T, fs vfs.FS, name string) {
	t.Helper()
	if err := fs.Remove(name); err != nil {
		t.Fatal(err)
	}
}

// TestLossAfterClose checks that a store that was closed in order, and then lost its newest
// commits, is opened neither for writing nor for reading, and that both say which file is
// wrong. After the note of the ending was removed, Pebble alone judges.
func TestLossAfterClose(t *testing.T) {
	cut := func(b []byte) []byte { return b[:len(b)-20] }
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	for _, c := range []struct {
		name, file string
		change     func([]byte) []byte // nil: the file is removed
		want       string              // NAME stands for the file's name
		accept     bool                // without the note, the store opens and commits are missing
	}{
		{"log removed", ".log", nil, "the file NAME (commits since 20", true},
		{"log truncated", ".log", cut, "bytes, not ", true},
		{"log changed", ".log", flip, "it has other bytes", true},
		{"manifest truncated", "MANIFEST", cut, "the file NAME (list of tables) was lost or changed", false},
		{"manifest removed", "MANIFEST", nil, "it is missing", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := ended(t)
			name := newestOf(t, fs, c.file)
			if c.change == nil {
				mustRemove(t, fs, name)
			} else {
				rewrite(t, fs, name, c.change)
			}
			want := strings.Replace(c.want, "NAME", fs.PathBase(name), 1)
			for _, readOnly := range []bool{true, false, true} {
				_, err := Open(Options{Path: "store", FS: fs, ReadOnly: readOnly})
				if !errors.Is(err, table.ErrCorrupt) || !strings.Contains(err.Error(), want) {
					t.Errorf("Open (read-only: %v): %v, want %q", readOnly, err, want)
				}
			}
			if !c.accept {
				return
			}
			mustRemove(t, fs, "store/"+endingFile)
			s := mustOpen(t, Options{Path: "store", FS: fs})
			defer s.Close()
			if n := stepsIn(t, s); n >= endedSteps {
				t.Errorf("nothing was lost: %d commits are left", n)
			}
		})
	}
}

// TestEnding checks that stores are opened which lost nothing since they were closed in order.
func TestEnding(t *testing.T) {
	note := "store/" + endingFile
	reopen := func(t *testing.T, fs vfs.FS, o Options) {
		o.Path, o.FS = "store", fs
		if err := mustOpen(t, o).Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(t *testing.T, fs *vfs.MemFS) vfs.FS{
		"untouched":       func(t *testing.T, fs *vfs.MemFS) vfs.FS { return fs },
		"closed again":    func(t *testing.T, fs *vfs.MemFS) vfs.FS { reopen(t, fs, Options{}); return fs },
		"logs are kept":   func(t *testing.T, fs *vfs.MemFS) vfs.FS { reopen(t, fs, Options{KeepLogs: true}); return fs },
		"by last version": func(t *testing.T, fs *vfs.MemFS) vfs.FS { mustRemove(t, fs, note); return fs },
		"read only": func(t *testing.T, fs *vfs.MemFS) vfs.FS {
			reopen(t, fs, Options{ReadOnly: true})
			if _, err := fs.Stat(note); err != nil {
				t.Error(err)
			}
			return fs
		},
		"log of flushed commits removed": func(t *testing.T, fs *vfs.MemFS) vfs.FS {
			names, err := fs.List("store")
			if err != nil {
				t.Fatal(err)
			}
			removed := 0
			for _, n := range names {
				if path := fs.PathJoin("store", n); strings.HasSuffix(n, ".log") && path != newestOf(t, fs, ".log") {
					mustRemove(t, fs, path)
					removed++
				}
			}
			if removed == 0 {
				t.Error("there is no such log")
			}
			return fs
		},
		"replaced": func(t *testing.T, fs *vfs.MemFS) vfs.FS {
			if _, err := vfs.Clone(ended(t), fs, "store", "new"); err != nil {
				t.Fatal(err)
			}
			reopen(t, fs, Options{})
			if err := replaceOn(fs, "store", "new"); err != nil {
				t.Fatal(err)
			}
			return fs
		},
		"old note": func(t *testing.T, fs *vfs.MemFS) vfs.FS {
			// As after a program of a version that does not know the note.
			if err := fs.Link(note, "old"); err != nil {
				t.Fatal(err)
			}
			reopen(t, fs, Options{})
			if err := fs.Rename("old", note); err != nil {
				t.Fatal(err)
			}
			return fs
		},
		"crash after close": func(t *testing.T, fs *vfs.MemFS) vfs.FS {
			s := mustOpen(t, Options{Path: "store", FS: fs})
			defer s.Close()
			if _, err := fs.Stat(note); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the note of an open store: %v", err)
			}
			return fs.CrashClone(vfs.CrashCloneCfg{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, Options{Path: "store", FS: change(t, ended(t))})
			defer s.Close()
			if n := stepsIn(t, s); n != endedSteps {
				t.Errorf("%d commits are left", n)
			}
		})
	}
}
