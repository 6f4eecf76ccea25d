//go:build !unix

package lsm

import (
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Holder returns the id of the process that has the store in a folder open, or 0 if no
// process has.
func Holder(path string) (int, error) {
	d := folder{o: &Options{Path: path, FS: vfs.Default}}
	if pid := d.pid(); pid != 0 && alive(pid) {
		return pid, nil
	}
	return 0, nil
}
