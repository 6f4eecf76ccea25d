package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A store that follows another store contains everything that the other store's log
// contains up to some position. The mark of the following store records this position.
// Only increments write to the following store. The mark is written in the same batch as
// the part of the log that it covers, so the mark is right even after a crash.

// markKey is the key of the mark of a store that follows another one. The key belongs to
// no table.
var markKey = []byte{0, 0, 'f'}

var (
	// ErrFollows: the store follows another one and cannot be opened for writing.
	ErrFollows = errors.New("the store belongs to a standby")
	// ErrFollowsNone: the store was opened with Options.Follow but follows no other
	// store.
	ErrFollowsNone = errors.New("the store does not belong to a standby")
)

// Mark returns the mark of the store, or nil if the store follows no other store.
func (s *Store) Mark() ([]byte, error) {
	v, c, err := s.db.Get(markKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return bytes.Clone(v), nil
}

// checkMark checks that Options.Follow is right for the store. It returns an error if the
// store follows another store and is opened for writing without Options.Follow, or if the
// store follows no other store and is opened with Options.Follow.
func (s *Store) checkMark() error {
	if s.o.ReadOnly || s.o.copied {
		return nil
	}
	mark, err := s.Mark()
	switch {
	case err != nil:
		return err
	case mark != nil && !s.o.Follow:
		return ErrFollows
	case mark == nil && s.o.Follow:
		return ErrFollowsNone
	}
	return nil
}

// An Increment is a part of another store's log that is applied in one atomic step.
type Increment struct {
	s       *Store
	b       *pebble.Batch
	x       pebble.Batch // the batch that is being added
	next    Position
	catalog bool // the increment creates or drops tables
}

// keptIncrement is the size in bytes up to which the buffer of an increment is used again
// for later ones. Without reuse, each increment would allocate several times its size.
// While the garbage collector marks a large cache, such allocations have to wait.
const keptIncrement = 16 << 20

// Increment begins an increment at the position up to which the store contains the log.
func (s *Store) Increment(next Position) *Increment {
	return &Increment{s: s, b: s.db.NewBatch(pebble.WithMaxRetainedSizeBytes(keptIncrement)), next: next}
}

// Next returns the position behind the last batch of the increment.
func (i *Increment) Next() Position { return i.next }

// Add adds a batch of the log. It ignores a batch that the store already contains. It
// returns ErrGap if the batch does not follow directly on the last batch.
func (i *Increment) Add(repr []byte) error {
	next, err := follow(i.next, repr)
	if err != nil || next == i.next {
		return err
	}
	if err := i.x.SetRepr(repr); err != nil {
		return fmt.Errorf("%w: batch of the log: %w", table.ErrCorrupt, err)
	}
	if err := i.look(repr); err != nil {
		return err
	}
	i.next = next
	return i.b.Apply(&i.x, nil)
}

// look finds out whether a batch creates or drops tables.
func (i *Increment) look(repr []byte) error {
	for r := batchrepr.Read(repr); len(r) > 0; {
		_, key, _, ok, err := r.Next()
		if err != nil || !ok {
			return fmt.Errorf("%w: batch of the log: %w", table.ErrCorrupt, err)
		}
		if bytes.HasPrefix(key, []byte{0, 0, 't'}) {
			i.catalog = true
		}
	}
	return nil
}

// follow returns the position behind a batch of the log, which must follow the position
// next. If the batch ends at or before next, follow returns next.
func follow(next Position, repr []byte) (Position, error) {
	h, ok := batchrepr.ReadHeader(repr)
	first := Position(h.SeqNum)
	switch {
	case !ok || h.Count == 0:
		return next, fmt.Errorf("%w: a batch without a header", table.ErrCorrupt)
	case first+Position(h.Count) <= next:
		return next, nil
	case first != next:
		return next, fmt.Errorf("%w from %d to %d", ErrGap, next, first)
	}
	return first + Position(h.Count), nil
}

// Apply makes the increment readable and durable, together with a mark. If ctx ends while
// Apply waits for other writers, nothing is applied. A write that has begun is completed
// even if ctx ends, so that the caller knows which mark the store has.
func (i *Increment) Apply(ctx context.Context, mark []byte) error {
	s := i.s
	if err := s.gate.begin(ctx); err != nil {
		return err
	}
	if err := s.gate.acquireFollowing(ctx); err != nil {
		s.gate.end()
		return s.wrap("follow", err)
	}
	done := make(chan struct{})
	var err error
	go func() {
		defer s.gate.endWrite()
		defer close(done)
		err = i.apply(mark)
	}()
	if !s.await(done) {
		return s.wrap("follow", fmt.Errorf("%w: the disk does not answer", table.ErrUnavailable))
	}
	return s.wrap("follow", err)
}

func (i *Increment) apply(mark []byte) (err error) {
	defer i.s.caught(&err)
	if err := i.b.Set(markKey, mark, nil); err != nil {
		return err
	}
	if err := i.s.commits.applyNow(i.b); err != nil {
		return err
	}
	if i.catalog {
		err = i.s.tables.load()
	}
	i.s.iters.changed(0) // the increment may change revisions of any age
	return err
}

// Abandon ends an increment that is not applied.
func (i *Increment) Abandon() error { return i.b.Close() }

// Unfollow removes the mark, so that the store can be opened for writing from then on.
func (s *Store) Unfollow(ctx context.Context) error {
	if err := s.gate.begin(ctx); err != nil {
		return err
	}
	defer s.gate.end()
	if err := s.gate.acquireFollowing(ctx); err != nil {
		return s.wrap("follow", err)
	}
	defer func() { <-s.gate.writing }()
	b := s.db.NewBatch()
	if err := b.Delete(markKey, nil); err != nil {
		return s.wrap("follow", err)
	}
	return s.wrap("follow", s.commits.applyNow(b))
}

// Mark makes the new store follow the store whose log is replayed.
func (r *Replayer) Mark(mark []byte) error { return r.s.db.Set(markKey, mark, pebble.NoSync) }

// IsComplete reports whether a folder contains a complete store.
func IsComplete(path string) (bool, error) { return isComplete(vfs.Default, path) }

func isComplete(on vfs.FS, path string) (bool, error) {
	_, err := on.Stat(on.PathJoin(path, headerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Replace replaces the store in one folder (path) by the store in another folder (from). The
// new store must be complete, and the folders must be on the same file system. No process may
// have either store open. If Replace is interrupted, both folders may be incomplete.
func Replace(path, from string) error { return replaceOn(vfs.Default, path, from) }

func replaceOn(fs vfs.FS, path, from string) error {
	old, err := fs.List(path)
	if err != nil {
		return err
	}
	names, err := fs.List(from)
	if err != nil {
		return err
	}
	if !slices.Contains(names, headerFile) {
		return fmt.Errorf("%s: %w: there is no complete store", from, table.ErrCorrupt)
	}
	if slices.Contains(old, headerFile) {
		if err := errors.Join(fs.Remove(fs.PathJoin(path, headerFile)), syncDir(fs, path)); err != nil {
			return err
		}
	}
	for _, n := range old {
		if isData(n) {
			err = errors.Join(err, fs.Remove(fs.PathJoin(path, n)))
		}
	}
	for _, n := range names {
		if err == nil && isData(n) {
			err = fs.Rename(fs.PathJoin(from, n), fs.PathJoin(path, n))
		}
	}
	if err == nil {
		err = syncDir(fs, path)
	}
	if err == nil {
		err = fs.Rename(fs.PathJoin(from, headerFile), fs.PathJoin(path, headerFile))
	}
	if err = errors.Join(err, syncDir(fs, path)); err != nil {
		return err // keep the remaining files, which may be the only copy
	}
	return fs.RemoveAll(from)
}

// isData reports whether a file is one of Pebble's files, or describes them.
func isData(name string) bool {
	return name == endingFile || vital(name) || strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}
