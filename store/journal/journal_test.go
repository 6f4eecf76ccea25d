package journal

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

var ctx = context.Background()

func newLog(t testing.TB) (*Log, *tabletest.Mem) {
	t.Helper()
	s := tabletest.NewMem()
	if err := s.Create(ctx, Specs()...); err != nil {
		t.Fatal(err)
	}
	return New(s), s
}

var genRecord = rapid.Custom(func(t *rapid.T) Record {
	key := rapid.SliceOfN(rapid.Byte(), 0, 5)
	r := Record{
		Revision:   revision.Make(rapid.Int64Range(1, 1000).Draw(t, "ms"), 3, 0),
		Kind:       Kind(rapid.IntRange(0, 2).Draw(t, "kind")),
		Token:      rapid.Uint64().Draw(t, "token"),
		Prio:       table.Revision(rapid.Uint64().Draw(t, "prio")),
		AllChanged: rapid.Bool().Draw(t, "all"),
	}
	if !r.AllChanged {
		for range rapid.IntRange(0, 3).Draw(t, "ids") {
			r.IDs = append(r.IDs, entry.ID{byte(len(r.IDs))})
		}
		if keys := rapid.SliceOfN(rapid.Uint64(), 0, 3).Draw(t, "keys"); len(keys) > 0 {
			r.Keys = keys
		}
	}
	if m := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "message"); len(m) > 0 {
		r.Message = m
	}
	for range rapid.IntRange(0, 2).Draw(t, "tables") {
		r.Rows = append(r.Rows, Rows{Table: rapid.StringMatching("[a-z]{1,3}").Draw(t, "table"), Keys: rapid.SliceOfN(key, 1, 3).Draw(t, "keys")})
	}
	return r
})

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := tabletest.NewMem()
		if err := s.Create(ctx, Specs()...); err != nil {
			t.Fatal(err)
		}
		l := New(s)
		want := genRecord.Draw(t, "record")
		if err := l.Begin(ctx, &want); err != nil {
			t.Fatal(err)
		}
		extra := []Rows{{Table: "t", Keys: [][]byte{{1}, {2}}}}
		if err := l.Chunk(ctx, want.Revision, 1, extra); err != nil {
			t.Fatal(err)
		}
		to := rapid.SampledFrom([]State{Committed, Aborted}).Draw(t, "to")
		if got, err := l.Decide(ctx, &want, to); err != nil || got != to {
			t.Fatalf("decided %q: %v", got, err)
		}
		// The second decision must not change anything.
		if got, err := l.Decide(ctx, &want, Committed+Aborted-to); err != nil || got != to {
			t.Fatalf("then %q: %v", got, err)
		}
		want.State = to
		want.Rows = append(want.Rows[:len(want.Rows):len(want.Rows)], extra...)
		got, err := l.Get(ctx, want.Revision)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Record{})); d != "" {
			t.Fatal(d)
		}
	})
}

func TestScan(t *testing.T) {
	l, _ := newLog(t)
	var want []table.Revision
	for ms := int64(1); ms <= 5; ms++ {
		for slot := revision.Slot(1); slot <= 3; slot++ {
			rec := Record{Revision: revision.Make(ms, slot, 0), Rows: []Rows{{Table: "t", Keys: [][]byte{{byte(ms)}}}}}
			if err := l.Begin(ctx, &rec); err != nil {
				t.Fatal(err)
			}
			for n := range uint32(2) {
				if err := l.Chunk(ctx, rec.Revision, n+1, []Rows{{Table: "t", Keys: [][]byte{{byte(ms), byte(n)}}}}); err != nil {
					t.Fatal(err)
				}
			}
			if slot == 2 && ms > 1 && ms < 5 {
				want = append(want, rec.Revision)
			}
		}
	}
	// A chunk without a record belongs to a commit that wrote nothing.
	if err := l.Chunk(ctx, revision.Make(3, 2, 7), 1, []Rows{{Table: "t", Keys: [][]byte{{9}}}}); err != nil {
		t.Fatal(err)
	}
	after, upTo := revision.Make(1, 2, 0), revision.Make(4, 2, 0)
	var forward, backward []table.Revision
	for rec, err := range l.Lists(ctx, 2, after, upTo) {
		if err != nil || len(rec.Rows) != 3 {
			t.Fatalf("%+v: %v", rec, err)
		}
		forward = append(forward, rec.Revision)
	}
	for rec, err := range l.Backward(ctx, 2, after, upTo) {
		if err != nil || len(rec.Rows) != 0 {
			t.Fatalf("%+v: %v", rec, err)
		}
		backward = append([]table.Revision{rec.Revision}, backward...)
	}
	if d := cmp.Diff(want, forward); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, backward); d != "" {
		t.Error(d)
	}
}

