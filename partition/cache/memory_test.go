package cache

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMemory checks that memory returns the limit of the container if it is less than the
// memory of the machine.
func TestMemory(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"machine", map[string]string{"proc/meminfo": "MemTotal:        4194304 kB\nMemFree: 1 kB\n"}, 4 * gib},
		{"nothing", nil, 0},
		{"malformed", map[string]string{"proc/meminfo": "MemTotal:\n"}, 0},
		{"no limit", map[string]string{"proc/meminfo": "MemTotal: 4194304 kB", "sys/fs/cgroup/memory.max": "max\n"}, 4 * gib},
		{"version 2", map[string]string{"proc/meminfo": "MemTotal: 4194304 kB", "sys/fs/cgroup/memory.max": "1073741824\n"}, gib},
		{"version 1", map[string]string{"proc/meminfo": "MemTotal: 4194304 kB", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n"}, gib},
		{"no limit, version 1", map[string]string{"proc/meminfo": "MemTotal: 4194304 kB", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 4 * gib},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := memory(root); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
