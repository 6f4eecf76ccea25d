package partition

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition/internal/cache"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Snapshot reads one state of the directory.
type Snapshot struct{ s *state.Snapshot }

// Show returns a Snapshot that reads the state s. Of other packages, only those in the folders
// below this one call it.
func Show(s *state.Snapshot) *Snapshot { return &Snapshot{s} }

// NewSnapshot returns a Snapshot that reads the state s, or the error err. Of other packages,
// only those in the folders below this one call it, after they have opened a state.
func NewSnapshot(s *state.Snapshot, err error) (*Snapshot, error) {
	if err != nil {
		return nil, err
	}
	return Show(s), nil
}

// State returns the state that the snapshot reads. Of other packages, only those in
// the folders below this one call it.
func (s *Snapshot) State() *state.Snapshot { return s.s }

// Close releases the state.
func (s *Snapshot) Close() { s.s.Close() }

// Revision returns the newest revision that the snapshot shows.
func (s *Snapshot) Revision() table.Revision { return s.s.Revision() }

// Schema returns the schema of the state. Filters for the state's entries, and types to
// look up in these entries, must come from this schema. Types and filters of another
// schema match nothing.
func (s *Snapshot) Schema() *schema.Schema { return s.s.Schema() }

// Contexts returns the names of the naming contexts.
func (s *Snapshot) Contexts() []dn.DN {
	names := make([]dn.DN, len(s.s.Catalog.Contexts))
	for i, c := range s.s.Catalog.Contexts {
		names[i] = c.Name
	}
	return names
}

// Access returns the access rules in force. If two states return the same pointer, they have
// the same rules and the same schema. For a state of the past, Access returns the present
// rules.
func (s *Snapshot) Access() *Access { return s.s.Catalog.Access }

// Ordinal returns the ordinal of the state, for SameNames, SameEntries and Unchanged. It is 0
// for a state whose results must not be cached: a state of the past or of a branch, or a state
// with changes of a transaction that has not committed. SameNames, SameEntries and Unchanged
// may return false although nothing has changed.
func (s *Snapshot) Ordinal() uint64 { return s.s.Ordinal() }

// SameNames reports whether every existing entry has the same name as in the state whose
// ordinal is since.
func (s *Snapshot) SameNames(since uint64) bool { return s.s.Unchanged(cache.Moves, since) }

// SameEntries returns a function for one value: the value of the type t whose key is key. The
// function reports whether the same entries have this value in the state s and in the state
// whose ordinal is since. It returns false if t is not indexed in s.
func SameEntries(t *schema.AttributeType, key []byte) func(s *Snapshot, since uint64) bool {
	hash := catalog.PostingHash(t, key)
	return func(s *Snapshot, since uint64) bool {
		_, indexed := s.s.Catalog.Indexed(t)
		return indexed && s.s.UnchangedKey(hash, since)
	}
}

// Unchanged reports whether an entry is the same as in the state whose ordinal is since.
func (s *Snapshot) Unchanged(id entry.ID, since uint64) bool { return s.s.Unchanged(id, since) }

// Find resolves a name. If there is no such entry, the error is an [Error] with the
// problem NoSuchEntry and the name of the deepest existing ancestor.
func (s *Snapshot) Find(ctx context.Context, name dn.DN) (Located, error) {
	return s.s.Find(ctx, name)
}

// Name returns the name of an entry, in its stored spelling.
func (s *Snapshot) Name(ctx context.Context, id entry.ID) (*dn.Name, error) { return s.s.Name(ctx, id) }

// Recall returns the entry of a name that was passed to Remember. The name must have exactly
// the stored spelling. Recall returns false if the cache does not contain the name, or if the
// entry may have changed.
func (s *Snapshot) Recall(name string) (Located, bool) { return s.s.Recall(name) }

// Remember caches the entry of a name for Recall, if the name has the stored spelling.
func (s *Snapshot) Remember(name string, at Located) { s.s.Remember(name, at) }

// Entry reads an entry. It returns nil if there is no such entry. The result includes
// secret attributes only if secrets is set. The caller must not change the result.
func (s *Snapshot) Entry(ctx context.Context, id entry.ID, secrets bool) (*entry.Entry, error) {
	return s.s.Entry(ctx, id, secrets)
}

// Some is Entry for an entry that may have very many values. If the entry has very many
// values, Some reads only the given types.
func (s *Snapshot) Some(ctx context.Context, id entry.ID, types []*schema.AttributeType) (*entry.Entry, error) {
	return s.s.Some(ctx, id, types)
}

// Secrets reads the secret attributes of an entry.
func (s *Snapshot) Secrets(ctx context.Context, id entry.ID) ([]entry.Attribute, error) {
	return s.s.Secrets(ctx, id)
}

// ValueRange reads n values of an attribute. The first value that it reads has the number
// start, where 0 is the number of the attribute's first value. ValueRange also reports whether
// there are more values.
func (s *Snapshot) ValueRange(ctx context.Context, id entry.ID, t *schema.AttributeType, options string, start, n int) (values [][]byte, more bool, err error) {
	return s.s.ValueRange(ctx, id, t, options, start, n)
}

// HasChildren reports whether an entry has entries below it.
func (s *Snapshot) HasChildren(ctx context.Context, id entry.ID) (bool, error) {
	return s.s.HasChildren(ctx, id)
}

// CountChildren returns the number of entries directly below an entry.
func (s *Snapshot) CountChildren(ctx context.Context, id entry.ID) (int, error) {
	return s.s.CountChildren(ctx, id)
}

// Compare reports whether an entry has the given value of an attribute.
func (s *Snapshot) Compare(ctx context.Context, id entry.ID, description string, value []byte) (bool, error) {
	return s.s.Compare(ctx, id, description, value)
}

// HasClass reports whether any entry of the directory has a class.
func (s *Snapshot) HasClass(ctx context.Context, c *schema.ObjectClass) (bool, error) {
	return search.HasClass(ctx, s.s, c)
}

// Search streams the entries that match a query, each entry once. Without an Order the entries
// have no particular order. A search that continues with Query.After keeps the order.
func (s *Snapshot) Search(ctx context.Context, q Query) iter.Seq2[*Result, error] {
	return search.Search(ctx, s.s, q)
}

// Results streams the entries with the given ids, in the order of the argument ids. Callers
// must pass only ids that a Search for q has found in the same state.
func (s *Snapshot) Results(ctx context.Context, ids []entry.ID, q Query) iter.Seq2[*Result, error] {
	return search.Results(ctx, s.s, ids, q)
}

// Lookup reports whether an entry matches a query, and returns the result for the entry.
func (s *Snapshot) Lookup(ctx context.Context, q Query, id entry.ID) (Result, bool, error) {
	return search.Lookup(ctx, s.s, q, id)
}
