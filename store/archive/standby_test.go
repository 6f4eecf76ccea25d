package archive

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"filippo.io/age"

	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

var promotions = flag.Int("promotions", 10, "how often TestNeverTwoOwners promotes a standby")

// An heir is a standby of a fixture's store. The field own is the standby's open store.
type heir struct {
	*fixture
	*Standby
	folder string
	own    *lsm.Store
	shown  int // number of times that a state was shown
}

func newHeir(f *fixture, change ...func(*StandbyOptions)) *heir {
	f.Helper()
	h := &heir{fixture: f, folder: filepath.Join(f.TempDir(), "standby")}
	o := StandbyOptions{Folder: h.folder, Place: f.place, Poll: time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	h.Standby = NewStandby(o)
	f.Cleanup(h.close)
	return h
}

func (h *heir) close() {
	if h.own != nil {
		h.own.Close()
		h.own = nil
	}
}

// open opens the standby's store, as a server does when it starts.
func (h *heir) open() {
	h.Helper()
	h.close()
	role, err := h.Prepare(context.Background())
	if err != nil || role == Promoted {
		h.Fatal(role, err)
	}
	h.own, err = lsm.Open(lsm.Options{Path: h.folder, MemTable: 64 << 10, Follow: true})
	h.must(err)
	h.must(h.Follow(h.own, func(context.Context) error { h.shown++; return nil }))
}

// TestStandbyPause checks that polls are frequent while pieces come and for some polls after
// the last one, and rare while the archive cannot be reached.
func TestStandbyPause(t *testing.T) {
	s := NewStandby(StandbyOptions{})
	for _, c := range []struct {
		failures, quiet int
		want            time.Duration
	}{
		{0, 0, 250 * time.Millisecond},
		{0, 3, 250 * time.Millisecond},
		{0, 4, time.Second},
		{1, 1, 2 * time.Second},
		{3, 9, 8 * time.Second},
		{100, 100, 10 * time.Second},
	} {
		if got := s.pause(c.failures, c.quiet); got != c.want {
			t.Errorf("after %d failures and %d polls without a piece: %v, want %v", c.failures, c.quiet, got, c.want)
		}
	}
}

// poll polls until the standby has what the archive has.
func (h *heir) poll() {
	h.Helper()
	for range 100 {
		err := h.Poll(context.Background())
		if errors.Is(err, ErrNextBase) {
			h.open()
			continue
		}
		h.must(err)
		return
	}
	h.Fatal("there is always another base")
}

// want checks the number of commits that the standby has.
func (h *heir) want(count int) {
	h.Helper()
	h.must(h.own.Close())
	h.own = nil
	if n := rows(h.T, h.folder); n != count {
		h.Errorf("the standby has %d commits, want %d", n, count)
	}
	h.open()
}

// TestStandby follows a store that commits, loads and is opened again, while bases and
// pieces are archived and some calls of the place fail. The standby must always have the
// archived commits, even after it was opened again.
func TestStandby(t *testing.T) {
	f := newFixture(t)
	f.place = flaky{f.place, 0.05}
	f.reopenArchive()
	ctx := context.Background()
	rnd := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	f.commit(3)
	again := func(do func(context.Context) error) {
		t.Helper()
		for range 100 {
			if err := do(ctx); !errors.Is(err, errFlaky) {
				f.must(err)
				return
			}
		}
		t.Fatal("the place always fails")
	}
	again(f.a.Pieces)
	h := newHeir(f)
	h.open()
	bases := 0
	for round := range 60 {
		f.commit(1 + rnd.IntN(40))
		switch rnd.IntN(15) {
		case 0:
			again(f.a.Base)
		case 1:
			f.load()
			bases++
		case 2:
			f.must(f.store.Close())
			f.open()
		case 3:
			h.open()
		}
		again(f.a.Pieces)
		again(func(ctx context.Context) error {
			err := h.Poll(ctx)
			if errors.Is(err, ErrNextBase) {
				h.open()
				return errFlaky
			}
			return err
		})
		if round%5 == 0 {
			h.want(f.n)
		}
	}
	h.want(f.n)
	if s := h.Status(); h.shown == 0 || s.Newest != f.revs[f.n-1] || s.CaughtUp.IsZero() || s.Epoch < Epoch(min(bases, 2)) {
		t.Errorf("shown %d times, %+v", h.shown, s)
	}
}

// TestStandbyOverlap checks that a standby can follow overlapping pieces. Pieces overlap
// if the primary does not learn that a piece has arrived.
func TestStandbyOverlap(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	p := &lossy{Place: f.place}
	f.place = p
	f.reopenArchive()
	f.commit(1)
	f.must(f.a.Base(ctx))
	h := newHeir(f)
	h.open()
	for range 5 {
		f.commit(3)
		f.must(f.a.Pieces(ctx))
		h.poll()
		f.commit(3)
		p.lose = true
		if err := f.a.Pieces(ctx); !errors.Is(err, errFlaky) {
			t.Fatal(err)
		}
		p.lose = false
		h.poll() // the standby applies the piece, although the primary does not know that it arrived
		if h.Status().Newest != f.revs[f.n-1] {
			t.Fatal("the piece was not applied")
		}
		f.commit(3)
		f.must(f.a.Pieces(ctx)) // this piece begins where the lost piece began
		h.poll()
		h.want(f.n)
	}
}

// lossy is a place. While lose is set, Put stores the object but returns an error.
type lossy struct {
	Place
	lose bool
}

// Put implements Place.
func (l *lossy) Put(ctx context.Context, name string, r io.Reader) error {
	err := l.Place.Put(ctx, name, r)
	if err == nil && l.lose {
		err = errFlaky
	}
	return err
}

// TestStandbyFaults checks what a standby does with objects that it cannot use: it
// reports a clear error, keeps what it has, and continues as soon as it can.
func TestStandbyFaults(t *testing.T) {
	ctx := context.Background()
	last := func(f *fixture) (path string) {
		x, err := ReadIndex(ctx, f.place)
		f.must(err)
		return f.place.(folder).path(x.Pieces[len(x.Pieces)-1].Name)
	}
	for name, c := range map[string]struct {
		spoil func(f *fixture) (repair func())
		want  error
		text  string
	}{
		"a flipped bit": {func(f *fixture) func() {
			path := last(f)
			whole, err := os.ReadFile(path)
			f.must(err)
			bad := append([]byte(nil), whole...)
			bad[len(bad)/2] ^= 8
			write(f.T, path, bad)
			return func() { write(f.T, path, whole) }
		}, ErrDamaged, "checksum mismatch"},
		"a missing piece": {func(f *fixture) func() {
			path := last(f)
			whole, err := os.ReadFile(path)
			f.must(err)
			f.must(os.Remove(path))
			f.commit(2)
			f.must(f.a.Pieces(ctx))
			return func() { write(f.T, path, whole) }
		}, ErrDamaged, "are missing"},
		"another store": {func(f *fixture) func() {
			was, err := ReadOwner(ctx, f.place)
			f.must(err)
			o := *was
			o.Store = "another"
			f.must(o.write(ctx, f.place, was))
			return func() {
				now, err := ReadOwner(ctx, f.place)
				f.must(err)
				f.must(was.write(ctx, f.place, now))
			}
		}, ErrForeign, "than this standby's"},
		"a newer version": {func(f *fixture) func() {
			was, err := ReadOwner(ctx, f.place)
			f.must(err)
			o := *was
			o.Format++
			f.must(o.write(ctx, f.place, was))
			return func() {
				b, err := os.ReadFile(f.place.(folder).path(ownerName))
				f.must(err)
				write(f.T, f.place.(folder).path(ownerName), []byte(strings.Replace(string(b), `"Format": 2`, `"Format": 1`, 1)))
			}
		}, table.ErrNewer, "use a newer program"},
		"no owner": {func(f *fixture) func() {
			b, err := os.ReadFile(f.place.(folder).path(ownerName))
			f.must(err)
			f.must(f.place.Delete(ctx, ownerName))
			return func() { write(f.T, f.place.(folder).path(ownerName), b) }
		}, ErrDamaged, "has no owner"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.commit(5)
			f.must(f.a.Base(ctx))
			h := newHeir(f)
			h.open()
			f.commit(5)
			f.must(f.a.Pieces(ctx))
			h.poll()
			f.commit(5)
			f.must(f.a.Pieces(ctx))
			repair := c.spoil(f)
			for range looks + 2 { // a missing piece is found by a complete listing
				if err := h.Poll(ctx); err != nil {
					break
				}
			}
			s := h.Status()
			if !errors.Is(s.Failure, c.want) || !strings.Contains(s.Failure.Error(), c.text) || s.Failures != 1 {
				t.Errorf("%+v", s)
			}
			h.want(10)
			repair()
			h.poll()
			h.want(f.n)
			if s := h.Status(); s.Failure != nil {
				t.Errorf("the failure is still there: %v", s.Failure)
			}
		})
	}
}

