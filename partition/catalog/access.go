package catalog

import (
	"encoding/json"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An AccessRule is the text of an access rule and the id of an entry. The rule applies to
// that entry and to the entries below it. If the id is entry.Root, the rule applies to
// the whole directory. This package does not interpret the text.
type AccessRule struct {
	Place entry.ID
	Text  string
	// Names contains the ids of the entries that the text names, separated by spaces.
	// With the ids, the names in the text can follow renames.
	Names string
}

// Access contains the access rules of a state. Rules is nil if the directory has never had
// access rules.
type Access struct {
	Rules []AccessRule
	Since table.Revision // the commit that wrote the settings
}

type headerAccess struct {
	Place string `json:"place,omitempty"`
	Text  string `json:"text"`
	Names string `json:"names,omitempty"`
}

func (r AccessRule) MarshalJSON() ([]byte, error) {
	h := headerAccess{Text: r.Text, Names: r.Names}
	if r.Place != entry.Root {
		h.Place = r.Place.String()
	}
	return json.Marshal(h)
}

func (r *AccessRule) UnmarshalJSON(b []byte) (err error) {
	var h headerAccess
	if err := json.Unmarshal(b, &h); err != nil {
		return err
	}
	r.Text, r.Names, r.Place = h.Text, h.Names, entry.Root
	if h.Place != "" {
		r.Place, err = entry.ParseID(h.Place)
	}
	return err
}
