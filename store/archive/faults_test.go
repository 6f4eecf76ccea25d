package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// TestFlippedBits damages and then removes each object in turn, except the owner. Verify must
// find one fault and name a damaged object, and a restore must fail. The removal of a base or
// of the last piece need not be found.
func TestFlippedBits(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.commit(20)
	f.must(f.a.Base(ctx))
	for range 3 {
		f.commit(5)
		f.must(f.a.Pieces(ctx))
	}
	all, err := f.place.List(ctx, "")
	f.must(err)
	for i, o := range all {
		path := f.place.(folder).path(o.Name)
		whole, err := os.ReadFile(path)
		f.must(err)
		if o.Name == ownerName {
			continue
		}
		if len(whole) > 0 {
			bad := bytes.Clone(whole)
			bad[len(bad)/2] ^= 0x10
			write(t, path, bad)
			f.wantDamaged(o.Name)
		}
		f.must(os.Remove(path))
		if strings.HasPrefix(o.Name, filePrefix) || strings.HasPrefix(o.Name, logPrefix) && i+1 < len(all) && strings.HasPrefix(all[i+1].Name, logPrefix) {
			f.wantDamaged("")
		}
		write(t, path, whole)
	}
	f.verify(0)
	f.wantRestored(0, f.n)
}

func (f *fixture) wantDamaged(name string) {
	f.Helper()
	if faults := f.verify(1); len(faults) == 1 && !strings.Contains(faults[0], name) {
		f.Errorf("%s is not named: %s", name, faults[0])
	}
	if _, _, err := f.restore(0); !errors.Is(err, ErrDamaged) {
		f.Errorf("%s: restored: %v", name, err)
	}
}

// TestMissingPiece checks that the error of a restore names the last moment that can be
// restored, and that this moment can be restored.
func TestMissingPiece(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.commit(1)
	for range 4 {
		f.must(f.a.Pieces(ctx))
		f.commit(5)
	}
	x, err := ReadIndex(ctx, f.place)
	f.must(err)
	f.must(f.place.Delete(ctx, x.Pieces[1].Name))
	_, _, err = f.restore(0)
	if err == nil || !strings.Contains(err.Error(), "revision "+f.revs[5].String()+", can be restored") {
		t.Error(err)
	}
	f.wantRestored(6, 6)
}

// TestNewerVersion checks that objects of a newer version cause table.ErrNewer.
func TestNewerVersion(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.commit(1)
	f.must(f.a.Base(ctx))
	x, err := ReadIndex(ctx, f.place)
	f.must(err)
	m, err := ReadManifest(ctx, f.place, x.Bases[0])
	f.must(err)
	m.Format = format + 1
	f.must(f.place.Delete(ctx, x.Bases[0].Name))
	f.must(m.put(ctx, f.place))
	if _, _, err := f.restore(0); !errors.Is(err, table.ErrNewer) {
		t.Error("a base:", err)
	}
	o := *x.Owner
	o.Format = format + 1
	f.must(o.write(ctx, f.place, x.Owner))
	if _, _, err := f.restore(0); !errors.Is(err, table.ErrNewer) {
		t.Error("the owner:", err)
	}
	if err := f.a.Pieces(ctx); !errors.Is(err, table.ErrNewer) {
		t.Error("writing:", err)
	}
	var h pieceHead
	f.must(json.Unmarshal([]byte(`{"Format":2}`), &h))
	d, err := newDraft()
	f.must(err)
	f.must(d.begin(h, Seal{}, 0))
	name, b, err := d.finish()
	f.must(err)
	f.must(f.place.Put(ctx, name, bytes.NewReader(b)))
	piece, err := parsePiece(Object{Name: name})
	f.must(err)
	in, err := newPieceReader(f.place, nil)
	f.must(err)
	defer in.close()
	if err := in.each(ctx, "", piece, nil); !errors.Is(err, table.ErrNewer) {
		t.Error("a piece:", err)
	}
}

