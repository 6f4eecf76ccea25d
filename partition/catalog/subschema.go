package catalog

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// SubschemaName is the name of the subschema's entry (RFC 4512, 4.4).
const SubschemaName = "cn=Subschema"

var SubschemaDN = dn.DN{{{Type: "cn", Value: []byte("Subschema")}}}

// IsSubschema reports whether a name is the name of the subschema's entry. It does not
// normalise the name, because every search calls IsSubschema.
func IsSubschema(name dn.DN) bool {
	return len(name) == 1 && name[0].IsCN("subschema")
}

// SubschemaID is the id of the subschema's entry. Like the entry of a naming context, this
// entry is a child of the virtual root and has a history. It contains the definitions that
// users added to the built-in schema, and names the built-in definitions that users removed.
// Before the first such change, the entry does not exist. Searches do not find the entry:
// clients see the whole schema, which is not stored.
var SubschemaID = entry.ID{0x85, 0x82, 0xca, 0x4f, 0x1e, 0x7c, 0x45, 0x91, 0xb3, 0xd7, 0xe3, 0xfe, 0x3a, 0xdf, 0xb0, 0x69}

// Definable contains the attributes of the subschema whose values can be changed.
// RemovedDefinitions is the attribute that names removed built-in definitions, in the form
// "attributeTypes 2.5.4.3". Written contains the attributes that together define the schema: a
// change of the schema replaces all of them.
var Definable = []string{"ldapSyntaxes", "attributeTypes", "objectClasses", "dITContentRules", "nameForms", "dITStructureRules"}

const RemovedDefinitions = "removedDefinitions"

var Written = append([]string{RemovedDefinitions, PendingDefinitions}, Definable...)

// A Subschema is the decoded content of the subschema's entry.
type Subschema struct {
	Since   table.Revision // the last change; 0: the entry does not exist
	Added   []schema.Definition
	Removed []schema.Definition
	Pending *Pending // nil: no change of the schema is in progress
}

// subschemaSince returns the commit that last changed the subschema.
func (p *Partition) subschemaSince(ctx context.Context, r table.Reader) (table.Revision, error) {
	csn := p.Base.Attribute("entryCSN")
	row, err := r.Get(ctx, p.Master, master.Row(SubschemaID), table.Select{
		Families: []table.Family{master.UpAttributes}, Columns: []table.ColumnRange{master.Columns(csn, "")}})
	if err != nil || len(row.Cells) == 0 {
		return 0, err
	}
	return row.Cells[0].Revision, nil
}

// readSubschema reads the subschema's entry. The types of the entry's attributes are in
// the built-in schema.
func (p *Partition) readSubschema(ctx context.Context, r table.Reader) (*Subschema, error) {
	since, err := p.subschemaSince(ctx, r)
	if err != nil || since == 0 {
		return &Subschema{}, err
	}
	row, err := r.Get(ctx, p.Master, master.Row(SubschemaID), table.Select{Families: []table.Family{master.UpAttributes}})
	if err != nil {
		return nil, err
	}
	attributes, err := master.Decode(row, p.Base)
	if err != nil {
		return nil, err
	}
	own, e := &Subschema{Since: since}, entry.Entry{Attributes: attributes}
	for _, name := range Definable {
		for _, v := range e.Values(p.Base.Attribute(name)) {
			own.Added = append(own.Added, schema.Definition{Attribute: name, Text: string(v)})
		}
	}
	for _, v := range e.Values(p.Base.Attribute(RemovedDefinitions)) {
		name, oid, _ := strings.Cut(string(v), " ")
		own.Removed = append(own.Removed, schema.Definition{Attribute: name, Text: oid})
	}
	own.Pending, err = readPending(e.Values(p.Base.Attribute(PendingDefinitions)))
	return own, err
}

// The method "over" returns the schema that a subschema and the built-in schema define
// together. An added definition overrides the built-in definition, even if a newer version of
// the program has changed the built-in definition.
func (own *Subschema) over(base *schema.Schema) (*schema.Schema, error) {
	if len(own.Added)+len(own.Removed) == 0 {
		return base, nil
	}
	builtIn := DefinitionsOf(base)
	var remove []schema.Definition
	for _, d := range slices.Concat(own.Added, own.Removed) {
		if k := KeyOfDefinition(d); builtIn[k] != "" {
			remove = append(remove, schema.Definition{Attribute: k.Attribute, Text: k.Oid})
		}
	}
	return base.Change(own.Added, remove)
}

// SubschemaOf returns the definitions that a schema adds to the built-in schema and the
// built-in definitions that it removes.
func SubschemaOf(s, base *schema.Schema) *Subschema {
	own, builtIn := &Subschema{}, DefinitionsOf(base)
	for _, name := range Definable {
		for _, text := range s.Definitions(name) {
			d := schema.Definition{Attribute: name, Text: text}
			k := KeyOfDefinition(d)
			if builtIn[k] != text {
				own.Added = append(own.Added, d)
			}
			delete(builtIn, k)
		}
	}
	for k := range builtIn {
		own.Removed = append(own.Removed, schema.Definition{Attribute: k.Attribute, Text: k.Oid})
	}
	return own
}

// A DefinitionKey identifies a definition by its attribute and its first component.
type DefinitionKey struct{ Attribute, Oid string }

func KeyOfDefinition(d schema.Definition) DefinitionKey {
	oid := strings.TrimLeft(d.Text, "( ")
	if i := strings.IndexAny(oid, " )"); i >= 0 {
		oid = oid[:i]
	}
	return DefinitionKey{d.Attribute, oid}
}

// DefinitionsOf returns the text of each definition of a schema.
func DefinitionsOf(s *schema.Schema) map[DefinitionKey]string {
	all := map[DefinitionKey]string{}
	for _, name := range Definable {
		for _, text := range s.Definitions(name) {
			all[KeyOfDefinition(schema.Definition{Attribute: name, Text: text})] = text
		}
	}
	return all
}

// Values returns the values that the subschema's entry stores for an attribute.
func (own *Subschema) Values(attribute string) (values [][]byte) {
	switch attribute {
	case PendingDefinitions:
		return own.Pending.values()
	case RemovedDefinitions:
		for _, d := range own.Removed {
			values = append(values, []byte(d.Attribute+" "+d.Text))
		}
		slices.SortFunc(values, slices.Compare)
		return values
	}
	for _, d := range own.Added {
		if d.Attribute == attribute {
			values = append(values, []byte(d.Text))
		}
	}
	return values
}
