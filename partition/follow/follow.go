// Package follow contains the state of a directory that follows another server.
package follow

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
)

// A Server is another server from which a directory is copied and whose changes are
// copied too.
type Server = catalog.Following

// Of returns the server that the directory follows, or nil.
func Of(s *partition.Snapshot) *Server { return s.State().Catalog.Header.Following }

// Set makes the directory follow the server f. If f is nil, the directory no longer
// follows a server.
func Set(tx *partition.Tx, f *Server) error { return tx.Writer().SetFollowing(f) }

// SetCursor writes how far the changes of the server have been copied.
func SetCursor(tx *partition.Tx, value []byte) { tx.Writer().SetCursor(value) }

// Cursor returns the value of the last SetCursor that a state shows, or nil.
func Cursor(ctx context.Context, s *partition.Snapshot) ([]byte, error) {
	return write.Cursor(ctx, s.State())
}
