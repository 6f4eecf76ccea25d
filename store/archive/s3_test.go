package archive

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// A store3 is a bucket of an S3 server in this process.
type store3 struct {
	Place
	ignores atomic.Bool // the server ignores conditions
	// fails makes a tenth of the requests return 403, half of them after they were
	// executed.
	fails atomic.Bool
	down  atomic.Bool // every request returns 503
	posts atomic.Int64
}

func newS3(t *testing.T) *store3 {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	s := &store3{}
	inner := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.ignores.Load() {
			r.Header.Del("If-Match")
			r.Header.Del("If-None-Match")
		}
		s.posts.Add(1)
		switch {
		case s.down.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case s.fails.Load() && rand.IntN(20) == 0:
			inner.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusForbidden) // the client does not retry after this status
		case s.fails.Load() && rand.IntN(20) == 0:
			w.WriteHeader(http.StatusForbidden)
		default:
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	var err error
	if s.Place, err = OpenPlace("s3+http://" + strings.TrimPrefix(server.URL, "http://") + "/bucket/a/b/"); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPlaces checks that a folder and a bucket behave in the same way.
func TestPlaces(t *testing.T) {
	t.Run("folder", func(t *testing.T) { testPlace(t, folder(filepath.Join(t.TempDir(), "x"))) })
	t.Run("s3", func(t *testing.T) { testPlace(t, newS3(t).Place) })
}

func testPlace(t *testing.T, p Place) {
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if all, err := p.List(ctx, "log/"); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	if _, err := p.Get(ctx, "log/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 2<<20) // two parts of a multipart upload
	must(p.Put(ctx, "log/1/b", io.MultiReader(bytes.NewReader(big))))
	must(p.Put(ctx, "log/1/a", strings.NewReader("a")))
	must(p.Put(ctx, "file/c", bytes.NewReader([]byte("c"))))
	all, err := p.List(ctx, "log/")
	if err != nil || len(all) != 2 || all[0] != (Object{"log/1/a", 1}) || all[1] != (Object{"log/1/b", int64(len(big))}) {
		t.Fatal(all, err)
	}
	r, err := p.Get(ctx, "log/1/b")
	must(err)
	if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, big) {
		t.Fatal(len(b), err)
	}
	must(r.Close())
	if b, tag, err := p.Read(ctx, "owner"); len(b) > 0 || tag != "" || err != nil {
		t.Fatal(b, tag, err)
	}
	must(p.Swap(ctx, "owner", "", []byte("one")))
	if err := p.Swap(ctx, "owner", "", []byte("two")); !errors.Is(err, ErrChanged) {
		t.Fatal(err)
	}
	b, tag, err := p.Read(ctx, "owner")
	if string(b) != "one" || tag == "" || err != nil {
		t.Fatal(b, tag, err)
	}
	must(p.Swap(ctx, "owner", tag, []byte("three")))
	if err := p.Swap(ctx, "owner", tag, []byte("four")); !errors.Is(err, ErrChanged) {
		t.Fatal(err)
	}
	if ok, err := p.Conditions(ctx); !ok || err != nil {
		t.Fatal(ok, err)
	}
	must(p.Delete(ctx, "file/c"))
	must(p.Delete(ctx, "file/c"))
	if all, err := p.List(ctx, ""); err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
}

// TestBucketIgnoresConditions checks that a bucket that ignores conditions is detected,
// and that Swap still finds an owner that was written earlier.
func TestBucketIgnoresConditions(t *testing.T) {
	s := newS3(t)
	s.ignores.Store(true)
	ctx := context.Background()
	if ok, err := s.Conditions(ctx); ok || err != nil {
		t.Error(ok, err)
	}
	if err := s.Swap(ctx, "owner", "", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := s.Swap(ctx, "owner", "", []byte("two")); !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
}

// TestArchiveInABucket checks that everything that was archived can be restored,
// although a tenth of the requests fail.
func TestArchiveInABucket(t *testing.T) {
	f := newFixture(t)
	s := newS3(t)
	f.place = s.Place
	f.reopenArchive()
	ctx := context.Background()
	s.fails.Store(true)
	for range 20 {
		f.commit(20)
		f.untilDone(func() error { return f.a.Pieces(ctx) })
	}
	f.untilDone(func() error { return f.a.Base(ctx) })
	s.fails.Store(false)
	_, err := f.a.Thin(ctx)
	f.must(err)
	f.wantRestored(0, f.n)
	f.verify(0)
	if s.posts.Load() < 40 {
		t.Error("the bucket was not asked")
	}
}

// TestStandbyInABucket follows a bucket, which is down for a while. Meanwhile primary and
// standby report failures, and afterwards both continue in the same epoch. A standby
// cannot take over a bucket that ignores conditions.
func TestStandbyInABucket(t *testing.T) {
	f := newFixture(t)
	s := newS3(t)
	f.place = s.Place
	f.reopenArchive()
	ctx := context.Background()
	f.commit(20)
	f.must(f.a.Pieces(ctx))
	h := newHeir(f)
	h.open()
	for range 5 {
		f.commit(20)
		f.must(f.a.Pieces(ctx))
		h.poll()
	}
	h.want(f.n)
	s.down.Store(true)
	f.commit(20)
	if err := f.a.Pieces(ctx); err == nil || f.a.Status().Failures != 1 {
		t.Error("the archiver:", err)
	}
	if err := h.Poll(ctx); err == nil || h.Status().Failures != 1 {
		t.Error("the standby:", err)
	}
	if _, err := h.Promote(ctx, false); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Error("a promotion:", err)
	}
	s.down.Store(false)
	f.must(f.a.Pieces(ctx))
	h.poll()
	h.want(f.n)
	if st := h.Status(); st.Epoch != 1 || st.Failure != nil {
		t.Errorf("%+v", st)
	}
	s.ignores.Store(true)
	if _, err := h.Promote(ctx, false); err == nil || !strings.Contains(err.Error(), "without the archive") {
		t.Error("a promotion:", err)
	}
	f.commit(1)
	f.must(f.a.Pieces(ctx)) // the refused promotion changed nothing
	s.ignores.Store(false)
	if _, err := h.Promote(ctx, false); err != nil {
		t.Error(err)
	}
	if err := f.a.Pieces(ctx); !errors.Is(err, ErrTakenOver) {
		t.Error("the old primary:", err)
	}
}

// untilDone calls do until it succeeds, up to 200 times.
func (f *fixture) untilDone(do func() error) {
	f.Helper()
	var err error
	for range 200 {
		if err = do(); err == nil {
			return
		}
	}
	f.Fatal(err)
}

func TestOpenPlace(t *testing.T) {
	for text, good := range map[string]bool{
		"/mnt/x": true, "x": true, "s3://h/b": true, "s3://h:9000/b/c/d": true, "s3+http://h/b": true,
		"": false, "s3://h": false, "s3:///b": false, "ftp://h/b": false, "s3://u:p@h/b": false, "s3://h/b?x": false,
	} {
		if p, err := OpenPlace(text); (err == nil) != good || good && p.String() != text {
			t.Errorf("%q: %v %v", text, p, err)
		}
	}
}
