package partition

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition/internal/cache"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/feed"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Snapshot reads one state of the directory.
type Snapshot struct{ s *state.Snapshot }

// NewSnapshot returns a state that the packages beside this one opened, or their error.
func NewSnapshot(s *state.Snapshot, err error) (*Snapshot, error) {
	if err != nil {
		return nil, err
	}
	return &Snapshot{s}, nil
}

// State returns what packages below this one read.
func (s *Snapshot) State() *state.Snapshot { return s.s }

// Close lets go of the state.
func (s *Snapshot) Close() { s.s.Close() }

// Revision returns the newest revision that the snapshot shows.
func (s *Snapshot) Revision() table.Revision { return s.s.Revision() }

// Schema returns the schema of the state. Filters to search it by and types to look for
// in its entries are this schema's: those of another one match nothing.
func (s *Snapshot) Schema() *schema.Schema { return s.s.Schema() }

// Contexts returns the names of the naming contexts.
func (s *Snapshot) Contexts() []dn.DN {
	names := make([]dn.DN, len(s.s.Catalog.Contexts))
	for i, c := range s.s.Catalog.Contexts {
		names[i] = c.Name
	}
	return names
}

// Access returns the access rules in force. As long as they and the schema are the
// same, so is the pointer. States of the past have those of the present.
func (s *Snapshot) Access() *Access { return s.s.Catalog.Access }

// Ordinal numbers the states that a server shows, for SameNames, SameValue and
// Unchanged; 0 is a state of the past, of which they report nothing.
func (s *Snapshot) Ordinal() uint64 { return s.s.At.Ordinal() }

// SameNames reports whether every entry that is there has the name that it had in the
// state with an ordinal.
func (s *Snapshot) SameNames(since uint64) bool { return s.s.At.Unchanged(cache.Moves, since) }

// SameEntries reports whether the same entries have a value, by its key, of an
// indexed type as in the state with an ordinal.
func (s *Snapshot) SameEntries(t *schema.AttributeType, key []byte, since uint64) bool {
	_, indexed := s.s.Catalog.Indexed(t)
	return indexed && s.s.At.UnchangedKey(catalog.PostingHash(t, key), since)
}

// Unchanged reports whether an entry is as it was in the state with an ordinal.
func (s *Snapshot) Unchanged(id entry.ID, since uint64) bool { return s.s.At.Unchanged(id, since) }

// Find returns where a name leads. The error is an [Error]: NoSuchEntry names the
// deepest entry above that exists.
func (s *Snapshot) Find(ctx context.Context, name dn.DN) (Located, error) {
	return s.s.Find(ctx, name)
}

// Name returns the name of an entry, in stored spelling.
func (s *Snapshot) Name(ctx context.Context, id entry.ID) (*dn.Name, error) { return s.s.Name(ctx, id) }

// Recall returns where a name in the very spelling that Remember was given leads, if
// that is in memory and still so.
func (s *Snapshot) Recall(name string) (Located, bool) { return s.s.Recall(name) }

// Remember keeps where a name leads.
func (s *Snapshot) Remember(name string, at Located) { s.s.Remember(name, at) }

// Entry reads an entry, nil if there is none. Secret attributes are left out unless
// they are asked for. It must not be changed.
func (s *Snapshot) Entry(ctx context.Context, id entry.ID, secrets bool) (*entry.Entry, error) {
	return s.s.Entry(ctx, id, secrets)
}

// Some is Entry for an entry that may have very many values: of those, it reads the
// given types only.
func (s *Snapshot) Some(ctx context.Context, id entry.ID, types []*schema.AttributeType) (*entry.Entry, error) {
	return s.s.Some(ctx, id, types)
}

// Secrets reads the secret attributes of an entry.
func (s *Snapshot) Secrets(ctx context.Context, id entry.ID) ([]entry.Attribute, error) {
	return s.s.Secrets(ctx, id)
}

// ValueRange reads n values of an attribute from the position from on, and reports
// whether there are more.
func (s *Snapshot) ValueRange(ctx context.Context, id entry.ID, t *schema.AttributeType, options string, from, n int) (values [][]byte, more bool, err error) {
	return s.s.ValueRange(ctx, id, t, options, from, n)
}

// HasChildren reports whether an entry has entries below it.
func (s *Snapshot) HasChildren(ctx context.Context, id entry.ID) (bool, error) {
	return s.s.HasChildren(ctx, id)
}

// CountChildren counts the entries right below one.
func (s *Snapshot) CountChildren(ctx context.Context, id entry.ID) (int, error) {
	return s.s.CountChildren(ctx, id)
}

// Compare reports whether an entry has a value.
func (s *Snapshot) Compare(ctx context.Context, id entry.ID, description string, value []byte) (bool, error) {
	return s.s.Compare(ctx, id, description, value)
}

// HasClass reports whether any entry of the directory is of a class.
func (s *Snapshot) HasClass(ctx context.Context, c *schema.ObjectClass) (bool, error) {
	return search.HasClass(ctx, s.s, c)
}

// Search streams the entries of a query, each once: without an Order in no particular
// one, but always in the same for one revision.
func (s *Snapshot) Search(ctx context.Context, q Query) iter.Seq2[*Result, error] {
	return search.Search(ctx, s.s, q)
}

// Results streams those of the entries that a query finds, in their order.
func (s *Snapshot) Results(ctx context.Context, ids []entry.ID, q Query) iter.Seq2[*Result, error] {
	return search.Results(ctx, s.s, ids, q)
}

// Lookup reports whether a query finds one entry, and returns it.
func (s *Snapshot) Lookup(ctx context.Context, q Query, id entry.ID) (Result, bool, error) {
	return feed.Lookup(ctx, s.s, q, id)
}

// Exceeds reports whether a query may find more than n entries.
func (s *Snapshot) Exceeds(ctx context.Context, q Query, n int) (bool, error) {
	return search.Exceeds(ctx, s.s, q, n)
}
