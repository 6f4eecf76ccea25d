package hbase

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// ownHBase returns an HBase whose files the test can read. It skips the test if the HBase
// was not started by the tests.
func ownHBase(t *testing.T) *hbasetest.Instance {
	if os.Getenv(hbasetest.QuorumEnv) != "" {
		t.Skip("it looks at the files of an HBase of its own")
	}
	return hbasetest.Shared(t)
}

// filesWith returns the files below a folder that contain the string what.
func filesWith(t *testing.T, dir, what string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // the file was removed in the meantime
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(what)) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// flushAll flushes all tables of the cluster.
func flushAll(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	all, err := s.placesIn(ctx, "", "")
	if err != nil || len(all) == 0 {
		t.Fatalf("%d regions, %v", len(all), err)
	}
	a, err := s.admin(ctx, all[0].server)
	if err != nil {
		t.Fatal(err)
	}
	defer a.line.Close()
	for _, p := range all {
		if err := a.flush(ctx, p.region); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPurge checks that after a Purge, when HBase's cleaners have run, no file of HBase
// contains redacted data. This includes log files.
func TestPurge(t *testing.T) {
	ctx := context.Background()
	hb := ownHBase(t)
	s, err := Open(ctx, fmt.Sprintf("hbase://%s/%s", hb.Quorum(), hbasetest.Prefix(t)), Options{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Create(ctx, table.Spec{Name: "t", Families: []table.FamilySpec{{Name: 'a'}, {Name: 'b'}}, Splits: [][]byte{[]byte("m")}}); err != nil {
		t.Fatal(err)
	}
	tab := s.Table("t")
	gone := fmt.Sprintf("Xsecret-%d-of-somebody", os.Getpid())
	value := func(v string) []table.Cell {
		return []table.Cell{{Family: 'a', Qualifier: []byte("x"), Value: []byte(v)}}
	}
	column := table.Cell{Family: 'b', Qualifier: []byte(gone), Value: []byte{1}}
	for r, m := range []table.Mutation{
		{Row: []byte("a " + gone), Cells: value("1")},
		{Row: []byte("b"), Cells: value("before")},
		{Row: []byte("z"), Cells: append(value(gone), column)},
		{Row: []byte("z"), Cells: []table.Cell{{Family: 'b', Qualifier: []byte(gone), Tombstone: true}}},
		{Row: []byte("z"), Cells: value("after")},
	} {
		if err := tab.Apply(ctx, table.Revision(r+1), []table.Mutation{m}); err != nil {
			t.Fatal(err)
		}
	}
	if len(filesWith(t, hb.Root(), gone)) == 0 {
		t.Fatal("it is in no file: the test shows nothing")
	}
	erased := value("")[0]
	erased.Revision, erased.Tombstone = 3, true
	if err := tab.(table.Redactor).Redact(ctx, 5, []table.Redaction{
		{Row: []byte("a " + gone), All: true},
		{Row: []byte("z"), Columns: []table.Cell{column}, Cells: []table.Cell{erased}},
	}); err != nil {
		t.Fatal(err)
	}
	flushAll(t, s) // HBase keeps a log until every table with entries in it is flushed
	if err := s.Purge(ctx); err != nil {
		t.Fatal(err)
	}
	var found []string
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(500 * time.Millisecond) { // HBase cleans up every 6 s
		if found = filesWith(t, hb.Root(), gone); len(found) == 0 {
			break
		}
	}
	if len(found) > 0 {
		t.Errorf("it is still in %q", found)
	}
	row, err := tab.Get(ctx, []byte("z"), table.Select{})
	if err != nil || len(row.Cells) != 1 || string(row.Cells[0].Value) != "after" {
		t.Errorf("left is %v, %v", row, err)
	}
}

// TestReclaimSeldom checks that compactions of a table are requested only after the minimum
// time has passed, unless the minimum time is zero.
func TestReclaimSeldom(t *testing.T) {
	var g garbage
	g.add("a")
	if got := g.take(time.Hour); got != nil {
		t.Errorf("%q were compacted at once", got)
	}
	if got := g.take(0); len(got) != 1 || got[0] != "a" {
		t.Errorf("wanted now is %q", got)
	}
	if got := g.take(0); got != nil {
		t.Errorf("%q were compacted without garbage", got)
	}
	g.add("a")
	g.last["a"] = time.Now().Add(-2 * time.Hour)
	if got := g.take(time.Hour); len(got) != 1 {
		t.Error("it was not compacted when it was its turn")
	}
}