func TestBeginTaken(t *testing.T) {
	l, _ := newLog(t)
	a, b := Record{Revision: 300, Token: 1}, Record{Revision: 300, Token: 2}
	for range 2 { // the same attempt may be sent twice
		if err := l.Begin(ctx, &a); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Begin(ctx, &b); !errors.Is(err, ErrTaken) {
		t.Errorf("a second writer of one id: %v", err)
	}
}

// TestSwapLies injects faults into swaps, including swaps that take effect late. SwapHead
// must report the cell's true content.
func TestSwapLies(t *testing.T) {
	for seed := range uint64(50) {
		_, mem := newLog(t)
		s, f := tabletest.WithFaults(mem, seed)
		f.SetRate(0.4)
		l := New(s)
		c := revision.Cell{State: revision.Open, Incarnation: 1, Sequence: 1}
		var raw []byte
		for range 10 {
			c.Sequence++
			next := c.Append(nil)
			done, _, err := l.SwapHead(ctx, 1, raw, next)
			if err != nil || !done {
				t.Fatalf("seed %d: %v %v", seed, done, err)
			}
			raw = next
		}
		f.SetRate(0)
		f.Land() // delayed swaps arrive now and must fail: the cell has other bytes than they expect
		h, err := l.Heads(ctx)
		if err != nil || !bytes.Equal(h.Raw(1), raw) {
			t.Errorf("seed %d: the cell holds %x, want %x (%v)", seed, h.Raw(1), raw, err)
		}
		if done, now, err := l.SwapHead(ctx, 1, []byte("other"), []byte("new")); done || err != nil || !bytes.Equal(now, raw) {
			t.Errorf("seed %d: swapped from bytes that are not there: %v %x %v", seed, done, now, err)
		}
	}
}

func TestSwapCanceled(t *testing.T) {
	_, mem := newLog(t)
	s, f := tabletest.WithFaults(mem, 1)
	f.SetRate(1)
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := New(s).SwapHead(ctx, 1, nil, []byte("new")); !errors.Is(err, table.ErrUnavailable) {
		t.Errorf("swap without a store: %v", err)
	}
}

func TestArchiveMissing(t *testing.T) {
	l, s := newLog(t)
	c := revision.Cell{State: revision.Open, Incarnation: 2, First: 600, Head: 700}
	if done, _, err := l.SwapHead(ctx, 2, nil, c.Append(nil)); err != nil || !done {
		t.Fatal(err)
	}
	if _, err := New(s).Heads(ctx); !errors.Is(err, table.ErrCorrupt) {
		t.Errorf("heads without the archive they tell of: %v", err)
	}
}

// FuzzDecode checks that decode does not panic on any bytes and returns only known
// states.
func FuzzDecode(f *testing.F) {
	rec := Record{Revision: 300, Token: 1, Prio: 300, IDs: []entry.ID{{1}}, Rows: []Rows{{Table: "t", Keys: [][]byte{{1}, {2}}}}}
	cells := rec.cells(Pending)
	f.Add(Key(300), cells[0].Value, cells[1].Value, cells[1].Value, cells[2].Value)
	f.Add([]byte{}, []byte{1, 'C'}, []byte{0}, []byte{7}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, key, state, ids, keys, rows []byte) {
		rec, err := decode(table.Row{Key: key, Cells: []table.Cell{
			{Family: family, Qualifier: idsColumn, Value: ids},
			{Family: family, Qualifier: keysColumn, Value: keys},
			{Family: family, Qualifier: stateColumn, Value: state},
			{Family: family, Qualifier: rowsColumn, Value: rows},
		}})
		if err == nil && rec.State != Pending && rec.State != Committed && rec.State != Aborted {
			t.Errorf("state %q", rec.State)
		}
	})
}

// TestDropIncomplete checks that a store that was not made completely keeps its mark until all other tables are gone.
func TestDropIncomplete(t *testing.T) {
	ctx := t.Context()
	s := &stubborn{Store: tabletest.NewMem(), err: errors.New("no answer")}
	data := table.Spec{Name: "data", Families: []table.FamilySpec{{Name: 'a'}}}
	if err := s.Create(ctx, data, IncompleteSpec); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{{"data", Incomplete}, {}} {
		err := DropIncomplete(ctx, s, []string{"data", Incomplete})
		names, nerr := s.Names(ctx)
		if !errors.Is(err, s.err) || nerr != nil || !slices.Equal(names, want) {
			t.Errorf("%v, %v: left are %q, want %q", err, nerr, names, want)
		}
		s.err = nil
	}
}

// A stubborn store does not drop the table "data" while err is set.
type stubborn struct {
	table.Store
	err error
}

func (s *stubborn) Drop(ctx context.Context, names ...string) error {
	if s.err != nil && slices.Contains(names, "data") {
		return s.err
	}
	return s.Store.Drop(ctx, names...)
}
