// Package ondisk lets maps of package spill write to disk what does not fit in memory, in temporary Pebble stores.
// Import it for that.
package ondisk

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/seed-4dac0d86/ldapd/partition/load/spill"
)

func init() { spill.Open = open }

type scratch struct{ *pebble.DB }

func open(folder string) (spill.Scratch, error) {
	cache := pebble.NewCache(32 << 20)
	defer cache.Unref()
	o := &pebble.Options{
		Cache: cache, DisableWAL: true, MemTableSize: 16 << 20, L0CompactionThreshold: 4,
		FormatMajorVersion: pebble.FormatNewest, Logger: quiet{},
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(folder, o)
	return scratch{db}, err
}

func (s scratch) Get(k *spill.Key) (v spill.Value, ok bool, err error) {
	b, closer, err := s.DB.Get(k[:])
	if errors.Is(err, pebble.ErrNotFound) {
		return v, false, nil
	}
	if err != nil {
		return v, false, err
	}
	copy(v[:], b)
	return v, true, closer.Close()
}

func (s scratch) Put(items []spill.Slot) error {
	b := s.NewBatchWithSize(len(items) * (len(spill.Key{}) + len(spill.Value{}) + 8))
	defer b.Close()
	for i := range items {
		if err := b.Set(items[i].Key[:], items[i].Value[:], nil); err != nil {
			return err
		}
	}
	return b.Commit(pebble.NoSync)
}

// quiet drops Pebble's messages, because Pebble's calls return the errors. It panics on a
// fatal message.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }
