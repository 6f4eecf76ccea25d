#!/bin/sh
# Pebble's file system in memory, vfs.MemFS, has a moment in a rename in which the file has no name.
#
# github.com/cockroachdb/pebble/v2 2.1.7, vfs.MemFS.Rename takes the file out of its folder, and then puts it into the
# other one, each under a lock of its own. Who lists the old folder and then the new one while a file is moved may find it in
# neither. On a disk (vfs.Default) it is always in one of them.
#
# Pebble moves its obsolete files in the background (ArchiveCleaner). A test that reads the logs of such a store from
# both folders loses one now and then: one run of a thousand on a busy machine. ldapd's tests wrap the file system
# (store/lsm/memfs_test.go).
#
# Seen on 2026-11-29 with Go 1.26.8. It needs go. It fails if no listing in memory misses
# the file, or one on the disk does.
set -eu
dir=$(mktemp -d); trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat > go.mod <<'M'
module finding

go 1.25

require github.com/cockroachdb/pebble/v2 v2.1.7
M
cat > main.go <<'G'
package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func create(fs vfs.FS, name string) {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	must(err)
	must(f.Close())
}

// missing moves a file from the folder a to the folder b again and again, and counts listings of a and then of b
// that find it in neither, until there is one or the time is over.
func missing(fs vfs.FS, root string) (n int) {
	a, b := fs.PathJoin(root, "a"), fs.PathJoin(root, "b")
	must(fs.MkdirAll(a, 0o755))
	must(fs.MkdirAll(b, 0o755))
	end := time.Now().Add(20 * time.Second)
	if root != "mem" {
		end = time.Now().Add(3 * time.Second)
	}
	for n == 0 && time.Now().Before(end) {
		create(fs, fs.PathJoin(a, "file"))
		moved := make(chan bool)
		go func() {
			must(fs.Rename(fs.PathJoin(a, "file"), fs.PathJoin(b, "file")))
			close(moved)
		}()
		for done := false; !done; {
			select {
			case <-moved:
				done = true
			default:
			}
			old, err := fs.List(a)
			must(err)
			now, err := fs.List(b)
			must(err)
			if !slices.Contains(old, "file") && !slices.Contains(now, "file") {
				n++
			}
		}
		must(fs.Remove(fs.PathJoin(b, "file")))
	}
	return n
}

func main() {
	dir, err := os.MkdirTemp("", "finding")
	must(err)
	defer os.RemoveAll(dir)
	fmt.Println("in memory: missed", missing(vfs.NewMem(), "mem") > 0)
	fmt.Println("on the disk: missed", missing(vfs.Default, dir) > 0)
}
G
GOFLAGS=-mod=mod GOMODCACHE="$dir/cache" go build -o finding . 2> go.log || { cat go.log; exit 1; }
./finding > seen
cat seen
cat > expected <<'X'
in memory: missed true
on the disk: missed false
X
diff expected seen && echo "as described"
