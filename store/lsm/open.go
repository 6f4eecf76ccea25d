package lsm

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

func (s *Store) open() (err error) {
	if s.o.Path == "" {
		return errors.New("no folder given")
	}
	s.disk = s.newDisk()
	if err := s.folder.acquire(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.folder.release()
		}
	}()
	if err := s.folder.checkHeader(); err != nil {
		return err
	}
	if err := s.folder.findFormat(); err != nil {
		return err
	}
	if err := s.endings.check(); err != nil {
		return err
	}
	if err := errors.Join(s.folder.removeStale(), s.kept.drop()); err != nil {
		return err
	}
	if err := s.openPebble(); err != nil {
		return err
	}
	if !s.o.ReadOnly {
		s.o.FS.Remove(s.o.FS.PathJoin(s.o.Path, endingFile)) // void since Pebble wrote a manifest
	}
	s.iters.init(s.db, &s.m)
	s.tables.db = s.db
	if err := errors.Join(s.checkMark(), s.tables.load(), s.folder.writeHeader()); err != nil {
		return errors.Join(err, s.endPebble())
	}
	s.commits.syncs.start(s)
	s.watchSpace()
	return nil
}

func (s *Store) newDisk() *disk { return newDisk(s.o.FS, s.o.Path, s.o.Reserve, s.o.Logf) }

// watchSpace starts to maintain the reserve and to watch the free space. It does nothing
// if the store is not writable.
func (s *Store) watchSpace() {
	s.ended = make(chan struct{})
	if s.o.ReadOnly || s.shut != nil {
		close(s.ended)
		return
	}
	s.disk.keep()
	go s.disk.watch(s.ended)
}

// errNoRoom: the disk has too little space to open the store for writing.
var errNoRoom = errors.New("the disk is full")

// openPebble opens the database. If there is too little space to open it for writing,
// openPebble opens an existing store only for reading and sets s.shut.
func (s *Store) openPebble() error {
	if s.o.ReadOnly {
		return s.openReadOnly()
	}
	reserve := s.disk.find()
	err := s.openWritable()
	if errors.Is(err, errNoRoom) && reserve {
		s.disk = s.newDisk()
		err = s.openWritable() // this attempt can use the space of the reserve
	}
	if !errors.Is(err, errNoRoom) {
		return err
	}
	s.shut = fmt.Errorf("%w: the disk was full when the store was opened: make some space and start again", table.ErrUnavailable)
	if !s.folder.made {
		return s.shut
	}
	s.disk = s.newDisk()
	s.o.Logf("the disk is too full to open the store for writing: it is served for reading only; make some space and start again")
	return s.openReadOnly()
}

func (s *Store) openReadOnly() (err error) {
	s.popts = s.pebbleOptions(true)
	s.db, err = openDB(s.o.Path, s.popts)
	return err
}

// openWritable opens the database for writing. If the disk is full, openWritable returns
// errNoRoom. Pebble by itself would retry forever.
func (s *Store) openWritable() error {
	s.disk.began()
	s.popts = s.pebbleOptions(false)
	type result struct {
		db  *pebble.DB
		err error
	}
	done := make(chan result, 1)
	go func() {
		db, err := openDB(s.o.Path, s.popts)
		done <- result{db, err}
	}()
	select {
	case r := <-done:
		s.disk.opened()
		s.db = r.db
		return r.err
	case <-s.disk.exhausted:
		s.disk.abandon()
		return errNoRoom
	case <-s.disk.stalled():
		s.disk.abandon()
		return fmt.Errorf("%w: %w", table.ErrUnavailable, s.disk.failed())
	}
}

// openDB opens the database and converts a panic on a bad file into an error.
func openDB(path string, o *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", table.ErrCorrupt, p)
		}
	}()
	defer o.Cache.Unref()
	db, err = pebble.Open(path, o)
	return db, newer(err)
}

// closePatience bounds each wait for a Pebble database that cannot write.
const closePatience = 2 * time.Second

// Close waits until running operations have ended and closes the store. Running scans
// return ErrClosed at their next row. If the disk is full or has failed, Close waits only
// for a bounded time. In this case, writes that are not on disk yet may be lost.
func (s *Store) Close() error {
	var err error
	s.close.Do(func() {
		if s.gate.ops.Add(closedBit) == closedBit {
			close(s.gate.drained)
		}
		err = s.closeAll()
	})
	return err
}

func (s *Store) closeAll() error {
	defer s.folder.release()
	drained := s.await(s.gate.drained)
	s.disk.closing()
	<-s.ended
	if !drained && !s.await(s.gate.drained) {
		s.disk.abandon()
		return s.wrap("close", fmt.Errorf("%w: the disk is full: a write under way was abandoned", table.ErrUnavailable))
	}
	s.commits.syncs.stop()
	s.iters.drain()
	return s.wrap("close", s.endPebble())
}

// endPebble closes the database. If the disk refuses writes and closing takes too long,
// endPebble abandons the database, because Pebble may wait for goroutines that have ended in a
// failure.
func (s *Store) endPebble() error {
	s.disk.closing()
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = s.closePebble()
	}()
	if !s.await(ended) {
		s.disk.abandon()
		return nil
	}
	if s.disk.failed() != nil {
		return nil
	}
	return err
}

// closePebble closes the database. If everything was written, it writes the ending.
func (s *Store) closePebble() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	live := int(s.db.Metrics().WAL.Files)
	if err := s.db.Close(); err != nil || s.o.ReadOnly || s.o.copied || s.shut != nil || s.disk.failed() != nil {
		return err
	}
	if err := s.endings.write(live); err != nil {
		s.o.Logf("the loss of a log would not be noticed: write %s: %v", endingFile, err)
	}
	return nil
}

// await waits until done is closed. While the disk refuses writes, the wait is bounded.
// await reports whether done was closed.
func (s *Store) await(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-s.disk.refusing():
	}
	select {
	case <-done:
		return true
	case <-time.After(s.o.patience):
		return false
	}
}
