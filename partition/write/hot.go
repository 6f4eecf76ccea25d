package write

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// UpdateHot runs fn in a transaction that changes only hot attributes. A hot attribute is a
// secret attribute that records how an entry is used. The commit leaves entryCSN and
// modifyTimestamp unchanged, and its commit record lists no entry. So consumers, the changelog
// and caches of entries do not notice the commit. It conflicts with a deletion of the entry
// and, if the directory has reference attributes, with a rename of the entry. A commit that
// makes a claim conflicts with more commits: see [Hot.Claim]. If fn changes nothing, UpdateHot
// commits nothing.
func UpdateHot(ctx context.Context, p *catalog.Partition, fn func(*Hot) error) (table.Revision, error) {
	p.Changing.RLock()
	defer p.Changing.RUnlock()
	return p.DB.Update(ctx, func(t *txn.Tx) error {
		c, err := p.CatalogOf(t.Snapshot())
		if err != nil {
			return fmt.Errorf("the schema in force: %w", err)
		}
		tx := &Tx{
			Snapshot: state.Snapshot{Partition: p, Reader: t, At: t.Snapshot(), Catalog: c, Cached: true},
			Txn:      t,
		}
		return fn(&Hot{&tx.Snapshot, tx})
	})
}

// Hot changes the hot attributes of entries. Its methods of Snapshot show the changes.
type Hot struct {
	*state.Snapshot
	tx *Tx
}

// Begin declares that the transaction will change hot attributes of an entry. It
// returns an error with the problem NoSuchEntry if the entry does not exist.
func (h *Hot) Begin(ctx context.Context, id entry.ID) error {
	node, err := h.tx.Node(ctx, id)
	if err != nil {
		return err
	}
	if node == nil {
		return catalog.Errorf(catalog.NoSuchEntry, "the entry is gone")
	}
	h.tx.Txn.Mark(h.tx.Partition.Master, master.Row(id), txn.Mark{Kind: txn.MarkChild})
	h.tx.Txn.TouchKeys(state.HotKey(id))
	return nil
}

// Put writes a value of a hot attribute. If the type is single-valued, the new value
// replaces the old value.
func (h *Hot) Put(id entry.ID, t *schema.AttributeType, value []byte) {
	var p master.Position
	if !t.SingleValue {
		p = h.tx.Position()
	}
	h.tx.Write(h.tx.Partition.Master, table.Mutation{Row: master.Row(id), Cells: []table.Cell{master.Value(t, "", p, value)}})
}

// Stamp writes the time of the commit as a value of a hot attribute. The values that two
// commits write differ (see [revision.AppendTime]). The commit overwrites the returned value,
// so the caller must not use it before the commit has been made.
func (h *Hot) Stamp(id entry.ID, t *schema.AttributeType) []byte {
	v := revision.AppendTime(make([]byte, 0, revision.TimeLength), h.tx.Txn.Stamp())
	h.tx.Txn.AtCommit(func(r table.Revision) { revision.AppendTime(v[:0], r) })
	h.Put(id, t, v)
	return v
}

// Drop calls the function drop with every value of the hot attributes in types, and deletes
// the values for which it returns true.
func (h *Hot) Drop(ctx context.Context, id entry.ID, types []*schema.AttributeType, drop func(t *schema.AttributeType, value []byte) bool) error {
	sel := table.Select{Families: []table.Family{master.Secrets}}
	for _, t := range types {
		if t == nil {
			continue
		}
		sel.Columns = append(sel.Columns, master.Columns(t, ""))
	}
	if len(sel.Columns) == 0 {
		return nil
	}
	row, err := h.tx.Reader.Get(ctx, h.tx.Partition.Master, master.Row(id), sel)
	if err != nil {
		return err
	}
	m := table.Mutation{Row: master.Row(id)}
	for i := range row.Cells {
		q := row.Cells[i].Qualifier
		of := slices.IndexFunc(types, func(t *schema.AttributeType) bool { return t != nil && bytes.HasPrefix(q, master.Columns(t, "").From) })
		if of >= 0 && drop(types[of], row.Cells[i].Value) {
			m.Cells = append(m.Cells, table.Cell{Family: master.Secrets, Qualifier: bytes.Clone(q), Tombstone: true})
		}
	}
	if len(m.Cells) > 0 {
		h.tx.Write(h.tx.Partition.Master, m)
		h.tx.Txn.TouchKeys(state.HotKey(id))
	}
	return nil
}

// Claim makes a claim on an entry. If concurrent transactions make the same claim, only one of
// them can commit. A claim also conflicts with a rename of the entry, and with a modification that
// conflicts with all other modifications of the entry. The caller chooses the number that identifies the claim.
func (h *Hot) Claim(id entry.ID, claim uint64) {
	h.tx.Txn.Mark(h.tx.Partition.Master, master.Row(id), txn.Mark{Kind: txn.MarkValue, Hash: claim})
}
