package write

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// Delete removes an entry that has no entries below it.
func (tx *Tx) Delete(ctx context.Context, name dn.DN) error {
	tx.readAhead(ctx, name, false, func(pl state.Place) []txn.Read {
		reads := []txn.Read{{Table: tx.Partition.Tree, Row: tree.Key(pl.Parent, pl.RDN), Select: selectDoomed(tx.Catalog)}}
		if pl.ID != catalog.Root {
			reads = append(reads, state.ReadOfChild(&tx.Snapshot, pl.ID), txn.Read{Table: tx.Partition.Master, Row: master.Row(pl.ID), Select: selectSecrets})
		}
		return reads
	})
	pl, err := tx.existing(ctx, name)
	if err != nil {
		return err
	}
	if more, err := tx.HasChildren(ctx, pl.ID); err != nil || more {
		if err == nil {
			err = catalog.Errorf(catalog.NotLeaf, "entry %s has entries below it: delete those first", name)
		}
		return err
	}
	if tx.references.exist() {
		if err := tx.references.forget(ctx, pl.Norms, map[entry.ID]bool{pl.ID: true}, map[string]bool{string(dn.Key(pl.Norms)): true}); err != nil {
			return err
		}
	}
	row, err := tx.Reader.Get(ctx, tx.Partition.Tree, tree.Key(pl.Parent, pl.RDN), selectDoomed(tx.Catalog))
	if err != nil {
		return err
	}
	if err := tx.seal(ctx, pl.ID); err != nil {
		return err
	}
	if err := tx.remove(ctx, pl.ID, row.Clone()); err != nil {
		return err
	}
	tx.Txn.SetUrgent()
	tx.Record("delete", name)
	return nil
}

// selectDoomed selects the parts of a tree row that Tx.remove needs.
func selectDoomed(c *catalog.Catalog) table.Select {
	columns := []table.ColumnRange{tree.Columns(c.ObjectClass)}
	for _, x := range c.Ordered {
		if x.Typ != c.ObjectClass && !x.Typ.Keyless() {
			columns = append(columns, tree.Columns(x.Typ))
		}
	}
	return table.Select{Families: []table.Family{tree.TreeInfo, tree.NormAttributes}, Columns: columns}
}

// remove removes an entry that has no entries below it. row is the entry's row in the
// tree.
func (tx *Tx) remove(ctx context.Context, id entry.ID, row table.Row) error {
	c := newChange(tx, id, tree.Parent(row.Key), "")
	c.tree.Row = row.Key // the row's key may contain only the cut form of a long RDN
	if err := tx.reindex(ctx, c, row, true); err != nil {
		return err
	}
	c.master.DeleteRow, c.tree.DeleteRow = true, true
	tx.Txn.Touch(id)
	c.flush()
	tx.Txn.Mark(tx.Partition.Tree, c.tree.Row, txn.Mark{Kind: txn.MarkExclusive, Deletes: true})
	tx.Txn.Mark(tx.Partition.Master, c.master.Row, txn.Mark{Kind: txn.MarkExclusive, Deletes: true})
	for class, w := range tx.Catalog.Watched {
		if isOf(tx.Catalog.Types, row, class) {
			tx.Txn.Touch(w.ID)
		}
	}
	return nil
}

// isOf reports whether the entry of a tree row has a class.
func isOf(k *catalog.Types, row table.Row, class *schema.ObjectClass) bool {
	key, err := catalog.KeyOf(k.ObjectClass, []byte(class.Name()))
	return err == nil && row.Find(tree.NormAttributes, tree.Qualifier(k.ObjectClass, "", key)) != nil
}

// existing looks up a name. It returns an error if the name is empty or there is no entry
// with the name.
func (tx *Tx) existing(ctx context.Context, name dn.DN) (state.Place, error) {
	pl, err := tx.Locate(ctx, name)
	switch {
	case err != nil:
		return pl, err
	case len(name) == 0:
		return pl, catalog.Errorf(catalog.Unwilling, "the root DSE cannot be changed")
	case !pl.Found:
		return pl, pl.Missing(ctx, &tx.Snapshot, name)
	}
	return pl, nil
}

// reindex writes the index cells of an entry or, if gone is set, removes them. row contains the
// keys of the entry's values.
func (tx *Tx) reindex(ctx context.Context, c *change, row table.Row, gone bool) error {
	return tx.eachIndexed(ctx, c, row, func(x *catalog.Indexed, keys [][]byte) {
		for _, k := range keys {
			c.enter(x, k, gone)
		}
		c.presence(x, gone)
	})
}

// eachIndexed calls f for each index in which the entry has keys, and passes these keys to f.
func (tx *Tx) eachIndexed(ctx context.Context, c *change, row table.Row, f func(*catalog.Indexed, [][]byte)) error {
	for _, x := range tx.Catalog.Ordered {
		tv := state.ValuesOf(c.id, x.Typ, row)
		if x.Typ.Keyless() {
			var err error
			if tv, err = tx.ValuesOf(ctx, c.id, x.Typ); err != nil {
				return err
			}
		}
		if !tv.Present() {
			continue
		}
		var keys [][]byte
		for _, d := range tv.Described {
			list, err := d.All(ctx, &tx.Snapshot)
			if err != nil {
				return err
			}
			for i := range list {
				key, err := keyAt(ctx, &tx.Snapshot, d, &list[i])
				if err != nil {
					return err
				}
				keys = append(keys, key)
			}
		}
		f(x, keys)
	}
	return nil
}

// keyAt returns a value's key. If the key in k is cut, keyAt computes the key from the
// value.
func keyAt(ctx context.Context, s *state.Snapshot, d *state.DescribedValues, k *state.Keyed) ([]byte, error) {
	if k.Key != nil {
		return k.Key, nil
	}
	values, err := d.Spelled(ctx, s, []*state.Keyed{k})
	if err != nil {
		return nil, err
	}
	return d.Typ.Equality.Key(values[0])
}
