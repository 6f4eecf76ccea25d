package serving

import (
	"log/slog"
	"os"
	"os/exec"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/hasher"
)

// newHasher returns a hasher that computes slow password hashes in another process of this
// program. The other process does not inherit the environment.
func (s *serving) newHasher(log *slog.Logger) *hasher.Process {
	return hasher.New(func() *exec.Cmd {
		path, err := hasher.Self()
		return &exec.Cmd{Path: path, Err: err, Args: []string{os.Args[0], "hash"}, Env: []string{}, Stderr: s.Stderr}
	}, log)
}
