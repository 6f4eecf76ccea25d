package spill

import (
	"strings"
	"testing"
)

// TestMemoryAlone checks what a program is told that does not link package ondisk.
func TestMemoryAlone(t *testing.T) {
	m := New(t.TempDir(), 0)
	defer m.Close()
	var err error
	for i := 0; i < 10_000 && err == nil; i++ {
		_, _, err = m.Put(Key{1, byte(i), byte(i >> 8)}, Value{})
	}
	if err == nil || !strings.Contains(err.Error(), "import package partition/load/spill/ondisk") {
		t.Error(err)
	}
}
