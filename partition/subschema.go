package partition

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// SubschemaName is the name of the subschema's entry (RFC 4512, 4.4).
const SubschemaName = "cn=Subschema"

var subschemaDN = dn.DN{{{Type: "cn", Value: []byte("Subschema")}}}

// IsSubschema reports whether a name is the subschema's. It does not normalise:
// every search passes here.
func IsSubschema(name dn.DN) bool {
	if len(name) != 1 || len(name[0]) != 1 || !strings.EqualFold(string(name[0][0].Value), "subschema") {
		return false
	}
	t := name[0][0].Type
	return strings.EqualFold(t, "cn") || strings.EqualFold(t, "commonName") || t == "2.5.4.3"
}

// subschemaID is the subschema's entry, a child of the virtual root as naming
// contexts are, with a history as they have. It holds what the users of the
// directory added to the built-in schema and what they took from it; a directory
// in which nobody did has no such entry. Searches do not meet it: what it shows
// to clients is the whole schema, which is not stored.
var subschemaID = entry.ID{0x85, 0x82, 0xca, 0x4f, 0x1e, 0x7c, 0x45, 0x91, 0xb3, 0xd7, 0xe3, 0xfe, 0x3a, 0xdf, 0xb0, 0x69}

// definable are the attributes of the subschema whose values can be changed;
// removedDefinitions names values of the built-in schema, as "attributeTypes
// 2.5.4.3"; written are all that a change writes.
var definable = []string{"ldapSyntaxes", "attributeTypes", "objectClasses", "dITContentRules", "nameForms", "dITStructureRules"}

const removedDefinitions = "removedDefinitions"

var written = append([]string{removedDefinitions, pendingDefinitions}, definable...)

// A subschema is what a directory's own entry says.
type subschema struct {
	since   table.Revision // of its last change; 0: there is no entry
	added   []schema.Definition
	removed []schema.Definition
	pending *pending // nil: no change is under way
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
			own.added = append(own.added, schema.Definition{Attribute: name, Text: string(v)})
		}
	}
	for _, v := range e.Values(p.base.Attribute(removedDefinitions)) {
		name, oid, _ := strings.Cut(string(v), " ")
		own.removed = append(own.removed, schema.Definition{Attribute: name, Text: oid})
	}
	own.pending, err = readPending(e.Values(p.base.Attribute(pendingDefinitions)))
	return own, err
}

// over makes the schema of a subschema. What it adds counts more than what is
// built in, which may have come with a newer version of the program.
func (own *subschema) over(base *schema.Schema) (*schema.Schema, error) {
	if len(own.added)+len(own.removed) == 0 {
		return base, nil
	}
	builtIn := definitionsOf(base)
	var remove []schema.Definition
	for _, d := range slices.Concat(own.added, own.removed) {
		if k := keyOfDefinition(d); builtIn[k] != "" {
			remove = append(remove, schema.Definition{Attribute: k.attribute, Text: k.oid})
		}
	}
	return base.Change(own.added, remove)
}

// subschemaOf tells what a schema adds to the built-in one and takes from it.
func subschemaOf(s, base *schema.Schema) *subschema {
	own, builtIn := &subschema{}, definitionsOf(base)
	for _, name := range definable {
		for _, text := range s.Definitions(name) {
			d := schema.Definition{Attribute: name, Text: text}
			k := keyOfDefinition(d)
			if builtIn[k] != text {
				own.added = append(own.added, d)
			}
			delete(builtIn, k)
		}
	}
	for k := range builtIn {
		own.removed = append(own.removed, schema.Definition{Attribute: k.attribute, Text: k.oid})
	}
	return own
}

// A definitionKey is what a definition is known by: its first component.
type definitionKey struct{ attribute, oid string }

func keyOfDefinition(d schema.Definition) definitionKey {
	oid := strings.TrimLeft(d.Text, "( ")
	if i := strings.IndexAny(oid, " )"); i >= 0 {
		oid = oid[:i]
	}
	return definitionKey{d.Attribute, oid}
}

// definitionsOf lists the texts of a schema's definitions.
func definitionsOf(s *schema.Schema) map[definitionKey]string {
	all := map[definitionKey]string{}
	for _, name := range definable {
		for _, text := range s.Definitions(name) {
			all[keyOfDefinition(schema.Definition{Attribute: name, Text: text})] = text
		}
	}
	return all
}

// values are what the entry stores of a subschema.
func (own *subschema) values(attribute string) (values [][]byte) {
	switch attribute {
	case pendingDefinitions:
		return own.pending.values()
	case removedDefinitions:
		for _, d := range own.removed {
			values = append(values, []byte(d.Attribute+" "+d.Text))
		}
		slices.SortFunc(values, slices.Compare)
		return values
	}
	for _, d := range own.added {
		if d.Attribute == attribute {
			values = append(values, []byte(d.Text))
		}
	}
	return values
}

// Subschema reads the subschema's entry as it is stored: with the operational
// attributes of its last change, and without what is built in. Nil: the schema
// was never changed. What is only to come is not told.
func (s *Snapshot) Subschema(ctx context.Context) (*entry.Entry, error) {
	e, err := s.Entry(ctx, subschemaID, false)
	if err != nil || e == nil {
		return nil, err
	}
	shown := &entry.Entry{ID: e.ID}
	for _, a := range e.Attributes {
		if a.Type.Name() != pendingDefinitions {
			shown.Attributes = append(shown.Attributes, a)
		}
	}
	return shown, nil
}
