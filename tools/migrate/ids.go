package migrate

import (
	"context"
	"maps"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// The type identities contains the entries that have one id in the synchronization and another id
// in the directory.
type identities struct {
	here     map[entry.ID]entry.ID // from the first id to the second
	complete bool                  // all entries were listed
}

func (x *identities) clone() identities { return identities{maps.Clone(x.here), x.complete} }

// add notes the ids of an entry.
func (x *identities) add(there, here entry.ID) {
	if there != here {
		x.here[there] = here
	}
}

// of returns the id in the directory of the entry with an id in the synchronization.
func (x *identities) of(there entry.ID) entry.ID {
	if here, ok := x.here[there]; ok {
		return here
	}
	return there
}

// listIDs calls each(e) for every entry e that the server has in a subtree, with the id, the name
// and the given attributes of e. listIDs skips entries that cannot be translated or show no id, and
// fills in m.ids.
func (m *Move) listIDs(ctx context.Context, src *Source, base string, attributes []string, each func(*copied)) error {
	attributes = append(attributes, "entryUUID")
	if src.product.id != "" {
		attributes = append(attributes, src.product.id)
	}
	return src.All(ctx, base, attributes, func(e *ldap.Entry) error {
		c, err := m.translation().translate(e)
		if err != nil || c.id == entry.Root {
			return nil
		}
		each(c)
		for _, a := range src.ids(e) {
			m.ids.add(a, c.id)
		}
		return nil
	})
}

// ids returns the ids of an entry in the product's own attribute, which exists besides
// entryUUID.
func (s *Source) ids(e *ldap.Entry) (ids []entry.ID) {
	for _, v := range e.GetEqualFoldAttributeValues(s.product.id) {
		if id, err := entry.ParseID(dashed(v)); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}