// TestStandbyPassesDamage checks that a standby continues from a later base if a piece
// stays damaged, and begins with an earlier base if the newest base is damaged.
func TestStandbyPassesDamage(t *testing.T) {
	f, h := followed(t)
	ctx := context.Background()
	f.commit(5)
	f.must(f.a.Pieces(ctx))
	x, err := ReadIndex(ctx, f.place)
	f.must(err)
	write(t, f.place.(folder).path(x.Pieces[0].Name), []byte("damaged"))
	if err := h.Poll(ctx); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	f.commit(5)
	f.must(f.a.Pieces(ctx))
	f.must(f.a.Base(ctx))
	h.poll()
	h.want(f.n)
	// The newest base is damaged: another standby begins with an earlier base, and can follow
	// up to the damaged piece.
	x, err = ReadIndex(ctx, f.place)
	f.must(err)
	write(t, f.place.(folder).path(x.Bases[len(x.Bases)-1].Name), []byte("damaged"))
	other := newHeir(f)
	other.open()
	if err := other.Poll(ctx); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	other.close()
	if n := rows(t, other.folder); n != 5 {
		t.Errorf("it has %d commits", n)
	}
}

// followed returns a primary with five commits in its archive, and a standby of it.
func followed(t *testing.T) (*fixture, *heir) {
	f := newFixture(t)
	f.commit(5)
	f.must(f.a.Base(context.Background()))
	h := newHeir(f)
	h.open()
	return f, h
}

