package partition

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/internal/spill"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// A value of a unique attribute is had by one entry of a scope. Whether another
// one has it is seen in the attribute's index, at the transaction's snapshot; and
// that no other transaction takes it at the same time is the work of a mark on the
// value's row of the table unique. The table holds nothing but marks, so there is
// nothing to fill, to take out again or to move along with a subtree.

// uniqueTable is the table of marks: row = scope's id + OID + 00 + the value's key
// as indexes have it; and a row of the scope's id alone, its border.
const uniqueTable = "unique"

var uniqueSpec = table.Spec{Name: uniqueTable, Families: []table.FamilySpec{{Name: txn.MarkFamily}}}

// Unique says that of the entries from Base down no two have the same value of
// an attribute, by its equality rule.
type Unique struct {
	Attribute string
	Base      entry.ID // entry.Root: of all entries
}

type headerUnique struct {
	Attribute string `json:"attribute"`
	Base      string `json:"base"`
}

// uniques makes the header's ready to use: each index knows its scopes.
func (c *catalog) uniques(h *header) error {
	for _, u := range h.Unique {
		base, err := entry.ParseID(u.Base)
		if err != nil {
			return fmt.Errorf("unique %s: %w", u.Attribute, err)
		}
		if x := c.indexes[c.schema.Attribute(u.Attribute)]; x != nil { // else the schema is one without it
			x.unique = append(x.unique, base)
		}
	}
	return nil
}

// keepsUnique refuses to be without what equal values are found by.
func (c *catalog) keepsUnique(t *schema.AttributeType) error {
	if x := c.indexes[t]; x != nil && len(x.unique) > 0 {
		return problem(Unwilling, "%s is unique, and its index is what equal values are found by: end that first", t.Name())
	}
	return nil
}

// A claim is a value of a unique attribute that an operation gives an entry.
type claim struct {
	x          *indexed
	key        []byte
	id, parent entry.ID
}

// claim notes a value that is to be had by one entry only.
func (tx *Tx) claim(x *indexed, key []byte, id, parent entry.ID) {
	tx.claims = append(tx.claims, claim{x, key, id, parent})
}

