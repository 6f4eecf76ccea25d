package write

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// moveRow is the row that every move of an entry to another parent marks. The mark makes
// two concurrent moves conflict, because together they could put two entries below each
// other.
var moveRow = master.Row(cache.Moves)

// Rename changes an entry's RDN, its parent, or both. If newParent is nil, the parent
// stays the same. Rename need not write the entries below the entry, because the tree
// finds children by their parent's id.
func (tx *Tx) Rename(ctx context.Context, name dn.DN, newRDN dn.RDN, deleteOld bool, newParent *dn.DN) error {
	newName := append(dn.DN{newRDN}, name.Parent()...)
	if newParent != nil {
		newName = append(dn.DN{newRDN}, *newParent...)
	}
	tx.readAhead(ctx, name, false, func(pl state.Place) []txn.Read {
		to, reads, _ := state.Guess(&tx.Snapshot, newName, true)
		if !slices.Equal(pl.Norms, to.Norms) {
			reads = append(reads, txn.Read{Table: tx.Partition.Tree, Row: tree.Key(pl.Parent, pl.RDN), Select: selectMoved})
		}
		remove, add := renaming(name[0], newRDN, deleteOld)
		return append(reads, tx.Modifying(pl).ahead(append(remove, add...))...)
	})
	pl, err := tx.existing(ctx, name)
	if err != nil {
		return err
	}
	to, err := tx.destination(ctx, newName)
	if err != nil {
		return err
	}
	if to.Found && to.ID != pl.ID {
		return catalog.Errorf(catalog.EntryExists, "entry %s exists already", to.name)
	}
	if err := tx.noCircle(ctx, pl.ID, to.Parent); err != nil {
		return err
	}
	if err := NotAlias(ctx, &tx.Snapshot, to.Parent); err != nil {
		return err
	}
	if err := tx.governsMoved(ctx, pl.ID, newRDN, to.Parent); err != nil {
		return err
	}
	m, err := tx.renamed(ctx, pl, newRDN, deleteOld)
	if err != nil {
		return err
	}
	if pl.Parent != to.Parent {
		if err := tx.claims.below(ctx, pl.ID, pl.Parent, to.Parent); err != nil {
			return err
		}
	}
	tx.Txn.Touch(cache.Moves)
	if err := m.place(ctx, &to); err != nil {
		return err
	}
	tx.markRename(pl, to.Place)
	tx.Record("rename", name)
	if !tx.references.exist() || slices.Equal(pl.Norms, to.Norms) {
		return nil
	}
	return tx.references.repoint(ctx, pl.Norms, to.name)
}

// A destination is the name and position that a rename moves an entry to.
type destination struct {
	state.Place
	name  dn.DN
	upRDN string
}

func (tx *Tx) destination(ctx context.Context, name dn.DN) (to destination, err error) {
	to.name, to.upRDN = name, name[0].String()
	if to.Place, err = tx.Locate(ctx, to.name); err != nil {
		return to, err
	}
	c := tx.Catalog.ContextOf(to.Norms)
	if c != nil && len(c.Norms) == len(to.Norms) {
		to.upRDN = to.name.String()
	}
	if !to.ParentFound(tx.Catalog) {
		return to, to.Missing(ctx, &tx.Snapshot, name.Parent())
	}
	if to.Found {
		// If this is the entry to be renamed, its new name differs at most in spelling, so the
		// row stays the same. Rename refuses any other entry.
		node, err := tx.Node(ctx, to.ID)
		if err != nil {
			return to, err
		}
		to.Parent, to.RDN = node.Parent, node.NormRDN
	}
	return to, nil
}

// noCircle returns an error if a move would put an entry below itself.
func (tx *Tx) noCircle(ctx context.Context, id, parent entry.ID) error {
	circle, err := tx.Below(ctx, parent, id)
	if circle {
		err = catalog.Errorf(catalog.Unwilling, "an entry cannot be moved below itself")
	}
	return err
}

func (tx *Tx) markRename(from, to state.Place) {
	tx.Txn.Mark(tx.Partition.Tree, tree.Key(from.Parent, from.RDN), txn.Mark{Kind: txn.MarkExclusive})
	tx.Txn.Mark(tx.Partition.Tree, tree.Key(to.Parent, to.RDN), txn.Mark{Kind: txn.MarkExclusive})
	tx.Txn.Mark(tx.Partition.Master, master.Row(from.ID), txn.Mark{Kind: txn.MarkExclusive, Deletes: tx.references.exist()})
	if from.Parent != to.Parent {
		tx.Txn.Mark(tx.Partition.Master, moveRow, txn.Mark{Kind: txn.MarkExclusive})
		if to.Parent != catalog.Root {
			tx.Txn.Mark(tx.Partition.Master, master.Row(to.Parent), txn.Mark{Kind: txn.MarkChild})
		}
	}
}