// TestStandbyShowFails follows with a function show that fails at first. Until a state is
// shown, the standby's status must not report the commits of that state.
func TestStandbyShowFails(t *testing.T) {
	f, h := followed(t)
	ctx := context.Background()
	h.poll()
	was := h.Status()
	failure, shown := errors.New("not now"), 0
	f.must(h.Follow(h.own, func(context.Context) error {
		if shown++; shown <= 2 {
			return failure
		}
		return nil
	}))
	f.commit(5)
	f.must(f.a.Pieces(ctx))
	for range 2 {
		err := h.Poll(ctx)
		if s := h.Status(); !errors.Is(err, failure) || s.Newest != was.Newest || s.CaughtUp != was.CaughtUp {
			t.Errorf("%v, %+v", err, s)
		}
	}
	f.must(h.Poll(ctx))
	if s := h.Status(); shown != 3 || s.Newest != f.revs[f.n-1] || !s.CaughtUp.After(was.CaughtUp) {
		t.Errorf("shown %d times, %+v", shown, s)
	}
}

// TestStandbySealed checks that a standby needs the identity of a sealed archive.
func TestStandbySealed(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	id, err := age.GenerateX25519Identity()
	f.must(err)
	other, err := age.GenerateX25519Identity()
	f.must(err)
	f.o.Seal, err = ParseSeal([]string{id.Recipient().String()})
	f.must(err)
	f.reopenArchive()
	f.commit(5)
	f.must(f.a.Base(ctx))
	f.commit(5)
	f.must(f.a.Pieces(ctx))
	for _, keys := range []Keys{nil, {other}} {
		h := newHeir(f, func(o *StandbyOptions) { o.Keys = keys })
		if _, err := h.Prepare(ctx); !errors.Is(err, ErrSealed) {
			t.Error(err)
		}
	}
	h := newHeir(f, func(o *StandbyOptions) { o.Keys = Keys{id} })
	h.open()
	h.poll()
	h.want(f.n)
}

