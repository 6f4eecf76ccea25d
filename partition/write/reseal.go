package write

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// IsSecret reports whether a cell has a secret that engines should seal: the secret attributes of entries, and the
// store's own secret.
func IsSecret(t string, f table.Family, qualifier []byte) bool {
	return t == master.Name && f == master.Secrets ||
		t == catalog.HeaderTable && f == catalog.HeaderFamily && string(qualifier) == string(secretColumn)
}

// ErrNotSealed: the engine of the store does not seal, or has no keys.
var ErrNotSealed = errors.New("the store seals nothing: name a file with keys in secrets.seal, for a store on HBase")

// A Sealing is the result of Reseal.
type Sealing struct {
	Entries int // whose secrets were written again
	Old     int // values that are not sealed as the key in force demands, until garbage collection removes them
}

// resealBatch is the number of entries whose secrets are written again in one commit.
const resealBatch = 50

// Reseal writes all secrets again, so that the key in force seals them. It runs beside updates. What it replaces is
// removed by garbage collection.
func Reseal(ctx context.Context, p *catalog.Partition) (done Sealing, err error) {
	t, ok := p.Store.Table(master.Name).(table.Resealer)
	if !ok || !t.Reseals() {
		return done, ErrNotSealed
	}
	if _, err := storedSecret(ctx, p); err != nil { // reads it, and seals it again
		return done, err
	}
	var ids []entry.ID
	flush := func() error {
		if len(ids) == 0 {
			return nil
		}
		_, err := UpdateHot(ctx, p, func(h *Hot) error { return h.rewrite(ctx, ids) })
		if err == nil {
			done.Entries += len(ids)
			ids = ids[:0]
		}
		return err
	}
	s := p.DB.Snapshot()
	defer s.Close()
	for row, err := range s.Scan(ctx, p.Master, table.Range{}, table.Select{Families: []table.Family{master.Secrets}, MaxCells: 1}) {
		if err != nil {
			return done, err
		}
		if ids = append(ids, entry.ID(row.Key)); len(ids) == resealBatch {
			if err := flush(); err != nil {
				return done, err
			}
		}
	}
	if err := flush(); err != nil {
		return done, err
	}
	_, done.Old, err = t.Sealed(ctx, table.Range{}, master.Secrets)
	return done, err
}

// rewrite writes the secrets of entries again. It conflicts with every other change of these entries, because a value that
// somebody removes meanwhile must not come back.
func (h *Hot) rewrite(ctx context.Context, ids []entry.ID) error {
	keys := make([][]byte, len(ids))
	for i := range ids {
		keys[i] = master.Row(ids[i])
		h.tx.Txn.Mark(h.tx.Partition.Master, keys[i], txn.Mark{Kind: txn.MarkExclusive, Deletes: true})
	}
	rows, err := h.tx.Reader.GetMany(ctx, h.tx.Partition.Master, keys, table.Select{Families: []table.Family{master.Secrets}})
	if err != nil {
		return err
	}
	for i, row := range rows {
		if len(row.Cells) > 0 {
			h.tx.Write(h.tx.Partition.Master, table.Mutation{Row: keys[i], Cells: row.Clone().Cells})
			h.tx.Txn.TouchKeys(state.HotKey(ids[i]))
		}
	}
	return nil
}
