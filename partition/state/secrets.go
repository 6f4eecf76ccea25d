package state

import (
	"context"
	"hash/fnv"
	"slices"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// WithSecrets contains the families of WholeEntry and of secrets.
var WithSecrets = []table.Family{master.TreeInfo, master.UpAttributes, master.Secrets}

// MaxColumnsWithSecrets is the number of cells to read of an entry for DecodeWithSecrets.
const MaxColumnsWithSecrets = 2 * MaxColumns

// DecodeWithSecrets decodes a master row of which secrets were read too, up to
// MaxColumnsWithSecrets cells. The parameter i is the current item of the entry, or nil if the row
// contains WholeEntry, without some attributes if the argument without is not nil. It returns the item, or nil
// if there is no such entry, and the secret attributes, which are not nil.
func DecodeWithSecrets(ctx context.Context, s *Snapshot, id entry.ID, i *cache.Item, row table.Row, without *cache.Large) (_ *cache.Item, hidden []entry.Attribute, err error) {
	if len(row.Cells) >= MaxColumnsWithSecrets { // some cells are missing
		if i == nil {
			i, err = readItem(ctx, s, id) // the cached item may omit what the caller needs
		}
		if err == nil {
			hidden, err = s.Secrets(ctx, id)
		}
		return i, hidden, err
	}
	if i == nil {
		rest := slices.Concat(row.Family(master.UpAttributes), row.Family(master.TreeInfo))
		if i, err = s.Decode(ctx, id, table.Row{Key: row.Key, Cells: rest}, without); err != nil || i == nil {
			return i, hidden, err
		}
	}
	hidden, err = decodeSecrets(s, id, i, table.Row{Key: row.Key, Cells: row.Family(master.Secrets)})
	return i, hidden, err
}

// Secrets reads only the secret attributes of an entry. A bind needs userPassword, for
// example.
func (s *Snapshot) Secrets(ctx context.Context, id entry.ID) ([]entry.Attribute, error) {
	i := s.Current(id)
	if hidden := CurrentSecrets(s, id, i); hidden != nil {
		return hidden, nil
	}
	row, err := s.Reader.Get(ctx, s.Partition.Master, master.Row(id), table.Select{Families: []table.Family{master.Secrets}})
	if err != nil {
		return nil, err
	}
	return decodeSecrets(s, id, i, row)
}

// CurrentSecrets returns the secret attributes in a current item. It returns nil if they are not
// known, or if the item is nil.
func CurrentSecrets(s *Snapshot, id entry.ID, i *cache.Item) []entry.Attribute {
	if i == nil {
		return nil
	}
	if hidden, asOf := s.Catalog.Cache.Secrets(i); hidden != nil && s.UnchangedKey(HotKey(id), asOf) {
		return hidden
	}
	return nil
}

// decodeSecrets decodes secret attributes, and caches them in a current item unless that is nil.
// The result is not nil, even if there are none.
func decodeSecrets(s *Snapshot, id entry.ID, i *cache.Item, row table.Row) ([]entry.Attribute, error) {
	hidden, err := master.Decode(row, s.Catalog.Schema)
	if err == nil && i != nil && s.Cached {
		// The item i is valid at this ordinal, so secrets that were read at this ordinal
		// belong to i.
		s.Catalog.Cache.SetSecrets(i, s.At.Ordinal(), hidden)
		s.keep(id, i)
	}
	return hidden, err
}

// AddSecrets returns the entry of an item with secret attributes. It does not change e.
func AddSecrets(e *entry.Entry, i *cache.Item, hidden []entry.Attribute) *entry.Entry {
	if len(hidden) == 0 {
		return e
	}
	whole := &entry.Entry{ID: e.ID, Attributes: slices.Concat(e.Attributes, hidden)}
	i.Node.Order.Arrange(whole.Attributes)
	return whole
}

// HotKey returns the key that a commit touches when it changes hot attributes of an
// entry.
func HotKey(id entry.ID) uint64 {
	h := fnv.New64a()
	h.Write([]byte("hot"))
	h.Write(id[:])
	return h.Sum64()
}
