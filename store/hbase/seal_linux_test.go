package hbase_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest/conformance"
)

// withKeys opens a store that seals what covers says with keys made of letters.
func withKeys(t *testing.T, url, letters string, covers func(string, table.Family, []byte) bool) *hbase.Store {
	t.Helper()
	var o hbase.Options
	if letters != "" {
		var lines []string
		for _, l := range letters {
			lines = append(lines, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(l)}, 32)))
		}
		var err error
		if o.Seal, err = hbase.ReadSeal(strings.NewReader(strings.Join(lines, "\n")), covers); err != nil {
			t.Fatal(err)
		}
	}
	s, err := hbase.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestSealConformance checks that a store that seals everything keeps the contract.
func TestSealConformance(t *testing.T) {
	if !*allSecured {
		t.Skip("needs the flag -secured")
	}
	url := hbase.Scheme + hbasetest.Start(t) + "/" + hbasetest.Prefix(t)
	conformance.Run(t, func(t *testing.T) table.Store {
		return withKeys(t, url, "a", func(string, table.Family, []byte) bool { return true })
	})
}

// TestSeal checks that sealed values are read, found and swapped with the key and not without, and that filters find
// rows by them.
func TestSeal(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an HBase")
	}
	ctx := context.Background()
	url := hbase.Scheme + hbasetest.Start(t) + "/" + hbasetest.Prefix(t)
	covers := func(name string, f table.Family, q []byte) bool {
		return f == 'b' || name == "heads" && string(q) == "secret"
	}
	s := withKeys(t, url, "k", covers)
	d := create(t, s, data, heads)
	t.Cleanup(func() { s.Drop(context.WithoutCancel(ctx), "data", "heads") })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(d.Apply(ctx, 5, []table.Mutation{put("one", cell('a', "q", "open"), cell('b', "q", "hidden")), put("two", cell('b', "q", "other"))}))
	must(d.Apply(ctx, 6, []table.Mutation{put("two", gone('b', "q"))}))
	found := func(s *hbase.Store, v table.Filter) (rows []string, err error) {
		for row, err := range s.Table("data").Scan(ctx, table.Range{}, table.Select{Filter: v}) {
			if err != nil {
				return nil, err
			}
			if v == nil || v.Match(row) {
				rows = append(rows, text(row))
			}
		}
		return rows, nil
	}
	rows, err := found(s, table.All{table.HasValue{Family: 'b', Qualifier: []byte("q"), From: []byte("h"), To: []byte("i")}})
	if err != nil || len(rows) != 1 || rows[0] != `one: a."q"="open"@5 b."q"="hidden"@5` {
		t.Errorf("found %q, %v", rows, err)
	}
	none := withKeys(t, url, "", nil)
	if rows, err := found(none, nil); !errors.Is(err, table.ErrKey) {
		t.Errorf("without a key: %q, %v", rows, err)
	}
	if row, err := none.Table("data").Get(ctx, []byte("one"), table.Select{Families: []table.Family{'a'}}); err != nil || len(row.Cells) != 1 {
		t.Errorf("what is not sealed: %v, %v", row, err)
	}

	h := s.Table("heads")
	swap := func(tab table.Table, old, to string, want bool) {
		t.Helper()
		var o []byte
		if old != "" {
			o = []byte(old)
		}
		if ok, err := tab.Swap(ctx, []byte("r"), 'h', []byte("secret"), o, []table.Cell{cell('h', "secret", to)}); ok != want || err != nil {
			t.Errorf("swap of %q to %q: %v, %v", old, to, ok, err)
		}
	}
	swap(h, "", "one", true)
	swap(h, "", "two", false)
	swap(h, "two", "three", false)
	swap(h, "one", "two", true)

	next := withKeys(t, url, "nk", covers)
	swap(next.Table("heads"), "two", "three", true)
	if _, err := h.Get(ctx, []byte("r"), table.Select{}); !errors.Is(err, table.ErrKey) {
		t.Errorf("with the old key alone: %v", err)
	}
	r := next.Table("data").(table.Resealer)
	// The second value is hidden by a tombstone, and stays until garbage collection removes it.
	if current, old, err := r.Sealed(ctx, table.Range{}, 'b'); current != 0 || old != 2 || err != nil {
		t.Errorf("%d values have the key in force, %d an old one: %v", current, old, err)
	}
	back := withKeys(t, url, "kn", covers)
	for range 2 {
		must(back.Table("heads").(table.Resealer).ResealCell(ctx, []byte("r"), 'h', []byte("secret")))
	}
	if row, err := h.Get(ctx, []byte("r"), table.Select{}); err != nil || string(row.Cells[0].Value) != "three" {
		t.Errorf("sealed again: %v, %v", row, err)
	}
	must(back.Table("heads").(table.Resealer).ResealCell(ctx, []byte("missing"), 'h', []byte("secret")))
}
