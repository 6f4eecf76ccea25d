package lsm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var (
	errImage  = fmt.Errorf("%w: bad row image", table.ErrCorrupt)
	errKey    = fmt.Errorf("%w: bad key", table.ErrCorrupt)
	errColumn = fmt.Errorf("%w: bad column value", table.ErrCorrupt)
)

// wrap adds to an error the operation that failed and, if there is one, the corresponding
// error of package table. It returns the errors of a context unchanged.
func (s *Store) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var kind error
	switch {
	case isContract(err):
	case pebble.IsCorruptionError(err):
		kind = table.ErrCorrupt
	case errors.Is(err, pebble.ErrClosed):
		kind = table.ErrClosed
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EIO),
		errors.Is(err, syscall.EROFS), errors.Is(err, pebble.ErrReadOnly), errors.Is(err, fs.ErrPermission):
		kind = table.ErrUnavailable
	}
	if kind == nil {
		return fmt.Errorf("store %s: %s: %w", s, doing, err)
	}
	return fmt.Errorf("store %s: %s: %w: %w", s, doing, kind, err)
}

func isContract(err error) bool {
	for _, k := range []error{table.ErrUnavailable, table.ErrLocked, table.ErrCorrupt, table.ErrNewer,
		table.ErrTooLarge, table.ErrClosed} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// caught converts a panic into the error of a write, because Pebble panics if it cannot
// write its log. After that the store refuses all writes.
func (s *Store) caught(err *error) {
	if p := recover(); p != nil {
		e, ok := p.(error)
		if !ok {
			e = fmt.Errorf("%v", p)
		}
		s.disk.fail(e)
		*err = fmt.Errorf("%w: %w", table.ErrUnavailable, e)
	}
}

// damaged converts a panic into the error of a read, because Pebble panics if a file's
// content is invalid.
func damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", table.ErrCorrupt, p)
	}
}
