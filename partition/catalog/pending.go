package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// Pending is an announced schema, which is not yet in force. Every change of an entry
// must already conform to it.
type Pending struct {
	By  txn.Holder
	Own *Subschema
}

// PendingDefinitions is the attribute of the subschema's entry that contains the
// announced schema. One value identifies the server that announced the schema. Each other
// value is a definition that will be added to the built-in schema or removed from it.
const PendingDefinitions = "pendingDefinitions"

func (c *Pending) values() [][]byte {
	if c == nil {
		return nil
	}
	values := [][]byte{fmt.Appendf(nil, "by %d %d", c.By.Slot, c.By.Incarnation)}
	for _, d := range c.Own.Added {
		values = append(values, []byte("add "+d.Attribute+" "+d.Text))
	}
	for _, d := range c.Own.Removed {
		values = append(values, []byte("remove "+d.Attribute+" "+d.Text))
	}
	return values
}

func readPending(values [][]byte) (*Pending, error) {
	if len(values) == 0 {
		return nil, nil
	}
	c := &Pending{Own: &Subschema{}}
	for _, v := range values {
		kind, rest, _ := strings.Cut(string(v), " ")
		first, text, _ := strings.Cut(rest, " ")
		d := schema.Definition{Attribute: first, Text: text}
		switch kind {
		case "add":
			c.Own.Added = append(c.Own.Added, d)
		case "remove":
			c.Own.Removed = append(c.Own.Removed, d)
		case "by":
			slot, err := strconv.ParseUint(first, 10, 16)
			n, err2 := strconv.ParseUint(text, 10, 64)
			if err := errors.Join(err, err2); err != nil {
				return nil, fmt.Errorf("%s: %w: %w", PendingDefinitions, table.ErrCorrupt, err)
			}
			c.By = txn.Holder{Slot: revision.Slot(slot), Incarnation: n}
		default:
			return nil, fmt.Errorf("%s: a value of kind %q: %w", PendingDefinitions, kind, table.ErrNewer)
		}
	}
	return c, nil
}

// SameAs reports whether two subschemas define the same schema.
func (own *Subschema) SameAs(o *Subschema) bool {
	return slices.Equal(own.sorted(), o.sorted())
}

func (own *Subschema) sorted() (all []string) {
	for _, d := range own.Added {
		all = append(all, "add "+d.Attribute+" "+d.Text)
	}
	for _, d := range own.Removed {
		all = append(all, "remove "+d.Attribute+" "+d.Text)
	}
	slices.Sort(all)
	return all
}

// Announced returns an error unless the commit r wrote the announced schema.
func (c *Catalog) Announced(r table.Revision) error {
	if c.Subschema.Pending == nil || c.Subschema.Since != r {
		return Errorf(Busy, "the change was withdrawn, because other servers considered this one dead: try again")
	}
	return nil
}
