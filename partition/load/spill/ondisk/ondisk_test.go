package ondisk_test

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"sync"
	"testing"

	"github.com/seed-4dac0d86/ldapd/partition/load/spill"
	_ "github.com/seed-4dac0d86/ldapd/partition/load/spill/ondisk"
)

func key(i int) spill.Key {
	h := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
	return spill.Key(h[:16])
}

func TestMap(t *testing.T) {
	const n = 50_000
	for name, memory := range map[string]int64{"memory": 16 << 20, "disk": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := spill.New(dir, memory)
			var wg sync.WaitGroup
			for g := range 4 { // every key is put by two goroutines, of which one wins
				wg.Go(func() {
					for i := g % 2; i < n; i += 2 {
						if _, _, err := m.Put(key(i), spill.Value{byte(i), byte(i >> 8), byte(i >> 16)}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			for i := range n {
				want := spill.Value{byte(i), byte(i >> 8), byte(i >> 16)}
				if v, ok, err := m.Get(key(i)); !ok || v != want || err != nil {
					t.Fatalf("%d: %v %v %v", i, v, ok, err)
				}
				if had, found, err := m.Put(key(i), spill.Value{0xff}); !found || had != want || err != nil {
					t.Fatalf("%d again: %v %v %v", i, had, found, err)
				}
			}
			if _, ok, err := m.Get(key(n)); ok || err != nil {
				t.Errorf("a key never put: %v %v", ok, err)
			}
			if files, err := os.ReadDir(dir); err != nil || (len(files) > 0) != (name == "disk") {
				t.Errorf("on disk: %v %v", files, err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestUnwritableFolder(t *testing.T) {
	m := spill.New("/nonexistent", 0)
	defer m.Close()
	for i := range 10_000 {
		if _, _, err := m.Put(key(i), spill.Value{}); err != nil {
			return
		}
	}
	t.Error("no error")
}

func BenchmarkPut(b *testing.B) {
	m := spill.New(b.TempDir(), 64<<20)
	defer m.Close()
	for i := 0; b.Loop(); i++ {
		if _, _, err := m.Put(key(i), spill.Value{1}); err != nil {
			b.Fatal(err)
		}
	}
}
