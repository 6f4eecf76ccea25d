package history

import (
	"bytes"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// delta returns the modifications that turn one list of attributes into another. It ignores
// secret attributes and attributes that users may not change.
func delta(before, after []entry.Attribute) (changes []op.Modification) {
	for i := range before {
		a := &before[i]
		if isUsers(a.Type) && find(after, a) == nil {
			changes = append(changes, modification(op.ModDelete, a, nil))
		}
	}
	for i := range after {
		a := &after[i]
		if !isUsers(a.Type) {
			continue
		}
		if was := find(before, a); was == nil {
			changes = append(changes, modification(op.ModAdd, a, a.Values))
		} else {
			changes = append(changes, values(was, a)...)
		}
	}
	return changes
}

// isUsers reports whether users may change an attribute and the attribute is not secret.
func isUsers(t *schema.AttributeType) bool { return !t.NoUserModification && !t.Secret() }

// find returns the attribute in list that has the same description as a. It compares
// types by their OIDs, because two states may have different schemas.
func find(list []entry.Attribute, a *entry.Attribute) *entry.Attribute {
	for i := range list {
		if list[i].Options == a.Options && (list[i].Type == a.Type || list[i].Type.OID == a.Type.OID) {
			return &list[i]
		}
	}
	return nil
}

func modification(kind op.ModKind, a *entry.Attribute, values [][]byte) op.Modification {
	return op.Modification{Kind: kind, PartialAttribute: op.PartialAttribute{Description: a.Description(), Values: values}}
}

// values returns the modifications that turn the values of one version of an attribute into
// the values of another version. They are a delete of the old values, an add of the new values,
// or both. Instead of these, values returns one replace in three cases: if the type has no
// equality rule, if the type is single-valued, and if the delete and the add would name more
// values than the new version has.
func values(before, after *entry.Attribute) []op.Modification {
	gone, come := without(before.Values, after.Values), without(after.Values, before.Values)
	switch {
	case len(gone)+len(come) == 0:
		return nil
	case after.Type.Equality == nil, before.Type.SingleValue, len(gone)+len(come) > len(after.Values):
		return []op.Modification{modification(op.ModReplace, after, after.Values)}
	}
	var changes []op.Modification
	if len(gone) > 0 { // deletes first: a new value may equal an old one
		changes = append(changes, modification(op.ModDelete, after, gone))
	}
	if len(come) > 0 {
		changes = append(changes, modification(op.ModAdd, after, come))
	}
	return changes
}

// The function "without" returns the values that are not in others.
func without(values, others [][]byte) (rest [][]byte) {
	if slices.EqualFunc(values, others, bytes.Equal) {
		return nil
	}
	known := make(map[string]bool, len(others))
	for _, v := range others {
		known[string(v)] = true
	}
	for _, v := range values {
		if !known[string(v)] {
			rest = append(rest, v)
		}
	}
	return rest
}

// userAttributes returns the attributes of an entry that users may change, without secret
// attributes. A request that adds the entry contains these attributes.
func userAttributes(as []entry.Attribute) (list []op.PartialAttribute) {
	for i := range as {
		if isUsers(as[i].Type) {
			list = append(list, op.PartialAttribute{Description: as[i].Description(), Values: as[i].Values})
		}
	}
	return list
}

// renamed returns the attributes that an entry has after a rename.
func renamed(as []entry.Attribute, s *schema.Schema, old, new dn.RDN, deleteOld bool) []entry.Attribute {
	as = slices.Clone(as)
	if deleteOld {
		for _, v := range old {
			as = withoutValue(as, s.Attribute(v.Type), v.Value)
		}
	}
	for _, v := range new {
		as = withValue(as, s.Attribute(v.Type), v.Value)
	}
	return as
}

func withoutValue(as []entry.Attribute, t *schema.AttributeType, v []byte) []entry.Attribute {
	for i := range as {
		if as[i].Type != t || as[i].Options != "" {
			continue
		}
		as[i].Values = slices.DeleteFunc(slices.Clone(as[i].Values), func(x []byte) bool { return t.SameValue(x, v) })
		if len(as[i].Values) == 0 {
			return slices.Delete(as, i, i+1)
		}
	}
	return as
}

func withValue(as []entry.Attribute, t *schema.AttributeType, v []byte) []entry.Attribute {
	for i := range as {
		if as[i].Type != t || as[i].Options != "" {
			continue
		}
		if !has(&as[i], v) {
			as[i].Values = append(slices.Clip(as[i].Values), v)
		}
		return as
	}
	return append(as, entry.Attribute{Type: t, Values: [][]byte{v}})
}

func has(a *entry.Attribute, v []byte) bool {
	return slices.ContainsFunc(a.Values, func(x []byte) bool { return a.Type.SameValue(x, v) })
}

// keepsNone reports whether an entry has lost every value of the old RDN that is not in the new
// RDN.
func keepsNone(as []entry.Attribute, s *schema.Schema, old, new dn.RDN) bool {
	for _, v := range old {
		t := s.Attribute(v.Type)
		if t == nil || slices.ContainsFunc(new, func(n dn.AVA) bool { return s.Attribute(n.Type) == t && t.SameValue(n.Value, v.Value) }) {
			continue
		}
		if a := find(as, &entry.Attribute{Type: t}); a != nil && has(a, v.Value) {
			return false
		}
	}
	return true
}