// TestStandbyFolders checks in which folders a standby begins, and that a standby
// completes an interrupted change to the next base.
func TestStandbyFolders(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.commit(5)
	f.must(f.a.Base(ctx))
	if _, err := NewStandby(StandbyOptions{Folder: f.folder, Place: f.place}).Prepare(ctx); !errors.Is(err, ErrNoStandby) {
		t.Error("a store of its own:", err)
	}
	h := newHeir(f)
	f.must(os.MkdirAll(h.folder, 0o700))
	write(t, filepath.Join(h.folder, "letter"), nil)
	if _, err := h.Prepare(ctx); err == nil {
		t.Error("it began in a folder with other files")
	}
	f.must(os.Remove(filepath.Join(h.folder, "letter")))
	h.open()
	f.load() // ends the epoch
	f.must(f.a.Pieces(ctx))
	if err := h.Poll(ctx); !errors.Is(err, ErrNextBase) {
		t.Fatal(err)
	}
	h.close()
	// Simulate a process that was killed while the next base replaced the store.
	f.must(os.Remove(filepath.Join(h.folder, "ldapd.store")))
	names, err := filepath.Glob(filepath.Join(h.folder, nextBase, "*.sst"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	f.must(os.Rename(names[0], filepath.Join(h.folder, filepath.Base(names[0]))))
	h.open()
	h.want(f.n)
	if _, err := os.Stat(filepath.Join(h.folder, nextBase)); err == nil {
		t.Error("the folder of the base is left")
	}
}

// TestStandbyDiskFull checks that a standby whose disk fills during a base keeps serving
// what it has, and leaves nothing behind.
func TestStandbyDiskFull(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.commit(5)
	f.must(f.a.Base(ctx))
	p := &cramped{Place: f.place}
	h := newHeir(f, func(o *StandbyOptions) { o.Place = p })
	h.open()
	f.load()
	f.must(f.a.Pieces(ctx))
	p.full = true
	if err := h.Poll(ctx); !errors.Is(err, syscall.ENOSPC) || h.Status().Failures != 1 {
		t.Error(err, h.Status())
	}
	if _, err := os.Stat(filepath.Join(h.folder, nextBase)); err == nil {
		t.Error("half a base is left")
	}
	h.want(5)
	p.full = false
	h.poll()
	h.want(f.n)
}

// cramped is a place. While full is set, reading a file of the place fails with the error
// that a copy to a full disk would cause.
type cramped struct {
	Place
	full bool
}

// Get implements Place.
func (c *cramped) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := c.Place.Get(ctx, name)
	if err == nil && c.full && strings.HasPrefix(name, filePrefix) {
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(r, 100), iotest.ErrReader(syscall.ENOSPC)), r}, nil
	}
	return r, err
}

// reopened opens the store of a promoted standby, and returns it as a fixture.
func (h *heir) reopened(n int) *fixture {
	h.Helper()
	h.close()
	next := &fixture{T: h.T, folder: h.folder, place: h.fixture.place, o: h.fixture.o, n: n, revs: h.revs[:n:n]}
	next.open()
	h.Cleanup(func() { next.store.Close() })
	return next
}