// settleClaims refuses what an operation gave an entry of values that others
// have, and marks those that it may have.
func (tx *Tx) settleClaims(ctx context.Context) error {
	claims := tx.claims
	tx.claims = nil
	for i := range claims {
		for _, base := range claims[i].x.unique {
			if err := tx.settleClaim(ctx, &claims[i], base); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *Tx) settleClaim(ctx context.Context, c *claim, base entry.ID) error {
	if !c.x.ready {
		return problem(Unwilling, "attribute %s must be unique, and its index is being made: try again", c.x.typ.Name())
	}
	in, err := tx.within(ctx, c.id, c.parent, base)
	if err != nil {
		return err
	}
	unique := tx.p.db.Table(uniqueTable)
	if !in { // but the tree it stands in may be moved inside just now
		tx.tx.Mark(unique, base[:], txn.Mark{Kind: txn.MarkChild})
		return nil
	}
	if err := tx.free(ctx, c, base); err != nil {
		return err
	}
	tx.tx.Mark(unique, uniqueRow(base, c.x.typ, c.key), txn.Mark{Kind: txn.MarkExclusive})
	return nil
}

// free refuses a value that another entry of the scope has. It names no entry:
// the client may not be allowed to see it.
func (s *Snapshot) free(ctx context.Context, c *claim, base entry.ID) error {
	for o, err := range c.x.Values.Equal(ctx, s.r, c.key, nil) {
		if err != nil {
			return err
		}
		if o.ID == c.id {
			continue
		}
		in, err := s.within(ctx, o.ID, o.Parent, base)
		if err != nil {
			return err
		}
		if in {
			return notUnique(c.x.typ)
		}
	}
	return nil
}

func notUnique(t *schema.AttributeType) error {
	return problem(Constraint, "attribute %s: another entry has this value, which must be unique", t.Name())
}

// within reports whether an entry stands at base or below it.
func (s *Snapshot) within(ctx context.Context, id, parent, base entry.ID) (bool, error) {
	if id == base {
		return true, nil
	}
	return s.below(ctx, parent, base)
}

// below reports whether the way up from a parent comes to base.
func (s *Snapshot) below(ctx context.Context, parent, base entry.ID) (bool, error) {
	for parent != base && base != root {
		if parent == root {
			return false, nil
		}
		node, err := s.node(ctx, parent)
		if err != nil {
			return false, err
		}
		if node == nil {
			return false, table.ErrCorrupt
		}
		parent = node.Parent
	}
	return true, nil
}

func uniqueRow(base entry.ID, t *schema.AttributeType, key []byte) []byte {
	row := append(append(base[:], t.OID...), 0)
	return index.AppendKey(row, key)
}

// maxClaims bounds the entries that a move may bring into the scope of a unique
// attribute.
const maxClaims = 5000

// claimBelow claims the values of all entries below one that moves, where it
// comes into a scope from outside. Writers outside mark the scope's border, so
// none of them can add an entry that the move does not see.
func (tx *Tx) claimBelow(ctx context.Context, moved, from, to entry.ID) error {
	var entered []*indexed
	for _, x := range tx.catalog.ordered {
		enters := false
		for _, base := range x.unique {
			in, err := tx.enters(ctx, base, from, to)
			if err != nil {
				return err
			}
			if in {
				tx.tx.Mark(tx.p.db.Table(uniqueTable), base[:], txn.Mark{Kind: txn.MarkExclusive, Deletes: true})
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
	f := felling{tx: tx, ctx: ctx, sel: tx.catalog.selectDoomed(), most: maxClaims + 1}
	if _, err := f.below(moved); err != nil {
		return err
	}
	if len(f.doomed) > maxClaims {
		return problem(TooMany, "the move takes more than %d entries to where %s must be unique: move them in parts", maxClaims, entered[0].typ.Name())
	}
	for _, d := range f.doomed {
		if err := tx.claimEntry(ctx, entered, &d); err != nil {
			return err
		}
	}
	return nil
}

// enters reports whether a move from one parent to another enters a scope.
func (s *Snapshot) enters(ctx context.Context, base, from, to entry.ID) (bool, error) {
	after, err := s.below(ctx, to, base)
	if err != nil || !after {
		return false, err
	}
	before, err := s.below(ctx, from, base)
	return err == nil && !before, err
}

// claimEntry claims the values of an entry that stays as it is.
func (tx *Tx) claimEntry(ctx context.Context, entered []*indexed, d *doomed) error {
	c := newChange(tx.p, tx.catalog, tx, d.id, tree.Parent(d.row.Key), "")
	return tx.eachIndexed(ctx, c, d.row, func(x *indexed, keys [][]byte) {
		if !slices.Contains(entered, x) {
			return
		}
		for _, k := range keys {
			tx.claim(x, k, d.id, c.parent)
		}
	})
}

// Unique tells which attributes are unique and where.
func (p *Partition) Unique() (us []Unique, err error) {
	c, err := p.latest()
	if err != nil {
		return nil, err
	}
	return c.unique(), nil
}

// SetUnique makes an attribute unique, or no longer. From the moment on that
// every server sees to it the entries there are looked through; if two have the
// same value, all is as before, and the error tells where.
func (p *Partition) SetUnique(ctx context.Context, u Unique, on bool) error {
	end, err := p.reshape(ctx)
	if err != nil {
		return err
	}
	defer end()
	if !on {
		return p.endUnique(ctx, u)
	}
	old, err := p.latest()
	if err != nil {
		return err
	}
	h, err := old.withUnique(u, true)
	if err != nil {
		return err
	}
	if err := p.store.Create(ctx, uniqueSpec); err != nil {
		return err
	}
	r, err := p.turnTo(ctx, old, h)
	if err != nil {
		return err
	}
	if err = p.awaitStep(ctx, r); err == nil {
		err = p.findDuplicates(ctx, u)
	}
	if err == nil {
		return nil
	}
	if e := p.endUnique(context.WithoutCancel(ctx), u); e != nil {
		return fmt.Errorf("%w (and %s stays unique from here on: %w)", err, u.Attribute, e)
	}
	return err
}

func (p *Partition) endUnique(ctx context.Context, u Unique) error {
	now, err := p.latest()
	if err != nil {
		return err
	}
	h, err := now.withUnique(u, false)
	if err != nil {
		return err
	}
	_, err = p.turnTo(ctx, now, h)
	return err
}

// turnTo puts another header into force.
func (p *Partition) turnTo(ctx context.Context, from *catalog, h *header) (table.Revision, error) {
	c, err := from.with(h)
	if err != nil {
		return 0, err
	}
	return p.install(ctx, c)
}

// withUnique gives the header with one more unique attribute, or one less.
func (c *catalog) withUnique(u Unique, on bool) (*header, error) {
	t, err := c.indexable(u.Attribute)
	if err != nil {
		return nil, err
	}
	h := *c.header
	is := func(o headerUnique) bool {
		return c.schema.Attribute(o.Attribute) == t && o.Base == u.Base.String()
	}
	there := slices.ContainsFunc(h.Unique, is)
	switch x := c.indexes[t]; {
	case on && there:
		return nil, problem(Unwilling, "%s is unique there already", t.Name())
	case !on && !there:
		return nil, problem(Unwilling, "%s is not unique there", t.Name())
	case on && (x == nil || !x.ready):
		return nil, problem(Unwilling, "%s has no index to find equal values by: make one with reindex", t.Name())
	}
	h.Unique = slices.DeleteFunc(slices.Clone(h.Unique), is)
	if on {
		h.Unique = append(h.Unique, headerUnique{t.Name(), u.Base.String()})
	}
	return &h, nil
}

// maxDuplicates is how many duplicates are named.
const maxDuplicates = 10

// findDuplicates refuses what is not unique.
func (p *Partition) findDuplicates(ctx context.Context, u Unique) error {
	s := p.Snapshot()
	defer s.Close()
	var named []string
	n, err := s.duplicates(ctx, s.catalog.indexes[s.catalog.schema.Attribute(u.Attribute)], u.Base, func(a, b entry.ID) error {
		if len(named) == maxDuplicates {
			return nil
		}
		first, err := s.Name(ctx, a)
		if err != nil {
			return err
		}
		second, err := s.Name(ctx, b)
		named = append(named, first+" and "+second)
		return err
	})
	if err != nil || n == 0 {
		return err
	}
	return problem(Constraint, "%s is not unique: %d values are had by several entries:\n  %s",
		u.Attribute, n, strings.Join(named, "\n  "))
}

// duplicates goes through an index in its order and tells of every entry of a
// scope that has the value of another one. It gives the number of such values.
func (s *Snapshot) duplicates(ctx context.Context, x *indexed, base entry.ID, found func(a, b entry.ID) error) (n int, err error) {
	var row []byte // of the value at hand
	var first entry.ID
	again := false
	for c, err := range x.Values.InOrder(ctx, s.r, false, nil) {
		if err != nil {
			return n, err
		}
		if in, err := s.within(ctx, c.ID, c.Parent, base); err != nil {
			return n, err
		} else if !in {
			continue
		}
		if r := c.Position[:len(c.Position)-len(c.ID)]; row == nil || !bytes.Equal(r, row) {
			row, first, again = append(row[:0], r...), c.ID, false
			continue
		}
		if !again {
			again = true
			n++
		}
		if err := found(first, c.ID); err != nil {
			return n, err
		}
	}
	return n, nil
}

// unique claims the unique values of an entry that a load brings, unless its name
// is taken, which is what its record is refused for then.
func (l *Loader) unique(ctx context.Context, x *Loading, name spill.Key) error {
	c := l.catalog.Load()
	if len(c.header.Unique) == 0 {
		return nil
	}
	if had, found, err := l.names.Get(name); err != nil || found {
		if found {
			err = taken(had)
		}
		return err
	}
	for i := range x.e.attributes {
		a := &x.e.attributes[i]
		ix := c.indexes[a.typ]
		if ix == nil {
			continue
		}
		for _, base := range ix.unique {
			if err := l.uniqueIn(ctx, x, a, ix, base); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Loader) uniqueIn(ctx context.Context, x *Loading, a *newAttribute, ix *indexed, base entry.ID) error {
	in, err := l.within(ctx, x.norms, base)
	if err != nil || !in {
		return err
	}
	for _, key := range a.keys {
		if !l.empty {
			if err := l.s.free(ctx, &claim{x: ix, key: key, id: x.e.id}, base); err != nil {
				return err
			}
		}
		had, found, err := l.ids.Put(hashOf(uniqueRow(base, ix.typ, key)), spill.Value(x.e.id))
		if err != nil {
			return err
		}
		if found && entry.ID(had) != x.e.id {
			return problem(Constraint, "attribute %s: an earlier record has this value, which must be unique", ix.typ.Name())
		}
	}
	return nil
}

// within reports whether a name is in the scope of an entry that was there before
// the load, or that the load is told of.
func (l *Loader) within(ctx context.Context, norms []dn.Norm, base entry.ID) (bool, error) {
	if base == root {
		return true, nil
	}
	scope, ok := l.o.Scopes[base]
	if !ok && l.empty {
		return false, nil
	}
	if !ok {
		name, err := l.s.Name(ctx, base)
		if err != nil {
			return false, err
		}
		if scope, err = dn.Parse(name); err != nil {
			return false, err
		}
	}
	above, err := scope.Normalize(l.catalog.Load().schema)
	n := len(norms) - len(above)
	return err == nil && n >= 0 && slices.Equal(norms[n:], above), err
}
