package txn

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
)

// TestSummary makes commits with random marks in a branch and on the trunk. Clashes must be
// reported in exactly the rows in which marks of the branch and of the trunk conflict. The
// summary that grew with each commit must be equal to a summary that is read from the journal.
func TestSummary(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Create(ctx, dataSpec); err != nil {
		t.Fatal(err)
	}
	db, err := Open(ctx, s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(ctx)
	x := db.branches.(*embeddedBrancher)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		b, err := db.CreateBranch(ctx, fmt.Sprint("b", seed))
		if err != nil {
			t.Fatal(err)
		}
		rows := 1 + r.IntN(12)
		var own, others []rowMark
		for range 1 + r.IntN(4) {
			marks := randomMarks(r, rows)
			if _, err := b.Update(ctx, marking(db, marks)); err != nil {
				t.Fatal(err)
			}
			own = append(own, marks...)
		}
		for range r.IntN(4) {
			marks := randomMarks(r, rows)
			if _, err := db.Update(ctx, marking(db, marks)); err != nil {
				t.Fatal(err)
			}
			others = append(others, marks...)
		}
		want := map[string]bool{}
		for _, m := range own {
			for _, o := range others {
				if m.row == o.row && m.mark.conflicts(o.mark) {
					want[m.row] = true
				}
			}
		}
		for _, how := range []string{"extended", "read"} {
			clashes, err := b.Clashes(ctx)
			got := map[string]bool{}
			for _, c := range clashes {
				got[string(c.Row)] = true
			}
			if err != nil || !maps.Equal(got, want) {
				t.Fatalf("seed %d, %s: clashes at %v, %v; want %v", seed, how, got, err, want)
			}
			extended := x.summaries[b.slot]
			delete(x.summaries, b.slot)
			c, err := x.current(b)
			if err != nil {
				t.Fatal(err)
			}
			if read, err := x.summary(ctx, b.slot, &c); err != nil || !reflect.DeepEqual(read, extended) {
				t.Fatalf("seed %d, %s: %v, or the summaries differ:\n%+v\n%+v", seed, how, err, extended, read)
			}
		}
		_, err = b.Merge(ctx, nil)
		if (err == nil) != (len(want) == 0) {
			t.Fatalf("seed %d: merging with clashes %v: %v", seed, want, err)
		}
		if len(want) > 0 {
			if err := b.Discard(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(x.summaries) > 0 {
		t.Errorf("%d summaries are left", len(x.summaries))
	}
}

type rowMark struct {
	row  string
	mark Mark
}

func randomMarks(r *rand.Rand, rows int) (marks []rowMark) {
	for range 1 + r.IntN(3) {
		m := Mark{Kind: []MarkKind{MarkExclusive, MarkUpdate, MarkValue, MarkChild}[r.IntN(4)]}
		m.Deletes = m.Kind == MarkExclusive && r.IntN(2) == 0
		if m.Kind == MarkValue {
			m.Hash = uint64(r.IntN(3))
		}
		marks = append(marks, rowMark{fmt.Sprint("row", r.IntN(rows)), m})
	}
	return marks
}

// marking returns a transaction that places marks. For each mark, the transaction also
// writes the row and touches an id.
func marking(db *DB, marks []rowMark) func(*Tx) error {
	return func(tx *Tx) error {
		t := db.Table("data")
		for _, m := range marks {
			tx.Write(t, put(m.row, "p", "v"))
			tx.Mark(t, []byte(m.row), m.mark)
			tx.Touch(entry.ID{byte(len(m.row)), m.row[len(m.row)-1]})
		}
		return nil
	}
}

// TestFilter checks that a filter has all its elements, and few others.
func TestFilter(t *testing.T) {
	const n = 50_000
	var f filter
	value := func(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i) }
	for i := range uint64(n) {
		f.add(value(i))
		f.add(value(i / 2)) // the filter has this element already
	}
	wrong := 0
	for i := range uint64(n) {
		if !f.mayHave(value(i)) {
			t.Errorf("it lacks %d", i)
		}
		if f.mayHave(value(n + i)) {
			wrong++
		}
	}
	if wrong > n/10_000 {
		t.Errorf("%d of %d others seem to be there", wrong, n)
	}
}
