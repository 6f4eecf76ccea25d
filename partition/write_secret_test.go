package partition_test

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
)

// TestSecret checks that all calls return the same secret, even concurrent first calls
// and calls after a restart. Another store must have another secret.
func TestSecret(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	open := func(fs vfs.FS) (p *partition.Partition, end func()) {
		s, err := lsm.Open(lsm.Options{Path: "store", FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if p, err = partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true}); err != nil {
			t.Fatal(err)
		}
		return p, func() {
			p.Close(ctx)
			s.Close()
		}
	}
	p, end := open(fs)
	var got [8][]byte
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			var err error
			if got[i], err = write.Secret(ctx, p); err != nil || len(got[i]) != 32 {
				t.Errorf("%x, %v", got[i], err)
			}
		})
	}
	all.Wait()
	for _, s := range got[1:] {
		if !bytes.Equal(s, got[0]) {
			t.Errorf("%x, and %x", s, got[0])
		}
	}
	end()
	p, end = open(fs)
	if again, err := write.Secret(ctx, p); err != nil || !bytes.Equal(again, got[0]) {
		t.Errorf("after a restart: %x, %v", again, err)
	}
	end()
	p, end = open(vfs.NewMem())
	defer end()
	if other, err := write.Secret(ctx, p); err != nil || bytes.Equal(other, got[0]) {
		t.Errorf("another store: %x, %v", other, err)
	}
}
