package integration

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// wantPrograms skips the test if one of the files does not exist.
func wantPrograms(t *testing.T, files ...string) {
	t.Helper()
	for _, f := range files {
		if found, _ := filepath.Glob(f); found == nil {
			t.Skipf("not as Debian has it: no %s", f)
		}
	}
}

// writeIn creates a folder, writes a file in that folder, and returns the file's path.
func writeIn(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// show makes files of a test, and their folders, readable by every user.
func show(t *testing.T, files ...string) {
	t.Helper()
	for _, f := range files {
		dir := filepath.Dir(f)
		if err := errors.Join(os.Chmod(f, 0o644), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

// freePort returns the number of a port on which nothing listens.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
