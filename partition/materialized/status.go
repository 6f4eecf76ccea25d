package materialized

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Status describes whether and up to which revision a view is kept.
type Status struct {
	// State is "kept", "building" or "failed". Until a view is kept, its records are computed
	// from the entries for each reader.
	State  string
	Reason string // why the view failed
	// UpTo is the revision up to which all lanes are kept.
	UpTo table.Revision
}

// StatusOf returns the present status of a view. s must be the state from which the
// definition was read.
func StatusOf(ctx context.Context, s *state.Snapshot, d *Definition) (Status, error) {
	building := Status{State: "building"}
	has, err := hasCells(ctx, s.Partition)
	if err != nil || !has {
		return building, err
	}
	c, err := readCells(ctx, s.Partition, d.ID, d.lanes(s.Partition.DB))
	switch {
	case err != nil:
		return Status{}, err
	case c.generation.Key != d.key:
		return building, nil
	case c.generation.Failed != "":
		return Status{State: "failed", Reason: c.generation.Failed}, nil
	case !c.begun():
		return building, nil
	}
	upTo := revision.Last
	for _, x := range c.cursors {
		upTo = min(upTo, x.W)
	}
	return Status{State: "kept", UpTo: upTo}, nil
}

// Check returns an error with the problem [catalog.Unwilling] if the entry with the given name
// is an invalid definition of a view, or if there are more than MaxViews views.
func Check(ctx context.Context, s *state.Snapshot, name dn.DN) error {
	d, err := Find(ctx, s, name)
	if err != nil || d == nil {
		return err
	}
	defs, wrong, err := Definitions(ctx, s)
	if err == nil && len(defs)+len(wrong) > MaxViews {
		err = catalog.Errorf(catalog.Unwilling, "%s cannot be a view: there are %d views already, which is the limit", name, MaxViews)
	}
	return err
}

// KeyOf returns the key of the record that an RDN names. It returns false if no record of
// the view can have this name.
func (d *Definition) KeyOf(s *schema.Schema, rdn dn.RDN) (string, bool) {
	if len(rdn) != len(d.Groups) {
		return "", false
	}
	var key []byte
	for _, t := range d.Groups {
		i := slices.IndexFunc(rdn, func(a dn.AVA) bool { return s.Attribute(a.Type) == t })
		if i < 0 {
			return "", false
		}
		value, err := t.Equality.Key(rdn[i].Value)
		if err != nil || len(value) > maxKey {
			return "", false
		}
		key = lengthened(key, value)
	}
	return string(key), true
}
