package ldaptest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutside runs the test of a module outside of this one, which imports the package by its path.
func TestOutside(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/outside")); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.sum": string(sums),
		"go.mod": fmt.Sprintf("module example.com/outside\n\ngo 1.26.0\n\nrequire github.com/seed-4dac0d86/ldapd v0.0.0\n\nreplace github.com/seed-4dac0d86/ldapd => %s\n", root),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-mod=mod", "-run", "TestLogin", "-v", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestLogin") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLinks checks that the tests of other projects do not link the client of HBase, of S3, or what
// sends traces.
func TestLinks(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		for _, not := range []string{"tsuna/gohbase", "minio/minio-go", "otlp", "ldapd/store/hbase", "ldapd/store/lsm", "ldapd/cmd/"} {
			if strings.Contains(name, not) {
				t.Errorf("it links %s", name)
			}
		}
	}
}
