package write

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Restamp replaces modifiersName, modifyTimestamp and entryCSN of an entry, and nothing else.
// It does nothing if there is no such entry or if id is that of the subschema. Restamp places
// no mark, so callers must call it only for an entry for which another change in the same
// branch has placed a mark. If one of the three attributes is indexed, Restamp does nothing:
// any two changes of one entry conflict then, so a merge never needs new stamps.
func (tx *Tx) Restamp(ctx context.Context, id entry.ID) error {
	node, err := tx.Node(ctx, id)
	if err != nil || node == nil || id == catalog.SubschemaID {
		return err
	}
	for _, s := range tx.stamps() {
		if tx.Catalog.Indexes[s.typ] != nil {
			return nil
		}
	}
	at := state.Located{ID: id, Parent: node.Parent}
	m := tx.Modifying(state.Place{Located: at, RDN: node.NormRDN, Found: true})
	if err := m.stamp(); err != nil {
		return err
	}
	m.tx.Txn.Touch(id)
	m.change.flush()
	return nil
}
