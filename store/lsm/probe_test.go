package lsm

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/lsm/lsmtest"
)

func TestExists(t *testing.T) {
	fs := vfs.NewMem()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(fs.MkdirAll("empty/lost+found", 0o700))
	must(fs.MkdirAll("home", 0o700))
	must(writeFile(fs, "home/letter.txt", "x"))
	must(mustOpen(t, Options{Path: "store", FS: fs}).Close())
	for _, c := range []struct {
		path string
		is   bool
		err  error
	}{
		{"missing", false, nil}, {"empty", false, nil}, {"store", true, nil},
		{"home", false, ErrForeign}, {"home/letter.txt", false, errFile},
	} {
		if is, err := exists(fs, c.path); is != c.is || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v", c.path, is, err)
		}
	}
}

// TestExistsHalfMade checks that Exists does not return ErrForeign for a store whose
// creation was interrupted.
func TestExistsHalfMade(t *testing.T) {
	load := func(fs vfs.FS, acked func(int)) {
		if err := mustOpen(t, Options{Path: "store", FS: fs, Reserve: 1}).Close(); err != nil {
			t.Fatal(err)
		}
		acked(1)
	}
	lsmtest.PowerLoss(t, 3, load, func(d lsmtest.Disk) {
		if is, err := exists(d.FS, "store"); err != nil || d.Acked == 1 && !is {
			names, _ := d.FS.List("store")
			t.Errorf("%v, %v of %q", is, err, names)
		}
	})
}
