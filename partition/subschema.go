package partition

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// subschemaID is the subschema's entry, a child of the virtual root as naming
// contexts are, with a history as they have. It holds what the users of the
// directory added to the built-in schema; a directory in which nobody did has
// no such entry.
var subschemaID = entry.ID{0x85, 0x82, 0xca, 0x4f, 0x1e, 0x7c, 0x45, 0x91, 0xb3, 0xd7, 0xe3, 0xfe, 0x3a, 0xdf, 0xb0, 0x69}

// definable are the attributes of the subschema, in an order in which
// definitions name only earlier ones.
var definable = []string{"ldapSyntaxes", "attributeTypes", "objectClasses", "dITContentRules", "nameForms", "dITStructureRules"}

// A subschema is what a directory's own entry says.
type subschema struct {
	since table.Revision // of its last change; 0: there is no entry
	added []string       // labelled definitions
}

// subschemaSince reads when the subschema was changed last.
func (p *Partition) subschemaSince(ctx context.Context, r txn.Reader) (table.Revision, error) {
	csn := p.base.Attribute("entryCSN")
	row, err := r.Get(ctx, p.master, master.Row(subschemaID), table.Select{
		Families: []table.Family{master.UpAttributes}, Columns: []table.ColumnRange{master.Columns(csn, "")}})
	if err != nil || len(row.Cells) == 0 {
		return 0, err
	}
	return row.Cells[0].Revision, nil
}

// readSubschema reads the subschema's entry. Its own attributes are built in.
func (p *Partition) readSubschema(ctx context.Context, r txn.Reader) (*subschema, error) {
	since, err := p.subschemaSince(ctx, r)
	if err != nil || since == 0 {
		return &subschema{}, err
	}
	row, err := r.Get(ctx, p.master, master.Row(subschemaID), table.Select{Families: []table.Family{master.UpAttributes}})
	if err != nil {
		return nil, err
	}
	attributes, err := master.Decode(row, p.base)
	if err != nil {
		return nil, err
	}
	own, e := &subschema{since: since}, entry.Entry{Attributes: attributes}
	for _, name := range definable {
		for _, v := range e.Values(p.base.Attribute(name)) {
			own.added = append(own.added, name+": "+string(v))
		}
	}
	return own, nil
}

// over makes the schema of a subschema.
func (own *subschema) over(base *schema.Schema) (*schema.Schema, error) {
	if len(own.added) == 0 {
		return base, nil
	}
	return base.Extend(own.added...)
}
