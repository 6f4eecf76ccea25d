package write

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
)

// Restamp replaces modifiersName, modifyTimestamp and entryCSN of an entry, and nothing else.
// It does nothing if there is no such entry. It places no mark, so it is only for entries
// whose other changes are marked. Restamp also does nothing if one of the three attributes is
// indexed. All changes of one entry then conflict, so a merge cannot combine two of them.
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
	m, err := tx.Modifying(ctx, state.Place{Located: at, RDN: node.NormRDN, Found: true})
	if err != nil {
		return err
	}
	if err := m.stamp(); err != nil {
		return err
	}
	m.tx.Txn.Touch(id)
	m.change.flush()
	return nil
}
