package state

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// A Snapshot reads one state of the directory.
type Snapshot struct {
	Partition *catalog.Partition
	Reader    table.Reader
	At        *txn.Snapshot
	Catalog   *catalog.Catalog
	Cached    bool // reads may use and fill caches
	// Written is set for the state of a transaction that has written. Reads use the cached
	// entries that the transaction has not touched, and fill no caches.
	Written bool
	// Items, if not nil, remembers what Item reads while Cached is not set. Only one goroutine
	// may use a Snapshot with Items.
	Items map[entry.ID]*cache.Item
}

// Close releases the state.
func (s *Snapshot) Close() { s.At.Close() }

// Ordinal returns the ordinal of the state, for Unchanged and UnchangedKey. It is 0 for a state
// whose results must not be cached: a state of the past or of a branch, or a state with changes
// of a transaction that has not committed.
func (s *Snapshot) Ordinal() uint64 {
	if !s.Cached {
		return 0
	}
	return s.At.Ordinal()
}

// Unchanged reports whether an entry is the same as in the state whose ordinal is since. It may
// return false although the entry is the same. If the snapshot belongs to a transaction,
// Unchanged returns false for an entry that the transaction has touched.
func (s *Snapshot) Unchanged(id entry.ID, since uint64) bool {
	tx, ok := s.Reader.(*txn.Tx)
	return s.At.Unchanged(id, since) && (!ok || !tx.Touched(id))
}

// UnchangedKey is like Unchanged, for a key of [txn.Tx.TouchKeys]: the hash of something
// that is not an entry, such as a posting.
func (s *Snapshot) UnchangedKey(key, since uint64) bool {
	tx, ok := s.Reader.(*txn.Tx)
	return s.At.UnchangedKey(key, since) && (!ok || !tx.TouchedKey(key))
}

// Revision returns the newest revision that the snapshot shows.
func (s *Snapshot) Revision() table.Revision { return s.At.Max() }

// Schema returns the schema of the state. Filters for the state's entries, and types to
// look up in these entries, must come from this schema. Types and filters of another
// schema match nothing.
func (s *Snapshot) Schema() *schema.Schema { return s.Catalog.Schema }

// Newest returns the newest state. The caller must close it. If the schema of the state cannot
// be read, every read of the state returns an error.
func Newest(p *catalog.Partition) *Snapshot {
	s := p.DB.Snapshot()
	c, err := p.CatalogOf(s)
	if err != nil {
		err = fmt.Errorf("the schema in force: %w", err)
		return &Snapshot{Partition: p, Reader: catalog.Unreadable{Err: err}, At: s, Catalog: p.Catalog.Load()}
	}
	return &Snapshot{Partition: p, Reader: s, At: s, Catalog: c.AsOf(s.Max()), Cached: true}
}

// At returns the state at a past revision. The caller must close it.
func At(ctx context.Context, p *catalog.Partition, r table.Revision) (*Snapshot, error) {
	s, err := p.DB.At(ctx, r)
	if err != nil {
		return nil, err
	}
	return Of(ctx, p, s)
}

// Of returns the state that a snapshot shows. It treats every snapshot as one of the
// past, even a very recent one, and does not use the caches.
func Of(ctx context.Context, p *catalog.Partition, s *txn.Snapshot) (*Snapshot, error) {
	c, err := p.Past(ctx, s)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("the schema of that state: %w", err)
	}
	return &Snapshot{Partition: p, Reader: s, At: s, Catalog: c}, nil
}

// Subschema reads the subschema's entry as it is stored. The result contains the
// operational attributes of the entry's last change. It contains neither the built-in
// schema nor an announced schema. Subschema returns nil if the schema was never changed.
func Subschema(ctx context.Context, s *Snapshot) (*entry.Entry, error) {
	e, err := s.Entry(ctx, catalog.SubschemaID, false)
	if err != nil || e == nil {
		return nil, err
	}
	shown := &entry.Entry{ID: e.ID}
	for _, a := range e.Attributes {
		if a.Type.Name() != catalog.PendingDefinitions {
			shown.Attributes = append(shown.Attributes, a)
		}
	}
	return shown, nil
}

// SameNames reports whether every existing entry has the same name as in the state whose
// ordinal is since. It may return false although no name has changed.
func (s *Snapshot) SameNames(since uint64) bool { return s.Unchanged(cache.Moves, since) }

// SameEntries returns a function for one value: the value of the type t whose key is key. The
// function reports whether the same entries have this value in the state s and in the state
// whose ordinal is since. It returns false if t is not indexed in s, and may return false
// although nothing has changed.
func SameEntries(t *schema.AttributeType, key []byte) func(s *Snapshot, since uint64) bool {
	hash := catalog.PostingHash(t, key)
	return func(s *Snapshot, since uint64) bool {
		_, indexed := s.Catalog.Indexed(t)
		return indexed && s.UnchangedKey(hash, since)
	}
}

// SameClass reports whether the set of entries with a watched class is the same as in the
// state whose ordinal is since.
func SameClass(c *schema.ObjectClass, s *Snapshot, since uint64) bool {
	return s.Unchanged(catalog.ClassID(c), since)
}
