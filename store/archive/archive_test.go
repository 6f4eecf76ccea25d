package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

var dataSpec = table.Spec{Name: "data", Families: []table.FamilySpec{{Name: 'a'}}}

// A fixture is a store with its archive. Commit n of the store writes row n, and writes
// the value n to row 0.
type fixture struct {
	*testing.T
	folder string
	store  *lsm.Store
	place  Place
	a      *Archiver
	o      Options
	n      int
	revs   []table.Revision // the revisions of the commits
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{T: t, folder: filepath.Join(t.TempDir(), "store"), place: folder(filepath.Join(t.TempDir(), "archive"))}
	f.o = Options{Every: time.Hour, Lag: time.Millisecond, Keep: time.Hour}
	f.open()
	t.Cleanup(func() { f.store.Close() })
	return f
}

func (f *fixture) open() {
	f.Helper()
	var err error
	f.store, err = lsm.Open(lsm.Options{Path: f.folder, MemTable: 64 << 10, KeepLogs: true})
	if err == nil {
		err = f.store.Create(context.Background(), append(journal.Specs(), dataSpec)...)
	}
	f.must(err)
	f.reopenArchive()
}

func (f *fixture) reopenArchive() {
	f.Helper()
	f.o.Store, f.o.Place, f.o.Log = f.store, f.place, slog.New(slog.DiscardHandler)
	var err error
	f.a, err = New(f.o)
	f.must(err)
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// commit makes count commits.
func (f *fixture) commit(count int) {
	f.Helper()
	var last func() error
	for range count {
		f.n++
		r := revision.Make(int64(1000+f.n), 1, 0)
		rec := &journal.Record{Revision: r, Kind: journal.Bulk, Prio: r}
		cell := []table.Cell{{Family: 'a', Qualifier: []byte("n"), Value: fmt.Appendf(nil, "%d", f.n)}}
		wait, err := f.store.Commit(context.Background(), table.Batch{Revision: r, Writes: []table.Write{
			{Table: "data", Mutations: []table.Mutation{{Row: []byte{0}, Cells: cell}, {Row: fmt.Appendf(nil, "%06d", f.n), Cells: cell}}},
			rec.Write(),
		}})
		f.must(err)
		last = wait
		f.revs = append(f.revs, r)
	}
	f.must(last())
}

// load writes a row with a bulk load. The log does not contain bulk loads.
func (f *fixture) load() {
	f.Helper()
	f.n++
	r := revision.Make(int64(1000+f.n), 1, 0)
	rec := &journal.Record{Revision: r, Kind: journal.Bulk, Prio: r}
	cell := []table.Cell{{Family: 'a', Qualifier: []byte("n"), Value: fmt.Appendf(nil, "%d", f.n)}}
	b, err := f.store.Bulk(context.Background(), r, table.BulkOptions{})
	f.must(err)
	f.must(b.Add("data", table.Mutation{Row: []byte{0}, Cells: cell}, table.Mutation{Row: fmt.Appendf(nil, "%06d", f.n), Cells: cell}))
	f.must(b.Finish(context.Background(), func(table.Overwritten) []table.Write { return []table.Write{rec.Write()} }))
	f.revs = append(f.revs, r)
}

// rows returns the number n of rows of a store, not counting row 0. The test fails unless the
// store contains exactly what the first n commits wrote.
func rows(t *testing.T, path string) int {
	t.Helper()
	s, err := lsm.Open(lsm.Options{Path: path, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := -1
	for row, err := range s.Table("data").Scan(context.Background(), table.Range{}, table.Select{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n > 0 && string(row.Key) != fmt.Sprintf("%06d", n) {
			t.Fatalf("row %d is %q", n, row.Key)
		}
	}
	last, err := s.Table("data").Get(context.Background(), []byte{0}, table.Select{})
	if err != nil || len(last.Cells) != 1 || string(last.Cells[0].Value) != fmt.Sprint(n) {
		t.Fatalf("%d rows, and the last commit was %v (%v)", n, last.Cells, err)
	}
	return n
}

func (f *fixture) restore(until table.Revision) (n int, done *Restored, err error) {
	to := filepath.Join(f.TempDir(), "restored")
	done, err = Restore(context.Background(), f.place, RestoreOptions{To: to, Until: until, Copy: true})
	if err != nil {
		return 0, nil, err
	}
	n = rows(f.T, to)
	if n > 0 && done.Newest != f.revs[n-1] {
		f.Errorf("the newest commit is said to be %s, and is %s", done.Newest, f.revs[n-1])
	}
	return n, done, nil
}

// wantRestored restores up to the commit with the number last, or up to the newest commit
// if last is 0. The restored store must have as many commits as count says.
func (f *fixture) wantRestored(last, count int) {
	f.Helper()
	r := table.Revision(0)
	if last > 0 {
		r = f.revs[last-1]
	}
	if n, _, err := f.restore(r); err != nil || n != count {
		f.Errorf("restored %d commits, want %d: %v", n, count, err)
	}
}

// TestArchive checks that the states after random commits since the first base can be restored.
// The test takes bases, sends pieces, loads, and opens the store again.
func TestArchive(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.commit(3)
	f.must(f.a.Pieces(ctx)) // the first call takes a base
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		f.commit(1 + rnd.IntN(40))
		switch rnd.IntN(12) {
		case 0:
			f.must(f.a.Base(ctx))
		case 1:
			f.load()
		case 2:
			f.must(f.store.Close())
			f.open()
		}
		f.must(f.a.Pieces(ctx))
		if round%6 == 0 {
			f.wantRestored(0, f.n)
		}
	}
	x, err := ReadIndex(ctx, f.place)
	f.must(err)
	if len(x.Bases) < 3 || f.a.epoch() < 2 || len(x.Pieces) < 20 {
		t.Errorf("%d bases, %d pieces in %d epochs: the test has no variety", len(x.Bases), len(x.Pieces), f.a.epoch())
	}
	for range 25 {
		n := 3 + rnd.IntN(f.n-3)
		if until := f.revs[n-1]; f.isLoad(x, until) {
			continue
		}
		f.wantRestored(n, n)
	}
	if _, _, err := f.restore(f.revs[1]); !errors.Is(err, ErrNoState) {
		t.Error("restored what is before the first base:", err)
	}
	f.verify(0)
}

// isLoad reports whether a restore up to revision r ends before r. It does if r is a load and
// the next base also contains later commits, because no piece contains a load.
func (f *fixture) isLoad(x *Index, r table.Revision) bool {
	_, m, err := x.choose(context.Background(), f.place, r)
	f.must(err)
	b := x.Bases[0]
	for _, c := range x.Bases {
		if c.Next == m.Next && c.Epoch == m.Epoch {
			b = c
		}
	}
	chain, _ := x.behind(b)
	return newest(m, chain) < r
}

// verify calls Verify and returns the faults that Verify finds. The number of faults must
// be count.
func (f *fixture) verify(count int) (faults []string) {
	f.Helper()
	v, err := Verify(context.Background(), f.place, func(err error) {
		if !errors.Is(err, ErrDamaged) {
			f.Error("not ErrDamaged:", err)
		}
		faults = append(faults, err.Error())
	})
	f.must(err)
	if len(faults) != count || v.Objects == 0 {
		f.Errorf("%d faults in %d objects, want %d: %s", len(faults), v.Objects, count, strings.Join(faults, "\n"))
	}
	return faults
}

// TestBasesShareFiles checks that a base sends only the files that no earlier base has.
func TestBasesShareFiles(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.commit(3000)
	f.must(f.a.Base(ctx))
	for _, again := range []func(){f.reopenArchive, func() {}} {
		again() // a new Archiver has no hashes in memory
		f.commit(10)
		before := f.a.Status().BaseBytes
		f.must(f.a.Base(ctx))
		_, states, err := List(ctx, f.place)
		f.must(err)
		had := map[string]bool{}
		var fresh, all int64
		for i, s := range states {
			for _, x := range s.Base.Files {
				if i == len(states)-1 {
					all += x.Size
					if !had[x.SHA256] {
						fresh += x.Size
					}
				}
				had[x.SHA256] = true
			}
		}
		if sent := f.a.Status().BaseBytes - before; sent != fresh || fresh == all {
			t.Errorf("sent %d bytes of a base of %d, of which %d are new", sent, all, fresh)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(f.folder, "copy-*")); len(left) > 0 {
		t.Error("copies are left:", left)
	}
	f.wantRestored(0, f.n)
}

// TestPace checks that a base is not read faster than Rate, and arrives completely.
func TestPace(t *testing.T) {
	f := newFixture(t)
	f.o.Rate = 1 << 20
	f.reopenArchive()
	f.commit(3000)
	begun := time.Now()
	f.must(f.a.Base(context.Background()))
	sent := f.a.Status().BaseBytes
	if least := time.Duration(float64(2*sent) / float64(f.o.Rate) * 0.8 * float64(time.Second)); time.Since(begun) < least {
		t.Errorf("%d bytes took %v, want at least %v", sent, time.Since(begun), least)
	}
	f.wantRestored(0, f.n)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	f.commit(3000)
	if err := f.a.Base(ctx); !errors.Is(err, context.Canceled) {
		t.Error("canceled:", err)
	}
}

// TestNothingNew checks that nothing is sent and nothing is written while a store is
// idle.
func TestNothingNew(t *testing.T) {
	f := newFixture(t)
	f.commit(1)
	f.must(f.a.Pieces(context.Background()))
	f.must(f.a.Pieces(context.Background()))
	before, _ := f.place.List(context.Background(), "")
	for range 5 {
		f.must(f.a.Pieces(context.Background()))
	}
	after, _ := f.place.List(context.Background(), "")
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("before: %v\nafter: %v", before, after)
	}
	if f.a.Status().CaughtUp.IsZero() {
		t.Error("it is not said to have caught up")
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
