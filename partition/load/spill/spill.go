// Package spill provides a map, with keys and values of fixed sizes, that may become
// larger than memory. The map keeps items in memory as long as they fit, and then writes
// them to disk.
//
// In memory a [Map] uses 32 bytes per slot, in open-addressed tables without pointers,
// which the garbage collector does not scan. When a table is full, the map sorts the
// table's items and writes them to a temporary store in a folder that Close removes. Lookups
// then search the memory first and the store afterwards. Package ondisk has the store, so that
// programs with small directories need not link Pebble.
package spill

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// A Key is a hash. The map relies on keys with evenly distributed bytes.
type Key [16]byte

// A Value is the value of a key.
type Value [16]byte

const (
	shards    = 64
	firstSize = 64 // slots of a new shard, a power of two
	slotBytes = 2 * 16
)

// A Map is a map that writes to disk what does not fit in memory. Its methods may be
// called concurrently.
type Map struct {
	dir   string // where the scratch store is created
	limit int    // items in memory, per shard
	shard [shards]shard

	mu      sync.RWMutex // held to use or create scratch
	scratch Scratch
	folder  string
}

// A Scratch is a temporary store.
type Scratch interface {
	// Get returns the value of a key, and false if it has none.
	Get(k *Key) (v Value, ok bool, err error)
	// Put adds items, in the order of their keys.
	Put(items []Slot) error
	Close() error
}

// Open opens a temporary store in an empty folder. Package ondisk sets it.
var Open func(folder string) (Scratch, error)

// A Slot is a key and its value.
type Slot struct {
	Key   Key
	Value Value
}

// A shard is a hash table with linear probing. An all-zero key marks an empty slot.
type shard struct {
	mu    sync.Mutex
	slots []Slot
	n     int
}

// New returns a map that uses about memory bytes. Items that do not fit in memory are
// written below the folder dir, or below the system's folder for temporary files if dir
// is "".
func New(dir string, memory int64) *Map {
	// Tables are between 3/8 and 3/4 full, so an item needs two slots on average.
	return &Map{dir: dir, limit: max(firstSize/2, int(memory/shards/slotBytes/2))}
}

// Close frees the map's memory and removes its scratch store.
func (m *Map) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.shard {
		m.shard[i].slots = nil
	}
	if m.scratch == nil {
		return nil
	}
	err := m.scratch.Close()
	m.scratch = nil
	return errors.Join(err, os.RemoveAll(m.folder))
}

// Get returns the value of a key.
func (m *Map) Get(k Key) (Value, bool, error) {
	s := m.of(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.get(k); ok {
		return v, true, nil
	}
	return m.spilled(k)
}

// Put sets the value of a key that has none. If the key has a value, Put returns that
// value and found is true.
func (m *Map) Put(k Key, v Value) (had Value, found bool, err error) {
	s := m.of(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if had, found = s.get(k); found {
		return had, true, nil
	}
	if had, found, err = m.spilled(k); found || err != nil {
		return had, found, err
	}
	if s.n >= m.limit {
		if err := m.spill(s); err != nil {
			return had, false, err
		}
	}
	s.put(k, v)
	return v, false, nil
}

func (m *Map) of(k Key) *shard { return &m.shard[k[0]%shards] }

func (s *shard) start(k *Key) int {
	return int(binary.LittleEndian.Uint64(k[8:])) & (len(s.slots) - 1)
}

func (s *shard) get(k Key) (v Value, ok bool) {
	if len(s.slots) == 0 {
		return v, false
	}
	for i := s.start(&k); ; i = (i + 1) & (len(s.slots) - 1) {
		switch s.slots[i].Key {
		case k:
			return s.slots[i].Value, true
		case Key{}:
			return v, false
		}
	}
}

func (s *shard) put(k Key, v Value) {
	if 4*s.n >= 3*len(s.slots) {
		s.grow()
	}
	s.insert(Slot{k, v})
	s.n++
}

func (s *shard) insert(x Slot) {
	i := s.start(&x.Key)
	for s.slots[i].Key != (Key{}) {
		i = (i + 1) & (len(s.slots) - 1)
	}
	s.slots[i] = x
}

func (s *shard) grow() {
	old := s.slots
	s.slots = make([]Slot, max(firstSize, 2*len(old)))
	for _, x := range old {
		if x.Key != (Key{}) {
			s.insert(x)
		}
	}
}

func (m *Map) spilled(k Key) (v Value, ok bool, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.scratch == nil {
		return v, false, nil
	}
	if v, ok, err = m.scratch.Get(&k); err != nil {
		err = fmt.Errorf("scratch store: %w", err)
	}
	return v, ok, err
}

// spill writes the items of a shard to disk and removes them from memory.
func (m *Map) spill(s *shard) error {
	if err := m.open(); err != nil {
		return fmt.Errorf("scratch store: %w", err)
	}
	full := slices.DeleteFunc(slices.Clone(s.slots), func(x Slot) bool { return x.Key == (Key{}) })
	slices.SortFunc(full, func(a, b Slot) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.scratch.Put(full); err != nil {
		return fmt.Errorf("scratch store: %w", err)
	}
	clear(s.slots)
	s.n = 0
	return nil
}

func (m *Map) open() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.scratch != nil {
		return nil
	}
	if Open == nil {
		return errors.New("there is more than fits in memory, and the program cannot write it to disk: import package partition/load/spill/ondisk")
	}
	folder, err := os.MkdirTemp(m.dir, "scratch-")
	if err != nil {
		return err
	}
	db, err := Open(folder)
	if err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	m.scratch, m.folder = db, folder
	return nil
}
