package directory_test

import (
	"context"
	"os"
	"regexp"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/configure"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/table/lsm"
	"github.com/seed-4dac0d86/ldapd/table/tabletest"
)

// branchStores are the kinds of stores that have branches.
var branchStores = map[string]func(*testing.T) table.Store{
	"embedded": func(t *testing.T) table.Store {
		s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	},
	"shared": func(*testing.T) table.Store { return tabletest.NewMem() },
}

var anyBranchText = regexp.MustCompile(`(?m)^(  (?:targetEntryUUID|changeTime): ).*$`)

var anyRevision = regexp.MustCompile(`\br[0-9a-f]{10}-[0-9]+-[0-9]+\b`)

// newBranched returns a directory that can have branches.
func newBranched(t *testing.T, s table.Store, o directory.Options) (*partition.Partition, *directory.Directory) {
	t.Helper()
	ctx := context.Background()
	p, err := partition.Open(ctx, s, partition.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(ctx) })
	if err := configure.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}); err != nil {
		t.Fatal(err)
	}
	return p, newDirectory(t, p, o)
}

// TestBranchTranscripts runs testdata/branches on each kind of store that has branches.
func TestBranchTranscripts(t *testing.T) {
	const path = "testdata/branches"
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	for name, store := range branchStores {
		t.Run(name, func(t *testing.T) {
			p, d := newBranched(t, store(t), directory.Options{Version: "test"})
			c := &client{t: t, p: p, d: d}
			c.s = c.d.NewSession(nil)
			datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
				c.t = t
				return anyBranchText.ReplaceAllString(anyRevision.ReplaceAllString(c.command(td), "r..."), "$1...")
			})
		})
	}
}