// TestOwners checks that neither two stores nor two folders can write to one archive.
func TestOwners(t *testing.T) {
	f, other := newFixture(t), newFixture(t)
	ctx := context.Background()
	f.commit(3)
	f.must(f.a.Base(ctx))
	other.commit(1)
	other.place = f.place
	other.reopenArchive()
	for _, do := range []func(context.Context) error{other.a.Check, other.a.Pieces, other.a.Base} {
		if err := do(ctx); !errors.Is(err, ErrForeign) {
			t.Error("another store:", err)
		}
	}
	// A store that was restored elsewhere continues the archive, and the old store
	// cannot write.
	to := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(ctx, f.place, RestoreOptions{To: to}); err != nil {
		t.Fatal(err)
	}
	again := &fixture{T: t, folder: to, place: f.place, o: f.o, n: f.n, revs: f.revs}
	again.open()
	defer again.store.Close()
	again.commit(2)
	again.must(again.a.Pieces(ctx))
	f.commit(1)
	if err := f.a.Pieces(ctx); !errors.Is(err, ErrTakenOver) {
		t.Error("the old one:", err)
	}
	again.wantRestored(0, again.n)
	f.must(f.a.TakeOver())
	f.must(f.a.Pieces(ctx))
	if err := again.a.Pieces(ctx); !errors.Is(err, ErrTakenOver) {
		t.Error("the new one:", err)
	}
	f.wantRestored(0, f.n)
}

// TestFolderSetBack sets a folder back to an older state, as happens if the machine is
// restored from a snapshot. The archiver must begin a new epoch.
func TestFolderSetBack(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.commit(3)
	f.must(f.a.Pieces(ctx))
	f.must(f.store.Close())
	before := filepath.Join(t.TempDir(), "before")
	f.must(os.CopyFS(before, os.DirFS(f.folder)))
	f.open()
	f.commit(7)
	f.must(f.a.Pieces(ctx))
	f.must(f.store.Close())
	names, err := os.ReadDir(f.folder)
	f.must(err)
	for _, n := range names { // the folder itself and its inode number stay
		f.must(os.RemoveAll(filepath.Join(f.folder, n.Name())))
	}
	f.must(os.CopyFS(f.folder, os.DirFS(before)))
	f.n, f.revs = 3, f.revs[:3]
	f.open()
	f.commit(9)
	f.must(f.a.Pieces(ctx))
	if f.a.epoch() != 2 {
		t.Error("it went on in epoch", f.a.epoch())
	}
	f.wantRestored(0, 12)
}

// full is a place. While its field "is" is set, Put fails like a write to a full disk.
type full struct {
	Place
	is bool
}

// Put implements Place.
func (f *full) Put(ctx context.Context, name string, r io.Reader) error {
	if f.is {
		return &os.PathError{Op: "write", Path: name, Err: syscall.ENOSPC}
	}
	return f.Place.Put(ctx, name, r)
}

// TestFullPlace checks that nothing is lost, and that the store continues, while a
// place is full.
func TestFullPlace(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	p := &full{Place: f.place, is: true}
	f.place = p
	f.reopenArchive()
	f.commit(1)
	if err := f.a.Pieces(ctx); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), p.String()) {
		t.Error(err)
	}
	p.is = false
	f.must(f.a.Pieces(ctx))
	p.is = true
	for range 5 {
		f.commit(100)
		if err := f.a.Pieces(ctx); !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
		if err := f.a.Base(ctx); !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
	}
	if s := f.a.Status(); s.Failures != 11 || s.Failure == nil {
		t.Errorf("%+v", s)
	}
	p.is = false
	f.must(f.a.Pieces(ctx))
	if f.a.epoch() != 1 || f.a.Status().Failure != nil {
		t.Errorf("epoch %d, %+v", f.a.epoch(), f.a.Status())
	}
	f.wantRestored(0, f.n)
}

// TestSealed checks that only a recipient's identity can read a sealed archive.
func TestSealed(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	mine, err := age.GenerateX25519Identity()
	f.must(err)
	other, err := age.GenerateX25519Identity()
	f.must(err)
	f.o.Seal, err = ParseSeal([]string{mine.Recipient().String()})
	f.must(err)
	f.reopenArchive()
	f.commit(50)
	f.must(f.a.Base(ctx))
	f.commit(50)
	f.must(f.a.Pieces(ctx))
	all, err := f.place.List(ctx, "")
	f.must(err)
	sealed := 0
	for _, o := range all {
		b, err := os.ReadFile(f.place.(folder).path(o.Name))
		f.must(err)
		if is := bytes.HasPrefix(b, []byte(sealMark)); is {
			sealed++
		} else if !strings.HasPrefix(o.Name, basePrefix) && o.Name != ownerName {
			t.Errorf("%s is not sealed", o.Name)
		}
	}
	f.verify(0)
	for name, keys := range map[string]Keys{"none": nil, "another": {other}} {
		_, err := Restore(ctx, f.place, RestoreOptions{To: filepath.Join(t.TempDir(), "x"), Keys: keys})
		if !errors.Is(err, ErrSealed) || errors.Is(err, ErrDamaged) {
			t.Errorf("identity: %s: %v", name, err)
		}
	}
	to := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(ctx, f.place, RestoreOptions{To: to, Keys: Keys{other, mine}}); err != nil || rows(t, to) != f.n || sealed < 3 {
		t.Error(err, sealed)
	}
	keys, err := ReadKeys("key", strings.NewReader("# created\n"+mine.String()+"\n"))
	if err != nil || len(keys) != 1 {
		t.Error(keys, err)
	}
	if _, err := ReadKeys("key", strings.NewReader("nonsense")); err == nil {
		t.Error("nonsense is an identity")
	}
	if _, err := ParseSeal([]string{"age1nonsense"}); err == nil {
		t.Error("nonsense is a recipient")
	}
}

