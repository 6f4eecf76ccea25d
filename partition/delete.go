package partition

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// Delete removes a leaf.
func (tx *Tx) Delete(ctx context.Context, name dn.DN) error {
	pl, err := tx.existing(ctx, name)
	if err != nil {
		return err
	}
	if more, err := tx.HasChildren(ctx, pl.ID); err != nil || more {
		if err == nil {
			err = problem(NotLeaf, "entry %s has entries below it: delete those first", name)
		}
		return err
	}
	row, err := tx.r.Get(ctx, tx.p.tree, tree.Key(pl.Parent, pl.rdn), tx.catalog.selectDoomed())
	if err != nil {
		return err
	}
	if err := tx.remove(ctx, pl.ID, row.Clone()); err != nil {
		return err
	}
	tx.tx.SetUrgent()
	tx.record("delete", name)
	return nil
}

// selectDoomed selects of a row of the tree what remove needs.
func (c *catalog) selectDoomed() table.Select {
	columns := []table.ColumnRange{tree.Columns(c.objectClass)}
	for _, x := range c.ordered {
		if x.typ != c.objectClass {
			columns = append(columns, tree.Columns(x.typ))
		}
	}
	return table.Select{Families: []table.Family{tree.TreeInfo, tree.NormAttributes}, Columns: columns}
}

// remove takes out an entry with nothing below it, given its row of the tree.
func (tx *Tx) remove(ctx context.Context, id entry.ID, row table.Row) error {
	c := newChange(tx.p, tx.catalog, tx, id, tree.Parent(row.Key), "")
	c.tree.Row = row.Key // a long RDN is cut in it: it cannot be made of the row's again
	if err := tx.unindex(ctx, c, row); err != nil {
		return err
	}
	c.master.DeleteRow, c.tree.DeleteRow = true, true
	c.flush()
	tx.tx.Mark(tx.p.tree, c.tree.Row, txn.Mark{Kind: txn.MarkExclusive, Deletes: true})
	tx.tx.Mark(tx.p.master, c.master.Row, txn.Mark{Kind: txn.MarkExclusive, Deletes: true})
	tx.tx.Touch(id)
	for class, stands := range tx.catalog.watched {
		if tx.catalog.isOf(row, class) {
			tx.tx.Touch(stands)
		}
	}
	return nil
}

// isOf tells by a row of the tree whether its entry is of a class.
func (k *types) isOf(row table.Row, class *schema.ObjectClass) bool {
	key, err := keyOf(k.objectClass, []byte(class.Name()))
	return err == nil && row.Find(tree.NormAttributes, tree.Qualifier(k.objectClass, "", key)) != nil
}

// existing locates an entry that must exist and can be changed.
func (tx *Tx) existing(ctx context.Context, name dn.DN) (place, error) {
	pl, err := tx.locate(ctx, name)
	switch {
	case err != nil:
		return pl, err
	case len(name) == 0:
		return pl, problem(Unwilling, "the root DSE cannot be changed")
	case !pl.found:
		return pl, tx.missing(ctx, name, &pl)
	}
	return pl, nil
}

// unindex takes an entry out of all indexes; row has its normalised columns.
func (tx *Tx) unindex(ctx context.Context, c *change, row table.Row) error {
	return tx.eachIndexed(ctx, c, row, func(x *indexed, keys [][]byte) {
		for _, k := range keys {
			c.enter(x, k, true)
		}
		c.presence(x, true)
	})
}

// eachIndexed calls f with the keys that an entry has in each index.
func (tx *Tx) eachIndexed(ctx context.Context, c *change, row table.Row, f func(*indexed, [][]byte)) error {
	for _, x := range tx.catalog.ordered {
		tv := valuesOf(c.id, x.typ, row)
		if !tv.present() {
			continue
		}
		var keys [][]byte
		for _, d := range tv.described {
			list, err := d.all(ctx, &tx.Snapshot)
			if err != nil {
				return err
			}
			for i := range list {
				key, err := tx.keyAt(ctx, d, &list[i])
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

// keyAt gives a value's key; that of a cut one is made from the value again.
func (tx *Tx) keyAt(ctx context.Context, d *describedValues, k *keyed) ([]byte, error) {
	if k.key != nil {
		return k.key, nil
	}
	q := master.Qualifier(d.typ, d.options, k.position)
	row, err := tx.r.Get(ctx, tx.p.master, master.Row(d.id), table.Select{
		Families: []table.Family{master.UpAttributes}, Columns: []table.ColumnRange{table.Column(master.UpAttributes, q)}})
	if err != nil {
		return nil, err
	}
	if len(row.Cells) == 0 {
		return nil, table.ErrCorrupt
	}
	return d.typ.Equality.Key(row.Cells[0].Value)
}

// classesAt reads an entry's classes.
func (s *Snapshot) classesAt(ctx context.Context, id entry.ID) (*classes, error) {
	values, err := s.classValues(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.catalog.classesOf(values)
}

// classValues reads an entry's objectClass, without the rest of it if it is
// wide.
func (s *Snapshot) classValues(ctx context.Context, id entry.ID) ([][]byte, error) {
	i, err := s.item(ctx, id)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return nil, table.ErrCorrupt
	}
	oc := s.catalog.objectClass
	e := i.entry
	if e == nil {
		if e, err = s.wide(ctx, id, []*schema.AttributeType{oc}); err != nil {
			return nil, err
		}
	}
	return e.Values(oc), nil
}
