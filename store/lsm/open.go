package lsm

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

func (s *Store) open() (err error) {
	if s.o.Path == "" {
		return errors.New("no folder given")
	}
	s.disk = s.newDisk()
	if err := s.acquire(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if err := s.checkHeader(); err != nil {
		return err
	}
	if err := s.findFormat(); err != nil {
		return err
	}
	if err := s.checkEnding(); err != nil {
		return err
	}
	if err := errors.Join(s.removeStaleLoads(), s.removeStaleCopies(), s.dropAside()); err != nil {
		return err
	}
	if err := s.openPebble(); err != nil {
		return err
	}
	if !s.o.ReadOnly {
		s.o.FS.Remove(s.o.FS.PathJoin(s.o.Path, endingFile)) // void since Pebble wrote a manifest
	}
	s.iters.init(s.db, &s.m)
	s.w.s = s
	if err := errors.Join(s.checkMark(), s.loadCatalog(), s.writeHeader()); err != nil {
		return errors.Join(err, s.endPebble())
	}
	s.syncs.start(s)
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
	if !s.made {
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
