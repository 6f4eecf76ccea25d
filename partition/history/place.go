package history

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// spot returns the place of an entry at this point of the walk. It returns nil if the
// entry does not exist.
func (w *walk) spot(ctx context.Context, id entry.ID) (*spot, error) {
	if at, ok := w.moved[id]; ok {
		return at, nil
	}
	node, err := changestream.Node(ctx, w.From, id)
	if err != nil || node == nil {
		return nil, err
	}
	return &spot{slot{node.Parent, node.NormRDN}, node.UpRDN}, nil
}

// holder returns the entry that has a name at this point of the walk. taken is false if
// no entry has the name.
func (w *walk) holder(ctx context.Context, at slot) (id entry.ID, taken bool, err error) {
	if id, ok := w.taken[at]; ok {
		return id, id != entry.Root, nil
	}
	return changestream.Child(ctx, w.From, at.parent, at.norm)
}

// put records the new place of an entry. A nil place means that the entry is deleted.
func (w *walk) put(ctx context.Context, id entry.ID, at *spot) error {
	was, err := w.spot(ctx, id)
	if err != nil {
		return err
	}
	if was != nil {
		w.taken[was.slot] = entry.Root
		if w.moved[id] != nil {
			w.come[was.parent]--
		}
	}
	if at != nil {
		w.taken[at.slot] = id
		w.come[at.parent]++
	}
	w.moved[id] = at
	return nil
}

// name returns the name of an entry at this point of the walk.
func (w *walk) name(ctx context.Context, id entry.ID) (string, error) {
	at, err := w.spot(ctx, id)
	if err != nil {
		return "", err
	}
	if at == nil {
		return "", table.ErrCorrupt
	}
	if at.parent == entry.Root {
		return at.rdn, nil
	}
	above, err := w.name(ctx, at.parent)
	return at.rdn + "," + above, err
}

// follow returns the attributes of an entry in the state s with the names that entries have at this point of the walk,
// in values that follow the entries and are not among the others too.
func (w *walk) follow(ctx context.Context, s *partition.Snapshot, id entry.ID, as, others []entry.Attribute) (out []entry.Attribute, err error) {
	if !w.Follow {
		return as, nil
	}
	for _, a := range as {
		if follows(w.From, a.Type) {
			var other entry.Attribute
			if b := find(others, &a); b != nil {
				other = *b
			}
			if a.Values, err = w.present(ctx, s, id, &a, without(a.Values, other.Values)); err != nil {
				return nil, err
			}
		}
		if len(a.Values) > 0 {
			out = append(out, a)
		}
	}
	return out, nil
}

// present returns the values of an attribute, with those of the given ones changed that name an entry by another name.
func (w *walk) present(ctx context.Context, s *partition.Snapshot, id entry.ID, a *entry.Attribute, change [][]byte) ([][]byte, error) {
	became := make(map[string][]byte, len(change))
	for _, v := range change {
		is, err := w.named(ctx, s, v)
		if err != nil {
			return nil, err
		}
		became[string(v)] = is
	}
	values := make([][]byte, 0, len(a.Values))
	for _, v := range a.Values {
		is, ok := became[string(v)]
		switch {
		case !ok:
			values = append(values, v)
		case is != nil:
			values = append(values, is)
		default:
			name, err := w.name(ctx, id)
			if err != nil {
				return nil, err
			}
			w.Strangers = append(w.Strangers, fmt.Sprintf("%s of %q does not name %q again: another entry has this name now", a.Description(), name, v))
		}
	}
	return values, nil
}

// named returns the name that an entry which a value names in the state s has at this point of the walk. It returns the
// value if that is the same name, or if there is no such entry, and nil if the entry is gone and another one has its name.
func (w *walk) named(ctx context.Context, s *partition.Snapshot, value []byte) ([]byte, error) {
	id, ok, err := bearer(ctx, s, value)
	if !ok || err != nil {
		return value, err
	}
	there, err := w.spot(ctx, id)
	if err != nil {
		return nil, err
	}
	if there == nil {
		if w.mine[id] {
			return value, nil
		}
		if now, ok, err := bearer(ctx, w.From, value); err != nil || ok && now != id {
			return nil, err
		}
		return value, nil
	}
	is, err := w.name(ctx, id)
	if err != nil || Key(is, w.From.Schema()) == Key(string(value), s.Schema()) {
		return value, err
	}
	return []byte(is), nil
}

// bearer returns the entry that has the name which a value is in a state. ok is false if there is none.
func bearer(ctx context.Context, s *partition.Snapshot, value []byte) (id entry.ID, ok bool, err error) {
	name, err := dn.Parse(string(value))
	if err != nil || len(name) == 0 {
		return id, false, nil
	}
	at, err := s.Find(ctx, name)
	if isMissing(err) {
		return id, false, nil
	}
	return at.ID, err == nil, err
}

// definitions returns the attributes of a subschema that contain definitions.
func definitions(e *entry.Entry) (as []entry.Attribute) {
	for _, a := range e.Attributes {
		if a.Type.Operational() && isUsers(a.Type) && a.Type.Name() != "subtreeSpecification" {
			as = append(as, a)
		}
	}
	return as
}

// definitionChanges returns modifications that redefine and add definitions of one kind, and those that only remove
// definitions.
func definitionChanges(before, after *entry.Entry, description string) (changes, last []op.Modification) {
	values := func(e *entry.Entry) [][]byte {
		i := slices.IndexFunc(e.Attributes, func(a entry.Attribute) bool { return a.Description() == description })
		if i < 0 {
			return nil
		}
		return e.Attributes[i].Values
	}
	was, is := values(before), values(after)
	come, old := without(is, was), without(was, is)
	redefined := map[string]bool{}
	for _, v := range come {
		redefined[identifier(v)] = true
	}
	gone := slices.DeleteFunc(slices.Clone(old), func(v []byte) bool { return redefined[identifier(v)] })
	of := func(kind op.ModKind, values [][]byte) (some []op.Modification) {
		if len(values) > 0 {
			some = append(some, op.Modification{Kind: kind, PartialAttribute: op.PartialAttribute{Description: description, Values: values}})
		}
		return some
	}
	return append(of(op.ModDelete, without(old, gone)), of(op.ModAdd, come)...), of(op.ModDelete, gone)
}

// identifier returns the OID, or the number, with which a definition begins.
func identifier(definition []byte) string {
	fields := bytes.Fields(bytes.TrimLeft(definition, "( "))
	if len(fields) == 0 {
		return ""
	}
	return string(fields[0])
}
