package verify

import (
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// nameInTree returns the RDN in the row key of a child of parent, or the whole name of a naming
// context. It returns false if the key contains a value whose text cannot be derived from its
// normalised form, or if the RDN was too long for the key.
func nameInTree(s *schema.Schema, parent entry.ID, key []byte) (string, bool) {
	norms := []dn.Norm{dn.Norm(key)}
	if parent == catalog.Root {
		var err error
		if norms, err = dn.SplitKey(key); err != nil {
			return "", false
		}
	}
	name := make(dn.DN, len(norms))
	for i, n := range norms {
		var ok bool
		if name[i], ok = rdnOf(s, n); !ok {
			return "", false
		}
	}
	return name.String(), len(name) > 0
}

// rdnOf returns an RDN whose normalised form is n.
func rdnOf(s *schema.Schema, n dn.Norm) (r dn.RDN, ok bool) {
	for _, part := range n.AVAs() {
		t := s.StoredAs(part.Type)
		if t == nil {
			return nil, false
		}
		// The key of a text value may begin or end with spaces that are not part of the value.
		r = append(r, dn.AVA{Type: t.Name(), Value: []byte(strings.Trim(part.Key, " "))})
	}
	again, err := r.Normalize(s)
	return r, err == nil && again == n
}
