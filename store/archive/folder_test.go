package archive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-4dac0d86/ldapd/store/lsm"
)

// BenchmarkFolderList measures how a standby finds the next piece in a folder with as many
// pieces as a primary writes in 14 hours, if it writes one every 500 ms.
func BenchmarkFolderList(b *testing.B) {
	f := folder(b.TempDir())
	name := func(i int) string {
		return pieceName(1, lsm.Position(i), lsm.Position(i+1), 5, fmt.Sprintf("%032x", i))
	}
	if err := os.MkdirAll(filepath.Dir(f.path(name(1))), 0o700); err != nil {
		b.Fatal(err)
	}
	for i := range 100000 {
		if err := os.WriteFile(f.path(name(i+1)), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		all, err := listOf(context.Background(), f, pieceFrom(1, 5000), parsePiece)
		if err != nil || len(all) != 1 {
			b.Fatal(len(all), err)
		}
	}
}
