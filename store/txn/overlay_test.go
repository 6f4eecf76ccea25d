package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

var errNotWanted = errors.New("not wanted")

// The generators use small alphabets, so that rows and columns repeat.
var (
	genRow = rapid.Map(rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 2, -1), func(s string) []byte { return []byte(s) })
	genQ   = rapid.Map(rapid.StringOfN(rapid.RuneFrom([]rune("pq")), 0, 1, -1), func(s string) []byte { return []byte(s) })
	genFam = rapid.SampledFrom([]table.Family{'a', 'b'})
)

var genCell = rapid.Custom(func(t *rapid.T) table.Cell {
	c := table.Cell{Family: genFam.Draw(t, "family"), Qualifier: genQ.Draw(t, "qualifier")}
	if c.Tombstone = rapid.IntRange(0, 2).Draw(t, "tombstone") == 0; !c.Tombstone {
		c.Value = []byte(rapid.StringMatching("[xyz]{1,2}").Draw(t, "value"))
	}
	return c
})

var genMutation = rapid.Custom(func(t *rapid.T) table.Mutation {
	return table.Mutation{
		Row:       genRow.Draw(t, "row"),
		DeleteRow: rapid.IntRange(0, 4).Draw(t, "deleteRow") == 0,
		Cells:     rapid.SliceOfN(genCell, 0, 4).Draw(t, "cells"),
	}
})

var genSelect = rapid.Custom(func(t *rapid.T) table.Select {
	s := table.Select{
		Families: rapid.SampledFrom([][]table.Family{nil, {'a'}, {'b'}, {'a', 'b'}}).Draw(t, "families"),
		MaxCells: rapid.IntRange(0, 3).Draw(t, "maxCells"),
		MaxRows:  rapid.IntRange(0, 3).Draw(t, "maxRows"),
		Reverse:  rapid.Bool().Draw(t, "reverse"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "ranges") {
		from, to := genQ.Draw(t, "from"), genQ.Draw(t, "to")
		s.Columns = append(s.Columns, table.ColumnRange{Family: genFam.Draw(t, "family"), From: from, To: to})
	}
	return s
})

func render(rows ...table.Row) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%s:", r.Key)
		for _, c := range r.Cells {
			fmt.Fprintf(&b, " %c%s=%s", c.Family, c.Qualifier, c.Value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func readAll(t *rapid.T, r table.Reader, tab table.Table, rg table.Range, sel table.Select) string {
	var out []table.Row
	for row, err := range r.Scan(context.Background(), tab, rg, sel) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row.Clone())
	}
	return render(out...)
}

// TestOverlay compares the rows that a transaction reads with the rows that a snapshot
// reads after the same writes are committed.
func TestOverlay(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		s := tabletest.NewBatchMem()
		if err := s.Create(ctx, dataSpec); err != nil {
			t.Fatal(err)
		}
		db, err := Open(ctx, s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close(ctx)
		tab := db.Table("data")
		for _, ms := range rapid.SliceOfN(rapid.SliceOfN(genMutation, 1, 8), 1, 3).Draw(t, "before") {
			if _, err := db.Update(ctx, func(tx *Tx) error { tx.Write(tab, ms...); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		writes := rapid.SliceOfN(genMutation, 0, 6).Draw(t, "writes")
		sel := genSelect.Draw(t, "select")
		rg := table.Range{}
		if rapid.Bool().Draw(t, "bounded") {
			rg = table.Range{Start: genRow.Draw(t, "start"), End: genRow.Draw(t, "end")}
		}
		keys := rapid.Permutation([][]byte{[]byte("a"), []byte("ab"), []byte("b"), []byte("ba"), []byte("c")}).Draw(t, "keys")
		filtered := sel
		filtered.MaxRows = 0
		filtered.Filter = table.Has{Family: 'a', Qualifier: genQ.Draw(t, "has")}
		var scanned, got, passed string
		see := func(r table.Reader) {
			scanned = readAll(t, r, tab, rg, sel)
			got = ""
			for n := range 4 {
				paged := sel
				paged.MaxCells = n
				rows, err := r.GetMany(ctx, tab, keys, paged)
				if err != nil {
					t.Fatal(err)
				}
				got += render(rows...)
			}
			passed = readAll(t, r, tab, rg, filtered)
		}
		if _, err := db.Update(ctx, func(tx *Tx) error {
			for _, m := range writes {
				tx.Write(tab, m)
				// This read must have no effect.
				if _, err := tx.Get(ctx, tab, m.Row, sel); err != nil {
					return err
				}
			}
			see(tx)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		inTx := [3]string{scanned, got, passed}
		after := db.Snapshot()
		defer after.Close()
		see(after)
		if inTx[0] != scanned {
			t.Fatalf("scan in the transaction:\n%s\nafter it:\n%s", inTx[0], scanned)
		}
		if inTx[1] != got {
			t.Fatalf("get in the transaction:\n%s\nafter it:\n%s", inTx[1], got)
		}
		// A filter may pass more rows in the transaction than in the snapshot, but not
		// fewer.
		for line := range strings.Lines(passed) {
			if !strings.Contains(inTx[2], line) {
				t.Fatalf("the filter hides %q in the transaction:\n%s", line, inTx[2])
			}
		}
	})
}

func TestScanStops(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		tab := db.Table("data")
		for _, row := range []string{"a", "c", "e"} {
			write(t, db, row, "p", "v")
		}
		_, err := db.Update(context.Background(), func(tx *Tx) error {
			tx.Write(tab, put("b", "p", "v"), put("c", "p", "w"), put("f", "p", "v"))
			for n := range 6 {
				var keys []string
				for row, err := range tx.Scan(context.Background(), tab, table.Range{}, table.Select{Families: []table.Family{'a'}}) {
					if err != nil {
						return err
					}
					if keys = append(keys, string(row.Key)); len(keys) > n {
						break
					}
				}
				if want := "abcef"[:min(n+1, 5)]; strings.Join(keys, "") != want {
					t.Errorf("first %d rows: %v", n+1, keys)
				}
			}
			return errNotWanted
		})
		if err != errNotWanted {
			t.Error(err)
		}
	})
}
