package lsm

import (
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// closePatience bounds each wait for a Pebble database that cannot write.
const closePatience = 2 * time.Second

// Close waits until running operations have ended and closes the store. Running scans
// return ErrClosed at their next row. If the disk is full or has failed, Close waits only
// for a bounded time. In this case, writes that are not on disk yet may be lost.
func (s *Store) Close() error {
	var err error
	s.close.Do(func() {
		if s.ops.Add(closedBit) == closedBit {
			close(s.drained)
		}
		err = s.closeAll()
	})
	return err
}

func (s *Store) closeAll() error {
	defer s.release()
	drained := s.await(s.drained)
	s.disk.closing()
	<-s.ended
	if !drained && !s.await(s.drained) {
		s.disk.abandon()
		return s.wrap("close", fmt.Errorf("%w: the disk is full: a write under way was abandoned", table.ErrUnavailable))
	}
	s.syncs.stop()
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
	if err := s.writeEnding(live); err != nil {
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