// TestPromote checks that a promoted store continues the archive. The old primary must be
// refused, and must report how many of its commits were not taken over.
func TestPromote(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.commit(5)
	f.must(f.a.Base(ctx))
	h := newHeir(f)
	second := newHeir(f)
	h.open()
	second.open()
	f.commit(5)
	f.must(f.a.Pieces(ctx)) // the promotion applies this piece
	f.commit(3)             // these commits are never archived
	p, err := h.Promote(ctx, false)
	f.must(err)
	if p.Epoch != 2 || p.Newest != f.revs[9] {
		t.Errorf("%+v", p)
	}
	// A piece that the old primary was still sending when the owner changed must not be
	// applied.
	was := *f.a.st
	_, err = f.a.piece(ctx)
	f.must(err)
	f.a.st = &was
	f.must(h.Poll(ctx))
	if mark, err := h.own.Mark(); mark != nil || err != nil {
		t.Errorf("the promoted store follows again: %s, %v", mark, err)
	}
	for _, do := range []func(context.Context) error{f.a.Pieces, f.a.Base, f.a.Check} {
		if err := do(ctx); !errors.Is(err, ErrTakenOver) || !strings.Contains(err.Error(), "3 commits of this store") {
			t.Error("the old primary:", err)
		}
	}
	if err := f.a.Lost(); !errors.Is(err, ErrTakenOver) {
		t.Error("the old primary may still write:", err)
	}
	if role, err := h.Prepare(ctx); role != Promoted || err != nil {
		t.Error(role, err)
	}
	n := h.reopened(10)
	n.commit(4)
	n.must(n.a.Pieces(ctx))
	if err := n.a.Lost(); err != nil {
		t.Error(err)
	}
	n.wantRestored(0, 14)
	second.fixture = n
	second.poll()
	second.want(14)
	// The old primary's folder cannot become a standby, but a new folder can.
	f.must(f.store.Close())
	if _, err := NewStandby(StandbyOptions{Folder: f.folder, Place: f.place}).Prepare(ctx); !errors.Is(err, ErrNoStandby) {
		t.Error(err)
	}
	// The second standby is promoted too. After that, the first one must be refused.
	if _, err := second.Promote(ctx, false); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Prepare(ctx); !errors.Is(err, ErrTakenOver) {
		t.Error("the first one serves on:", err)
	}
}

// TestPromoteLastPiece makes the primary archive a piece just before the owner changes.
// The promotion must apply that piece.
func TestPromoteLastPiece(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.commit(5)
	f.must(f.a.Base(ctx))
	p := &busy{Place: f.place}
	h := newHeir(f, func(o *StandbyOptions) { o.Place = p })
	h.open()
	p.before = func() {
		f.commit(5)
		f.must(f.a.Pieces(ctx))
	}
	done, err := h.Promote(ctx, false)
	f.must(err)
	h.close()
	if n := rows(t, h.folder); n != 10 || done.Newest != f.revs[9] {
		t.Errorf("%d commits were taken over: %+v", n, done)
	}
}

// stuck is a place. If began is set, reads of files hang until their context ends or release is
// closed.
type stuck struct {
	Place
	began   chan struct{} // receives when a read hangs
	release chan struct{}
	deaf    bool // hanging reads do not notice the end of their context
}

