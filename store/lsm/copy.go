package lsm

import (
	"context"
	"errors"
	"strconv"
)

// copyPrefix begins the names of the folders of copies.
const copyPrefix = "copy-"

// A Copy is a copy of the whole store at one position of its log. It is in a folder
// within the store's folder, and its tables are hard links.
type Copy struct {
	Folder string
	Files  []string // names of the files in Folder
	Next   Position // position in the log up to which the copy contains all writes
	Format int      // format of the files
	s      *Store
}

// Copy makes a copy of the store. Everything in the copy is also durable in the store. As
// soon as the position of the copy is known, Copy reports it by the call at(position). No
// other goroutine can write during this call.
func (s *Store) Copy(ctx context.Context, at func(Position) error) (c *Copy, err error) {
	if err := s.gate.begin(ctx); err != nil {
		return nil, err
	}
	defer s.gate.end()
	defer s.caught(&err)
	if err := s.flush(ctx); err != nil {
		return nil, s.wrap("copy", err)
	}
	if err := s.gate.beginWrite(ctx, false); err != nil {
		return nil, err
	}
	defer s.gate.endWrite()
	next, err := s.commits.position()
	if err == nil {
		err = at(next)
	}
	if err != nil {
		return nil, s.wrap("copy", err)
	}
	c, err = copyOf(s, next)
	return c, s.wrap("copy", err)
}

// flush flushes Pebble's tables in memory, so that the copy's log is short.
func (s *Store) flush(ctx context.Context) error {
	done, err := s.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.disk.refusing():
		return s.disk.writable(false)
	}
}

// copyOf makes a copy at a position. The caller must hold the right to write.
func copyOf(s *Store, next Position) (*Copy, error) {
	c := &Copy{Folder: s.o.FS.PathJoin(s.o.Path, copyPrefix+strconv.FormatInt(s.copies.Add(1), 10)), Next: next, Format: int(s.db.FormatMajorVersion()), s: s}
	if err := s.db.Checkpoint(c.Folder); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	var err error
	if c.Files, err = s.o.FS.List(c.Folder); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close removes the copy.
func (c *Copy) Close() error { return c.s.o.FS.RemoveAll(c.Folder) }
