package lsm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// TestUpgrade checks that a store keeps its format until it is upgraded to the newest
// format, and that the upgrade preserves the content.
func TestUpgrade(t *testing.T) {
	ctx, path := context.Background(), t.TempDir()
	spec := table.Spec{Name: "t", Families: []table.FamilySpec{{Name: 'f'}}}
	open := func(f pebble.FormatMajorVersion) *Store {
		t.Helper()
		s, err := Open(Options{Path: path, format: f})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write := func(s *Store, r table.Revision, value string) {
		t.Helper()
		m := table.Mutation{Row: []byte("row"), Cells: []table.Cell{{Family: 'f', Qualifier: []byte("q"), Value: []byte(value)}}}
		if err := s.Table("t").Apply(ctx, r, []table.Mutation{m}); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(s *Store, format pebble.FormatMajorVersion, value string) {
		t.Helper()
		row, err := s.Table("t").Get(ctx, []byte("row"), table.Select{})
		if now, newest := s.Formats(); now != int(format) || newest != int(newestFormat) || err != nil || len(row.Cells) != 1 || string(row.Cells[0].Value) != value {
			t.Fatalf("format %d of %d, %v, %v", now, newest, row, err)
		}
	}
	s := open(oldestFormat)
	if err := s.Create(ctx, spec); err != nil {
		t.Fatal(err)
	}
	write(s, 1, "one")
	s.Close()
	s = open(0)
	wants(s, oldestFormat, "one")
	write(s, 2, "two")
	s.Close()
	s = open(0)
	wants(s, oldestFormat, "two")
	if err := s.Upgrade(ctx); err != nil {
		t.Fatal(err)
	}
	wants(s, newestFormat, "two")
	write(s, 3, "three")
	s.Close()
	s = open(0)
	defer s.Close()
	wants(s, newestFormat, "three")
	if err := s.Upgrade(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestNewStoreHasTheNewestFormat checks that a new store has the newest format.
func TestNewStoreHasTheNewestFormat(t *testing.T) {
	s, err := Open(Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if now, newest := s.Formats(); now != newest {
		t.Errorf("format %d of %d", now, newest)
	}
}

// TestFormatTooOld checks that Open refuses a store whose format is too old, and does not
// change the store.
func TestFormatTooOld(t *testing.T) {
	path := t.TempDir()
	s, err := Open(Options{Path: path, format: oldestFormat - 1})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for range 2 {
		if _, err := Open(Options{Path: path}); err == nil || errors.Is(err, table.ErrNewer) || !strings.Contains(err.Error(), "older version") {
			t.Errorf("opened: %v", err)
		}
	}
}
