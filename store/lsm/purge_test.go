package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// filesWith returns the files of a folder that contain the string what.
func filesWith(t *testing.T, fs vfs.FS, dir, what string) (found []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // the file was removed in the meantime
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		f.Close()
		if err == nil && bytes.Contains(b, []byte(what)) {
			found = append(found, name)
		}
	}
	return found
}

// TestPurge checks that after a Purge no file contains redacted data, although another
// goroutine writes during the Purge. The redacted data are columns and keys of rows.
func TestPurge(t *testing.T) {
	ctx := context.Background()
	fs := vfs.Default
	s := openTest(t, Options{Path: t.TempDir(), MemTable: 64 << 10})
	if err := s.Create(ctx, table.Spec{Name: "t", Families: []table.FamilySpec{{Name: 'a'}}}); err != nil {
		t.Fatal(err)
	}
	tab := s.Table("t")
	const gone = "Xsecret-of-somebody"
	var rs []table.Redaction
	const rows = 600 // enough for many memory tables and reused logs
	for i := range rows {
		row, v := fmt.Appendf(nil, "row %04d", i), bytes.Repeat([]byte{byte(i)}, 500)
		cells := []table.Cell{{Family: 'a', Qualifier: []byte("x"), Value: v}}
		if i%100 == 0 {
			row = fmt.Appendf(nil, "%s %d", gone, i)
			rs = append(rs, table.Redaction{Row: row, All: true})
		} else if i%50 == 0 {
			cells = append(cells, table.Cell{Family: 'a', Qualifier: []byte(gone), Value: v})
			rs = append(rs, table.Redaction{Row: row, Columns: cells[1:]})
		}
		if err := tab.Apply(ctx, table.Revision(i+1), []table.Mutation{{Row: row, Cells: cells}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if found := filesWith(t, fs, s.o.Path, gone); len(found) < 3 {
		t.Fatalf("it is in %q: the test shows nothing", found)
	}
	if err := tab.(table.Redactor).Redact(ctx, rows, rs); err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan error)
	go func() { ended <- writeUntil(tab, stop) }()
	if err := s.Purge(ctx); err != nil {
		t.Fatal(err)
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if found := filesWith(t, fs, s.o.Path, gone); len(found) > 0 {
		t.Errorf("it is still in %q", found)
	}
	row, err := tab.Get(ctx, []byte("row 0001"), table.Select{})
	if err != nil || len(row.Cells) != 1 {
		t.Errorf("what is not redacted reads %v, %v", row, err)
	}
}

func writeUntil(tab table.Table, stop chan struct{}) error {
	for i := 1; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		m := table.Mutation{Row: []byte("beside"), Cells: []table.Cell{{Family: 'a', Qualifier: []byte("x"), Value: fmt.Append(nil, i)}}}
		if err := tab.Apply(context.Background(), table.Revision(10_000+i), []table.Mutation{m}); err != nil {
			return err
		}
	}
}
