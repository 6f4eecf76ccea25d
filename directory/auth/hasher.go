package auth

import (
	"context"
	"fmt"
)

// A Hasher computes the hashes of slow schemes. Schemes have the names that [Schemes]
// returns. Stored values do not contain the prefix "{NAME}". [Passwords] limits the
// number of concurrent calls. A Hasher that can end a hash ends it when the context ends.
type Hasher interface {
	// Verify reports whether password is the stored password. It may return ErrScheme.
	Verify(ctx context.Context, scheme string, stored, password []byte) (bool, error)
	Hash(ctx context.Context, scheme string, password []byte) ([]byte, error)
}

// Here is the Hasher that computes hashes in this process.
var Here Hasher = here{}

type here struct{}

func (here) Verify(_ context.Context, name string, stored, password []byte) (bool, error) {
	s := find([]byte(name))
	if s == nil {
		return false, ErrScheme
	}
	return s.check(stored, password)
}

func (here) Hash(_ context.Context, name string, password []byte) ([]byte, error) {
	s := find([]byte(name))
	if s == nil || s.hash == nil {
		return nil, fmt.Errorf("no new passwords in scheme %q", name)
	}
	return s.hash(s, password)
}