// renamed returns the changes to the entry's attributes. These changes add the values of the
// new RDN. If deleteOld is set, they also remove those values of the old RDN that are not in
// the new RDN.
func (tx *Tx) renamed(ctx context.Context, pl state.Place, newRDN dn.RDN, deleteOld bool) (*modification, error) {
	old, err := lastRDN(ctx, &tx.Snapshot, pl.ID)
	if err != nil {
		return nil, err
	}
	m := tx.Modifying(pl)
	m.renames = true
	for _, ava := range newRDN {
		if _, _, err := namingKey(tx.Catalog.Types, ava); err != nil {
			return nil, err
		}
	}
	remove, add := renaming(old, newRDN, deleteOld)
	if err := m.load(ctx, append(remove, add...)); err != nil {
		return nil, err
	}
	return m, m.exchange(ctx, remove, add)
}

// renaming returns the changes of attributes that remove the values of the old RDN, if deleteOld is set,
// and add those of the new RDN.
func renaming(old, newRDN dn.RDN, deleteOld bool) (remove, add []op.Modification) {
	if deleteOld {
		for _, ava := range old {
			remove = append(remove, modificationOf(op.ModDelete, ava))
		}
	}
	for _, ava := range newRDN {
		add = append(add, modificationOf(op.ModAdd, ava))
	}
	return remove, add
}

func modificationOf(kind op.ModKind, ava dn.AVA) op.Modification {
	return op.Modification{Kind: kind, PartialAttribute: op.PartialAttribute{Description: ava.Type, Values: [][]byte{ava.Value}}}
}

// exchange applies the changes to the attributes of the RDN. It keeps values that are in
// both RDNs. It returns no error if the entry already has a value of the new RDN.
func (m *modification) exchange(ctx context.Context, remove, add []op.Modification) error {
	for i := range remove {
		in, err := m.has(ctx, &remove[i])
		if err != nil {
			return err
		}
		if !in || m.among(&remove[i], add) {
			continue
		}
		if err := m.Apply(ctx, &remove[i]); err != nil {
			return err
		}
	}
	for i := range add {
		in, err := m.has(ctx, &add[i])
		if err != nil {
			return err
		}
		if in {
			continue
		}
		if err := m.Apply(ctx, &add[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *modification) valueOf(c *op.Modification) (*schema.AttributeType, []byte, error) {
	t, _, err := m.tx.Catalog.Describe(c.Description)
	if err != nil {
		return nil, nil, err
	}
	key, err := catalog.KeyOf(t, c.Values[0])
	return t, key, err
}

// has reports whether the entry has a value after the changes so far.
func (m *modification) has(ctx context.Context, c *op.Modification) (bool, error) {
	t, key, err := m.valueOf(c)
	if err != nil {
		return false, err
	}
	i, old, err := m.find(ctx, m.Edit(t).values(""), c.Values[0], key)
	return i >= 0 || old != nil, err
}

// among reports whether one of the changes in others has the same value as c in the same
// spelling. If the spelling differs, among returns false, so that the new spelling replaces the
// old one.
func (m *modification) among(c *op.Modification, others []op.Modification) bool {
	t, key, err := m.valueOf(c)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(others, func(o op.Modification) bool {
		ot, okey, err := m.valueOf(&o)
		return err == nil && ot == t && string(okey) == string(key) && bytes.Equal(o.Values[0], c.Values[0])
	})
}

// selectMoved selects what a rename writes again into the row of the new name.
var selectMoved = table.Select{Families: []table.Family{tree.TreeInfo, tree.NormAttributes}}

// place writes the entry under its new name: the treeInfo and the changes to the entry's
// attributes. If the row in the tree gets another key, place writes all columns of the row. If
// the parent changes, it also writes the entry's index cells.
func (m *modification) place(ctx context.Context, to *destination) error {
	tx, from := m.tx, m.change
	if m.pl.Parent != to.Parent || m.pl.RDN != to.RDN {
		row, err := tx.Reader.Get(ctx, tx.Partition.Tree, from.tree.Row, selectMoved)
		if err != nil {
			return err
		}
		row = row.Clone()
		m.change = newChange(tx, m.pl.ID, to.Parent, to.RDN)
		m.change.tree.Cells = append(m.change.tree.Cells, row.Cells...)
		if m.pl.Parent != to.Parent {
			if err := tx.reindex(ctx, m.change, row, false); err != nil {
				return err
			}
		}
		tx.Write(tx.Partition.Tree, table.Mutation{Row: from.tree.Row, DeleteRow: true})
	}
	was, err := tx.Node(ctx, m.pl.ID)
	if err != nil {
		return err
	}
	node := master.Node{Parent: to.Parent, UpRDN: to.upRDN, NormRDN: to.RDN, Order: was.Order}
	m.change.master.Cells = append(m.change.master.Cells, node.Cells(tx.Catalog.Schema)...)
	return m.Finish(ctx)
}
