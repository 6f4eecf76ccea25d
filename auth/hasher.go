package auth

import "fmt"

// A Hasher computes the hashes of slow schemes. Schemes have the names that [Schemes]
// returns. Stored values do not contain the prefix "{NAME}". [Passwords] limits the
// number of concurrent calls.
type Hasher interface {
	// Verify reports whether password is the stored password. It may return ErrScheme.
	Verify(scheme string, stored, password []byte) (bool, error)
	Hash(scheme string, password []byte) ([]byte, error)
}

// Here is the Hasher that computes hashes in this process.
var Here Hasher = here{}

type here struct{}

func (here) Verify(name string, stored, password []byte) (bool, error) {
	s := find([]byte(name))
	if s == nil {
		return false, ErrScheme
	}
	return s.verify(s, stored, password)
}

func (here) Hash(name string, password []byte) ([]byte, error) {
	s := find([]byte(name))
	if s == nil || s.hash == nil {
		return nil, fmt.Errorf("no new passwords in scheme %q", name)
	}
	return s.hash(s, password)
}