// TestThin checks that every moment within Keep can still be restored after Thin, that what is
// much older is removed, and that Verify finds no fault in the remaining objects.
func TestThin(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	f.o.Now = func() time.Time { return now }
	f.o.Keep = 10 * 24 * time.Hour
	f.reopenArchive()
	var at []time.Time // the times of the commits
	for range 40 {     // 20 days
		f.commit(3)
		at = append(at, now, now, now)
		if len(at) == 60 {
			f.load()
			at = append(at, now)
		}
		f.must(f.a.Pieces(ctx))
		f.must(f.a.Base(ctx))
		_, err := f.a.Thin(ctx)
		f.must(err)
		now = now.Add(12 * time.Hour)
	}
	x, err := ReadIndex(ctx, f.place)
	f.must(err)
	if n := len(x.Bases); n < 11 || n > 16 {
		t.Errorf("%d bases are left", n)
	}
	f.verify(0)
	var first time.Time
	for i := range at {
		n, _, err := f.restoreIfKept(i, now.Add(-f.o.Keep).Before(at[i]))
		if err == nil && first.IsZero() {
			first = at[i]
		}
		if err == nil && n != i+1 && i != 60-1 {
			t.Errorf("restored %d commits of %d", n, i+1)
		}
	}
	if age := now.Sub(first); age > f.o.Keep+48*time.Hour {
		t.Errorf("what is %s old is still there", age)
	}
}

// restoreIfKept restores up to commit i if i is a multiple of seven. If kept is set,
// the restore must succeed.
func (f *fixture) restoreIfKept(i int, kept bool) (int, *Restored, error) {
	if i%7 != 0 {
		return 0, nil, ErrNoState
	}
	n, done, err := f.restore(f.revs[i])
	if err != nil && (kept || !errors.Is(err, ErrNoState)) {
		f.Errorf("commit %d: %v", i, err)
	}
	return n, done, err
}

// TestForget checks that Forget leaves no base and no piece of an earlier epoch.
func TestForget(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.commit(10)
	f.must(f.a.Base(ctx))
	f.commit(10)
	f.must(f.a.Pieces(ctx))
	older, err := f.a.Older(ctx)
	if err != nil || len(older) != 0 {
		t.Fatal(older, err)
	}
	before, err := f.place.List(ctx, "")
	f.must(err)
	_, err = f.a.Forget(ctx)
	f.must(err)
	after, err := f.place.List(ctx, "")
	f.must(err)
	had := map[string]bool{}
	for _, o := range before {
		had[o.Name] = true
	}
	for _, o := range after {
		if had[o.Name] && !strings.HasPrefix(o.Name, filePrefix) && o.Name != ownerName {
			t.Errorf("%s is left", o.Name)
		}
	}
	f.verify(0)
	f.wantRestored(0, f.n)
}

// TestRun archives a store while commits are made. Bases must be taken at their times, bases
// that are older than Keep must be removed, and in the end everything that was committed must
// be archived.
func TestRun(t *testing.T) {
	f := newFixture(t)
	f.o.Every, f.o.Keep = time.Minute, time.Hour
	var now atomic.Int64
	f.o.Now = func() time.Time { return time.Unix(now.Load(), 0) }
	now.Store(1e9)
	f.reopenArchive()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); f.a.Run(ctx) }()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		f.commit(5)
		now.Add(60)
		_, states, err := List(ctx, f.place)
		if err == nil && len(states) > 3 && states[0].Base.Taken.Unix() > 1e9+3600 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d bases, %v, %+v", len(states), err, f.a.Status())
		}
	}
	f.commit(50)
	cancel()
	<-ended
	f.verify(0)
	f.wantRestored(0, f.n)
	if s := f.a.Status(); s.Failures > 0 || s.LogBytes == 0 || s.BaseBytes == 0 {
		t.Errorf("%+v", s)
	}
}
