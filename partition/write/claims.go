package write

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A Claim is a value of a unique attribute that an operation adds to an entry.
type Claim struct {
	X          *catalog.Indexed
	Key        []byte
	ID, parent entry.ID
}

// claims has the unique values that the current operation of a transaction adds.
type claims struct {
	tx    *Tx
	added []Claim
}

// UniqueTable is the table of the marks of unique values. The row of a value consists of the
// scope's id, the attribute's OID, a zero byte, and the value's key in the form of index row
// keys. The row that consists of the scope's id alone is the border of the scope (see
// claims.below).
const UniqueTable = "unique"

// splitUniques is the number of unique attributes whose rows begin with regions of their own.
const splitUniques = 8

// UniqueSpec describes the table. A new one begins with two regions for each of the first scopes.
func UniqueSpec(s *schema.Schema, us []catalog.Unique) table.Spec {
	spec := table.Spec{Name: UniqueTable, Families: []table.FamilySpec{{Name: table.MarkFamily}}, Spread: true}
	for _, u := range us[:min(len(us), splitUniques)] {
		t := s.Attribute(u.Attribute)
		values := uniqueValues(u.Base, t)
		spec.Splits = append(append(spec.Splits, values), index.Halves(values, t)...)
	}
	return spec
}

// Claim records a unique value that the current operation adds to an entry. The method check
// then checks that no other entry has the value.
func (cs *claims) Claim(x *catalog.Indexed, key []byte, id, parent entry.ID) {
	cs.added = append(cs.added, Claim{x, key, id, parent})
}

// checkNew checks the unique values and the references that an operation has added to an
// entry.
func (tx *Tx) checkNew(ctx context.Context) error {
	if err := tx.claims.check(ctx); err != nil {
		return err
	}
	return tx.references.check(ctx)
}

// check marks the values that an operation has claimed. It returns an error if
// another entry has one of these values.
func (cs *claims) check(ctx context.Context) error {
	claims := cs.added
	cs.added = nil
	for i := range claims {
		for _, base := range claims[i].X.Unique {
			if err := cs.checkOne(ctx, &claims[i], base); err != nil {
				return err
			}
		}
	}
	return nil
}

func (cs *claims) checkOne(ctx context.Context, c *Claim, base entry.ID) error {
	if err := c.X.Whole(); err != nil {
		return err
	}
	in, err := cs.tx.Within(ctx, c.ID, c.parent, base)
	if err != nil {
		return err
	}
	unique := cs.tx.Partition.DB.Table(UniqueTable)
	if !in { // conflict with a move that brings the entry into the scope
		cs.tx.Txn.Mark(unique, base[:], txn.Mark{Kind: txn.MarkChild})
		return nil
	}
	if err := Free(ctx, &cs.tx.Snapshot, c, base); err != nil {
		return err
	}
	cs.tx.Txn.Mark(unique, UniqueRow(base, c.X.Typ, c.Key), txn.Mark{Kind: txn.MarkExclusive})
	return nil
}

// Free returns an error if another entry in the scope has the claimed value. The error
// does not name that entry, because the client may not be allowed to see it.
func Free(ctx context.Context, s *state.Snapshot, c *Claim, base entry.ID) error {
	for o, err := range c.X.Equal(ctx, s.Reader, c.Key, nil) {
		if err != nil {
			return err
		}
		if o.ID == c.ID {
			continue
		}
		in, err := s.Within(ctx, o.ID, o.Parent, base)
		if err != nil {
			return err
		}
		if in {
			return notUnique(c.X.Typ)
		}
	}
	return nil
}

func notUnique(t *schema.AttributeType) error {
	return catalog.Errorf(catalog.Constraint, "attribute %s: another entry has this value, which must be unique", t.Name())
}

func UniqueRow(base entry.ID, t *schema.AttributeType, key []byte) []byte {
	return index.AppendKey(uniqueValues(base, t), key)
}

// uniqueValues returns the beginning of the rows of all values of a type in a scope.
func uniqueValues(base entry.ID, t *schema.AttributeType) []byte {
	return append(append(base[:], t.OID...), 0)
}

// maxClaims bounds the number of entries below an entry that is moved into the scope of a
// unique attribute.
const maxClaims = 5000

// below claims the values of all entries below an entry that moves into a scope from
// outside. The scope has a row in UniqueTable, its border. A transaction that adds a value of
// the attribute outside the scope puts a child mark on the border, and claims.below puts an
// exclusive mark on the border. So a concurrent transaction that adds a value to an entry of
// the moving subtree conflicts with the move.
func (cs *claims) below(ctx context.Context, moved, from, to entry.ID) error {
	var entered []*catalog.Indexed
	for _, x := range cs.tx.Catalog.Ordered {
		enters := false
		for _, base := range x.Unique {
			in, err := isEntered(ctx, &cs.tx.Snapshot, base, from, to)
			if err != nil {
				return err
			}
			if in {
				cs.tx.Txn.Mark(cs.tx.Partition.DB.Table(UniqueTable), base[:], txn.Mark{Kind: txn.MarkExclusive, Deletes: true})
				enters = true
			}
		}
		if enters {
			entered = append(entered, x)
		}
	}
	if len(entered) == 0 {
		return nil
	}
	f := treeDeletion{tx: cs.tx, sel: selectDoomed(cs.tx.Catalog), most: maxClaims + 1}
	if _, err := f.below(ctx, moved); err != nil {
		return err
	}
	if len(f.victims) > maxClaims {
		return catalog.Errorf(catalog.TooMany, "the move takes more than %d entries into a subtree in which %s must be unique: move them in parts", maxClaims, entered[0].Typ.Name())
	}
	for _, d := range f.victims {
		if err := cs.claimEntry(ctx, entered, &d); err != nil {
			return err
		}
	}
	return nil
}

// isEntered reports whether an entry that moves from one parent to another enters the scope
// base.
func isEntered(ctx context.Context, s *state.Snapshot, base, from, to entry.ID) (bool, error) {
	after, err := s.Below(ctx, to, base)
	if err != nil || !after {
		return false, err
	}
	before, err := s.Below(ctx, from, base)
	return err == nil && !before, err
}

// claimEntry claims the values that the entry d has of the attributes in entered. The entry d
// is below a moved entry, and does not change itself.
func (cs *claims) claimEntry(ctx context.Context, entered []*catalog.Indexed, d *victim) error {
	c := newChange(cs.tx, d.id, tree.Parent(d.row.Key), "")
	return cs.tx.eachIndexed(ctx, c, d.row, func(x *catalog.Indexed, keys [][]byte) {
		if !slices.Contains(entered, x) {
			return
		}
		for _, k := range keys {
			cs.Claim(x, k, d.id, c.parent)
		}
	})
}