// Get implements Place.
func (s *stuck) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if strings.HasPrefix(name, filePrefix) && s.began != nil {
		select {
		case s.began <- struct{}{}:
		default:
		}
		if s.deaf {
			ctx = context.Background()
		}
		select {
		case <-s.release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Place.Get(ctx, name)
}

// newStuck returns a standby that hangs while it restores its next base.
func newStuck(f *fixture, deaf bool) (h *heir, p *stuck, polled chan error) {
	f.Helper()
	f.commit(5)
	f.must(f.a.Base(context.Background()))
	p = &stuck{Place: f.place, deaf: deaf, release: make(chan struct{})}
	h = newHeir(f, func(o *StandbyOptions) { o.Place = p })
	h.open()
	f.load() // ends the epoch
	f.must(f.a.Pieces(context.Background()))
	p.began = make(chan struct{}, 1)
	polled = make(chan error, 1)
	go func() { polled <- h.Poll(context.Background()) }()
	<-p.began
	return h, p, polled
}

// TestPromoteDuringRestore promotes a standby while it restores the next base from an
// archive that hangs. The promotion must discard that base and promote the open store.
func TestPromoteDuringRestore(t *testing.T) {
	f := newFixture(t)
	h, _, polled := newStuck(f, false)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := h.Promote(ctx, true); err != nil {
		t.Fatal(err)
	}
	if err := <-polled; err != nil || h.Status().Failures != 0 {
		t.Error("the poll:", err, h.Status())
	}
	if _, err := os.Stat(filepath.Join(h.folder, nextBase)); err == nil {
		t.Error("half a base is left")
	}
	if mark, err := h.own.Mark(); mark != nil || err != nil {
		t.Errorf("the store still follows: %s, %v", mark, err)
	}
	h.close()
	if n := rows(t, h.folder); n != 5 {
		t.Errorf("%d commits", n)
	}
}

// TestPromoteHangs promotes a standby while a read of the archive hangs and does not
// notice the end of its context. Promote must return when its own context ends. If the
// base is completed after that, the standby must use it before it can be promoted.
func TestPromoteHangs(t *testing.T) {
	f := newFixture(t)
	h, p, polled := newStuck(f, true)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.Promote(ctx, true); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	close(p.release)
	if err := <-polled; !errors.Is(err, context.Canceled) {
		t.Error("the poll:", err)
	}
	if err := h.Poll(context.Background()); !errors.Is(err, ErrNextBase) {
		t.Error("the next poll:", err)
	}
	if _, err := h.Promote(context.Background(), true); !errors.Is(err, ErrNextBase) {
		t.Error("promoted although the next base is complete:", err)
	}
	h.open()
	if _, err := h.Promote(context.Background(), true); err != nil {
		t.Error(err)
	}
	h.close()
	if n := rows(t, h.folder); n != f.n {
		t.Errorf("%d commits, want %d", n, f.n)
	}
}

// TestPromoteFails makes a promotion fail at its last change of the store. The standby
// must continue to follow.
func TestPromoteFails(t *testing.T) {
	f := newFixture(t)
	f.commit(5)
	f.must(f.a.Base(context.Background()))
	h := newHeir(f)
	h.open()
	h.must(h.own.Close())
	if _, err := h.Promote(context.Background(), true); !errors.Is(err, table.ErrClosed) {
		t.Fatal(err)
	}
	f.commit(5)
	f.must(f.a.Pieces(context.Background()))
	if err := h.Poll(context.Background()); err == nil || h.Status().Failures != 1 {
		t.Errorf("the poll hides that it applies nothing: %v", err)
	}
	h.open()
	h.poll()
	h.want(10)
}

// busy is a place that calls a function once, immediately before the owner is first
// changed. The function simulates what others do at that moment.
type busy struct {
	Place
	before func()
}

// Swap implements Place.
func (b *busy) Swap(ctx context.Context, name, tag string, data []byte) error {
	if do := b.before; do != nil && name == ownerName {
		b.before = nil
		do()
	}
	return b.Place.Swap(ctx, name, tag, data)
}

// TestPromoteInterrupted interrupts a promotion at each of its calls to the archive. After
// the next start, either the promotion must be completed, or the standby must continue to
// follow.
func TestPromoteInterrupted(t *testing.T) {
	ctx := context.Background()
	for step := 0; ; step++ {
		f := newFixture(t)
		f.commit(5)
		f.must(f.a.Base(ctx))
		p := &limited{Place: f.place, left: 1 << 30}
		h := newHeir(f, func(o *StandbyOptions) { o.Place = p })
		h.open()
		f.commit(5)
		f.must(f.a.Pieces(ctx))
		p.left = step
		_, err := h.Promote(ctx, false)
		p.left = 1 << 30
		if err == nil {
			if step < 4 {
				t.Errorf("a promotion needs only %d calls", step)
			}
			return
		}
		h.close()
		owner, err := ReadOwner(ctx, f.place)
		f.must(err)
		want := Follower
		if owner.Epoch == 2 {
			want = Promoting
		}
		if role, err := h.Prepare(ctx); role != want || err != nil {
			t.Errorf("step %d: after a restart it has the role %d, want %d (%v)", step, role, want, err)
		}
		h.open()
		if _, err := h.Promote(ctx, false); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		n := h.reopened(10)
		n.commit(1)
		n.must(n.a.Pieces(ctx))
		n.wantRestored(0, 11)
		if err := f.a.Pieces(ctx); !errors.Is(err, ErrTakenOver) {
			t.Errorf("step %d: the old primary: %v", step, err)
		}
	}
}

// limited is a place that fails after a number of calls of Swap, Read and List. The field left
// is the number of these calls that still succeed. A Swap that fails has nevertheless done its
// work.
type limited struct {
	Place
	left int
}

func (l *limited) call() error {
	if l.left--; l.left < 0 {
		return errFlaky
	}
	return nil
}

// Swap implements Place.
func (l *limited) Swap(ctx context.Context, name, tag string, data []byte) error {
	return errors.Join(l.Place.Swap(ctx, name, tag, data), l.call())
}

// Read implements Place.
func (l *limited) Read(ctx context.Context, name string) (b []byte, tag string, err error) {
	if err := l.call(); err != nil {
		return nil, "", err
	}
	return l.Place.Read(ctx, name)
}

// List implements Place.
func (l *limited) List(ctx context.Context, prefix string) ([]Object, error) {
	if err := l.call(); err != nil {
		return nil, err
	}
	return l.Place.List(ctx, prefix)
}

// TestPromoteWithoutArchive checks that a standby whose archive cannot be reached can be
// promoted, and that it takes over the archive when the archive can be reached again.
func TestPromoteWithoutArchive(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.commit(5)
	f.must(f.a.Base(ctx))
	p := &limited{Place: f.place, left: 1 << 30}
	h := newHeir(f, func(o *StandbyOptions) { o.Place = p })
	h.open()
	p.left = 0
	if _, err := h.Promote(ctx, false); !errors.Is(err, errFlaky) {
		t.Error(err)
	}
	if _, err := h.Promote(ctx, true); err != nil {
		t.Fatal(err)
	}
	if role, err := h.Prepare(ctx); role != Promoted || err != nil {
		t.Error(role, err)
	}
	n := h.reopened(5)
	n.commit(2)
	n.must(n.a.Pieces(ctx))
	n.wantRestored(0, 7)
	f.commit(1)
	if err := f.a.Pieces(ctx); !errors.Is(err, ErrTakenOver) {
		t.Error(err)
	}
}

// TestNeverTwoOwners promotes a standby while the primary commits and archives. After the
// promotion, the old primary must not archive any more, and must report how many of its commits
// were not taken over. The new store must have everything that was archived when the promotion
// began, and must be able to continue the archive.
func TestNeverTwoOwners(t *testing.T) {
	ctx := context.Background()
	for range *promotions {
		f := newFixture(t)
		f.commit(5)
		f.must(f.a.Base(ctx))
		h := newHeir(f)
		h.open()
		var archived atomic.Int64 // number of archived commits
		var promoted atomic.Bool
		var primary sync.WaitGroup
		primary.Go(func() {
			for {
				switch lost := f.a.Lost(); {
				case lost == nil:
					f.commit(1 + rand.IntN(3))
				case strings.Contains(lost.Error(), "were not taken over"):
					return
				}
				late := promoted.Load()
				switch err := f.a.Pieces(ctx); {
				case err == nil && late:
					t.Error("the old primary archives after the promotion")
					return
				case err == nil:
					archived.Store(int64(f.n))
				case !errors.Is(err, ErrTakenOver):
					t.Error(err)
					return
				}
			}
		})
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		for range rand.IntN(5) {
			h.poll()
		}
		before := int(archived.Load())
		p, err := h.Promote(ctx, false)
		f.must(err)
		promoted.Store(true)
		primary.Wait()
		h.close()
		n := rows(t, h.folder)
		if n < before || p.Newest != f.revs[n-1] {
			t.Errorf("%d commits were taken over, %d were archived before", n, before)
		}
		if err := f.a.Lost(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf(" %d commits", f.n-n)) {
			t.Errorf("%d commits were not taken over, and the old primary says %v", f.n-n, err)
		}
		next := h.reopened(n)
		next.commit(3)
		next.must(next.a.Pieces(ctx))
		x, err := ReadIndex(ctx, f.place)
		f.must(err)
		for _, b := range x.Bases {
			if b.Epoch != 1 && b.Epoch != p.Epoch+1 {
				t.Errorf("a base of epoch %d", b.Epoch)
			}
		}
		next.wantRestored(0, next.n)
	}
}
