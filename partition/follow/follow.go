// Package follow reads and writes which server a directory follows, and how far the changes of
// that server have been copied.
package follow

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
)

// A Server is the server that a directory follows: the directory is a copy of subtrees of that
// server, and further changes there are copied too.
type Server = catalog.Following

// Of returns the server that the directory follows, or nil.
func Of(s *partition.Snapshot) *Server { return s.State().Catalog.Header.Following }

// Set makes the directory follow the server f. If f is nil, the directory no longer
// follows a server.
func Set(tx *partition.Tx, f *Server) error { return tx.Writer().SetFollowing(f) }

// SetCursor stores a cursor, which says how far the changes of the server have been copied.
func SetCursor(tx *partition.Tx, value []byte) { tx.Writer().SetCursor(value) }

// Cursor returns the cursor in a state. It returns nil if no cursor was stored.
func Cursor(ctx context.Context, s *partition.Snapshot) ([]byte, error) {
	return write.Cursor(ctx, s.State())
}
