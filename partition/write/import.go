package write

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// Founder is the creatorsName of the entries that a new directory begins with. An import may
// replace such an entry as long as neither it nor anything below it has been changed.
const Founder = "cn=init"

// Import adds an entry as Add does with keep. If an equal entry exists, Import changes nothing
// and returns true. If a founding entry exists, Import replaces it.
func (tx *Tx) Import(ctx context.Context, name dn.DN, attributes []op.PartialAttribute) (there bool, err error) {
	_, err = tx.Add(ctx, name, attributes, true)
	if p := (*catalog.Error)(nil); !errors.As(err, &p) || p.Problem != catalog.EntryExists {
		return false, err
	}
	pl, e := tx.Locate(ctx, name)
	if e != nil || !pl.Found {
		return false, cmp.Or(e, err)
	}
	given, err := Prepare(tx.Catalog.Types, name, attributes, GivenByImport)
	if err != nil {
		return false, err
	}
	replaces, err := Meet(ctx, &tx.Snapshot, &tx.Snapshot, pl.ID, given)
	if replaces {
		if given.ID == catalog.Root {
			given.ID = pl.ID
		}
		return false, tx.Replace(ctx, name, attributes, given.ID)
	}
	return err == nil, err
}

// Meet compares an entry of an import with the existing entry of the same name, whose id is
// given. It reports whether the new entry replaces the existing one. Otherwise it returns an
// error if the two differ. Operational attributes do not count. Whether the existing entry is a
// founding entry depends on the state first.
func Meet(ctx context.Context, s, first *state.Snapshot, id entry.ID, e *NewEntry) (replaces bool, err error) {
	differ, err := differences(ctx, s, id, e)
	if err != nil || len(differ) == 0 && (e.ID == catalog.Root || e.ID == id) {
		return false, err
	}
	if replaces, err = founding(ctx, first, id); replaces || err != nil || len(differ) == 0 {
		return replaces, err
	}
	return false, catalog.Errorf(catalog.EntryExists, "the store has an entry of this name already, which differs in %s: make the two equal, or leave the record out", strings.Join(differ, ", "))
}

// differences returns the descriptions of the user attributes in which a new entry differs from
// an existing one.
func differences(ctx context.Context, s *state.Snapshot, id entry.ID, e *NewEntry) (names []string, err error) {
	old, err := s.Entry(ctx, id, true)
	if err == nil && old == nil {
		err = table.ErrCorrupt
	}
	if err != nil {
		return nil, err
	}
	had, has := map[string][][]byte{}, map[string][][]byte{} // keys by description
	for i := range old.Attributes {
		a := &old.Attributes[i]
		for _, v := range a.Values {
			if err := keep(had, a, v); err != nil {
				return nil, err
			}
		}
	}
	for i := range e.Attributes {
		a := entry.Attribute{Type: e.Attributes[i].Typ, Options: e.Attributes[i].options}
		for _, v := range e.Attributes[i].values {
			if err := keep(has, &a, v); err != nil {
				return nil, err
			}
		}
	}
	for d := range had {
		if !sameSet(had[d], has[d]) {
			names = append(names, d)
		}
	}
	for d := range has {
		if had[d] == nil {
			names = append(names, d)
		}
	}
	slices.Sort(names)
	return names, nil
}

// keep adds the key of a value to keys, or the value if its type has no keys. It does nothing for
// an operational attribute.
func keep(keys map[string][][]byte, a *entry.Attribute, v []byte) error {
	if a.Type.Operational() {
		return nil
	}
	key, err := catalog.KeyOf(a.Type, v)
	if key == nil {
		key = v
	}
	keys[a.Description()] = append(keys[a.Description()], key)
	return err
}

// sameSet reports whether two sets of keys are equal. It sorts both.
func sameSet(a, b [][]byte) bool {
	slices.SortFunc(a, bytes.Compare)
	slices.SortFunc(b, bytes.Compare)
	return slices.EqualFunc(a, b, bytes.Equal)
}

// mostFounding bounds the number of founding entries below one entry.
const mostFounding = 1000

// founding reports whether the Founder made an entry and all entries below it, and nobody has
// changed them.
func founding(ctx context.Context, s *state.Snapshot, id entry.ID) (bool, error) {
	e, err := s.Entry(ctx, id, false)
	if err != nil || e == nil {
		return false, err
	}
	for _, t := range []*schema.AttributeType{s.Catalog.CreatorsName, s.Catalog.ModifiersName} {
		if !slices.ContainsFunc(e.Attributes, func(a entry.Attribute) bool { return a.Type == t && string(a.Values[0]) == Founder }) {
			return false, nil
		}
	}
	ids, err := children(ctx, s, id)
	if len(ids) > mostFounding {
		return false, err
	}
	for _, id := range ids {
		if is, err := founding(ctx, s, id); err != nil || !is {
			return false, err
		}
	}
	return err == nil, err
}

// children returns the ids of the children of an entry, but of no more than one above
// mostFounding.
func children(ctx context.Context, s *state.Snapshot, id entry.ID) (ids []entry.ID, err error) {
	for row, err := range s.Reader.Scan(ctx, s.Partition.Tree, tree.Children(id), table.Select{Families: []table.Family{tree.TreeInfo}, MaxRows: mostFounding + 1}) {
		if err != nil {
			return nil, err
		}
		child, ok := tree.ID(row)
		if !ok {
			return nil, table.ErrCorrupt
		}
		ids = append(ids, child)
	}
	return ids, nil
}

// Replace puts an imported entry in the place of a founding entry, with the given id. The founding
// entries below keep their ids.
func (tx *Tx) Replace(ctx context.Context, name dn.DN, attributes []op.PartialAttribute, id entry.ID) error {
	pl, err := tx.existing(ctx, name)
	if err != nil {
		return err
	}
	kept, err := tx.subtree(ctx, pl.ID, name)
	if err != nil {
		return err
	}
	if _, _, err := tx.DeleteTree(ctx, name, len(kept)); err != nil {
		return err
	}
	kept[0].attributes = slices.DeleteFunc(slices.Clone(attributes), func(a op.PartialAttribute) bool {
		return tx.Catalog.Schema.Attribute(a.Description) == tx.Catalog.EntryUUID
	})
	kept[0].attributes = append(kept[0].attributes, op.Attribute(tx.Catalog.EntryUUID.Name(), id.String()))
	for _, k := range kept {
		if _, err := tx.Add(ctx, k.name, k.attributes, true); err != nil {
			return err
		}
	}
	return nil
}

type namedEntry struct {
	name       dn.DN
	attributes []op.PartialAttribute
}

// subtree returns an entry and the entries below it, each entry before those below it.
func (tx *Tx) subtree(ctx context.Context, id entry.ID, name dn.DN) ([]namedEntry, error) {
	e, err := tx.Entry(ctx, id, true)
	if err != nil {
		return nil, err
	}
	all := []namedEntry{{name: name}}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		all[0].attributes = append(all[0].attributes, op.PartialAttribute{Description: a.Description(), Values: a.Values})
	}
	ids, err := children(ctx, &tx.Snapshot, id)
	for _, id := range ids {
		node, err := tx.Node(ctx, id)
		if err != nil {
			return nil, err
		}
		rdn, err := dn.ParseRDN(node.UpRDN)
		if err != nil {
			return nil, err
		}
		below, err := tx.subtree(ctx, id, append(dn.DN{rdn}, name...))
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, err
}
