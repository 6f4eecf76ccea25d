// Package subschema reads the entry that contains a directory's schema (RFC 4512, section
// 4.2).
package subschema

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Name is the name of the subschema's entry.
const Name = catalog.SubschemaName

// ID is the id of the subschema's entry.
var ID = changestream.SubschemaID

// Is reports whether a name is the name of the subschema's entry.
func Is(name dn.DN) bool { return catalog.IsSubschema(name) }

// Entry reads the subschema's entry as it is stored. The result does not include the
// built-in schema. Entry returns nil if the schema was never changed.
func Entry(ctx context.Context, s *partition.Snapshot) (*entry.Entry, error) {
	return s.State().Subschema(ctx)
}

// GoverningRule returns the structure rule that governs an entry, or nil if no rule does.
func GoverningRule(ctx context.Context, s *partition.Snapshot, id entry.ID) (*schema.StructureRule, error) {
	return write.GoverningRule(ctx, s.State(), id)
}
